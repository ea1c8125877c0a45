"""Texts while they are written, chunk by chunk, many in one batch.

A text is auto-regressive over chunks, each a draw of Algorithm 1 given all that stands before it (Sec. 6, Deng et al.
2020); a text of one chunk is what `ResidualEBM.generate` gives for the same seed, a longer one what `generate_long`
gives. The random numbers of a chunk depend on (seed, the text's number, the chunk's number) alone, so that texts of
different requests may share a batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lexergy.core.candidates import Candidate
from lexergy.core.decoding import Decoding
from lexergy.core.estimation import importance
from lexergy.core.estimation.smc import Resampling
from lexergy.core.random import stream_of, uniforms
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import weights_of
from lexergy.models.causal.samples import Samples
from lexergy.models.causal.stopping import cut
from lexergy.models.causal.top_log_probs import top_log_probs
from lexergy.models.joint.sampling import differences, draw_candidates, heavy_tails, text_of
from lexergy.models.joint.smc import particle_runs
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM
from lexergy.serve.api.catalogue import ServedModel

CHUNKS_OF_A_TEXT = 2**32  # numbers set aside for the chunks of one text
TOKENS_PER_BATCH = 2**15  # whose keys and values are held at once
LEAST_LOG_PROB = -9999.0  # of a token that the LM may not write; JSON has no infinity
INCOMPLETE = "�"  # what the bytes of a letter decode to while some are still to come

Finish: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True)
class Manner:
    """How texts are written; those written in the same manner may share a batch."""

    model: str
    decoding: Decoding
    num_candidates: int
    stop: tuple[str, ...] = ()
    stop_at_end: bool | None = None
    keep_best: int | None = None  # so many of lowest energy, where none is drawn by lot
    target_ess: float | None = None
    max_candidates: int | None = None
    by_smc: bool = False  # candidates are resampled while a chunk is written
    log_probs: int | None = None  # alternatives whose log-probability is told beside the token's own
    echo_log_probs: bool = False
    return_candidates: bool = False


class TokenLogProb(NamedTuple):
    """The base LM's, before temperature and truncation; None for the first token of all."""

    token: int
    log_prob: float | None
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Piece:
    """What one chunk adds to a text."""

    text: str  # what can be shown by now: no half letter, nothing that may become a stop string
    tokens: tuple[int, ...]
    finish: Finish | None
    energy: float | None
    log_prob: float
    num_candidates: int
    ess: float | None
    pareto_k: float | None
    num_ancestors: int | None
    sampled_tokens: int
    candidates: tuple[Candidate, ...] | None
    log_probs: tuple[TokenLogProb, ...]
    warnings: tuple[str, ...]


@dataclass
class Text:
    """One text of a request; `number` tells it from the others of the same seed."""

    manner: Manner
    prompt: tuple[int, ...]
    seed: int
    number: int
    max_tokens: int
    chunk_tokens: int
    tokens: list[int] = field(default_factory=list)
    chunks: int = 0
    shown: int = 0  # characters handed on
    finish: Finish | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Texts of one key are written in one batch; more candidates for one text must not mean more for another."""
        alone = self.manner.target_ess is not None
        return (self.manner, len(self.prompt) + len(self.tokens), self.next_length, id(self) if alone else None)

    @property
    def next_length(self) -> int:
        return min(self.chunk_tokens, self.max_tokens - len(self.tokens))

    @property
    def rows(self) -> int:
        return self.manner.num_candidates

    def fits(self, rows: int) -> bool:
        """Whether a batch of this length has room for so many rows."""
        return rows <= min(ROWS_PER_BATCH, TOKENS_PER_BATCH // max(1, self.next_length))

    def add(self, lm: LanguageModel, tokens: Sequence[int]) -> str:
        """Take a chunk in; the text that can be shown by now and was not before."""
        self.tokens += tokens
        self.chunks += 1
        stop, written = self.manner.stop, torch.tensor(self.tokens)
        whole = text_of(lm, written, ())
        text = cut(whole, stop)
        if text != whole or (self.tokens and self.tokens[-1] == lm.end_token):
            self.finish = "stop"
        elif len(self.tokens) >= self.max_tokens:
            self.finish = "length"
        ready = text if self.finish else _settled(text, stop)
        added = ready[self.shown :]
        self.shown = max(self.shown, len(ready))
        return added


def _settled(text: str, stop: Sequence[str]) -> str:
    """The part of an unfinished text that no later token changes."""
    text = text.rstrip(INCOMPLETE)
    longest = max((len(string) for string in stop), default=0)
    for length in range(min(longest - 1, len(text)), 0, -1):
        if any(string.startswith(text[-length:]) for string in stop):
            return text[:-length]
    return text


class Drawn(NamedTuple):
    """The candidates of B texts, the weights that one of each was drawn by, and by SMC whom they descend from."""

    samples: Samples  # n of each
    energy: Tensor  # (B, n)
    log_weights: Tensor  # (B, n)
    chosen: Tensor  # (B,)
    num_ancestors: Tensor | None = None  # (B,)


@torch.inference_mode()
def write_chunks(model: ServedModel, texts: Sequence[Text]) -> list[list[Piece]]:
    """The next chunk of each text, all of one key; of each text one piece, or, where the best are kept, so many."""
    manner, length = texts[0].manner, texts[0].next_length
    # Computed by its own number of rows, whatever texts share the batch.
    joint = model.stopping(manner.stop_at_end).within_call(manner.num_candidates)
    if length == 0:
        return [[_nothing(joint.lm, text)] * (manner.keep_best or 1) for text in texts]
    prefix = torch.tensor([[*text.prompt, *text.tokens] for text in texts])  # (B, P)
    decoding = manner.decoding
    drawn = _draw(
        joint,
        prefix,
        is_joint=model.joint is not None,
        by_smc=manner.by_smc,
        num_candidates=manner.num_candidates,
        max_new_tokens=length,
        seed=0,
        prefix_ids=[stream_of(text.seed, text.number * CHUNKS_OF_A_TEXT + text.chunks) for text in texts],
        stop=manner.stop,
        temperature=decoding.temperature,
        top_k=decoding.top_k,
        top_p=decoding.top_p,
        target_ess=manner.target_ess,
        max_candidates=manner.max_candidates,
    )
    # All that can fail comes before any text has grown, so that each may be tried again by itself.
    drafts = [_drafts(model, joint, text, prefix[row], drawn, row) for row, text in enumerate(texts)]
    return [list(_pieces(joint.lm, text, own)) for text, own in zip(texts, drafts, strict=True)]


def _draw(joint: WeighedLM, prefix: Tensor, *, is_joint: bool, by_smc: bool, **settings: Any) -> Drawn:  # (B, P)
    if is_joint and not by_smc:
        rows = max(1, min(ROWS_PER_BATCH, TOKENS_PER_BATCH // settings["max_new_tokens"]))
        samples, energy, chosen = draw_candidates(joint, prefix, rows_per_batch=rows, **settings)
        return Drawn(samples, energy, -energy, chosen)
    for name in ("target_ess", "max_candidates"):
        del settings[name]
    count = settings.pop("num_candidates")
    if by_smc:
        return _draw_by_smc(joint, prefix, count, settings)
    samples = joint.lm.sample(prefix, num_samples=count, **settings)
    none = torch.zeros_like(samples.log_prob)
    return Drawn(samples, none, none, torch.zeros(len(prefix), dtype=torch.long))


def _draw_by_smc(joint: WeighedLM, prefix: Tensor, count: int, settings: dict[str, Any]) -> Drawn:  # (B, P)
    """As `ResidualEBM.generate(method="smc")`, of many texts at once."""
    length = settings.pop("max_new_tokens")
    runs = particle_runs(
        joint, prefix, num_particles=count, num_runs=1, length=length, resampling=Resampling(), **settings
    )
    numbers = uniforms(settings["seed"], settings["prefix_ids"], length, 0, 1)  # (B, 1)
    chosen = importance.resample(runs.log_weights, numbers).squeeze(-1)
    return Drawn(runs.samples, runs.energy[:, 0], runs.log_weights, chosen, runs.population.num_ancestors[:, 0])


def _drafts(
    model: ServedModel, joint: WeighedLM, text: Text, prefix: Tensor, drawn: Drawn, row: int
) -> list[dict[str, Any]]:  # (P,)
    """The pieces of one text of the batch, but for their words: the candidate drawn, or those of lowest energy."""
    manner, first_chunk, energy, own = text.manner, text.chunks == 0, drawn.energy[row], slice(row, row + 1)
    tokens, log_prob, lengths = drawn.samples[:3]
    samples = Samples(tokens[own], log_prob[own], lengths[own], None)
    rows = [tokens[:length] for tokens, length in zip(samples.tokens[0], samples.lengths[0].tolist(), strict=True)]
    log_weights = drawn.log_weights[row]  # (n,)
    common: dict[str, Any] = {"num_candidates": len(rows), "ess": None, "pareto_k": None, "candidates": None}
    common["num_ancestors"] = None if drawn.num_ancestors is None else int(drawn.num_ancestors[row])
    told: list[str] = []
    if model.joint is not None:
        ess = float(importance.effective_sample_size(log_weights))
        pareto_k = float(importance.pareto_k(log_weights))
        common |= {"ess": ess, "pareto_k": pareto_k}
        told += differences(joint, len(prefix), text.next_length, vars(manner.decoding), samples) if first_chunk else []
        told += [] if manner.by_smc else heavy_tails(pareto_k, ess, len(rows))
    if manner.return_candidates:
        common["candidates"] = _listed(joint, manner, rows, samples.log_prob[0], energy, log_weights)
    chosen = [int(drawn.chosen[row])]
    if manner.keep_best is not None:
        chosen = torch.argsort(energy, stable=True)[: manner.keep_best].tolist()
    return [
        {
            "tokens": tuple(rows[index].tolist()),
            "energy": None if model.joint is None else float(energy[index]),
            "log_prob": float(samples.log_prob[0, index]),
            "sampled_tokens": int(samples.lengths.sum()) if place == 0 else 0,
            "log_probs": _log_probs(joint.lm, manner, prefix, rows[index], first_chunk),
            "warnings": tuple(told) if place == 0 else (),
            **common,
        }
        for place, index in enumerate(chosen)
    ]


def _pieces(lm: LanguageModel, text: Text, drafts: Sequence[dict[str, Any]]) -> Iterator[Piece]:
    """The text grows by the first; further ones, of the best kept, are texts of their own."""
    others = [replace(text, tokens=list(text.tokens)) for _ in drafts[1:]]
    for own, draft in zip([text, *others], drafts, strict=True):
        shown = own.add(lm, draft["tokens"])
        yield Piece(text=shown, finish=own.finish, **draft)


def _nothing(lm: LanguageModel, text: Text) -> Piece:
    """Of a text that may have no token: its prompt is only read."""
    text.finish = "length"
    log_probs = _log_probs(lm, text.manner, torch.tensor(text.prompt), torch.empty(0, dtype=torch.long), True)
    return Piece("", (), "length", None, 0.0, 0, None, None, None, 0, None, log_probs, ())


def _listed(
    joint: WeighedLM,
    manner: Manner,
    rows: Sequence[Tensor],  # n of (C_i,)
    log_prob: Tensor,  # (n,)
    energy: Tensor,  # (n,)
    log_weights: Tensor,  # (n,)
) -> tuple[Candidate, ...]:
    """All candidates, lowest energy first; the base LM's one candidate weighs 1."""
    weights = torch.softmax(log_weights, 0)
    return tuple(
        Candidate(
            text_of(joint.lm, rows[index], manner.stop),
            float(energy[index]),
            float(log_prob[index]),
            float(weights[index]),
            tuple(rows[index].tolist()),
        )
        for index in torch.argsort(energy, stable=True).tolist()
    )


def _log_probs(
    lm: LanguageModel, manner: Manner, prefix: Tensor, tokens: Tensor, first_chunk: bool
) -> tuple[TokenLogProb, ...]:  # (P,), (C,)
    """Of a chunk's tokens; of the prompt's too, before the first chunk, where it is echoed."""
    if manner.log_probs is None:
        return ()
    echoed = manner.echo_log_probs and first_chunk
    start = (0 if lm.start_token is not None else 1) if echoed else len(prefix)
    unknown = [TokenLogProb(int(prefix[0]), None, ())] if echoed and start == 1 else []
    whole = torch.cat((prefix, tokens))
    if start == len(whole):
        return tuple(unknown)
    log_prob, values, top = top_log_probs(weights_of(lm), whole, start, manner.log_probs)
    return (
        *unknown,
        *(
            TokenLogProb(
                token,
                max(own, LEAST_LOG_PROB),
                tuple((other, max(value, LEAST_LOG_PROB)) for other, value in zip(others, likely, strict=True)),
            )
            for token, own, others, likely in zip(
                whole[start:].tolist(), log_prob.tolist(), top.tolist(), values.tolist(), strict=True
            )
        ),
    )
