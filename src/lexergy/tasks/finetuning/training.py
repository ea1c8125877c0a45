"""Fine-tune an encoder on labelled texts or questions, with several seeds, and say what it is worth."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from lexergy.data.labelled import Question
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, hash_of, inside, read_json, reading
from lexergy.models.energies.backbones import encoder_backbone
from lexergy.models.finetuned.model import Finetuned, FinetunedConfig, FinetunedEncoder, longest_row
from lexergy.models.finetuned.rows import RowWriter
from lexergy.recipes.finetuning import FinetuningRecipe, Task
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.processes import is_main_process
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, open_workspace
from lexergy.storage import fetched
from lexergy.tasks.finetuning.examples import FinetuneData
from lexergy.tasks.finetuning.metrics import answer_metrics, label_metrics, number_metrics
from lexergy.training.objectives.finetuning import Finetuning, LabelledRows, layer_rate_factors
from lexergy.training.stage import train_into

REPORT_FILE = "report.json"
MAIN_METRIC: dict[Task, str] = {"classification": "accuracy", "regression": "spearman", "span": "exact_match"}


@dataclass(frozen=True)
class Summary:
    """A metric over seeds."""

    median: float
    least: float
    greatest: float


@dataclass(frozen=True)
class FinetuneReport:
    """What the seeds gave; `best` is the folder of the seed that is best on the validation examples."""

    folder: str
    encoder: str
    task: Task
    examples: dict[str, int]
    judged_on: str
    metrics: dict[str, Summary]
    seeds: list[dict[str, float]]
    best: str
    seconds: float


def finetune(
    data: FinetuneData, settings: FinetuningRecipe, folder: str | Path, *, progress: bool = True
) -> FinetuneReport:
    """Train `num_seeds` models, each a stage that is never redone, and report the medians of their metrics."""
    work = _Finetuning(data, settings)
    config = settings.model_dump(mode="json", exclude={"num_seeds", "seed"})
    config |= {"encoder_content": fingerprint(settings.encoder), "data": work.data_hash}
    with open_workspace(folder, settings.seed, progress=progress) as workspace:
        stages = [
            workspace.stage(f"seed-{number}", config, [], work.seed_into, together=True)
            for number in range(settings.num_seeds)
        ]
        report = _report(data, settings, workspace.folder, stages)
        if is_main_process():
            atomic_write_json(workspace.folder / REPORT_FILE, asdict(report))
    return report


def load_finetuned(folder: str | Path) -> Finetuned:
    """The best model of a folder that `finetune` wrote, or the model of a folder of one seed."""
    folder = fetched(folder)
    report = folder / REPORT_FILE
    if report.is_file():
        with reading(report):
            folder = inside(folder, read_json(report, dict)["best"])
    return Finetuned.from_pretrained(folder)


def judge(finetuned: Finetuned, examples: Any) -> dict[str, float]:
    """The metrics of a model's task on labelled examples."""
    if finetuned.task == "span":
        answers = finetuned.answer([(example.question, example.context) for example in examples])
        true = [[span.text for span in example.answers] for example in examples]
        return answer_metrics([answer.text for answer in answers], true)
    texts = [(example.text, example.pair) for example in examples]
    if finetuned.task == "regression":
        return number_metrics(finetuned.estimate(texts), [example.number for example in examples])
    return label_metrics(
        [classified.label for classified in finetuned.classify(texts)], [example.label for example in examples]
    )


@dataclass(frozen=True)
class _Finetuning:
    data: FinetuneData
    settings: FinetuningRecipe

    @cached_property
    def data_hash(self) -> str:
        return hash_of([[asdict(example) for example in part] for part in self._parts.values()])

    @cached_property
    def _parts(self) -> Mapping[str, Any]:
        parts = {"train": self.data.train, "validation": self.data.validation, "test": self.data.test}
        return {name: part for name, part in parts.items() if part is not None}

    @cached_property
    def _task_config(self) -> Facts:
        """What the model must know of the training labels; those of all parts are checked."""
        if self.settings.task == "span":
            return {"has_null": any(not question.answers for question in self._parts["train"])}
        if self.settings.task == "regression":
            numbers = {name: [example.number for example in part] for name, part in self._parts.items()}
            scale = statistics.pstdev(numbers["train"])
            if scale == 0:
                raise LexergyError("all training labels are the same number; expected numbers that differ.")
            return {"mean": statistics.mean(numbers["train"]), "scale": scale}
        names = sorted({example.label for example in self._parts["train"]})
        if len(names) < 2:
            raise LexergyError(f"all training labels are {names[0]!r}; expected at least two different labels.")
        for example in (example for part in self._parts.values() for example in part):
            if example.label not in names:
                raise LexergyError(
                    f"{example.place}: the label {example.label!r} is not among those of the training examples: "
                    f"{', '.join(names[:10])}."
                )
        return {"label_names": names}

    def seed_into(self, stage: OpenStage) -> Facts:
        finetuned = self._start(stage.seed)
        model, settings = finetuned.model, self.settings
        rows = {name: self._rows(name, finetuned.writer) for name in ("train", "validation")}
        objective = Finetuning(rows["train"], rows["validation"], finetuned.writer)
        batch_size = min(settings.batch_size, objective.num_examples)
        epoch = -(-objective.num_examples // batch_size)
        steps = max(1, round(settings.epochs * epoch))
        config = TrainingRecipe(
            learning_rate=settings.learning_rate,
            max_steps=steps,
            batch_size=batch_size,
            warmup_steps=min(round(settings.warmup * steps), steps),
            schedule="linear",
            adam_epsilon=1e-6,
            evaluate_every=epoch,
            checkpoint_every=epoch,
            seed=stage.seed,
        )
        factors = layer_rate_factors(model, settings.layer_decay)
        facts = train_into(
            stage, model, objective, config, save=finetuned.save_pretrained, label=settings.task, rate_factors=factors
        )
        metrics = {name: judge(finetuned, part) for name, part in self._parts.items() if name != "train"}
        return {**facts, "metrics": metrics}

    def _start(self, seed: int) -> Finetuned:
        settings = self.settings
        backbone = encoder_backbone(settings.encoder)
        assert backbone.tokenizer is not None
        config = FinetunedConfig(
            task=settings.task,
            pooling=settings.pooling,
            max_length=longest_row(backbone, settings.max_length),
            stride=settings.stride,
            max_answer_tokens=settings.max_answer_tokens,
            **self._task_config,
        )
        return Finetuned(FinetunedEncoder.from_backbone(backbone, config, seed), backbone.tokenizer)

    def _rows(self, part: str, writer: RowWriter) -> LabelledRows:
        examples = self._parts[part]
        if self.settings.task == "span":
            return span_rows(examples, writer)
        rows = [writer.row(example.text, example.pair) for example in examples]
        if self.settings.task == "regression":
            return LabelledRows(rows, torch.tensor([example.number for example in examples]))
        names = self._task_config["label_names"]
        return LabelledRows(rows, torch.tensor([names.index(example.label) for example in examples]))


def span_rows(questions: Sequence[Question], writer: RowWriter) -> LabelledRows:
    """All windows of all questions; the target of one that does not hold the whole first answer is (0, 0)."""
    rows, targets = [], []
    for question in questions:
        for row in writer.windows(question.question, question.context):
            first = question.answers[0] if question.answers else None
            place = None if first is None else row.token_span(first.start, first.start + len(first.text))
            rows.append(row)
            targets.append(place or (0, 0))
    return LabelledRows(rows, torch.tensor(targets))


def _report(data: FinetuneData, settings: FinetuningRecipe, folder: Path, stages: list[Stage]) -> FinetuneReport:
    judged_on = "validation" if data.test is None else "test"
    seeds = [stage.facts["metrics"][judged_on] for stage in stages]
    main = MAIN_METRIC[settings.task]
    best = max(stages, key=lambda stage: stage.facts["metrics"]["validation"][main])
    values = {name: [metrics[name] for metrics in seeds] for name in seeds[0]}
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    return FinetuneReport(
        folder=str(folder),
        encoder=settings.encoder,
        task=settings.task,
        examples={name: len(part) for name, part in parts.items() if part is not None},
        judged_on=judged_on,
        metrics={name: Summary(statistics.median(own), min(own), max(own)) for name, own in values.items()},
        seeds=seeds,
        best=best.name,
        seconds=sum(stage.seconds for stage in stages),
    )
