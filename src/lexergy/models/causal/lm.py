"""A frozen causal language model as a distribution: sample continuations, score them, read its states."""

import copy
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core.decoding import Decoding
from lexergy.core.ends import inside
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, read_json, reading
from lexergy.models.causal import states
from lexergy.models.causal.frozen import FrozenModel
from lexergy.models.causal.language_model import PREFIXES_AT_ONCE, LanguageModel
from lexergy.models.causal.local_residuals import RESIDUALS, LocalResidual, load_residual
from lexergy.models.causal.log_probs import pick_log_prob
from lexergy.models.causal.row_logits import row_logits
from lexergy.models.causal.samples import Samples
from lexergy.models.causal.sampling import Resampler, Sampling, sample_batch, sample_in_batches
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.causal.stopping import StopStrings
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.devices import default_device
from lexergy.models.loading.places import located, portable
from lexergy.models.loading.sources import CAUSAL_LMS
from lexergy.models.loading.weights import load_causal_lm
from lexergy.recipes.sections.local_residuals import ResidualKind
from lexergy.recipes.sections.runtime import Precision, Runtime, in_precision, split_precision
from lexergy.recipes.sections.shapes import Direction

REFERENCE = "lexergy_lm.json"
logger = logging.getLogger(__name__)
_HERE = "."


class _Reference(BaseModel):
    """What `REFERENCE` holds: where the model is, and what is to be known of its tokens."""

    model_config = ConfigDict(strict=True, frozen=True)

    source: str
    model: str | None = None  # which of a server's, for an LM that runs elsewhere
    forbidden_tokens: list[Annotated[int, Field(ge=0)]]
    start_token: Annotated[int, Field(ge=0)] | None
    end_token: Annotated[int, Field(ge=0)] | None = None
    direction: Direction = "left_to_right"
    residual: list[ResidualKind] = []
    precision: Precision = "float32"


class CausalLM(FrozenModel):
    """Any Hugging Face causal LM, frozen, without its forbidden tokens.

    `forbidden_tokens` have probability zero in sampling and scoring alike (for instance chat markers);
    `start_token` is put before each prefix for models that need one (their BOS). `end_token` ends a text: what stands
    after it in a row is padding, of which nothing is scored; without one, texts go on (`ending` and `endless` give the
    same LM with and without). `direction` tells of which order of text it is a model; tokens are in that order here,
    and in reading order in a `RightToLeftLM`. `runtime` computes the sampler's steps: torch, or openvino, which is
    faster and keeps the weights a second time; auto takes OpenVINO where it is installed and can. In the `precision`
    bfloat16 or int8 it is another LM, whose samples, scores and states all come from OpenVINO's graph of that
    precision, where the processor has such products; weights to train stay in float32. Tensors come in from any device
    and go out on the CPU, wherever the model lies.

    Examples:
        >>> import torch
        >>> from lexergy.testing import EnumerableLM  # a random GPT-2 over 7 tokens; any Hugging Face model goes here
        >>> lm = EnumerableLM()
        >>> samples = lm.sample(torch.tensor([[1, 2]]), num_samples=3, max_new_tokens=4, seed=0)
        >>> samples.tokens.shape, samples.log_prob.shape
        (torch.Size([1, 3, 4]), torch.Size([1, 3]))
        >>> rows = torch.cat([torch.tensor([[1, 2]] * 3), samples.tokens[0]], dim=1)
        >>> torch.allclose(lm.log_prob(rows, prefix_length=2), samples.log_prob[0], atol=1e-4)
        True
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        forbidden_tokens: Sequence[int] = (),
        start_token: int | None = None,
        end_token: int | None = None,
        source: str | None = None,
        direction: Direction = "left_to_right",
        runtime: Runtime = "auto",
        precision: Precision = "float32",
    ) -> None:
        super().__init__(model, forbidden_tokens, start_token, end_token, runtime, precision)
        self.tokenizer = tokenizer
        self.source = source or model.name_or_path or None
        self.direction = direction
        self._frozen_model = model

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        dtype: str = "float32",
        device: str | torch.device | None = None,
        forbidden_tokens: Sequence[int] | None = None,
        start_token: int | None = None,
        direction: Direction = "left_to_right",
        runtime: Runtime = "auto",
        precision: Precision | None = None,
    ) -> "CausalLM":
        """Load a folder, a Hub name, a GGUF file, `smollm2-135m`, `gemma3-270m`, or the `lm` folder of a run.

        It goes to `device`; unless one is given, to a GPU where there is one. `direction` is what the caller takes it
        for: a folder that says otherwise is refused. `precision` is float32 unless it is given, here, in the source
        (`smollm2-135m#precision=bfloat16`) or by the folder.
        """
        source, named = split_precision(source)
        precision = precision or named
        given, reference, end_token = source, read_reference(Path(source)), None
        if reference is not None:
            precision = precision or reference["precision"]
            _check_direction(reference.get("direction", "left_to_right"), direction, source)
            source = Path(source) if reference["source"] == _HERE else located(reference["source"], source)
            forbidden_tokens = reference["forbidden_tokens"] if forbidden_tokens is None else forbidden_tokens
            start_token = reference["start_token"] if start_token is None else start_token
            end_token = reference.get("end_token")
            if isinstance(source, str) and not Path(source).expanduser().exists() and source not in CAUSAL_LMS:
                logger.info("%s names the language model %s, which is read from the Hugging Face Hub", given, source)
        loaded = load_causal_lm(str(source), dtype=dtype)
        if reference is None and start_token is None:
            start_token = loaded.start_token
        lm = cls(
            loaded.model.to(device or (default_device() if precision in (None, "float32") else "cpu")),  # type: ignore[arg-type]
            loaded.tokenizer,
            forbidden_tokens=forbidden_tokens or (),
            start_token=start_token,
            end_token=end_token,
            source=str(source),
            direction=direction,
            runtime=runtime,
            precision=precision or "float32",
        )
        return lm.corrected([load_residual(given, kind) for kind in (reference or {}).get("residual", ())])

    @property
    def name(self) -> str:
        """Its source, its precision where that is not the usual one, and by what it is corrected."""
        kinds = ", ".join(residual.kind for residual in self.residuals)
        name = in_precision(str(self.source), self.precision)
        return f"{name}, corrected by {kinds}" if kinds else name

    def corrected(self, residuals: Sequence[LocalResidual]) -> "CausalLM":
        """The LM without its own residuals and with these, each of another kind, in the order of `RESIDUALS`.

        Its states stay those of the frozen model; sampling and scoring are by the corrected distribution.
        """
        order = list(RESIDUALS)
        lm = copy.copy(self)
        lm.residuals = tuple(
            residual.to(self.device) for residual in sorted(residuals, key=lambda residual: order.index(residual.kind))
        )
        lm.model, lm._last = self._frozen_model, {}
        for residual in lm.residuals:
            residual.check(self.vocab_size)
            lm.model = residual.on(lm.model)
        return lm

    @without_bars()
    def save_pretrained(self, folder: str | Path) -> None:
        """Write what `from_pretrained(folder)` reads: the model, or, if its source is another place, where that is."""
        here = self.source is None or Path(self.source).resolve() == Path(folder).resolve()
        if here:
            self._frozen_model.save_pretrained(folder)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(folder)
        record = {
            "source": _HERE if here else portable(str(self.source), folder),
            "forbidden_tokens": list(self.forbidden_tokens),
            "start_token": self.start_token,
            **({"direction": self.direction} if self._turned() else {}),
            **({} if self.end_token is None else {"end_token": self.end_token}),
            **({"residual": [residual.kind for residual in self.residuals]} if self.residuals else {}),
            **({} if self.precision == "float32" else {"precision": self.precision}),
        }
        for residual in self.residuals:
            residual.save(folder)
        atomic_write_json(Path(folder) / REFERENCE, record)

    def _turned(self) -> tuple[str, ...]:
        """The direction where it is not the usual one: records of before there were two stay as they are."""
        return () if self.direction == "left_to_right" else (self.direction,)

    def fingerprint(self) -> str:
        """A hash of configuration and weights, for provenance."""
        digest = hashlib.sha256(self.model.config.to_json_string(use_diff=True).encode())
        ends = () if self.end_token is None else (self.end_token,)
        ends = (*ends, self.precision) if self.precision != "float32" else ends
        digest.update(json.dumps([self.forbidden_tokens, self.start_token, *self._turned(), *ends]).encode())
        for name, weight in self.model.state_dict().items():
            digest.update(_numbers(name, weight))
        for residual in self.residuals:
            for name, tensor in residual.tensors().items():
                digest.update(_numbers(f"{residual.kind}.{name}", tensor))
        return digest.hexdigest()[:16]

    @torch.inference_mode()
    def sample(
        self,
        prefix_tokens: Tensor,  # (B, P)
        *,
        num_samples: int,
        max_new_tokens: int,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        prefix_ids: Sequence[int] | None = None,
        first_sample: int = 0,
        rows_per_batch: int = PREFIXES_AT_ONCE,
        features: StateFeatures | None = None,
        given_length: int = 0,
        resampler: Resampler | None = None,
        kept: Tensor | None = None,  # (B, C)
        begun: Tensor | None = None,  # (B, K)
    ) -> Samples:
        """Draw K = `num_samples` continuations of each prefix, with their log-probabilities.

        The random numbers of a sample depend on the seed, its prefix's id (by default its row), its number
        (counted from `first_sample`) and the position, so `rows_per_batch` changes speed, never results.
        A sample has exactly `max_new_tokens` tokens, or ends at the LM's end token, or where its text has one of the
        strings of `stop`. The `features` are those of the continuation, of which the last `given_length` tokens of the
        prefix are a part. A `resampler` lets some samples go on in place of others: then all are drawn as one batch.
        The first sample of each prefix is `kept`, where that is given, and not drawn; where `begun` is given, each
        sample has its first token from there.
        """
        strings = StopStrings(stop, self.need_tokenizer()) if stop else None
        prefix_tokens = self.check_prefix(prefix_tokens, max_new_tokens)
        sampling = Sampling(
            max_new_tokens,
            Decoding(temperature, top_k, top_p),
            seed,
            strings,
            features,
            given_length,
            resampler,
            None if kept is None else kept.to(self.device),
            None if begun is None else begun.to(self.device),
        )
        self.check_counts(num_samples, max_new_tokens)
        if features is not None:
            features.check(self.last_state_layer)
        streams = list(range(len(prefix_tokens)) if prefix_ids is None else prefix_ids)
        lm = self.within_call(len(prefix_tokens) * num_samples)
        if resampler is not None or kept is not None:
            return sample_batch(lm, prefix_tokens, streams, first_sample, num_samples, sampling)
        return sample_in_batches(lm, prefix_tokens, streams, first_sample, num_samples, rows_per_batch, sampling)

    def sample_chunks(
        self, prefix_tokens: Tensor, *, num_samples: int, chunk_size: int, **kwargs: Any
    ) -> Iterator[Samples]:
        """The same samples as `sample`, a slice of at most `chunk_size` per prefix at a time."""
        lm = self.within_call(len(prefix_tokens) * num_samples)
        return super(CausalLM, lm).sample_chunks(
            prefix_tokens, num_samples=num_samples, chunk_size=chunk_size, **kwargs
        )

    @torch.inference_mode()
    def token_log_prob(self, tokens: Tensor, *, prefix_length: int) -> Tensor:
        """log p_LM(x_t | x_<t) of each continuation token of rows (B, L): (B, C) float64, 0 after the end token."""
        scored = row_logits(self, self.check_rows(tokens, prefix_length), prefix_length)
        log_prob = torch.cat([pick_log_prob(part.logits, part.rows[:, prefix_length:]) for part in scored]).cpu()
        ends = self.lengths(torch.as_tensor(tokens)[:, prefix_length:].cpu())
        return log_prob.masked_fill(~inside(ends, log_prob.shape[1]), 0)

    @torch.inference_mode()
    def next_log_prob(self, prefix_tokens: Tensor) -> Tensor:
        """The distribution of the next token, (B, V), -inf for forbidden tokens."""
        prefix_tokens = self.check_prefix(prefix_tokens, 0)
        logits = self.prefill(prefix_tokens).logits.double()
        log_probs = self.correct(logits, self.contexts(prefix_tokens)[:, -1]).log_softmax(-1)
        return log_probs.index_fill(-1, self.forbidden_index(), -torch.inf).cpu()

    @torch.inference_mode()
    def state_features(
        self, tokens: Tensor, *, prefix_length: int, features: StateFeatures, lengths: Tensor | None = None
    ) -> Tensor:
        """What the sampler would have handed on, had it drawn the continuations of rows (B, L): (B, F).

        Of each continuation the first `lengths` (B,) tokens count: unless given, those up to the end token.
        """
        return states.state_features(self, tokens, prefix_length, features, lengths)

    @torch.inference_mode()
    def token_features(self, tokens: Tensor, *, features: StateFeatures) -> Tensor:
        """States and moments of each token of rows (B, L) after the first: (B, L - 1, F).

        Their mean over a row is `state_features(rows, prefix_length=1, features=features)`.
        """
        return states.token_features(self, tokens, features)

    @torch.inference_mode()
    def token_features_of(self, rows: Sequence[Tensor], *, features: StateFeatures) -> list[Tensor]:
        """The same of rows of any lengths (L,), at least 2: (L - 1, F) each."""
        return states.token_features_of(self, rows, features)

    @torch.inference_mode()
    def next_token_features(
        self,
        prefix_tokens: Tensor,  # (B, P)
        tokens: Tensor,  # (M,)
        *,
        given_length: int,
        features: StateFeatures,
    ) -> Tensor:  # (B, M, F)
        """What the sampler would have handed on, had it drawn each of these tokens after each prefix.

        The last `given_length` tokens of the prefix are a part of the continuation. Each prefix is run once,
        and then one step for all the tokens.
        """
        return states.next_token_features(self, prefix_tokens, tokens, given_length, features)


def _numbers(name: str, weight: Tensor) -> bytes:
    return f"{name} {weight.double().sum():.17g} {weight.double().abs().sum():.17g}".encode()


def weights_of(lm: LanguageModel) -> CausalLM:
    """The LM, if its weights are here."""
    if isinstance(lm, CausalLM):
        return lm
    raise LexergyError(
        f"the LM {lm.source} runs elsewhere, and its weights and states are needed here; expected an energy that reads "
        "text or tokens (`kind: fitted_reader`, `encoder`, `linear`, `bilstm`), or an LM in this process "
        "(`source: smollm2-135m`)."
    )


def read_reference(folder: Path) -> dict[str, Any] | None:
    """What `save_pretrained` noted in a folder; None where there is no note."""
    path = folder / REFERENCE
    if not path.is_file():
        return None
    remedy = "copy it again, or start the same run again"
    with reading(path, remedy):
        return _Reference.model_validate(read_json(path, dict, remedy)).model_dump()


def _check_direction(actual: str, expected: Direction, source: str | Path) -> None:
    if actual != expected:
        loader = "RightToLeftLM" if actual == "right_to_left" else "CausalLM"
        raise LexergyError(
            f"the LM in {source} reads {actual.replace('_', ' ')}; expected {expected.replace('_', ' ')}; load it with "
            f"{loader}.from_pretrained."
        )
