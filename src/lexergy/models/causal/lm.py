"""A frozen causal language model as a distribution: sample continuations, score them, read its states."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core.decoding import Decoding
from lexergy.core.vocabulary import NEVER, VocabularySummary, summarise
from lexergy.errors import LexergyError
from lexergy.models.causal.llama_rows import LlamaContinuations, is_plain_llama
from lexergy.models.causal.log_probs import pick_log_prob, rows_at_once
from lexergy.models.causal.sampling import PooledStates, RepeatedPrefix, Samples, sample_batch
from lexergy.models.causal.shared_prefix import Continuations, PrefixSharing, SharedPrefix, prefill
from lexergy.models.causal.state_features import StateFeatures, token_moments, token_statistics
from lexergy.models.loading.devices import default_device
from lexergy.models.loading.weights import load_causal_lm
from lexergy.recipes.shapes import Direction

_REFERENCE = "lexergy_lm.json"
_HERE = "."
_PREFIXES_AT_ONCE = 256  # whose keys and values are held at once


class _Prefilled(NamedTuple):
    key: tuple[Any, ...]
    logits: Tensor  # (B, V), of the token after the prefix
    shared: SharedPrefix


class _Given(NamedTuple):
    key: tuple[Any, ...]
    pool: PooledStates


class CausalLM:
    """Any Hugging Face causal LM, frozen, without its forbidden tokens.

    `forbidden_tokens` have probability zero in sampling and scoring alike (for instance chat markers);
    `start_token` is put before each prefix for models that need one (their BOS). `direction` tells of which order of
    text it is a model; tokens are in that order here, and in reading order in a `RightToLeftLM`. Tensors come in
    from any device and go out on the CPU, wherever the model lies.

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
        source: str | None = None,
        direction: Direction = "left_to_right",
    ) -> None:
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.forbidden_tokens = tuple(sorted(forbidden_tokens))
        self.start_token = start_token
        self.source = source or model.name_or_path or None
        self.direction = direction
        self._sharing = PrefixSharing(model)
        self._prefilled: _Prefilled | None = None
        self._given: _Given | None = None

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
    ) -> "CausalLM":
        """Load a folder, a Hub name, a GGUF file, `smollm2-135m`, `gemma3-270m`, or the `lm` folder of a run.

        It goes to `device`; unless one is given, to a GPU where there is one. `direction` is what the caller takes it
        for: a folder that says otherwise is refused.
        """
        reference = _read_reference(Path(source))
        if reference is not None:
            _check_direction(reference.get("direction", "left_to_right"), direction, source)
            source = Path(source) if reference["source"] == _HERE else reference["source"]
            forbidden_tokens = reference["forbidden_tokens"] if forbidden_tokens is None else forbidden_tokens
            start_token = reference["start_token"] if start_token is None else start_token
        loaded = load_causal_lm(str(source), dtype=dtype)
        if reference is None and start_token is None:
            start_token = loaded.start_token
        return cls(
            loaded.model.to(device or default_device()),  # type: ignore[arg-type]
            loaded.tokenizer,
            forbidden_tokens=forbidden_tokens or (),
            start_token=start_token,
            source=str(source),
            direction=direction,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write what `from_pretrained(folder)` reads: the model, or, if its source is another place, where that is."""
        here = self.source is None or Path(self.source).resolve() == Path(folder).resolve()
        if here:
            self.model.save_pretrained(folder)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(folder)
        record = {
            "source": _HERE if here else self.source,  # a folder that holds its own model can be moved
            "forbidden_tokens": list(self.forbidden_tokens),
            "start_token": self.start_token,
            **({"direction": self.direction} if self._turned() else {}),
        }
        (Path(folder) / _REFERENCE).write_text(json.dumps(record, indent=2) + "\n")

    def _turned(self) -> tuple[str, ...]:
        """The direction where it is not the usual one: records of before there were two stay as they are."""
        return () if self.direction == "left_to_right" else (self.direction,)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def vocab_size(self) -> int:
        return self.model.get_output_embeddings().weight.shape[0]

    @property
    def hidden_size(self) -> int:
        return self.model.config.get_text_config().hidden_size

    @property
    def num_layers(self) -> int:
        return self.model.config.get_text_config().num_hidden_layers

    @property
    def last_state_layer(self) -> int:
        """The last layer whose states are `hidden_size` wide: OPT may project its last to its embeddings' width."""
        width = getattr(self.model.config.get_text_config(), "word_embed_proj_dim", self.hidden_size)
        return self.num_layers if width == self.hidden_size else self.num_layers - 1

    @property
    def max_length(self) -> int | None:
        """The most tokens the model reads, its start token apart."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return limit if limit is None or self.start_token is None else limit - 1

    @property
    def special_tokens(self) -> tuple[int, ...]:
        """Ids of the tokenizer's control tokens, those that plain text never contains."""
        if self.tokenizer is None:
            return ()
        return tuple(sorted(i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special))

    def fingerprint(self) -> str:
        """A hash of configuration and weights, for provenance."""
        digest = hashlib.sha256(self.model.config.to_json_string(use_diff=True).encode())
        digest.update(json.dumps([self.forbidden_tokens, self.start_token, *self._turned()]).encode())
        for name, weight in self.model.state_dict().items():
            digest.update(f"{name} {weight.double().sum():.17g} {weight.double().abs().sum():.17g}".encode())
        return digest.hexdigest()[:16]

    def encode(self, text: str) -> Tensor:
        """Token ids (P,) of a text, without special tokens."""
        ids = self.need_tokenizer()(text, add_special_tokens=False)["input_ids"]
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, tokens: Tensor) -> list[str]:
        """The texts of token rows (..., C), flattened to a list."""
        rows = tokens.reshape(-1, tokens.shape[-1]).tolist()
        return self.need_tokenizer().batch_decode(rows, clean_up_tokenization_spaces=False)

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
        stop_token: int | None = None,
        prefix_ids: Sequence[int] | None = None,
        first_sample: int = 0,
        rows_per_batch: int = _PREFIXES_AT_ONCE,
        features: StateFeatures | None = None,
        given_length: int = 0,
    ) -> Samples:
        """Draw K = `num_samples` continuations of each prefix, with their log-probabilities.

        The random numbers of a sample depend on the seed, its prefix's id (by default its row), its number
        (counted from `first_sample`) and the position, so `rows_per_batch` changes speed, never results.
        A sample has exactly `max_new_tokens` tokens, or ends at `stop_token` where one is given. The `features`
        are those of the continuation, of which the last `given_length` tokens of the prefix are a part.
        """
        decoding = Decoding(temperature, top_k, top_p)
        prefix_tokens = self._check_prefix(prefix_tokens, max_new_tokens)
        for name, value in (("num_samples", num_samples), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise LexergyError(f"`{name}` is {value}; expected at least 1.")
        if features is not None:
            features.check(self.last_state_layer)
        streams = list(range(len(prefix_tokens)) if prefix_ids is None else prefix_ids)
        prefixes = max(1, rows_per_batch // num_samples)
        groups = []
        for start in range(0, len(prefix_tokens), prefixes):
            group = slice(start, start + prefixes)
            chunks = [
                sample_batch(
                    self,
                    prefix_tokens[group],
                    streams[group],
                    first_sample + done,
                    min(rows_per_batch, num_samples - done),
                    max_new_tokens,
                    decoding,
                    seed,
                    stop_token,
                    features,
                    given_length,
                )
                for done in range(0, num_samples, rows_per_batch)
            ]
            groups.append(_join(chunks, 1))
        return _join(groups, 0)

    def sample_chunks(
        self, prefix_tokens: Tensor, *, num_samples: int, chunk_size: int, **kwargs: Any
    ) -> Iterator[Samples]:
        """The same samples as `sample`, a slice of at most `chunk_size` per prefix at a time."""
        first = kwargs.pop("first_sample", 0)
        for done in range(0, num_samples, chunk_size):
            count = min(chunk_size, num_samples - done)
            yield self.sample(prefix_tokens, num_samples=count, first_sample=first + done, **kwargs)

    def log_prob(self, tokens: Tensor, *, prefix_length: int) -> Tensor:
        """log p_LM(continuation | prefix) of rows (B, L), summed over the continuation: (B,) float64."""
        return self.token_log_prob(tokens, prefix_length=prefix_length).sum(-1)

    @torch.inference_mode()
    def token_log_prob(self, tokens: Tensor, *, prefix_length: int) -> Tensor:
        """log p_LM(x_t | x_<t) of each continuation token of rows (B, L): (B, C) float64."""
        scored = []
        for rows, logits, _ in self._scored(self._check_rows(tokens, prefix_length), prefix_length):
            scored.append(pick_log_prob(logits, rows[:, prefix_length:]))
        return torch.cat(scored).cpu()

    @torch.inference_mode()
    def next_log_prob(self, prefix_tokens: Tensor) -> Tensor:
        """The law of the next token, (B, V), -inf for forbidden tokens."""
        prefix_tokens = self._check_prefix(prefix_tokens, 0)
        log_probs = self.forbid_(self._prefill(prefix_tokens).logits.double()).log_softmax(-1)
        return log_probs.index_fill(-1, self._forbidden_index(), -torch.inf).cpu()

    @torch.inference_mode()
    def state_features(self, tokens: Tensor, *, prefix_length: int, features: StateFeatures) -> Tensor:
        """What the sampler would have handed on, had it drawn the continuations of rows (B, L): (B, F)."""
        features.check(self.last_state_layer)
        tokens = self._check_rows(tokens, prefix_length)
        pool = self._pool(tokens, prefix_length, features)
        return pool.pooled(torch.full((len(tokens),), tokens.shape[1] - prefix_length, device=self.device)).cpu()

    @torch.inference_mode()
    def token_features(self, tokens: Tensor, *, features: StateFeatures) -> Tensor:
        """States and moments of each token of rows (B, L) after the first: (B, L - 1, F).

        Their mean over a row is `state_features(rows, prefix_length=1, features=features)`.
        """
        if features.statistics != "moments":
            raise LexergyError(f"`statistics` is {features.statistics!r}; a single token has only 'moments'.")
        features.check(self.last_state_layer)
        tokens = self._check_rows(tokens, 1)
        length = tokens.shape[1] - 1
        parts = []
        for rows in tokens.split(rows_at_once(length, self.vocab_size)):
            logits, hidden_states = self._whole_logits(rows, length, bool(features.layers))
            laws = logits.flatten(0, 1)  # (b C, V)
            statistics = token_statistics(laws, rows[:, 1:].flatten(), summarise(laws)).unflatten(0, (len(rows), -1))
            states = [hidden_states[layer].float() for layer in features.layers]
            parts.append(torch.cat((*states, token_moments(statistics)), -1))
        return torch.cat(parts).cpu()

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
        features.check(self.num_layers)
        prefix, count = self._check_prefix(prefix_tokens, 1), len(tokens)
        pool = self.pooled_given(prefix, given_length, features).continued(count, 1)
        first_logits, rows = self.continuations(prefix, count, 1)
        laws = self.forbid_(first_logits.clone())  # (B, V)
        summary = VocabularySummary(*(part.repeat_interleave(count, 0) for part in summarise(laws)))
        fed = tokens.to(self.device).repeat(len(prefix))  # (B M,)
        pool.add_statistics(0, laws.repeat_interleave(count, 0), fed, summary)
        if features.layers:
            output: Any = rows.feed(fed.unsqueeze(-1), model=self.model.base_model, output_hidden_states=True)
            pool.add_states(output.hidden_states, torch.ones(len(fed), 1, device=self.device))
        return pool.pooled(torch.ones(len(fed), device=self.device)).view(len(prefix), count, -1).cpu()

    def pooled_given(self, prefix: Tensor, given_length: int, features: StateFeatures) -> PooledStates:
        """States and statistics of the last tokens of prefixes (B, P), remembered as the prefixes themselves are."""
        if given_length == 0:
            return PooledStates.empty(features, len(prefix), 0, self.hidden_size, self.device)
        key = (given_length, features, *self._version(prefix))
        known = self._given
        if known is None or known.key[:-1] != key or not torch.equal(known.key[-1], prefix):
            before = prefix.shape[1] - given_length
            pool = self._pool(self._check_rows(prefix, before), before, features)
            self._given = known = _Given((*key, prefix), pool)
        return known.pool

    def _pool(self, tokens: Tensor, prefix_length: int, features: StateFeatures) -> PooledStates:
        """States and statistics of the continuations in rows (B, L)."""
        length = tokens.shape[1] - prefix_length
        pool = PooledStates.empty(features, len(tokens), length, self.hidden_size, self.device)
        done = 0
        for rows, logits, hidden_states in self._scored(tokens, prefix_length, with_states=bool(features.layers)):
            some = pool.rows(slice(done, done + len(rows)))
            for step in range(length):
                law = logits[:, step]
                some.add_statistics(step, law, rows[:, prefix_length + step], summarise(law))
            some.add_states(hidden_states, torch.ones(len(rows), length, device=self.device))
            done += len(rows)
        return pool

    def continuations(
        self, prefix: Tensor, num_samples: int, max_length: int
    ) -> tuple[Tensor, LlamaContinuations | Continuations | RepeatedPrefix]:
        """The logits (B, V) after each prefix, and K rows per prefix that can be fed token by token."""
        prefilled = self._prefill(prefix)
        if not self._shares_prefix(prefix.shape[1] + max_length):
            return prefilled.logits, RepeatedPrefix(self.model, self.with_start(prefix), num_samples)
        rows = LlamaContinuations if is_plain_llama(self.model) else Continuations
        return prefilled.logits, rows(self.model, prefilled.shared, len(prefix) * num_samples, max_length)

    def forget_prefix(self) -> None:
        """Free the keys, values and states of the last prefixes run."""
        self._prefilled = None
        self._given = None

    def forbid_(self, logits: Tensor, allowed: int | None = None) -> Tensor:
        """Change logits (..., V) so that the forbidden tokens, but for an `allowed` one, cannot be drawn."""
        index = self._forbidden_index(allowed)
        return logits.index_fill_(-1, index, NEVER) if len(index) else logits

    def _forbidden_index(self, allowed: int | None = None) -> Tensor:
        ids = [token for token in self.forbidden_tokens if token != allowed]
        return torch.tensor(ids, dtype=torch.long, device=self.device)

    def _scored(
        self, tokens: Tensor, prefix_length: int, with_states: bool = False
    ) -> Iterator[tuple[Tensor, Tensor, Sequence[Tensor]]]:
        """A few rows (b, L) at a time: the logits (b, C, V) that predict each continuation token and, with states,
        the hidden states of the tokens themselves."""
        length = tokens.shape[1] - prefix_length
        few = rows_at_once(length, self.vocab_size)
        for group in tokens.split(_PREFIXES_AT_ONCE):
            if not self._shares_prefix(tokens.shape[1]):
                for rows in group.split(few):
                    yield rows, *self._whole_logits(rows, length, with_states)
                continue
            prefilled = self._prefill(group[:, :prefix_length])
            for start in range(0, len(group), few):
                some = slice(start, start + few)
                first, shared = prefilled.logits[some].unsqueeze(1), prefilled.shared.select(some)
                continuation = group[some, prefix_length:]
                yield group[some], *self._continuation_logits(first, shared, continuation, with_states)

    def _whole_logits(self, rows: Tensor, length: int, with_states: bool) -> tuple[Tensor, Sequence[Tensor]]:
        output = self.model(input_ids=self.with_start(rows), output_hidden_states=with_states, use_cache=False)
        states = [layer[:, -length:] for layer in output.hidden_states or ()]
        return self.forbid_(output.logits[:, -length - 1 : -1].float()), states

    def _continuation_logits(
        self, first: Tensor, shared: SharedPrefix, continuation: Tensor, with_states: bool
    ) -> tuple[Tensor, Sequence[Tensor]]:
        length = continuation.shape[1]
        # The last token predicts nothing: it is fed only where its own states are wanted.
        tokens = continuation if with_states else continuation[:, :-1]
        if tokens.shape[1] == 0:
            return self.forbid_(first.clone()), ()
        fed = Continuations(self.model, shared, len(continuation), length)
        output = fed.feed(tokens, output_hidden_states=with_states)
        logits = torch.cat((first, output.logits[:, : length - 1].float()), 1)
        return self.forbid_(logits), output.hidden_states or ()

    def _prefill(self, prefix: Tensor) -> _Prefilled:
        """Run the prefixes once; the last ones run are remembered, since they are often continued again."""
        key = self._version(prefix)
        known = self._prefilled
        if known is None or known.key[:2] != key or not torch.equal(known.key[2], prefix):
            self._prefilled = None  # before new keys and values are made
            output, shared = prefill(self.model, self.with_start(prefix), logits_to_keep=1)
            self._prefilled = known = _Prefilled((*key, prefix), output.logits[:, -1].float(), shared)
        return known

    def _version(self, prefix: Tensor) -> tuple[torch.Size, int]:
        # Training the weights in place raises their version, and so forgets what was computed with them.
        return prefix.shape, sum(weight._version for weight in self.model.parameters())

    def _shares_prefix(self, total_length: int) -> bool:
        return self._sharing.allows(total_length + (self.start_token is not None))

    def with_start(self, prefix: Tensor) -> Tensor:
        """Prefixes or rows (B, P) with the start token before them, where this LM needs one."""
        if self.start_token is None:
            return prefix
        return torch.cat((prefix.new_full((len(prefix), 1), self.start_token), prefix), 1)

    def need_tokenizer(self) -> PreTrainedTokenizerBase:
        if self.tokenizer is None:
            raise LexergyError("this LM has no tokenizer; pass token ids, or give it one: CausalLM(model, tokenizer).")
        return self.tokenizer

    def _check_prefix(self, prefix: Tensor, max_new_tokens: int) -> Tensor:
        prefix = torch.as_tensor(prefix, device=self.device)
        if prefix.dim() != 2:
            raise LexergyError(
                f"prefix tokens have shape {tuple(prefix.shape)}; expected (prefixes, length); "
                "add a dimension with `[None]`."
            )
        if prefix.shape[1] == 0 and self.start_token is None:
            raise LexergyError("the prefix is empty; expected at least one token to continue from.")
        if self.max_length is not None and prefix.shape[1] + max_new_tokens > self.max_length:
            raise LexergyError(
                f"{prefix.shape[1]} prefix and {max_new_tokens} new tokens are more than the {self.max_length} "
                "the model can read; shorten the prompt or ask for fewer new tokens."
            )
        if prefix.numel() and not 0 <= int(prefix.min()) <= int(prefix.max()) < self.vocab_size:
            raise LexergyError(
                f"token ids run from {int(prefix.min())} to {int(prefix.max())}; expected 0 .. {self.vocab_size - 1}; "
                "were they made by another tokenizer?"
            )
        return prefix

    def _check_rows(self, tokens: Tensor, prefix_length: int) -> Tensor:
        tokens = self._check_prefix(tokens, 0)
        least = 0 if self.start_token is not None else 1
        if not least <= prefix_length < tokens.shape[1]:
            raise LexergyError(
                f"`prefix_length` is {prefix_length}; expected {least} .. {tokens.shape[1] - 1} for rows of "
                f"{tokens.shape[1]} tokens."
            )
        return tokens


def _read_reference(folder: Path) -> dict[str, Any] | None:
    path = folder / _REFERENCE
    return json.loads(path.read_text()) if path.is_file() else None


def _check_direction(found: str, expected: Direction, source: str | Path) -> None:
    if found != expected:
        loader = "RightToLeftLM" if found == "right_to_left" else "CausalLM"
        raise LexergyError(
            f"the LM in {source} reads {found.replace('_', ' ')}; expected {expected.replace('_', ' ')}; load it with "
            f"{loader}.from_pretrained."
        )


def _join(parts: list[Samples], dim: int) -> Samples:
    if len(parts) == 1:
        return parts[0]
    tokens, log_prob, lengths, features = zip(*parts, strict=True)
    return Samples(
        torch.cat(tokens, dim),
        torch.cat(log_prob, dim),
        torch.cat(lengths, dim),
        None if features[0] is None else torch.cat(features, dim),
    )
