"""What a server can do, told by trying: its model, its tokens, its log-probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from lexergy.core.decoding import Decoding
from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.models.remote.client import Client, ServerRefusal
from lexergy.models.remote.dialects import BY_OWNER, Draft, OpenAI
from lexergy.models.remote.words import TokenWords

KNOWN = "The state of the Union, in 1865: caf\u00e9s \u2014 \u201cstrong\u201d;\n\tdon't 3.14 \u2603"
PROMPT_TOKENS = 8  # of the known string, that are scored and continued
LIKELIEST = Decoding(top_p=1e-6)  # one token, whose log-probability is 0 after truncation
NEVER = -1000.0  # below it, a log-probability is that of a token which cannot be


@dataclass(frozen=True)
class Server:
    """A model behind an address, and what was learnt of it."""

    client: Client
    model: str
    dialect: OpenAI
    max_length: int | None
    unscored: str | None  # why it tells no log-probabilities of given text; None where it does
    tells_drawn: bool  # whether samples' log-probabilities are of what they were drawn from, truncation included
    identity: str  # a hash of what its card tells of the model

    @property
    def label(self) -> str:
        return f"{self.dialect.name} at {self.client.url}"


def probe(client: Client, model: str | None, tokenizer: PreTrainedTokenizerBase) -> Server:
    """Look at a server, compare its tokens with the tokenizer's, and score a known string."""
    card = _card(client, model)
    dialect = BY_OWNER.get(card.get("owned_by", ""), OpenAI)(TokenWords(tokenizer))
    name = str(card["id"])
    ids = tokenizer(KNOWN, add_special_tokens=False)["input_ids"]
    tokenized = _check_tokens(client, dialect, name, ids)
    ids = ids[:PROMPT_TOKENS]
    tells_drawn = _probe_writing(client, dialect, name, ids)
    meta = card.get("meta") or {}
    known = {key: card.get(key) for key in ("id", "owned_by", "root")} | {"size": meta.get("size")}
    return Server(
        client=client,
        model=name,
        dialect=dialect,
        max_length=tokenized.get("max_model_len") or card.get("max_model_len") or meta.get("n_ctx"),
        unscored=_probe_scoring(client, dialect, name, ids),
        tells_drawn=tells_drawn,
        identity=hash_of(known),
    )


def _card(client: Client, model: str | None) -> dict[str, Any]:
    """What `/v1/models` tells of the model that is meant."""
    try:
        cards = {str(card["id"]): card for card in client.get("/v1/models")["data"]}
    except (ServerRefusal, KeyError, TypeError) as error:
        raise LexergyError(
            f"{client.url} has no list of models at /v1/models ({error}); expected a server that speaks OpenAI's API; "
            "check the address."
        ) from error
    drawn = [name for name, card in cards.items() if card.get("lexergy", {}).get("kind", "base LM") == "base LM"]
    if model is None and len(drawn) == 1:
        model = drawn[0]
    if model is None or model not in cards:
        given = "no `model` was named" if model is None else f"`model` is {model}"
        raise LexergyError(f"{given} for {client.url}; expected one of: {', '.join(cards)}.")
    if model not in drawn:
        kind = cards[model]["lexergy"]["kind"]
        raise LexergyError(f"`model` is {model}, a {kind}; expected a language model: {', '.join(drawn)}.")
    return cards[model]


def _check_tokens(client: Client, dialect: OpenAI, model: str, ids: list[int]) -> dict[str, Any]:
    """Refuse another tokenizer than the server's; the answer of its `/tokenize`, empty where it has none."""
    body = dialect.tokenize(model, KNOWN)
    try:
        answer = {} if body is None else client.post("/tokenize", body)
    except ServerRefusal as error:
        if error.status not in (404, 405, 501):
            raise
        answer = {}
    theirs = answer.get("tokens", ids)
    if theirs != ids:
        raise LexergyError(
            f"{dialect.name} at {client.url} reads {KNOWN!r} as {len(theirs)} tokens, {_some(theirs)}, and the local "
            f"tokenizer as {len(ids)}, {_some(ids)}; expected the same; name the tokenizer of the model that is served."
        )
    return answer


def _some(ids: list[int]) -> str:
    return f"{', '.join(map(str, ids[:6]))} ..."


def _probe_writing(client: Client, dialect: OpenAI, model: str, ids: list[int]) -> bool:
    """Have one token written; whether its log-probability is that after truncation."""
    body = dialect.body(Draft(model, ids, 1, LIKELIEST, seed=0))
    answer = client.post(dialect.path, body)
    try:
        written = dialect.written(answer)
    except (KeyError, IndexError, TypeError) as error:
        raise LexergyError(
            f"{dialect.name} at {client.url} does not tell the tokens that it writes (no {error}); expected `logprobs` "
            "in its answer; start it so that it gives them, or serve the model with llama.cpp or vLLM."
        ) from error
    count = dialect.prompt_tokens(answer)
    if count not in (None, len(ids)):
        raise LexergyError(
            f"{dialect.name} at {client.url} counts {count} tokens in a prompt of {len(ids)}; expected it to read "
            "token ids as they are; serve the model without a start token put in."
        )
    return dialect.tells_drawn or abs(written.log_prob) < 1e-3


def _probe_scoring(client: Client, dialect: OpenAI, model: str, ids: list[int]) -> str | None:
    """Score the known string: None if all is well, or what is missing."""
    body = dialect.scoring(model, ids)
    if body is None:
        return dialect.unscored
    try:
        scores = dialect.scored(client.post(dialect.path, body), ids)
    except ServerRefusal as error:
        return f"{dialect.unscored}: {error}".rstrip(".")
    except (KeyError, IndexError, TypeError, ValueError):
        return dialect.unscored
    rest = scores[1:]
    sound = len(scores) == len(ids) and all(value is not None and math.isfinite(value) and value <= 0 for value in rest)
    return None if sound else dialect.unscored


def check_forbidden(server: Server, first: int, forbidden: Sequence[int]) -> None:
    """Refuse a server of Lexergy's that may write what is forbidden here: it takes no orders in that."""
    row = [first, *forbidden]
    body = server.dialect.scoring(server.model, row)
    assert body is not None
    scores = server.dialect.scored(server.client.post(server.dialect.path, body), row)[1:]
    allowed = [token for token, score in zip(forbidden, scores, strict=True) if score is None or score > NEVER]
    if allowed:
        raise LexergyError(
            f"the LM of {server.label} may write {len(allowed)} tokens that are forbidden here, first {allowed[0]}; "
            "expected a run with `forbid_special_tokens: true` there, or `forbid_special_tokens: false` here."
        )
