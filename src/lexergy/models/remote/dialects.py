"""How each server wants to be asked, and where it puts what it answers.

Every field that bears on sampling is sent: servers have defaults of their own (llama.cpp: temperature .8, top-k 40,
top-p .95, min-p .05). Prompts are token ids, so that nothing is put before them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lexergy.core.decoding import Decoding
from lexergy.errors import LexergyError
from lexergy.models.remote.words import TokenWords

FORBIDDEN_BIAS = -100.0  # the least that OpenAI's `logit_bias` takes: a factor of exp(-100)


@dataclass(frozen=True)
class Draft:
    """A text that is asked for."""

    model: str
    prompt: Sequence[int]
    max_tokens: int
    decoding: Decoding
    seed: int
    forbidden_tokens: tuple[int, ...] = ()
    end_token: int | None = None
    stop: tuple[str, ...] = ()


class Written(NamedTuple):
    """A text as a server wrote it."""

    tokens: list[int]
    log_probs: list[float]  # of each token, by the server's own account; empty where it tells their sum alone
    log_prob: float
    ended: bool  # before the most tokens


class OpenAI:
    """Any server that speaks OpenAI's API and no more: tokens are told by their words, and top-k is not known."""

    name = "a server of OpenAI's API"
    path = "/v1/completions"
    unscored = "it gives no log-probabilities of a prompt (`echo` with `logprobs`)"
    goes_past_end = False
    knows_top_k = False
    tells_drawn = False  # its log-probabilities may be those before temperature, truncation and forbidden tokens
    forbids_itself = False  # what its LM may not write, and what stands before each text, is the server's own affair

    def __init__(self, words: TokenWords) -> None:
        self.words = words

    def body(self, draft: Draft) -> dict[str, Any]:
        """The request for one text."""
        decoding = draft.decoding
        if decoding.top_k is not None and not self.knows_top_k:
            raise LexergyError(f"`top_k` is {decoding.top_k} for {self.name}, which has no such field; give `top_p`.")
        return {
            "model": draft.model,
            "prompt": list(draft.prompt),
            "max_tokens": draft.max_tokens,
            "n": 1,
            "temperature": decoding.temperature,
            "top_p": 1.0 if decoding.top_p is None else decoding.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "seed": draft.seed,
            "stream": False,
            "logprobs": 0,
            "logit_bias": {str(token): FORBIDDEN_BIAS for token in draft.forbidden_tokens},
        }

    def written(self, answer: dict[str, Any]) -> Written:
        """What came back."""
        choice = answer["choices"][0]
        log_probs = list(choice["logprobs"]["token_logprobs"])
        return self._written(self.words.ids(choice["logprobs"]["tokens"]), log_probs, choice)

    def _written(self, tokens: list[int], log_probs: list[float], choice: dict[str, Any]) -> Written:
        return Written(tokens, log_probs, math.fsum(log_probs), choice["finish_reason"] == "stop")

    def prompt_tokens(self, answer: dict[str, Any]) -> int | None:
        """How many tokens the server has read; None where it does not tell."""
        return answer.get("usage", {}).get("prompt_tokens")

    def tokenize(self, model: str, text: str) -> dict[str, Any] | None:
        """The request to `/tokenize`; None where there is no such path."""
        return None

    def scoring(self, model: str, row: Sequence[int], ends: bool = False) -> dict[str, Any] | None:
        """The request for the log-probabilities of a row, of an LM whose texts end or not; None where there is none."""
        return {
            "model": model,
            "prompt": list(row),
            "max_tokens": 0,
            "n": 1,
            "temperature": 1.0,
            "top_p": 1.0,
            "stream": False,
            "echo": True,
            "logprobs": 0,
        }

    def scored(self, answer: dict[str, Any], row: Sequence[int]) -> list[float | None]:
        """log p(x_t | x_<t) of each token of the row, None for the first."""
        return list(answer["choices"][0]["logprobs"]["token_logprobs"])


class LlamaCpp(OpenAI):
    """llama.cpp's server (`llama-server`), asked at its own path.

    At OpenAI's path it leaves out the tokens that end in the middle of a letter.
    """

    name = "llama.cpp"
    path = "/completion"
    unscored = "llama.cpp gives no log-probabilities of a prompt"
    knows_top_k = True
    tells_drawn = True

    def body(self, draft: Draft) -> dict[str, Any]:
        decoding = draft.decoding
        return {
            "prompt": list(draft.prompt),
            "n_predict": draft.max_tokens,
            "temperature": decoding.temperature,
            "top_k": decoding.top_k or 0,
            "top_p": 1.0 if decoding.top_p is None else decoding.top_p,
            "min_p": 0.0,
            "typical_p": 1.0,
            "top_n_sigma": -1.0,
            "xtc_probability": 0.0,
            "dry_multiplier": 0.0,
            "dynatemp_range": 0.0,
            "mirostat": 0,
            "adaptive_target": -1.0,
            "repeat_penalty": 1.0,
            "repeat_last_n": 0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "samplers": ["temperature", "top_k", "top_p"],  # in our order: its own has the temperature last
            "seed": draft.seed,
            "logit_bias": [[token, False] for token in draft.forbidden_tokens],  # False: probability zero
            "ignore_eos": draft.end_token is None,
            "stream": False,
            "return_tokens": True,
            "n_probs": 1,
            "post_sampling_probs": True,  # of what it drew from
            "cache_prompt": True,
        }

    def written(self, answer: dict[str, Any]) -> Written:
        """Its probabilities are of whole letters' last tokens alone; where one is missing the sum is not known."""
        told = answer.get("completion_probabilities", [])
        log_probs = [math.log(token["prob"]) if token["prob"] > 0 else -math.inf for token in told]
        if len(told) < len(answer["tokens"]):
            log_probs = [math.nan] * len(answer["tokens"])
        return Written(answer["tokens"], log_probs, math.fsum(log_probs), answer["stop_type"] != "limit")

    def prompt_tokens(self, answer: dict[str, Any]) -> int:
        return answer["tokens_evaluated"]

    def tokenize(self, model: str, text: str) -> dict[str, Any]:
        return {"content": text, "add_special": False, "parse_special": False}

    def scoring(self, model: str, row: Sequence[int], ends: bool = False) -> None:
        return None


class VLLM(OpenAI):
    """vLLM; its log-probabilities are those before truncation, unless it runs with processed ones."""

    name = "vLLM"
    unscored = "it gives no `prompt_logprobs`"
    goes_past_end = True
    knows_top_k = True

    def body(self, draft: Draft) -> dict[str, Any]:
        return {
            **super().body(draft),
            "top_k": draft.decoding.top_k or 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "min_tokens": 0,
            "ignore_eos": True,  # texts end at our own end token
            "stop_token_ids": [] if draft.end_token is None else [draft.end_token],
            "return_token_ids": True,
        }

    def written(self, answer: dict[str, Any]) -> Written:
        choice = answer["choices"][0]
        return self._written(list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"]), choice)

    def tokenize(self, model: str, text: str) -> dict[str, Any]:
        return {"model": model, "prompt": text, "add_special_tokens": False}

    def scoring(self, model: str, row: Sequence[int], ends: bool = False) -> dict[str, Any]:
        return {**self.body(Draft(model, row, 1, Decoding(), seed=0)), "prompt_logprobs": 1}

    def scored(self, answer: dict[str, Any], row: Sequence[int]) -> list[float | None]:
        return _by_id(answer, row)


class Lexergy(OpenAI):
    """Lexergy's own server; all its log-probabilities are of an LM that cannot write what is forbidden."""

    name = "Lexergy"
    unscored = "it gives no `prompt_logprobs`"
    knows_top_k = True
    tells_drawn = True
    forbids_itself = True

    def body(self, draft: Draft) -> dict[str, Any]:
        whole = super().body(draft)
        return {
            **whole,
            "top_k": draft.decoding.top_k,
            "logprobs": None,
            "logit_bias": None,
            "stop": list(draft.stop) or None,
            "lexergy": {"stop_at_end": draft.end_token is not None, "chunk_tokens": draft.max_tokens},
        }

    def written(self, answer: dict[str, Any]) -> Written:
        choice = answer["choices"][0]
        chunks = choice["lexergy"]["chunks"]
        tokens = [token for chunk in chunks for token in chunk["tokens"]]
        log_prob = math.fsum(chunk["log_prob"] for chunk in chunks)
        return Written(tokens, [], log_prob, choice["finish_reason"] == "stop")

    def tokenize(self, model: str, text: str) -> dict[str, Any]:
        return {"model": model, "prompt": text}

    def scoring(self, model: str, row: Sequence[int], ends: bool = False) -> dict[str, Any]:
        body = self.body(Draft(model, row, 0, Decoding(), seed=0))
        return {**body, "prompt_logprobs": 0, "lexergy": {"stop_at_end": ends}}

    def scored(self, answer: dict[str, Any], row: Sequence[int]) -> list[float | None]:
        return _by_id(answer, row)


def _by_id(answer: dict[str, Any], row: Sequence[int]) -> list[float | None]:
    """From `prompt_logprobs`: for each token of the row, ids with their log-probabilities."""
    told = zip(row, answer["choices"][0]["prompt_logprobs"], strict=True)
    return [None if beside is None else beside[str(token)]["logprob"] for token, beside in told]


BY_OWNER: dict[str, type[OpenAI]] = {"llamacpp": LlamaCpp, "vllm": VLLM, "lexergy": Lexergy}
"""By what `/v1/models` tells of a model's owner; anybody else speaks plain OpenAI."""
