"""How often people are accused at a rate of false positives, in and out of the calibration domain, over random splits.

    python benchmarks/false_positives.py --splits 20 --rate 0.05

From the energies of people's texts that the default detector is calibrated on: no LM is run. Half of the texts
of all domains calibrate and the other half are asked about; or three domains calibrate and the fourth is asked
about, of which only half the texts, by chance, are taken.
"""

import argparse
import random
from collections.abc import Iterator

import torch

from lexergy.core.detection.assistant import ASSISTANT
from lexergy.core.detection.zero_shot import SCORERS
from lexergy.core.estimation.findings import clopper_pearson
from lexergy.core.text_measures.two_sample import two_sample_p_value
from lexergy.models.detection.default import SCORER, known_people
from lexergy.models.detection.people import UNLIKE, FalsePositives, PeopleTexts, accuse

ALL = "all domains"


def splits(people: PeopleTexts, count: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """The name of each split, and the numbers of the texts to calibrate on and to ask about."""
    domains = list(dict.fromkeys(people.domains))
    for seed in range(count):
        generator = random.Random(seed)
        order = generator.sample(range(len(people)), len(people))
        yield ALL, order[: len(order) // 2], order[len(order) // 2 :]
        for domain in domains:
            own = [place for place in order if people.domains[place] == domain]
            yield domain, [place for place in order if people.domains[place] != domain], own[: len(own) // 2]


def chosen(people: PeopleTexts, places: list[int]) -> PeopleTexts:
    return PeopleTexts(
        tuple(people.energies[place] for place in places),
        tuple(people.tokens[place] for place in places),
        tuple(people.domains[place] for place in places),
        tuple(people.styles[place] for place in places),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--scorer", choices=[ASSISTANT, *SCORERS], default=SCORER)
    options = parser.parse_args()
    people = known_people(options.scorer)
    accused: dict[str, list[float]] = {}
    warned: dict[str, list[bool]] = {}
    above: dict[str, int] = {}
    for name, calibration, asked in splits(people, options.splits):
        known, texts = chosen(people, calibration), chosen(people, asked)
        found = accuse(known, texts.energies, texts.tokens, FalsePositives(options.rate))
        share = sum(own.verdict == "machine" for own in found) / len(found)
        accused.setdefault(name, []).append(share)
        above[name] = above.get(name, 0) + (clopper_pearson(share, len(found)).low > options.rate)
        rows = [torch.tensor(own.styles, dtype=torch.double) for own in (known, texts)]
        warned.setdefault(name, []).append(two_sample_p_value(*rows) <= UNLIKE)
    print(f"| asked about | people accused at {options.rate:g} | splits whose interval lies above | warned |")
    print("|---|---:|---:|---:|")
    for name, shares in accused.items():
        mean = sum(shares) / len(shares)
        print(f"| {name} | {mean:.3f} | {above[name]} of {len(shares)} | {sum(warned[name])} of {len(shares)} |")


if __name__ == "__main__":
    main()
