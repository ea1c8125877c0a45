"""Detection without training on news by people and by LMs that are no assistants: the AUC of every scorer.

    python benchmarks/zero_shot_news.py read --folder $LEXERGY_DATA --cache smollm2.safetensors
    python benchmarks/zero_shot_news.py read --folder $LEXERGY_DATA --cache gemma.safetensors \\
        --lm gemma3-270m --pairs 40
    python benchmarks/zero_shot_news.py table --folder $LEXERGY_DATA --cache smollm2.safetensors \\
        --second gemma.safetensors --brown package --public runs/public --samples samples.jsonl

Of the 500 pairs of $LEXERGY_DATA/detect the last 250, or the first of those that were read, are asked about; on the
first 250 TF-IDF is fitted, the simplest peer, which is trained, and of OPT-2.7B's the score `sample`. The words of
`assistant` were fitted on the people's side of the file of GPT-2 XL, so that it and the default come a second time,
fitted anew without any news of the BBC, and so without OPT-2.7B. A second LM reads the first of those pairs only and is
compared on them. Intervals are by bootstrap over articles.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from assistant_wording import machines_of, people_of, public_texts
from left_out import ONE_SOURCE, PER_GROUP, fitted
from lm_samples import BBC, known_samples, sample_without
from safetensors.torch import load_file
from torch import Tensor
from zero_shot import BLOCK_TOKENS, FIRST, GENERATORS, cell, keep

from lexergy import CausalLM
from lexergy.core.detection.assistant import ASSISTANT, AssistantScore
from lexergy.core.detection.classification import classification_metrics
from lexergy.core.detection.machine import MACHINE
from lexergy.core.detection.sample import SAMPLE
from lexergy.core.detection.zero_shot import BITS_RATIO, SCORERS, TokenStatistics, bits_ratio
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.files import hash_of
from lexergy.models.detection.default import LM, machine_score
from lexergy.models.detection.readers import tokenise
from lexergy.models.detection.wording import wording_of
from lexergy.models.detection.zero_shot import FittedScore
from lexergy.tasks.detection.baselines import tf_idf_energies

SIDES = ("human", "machine")


@dataclass(frozen=True)
class Pairs:
    """A person's text and an LM's of each article, people's first: 2 N texts."""

    texts: list[str]

    @property
    def is_machine(self) -> list[bool]:
        return [place >= len(self.texts) // 2 for place in range(len(self.texts))]

    @property
    def articles(self) -> list[int]:
        return [place % (len(self.texts) // 2) for place in range(len(self.texts))]

    def auc(self, scores: Tensor) -> str:
        return cell(classification_metrics(scores, torch.tensor(self.is_machine), self.articles).auc)


def pairs_of(folder: Path, generator: str, first: int, last: int | None) -> Pairs:
    lines = (folder / f"detect/xsum_{generator}.jsonl").read_text().splitlines()[first:last]
    return Pairs([json.loads(line)[side] for side in SIDES for line in lines])


def read(folder: Path, cache: Path, lm: str, pairs: int | None) -> None:
    last = None if pairs is None else FIRST + pairs
    keep([text for name in GENERATORS for text in pairs_of(folder, name, FIRST, last).texts], lm, cache)


class Read:
    """Texts of which an LM's statistics are known."""

    def __init__(self, caches: Sequence[Path], lm: str) -> None:
        self.known = {name: own for path in caches for name, own in load_file(path).items()}
        self.tokenizer = CausalLM.from_pretrained(lm).need_tokenizer()

    def of_those(self, pairs: Pairs) -> Pairs:
        """The pairs that were read."""
        half = len(pairs.texts) // 2
        both = zip(pairs.texts[:half], pairs.texts[half:], strict=True)
        read = [pair for pair in both if all(hash_of(text) in self.known for text in pair)]
        return Pairs([pair[side] for side in (0, 1) for pair in read])

    def statistics(self, text: str) -> TokenStatistics:
        return TokenStatistics(*self.known[hash_of(text)].double().T)

    def ids(self, text: str) -> Tensor:
        return torch.tensor(tokenise(self.tokenizer, whole_sentences(plain_text(text))).ids[:BLOCK_TOKENS])

    def characters(self, text: str) -> int:
        """Those that tokens after the first stand for."""
        own = tokenise(self.tokenizer, whole_sentences(plain_text(text))).first(BLOCK_TOKENS)
        return len(own.text) - own.characters[0][1]

    def fitted(self, score: FittedScore) -> Callable[[str], float]:
        def of(text: str) -> float:
            wording = wording_of(self.tokenizer, self.ids(text), score.common)
            return float(score.terms(self.statistics(text), wording).mean())

        return of


def scores(pairs: Pairs, score: Callable[[str], float]) -> Tensor:
    return torch.tensor([score(text) for text in pairs.texts], dtype=torch.double)


def table(folder: Path, cache: Sequence[Path], second: Path | None, brown: Path, public: Path, samples: Path) -> None:
    first = Read(cache, LM)
    shipped = machine_score()
    unseen = replace(
        shipped,
        assistant=without_news(folder, brown, public),
        sample=sample_without(known_samples(folder, samples, first.known), first.known, BBC),
    )
    asked = {name: first.of_those(pairs_of(folder, name, FIRST, None)) for name in GENERATORS}
    by_scorer: dict[str, Callable[[str], float]] = {
        **{name: _mean(first, name) for name in SCORERS},
        **{
            f"{name}{how}": first.fitted(own)
            for score, how in ((shipped, ""), (unseen, ", fitted without the BBC"))
            for name, own in ((ASSISTANT, score.assistant), (SAMPLE, score.sample), (MACHINE, score))
        },
    }
    print(_head(asked))
    for name, score in by_scorer.items():
        print(f"| {name} | {' | '.join(own.auc(scores(own, score)) for own in asked.values())} |", flush=True)
    for trained in GENERATORS:
        train = pairs_of(folder, trained, 0, FIRST)
        energies = [tf_idf_energies(*_plain(train), _plain(own)[0]) for own in asked.values()]
        cells = [own.auc(found) for own, found in zip(asked.values(), energies, strict=True)]
        print(f"| TF-IDF trained on {trained} | {' | '.join(cells)} |", flush=True)
    if second is not None:
        compare(folder, first, Read([second], "gemma3-270m"), by_scorer)


def compare(folder: Path, first: Read, second: Read, by_scorer: dict[str, Callable[[str], float]]) -> None:
    """Both LMs, and the two of them, on the pairs that the second has read."""
    few = {name: second.of_those(pairs_of(folder, name, FIRST, None)) for name in GENERATORS}

    def ratio(text: str) -> float:
        own = (first.statistics(text), first.characters(text), second.statistics(text), second.characters(text))
        return float(bits_ratio(*own).mean())

    rows = {f"SmolLM2, {name}": score for name, score in by_scorer.items()}
    rows |= {f"Gemma, {name}": _mean(second, name) for name in SCORERS} | {BITS_RATIO: ratio}
    print(f"\n{_head(few)}")
    for name, score in rows.items():
        print(f"| {name} | {' | '.join(own.auc(scores(own, score)) for own in few.values())} |", flush=True)


def without_news(folder: Path, brown: Path, public: Path) -> AssistantScore:
    """The score `assistant` with the wording fitted without news of the BBC, wherever they come from."""
    people, machines = public_texts(public, PER_GROUP)
    both = [*people_of(folder, brown, spared=True), *people]
    return fitted(tuple(own for own in both if not own.group.startswith(ONE_SOURCE[0])), (*machines_of(), *machines))


def _head(asked: dict[str, Pairs]) -> str:
    names = [f"{name}, {len(own.texts) // 2} pairs" for name, own in asked.items()]
    return f"| | {' | '.join(names)} |\n|---|---:|---:|"


def _mean(known: Read, scorer: str) -> Callable[[str], float]:
    return lambda text: float(SCORERS[scorer](known.statistics(text)).mean())


def _plain(pairs: Pairs) -> tuple[list[str], list[bool]]:
    return [whole_sentences(plain_text(text)) for text in pairs.texts], pairs.is_machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    reading, comparing = commands.add_parser("read"), commands.add_parser("table")
    for command in (reading, comparing):
        command.add_argument("--folder", type=Path, required=True)
    reading.add_argument("--cache", type=Path, required=True)
    comparing.add_argument("--cache", type=Path, nargs="+", required=True)
    reading.add_argument("--lm", default=LM)
    reading.add_argument("--pairs", type=int, help="of each generator; 250 unless told")
    comparing.add_argument("--second", type=Path)
    comparing.add_argument("--brown", type=Path, required=True)
    comparing.add_argument("--public", type=Path, required=True)
    comparing.add_argument("--samples", type=Path, required=True)
    options = vars(parser.parse_args())
    {"read": read, "table": table}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
