"""The one training loop: any model, any objective, on Accelerate, resumable to the same result."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, remove_partials
from lexergy.models.inference.learning_linears import learning_linears
from lexergy.progress import Bar, progress_bar
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.records import HISTORY_FILE
from lexergy.training.checkpoints import (
    CHECKPOINT_FOLDER,
    Checkpoint,
    HistoryRecord,
    TrainingState,
    gathered,
    load_checkpoint,
    optimizer_groups,
    remove_checkpoint,
    restore,
    restore_optimizer,
    save_checkpoint,
    snapshot,
    trainable_parameters,
)
from lexergy.training.objectives.contrastive import (
    GroupedObjective,
    Objective,
    ScheduledObjective,
    evaluating,
)
from lexergy.training.randomness import batch_indices, seeded_dropout, step_generator
from lexergy.training.schedule import learning_rate_at
from lexergy.training.setup import build_accelerator, build_optimizer
from lexergy.training.sharding import copy_to_shard, cut_up, layer_classes, put_together, whole
from lexergy.training.tracking import track, tracking

T = TypeVar("T")


@dataclass(frozen=True)
class TrainingResult:
    """How a training went; the model itself holds the weights of `best_step`."""

    steps: int
    best_step: int
    validation: dict[str, float]  # at the best step
    stopped_early: bool
    history: tuple[HistoryRecord, ...]


def train(
    model: nn.Module,
    objective: Objective,
    config: TrainingRecipe,
    folder: str | Path,
    *,
    progress: bool = True,
    label: str = "energy",
    rate_factors: Mapping[str, float] | None = None,
) -> TrainingResult:
    """Train `model` on `objective` and leave it in evaluation mode with its best weights.

    Called again with the same arguments after a kill, it goes on from the last checkpoint in `folder` and
    ends with the same weights and history as an uninterrupted run (bitwise on a CPU): the batch, the
    negatives and the dropout masks of a step depend on (seed, step) alone. At the end `folder` keeps
    `history.json`.
    The untrained model is evaluated too, so the best weights are never worse than those at the start. With
    `keep: last` they are the last ones, whatever the validation says.
    `rate_factors`: parameters, by name, whose learning rate is the configuration's times this.
    """
    trainer = _Trainer(model, objective, config, Path(folder), label, rate_factors or {})
    trainer.resume()
    shown = progress and trainer.accelerator.is_main_process
    with (
        tracking(trainer.accelerator, config, trainer.folder),
        progress_bar(label, config.max_steps, shown, completed=trainer.state.step) as bar,
    ):
        trainer.run(bar)
    return trainer.finish()


class _Pass(nn.Module):
    """What is done with the model, as a forward pass, because Accelerate wraps that (autocast, gradients, FSDP)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._no_split_modules = layer_classes(model)

    def forward(self, use: Callable[[nn.Module], T]) -> T:
        with learning_linears(self.model):
            return use(self.model)


class _Trainer:
    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        config: TrainingRecipe,
        folder: Path,
        label: str,
        rate_factors: Mapping[str, float],
    ) -> None:
        self.model = model
        self.objective = objective
        self.config = config
        self.folder = folder
        self.label = label
        self.rate_factors = dict(rate_factors)
        self.accelerator = build_accelerator(config, folder)
        self.trained = copy_to_shard(model) if self.accelerator.is_fsdp2 else model
        optimizer = build_optimizer(trainable_parameters(self.trained), config, self.rate_factors)
        self.module, self.optimizer = self.accelerator.prepare(_Pass(self.trained), optimizer)
        self.parameters = trainable_parameters(self.trained)
        self.state = TrainingState()
        self.best = snapshot(self.parameters)

    def resume(self) -> None:
        if self.accelerator.is_main_process:
            for folder in (self.folder, self.folder / CHECKPOINT_FOLDER):
                remove_partials(folder)
        checkpoint = load_checkpoint(self.folder, self._fingerprint())
        if checkpoint is None:
            return
        groups = {
            group: {name: cut_up(value, self.parameters[name]) for name, value in values.items()}
            for group, values in checkpoint.groups.items()
        }
        self.state = checkpoint.state
        self.best = snapshot(groups.pop("best"))
        restore(self.parameters, snapshot(groups.pop("parameters")))
        restore_optimizer(self.optimizer, self.parameters, groups)
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(self.state.loss_scaler)

    def run(self, bar: Bar) -> None:
        if not self.state.history:
            self._evaluate()
        self.module.train()
        while not self._finished():
            values = self._step()
            self.state.step += 1
            track(self.accelerator, "training", values, self.state.step)
            if self.state.step % self.config.evaluate_every == 0 or self.state.step == self.config.max_steps:
                self._evaluate()
                self.module.train()
            if self.state.step % self.config.checkpoint_every == 0:
                self._save()
            bar.advance(1, loss=values.pop("loss"), **self._validation_loss(), **values)

    def finish(self) -> TrainingResult:
        restore(self.parameters, self.best)
        if self.trained is not self.model:
            with torch.no_grad():
                for name, parameter in trainable_parameters(self.model).items():
                    parameter.copy_(whole(self.parameters[name]))
        self.model.eval()
        history = tuple(self.state.history)
        if self.accelerator.is_main_process:
            atomic_write_json(self.folder / HISTORY_FILE, [asdict(record) for record in history])
            remove_checkpoint(self.folder)
        self.accelerator.wait_for_everyone()
        best = next(record for record in history if record.step == self.state.best_step)
        return TrainingResult(
            steps=self.state.step,
            best_step=best.step,
            validation=best.validation,
            stopped_early=self.state.step < self.config.max_steps,
            history=history,
        )

    def _finished(self) -> bool:
        patience = self.config.patience
        impatient = patience is not None and self.state.evaluations_since_best >= patience
        return impatient or self.state.step >= self.config.max_steps

    def _step(self) -> dict[str, float]:
        """One update from one batch; returns the batch's loss and metrics."""
        step = self.state.step
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate_factor"] * learning_rate_at(self.config, step)
        self._begin()
        totals: dict[str, float] = {}
        for part, indices in enumerate(self._shares(step)):
            place = (step, part, self.accelerator.process_index)
            with (
                self.accelerator.accumulate(self.module),
                seeded_dropout(self.config.seed, self.accelerator.device, *place),
            ):
                loss, metrics = self.module(partial(self._loss, indices))
                self.accelerator.backward(loss)
            for name, value in {"loss": loss.item(), **metrics}.items():
                totals[name] = totals.get(name, 0.0) + value / self.config.gradient_accumulation
        values = self._mean_over_processes(totals)
        self._update(values["loss"])
        for name, value in values.items():
            self.state.sums[name] = self.state.sums.get(name, 0.0) + value
        self.state.num_summed += 1
        return values

    def _loss(self, indices: Tensor, model: nn.Module) -> tuple[Tensor, dict[str, float]]:
        return self.objective.loss(model, indices, step_generator(self.config.seed, self.state.step))

    def _shares(self, step: int) -> Tensor:
        """This process's examples of each part of a step's batch (parts, batch_size / processes)."""
        processes = self.accelerator.num_processes
        if self.config.batch_size % processes:
            raise LexergyError(
                f"`batch_size` is {self.config.batch_size} on {processes} processes; "
                f"expected a multiple of {processes}, so that each takes an equal share."
            )
        lengths = self.objective.lengths if isinstance(self.objective, GroupedObjective) else None
        size, count = self.config.examples_per_step, self.objective.num_examples
        indices = batch_indices(self.config.seed, step, size, count, lengths)
        shares = indices.view(self.config.gradient_accumulation, processes, -1)
        return shares[:, self.accelerator.process_index]

    def _update(self, loss: float) -> None:
        limit = self.config.max_grad_norm or math.inf
        norm = float(whole(self.accelerator.clip_grad_norm_(self.parameters.values(), limit)))
        # With fp16 an infinite gradient is ordinary: the scaler skips the step and lowers its scale.
        if not math.isfinite(loss) or not (math.isfinite(norm) or self.accelerator.scaler is not None):
            what = "loss" if not math.isfinite(loss) else "gradient"
            raise LexergyError(
                f"the {what} of {self.label} is not finite at step {self.state.step + 1}; expected a number; "
                f"lower `learning_rate` ({self.config.learning_rate:g}), lengthen `warmup_steps` "
                f"({self.config.warmup_steps}) or set `mixed_precision` to no."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _begin(self) -> None:
        if isinstance(self.objective, ScheduledObjective):
            self.objective.begin(self.state.step)

    def _evaluate(self) -> None:
        self._begin()
        with evaluating(self.trained), self.accelerator.autocast():
            # All processes evaluate; the first one's numbers decide for all, whatever the rounding.
            (validation,) = broadcast_object_list([self.module(self.objective.evaluate)])
        if any(math.isnan(value) for name, value in validation.items() if name.endswith("loss")):
            raise LexergyError(
                f"the validation of {self.label} is not a number after {self.state.step} steps; "
                f"expected one; lower `learning_rate` ({self.config.learning_rate:g}) or look at the data."
            )
        self._record(validation)
        loss = validation.get("loss", -math.inf)  # without one the last weights are the best
        is_better = loss < self.state.best_loss or loss == -math.inf
        self.state.best_loss = min(loss, self.state.best_loss)
        self.state.evaluations_since_best = 0 if is_better else self.state.evaluations_since_best + 1
        if is_better or self.config.keep == "last":
            self.state.best_step = self.state.step
            self.best = snapshot(self.parameters)

    def _validation_loss(self) -> dict[str, float]:
        last = self.state.history[-1].validation
        return {"validation_loss": last["loss"]} if "loss" in last else {}

    def _record(self, validation: dict[str, float]) -> None:
        means = {name: total / self.state.num_summed for name, total in self.state.sums.items()}
        record = HistoryRecord(
            step=self.state.step,
            learning_rate=learning_rate_at(self.config, max(self.state.step - 1, 0)),
            loss=means.pop("loss", None),
            training=means,
            validation=validation,
        )
        self.state.history.append(record)
        rate = {"learning_rate": record.learning_rate}
        track(self.accelerator, "training", rate, record.step)
        track(self.accelerator, "validation", validation, record.step)
        self.state.sums, self.state.num_summed = {}, 0

    def _save(self) -> None:
        keep = self.accelerator.is_main_process
        if not (keep or self.accelerator.is_fsdp2):
            return
        if self.accelerator.scaler is not None:
            self.state.loss_scaler = self.accelerator.scaler.state_dict()
        best = {name: put_together(part, self.parameters[name]) for name, part in self.best.items()}
        moments = optimizer_groups(self.optimizer, self.parameters)
        groups = gathered({"parameters": self.parameters, "best": best, **moments}, keep=keep)
        if keep:
            save_checkpoint(self.folder, Checkpoint(self.state, groups), self._fingerprint())

    def _mean_over_processes(self, values: dict[str, float]) -> dict[str, float]:
        if self.accelerator.num_processes == 1:
            return values
        numbers = torch.tensor(list(values.values()), device=self.accelerator.device)
        means: Any = self.accelerator.reduce(numbers, reduction="mean")
        return dict(zip(values, means.tolist(), strict=True))

    def _fingerprint(self) -> dict:
        """What must be unchanged for a training to go on from a checkpoint."""
        return {
            "config": self.config.model_dump(exclude={"checkpoint_every"}),
            "num_examples": self.objective.num_examples,
            "parameters": {name: list(value.shape) for name, value in self.parameters.items()},
            **({"rate_factors": self.rate_factors} if self.rate_factors else {}),
        }
