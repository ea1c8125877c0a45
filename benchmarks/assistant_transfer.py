"""How far the default detector carries: to collections, machines and people that it was not fitted on.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/zero_shot.py sets --folder $LEXERGY_DATA --brown package --out runs/zero-shot
    python benchmarks/zero_shot.py read --texts runs/public/asked/*.jsonl runs/zero-shot/*.jsonl \\
        --cache smollm2.safetensors
    python benchmarks/assistant_transfer.py --folder $LEXERGY_DATA --brown package --public runs/public \\
        --sets runs/zero-shot/sets.json --samples samples.jsonl --cache smollm2.safetensors

A row is people's texts and an assistant's, all cut to as many tokens. `unseen`: for each row the wording is
fitted anew, without the collection, without all assistants of the maker, and without the people's source wherever it
comes from; of ours, without the kind and the people's corpus. The score `sample` is fitted without the people's source.
TF-IDF is fitted without collection and people's source, but with the maker's other texts. Of the last samples of
GPT-2 XL and OPT-2.7B nothing of either LM and no news of the BBC is fitted on. `shipped` is a score as it
is, which has seen other texts of these collections but `today`. What a score is worth and the share of samples stay as
they are: none of these rows has a part in them but Glimpse's and L2R's (`detector_mixture.py`). What a wording is was
chosen with half of the rows in view, each left out of its own fit. Intervals are by bootstrap over texts, those of a
file drawn alike in all rows that it is in.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from assistant_wording import TOKENS, Text, ids, machines_of, people_of, public_texts, tokenizer
from left_out import FEWEST, PER_GROUP, Fitting, Row, auc, fitted, rows_of
from lm_samples import Sample, known_samples, sample_without
from read_texts import Known, ReadText, read_text, texts_of
from safetensors.torch import load_file
from zero_shot import GENERATORS, SAMPLES

from lexergy.core.detection.machine import MachineScore
from lexergy.core.detection.zero_shot import SCORERS
from lexergy.models.detection.default import machine_score
from lexergy.tasks.detection.baselines import tf_idf_energies

BOOTSTRAP = 1000
UNSEEN = "machine, unseen"
HELD_OUT = ("ghostbuster", "slop", "today", "later", *GENERATORS)  # collections
PLAIN = ("likelihood", "log-rank", "curvature", "ratio", "rank-tail", "tail-varentropy")


@cache
def tf_idf(people: tuple[Text, ...], machines: tuple[Text, ...], asked: tuple[str, ...]) -> dict[str, float]:
    read = [_cut(own.text) for own in (*people, *machines)]
    is_machine = [number >= len(people) for number in range(len(read))]
    energies = tf_idf_energies(read, is_machine, [_cut(text) for text in asked])
    return dict(zip(asked, energies.tolist(), strict=True))


def _cut(text: str) -> str:
    return str(tokenizer().decode(list(ids(text)[:TOKENS])))


def scorers(
    row: Row, fitting: Fitting, samples: list[Sample], known: Known, shipped: MachineScore
) -> dict[str, Callable[[ReadText], float]]:
    unseen = replace(
        shipped,
        assistant=fitted(*_pair(fitting.without(row))),
        sample=sample_without(samples, known, row.people.stem),
    )
    return {
        UNSEEN: lambda text: text.score(unseen),
        "machine, shipped": lambda text: text.score(shipped),
        "assistant, unseen": lambda text: text.score(unseen.assistant),
        "assistant, shipped": lambda text: text.score(shipped.assistant),
        "sample, unseen": lambda text: text.score(unseen.sample),
        "its wording alone": lambda text: float(
            unseen.assistant.wording.terms(text.wording(unseen), len(text.tokens.log_prob)).mean()
        ),
        **{
            name: lambda text, own=own: float(own(text.tokens).mean()) for name, own in SCORERS.items() if name in PLAIN
        },
    }


def scores(
    row: Row,
    fitting: Fitting,
    samples: list[Sample],
    known: Known,
    shipped: MachineScore,
    asked: tuple[str, ...],
) -> dict[str, list[np.ndarray]]:
    """Of people's and machines' texts (N,) each, by scorer."""
    by_scorer: dict[str, list[np.ndarray]] = {}
    named = scorers(row, fitting, samples, known, shipped)
    for texts in (texts_of(path, known) for path in (row.people, row.machines)):
        read = [read_text(text, known).first(TOKENS) for text in texts]
        own = {name: [by(text) for text in read] for name, by in named.items()}
        if asked:
            by_words = tf_idf(*_pair(fitting.without(row, makers=False)), asked)
            own["TF-IDF"] = [by_words[text] for text in texts]
        for name, values in own.items():
            by_scorer.setdefault(name, []).append(np.array(values))
    return by_scorer


def _pair(fitting: Fitting) -> tuple[tuple[Text, ...], tuple[Text, ...]]:
    return tuple(fitting.people), tuple(fitting.machines)


def drawn(values: np.ndarray, path: Path) -> np.ndarray:  # (n,) -> (R, n)
    """Both texts of a pair are drawn together."""
    name = path.stem.removeprefix("bbc-").removeprefix(SAMPLES)
    places = np.random.default_rng(list(name.encode())).integers(len(values), size=(BOOTSTRAP, len(values)))
    return values[places]


@dataclass(frozen=True)
class Area:
    """AUC, a mean over rows, with what it is in texts drawn anew."""

    values: np.ndarray  # (rows,)
    drawn: np.ndarray  # (R,)

    @classmethod
    def of(cls, rows: Sequence[tuple[float, np.ndarray]]) -> "Area":
        return cls(np.array([value for value, _ in rows]), np.mean([own for _, own in rows], 0))

    def __str__(self) -> str:
        low, high = np.quantile(self.drawn, (0.025, 0.975))
        return f"{self.values.mean():.3f} ({low:.3f} to {high:.3f})"

    def below(self, other: "Area") -> str:
        low, high = np.quantile(other.drawn - self.drawn, (0.025, 0.975))
        return f"{low:+.3f} to {high:+.3f}"


Areas = dict[str, dict[str, Area]]  # by collection and scorer


def by_collection(areas: Areas) -> Iterator[str]:
    """The mean over the rows of each, the least row, and how much better the default is."""
    for name, own in areas.items():
        yield f"\n{name}, {len(own[UNSEEN].values)} rows: mean (95 %), least; {UNSEEN} minus it (95 %)"
        for scorer, area in own.items():
            yield f"{scorer}: {area}, {area.values.min():.2f}; {area.below(own[UNSEEN])}"


def together(areas: Areas) -> Iterator[str]:
    """All collections that nothing was chosen on: each scorer's mean, and where it is worst."""
    held_out = {name: areas[name] for name in HELD_OUT if name in areas}
    yield f"\n| | {' | '.join(held_out)} | mean | least | {UNSEEN} minus it |\n|---|{'---:|' * (len(held_out) + 3)}"
    means = {}
    for scorer in next(iter(held_out.values())):
        own = [area[scorer] for area in held_out.values()]
        means[scorer] = Area.of([(area.values.mean(), area.drawn) for area in own])
        cells = [*map(str, own), str(means[scorer]), f"{means[scorer].values.min():.2f}"]
        yield f"| {scorer} | {' | '.join(cells)} | {means[scorer].below(means[UNSEEN])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "brown", "public", "sets", "samples"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cache", type=Path, nargs="+", required=True)
    parser.add_argument("--tf-idf", action="store_true")
    options = parser.parse_args()
    known = {name: own for path in options.cache for name, own in load_file(path).items()}
    people, machines = public_texts(options.public, PER_GROUP)
    fitting = Fitting([*people_of(options.folder, options.brown, spared=False), *people], [*machines_of(), *machines])
    shipped = machine_score()
    samples = known_samples(options.folder, options.samples, known)
    rows = [
        row
        for row in rows_of(options.public / "asked", options.sets)
        if min(len(texts_of(path, known)) for path in (row.people, row.machines)) >= FEWEST
    ]
    texts = (text for row in rows for path in (row.people, row.machines) for text in texts_of(path, known))
    asked = tuple(dict.fromkeys(texts)) if options.tf_idf else ()
    found: dict[str, dict[str, list[tuple[float, np.ndarray]]]] = {}
    for row in rows:
        print(f"{row.machines.stem} beside {row.people.stem}", end="")
        for name, (ours, theirs) in scores(row, fitting, samples, known, shipped, asked).items():
            value = float(auc(ours, theirs))
            both = value, auc(drawn(ours, row.people), drawn(theirs, row.machines))
            found.setdefault(row.collection, {}).setdefault(name, []).append(both)
            print(f" | {name} {value:.3f}", end="", flush=True)
        print()
    areas = {name: {scorer: Area.of(rows) for scorer, rows in own.items()} for name, own in found.items()}
    print("\n".join((*by_collection(areas), *together(areas))))


if __name__ == "__main__":
    main()
