"""How often people are accused at a rate of false positives, in and out of the calibration domain, and at what price.

    python benchmarks/false_positives.py splits --splits 20 --rate 0.05
    python benchmarks/false_positives.py price --texts runs/public/asked/*.jsonl --cache smollm2.safetensors

`splits` takes the energies of people's texts that the default detector is calibrated on: no LM is run. Half of the
texts of all domains calibrate and the other half are asked about; or all domains but one calibrate and half of that
one's texts, by chance, are asked about.

`price` takes all of them to calibrate on and asks about texts of people and assistants that `zero_shot.py read` has
read, those of a file together: the share accused by the worst domain's p-value, which is what the detector does, by
that of all domains as one pool, and by that of one domain that the user names (`--domain`) for texts of its kind. 95 %
intervals are binomial (Clopper and Pearson 1934).
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from read_texts import read_text, texts_of
from safetensors.torch import load_file

from lexergy.core.detection.zero_shot import SCORERS
from lexergy.core.estimation.findings import clopper_pearson
from lexergy.core.text_measures.two_sample import two_sample_p_value
from lexergy.models.detection.default import SCORER, fitted_score, known_people
from lexergy.models.detection.people import UNLIKE, FalsePositives, PeopleTexts, accuse
from lexergy.models.detection.zero_shot import FITTED

ALL = "all domains"
RATES = (0.01, 0.05)
NAMED = {"essays": "essays", "news": "news", "stories": "fiction", "reviews": "web", "answers": "web"}
WORST, POOL, OWN = "worst domain", "one pool", "named domain"


def split(people: PeopleTexts, count: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """The name of each split, and the numbers of the texts to calibrate on and to ask about."""
    domains = list(dict.fromkeys(people.domains))
    for seed in range(count):
        generator = random.Random(seed)
        order = generator.sample(range(len(people)), len(people))
        yield ALL, order[: len(order) // 2], order[len(order) // 2 :]
        for domain in domains:
            own = [place for place in order if people.domains[place] == domain]
            yield domain, [place for place in order if people.domains[place] != domain], own[: len(own) // 2]


def splits(splits: int, rate: float, scorer: str) -> None:
    people = known_people(scorer)
    accused: dict[str, list[float]] = {}
    pooled: dict[str, list[float]] = {}
    warned: dict[str, list[bool]] = {}
    above: dict[str, int] = {}
    for name, calibration, asked in split(people, splits):
        known, texts = people.chosen(calibration), people.chosen(asked)
        share = _accused(known, texts.energies, texts.tokens, rate)
        accused.setdefault(name, []).append(share)
        pooled.setdefault(name, []).append(_accused(one_pool(known), texts.energies, texts.tokens, rate))
        above[name] = above.get(name, 0) + (clopper_pearson(share, len(asked)).low > rate)
        rows = [torch.tensor(own.styles, dtype=torch.double) for own in (known, texts)]
        warned.setdefault(name, []).append(two_sample_p_value(*rows) <= UNLIKE)
    print(f"| asked about | people accused at {rate:g} | splits above | warned | one pool |")
    print("|---|---:|---:|---:|---:|")
    for name, shares in accused.items():
        means = [sum(own[name]) / len(shares) for own in (accused, pooled)]
        print(f"| {name} | {means[0]:.3f} | {above[name]} | {sum(warned[name])} | {means[1]:.3f} |")


def one_pool(people: PeopleTexts) -> PeopleTexts:
    return replace(people, domains=tuple("all" for _ in people.domains))


def _accused(people: PeopleTexts, energies: Sequence[float], tokens: Sequence[int], rate: float) -> float:
    found = accuse(people, energies, tokens, FalsePositives(rate))
    return sum(own.verdict == "machine" for own in found) / len(found)


def price(texts: list[Path], cache: list[Path]) -> None:
    known = {name: own for path in cache for name, own in load_file(path).items()}
    score, people = fitted_score(SCORER), known_people(SCORER)
    columns = [(rate, name) for rate in RATES for name in (WORST, POOL, OWN)]
    print(f"| file | texts | {' | '.join(f'{rate:g}, {name}' for rate, name in columns)} |")
    print(f"|---|---:|{'---:|' * len(columns)}")
    together: dict[str, list[tuple[int, list[float]]]] = {}
    for path in texts:
        read = [read_text(text, known) for text in texts_of(path, known)]
        if read:
            energies, tokens = [own.score(score) for own in read], [len(own.ids) for own in read]
            named = next((people.of_domain(own) for kind, own in NAMED.items() if kind in path.stem), people)
            rules = {WORST: people, POOL: one_pool(people), OWN: named}
            shares = [_accused(rules[name], energies, tokens, rate) for rate, name in columns]
            kind = "people" if path.stem.endswith("-people") else path.stem.split("-")[0]
            together.setdefault(kind, []).append((len(read), shares))
            print(_line(path.stem, len(read), shares))
    for name, own in together.items():
        count = sum(size for size, _ in own)
        means = [sum(size * shares[place] for size, shares in own) / count for place in range(len(columns))]
        print(_line(f"*{name}, all*", count, means))


def _line(name: str, count: int, shares: Sequence[float]) -> str:
    found = [clopper_pearson(share, count) for share in shares]
    return f"| {name} | {count} | {' | '.join(f'{own.value:.2f} ({own.low:.2f} to {own.high:.2f})' for own in found)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    splitting = commands.add_parser("splits")
    splitting.add_argument("--splits", type=int, default=20)
    splitting.add_argument("--rate", type=float, default=0.05)
    splitting.add_argument("--scorer", choices=[*FITTED, *SCORERS], default=SCORER)
    pricing = commands.add_parser("price")
    pricing.add_argument("--texts", type=Path, nargs="+", required=True)
    pricing.add_argument("--cache", type=Path, nargs="+", required=True)
    options = vars(parser.parse_args())
    {"splits": splits, "price": price}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
