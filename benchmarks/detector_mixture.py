"""The default detector as a mixture of two kinds of machines, assistants and samples of LMs: how it was chosen.

    python benchmarks/public_texts.py --clones clones --out runs/public
    python benchmarks/lm_samples.py write --folder $LEXERGY_DATA --brown package --public runs/public \\
        --out samples.jsonl
    python benchmarks/zero_shot.py read --texts runs/public/asked/*.jsonl --cache smollm2.safetensors
    python benchmarks/lm_samples.py read --folder $LEXERGY_DATA --samples samples.jsonl --cache smollm2.safetensors
    python benchmarks/detector_mixture.py --folder $LEXERGY_DATA --brown package --public runs/public \\
        --samples samples.jsonl --cache smollm2.safetensors [--write] [--sets runs/zero-shot/sets.json]

The score `sample` is fitted on people's texts and what LMs made of their first words: samples.jsonl, and the first 250
pairs of OPT-2.7B in $LEXERGY_DATA/detect. What a score is worth, and the share of either kind, come of texts whose
writers and people the scores were not fitted on: of samples, each source by the others, and OPT-2.7B's by halves; of
assistants, Glimpse, ImBD and L2R, each row with the wording fitted without its collection, maker and people. The
share of samples is the largest that costs these assistants' rows at most LOSS of their mean AUC at its best: samples
are seen as far as it costs assistants hardly anything there.
Ghostbuster, Slop Score, `today`, the later texts, GPT-2 XL and OPT-2.7B's last 250 pairs take no part in the choice,
but LOSS was set with what `--sets` prints of them in view.
With `--write` the numbers are kept in sample.json and machine.json.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from assistant_wording import machines_of, people_of, public_texts
from left_out import FEWEST, PER_GROUP, Fitting, auc, fitted, rows_of, same_people
from lm_samples import BBC, OPT, Sample, fit_sample, folds, known_samples, sample_without
from read_texts import Known, ReadText, read_text, texts_of
from safetensors.torch import load_file
from zero_shot import write_numbers

from lexergy.core.detection.assistant import ASSISTANT, AssistantScore
from lexergy.core.detection.calibration import Calibration, fit_calibration
from lexergy.core.detection.machine import KINDS, MACHINE, MachineScore, mixed
from lexergy.core.detection.sample import MEASURES, SAMPLE, SampleScore
from lexergy.models import detection
from lexergy.models.detection.default import LM, PEOPLE_FILE, machine_score, numbers_file
from lexergy.models.detection.zero_shot import FittedScore

LENGTHS = (50, 100, 200)  # tokens of pieces that a score's worth is fitted on
CHOSEN_ON = ("glimpse", "l2r")  # collections; ImBD is Glimpse's
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7)  # of samples
LOSS = 0.001  # of AUC on assistants, for the sake of samples


@dataclass(frozen=True)
class Judged:
    """Scores of pieces of texts by people and machines."""

    scores: list[float]
    tokens: list[int]
    is_machine: list[bool]
    texts: list[str]

    def add(self, text: ReadText, name: str, is_machine: bool, score: AssistantScore | SampleScore) -> None:
        whole = len(text.ids)
        for count in (*(length for length in LENGTHS if length < whole), min(whole, LENGTHS[-1])):
            self.scores.append(text.first(count).score(score))
            self.tokens.append(count)
            self.is_machine.append(is_machine)
            self.texts.append(name)

    def worth(self) -> Calibration:
        return fit_calibration(
            torch.tensor(self.scores), torch.tensor(self.tokens), torch.tensor(self.is_machine), self.texts
        )


def worth_of_samples(samples: Sequence[Sample], known: Known) -> Calibration:
    """From scores by what was fitted on others."""
    judged = Judged([], [], [], [])
    for asked, others in folds(samples):
        score = fit_sample(others, known)
        for own in asked:
            judged.add(read_text(own.human, known), own.human, False, score)
            if own.is_fitted_on:
                judged.add(read_text(own.machine, known), own.machine, True, score)
    return judged.worth()


@dataclass(frozen=True)
class Asked:
    """Texts of people and of one kind of machine, with scores that were fitted on neither."""

    name: str
    people: list[ReadText]
    machines: list[ReadText]
    assistant: AssistantScore
    sample: SampleScore

    def auc(self, score: FittedScore) -> float:
        sides = [np.array([text.score(score) for text in own]) for own in (self.people, self.machines)]
        return float(auc(*sides))

    def by(self, ratios: tuple[Calibration, Calibration], share: float) -> float:
        return self.auc(MachineScore(self.assistant, self.sample, ratios, (1 - share, share)))


def assistants_of(fitting: Fitting, samples: Sequence[Sample], known: Known, public: Path) -> Iterator[Asked]:
    """Rows that the choice is made on, each by what was fitted without its collection, maker and people."""
    for row in rows_of(public / "asked"):
        both = [texts_of(path, known) for path in (row.people, row.machines)]
        if row.collection in CHOSEN_ON and min(map(len, both)) >= FEWEST:
            unseen = fitting.without(row)
            yield Asked(
                row.machines.stem,
                *([read_text(text, known).first(LENGTHS[-1]) for text in own] for own in both),
                fitted(tuple(unseen.people), tuple(unseen.machines)),
                sample_without(samples, known, row.people.stem),
            )


def samples_of(fitting: Fitting, samples: Sequence[Sample], known: Known) -> Asked:
    """Half of OPT-2.7B's, by a wording fitted without news of the BBC and measures without this half."""
    *_, (own, others) = folds(samples)
    people = tuple(text for text in fitting.people if not same_people(text.group, BBC))
    return Asked(
        OPT,
        [read_text(sample.human, known).first(LENGTHS[-1]) for sample in own],
        [read_text(sample.machine, known).first(LENGTHS[-1]) for sample in own],
        fitted(people, tuple(fitting.machines)),
        fit_sample(others, known),
    )


def worth_of_assistants(asked: Sequence[Asked]) -> Calibration:
    judged = Judged([], [], [], [])
    for row in asked:
        for place, own in enumerate((row.people, row.machines)):
            for number, text in enumerate(own):
                judged.add(text, f"{row.name} {place} {number}", bool(place), row.assistant)
    return judged.worth()


def choose(assistants: Sequence[Asked], sampled: Asked, ratios: tuple[Calibration, Calibration]) -> float:
    """The share of samples; prints the AUC at each."""
    alone = float(np.mean([row.auc(row.assistant) for row in assistants]))
    print(f"assistant alone: {alone:.3f} on assistants, {sampled.auc(sampled.assistant):.3f} on samples")
    print(
        f"sample alone: {np.mean([row.auc(row.sample) for row in assistants]):.3f}, {sampled.auc(sampled.sample):.3f}"
    )
    means = {}
    for share in SHARES:
        means[share] = float(np.mean([row.by(ratios, share) for row in assistants]))
        print(f"share of samples {share:g}: {means[share]:.4f}, {sampled.by(ratios, share):.3f}", flush=True)
    return max(share for share, mean in means.items() if mean >= max(means.values()) - LOSS)


def frontier(public: Path, sets: Path, caches: Sequence[Path]) -> None:
    """What each share is worth where nothing was chosen, as the scores are shipped: the mean AUC of rows."""
    known = {name: own for path in caches for name, own in load_file(path).items()}
    score = machine_score()
    rows: dict[str, list[list[np.ndarray]]] = {}  # by collection; people's and machines' L (N, 2)
    for row in rows_of(public / "asked", sets):
        both = [texts_of(path, known) for path in (row.people, row.machines)]
        if min(map(len, both)) >= FEWEST:
            rows.setdefault(row.collection, []).append([_ratios(own, known, score) for own in both])
    print(f"| share of samples | {' | '.join(rows)} |\n|---|{'---:|' * len(rows)}")
    for share in (0.0, *SHARES, 1.0):
        with np.errstate(divide="ignore"):
            log_shares = np.log([1 - share, share])
        means = [
            np.mean([auc(*(np.logaddexp(*(side + log_shares).T) for side in row)) for row in own])
            for own in rows.values()
        ]
        print(f"| {share:g} | {' | '.join(f'{mean:.3f}' for mean in means)} |")


def _ratios(texts: Sequence[str], known: Known, score: MachineScore) -> np.ndarray:  # (N, 2)
    read = [read_text(text, known).first(LENGTHS[-1]) for text in texts]
    kinds = zip(score.ratios, (score.assistant, score.sample), strict=True)
    tokens = torch.tensor([len(own.ids) for own in read])
    return np.stack(
        [ratio.log_odds(torch.tensor([own.score(kind) for own in read]), tokens).numpy() for ratio, kind in kinds], 1
    )


def fit(folder: Path, brown: Path, public: Path, samples: Path, cache: Sequence[Path], write: bool) -> None:
    known = {name: own for path in cache for name, own in load_file(path).items()}
    own = known_samples(folder, samples, known)
    print(Counter(one.generator for one in own))
    people, machines = public_texts(public, PER_GROUP)
    fitting = Fitting([*people_of(folder, brown, spared=False), *people], [*machines_of(), *machines])
    assistants = list(assistants_of(fitting, own, known, public))
    ratios = worth_of_assistants(assistants), worth_of_samples(own, known)
    print(dict(zip(KINDS, ratios, strict=True)))
    share = choose(assistants, samples_of(fitting, own, known), ratios)
    print(f"chosen: {share:g}")
    if write:
        home = Path(detection.__file__).parent
        weights = dict(zip(MEASURES, (float(f"{own:.5g}") for own in fit_sample(own, known).weights), strict=True))
        write_numbers(home / numbers_file(SAMPLE), {"lm": LM, "weights": weights})
        path = home / numbers_file(MACHINE)
        before = json.loads(path.read_text()) if path.exists() else {}
        record = {
            "lm": LM,
            "ratios": dict(zip(KINDS, map(asdict, ratios), strict=True)),
            "shares": dict(zip(KINDS, (round(1 - share, 4), share), strict=True)),
        }
        write_numbers(path, before | record)
        write_people(home / PEOPLE_FILE)


def write_people(path: Path) -> None:
    """The energies of people's texts by `sample` and `machine`, from what people.json knows of them: no LM is run."""
    record = json.loads(path.read_text())
    energies = {name: np.array(own) for name, own in record["energies"].items()}
    score = machine_score()
    columns = (
        energies["likelihood"],
        energies["likelihood"] / energies["ratio"],
        10 * (energies["rank-tail"] - energies["tail-varentropy"]),
        -energies["log-rank"],
        energies["rank-tail"],
    )  # in the order of MEASURES
    by_sample = np.stack(columns, -1) @ np.array(score.sample.weights)
    ratios = [
        ratio.log_odds(torch.tensor(own), torch.tensor(record["tokens"]))
        for ratio, own in zip(score.ratios, (energies[ASSISTANT], by_sample), strict=True)
    ]
    both = [mixed(torch.stack(own).unsqueeze(1), score.shares).item() for own in zip(*ratios, strict=True)]
    for name, own in ((SAMPLE, by_sample), (MACHINE, both)):
        record["energies"][name] = [round(float(value), 5) for value in own]
    write_numbers(path, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "brown", "public", "samples"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--cache", type=Path, nargs="+", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--sets", type=Path, help="of `zero_shot.py sets`: ask what each share is worth elsewhere")
    options = vars(parser.parse_args())
    sets = options.pop("sets")
    if sets is None:
        fit(**options)
    else:
        frontier(options["public"], sets, options["cache"])


if __name__ == "__main__":
    main()
