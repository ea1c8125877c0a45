"""How far a detector's probabilities can be trusted: calibration by length, on another generator and another corpus.

    python benchmarks/detection_calibration.py --folder $LEXERGY_DATA/detect --cache runs/detection --pairs 180

The head on SmolLM2-135M's likelihood moments, trained on GPT-2 XL's half of the pairs as in `benchmarks/detection.py`,
calibrated in three ways on the same validation texts: a temperature, or a scale and a bias, of whole texts, and by
length. Tested on other articles: their last 8, 16, 32, ... tokens, the whole and its spans, with texts of GPT-2 XL and
of OPT-2.7B; and on addresses, which people wrote. Features are read from the cache of `benchmarks/detection.py read`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from detection import (
    ADDRESSES,
    BLOCK_TOKENS,
    ENDINGS_FILE,
    FEATURES_FILE,
    GENERATORS,
    addresses,
    cached_endings,
    cached_features,
    load_pairs,
    of_generator,
    shown,
)
from scipy.optimize import minimize_scalar
from torch import Tensor

from lexergy import CausalLM
from lexergy.core.detection.calibration import Calibration, fit_calibration, fit_offset
from lexergy.core.detection.classification import calibration_error
from lexergy.files import hash_of
from lexergy.models.detection.blocks import Block
from lexergy.models.detection.detector import SPAN_TOKENS, Detector, DetectorSettings
from lexergy.models.detection.readers import StatesReader
from lexergy.models.energies import StatesEnergy
from lexergy.tasks.detection.calibrating import cut_lengths, endings
from lexergy.tasks.detection.examples import Example, split_examples
from lexergy.tasks.detection.prepared import prepare_texts
from lexergy.tasks.detection.states import fit_texts, states_detector

TEMPERATURE, SCALE_AND_BIAS, BY_LENGTH = "temperature", "scale and bias", "by length"
OWN_BIAS = "by length, own bias"
WHOLE, SPANS = "whole", "spans of 16"


class Pieces(NamedTuple):
    """Parts of texts: their energies, tokens, writers and texts, and how they were cut."""

    energies: Tensor  # (N,)
    tokens: Tensor  # (N,)
    is_machine: Tensor  # (N,) bool
    texts: list[int]
    cuts: list[str]

    def where(self, wanted: Sequence[str]) -> "Pieces":
        own = [place for place, cut in enumerate(self.cuts) if cut in wanted]
        rows = torch.tensor(own)
        return Pieces(
            self.energies[rows],
            self.tokens[rows],
            self.is_machine[rows],
            [self.texts[place] for place in own],
            [self.cuts[place] for place in own],
        )


@torch.inference_mode()
def pieces_of(
    detector: Detector, features: dict[str, Tensor], ends: dict[str, Tensor], examples: Sequence[Example]
) -> Pieces:
    """Ends of texts where they were read, whole texts and their spans, as `detect train` cuts them."""
    assert isinstance(detector.reader, StatesReader)
    head = detector.reader.energy
    rows: list[tuple[float, int, bool, int, str]] = []
    for number, example in enumerate(examples):
        key, text = hash_of(example.text), detector.read(example.text)
        energies = head.of_features(features[key]).double().flatten()  # (L - 1,)
        energies = torch.cat((energies.mean()[None], energies))
        rows.append((float(energies.mean()), len(text.ids), example.is_machine, number, WHOLE))
        if key in ends:
            lengths = cut_lengths(len(text.ids))
            for part, own in zip(endings(text)[:-1], head.of_features(ends[key]).flatten().tolist(), strict=True):
                name = next(str(length) for length in lengths if length >= len(part.ids))
                rows.append((own, len(part.ids), example.is_machine, number, name))
        for start, end in text.words(Block(0, len(text.ids)), SPAN_TOKENS):
            rows.append((float(energies[start:end].mean()), end - start, example.is_machine, number, SPANS))
    energy, tokens, is_machine, texts, cuts = zip(*rows, strict=True)
    return Pieces(
        torch.tensor(energy, dtype=torch.double),
        torch.tensor(tokens),
        torch.tensor(is_machine),
        list(texts),
        list(cuts),
    )


def calibrations(pieces: Pieces) -> dict[str, tuple[Calibration, Calibration]]:
    """By method: of texts, and of spans. The first is what Lexergy did before, with its discount of spans."""
    whole = pieces.where([WHOLE])
    cuts = pieces.where([name for name in dict.fromkeys(pieces.cuts) if name != SPANS])
    spans = pieces.where([SPANS])
    temperature = fit_temperature(whole)
    discounted = Calibration(temperature.slope * (SPAN_TOKENS / float(whole.tokens.double().mean())) ** 0.5)
    blind = fit_calibration(whole.energies, torch.ones_like(whole.tokens), whole.is_machine, whole.texts)
    biased = Calibration(blind.slope, blind.offset)
    by_length = (fit_calibration(own.energies, own.tokens, own.is_machine, own.texts) for own in (cuts, spans))
    of_texts, of_spans = by_length
    return {
        TEMPERATURE: (temperature, discounted),
        SCALE_AND_BIAS: (biased, biased),
        BY_LENGTH: (of_texts, of_spans),
    }


def with_offset(fitted: tuple[Calibration, Calibration], pieces: Pieces) -> tuple[Calibration, Calibration]:
    """As `lexergy detect calibrate` does from texts of another generator."""
    cuts = pieces.where([name for name in dict.fromkeys(pieces.cuts) if name != SPANS])
    of_texts, of_spans = (
        fit_offset(calibration, own.energies, own.tokens, own.is_machine, own.texts)
        for calibration, own in zip(fitted, (cuts, pieces.where([SPANS])), strict=True)
    )
    return of_texts, of_spans


def fit_temperature(whole: Pieces) -> Calibration:
    """P(machine) = sigmoid(E / T), Guo et al. 2017, with Platt's targets, the classes weighed alike."""
    sizes = torch.where(whole.is_machine, whole.is_machine.sum(), (~whole.is_machine).sum()).double()
    targets = torch.where(whole.is_machine, (sizes + 1) / (sizes + 2), 1 / (sizes + 2))

    def loss(log_slope: float) -> float:
        logits = whole.energies * 10**log_slope
        return float(((torch.nn.functional.softplus(logits) - targets * logits) / sizes).sum())

    return Calibration(10 ** minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)


def measures(log_odds: Tensor, is_machine: Tensor) -> tuple[float, float, float]:
    """Expected calibration error, log loss, and the mean probability less 1/2; the classes weigh the same."""
    weights = torch.where(is_machine, 0.5 / is_machine.sum(), 0.5 / (~is_machine).sum()).double()
    loss = torch.nn.functional.softplus(torch.where(is_machine, -log_odds, log_odds))
    error = calibration_error(log_odds.sigmoid(), is_machine, torch.ones(1, len(log_odds), dtype=torch.double))
    return float(error), float(weights @ loss), float(weights @ log_odds.sigmoid()) - 0.5


def calibration(folder: Path, cache: Path, pairs: int, num_splits: int, generators: Sequence[str]) -> None:
    detector = states_detector([CausalLM.from_pretrained("smollm2-135m")], (), DetectorSettings(BLOCK_TOKENS))
    examples = load_pairs(folder, pairs, generators)
    people = [Example(text, False, "addresses", str(number)) for number, text in enumerate(addresses(ADDRESSES))]
    texts = [example.text for example in (*examples, *people)]
    features = cached_features(detector, texts, cache / FEATURES_FILE)
    ends = cached_endings(detector, [example.text for example in examples], cache / ENDINGS_FILE)
    rows: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    accused: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    sizes = []
    for seed in range(num_splits):
        splits = split_examples(examples, validation=0.1, test=0.5, seed=seed)
        train, validation = (of_generator(part, generators[0]) for part in (splits.train, splits.validation))
        fit(detector, features, train)
        fitted = calibrations(pieces_of(detector, features, ends, validation))
        for name in generators:
            pieces = pieces_of(detector, features, ends, of_generator(splits.test, name))
            own = pieces_of(detector, features, ends, of_generator(splits.validation, name))
            methods = {**fitted, OWN_BIAS: with_offset(fitted[BY_LENGTH], own)}
            for method, cut, log_odds, is_machine in judged(methods, pieces):
                rows.setdefault((name, cut, method), []).append(measures(log_odds, is_machine))
        for method, cut, log_odds, _ in judged(fitted, pieces_of(detector, features, ends, people)):
            share = float((log_odds > 0).double().mean())
            accused.setdefault((cut, method), []).append((share, float(log_odds.sigmoid().mean())))
        sizes.append((len(of_generator(splits.test, generators[0])), len(train)))
        print(f"split {seed}: {fitted[BY_LENGTH]}", flush=True)
    print("| tested on | tokens | calibrated by | calibration error | log loss | mean P - 1/2 |")
    print("|---|---|---|---:|---:|---:|")
    for names, values in rows.items():
        print(f"| {' | '.join(names)} | {shown(values, sizes)} |")
    print("| addresses, tokens | calibrated by | share accused | mean P |\n|---|---|---:|---:|")
    for names, values in accused.items():
        print(f"| {' | '.join(names)} | {shown(values, sizes)} |")


def fit(detector: Detector, features: dict[str, Tensor], train: Sequence[Example]) -> None:
    assert isinstance(detector.reader, StatesReader)
    head: StatesEnergy = detector.reader.energy
    blocks = [features[hash_of(example.text)].mean(0, keepdim=True) for example in train]
    fit_texts([head], blocks, prepare_texts(detector, train))


def judged(fitted: dict[str, tuple[Calibration, Calibration]], pieces: Pieces):
    """Method, cut, log-odds and writers."""
    for cut in dict.fromkeys(pieces.cuts):
        own = pieces.where([cut])
        for method, (of_texts, of_spans) in fitted.items():
            calibration = of_spans if cut == SPANS else of_texts
            yield method, cut, calibration.log_odds(own.energies, own.tokens), own.is_machine


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path("runs/detection"))
    parser.add_argument("--pairs", type=int, default=180)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--generators", nargs="+", default=GENERATORS, choices=GENERATORS)
    options = parser.parse_args()
    calibration(options.folder, options.cache, options.pairs, options.splits, options.generators)
