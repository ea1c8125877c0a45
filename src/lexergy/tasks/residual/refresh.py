"""Dynamic NCE: an energy trained on, against negatives drawn anew from its own joint model.

Section 6 of Deng et al. 2020 asks for negatives closer to the joint model; the classifier's logit is
log P_model - log P_noise = -(E - E_old - log Z^). A negative is one of m candidates of the LM, kept by its weight
exp(-E_old), so the noise is that sampler: log Z^ is of the m weights, a text's own among them (`sampler_log_z`;
docs/equations.md derives it). Beside people's text stand m - 1 of the candidates before the choice, which are free
samples of the LM.
"""

import dataclasses

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.estimation.partition import lower_bound, sampler_log_z
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import sample_rows
from lexergy.recipes.sections.energies import RefreshedEnergyRecipe
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.training.objectives.contrastive import ContrastiveData, pair_energies

PREFIXES_PER_SHARD = 64
NEGATIVES_FOLDER = "negatives"


def refresh_negatives(
    context: RunContext, recipe: RefreshedEnergyRecipe, parts: list[ContrastiveData], stage: OpenStage
) -> list[ContrastiveData]:
    """The same pairs with one new negative each: drawn from the joint model of the energy `of`, or from the LM."""
    joint = context.joint(recipe.of)
    prefixes = torch.cat([part.prefixes for part in parts])  # (N, P)
    length = parts[0].continuations.shape[1]
    store = stage.store(NEGATIVES_FOLDER)
    shards = num_shards(len(prefixes), PREFIXES_PER_SHARD)

    def draw(shard: int) -> pa.Table:
        ids = shard_rows(shard, len(prefixes), PREFIXES_PER_SHARD)
        return _draw(joint, recipe, prefixes, ids, length, stage.seed)

    store.fill(shards, draw, "new negatives", progress=stage.progress)
    table = store.table(shards)
    ends = torch.tensor([len(part) for part in parts]).cumsum(0).tolist()
    return [
        _with_new_negatives(joint, recipe, part, table.slice(end - len(part), len(part)))
        for part, end in zip(parts, ends, strict=True)
    ]


def _draw(
    joint: ResidualEBM, recipe: RefreshedEnergyRecipe, prefixes: Tensor, ids: range, length: int, seed: int
) -> pa.Table:
    """Rows `tokens (C), log_weights (m)` of all candidates, with states also `features (F)`."""
    rows = sample_rows(
        joint,
        prefixes[ids.start : ids.stop],
        num_candidates=recipe.candidates if recipe.noise == "joint" else 1,
        max_new_tokens=length,
        seed=seed,
        prefix_ids=ids,
    )
    columns = {
        "tokens": to_column(rows.tokens.numpy().astype(np.int32)),
        "log_weights": to_column(rows.log_weights.numpy()),
    }
    if rows.features is not None:
        columns["features"] = to_column(rows.features.float().numpy())
    return pa.table(columns)


def _with_new_negatives(
    joint: ResidualEBM, recipe: RefreshedEnergyRecipe, old: ContrastiveData, table: pa.Table
) -> ContrastiveData:
    def tensor(name: str) -> Tensor:
        return torch.from_numpy(from_column(table.column(name)))

    features = None if old.features is None else tensor("features")[:, None]  # (N, 1, F)
    new = dataclasses.replace(old, negatives=tensor("tokens").long()[:, None], negative_features=features)
    if recipe.noise == "lm":
        return new
    energies, log_weights = pair_energies(joint.energy, new), tensor("log_weights")  # (N, 2), (N, m)
    log_z = torch.stack([sampler_log_z(-energies[:, 0], log_weights[:, 1:]), lower_bound(log_weights)], dim=1)  # (N, 2)
    return dataclasses.replace(new, noise_energies=energies + log_z)
