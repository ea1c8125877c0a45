"""Train a detector on a person's own texts, and say honestly what it is worth."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from lexergy.core.calibration import fit_temperature
from lexergy.core.classification import ClassificationMetrics, classification_metrics
from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.core.estimation.partition import lower_bound
from lexergy.files import atomic_write_json
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.recipes.detection import DetectorRecipe
from lexergy.tasks.detection.baselines import tf_idf_energies
from lexergy.tasks.detection.examples import Example, ExampleSplits, split_examples
from lexergy.tasks.detection.prepared import FittedDetector, PreparedSplits, PreparedTexts
from lexergy.tasks.detection.shortcuts import ShortcutAudit, audit_shortcuts

REPORT_FILE = "report.json"
DETECTOR, TF_IDF = "detector", "TF-IDF"


@dataclass(frozen=True)
class LogZ:
    """log E[exp(-+E)] of one corpus, which is 0 where the energy is the log of the ratio of the two laws."""

    value: float
    std_error: float


@dataclass(frozen=True)
class DetectorReport:
    """What a training gave, all measured on texts it has not seen."""

    folder: str
    texts: dict[str, dict[str, int]]  # by share and by writer
    temperature: float
    metrics: dict[str, ClassificationMetrics]  # the detector first
    log_z: dict[str, LogZ]  # by corpus
    shortcuts_stored: ShortcutAudit  # of the texts as they were given
    shortcuts_seen: ShortcutAudit  # of the training texts as the detector saw them


def train_detector(
    examples: Sequence[Example], training: DetectorRecipe, folder: str | Path, *, progress: bool = True
) -> DetectorReport:
    """Split by group, train, calibrate on the validation texts, judge on the test texts, and save to `folder`."""
    splits = split_examples(examples, validation=training.validation, test=training.test, seed=training.seed)
    fitted = _fit(splits, training, Path(folder), progress)
    detector = fitted.detector.calibrated(fit_temperature(fitted.validation, fitted.texts.validation.is_machine))
    report = _report(examples, splits, fitted, detector, Path(folder), training.seed)
    detector.save(folder)
    atomic_write_json(Path(folder) / REPORT_FILE, asdict(report))
    return report


def _fit(splits: ExampleSplits, training: DetectorRecipe, folder: Path, progress: bool) -> FittedDetector:
    settings = DetectorSettings(training.block_tokens)
    if training.encoder is not None:
        from lexergy.tasks.detection.encoder import encoder_detector, fit_encoder

        detector = encoder_detector(training.encoder, settings, training.seed)
        return fit_encoder(
            detector, splits, folder / "training", epochs=training.epochs, seed=training.seed, progress=progress
        )
    from lexergy.models.causal.lm import CausalLM
    from lexergy.tasks.detection.states import fit_states, states_detector

    detector = states_detector(CausalLM.from_pretrained(training.lm), training.layers, settings)
    return fit_states(detector, splits, progress=progress)


def _report(
    examples: Sequence[Example],
    splits: ExampleSplits,
    fitted: FittedDetector,
    detector: Detector,
    folder: Path,
    seed: int,
) -> DetectorReport:
    test = fitted.texts.test
    energies = fitted.test / detector.settings.temperature
    baselines = {**fitted.baselines, TF_IDF: _tf_idf(fitted.texts)}
    return DetectorReport(
        folder=str(folder),
        texts={name: _counts(getattr(splits, name)) for name in ("train", "validation", "test")},
        temperature=detector.settings.temperature,
        metrics={
            name: classification_metrics(values, test.is_machine, test.groups, seed=seed)
            for name, values in {DETECTOR: energies, **baselines}.items()
        },
        log_z=_log_z(energies, test, seed),
        shortcuts_stored=audit_shortcuts(
            [example.text for example in examples],
            [example.is_machine for example in examples],
            [example.group for example in examples],
        ),
        shortcuts_seen=_audit_seen(fitted.texts.train),
    )


def _audit_seen(train: PreparedTexts) -> ShortcutAudit:
    return audit_shortcuts([text.text for text in train.texts], train.is_machine.tolist(), train.groups)


def _tf_idf(splits: PreparedSplits) -> Tensor:
    """Fitted on what the detector was trained and calibrated on, as the detector saw it."""
    texts = [text.text for text in (*splits.train.texts, *splits.validation.texts)]
    is_machine = torch.cat((splits.train.is_machine, splits.validation.is_machine)).tolist()
    return tf_idf_energies(texts, is_machine, [text.text for text in splits.test.texts])


def _counts(examples: Sequence[Example]) -> dict[str, int]:
    machines = sum(example.is_machine for example in examples)
    return {"people": len(examples) - machines, "machines": machines}


def _log_z(energies: Tensor, texts: PreparedTexts, seed: int) -> dict[str, LogZ]:
    """log E_machine[exp(-E)] and log E_people[exp(E)] of each corpus (Theorem 1, Deng et al. 2020)."""
    signed = torch.where(texts.is_machine, -energies, energies)
    found = {}
    for source in dict.fromkeys(zip(texts.sources, texts.is_machine.tolist(), strict=True)):
        own = torch.tensor([key == source for key in zip(texts.sources, texts.is_machine.tolist(), strict=True)])
        name = f"{source[0]} ({'machines' if source[1] else 'people'})"
        found[name] = LogZ(
            float(lower_bound(signed[own])), bootstrap_std_error(signed[own], seed, statistic=lower_bound)
        )
    return found
