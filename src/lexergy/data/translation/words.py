"""Sentence pairs as words: of a file such as Tatoeba's, and of IWSLT'14 German-English where a user has it."""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lexergy.data.folder import locate
from lexergy.data.reading import read_text
from lexergy.data.translation.pairs import Pair, load_pairs, split_pairs
from lexergy.errors import LexergyError

WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL)
TATOEBA = "data:tatoeba_de_en/deu.txt"
VALIDATION_EVERY = 23  # line of IWSLT's training text, as Ranzato et al. (2016) took them


class WordPair(NamedTuple):
    source: tuple[str, ...]
    target: tuple[str, ...]


class WordPairSplits(NamedTuple):
    train: list[WordPair]
    validation: list[WordPair]
    test: list[WordPair]


class ReadWordPairs(NamedTuple):
    """The parts, and what is to be told of their reading."""

    splits: WordPairSplits
    messages: list[str]


def words_of(sentence: str) -> tuple[str, ...]:
    """Words in lower case: letters and digits, joined by hyphens and apostrophes; each other sign stands alone."""
    return tuple(WORD.findall(sentence.lower()))


def load_word_pairs(
    source: str | Path,
    *,
    source_column: int = 0,
    target_column: int = 1,
    max_words: int | None = None,
    max_pairs: int | None = None,
    validation: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
) -> ReadWordPairs:
    """Pairs of 1 to `max_words` words on either side, and at most `max_pairs` of them to learn from, evenly spread.

    `source` is `tatoeba-de-en` (German to English, below `$LEXERGY_DATA`), a tab-separated file, which is split by
    `split_pairs` before long sentences are left out, or a folder of IWSLT'14 (`load_iwslt14`).
    """
    if source == "tatoeba-de-en":
        source, source_column, target_column = TATOEBA, 1, 0
    messages: list[str] = []
    if locate(source).is_dir():
        parts = load_iwslt14(locate(source))
    else:
        file = load_pairs(source, source_column=source_column, target_column=target_column)
        messages = file.messages()
        splits = split_pairs(file.pairs, validation=validation, test=test, seed=seed)
        parts = WordPairSplits(*([_as_words(pair) for pair in part] for part in splits))
    short = WordPairSplits(*([pair for pair in part if _fits(pair, max_words)] for part in parts))
    for name, part in short._asdict().items():
        if not part:
            raise LexergyError(f"`max_words` is {max_words} and leaves no pairs of {source} for {name}; raise it.")
    return ReadWordPairs(short._replace(train=_spread(short.train, max_pairs)), messages)


def _spread(pairs: list[WordPair], most: int | None) -> list[WordPair]:
    if most is None or len(pairs) <= most:
        return pairs
    return [pairs[number * len(pairs) // most] for number in range(most)]


def load_iwslt14(folder: str | Path, *, source: str = "de", target: str = "en") -> WordPairSplits:
    """The pairs of IWSLT'14 (Cettolo et al. 2014), one of

    - prepared: `train.de`, `train.en`, `valid.*`, `test.*`, a sentence per line, its words separated by blanks;
    - as published: `train.tags.de-en.de`, whose lines in tags are left out and every 23rd of the others validates, and
      `IWSLT14.*.de-en.de.xml`, all of which are the test (dev2010, dev2012 and tst2010-2012: 6,750 sentences).
    """
    folder = Path(folder)
    languages = (source, target)
    direction = f"{source}-{target}"
    if (folder / f"train.{source}").is_file():
        return WordPairSplits(
            *(
                _aligned(*([tuple(line.split()) for line in _lines(folder / f"{part}.{side}")] for side in languages))
                for part in ("train", "valid", "test")
            )
        )
    tagged = [folder / f"train.tags.{direction}.{side}" for side in languages]
    published = sorted(folder.glob(f"IWSLT14.*.{direction}.{source}.xml"))
    if not tagged[0].is_file() or not published:
        raise LexergyError(
            f"the folder {folder} holds no pairs of sentences; expected train.{source}, train.{target}, valid.* and "
            f"test.*, or IWSLT'14's train.tags.{direction}.{source} and IWSLT14.*.{direction}.{source}.xml."
        )
    pairs = _aligned(*([words_of(line) for line in _lines(path) if not line.startswith("<")] for path in tagged))
    test = [
        pair
        for path in published
        for pair in _aligned(*(_segments(path.with_suffix("").with_suffix(f".{side}.xml")) for side in languages))
    ]
    return WordPairSplits(
        [pair for number, pair in enumerate(pairs, start=1) if number % VALIDATION_EVERY],
        pairs[VALIDATION_EVERY - 1 :: VALIDATION_EVERY],
        test,
    )


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise LexergyError(f"{path} does not exist; expected both languages of all parts in the folder.")
    return [line.strip() for line in read_text(path).removesuffix("\n").split("\n")]


def _segments(path: Path) -> list[tuple[str, ...]]:
    text = "\n".join(_lines(path))
    return [words_of(html.unescape(segment)) for segment in SEGMENT.findall(text)]


def _aligned(sources: Sequence[tuple[str, ...]], targets: Sequence[tuple[str, ...]]) -> list[WordPair]:
    if len(sources) != len(targets):
        raise LexergyError(f"there are {len(sources)} sources and {len(targets)} targets; expected a line for a line.")
    return [WordPair(*pair) for pair in zip(sources, targets, strict=True)]


def _as_words(pair: Pair) -> WordPair:
    return WordPair(words_of(pair.source), words_of(pair.target))


def _fits(pair: WordPair, max_words: int | None) -> bool:
    lengths = [len(pair.source), len(pair.target)]
    return min(lengths) > 0 and (max_words is None or max(lengths) <= max_words)
