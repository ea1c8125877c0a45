"""Dynamic NCE: an energy trained on, against negatives drawn anew from its own joint model.

Section 6 of Deng et al. 2020 asks for negatives closer to the joint model; the classifier's logit against the
noise P_noise = P_LM exp(-E_old) / Z_old is log P_model - log P_noise = -(E - E_old - log Z_old).
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.data.shards import ShardStore
from lexergy.models.joint_rows import JointRows, sample_rows
from lexergy.models.residual import ResidualEBM
from lexergy.progress import progress_bar
from lexergy.tasks.columns import from_column, to_column
from lexergy.tasks.context import RunContext
from lexergy.tasks.recipe import RefreshedEnergyRecipe
from lexergy.training.objectives import ContrastiveData

PREFIXES_PER_SHARD = 64
NEGATIVES_FOLDER = "negatives"


def refresh_negatives(
    context: RunContext, recipe: RefreshedEnergyRecipe, old: dict[str, ContrastiveData], folder: Path, seed: int
) -> dict[str, ContrastiveData]:
    """The same pairs with one new negative each: drawn from the joint model of the energy `of`, or from the LM."""
    joint = ResidualEBM(context.lm, context.energy(recipe.of))
    data = list(old.values())
    prefixes = torch.cat([part.prefixes for part in data])  # (N, P)
    store = ShardStore(folder / NEGATIVES_FOLDER, {"recipe": recipe.model_dump(mode="json"), "seed": seed})
    num_shards = -(-len(prefixes) // PREFIXES_PER_SHARD)
    missing = store.missing(num_shards)
    length = data[0].continuations.shape[1]
    with progress_bar("new negatives", num_shards, context.progress, completed=num_shards - len(missing)) as bar:
        for shard in missing:
            store.write(shard, _draw_shard(joint, recipe, prefixes, shard, length, seed))
            bar.advance()
    table = store.table(num_shards)
    first, refreshed = 0, {}
    for name, part in old.items():
        refreshed[name] = _refreshed(joint, recipe, part, table.slice(first, len(part)))
        first += len(part)
    return refreshed


def _draw_shard(
    joint: ResidualEBM, recipe: RefreshedEnergyRecipe, prefixes: Tensor, shard: int, length: int, seed: int
) -> pa.Table:
    """Rows `tokens (C), energy, log_z`, with states also `features (F)`."""
    ids = range(shard * PREFIXES_PER_SHARD, min((shard + 1) * PREFIXES_PER_SHARD, len(prefixes)))
    rows = sample_rows(
        joint,
        prefixes[ids.start : ids.stop],
        num_candidates=recipe.candidates if recipe.noise == "joint" else 1,
        max_new_tokens=length,
        seed=seed,
        prefix_ids=ids,
    )
    return pa.table(_columns(rows))


def _columns(rows: JointRows) -> dict[str, pa.Array]:
    columns = {
        "tokens": to_column(rows.tokens.cpu().numpy().astype(np.int32)),
        "energy": to_column(rows.energy.cpu().numpy()),
        "log_z": to_column(rows.log_z.cpu().numpy()),
    }
    if rows.features is not None:
        columns["features"] = to_column(rows.features.float().cpu().numpy())
    return columns


def _refreshed(
    joint: ResidualEBM, recipe: RefreshedEnergyRecipe, old: ContrastiveData, table: pa.Table
) -> ContrastiveData:
    def tensor(name: str) -> Tensor:
        return torch.from_numpy(from_column(table.column(name)))

    new: dict[str, Any] = {"negatives": tensor("tokens").long()[:, None]}  # (N, 1, C)
    if old.features is not None:
        new["negative_features"] = tensor("features")[:, None]  # (N, 1, F)
    if recipe.noise == "joint":
        people = _energies_of_people(joint, old)  # (N,)
        noise = torch.stack((people, tensor("energy")), 1) + tensor("log_z")[:, None]  # (N, 2)
        new["noise_energies"] = noise.float()
    return dataclasses.replace(old, **new)


@torch.no_grad()
def _energies_of_people(joint: ResidualEBM, data: ContrastiveData) -> Tensor:  # (N,)
    scored = []
    for rows in torch.arange(len(data)).split(PREFIXES_PER_SHARD):
        features = None if data.features is None else data.features[rows, None]
        scored.append(joint.score(data.prefixes[rows], data.continuations[rows, None], features).squeeze(1))
    return torch.cat(scored).double().cpu()
