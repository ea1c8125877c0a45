"""Train a detector on a person's own texts, and say honestly what it is worth."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.classification import ClassificationMetrics, classification_metrics
from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.core.estimation.partition import lower_bound
from lexergy.files import hash_of
from lexergy.models.causal.lm import CausalLM
from lexergy.models.detection.conditions import TrainingConditions
from lexergy.models.detection.detector import STAGE, Detector, DetectorSettings, read_settings
from lexergy.models.detection.readers import EncoderReader
from lexergy.recipes.detection import DetectorRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, open_workspace
from lexergy.tasks.detection.baselines import tf_idf_energies
from lexergy.tasks.detection.calibrating import calibrated
from lexergy.tasks.detection.encoder import encoder_detector, fit_encoder
from lexergy.tasks.detection.examples import Example, ExampleSplits, split_examples
from lexergy.tasks.detection.generation import GeneratedPairs, read_pairs
from lexergy.tasks.detection.prepared import PreparedSplits, PreparedTexts, TextEnergies, prepare_splits
from lexergy.tasks.detection.shortcuts import ShortcutAudit, audit_shortcuts
from lexergy.tasks.detection.states import fit_states, states_detector
from lexergy.tasks.detection.together import beside_encoder, halves

DETECTOR, TF_IDF = "detector", "TF-IDF"
ENCODER_STAGE = "encoder"
# In the key of the stage: detectors that were calibrated otherwise are trained again.
CALIBRATION = "by length and of sentences, with people's texts"


@dataclass(frozen=True)
class LogZ:
    """log E[exp(-+E)] of one corpus, which is 0 where the energy is the log of the ratio of the two distributions."""

    value: float
    std_error: float


@dataclass(frozen=True)
class DetectorReport:
    """What a training gave, all measured on texts it has not seen."""

    folder: str
    texts: dict[str, dict[str, int]]  # by share and by writer
    calibration: Calibration  # of texts
    span_calibration: Calibration
    trained_on: TrainingConditions
    metrics: dict[str, ClassificationMetrics]  # the detector first
    by_machine: dict[str, ClassificationMetrics]  # people's texts against those of each corpus by machines
    log_z: dict[str, LogZ]  # by corpus
    shortcuts_stored: ShortcutAudit  # of the texts as they were given
    shortcuts_seen: ShortcutAudit  # of the training texts as the detector saw them


def train_detector(
    examples: Sequence[Example] | GeneratedPairs,
    recipe: DetectorRecipe,
    folder: str | Path,
    *,
    progress: bool = True,
) -> DetectorReport:
    """Split by group, train, calibrate on the validation texts, judge on the test texts, and save to `folder`.

    Its stages are `texts`, where an LM writes them, `encoder`, where one is put beside LMs, `detector` and `report`: a
    finished one is only read, a killed one goes on where it was, a changed recipe or text redoes what depends on it.
    """
    with open_workspace(folder, recipe.seed, progress=progress) as workspace:
        inputs, config = [], _config(recipe)
        if isinstance(examples, GeneratedPairs):
            inputs = [examples.stage(workspace)]
            examples = read_pairs(inputs[0])
        else:
            config["examples"] = hash_of([asdict(example) for example in examples])
        training = _Training(examples, recipe)
        if recipe.together:
            alone = recipe.encoder_alone
            encoder = _Training(examples, alone)
            own = _config(alone) | {name: config[name] for name in ("examples",) if name in config}
            inputs = [*inputs, workspace.stage(ENCODER_STAGE, own, inputs, encoder.detector_into, together=True)]
            training = _Training(examples, recipe, inputs[-1].folder)
        by_all = recipe.encoder is not None and not recipe.together
        detector = workspace.stage(STAGE, config, inputs, training.detector_into, together=by_all)
        report = workspace.stage("report", {}, [detector], partial(training.report_into, detector))
    return TypeAdapter(DetectorReport).validate_python({"folder": str(folder), **report.facts})


def _config(recipe: DetectorRecipe) -> dict[str, Any]:
    """What decides the detector besides its texts; the seed is that of the workspace."""
    unused = set() if recipe.together else {"lm", "more_lms", "layers"} if recipe.encoder else {"encoder", "epochs"}
    read = [*recipe.lms, *([] if recipe.encoder is None else [recipe.encoder])]
    contents = [fingerprint(source) for source in read]
    content = contents[0] if len(contents) == 1 else contents
    values = recipe.model_dump(mode="json", exclude={*unused, "seed"})
    return {**values, "content": content, "calibration": CALIBRATION}


@dataclass(frozen=True)
class _Training:
    examples: Sequence[Example]
    recipe: DetectorRecipe
    encoder: Path | None = None  # a trained one, that LMs are put beside

    @cached_property
    def splits(self) -> ExampleSplits:
        recipe = self.recipe
        return split_examples(self.examples, validation=recipe.validation, test=recipe.test, seed=recipe.seed)

    @cached_property
    def detector(self) -> Detector:
        """Not trained yet, unless `detector_into` was here."""
        settings = DetectorSettings(self.recipe.block_tokens)
        if not self.recipe.lms:
            assert self.recipe.encoder is not None
            return encoder_detector(self.recipe.encoder, settings, self.recipe.seed)
        lms = [CausalLM.from_pretrained(lm) for lm in self.recipe.lms]
        return states_detector(lms, self.recipe.layers, settings)

    @cached_property
    def texts(self) -> PreparedSplits:
        splits = self.splits  # shares that do not do are told before a model is loaded
        return prepare_splits(self.detector, splits)

    def detector_into(self, stage: OpenStage) -> Facts:
        validation = self.texts.validation
        if not self.recipe.lms:
            epochs, seed = self.recipe.epochs, self.recipe.seed
            save = partial(self._save, self.detector, validation)
            return fit_encoder(self.detector, self.texts, stage, epochs=epochs, seed=seed, save=save)
        detector, energies = self.detector, fit_states(self.detector, self.texts, stage)
        if self.encoder is not None:
            held_out, validation = halves(validation)
            encoder = Detector.from_pretrained(self.encoder).reader
            assert isinstance(encoder, EncoderReader)
            detector, energies = beside_encoder(detector, encoder, held_out, self.texts.test, energies)
        self._save(detector, validation, stage.folder, energies)
        return {}

    def _save(self, detector: Detector, validation: PreparedTexts, folder: Path, energies: TextEnergies) -> None:
        energies.save(folder)
        calibrated(detector, validation, self.texts.train).save_pretrained(folder)

    def report_into(self, detector: Stage, stage: OpenStage) -> Facts:
        """All of a `DetectorReport` but its folder, which may be moved."""
        _, settings = read_settings(detector.folder)
        assert settings.text is not None
        assert settings.span is not None
        judged, test, seed = TextEnergies.load(detector.folder), self.texts.test, self.recipe.seed
        log_odds = settings.text.log_odds(judged.detector, test.tokens)
        methods = {DETECTOR: log_odds, **judged.baselines, TF_IDF: _tf_idf(self.texts)}
        return {
            "texts": {name: _counts(getattr(self.splits, name)) for name in ("train", "validation", "test")},
            "calibration": asdict(settings.text),
            "span_calibration": asdict(settings.span),
            "trained_on": asdict(settings.trained_on) if settings.trained_on else None,
            "metrics": {
                name: asdict(classification_metrics(values, test.is_machine, test.groups, seed=seed))
                for name, values in methods.items()
            },
            "by_machine": _by_machine(log_odds, test, seed),
            "log_z": {name: asdict(log_z) for name, log_z in _log_z(log_odds, test, seed).items()},
            "shortcuts_stored": asdict(
                audit_shortcuts(
                    [example.text for example in self.examples],
                    [example.is_machine for example in self.examples],
                    [example.group for example in self.examples],
                )
            ),
            "shortcuts_seen": asdict(_audit_seen(self.texts.train)),
        }


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


def _by_machine(log_odds: Tensor, texts: PreparedTexts, seed: int) -> dict[str, dict[str, Any]]:
    metrics = {}
    for name in texts.machine_sources:
        own = ~texts.is_machine | torch.tensor([source == name for source in texts.sources])
        groups = [group for group, wanted in zip(texts.groups, own.tolist(), strict=True) if wanted]
        metrics[name] = asdict(classification_metrics(log_odds[own], texts.is_machine[own], groups, seed=seed))
    return metrics


def _log_z(log_odds: Tensor, texts: PreparedTexts, seed: int) -> dict[str, LogZ]:
    """log E_machine[exp(-E)] and log E_people[exp(E)] of each corpus (Theorem 1, Deng et al. 2020)."""
    signed = torch.where(texts.is_machine, -log_odds, log_odds)
    by_corpus = {}
    corpora = list(zip(texts.sources, texts.is_machine.tolist(), strict=True))
    for source, is_machine in dict.fromkeys(corpora):
        own = [place for place, corpus in enumerate(corpora) if corpus == (source, is_machine)]
        groups = [texts.groups[place] for place in own]
        by_corpus[f"{source} ({'machines' if is_machine else 'people'})"] = LogZ(
            float(lower_bound(signed[own])),
            bootstrap_std_error(signed[own], seed, groups=groups, statistic=lower_bound),
        )
    return by_corpus
