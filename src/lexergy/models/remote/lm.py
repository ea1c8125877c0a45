"""A language model that somebody else runs, behind an address that speaks OpenAI's API."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.decoding import Decoding
from lexergy.core.ends import inside
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.models.causal.language_model import PREFIXES_AT_ONCE, LanguageModel
from lexergy.models.causal.lm import REFERENCE, read_reference
from lexergy.models.causal.samples import Samples
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.causal.stopping import StopStrings
from lexergy.models.loading.sources import CAUSAL_LMS, model_type_of, resolve_causal_lm
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.models.loading.weights import needs_start
from lexergy.models.remote.client import Client
from lexergy.models.remote.dialects import Draft, Written
from lexergy.models.remote.probing import check_forbidden, probe

KEY_VARIABLE = "LEXERGY_LM_KEY"
SEEDS = 2**32 - 1  # llama.cpp takes 32 bits, of which all ones mean chance


class RemoteLM(LanguageModel):
    """The model `model` of the server at `url` (llama.cpp, vLLM, Lexergy, or any that speaks OpenAI's API).

    The server is asked with token ids, so `tokenizer` must be that of its model: a tokenizer, a folder, a Hub name, or
    a name as `smollm2-135m`. It is compared with the server's own at once, a known string is scored, and what the
    server cannot do is told when it is asked for. `model` may be left out where the server has one; the key of a server
    that wants one is read from LEXERGY_LM_KEY.

    A sample has a seed of its own, made of (seed, prefix id, sample number), so that neither `concurrency` nor order
    change which text is drawn; how far a server keeps to a seed is its own affair. A sample's `log_prob` is NaN where
    the server tells only that before truncation.

    Examples:
        >>> from lexergy import RemoteLM
        >>> from lexergy.testing import EnumerableLM, letter_tokenizer, served_lm
        >>> local = EnumerableLM(tokenizer=letter_tokenizer())
        >>> with served_lm(local) as url:  # a server of Lexergy's; the address of llama.cpp's or vLLM's goes here
        ...     lm = RemoteLM(url, tokenizer=local.tokenizer)
        ...     samples = lm.sample(lm.encode("abba")[None], num_samples=3, max_new_tokens=4, seed=0)
        >>> samples.tokens.shape, samples.log_prob.shape
        (torch.Size([1, 3, 4]), torch.Size([1, 3]))
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        tokenizer: PreTrainedTokenizerBase | str | Path,
        forbidden_tokens: Sequence[int] = (),
        start_token: int | None = None,
        end_token: int | None = None,
        concurrency: int = 8,
        timeout: float = 300.0,
        tries: int = 6,
    ) -> None:
        client = Client(url, key=os.environ.get(KEY_VARIABLE), concurrency=concurrency, timeout=timeout, tries=tries)
        self.tokenizer, started_with = _tokenizer(tokenizer)
        self.server = probe(client, model, self.tokenizer)
        self.source = f"openai:{client.url}"
        self.direction = "left_to_right"
        self.forbidden_tokens = tuple(sorted(set(forbidden_tokens) - {end_token}))
        self.start_token = started_with if start_token is None else start_token
        self.end_token = end_token
        self._checked: set[tuple[int, ...]] = set()  # sets of forbidden tokens that the server forbids too

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> "RemoteLM":
        """The LM that `save_pretrained` noted; options as those of the class."""
        reference = read_reference(Path(folder))
        if reference is None or not str(reference["source"]).startswith("openai:"):
            raise LexergyError(f"{folder} names no LM behind an address; load it with `CausalLM.from_pretrained`.")
        return cls(
            reference["source"].removeprefix("openai:"),
            reference["model"],
            tokenizer=folder,
            forbidden_tokens=reference["forbidden_tokens"],
            start_token=reference["start_token"],
            end_token=reference["end_token"],
            **options,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the address, the model's name and the tokenizer."""
        self.need_tokenizer().save_pretrained(folder)
        record = {
            "source": self.source,
            "model": self.server.model,
            "forbidden_tokens": list(self.forbidden_tokens),
            "start_token": self.start_token,
            "end_token": self.end_token,
        }
        (Path(folder) / REFERENCE).write_text(json.dumps(record, indent=2) + "\n")

    @property
    def vocab_size(self) -> int:
        return len(self.need_tokenizer())

    @property
    def max_length(self) -> int | None:
        most = self.server.max_length
        return most if most is None or self.start_token is None else most - 1

    @property
    def unscored(self) -> str | None:
        if self.server.unscored is not None:
            return self.server.unscored
        if self.forbidden_tokens and not self.server.dialect.forbids_itself:
            return (
                f"its log-probabilities of a prompt are of all tokens, the {len(self.forbidden_tokens)} forbidden here "
                "among them; with `forbid_special_tokens: false` none is"
            )
        return None

    def fingerprint(self) -> str:
        """A hash of what the server tells of its model, and of the tokens that are not as usual."""
        return hash_of([self.server.identity, self.forbidden_tokens, self.start_token, self.end_token])

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
    ) -> Samples:
        """Draw K = `num_samples` continuations of each prefix: a request each, many at once.

        As `CausalLM.sample`; how many are in flight is the `concurrency` of the LM, whatever `rows_per_batch` is.
        """
        if features is not None:
            self._no_states()
        strings = StopStrings(stop, self.need_tokenizer()) if stop else None
        prefix = self.check_prefix(prefix_tokens, max_new_tokens)
        self.check_counts(num_samples, max_new_tokens)
        self._check_ends()
        streams = list(range(len(prefix)) if prefix_ids is None else prefix_ids)
        decoding = Decoding(temperature, top_k, top_p)
        seeds = (uniforms(seed, streams, 0, first_sample, num_samples) * SEEDS).long()  # (B, K)
        drafts = [
            Draft(
                self.server.model, prompt, max_new_tokens, decoding, own, self._asked_not(), self.end_token, tuple(stop)
            )
            for prompt, row in zip(self._prompts(prefix), seeds.tolist(), strict=True)
            for own in row
        ]
        answers = self.server.client.post_all(
            self.server.dialect.path, [self.server.dialect.body(draft) for draft in drafts]
        )
        rows = [self._row(self.server.dialect.written(answer), max_new_tokens, strings) for answer in answers]
        shape = (len(prefix), num_samples)
        exact = self.server.tells_drawn or (decoding == Decoding() and not self.forbidden_tokens)
        log_prob = torch.tensor([row.log_prob if exact else math.nan for row in rows], dtype=torch.double)
        tokens = torch.full((len(rows), max_new_tokens), self.end_token or 0)
        for place, row in enumerate(rows):
            tokens[place, : len(row.tokens)] = torch.tensor(row.tokens)
        lengths = torch.tensor([len(row.tokens) for row in rows])
        return Samples(tokens.view(*shape, -1), log_prob.view(shape), lengths.view(shape), None)

    def _row(self, written: Written, most: int, stop: StopStrings | None) -> Written:
        """A text cut where it has a stop string; refused if it is not whole."""
        tokens, log_probs, log_prob, ended = written
        cut = None if stop is None else stop.first_in(tokens)
        if cut is not None:
            log_prob = math.fsum(log_probs[:cut]) if cut < len(tokens) else log_prob
            return Written(tokens[:cut], log_probs[:cut], log_prob, True)
        if ended and self.end_token is not None and tokens[-1:] != [self.end_token]:
            tokens, log_prob = [*tokens, self.end_token], math.nan  # an end that the server does not tell
        if len(tokens) > most or (len(tokens) < most and tokens[-1:] != [self.end_token]):
            raise LexergyError(
                f"{self.server.label} wrote {len(tokens)} tokens of {most} and stopped; expected all of them, or an "
                "end-of-text that this LM knows; see that nothing limits its texts."
            )
        return Written(tokens, log_probs, log_prob, ended)

    def token_log_prob(self, tokens: Tensor, *, prefix_length: int) -> Tensor:
        """log p_LM(x_t | x_<t) of each continuation token of rows (B, L): (B, C) float64, 0 after the end token.

        Refused where the server gives no log-probabilities of a prompt.
        """
        if self.unscored is not None:
            raise LexergyError(
                f"{self.server.label} cannot score given text: {self.unscored}; expected a server that gives "
                "log-probabilities of prompts (Lexergy's own, vLLM), or an LM in this process; for a run without "
                "perplexity write `perplexity: null` in its recipe."
            )
        rows = self.check_rows(tokens, prefix_length)
        if self.server.dialect.forbids_itself:
            self._check_ends()
            self._asked_not()
        prompts, length = self._prompts(rows), rows.shape[1] - prefix_length
        ends = self.end_token is not None
        bodies = [self.server.dialect.scoring(self.server.model, prompt, ends) or {} for prompt in prompts]
        answers = self.server.client.post_all(self.server.dialect.path, bodies)
        log_prob = torch.empty(len(rows), length, dtype=torch.double)
        for place, (answer, prompt) in enumerate(zip(answers, prompts, strict=True)):
            scores = self.server.dialect.scored(answer, prompt)
            if len(scores) != len(prompt):
                raise LexergyError(
                    f"{self.server.label} scored {len(scores)} of {len(prompt)} tokens; expected all; were they "
                    "made by another tokenizer?"
                )
            log_prob[place] = torch.tensor(scores[-length:], dtype=torch.double)
        return log_prob.masked_fill(~inside(self.lengths(rows[:, prefix_length:]), length), 0)

    def next_log_prob(self, prefix_tokens: Tensor) -> Tensor:
        """Refused: servers tell a few likely tokens, never the whole distribution."""
        raise LexergyError(
            f"{self.server.label} does not tell its whole distribution of the next token; expected an LM in this "
            "process."
        )

    def state_features(
        self, tokens: Tensor, *, prefix_length: int, features: StateFeatures, lengths: Tensor | None = None
    ) -> Tensor:
        """Refused: states stay where the LM is."""
        self._no_states()

    def next_token_features(
        self, prefix_tokens: Tensor, tokens: Tensor, *, given_length: int, features: StateFeatures
    ) -> Tensor:
        """Refused: states stay where the LM is."""
        self._no_states()

    def _no_states(self) -> NoReturn:
        raise LexergyError(
            f"{self.server.label} does not hand out the LM's states, which this energy reads; expected an energy that "
            "reads text or tokens, of kind `fitted_reader`, `encoder`, `linear` or `bilstm`; or an LM in this process."
        )

    def _prompts(self, rows: Tensor) -> list[list[int]]:  # (B, P)
        """As the server is given them; Lexergy's puts the start token in itself."""
        return (rows if self.server.dialect.forbids_itself else self.with_start(rows)).tolist()

    def _asked_not(self) -> tuple[int, ...]:
        """The tokens that the server is told not to write."""
        if not self.server.dialect.forbids_itself:
            return self.forbidden_tokens
        own = tuple(token for token in self.forbidden_tokens if token != self.end_of_text)
        if own and own not in self._checked:
            check_forbidden(self.server, next(i for i in range(self.vocab_size) if i not in own), own)
            self._checked.add(own)
        return ()

    def _check_ends(self) -> None:
        """Refuse to write past end-of-text where the server would stop there, or would not write it."""
        if self.may_end and self.end_token is None and not self.server.dialect.goes_past_end:
            raise LexergyError(
                f"{self.server.label} stops at end-of-text, and this LM goes on after it; expected texts that end "
                "(`windows.ends: true`, `lm.ending()`), or never do (`forbid_special_tokens: true`, `lm.endless()`)."
            )


def _tokenizer(given: PreTrainedTokenizerBase | str | Path) -> tuple[PreTrainedTokenizerBase, int | None]:
    """The tokenizer, and the token that its model cannot start without."""
    if isinstance(given, PreTrainedTokenizerBase):
        return given, None
    name = str(given)
    has_own_loader = name in CAUSAL_LMS or name.endswith(".gguf")
    folder = resolve_causal_lm(name).folder if has_own_loader else Path(name).expanduser()
    tokenizer = load_tokenizer(folder if folder.is_dir() else name)
    return tokenizer, tokenizer.bos_token_id if needs_start(model_type_of(folder)) else None
