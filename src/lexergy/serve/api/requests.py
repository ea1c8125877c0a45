"""What clients may ask: OpenAI's fields, and one object `lexergy`. Whatever is not named here is refused."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _whole(text: str) -> str:
    """JSON may hold half a surrogate pair, which is no letter and has no tokens."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("half a surrogate pair is no text") from error
    return text


Words: TypeAlias = Annotated[str, AfterValidator(_whole)]
TokenId: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
TokenIds: TypeAlias = Annotated[list[TokenId], Field(min_length=1)]
Seed: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
StopString: TypeAlias = Annotated[Words, Field(min_length=1, max_length=1000)]
Off: TypeAlias = Annotated[float, Field(ge=0, le=0)]
"""A field of OpenAI's that is not supported, at the one value that changes nothing."""


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StreamOptions(Body):
    include_usage: bool = False


class Extension(Body):
    """What OpenAI's API has no word for."""

    candidates: Annotated[int, Field(ge=2)] | None = None
    target_ess: Annotated[Number, Field(gt=0)] | None = None
    max_candidates: Annotated[int, Field(ge=2)] | None = None
    chunk_tokens: Annotated[int, Field(ge=1)] | None = None
    method: Literal["importance", "smc"] | None = None
    stop_at_end: bool | None = None
    return_candidates: bool = False


class Sampling(Body):
    """What completions and chat have in common."""

    model: Words
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    seed: Seed | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Off | None = None
    frequency_penalty: Off | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    lexergy: Extension | None = None


class CompletionRequest(Sampling):
    prompt: (
        Words | Annotated[list[Words], Field(min_length=1)] | TokenIds | Annotated[list[TokenIds], Field(min_length=1)]
    )
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None
    prompt_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    suffix: None = None


class TextPart(Body):
    type: Literal["text"]
    text: Words


class Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Words | Annotated[list[TextPart], Field(min_length=1)]
    name: None = None


class TextFormat(Body):
    type: Literal["text"]


class ChatRequest(Sampling):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: TextFormat | None = None


class RerankCandidate(Body):
    """A continuation as text or as token ids; its log-probability where another distribution than the LM gave it."""

    text: Words = ""
    tokens: TokenIds | None = None
    log_prob: Number | None = None


class RerankRequest(Body):
    model: Words
    prompt: Words | TokenIds
    candidates: Annotated[list[Words | RerankCandidate], Field(min_length=1)]
    weigh_by: Literal["energy", "joint"] = "energy"
    seed: Seed | None = None


class ScoreRequest(Body):
    model: Words
    input: Words | Annotated[list[Words], Field(min_length=1)]


class DetectRequest(Body):
    input: Words | Annotated[list[Words], Field(min_length=1)]
    prior: Annotated[Number, Field(gt=0, lt=1)] = 0.5


class TokenizeRequest(Body):
    model: Words | None = None
    prompt: Words
