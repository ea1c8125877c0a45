"""One text of the base LM and one of the joint model for each held-out prefix, and what they were chosen from."""

import pyarrow as pa
import torch

from lexergy.core.estimation import importance, partition
from lexergy.models.joint.sampling import draw_candidates, pick
from lexergy.runs.columns import to_column
from lexergy.studies.residual.workspace import Evidence, StudiedRun, Subject, usual_sizes
from lexergy.studies.study import Settings

ROWS_PER_BATCH = 256
TEXTS = ("base", "joint", "best", "worst")  # plain sample, resampled, lowest energy, highest energy
# Shared by the studies of generated text, so that they are drawn once.
TOP_10 = usual_sizes(
    cpu={"windows": 256, "candidates": 256, "top_k": 10}, paper={"windows": 333, "candidates": 10_000, "top_k": 10}
)
UNTRUNCATED = usual_sizes(
    cpu={"windows": 256, "candidates": 256, "top_k": None},
    paper={"windows": 1024, "candidates": 10_000, "top_k": None},
)


def rows(subject: Subject, ids: range) -> pa.Table:
    """Algorithm 1 (Deng et al. 2020) on each prefix: candidates from the LM, one drawn in proportion to exp(-E)."""
    joint, lm = subject.joint, subject.joint.lm
    windows = subject.windows.select(list(ids))
    prefix, length = windows.prefixes, windows.continuation_length
    candidates, energies, drawn = draw_candidates(
        joint,
        prefix,
        num_candidates=subject.settings["candidates"] or 1,
        max_new_tokens=length,
        seed=subject.seed,
        prefix_ids=list(ids),
        rows_per_batch=ROWS_PER_BATCH,
        top_k=subject.settings["top_k"],
    )
    chosen = {
        "base": torch.zeros_like(drawn),  # the first one drawn: a plain sample of the LM
        "joint": drawn,
        "best": energies.argmin(1),
        "worst": energies.argmax(1),
    }
    human_energy = joint.score_texts(prefix, windows.continuations).double()  # (B,)
    weights, scores = torch.softmax(-energies, dim=1), candidates.log_prob - energies  # (B, n), (B, n)
    columns = {
        "prefix_text": pa.array(lm.decode(prefix)),
        "human_text": pa.array(lm.decode(windows.continuations)),
        "human_tokens": to_column(windows.continuations.numpy()),  # (B, C)
        "human_energy": to_column(human_energy.numpy()),
        "human_log_prob": to_column(lm.log_prob(windows.tokens, prefix_length=windows.prefix_length).numpy()),
        "human_rank": to_column((energies < human_energy[:, None]).double().mean(1).numpy()),
        # What the models' own samples score on average: less noisy than the one that is shown.
        "base_mean_log_prob": to_column(candidates.log_prob.mean(1).numpy()),
        "joint_mean_score": to_column((weights * scores).sum(1).numpy()),  # log P_LM - E
        "log_z_lower": to_column(partition.lower_bound(-energies).numpy()),
        "log_z_upper": to_column(partition.upper_bound(-energies).numpy()),
        "ess": to_column(importance.effective_sample_size(-energies).numpy()),
    }
    for name in TEXTS:
        tokens = pick(candidates.tokens, chosen[name])  # (B, C)
        columns[f"{name}_text"] = pa.array(lm.decode(tokens))
        columns[f"{name}_tokens"] = to_column(tokens.numpy())
        columns[f"{name}_energy"] = to_column(pick(energies, chosen[name]).numpy())
        columns[f"{name}_log_prob"] = to_column(pick(candidates.log_prob, chosen[name]).numpy())
    return pa.table(columns)


def samples(workspace: StudiedRun, settings: Settings) -> Evidence:
    """Untruncated."""
    return workspace.measured("samples", rows, settings)


def samples_top_10(workspace: StudiedRun, settings: Settings) -> Evidence:
    """From the LM's ten likeliest tokens."""
    return workspace.measured("samples-top-10", rows, settings)
