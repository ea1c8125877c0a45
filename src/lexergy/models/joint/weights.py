"""Energies on a frozen LM: what they give to continuations, and the log-weights -E of the LM's own samples."""

import copy
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from lexergy.core.conditions import Conditions
from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import pick_features, union
from lexergy.models.energies import Energy, as_energy, score_unpadded
from lexergy.progress import progress_bar

ROWS_PER_BATCH = 256


def energy_on(lm: LanguageModel, energy: Any) -> Energy:
    """Whatever `as_energy` takes, ready to score this LM's continuations."""
    if isinstance(energy, nn.Module):
        energy.eval()  # an energy with dropout would be a different one at each call
    return as_energy(energy, lm)


@torch.no_grad()
def score_all(
    lm: LanguageModel,
    energies: Sequence[Energy],
    prefix: Tensor,  # (B, P)
    continuations: Tensor,  # (B, K, C)
    features: Tensor | None = None,  # (B, K, F), of all energies together
    lengths: Tensor | None = None,  # (B, K)
) -> list[Tensor]:  # (B, K) each
    """What each energy gives to continuations; the LM's states are computed if they are needed and not handed on.

    Of each continuation the first `lengths` tokens are read: unless given, those up to the LM's end token.
    """
    lengths = lm.lengths(continuations) if lengths is None else lengths
    wanted = union(energy.features for energy in energies)
    if wanted is not None and features is None:
        num_samples = continuations.shape[1]
        whole = torch.cat([_repeat(prefix, num_samples), continuations], dim=-1)  # (B, K, L)
        rows = lm.state_features(
            whole.flatten(0, 1), prefix_length=prefix.shape[1], features=wanted, lengths=lengths.flatten()
        )  # (B * K, F)
        features = rows.unflatten(0, (len(prefix), num_samples))
    return [
        _checked(
            score_unpadded(
                energy, prefix, continuations, pick_features(energy.features, features, wanted), lengths
            ).cpu()
        )
        for energy in energies
    ]


def log_weights(
    lm: LanguageModel,
    energies: Sequence[Energy],
    prefix: Tensor,  # (B, P)
    *,
    length: int,
    num_samples: int,
    seed: int = 0,
    prefix_ids: Sequence[int] | None = None,
    given: Tensor | None = None,  # (B, G)
    rows_per_batch: int = ROWS_PER_BATCH,
    progress: bool = False,
) -> list[Tensor]:  # (B, n) float64 each
    """log w_i = -E(x_i) by each energy, of the same n LM samples per prefix, untruncated and `length` tokens long.

    The samples are drawn, scored and let go a chunk at a time: only the weights stay. With `given`, the
    first G tokens of each continuation are fixed and the LM draws the rest. An LM with an end token ends some samples
    sooner; a continuation that has ended within the given tokens is its own only sample.
    """
    given = prefix[:, :0] if given is None else given
    ids = list(range(len(prefix)) if prefix_ids is None else prefix_ids)
    weights = [torch.empty(len(prefix), num_samples, dtype=torch.double) for _ in energies]
    prefixes = max(1, rows_per_batch // num_samples)
    with progress_bar("samples", len(prefix) * num_samples, progress) as bar:
        for start in range(0, len(prefix), prefixes):
            group = slice(start, start + prefixes)
            chunks = lm.sample_chunks(
                torch.cat([prefix[group], given[group]], dim=1),
                num_samples=num_samples,
                chunk_size=rows_per_batch,
                max_new_tokens=length - given.shape[1],
                seed=seed,
                prefix_ids=ids[group],
                rows_per_batch=rows_per_batch,
                features=union(energy.features for energy in energies),
                given_length=given.shape[1],
            )
            done = 0
            for samples in chunks:
                count = samples.tokens.shape[1]
                continuations = torch.cat([_repeat(given[group], count), samples.tokens], dim=-1)  # (b, k, C)
                scores = score_all(lm, energies, prefix[group], continuations, samples.features)
                for own, energy in zip(weights, scores, strict=True):
                    own[group, done : done + count] = -energy.double()
                done += count
                bar.advance(len(samples.tokens) * count)
    ended = lm.have_ended(given)  # (B,)
    if bool(ended.any()):
        for own, energy in zip(weights, score_all(lm, energies, prefix[ended], given[ended, None]), strict=True):
            own[ended] = -energy.double().expand(-1, num_samples)
    return weights


class WeighedLM:
    """A frozen LM and one energy of its continuations, of which everything else in this room is made.

    `trained_on`, where known, are the conditions of the energy's training; a use unlike them is warned of.
    """

    def __init__(self, lm: LanguageModel, energy: Any, trained_on: Conditions | None = None) -> None:
        if not callable(getattr(lm, "sample", None)):
            raise LexergyError(
                f"the LM is a {type(lm).__name__}; expected a CausalLM or a RemoteLM; wrap a model of Hugging Face: "
                "CausalLM(model, tokenizer)."
            )
        self.lm = lm
        self.energy = energy_on(lm, energy)
        self.trained_on = trained_on

    def stopping(self, at_end: bool | None) -> "WeighedLM":
        """The same with an LM that ends at end-of-text, or never; None: it ends if it may write end-of-text."""
        lm, at_end = self.lm, self.lm.may_end if at_end is None else at_end
        if at_end and lm.end_token is None:
            lm = lm.ending()
        elif not at_end and lm.may_end:
            lm = lm.endless()
        return self if lm is self.lm else WeighedLM(lm, self.energy, self.trained_on)

    def within_call(self, num_rows: int) -> "WeighedLM":
        """The same for parts of a call of so many rows, in whatever company they are computed."""
        joint = copy.copy(self)
        joint.lm = self.lm.within_call(num_rows)
        return joint

    def score(
        self,
        prefix: Tensor,  # (B, P)
        continuations: Tensor,  # (B, K, C)
        features: Tensor | None = None,  # (B, K, F)
        lengths: Tensor | None = None,  # (B, K)
    ) -> Tensor:  # (B, K)
        """Energies of continuations; the LM's states are computed if the energy needs them and has none.

        Of each continuation the first `lengths` tokens are read: unless given, those up to the LM's end token.
        """
        return score_all(self.lm, [self.energy], prefix, continuations, features, lengths)[0]

    def score_next(
        self,
        prefix: Tensor,  # (B, P)
        given: Tensor,  # (B, G)
        tokens: Tensor,  # (M,)
    ) -> Tensor:  # (B, M)
        """Energies of the continuations that are the given tokens and one more, each of these in turn."""
        shape = (len(prefix), len(tokens), -1)
        continuations = torch.cat([given[:, None].expand(shape), tokens[None, :, None].expand(shape)], dim=-1)
        features = None
        if self.energy.features is not None and not bool(self.lm.have_ended(given).any()):
            features = self.lm.next_token_features(
                torch.cat([prefix, given], dim=1), tokens, given_length=given.shape[1], features=self.energy.features
            )
        return self.score(prefix, continuations, features)

    def score_texts(self, prefix: Tensor, continuation: Tensor, rows_per_batch: int = ROWS_PER_BATCH) -> Tensor:
        """Energies (B,) of one continuation (B, C) for each prefix (B, P)."""
        groups = zip(prefix.split(rows_per_batch), continuation.split(rows_per_batch), strict=True)
        return torch.cat([self.score(before, texts.unsqueeze(1)).squeeze(1) for before, texts in groups])

    def log_weights(self, prefix: Tensor, **settings: Any) -> Tensor:  # (B, P) -> (B, n)
        """log w_i = -E(x_i) of n LM samples per prefix; `settings` are those of `weights.log_weights`."""
        return log_weights(self.lm, [self.energy], prefix, **settings)[0]

    def log_weights_after(
        self,
        prefix: Tensor,  # (B, P)
        given: Tensor,  # (B, G)
        tokens: Tensor,  # (B, M)
        *,
        length: int,
        num_samples: int,
        seed: int = 0,
        prefix_ids: Sequence[int],
        rows_per_batch: int = ROWS_PER_BATCH,
        progress: bool = False,
    ) -> Tensor:  # (B, M, n) float64
        """log w_i of continuations that are the given tokens, one of M more, and n samples of the rest after each.

        What stands before the M tokens is read once for all of them, where the LM's weights are at hand.
        """
        count, total = tokens.shape[1], tokens.shape[1] * num_samples
        if not isinstance(self.lm, CausalLM):
            begun = torch.cat((_repeat(given, count), tokens.unsqueeze(-1)), -1)  # (B, M, G + 1)
            streams = torch.tensor(prefix_ids)[:, None] * self.lm.vocab_size + tokens  # no two share random numbers
            return self.log_weights(
                _repeat(prefix, count).flatten(0, 1),
                length=length,
                num_samples=num_samples,
                seed=seed,
                prefix_ids=streams.flatten().tolist(),
                given=begun.flatten(0, 1),
                rows_per_batch=rows_per_batch,
                progress=progress,
            ).unflatten(0, (-1, count))
        weights = torch.empty(len(prefix), total, dtype=torch.double)
        first_tokens = tokens.repeat_interleave(num_samples, 1)  # (B, M n)
        lm, at_once = self.lm.within_call(len(prefix) * total), max(1, rows_per_batch // total)
        with progress_bar("samples", len(prefix) * total, progress) as bar:
            for start, done in product(range(0, len(prefix), at_once), range(0, total, rows_per_batch)):
                group, part = slice(start, start + at_once), slice(done, done + rows_per_batch)
                begun = first_tokens[group, part]  # (b, k)
                samples = lm.sample(
                    torch.cat((prefix[group], given[group]), 1),
                    num_samples=begun.shape[1],
                    first_sample=done,
                    max_new_tokens=length - given.shape[1],
                    seed=seed,
                    prefix_ids=prefix_ids[group],
                    rows_per_batch=rows_per_batch,
                    features=self.energy.features,
                    given_length=given.shape[1],
                    begun=begun,
                )
                continuations = torch.cat((_repeat(given[group], begun.shape[1]), samples.tokens), -1)  # (b, k, C)
                weights[group, part] = -self.score(prefix[group], continuations, samples.features).double()
                bar.advance(begun.numel())
        return weights.unflatten(1, (count, num_samples))


def _checked(energies: Tensor) -> Tensor:
    if energies.isnan().any() or (energies == -torch.inf).any():
        raise LexergyError(
            "the energy gave NaN or -inf for some text; expected finite numbers (or +inf for text that "
            "must not be); check the energy's weights and its training."
        )
    return energies


def _repeat(rows: Tensor, num_samples: int) -> Tensor:  # (B, P) -> (B, K, P)
    return rows.unsqueeze(1).expand(-1, num_samples, -1)
