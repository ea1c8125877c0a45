"""Negatives with a budget: pairs are added, part by part, until more are not worth their time.

    learning_curve/000064/negatives    the first 64 pairs: those of validation, then training windows at random
    learning_curve/000064/loss         what a head fitted to them loses on documents held out
    learning_curve/000096/negatives    the 32 that come next
    learning_curve/000096/loss         the same of all 96
    negatives                          which of them the run has, and why there are no more

Every part is a stage, and how long it took is among its facts. Whether another one follows is decided by these alone: a
run that is started again, finished or killed, decides as it did before, and one with a larger budget goes on.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import Any, Protocol

import torch

from lexergy.core.fitting.learning_curves import HeldOutLoss, LearningCurve, Stop, grown, held_out_loss, reason_to_stop
from lexergy.recipes.residual import LEARNING_CURVE
from lexergy.runs.shards import num_shards
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import Build, OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.fitting import LOSSES, Pairs, cross_validate, fitted_energy, pair_features
from lexergy.tasks.residual.negatives import (
    NEGATIVES,
    PARTS,
    ROWS,
    build_part,
    contrast,
    drawn_pairs,
    growing_order,
    negatives_store,
    windows_per_shard,
)

FIRST_PAIRS = 64
LOSS, SECONDS = "loss", "seconds"


class MakeStage(Protocol):
    """`Workspace.stage`."""

    def __call__(self, name: str, config: dict[str, Any], inputs: Sequence[Stage], build: Build, /) -> Stage: ...


def grow_negatives(
    context: RunContext, make: MakeStage, drawing: dict[str, Any], fitting: dict[str, Any], lm: Stage
) -> Stage:
    """The stage `negatives` of as many pairs as the budget and the curve of the first fitted energy allow.

    `drawing` and `fitting` are what negatives and that energy depend on.
    """
    name, most = context.recipe.fitted_energies[0], len(growing_order(context))
    budget = context.recipe.negatives.seconds
    assert budget is not None
    parts: list[Stage] = []
    losses: list[Stage] = []
    points: list[HeldOutLoss] = []
    stop: Stop | None = None
    rows = range(min(max(FIRST_PAIRS, 2 * len(context.windows["validation"])), most))
    while stop is None:
        folder = f"{LEARNING_CURVE}/{rows.stop:06d}"
        config = {**drawing, ROWS: [rows.start, rows.stop]}
        parts.append(make(f"{folder}/{NEGATIVES}", config, [lm], partial(_draw_part, context, rows)))
        measure = partial(_measure_loss, context, name, list(parts), list(losses))
        losses.append(make(f"{folder}/{LOSS}", fitting, [*parts, *losses], measure))
        points.append(HeldOutLoss(**losses[-1].facts["point"]))
        spent = sum(stage.facts[SECONDS] for stage in [*parts, *losses])
        stop = reason_to_stop(points, most, spent, budget)
        rows = range(rows.stop, grown(rows.stop, most))
    curve = LearningCurve(name, tuple(points), stop)
    return make(NEGATIVES, {"stop": stop}, [*parts, *losses], partial(_keep, curve, parts))


def _draw_part(context: RunContext, rows: range, stage: OpenStage) -> Facts:
    shards = num_shards(len(rows), windows_per_shard(context))
    missing, started = len(negatives_store(context, stage.folder).missing(shards)), monotonic()
    facts = build_part(context, rows, stage)
    # Of a part that was killed on its way, as long as all of it would have taken at this pace.
    return {**facts, SECONDS: (monotonic() - started) * shards / max(missing, 1)}


def _measure_loss(context: RunContext, name: str, parts: list[Stage], before: list[Stage], stage: OpenStage) -> Facts:
    """The loss of a head fitted to all parts; what a reader makes of the earlier ones lies in the stages before."""
    started = monotonic()
    recipe, energy = fitted_energy(context, name, stage)
    readings: list[Stage | OpenStage] = [*before, stage]
    features, documents = [], []
    for part, own in zip(parts, readings, strict=True):
        windows, table = drawn_pairs(context, part)
        data = contrast(context, windows, table, energy.features)
        progress = stage.progress and own is stage
        features.append(pair_features(context, energy, [data], own, progress=progress))
        documents += windows.document_ids
    pairs = Pairs(torch.cat(features), documents)
    chosen = cross_validate(energy, recipe, pairs, name, stage)
    point = held_out_loss(chosen.features, chosen.penalty, chosen.folds, documents, stage.seed, LOSSES[recipe.loss])
    stage.announce(
        f"{point.pairs} pairs: NCE loss {point.loss:.3f} ± {point.std_error:.3f}, "
        f"{point.fall:.3f} ± {point.fall_std_error:.3f} less than with half of them"
    )
    return {"point": asdict(point), "penalties": chosen.penalties, SECONDS: monotonic() - started}


def _keep(curve: LearningCurve, parts: list[Stage], stage: OpenStage) -> Facts:
    pairs = curve.points[-1].pairs
    stage.announce(f"no more than {pairs} pairs: {curve.stop.sentence}")
    return {
        "windows": pairs,
        ROWS: [0, pairs],
        PARTS: {part.name: part.facts["shards"] for part in parts},
        LEARNING_CURVE: asdict(curve),
    }
