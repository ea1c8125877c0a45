"""The joint model: a frozen causal LM times exp(-E), log p~(x) = log p_LM(x) - E(x)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from lexergy.core.candidates import GivenCandidate
from lexergy.core.estimation import importance, partition
from lexergy.core.estimation.perplexity import PerplexityEstimate, perplexity_from_weights
from lexergy.core.estimation.proposals import TokenTilt
from lexergy.core.estimation.smc import Resampling, Twist
from lexergy.core.vocabulary import NEVER
from lexergy.errors import LexergyError
from lexergy.models.joint.long_particles import write_long_by_smc
from lexergy.models.joint.long_text import LongGeneration, write_long
from lexergy.models.joint.reranking import Reranked, WeighedBy, rerank
from lexergy.models.joint.sampling import Generation, joint_sample
from lexergy.models.joint.smc import NUM_RUNS, ParticleFacts, fit_twist, run_populations, runs_beside, smc_sample
from lexergy.models.joint.steps import NextTokens, StepProbabilities, next_tokens, step_probabilities
from lexergy.models.joint.tilts import fit_tilt
from lexergy.models.joint.token_by_token import TokenGeneration, generate_tokens
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM

Method = Literal["importance", "smc"]


class HasWindows(Protocol):
    """Windows of prefix + continuation, as `lexergy.data` makes them."""

    @property
    def tokens(self) -> Tensor: ...  # (B, L)

    @property
    def prefix_length(self) -> int: ...

    @property
    def document_ids(self) -> Sequence[str]: ...  # B


@dataclass(frozen=True)
class LogZ:
    """Bounds on log Z of each prefix (Theorem 2, Deng et al. 2020).

    They are of n i.i.d. estimates of Z, and so are ESS and k-hat: the weights of n samples, or the Z^ of n runs of SMC.
    """

    lower: Tensor  # (B,)
    upper: Tensor  # (B,)
    ess: Tensor  # (B,)
    pareto_k: Tensor  # (B,)
    num_samples: int  # n, or the particles of a run
    particles: ParticleFacts | None = None  # with SMC


class ResidualEBM(WeighedLM):
    """P(x | prefix) = P_LM(x | prefix) exp(-E(prefix, x)) / Z(prefix), Eq. 2, Deng et al. 2020.

    `energy` is an EnergyModel, or any module or function from token ids (B, L) to numbers (B,), low where
    text is likely. Continuations have a fixed length, unless the LM has an end token (`lm.ending()`): then they have at
    most that length, and the end token counts as one of theirs. `trained_on` are the conditions of the energy's
    training; `generate` warns of a use unlike them.

    Examples:
        >>> import torch
        >>> from lexergy import ResidualEBM
        >>> from lexergy.testing import EnumerableLM
        >>> joint = ResidualEBM(EnumerableLM(), lambda tokens: 2.0 * (tokens == 6).sum(-1))
        >>> out = joint.generate([1, 2], num_candidates=64, max_new_tokens=4, seed=0)
        >>> len(out.tokens), 1 <= out.ess <= 64
        (4, True)
        >>> windows = torch.tensor([[1, 2, 3, 4, 5], [2, 1, 4, 6, 3]])
        >>> ppl = joint.perplexity(windows, prefix_length=2, num_samples=200, seed=0)
        >>> ppl.lower <= ppl.upper, ppl.bound > 1  # optimistic and pessimistic; what it is at most
        (True, True)
    """

    def perplexity(
        self,
        tokens: Tensor | HasWindows,
        prefix_length: int | None = None,
        num_samples: int = 1000,
        seed: int = 0,
        *,
        rows_per_batch: int = ROWS_PER_BATCH,
        progress: bool = False,
        method: Method = "importance",
        num_runs: int | None = None,
        resampling: Resampling | None = None,
    ) -> PerplexityEstimate:
        """Perplexity of the continuations in token rows (B, L) or windows: `bound`, and Theorem 2's interval.

        `tokens` given as rows need `prefix_length`, and count as documents of their own in standard errors.
        `rows_per_batch` changes speed and memory, never results. By `smc` the estimates are `num_runs` runs of
        `num_samples` particles, and the bound is that of a text drawn from so many runs; one run more, conditional on
        the text, takes the place of its own weight.
        """
        num_runs, resampling = _runs(method, num_runs, resampling)
        documents = None if isinstance(tokens, Tensor) else tokens.document_ids
        rows, prefix_length = _rows_and_prefix(tokens, prefix_length)
        rows = rows.cpu()
        _check_num_samples(num_samples)
        base_log_prob = self.lm.log_prob(rows, prefix_length=prefix_length)  # (B,)
        _check_possible(base_log_prob)
        prefix, continuations = rows[:, :prefix_length], rows[:, prefix_length:]
        energy = self.score_texts(prefix, continuations, rows_per_batch)  # (B,)
        settings: dict[str, Any] = {"seed": seed, "rows_per_batch": rows_per_batch}
        runs: dict[str, Any] = {}
        if method == "smc":
            settings |= {"num_particles": num_samples, "num_runs": num_runs, "resampling": resampling}
            log_weights, own, num_ancestors = runs_beside(self, prefix, continuations, **settings)
            runs = {"own": own, "num_particles": num_samples, "num_ancestors": num_ancestors}
        else:
            settings |= {"length": continuations.shape[1], "num_samples": num_samples, "progress": progress}
            log_weights = self.log_weights(prefix, **settings)
        length = float(self.lm.lengths(continuations).double().mean())
        return perplexity_from_weights(base_log_prob, energy, log_weights, length, seed, documents=documents, **runs)

    def log_z(
        self,
        prefix_tokens: Tensor,  # (B, P)
        *,
        length: int,
        num_samples: int = 1000,
        seed: int = 0,
        prefix_ids: Sequence[int] | None = None,
        rows_per_batch: int = ROWS_PER_BATCH,
        method: Method = "importance",
        num_runs: int | None = None,
        resampling: Resampling | None = None,
    ) -> LogZ:
        """Bounds on log Z = log E_LM[exp(-E)] over continuations of `length` tokens, for each prefix.

        The random numbers of a prefix depend on the seed and its id, by default its row. By `smc` the bounds are of
        `num_runs` (16 unless given) independent runs of `num_samples` particles each.
        """
        num_runs, resampling = _runs(method, num_runs, resampling)
        _check_num_samples(num_samples)
        prefix, particles = torch.as_tensor(prefix_tokens).cpu(), None
        settings: dict[str, Any] = {
            "length": length,
            "seed": seed,
            "prefix_ids": prefix_ids,
            "rows_per_batch": rows_per_batch,
        }
        if method == "smc":
            population = run_populations(
                self, prefix, num_particles=num_samples, num_runs=num_runs, resampling=resampling, **settings
            )
            particles, weights = ParticleFacts.of(population), population.log_z_estimate
        else:
            weights = self.log_weights(prefix, num_samples=num_samples, **settings)
        return LogZ(
            lower=partition.lower_bound(weights),
            upper=partition.upper_bound(weights),
            ess=importance.effective_sample_size(weights),
            pareto_k=importance.pareto_k(weights),
            num_samples=num_samples,
            particles=particles,
        )

    def fit_twist(
        self,
        prefix_tokens: Tensor,  # (B, P)
        *,
        length: int,
        num_samples: int = 64,
        seed: int = 0,
        tilt: TokenTilt | None = None,
    ) -> Twist:
        """What the energy of a text so far tells of its last one, by least squares on samples of prefixes.

        For `Resampling(twist=...)`, where an energy is no mean over tokens; with a tilt, for texts drawn by it.
        Take another seed, or other prefixes, than for what it is used for: given the twist, Z^ is unbiased.
        """
        prefix = torch.as_tensor(prefix_tokens).cpu()
        settings: dict[str, Any] = {"length": length, "num_samples": num_samples, "seed": seed, "tilt": tilt}
        return fit_twist(self, prefix, prefix_ids=range(len(prefix)), **settings)

    def fit_tilt(
        self,
        prefix_tokens: Tensor,  # (B, P)
        *,
        length: int,
        num_samples: int = 16,
        seed: int = 0,
    ) -> TokenTilt:
        """What each next token will add to the energy, guessed from samples of prefixes, for `Resampling(tilt=...)`.

        SMC then draws tokens by that guess too. Fit a twist for the same tilt after it. As there, take another seed or
        other prefixes than for what it is used for.
        """
        prefix = torch.as_tensor(prefix_tokens).cpu()
        settings: dict[str, Any] = {"length": length, "num_samples": num_samples, "seed": seed}
        return fit_tilt(self, prefix, prefix_ids=range(len(prefix)), **settings)[0]

    def generate(
        self,
        prompt: str | Sequence[int] | Tensor,
        num_candidates: int = 256,
        max_new_tokens: int = 40,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        target_ess: float | None = None,
        max_candidates: int | None = None,
        stop: Sequence[str] = (),
        stop_at_end: bool | None = None,
        method: Method = "importance",
        num_runs: int | None = None,
        resampling: Resampling | None = None,
    ) -> Generation:
        """A continuation from the joint model: the best of the LM's candidates, by lot (Algorithm 1).

        A candidate has `max_new_tokens` tokens, or stops before: at end-of-text (`stop_at_end`; None: if the LM may
        write that), or as soon as its text has one of the strings of `stop`. Its text is cut there; its log-probability
        and its energy are of all its tokens, up to the one that stopped it.

        With `target_ess`, the candidates are doubled until their effective sample size reaches it or
        `max_candidates` (16 times `num_candidates` unless given) are drawn.

        By `smc` the candidates are particles, which are resampled by their partial energies while they are written, in
        `num_runs` independent runs (one unless given) of `num_candidates` each.
        """
        settings: dict[str, Any] = {
            "num_candidates": num_candidates,
            "max_new_tokens": max_new_tokens,
            "top_k": top_k,
            "top_p": top_p,
            "temperature": temperature,
            "seed": seed,
            "stop": stop,
            "stop_at_end": stop_at_end,
        }
        num_runs, resampling = _runs(method, num_runs, resampling, default=1)
        if method == "importance":
            return joint_sample(self, prompt, target_ess=target_ess, max_candidates=max_candidates, **settings)
        if target_ess is not None or max_candidates is not None:
            raise LexergyError("`target_ess` beside `method` smc; expected one or the other; set `num_runs` instead.")
        return smc_sample(self, prompt, num_runs=num_runs, resampling=resampling, **settings)

    def generate_tokens(self, prompt: str | Sequence[int] | Tensor, **settings: Any) -> TokenGeneration:
        """A continuation token by token, by what the rest is worth after each candidate (App. A.1).

        `settings` are those of `token_by_token.generate_tokens`; `generate` is cheaper by far.
        """
        return generate_tokens(self, prompt, **settings)

    def generate_long(
        self,
        prompt: str | Sequence[int] | Tensor,
        num_chunks: int = 4,
        chunk_tokens: int = 40,
        num_candidates: int = 256,
        context_tokens: int | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        stop_at_end: bool | None = None,
        method: Method = "importance",
    ) -> LongGeneration:
        """A long continuation, chunk by chunk: each is resampled by its energy and kept (Sec. 6).

        The LM and the energy read at most the last `context_tokens` tokens before a chunk; best are the lengths
        that the energy was trained with. The text stops as in `generate`.

        By `smc`, `num_candidates` whole texts are carried on side by side and resampled after each chunk by the
        energies of all their chunks, whose target is P_LM(x) exp(-sum_j E_j) / Z: a beginning is given up if what
        follows is poor (`long_particles`). Any energy will do.
        """
        _runs(method, None, None)
        write = write_long_by_smc if method == "smc" else write_long
        return write(
            self,
            prompt,
            num_chunks=num_chunks,
            chunk_tokens=chunk_tokens,
            num_candidates=num_candidates,
            context_tokens=context_tokens,
            top_k=top_k,
            top_p=top_p,
            temperature=temperature,
            seed=seed,
            stop=stop,
            stop_at_end=stop_at_end,
        )

    def rerank(
        self,
        prompt: str | Sequence[int] | Tensor,
        candidates: Sequence[str | GivenCandidate],
        weigh_by: WeighedBy = "energy",
        seed: int = 0,
    ) -> Reranked:
        """Energies and weights of continuations from anywhere; one of them drawn, and the best.

        Weighed by `energy` they count as samples of the LM, or, where they have a `log_prob`, of whatever gave them
        that; by `joint`, as a list that nobody drew.
        """
        given = [GivenCandidate(candidate) if isinstance(candidate, str) else candidate for candidate in candidates]
        return rerank(self, prompt, given, weigh_by=weigh_by, seed=seed)

    def step_probabilities(
        self,
        tokens: Tensor,  # (B, L)
        prefix_length: int,
        num_samples: int = 1000,
        seed: int = 0,
        *,
        rows_per_batch: int = ROWS_PER_BATCH,
        enumerated: int | None = None,
    ) -> StepProbabilities:
        """Bounds on log P(x_t | x_<t) at each position of the continuation, exact at the last (Eq. 5).

        With `enumerated`, so many of the likeliest tokens are summed at the last position, and a few that are drawn
        stand for the others: with a large vocabulary all of them cost more than everything else.
        """
        _check_num_samples(num_samples)
        return step_probabilities(
            self,
            tokens,
            prefix_length,
            num_samples=num_samples,
            seed=seed,
            rows_per_batch=rows_per_batch,
            enumerated=enumerated,
        )

    def next_token(
        self,
        prompt: str | Sequence[int] | Tensor,
        candidates: int = 128,
        num_samples: int = 64,
        horizon: int = 40,
        top: int = 10,
        seed: int = 0,
        *,
        rows_per_batch: int = ROWS_PER_BATCH,
        progress: bool = False,
        given: int = 0,
    ) -> NextTokens:
        """The joint model's next-token probabilities beside the LM's (App. A.1).

        The last `given` tokens of the prompt count as the beginning of the continuation that the energy judges.
        """
        return next_tokens(
            self,
            prompt,
            candidates=candidates,
            num_samples=num_samples,
            horizon=horizon,
            top=top,
            seed=seed,
            rows_per_batch=rows_per_batch,
            progress=progress,
            given=given,
        )


def _runs(
    method: str, num_runs: int | None, resampling: Resampling | None, default: int = NUM_RUNS
) -> tuple[int, Resampling]:
    """How many runs of SMC, and how they resample; importance sampling knows neither."""
    if method not in get_args(Method):
        raise LexergyError(f"`method` is {method!r}; expected one of {', '.join(get_args(Method))}.")
    if method == "importance" and (num_runs is not None or resampling is not None):
        raise LexergyError('`num_runs` or `resampling` without runs of SMC; expected `method="smc"`; leave them out.')
    if num_runs is not None and num_runs < min(default, 2):
        raise LexergyError(
            f"`num_runs` is {num_runs}; expected at least {min(default, 2)}; leave it out for {default}."
        )
    return num_runs or default, resampling or Resampling()


def _rows_and_prefix(tokens: Tensor | HasWindows, prefix_length: int | None) -> tuple[Tensor, int]:
    if isinstance(tokens, Tensor):
        if prefix_length is None:
            raise LexergyError("`prefix_length` is missing; token rows (B, L) need it; windows bring their own.")
        return tokens, prefix_length
    if prefix_length not in (None, tokens.prefix_length):
        raise LexergyError(
            f"`prefix_length` is {prefix_length} but the windows say {tokens.prefix_length}; leave it out."
        )
    return tokens.tokens, tokens.prefix_length


def _check_possible(log_prob: Tensor) -> None:  # (B,)
    impossible = (~(log_prob > NEVER / 2)).nonzero().flatten().tolist()
    if impossible:
        raise LexergyError(
            f"row {impossible[0]} holds a token that the LM may not write ({len(impossible)} of {len(log_prob)} rows "
            "do), and its perplexity is infinite; leave such rows out, or give an LM without `forbidden_tokens`."
        )


def _check_num_samples(num_samples: int) -> None:
    if num_samples < 2:
        raise LexergyError(
            f"`num_samples` is {num_samples}; expected at least 2; the upper bound of log Z leaves one out."
        )
