"""The perplexity of joint models, several energies at once on the same samples, streamed and resumable."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.estimation.perplexity import PerplexityEstimate, perplexity_from_weights
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures, union
from lexergy.models.joint.model import ResidualEBM
from lexergy.progress import progress_bar
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.records import BASE_COLUMN, human_column, weights_column
from lexergy.runs.shards import ShardStore

ROWS_PER_BATCH = 256


def evaluate(
    lm: CausalLM,
    energies: Mapping[str, Any],
    windows: Windows,
    num_samples: int,
    seed: int,
    *,
    store: ShardStore | None = None,
    progress: bool = True,
) -> dict[str, PerplexityEstimate]:
    """Bounds on each joint model's perplexity (Theorem 2, Deng et al. 2020) from the same LM samples.

    Only log-weights are kept, never samples. With a `store`, whose provenance must name LM, energies,
    windows, `num_samples` and `seed`, a killed evaluation goes on where it was.
    """
    table = collect_weights(lm, energies, windows, num_samples, seed, store=store, progress=progress)

    def tensor(column: str) -> Tensor:
        return torch.from_numpy(from_column(table.column(column)))

    return {
        name: perplexity_from_weights(
            tensor(BASE_COLUMN),  # (N,)
            tensor(human_column(name)),  # (N,)
            tensor(weights_column(name)),  # (N, n)
            windows.continuation_length,
            seed,
        )
        for name in energies
    }


def collect_weights(
    lm: CausalLM,
    energies: Mapping[str, Any],
    windows: Windows,
    num_samples: int,
    seed: int,
    *,
    store: ShardStore | None = None,
    progress: bool = True,
) -> pa.Table:
    """One row per window: log p_LM and energies of its own text, and log w_i = -E(x_i) of n LM samples."""
    if not energies:
        raise LexergyError("no energy was given; expected at least one to evaluate.")
    joints = {name: ResidualEBM(lm, energy) for name, energy in energies.items()}
    features = union(joint.energy.features for joint in joints.values())
    # A shard is what one batch samples, so that its prefixes are prefilled once.
    per_shard = max(1, ROWS_PER_BATCH // num_samples)
    num_shards = -(-len(windows) // per_shard)
    missing = list(range(num_shards)) if store is None else store.missing(num_shards)
    tables = []
    done = num_shards - len(missing)
    with progress_bar("perplexity", num_shards, progress, completed=done) as bar:
        for shard in missing:
            ids = range(shard * per_shard, min((shard + 1) * per_shard, len(windows)))
            table = _weigh(lm, joints, features, windows, ids, num_samples, seed)
            if store is None:
                tables.append(table)
            else:
                store.write(shard, table)
            bar.advance()
    return pa.concat_tables(tables) if store is None else store.table(num_shards)


@torch.inference_mode()
def _weigh(
    lm: CausalLM,
    joints: Mapping[str, ResidualEBM],
    features: StateFeatures | None,
    windows: Windows,
    ids: range,
    num_samples: int,
    seed: int,
) -> pa.Table:
    rows = windows.select(list(ids))
    prefix = rows.prefixes  # (B, P)
    log_weights: dict[str, list[Tensor]] = {name: [] for name in joints}  # (B, k) per chunk
    for samples in lm.sample_chunks(
        prefix,
        num_samples=num_samples,
        chunk_size=ROWS_PER_BATCH,
        max_new_tokens=rows.continuation_length,
        seed=seed,
        prefix_ids=list(ids),
        rows_per_batch=ROWS_PER_BATCH,
        features=features,
    ):
        for name, joint in joints.items():
            log_weights[name].append(-_score(joint, prefix, samples.tokens, samples.features, features))
    human_features = None
    if features is not None:
        human = lm.state_features(rows.tokens, prefix_length=rows.prefix_length, features=features)
        human_features = human.unsqueeze(1)  # (B, 1, F)
    base_log_prob = lm.log_prob(rows.tokens, prefix_length=rows.prefix_length)  # (B,)
    columns = {
        "window": pa.array(ids, pa.int64()),
        BASE_COLUMN: to_column(base_log_prob.double().numpy()),
    }
    for name, joint in joints.items():
        human_energy = _score(joint, prefix, rows.continuations.unsqueeze(1), human_features, features)
        columns[human_column(name)] = to_column(human_energy.squeeze(1).numpy())
        columns[weights_column(name)] = to_column(torch.cat(log_weights[name], 1).numpy())  # (B, n)
    return pa.table(columns)


def _score(
    joint: ResidualEBM,
    prefix: Tensor,  # (B, P)
    continuations: Tensor,  # (B, K, C)
    handed_on: Tensor | None,  # (B, K, F), for all energies
    features: StateFeatures | None,
) -> Tensor:  # (B, K) float64 on the CPU
    wanted = joint.energy.features
    own = None
    if wanted is not None and features is not None and handed_on is not None:
        own = wanted.pick(handed_on, features)
    return joint.score(prefix, continuations, own).double()
