"""Universal Dependencies: a composed label for each word, which says of its syntax what a CCG supertag says."""

from collections.abc import Iterator, Sequence

from lexergy.data.tagging.sentences import CONLLU_COLUMNS, FORM, UPOS, TaggedSentence, sentence_blocks
from lexergy.data.texts import Unreadable

HEAD, RELATION = 6, 7  # columns of CoNLL-U
CORE_ARGUMENTS = frozenset({"nsubj", "csubj", "obj", "iobj", "ccomp", "xcomp"})


def composed_labels(tags: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> tuple[str, ...]:
    r"""A label for each word of a dependency tree: `tag|relation direction \left... /right...`, without blanks.

    - *tag*: the universal part of speech;
    - *relation* to the head, with its subtype (`nsubj:pass`);
    - *direction* of the head: `<` it stands to the left, `>` to the right; nothing at the root (head 0);
    - `\` before each core argument to the left, `/` before each to the right, in the order of the sentence and
      without subtypes. Core arguments are the dependents nsubj, csubj, obj, iobj, ccomp and xcomp.

    "She gave him books": `PRON|nsubj>`, `VERB|root\nsubj/iobj/obj`, `PRON|iobj<`, `NOUN|obj<`. As in CCG, a verb's
    label says what it takes on either side, and a noun's what it is taken for. `heads` count words from 1.
    """
    arguments = [""] * len(tags)
    for position, (head, relation) in enumerate(zip(heads, relations, strict=True), start=1):
        core = relation.split(":")[0]
        if head and core in CORE_ARGUMENTS:
            arguments[head - 1] += ("\\" if position < head else "/") + core
    directions = ["" if head == 0 else "<" if head < position else ">" for position, head in enumerate(heads, start=1)]
    return tuple(map("{}|{}{}{}".format, tags, relations, directions, arguments))


def parse_composed(text: str, name: str, labelled: bool = True) -> Iterator[TaggedSentence | Unreadable]:
    """The sentences of a CoNLL-U file with composed labels; multiword tokens and empty words are left out."""
    for block in sentence_blocks(text):
        rows = [row for row in block if not row.cells[0].startswith("#")]
        ragged = next((row for row in rows if len(row.cells) != CONLLU_COLUMNS), None)
        if ragged is not None:
            reason = f"It has {len(ragged.cells)} columns; expected CoNLL-U's {CONLLU_COLUMNS}, separated by tabs."
            yield Unreadable(f"{name}:{ragged.number}", reason)
            continue
        rows = [row for row in rows if row.cells[0].isdecimal()]
        heads = [row.cells[HEAD] for row in rows]
        place = f"{name}:{(rows or block)[0].number}"
        if not rows:
            yield Unreadable(place, "The sentence has no words.")
        elif not all(head.isdecimal() and float(head) <= len(rows) for head in heads):
            yield Unreadable(place, f"The heads are {' '.join(heads)}; expected numbers from 0 to {len(rows)}.")
        else:
            tags, relations = ([row.cells[column] for row in rows] for column in (UPOS, RELATION))
            labels = composed_labels(tags, [int(head) for head in heads], relations) if labelled else None
            yield TaggedSentence(place, tuple(row.cells[FORM] for row in rows), labels)
