"""What a frozen reader makes of people's and the LM's texts, in shards that survive a kill."""

from collections.abc import Sequence

import pyarrow as pa
import torch
from torch import Tensor

from lexergy.models.energies import ReaderEnergy
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.shards import ShardStore, num_shards, shard_rows
from lexergy.training.objectives.contrastive import ContrastiveData

TEXTS_PER_SHARD = 128
FEATURES_FOLDER = "features"


def read_pairs(
    energy: ReaderEnergy, parts: Sequence[ContrastiveData], store: ShardStore, *, progress: bool
) -> Tensor:  # (N, 1 + K, F)
    """Features of all pairs of all parts, one after the other, people's text first; a shard is a few prefixes' own.

    What stands after a text's end is padding of special tokens, which is not decoded.
    """
    prefixes = torch.cat([data.prefixes for data in parts])  # (N, P)
    texts = torch.cat([torch.cat([data.continuations[:, None], data.negatives], 1) for data in parts])  # (N, 1 + K, C)
    per_shard = max(1, TEXTS_PER_SHARD // texts.shape[1])
    shards = num_shards(len(texts), per_shard)

    def read(shard: int) -> pa.Table:
        rows = shard_rows(shard, len(texts), per_shard)
        features = energy.read(prefixes[rows.start : rows.stop], texts[rows.start : rows.stop])
        return pa.table({"features": to_column(features.cpu().numpy())})

    store.fill(shards, read, "texts read", progress=progress)
    return torch.from_numpy(from_column(store.table(shards).column("features")))
