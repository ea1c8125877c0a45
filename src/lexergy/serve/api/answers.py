"""What the server answers: OpenAI's objects; where there is more to say, in a field `lexergy`."""

from typing import Literal

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    error: ErrorDetail


class WeighedText(BaseModel):
    """A candidate: its energy (none where it is infinite), the LM's log-probability, its chance of being chosen.

    A base LM that runs elsewhere may not tell its log-probabilities.
    """

    text: str
    energy: float | None
    log_prob: float | None
    weight: float
    tokens: list[int]


class ChunkFacts(BaseModel):
    """How a stretch of text was chosen; `ess` and `pareto_k` tell how far its weights can be trusted."""

    tokens: list[int]  # ids, with those of the end or of a stop string that is not told
    energy: float | None  # none of the base LM
    log_prob: float | None  # the LM's, under the distribution that the candidates were drawn from
    num_candidates: int
    ess: float | None
    pareto_k: float | None
    num_ancestors: int | None = None  # by smc: how many of the first particles the candidates descend from
    candidates: list[WeighedText] | None = None  # lowest energy first


class ChoiceFacts(BaseModel):
    """Of the whole text: the sum of the chunks' energies, their smallest ESS and their largest k-hat."""

    energy: float | None
    ess: float | None
    pareto_k: float | None
    chunks: list[ChunkFacts]


class AnswerFacts(BaseModel):
    seed: int
    drawn: Literal["joint model", "base LM", "lowest energy"]
    sampled_tokens: int  # of all candidates together
    warnings: list[str]


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionLogProbs(BaseModel):
    """Of the base LM, before temperature and truncation, whichever model wrote the text."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TokenValue(BaseModel):
    logprob: float


class CompletionChoice(BaseModel):
    """`prompt_logprobs` has, for each token of the prompt but the first, ids with the base LM's log-probability."""

    index: int
    text: str
    logprobs: CompletionLogProbs | None = None
    prompt_logprobs: list[dict[str, TokenValue] | None] | None = None
    finish_reason: Literal["stop", "length"] | None = None
    lexergy: ChoiceFacts | ChunkFacts | None = None


class Completion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    lexergy: AnswerFacts | None = None


class LikelyToken(BaseModel):
    token: str
    logprob: float
    bytes: list[int] | None


class ChatToken(LikelyToken):
    top_logprobs: list[LikelyToken]


class ChatLogProbs(BaseModel):
    """Of the base LM, before temperature and truncation, whichever model wrote the text."""

    content: list[ChatToken]
    refusal: None = None


class ChatMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    index: int
    message: ChatMessage
    logprobs: ChatLogProbs | None = None
    finish_reason: Literal["stop", "length"]
    lexergy: ChoiceFacts


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    lexergy: AnswerFacts


class ModelFacts(BaseModel):
    """What a name stands for: the base LM in plain words, the energy on it, and for which lengths it was trained."""

    kind: Literal["base LM", "joint model", "scorer"]
    description: str
    energy: str | None = None
    prefix_tokens: int | None = None
    continuation_tokens: int | None = None
    chat: bool = False


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["lexergy"] = "lexergy"
    lexergy: ModelFacts


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class RerankAnswer(BaseModel):
    """Candidates in the order given; `best` has the largest weight, `drawn` was drawn in proportion to them."""

    object: Literal["rerank"] = "rerank"
    model: str
    candidates: list[WeighedText]
    best: int
    drawn: int
    seed: int
    ess: float
    pareto_k: float | None
    warnings: list[str]


class ScoredToken(BaseModel):
    """Letters start .. end - 1 of the text; tokens that are bytes of one letter have the same."""

    text: str
    start: int
    end: int
    log_score: float


class ScoredText(BaseModel):
    log_score: float
    num_tokens: int
    num_pieces: int
    tokens: list[ScoredToken]


class ScoreAnswer(BaseModel):
    object: Literal["list"] = "list"
    model: str
    kind: str  # what a score is: a log-likelihood, a pseudo-log-likelihood
    data: list[ScoredText]


class DetectedSpan(BaseModel):
    start: int
    end: int
    tokens: int
    energy: float
    probability: float


class DetectedSentence(BaseModel):
    """That a machine wrote the sentence, judged by it and those around it; null where the detector cannot tell."""

    start: int
    end: int
    tokens: int
    energy: float
    probability: float | None


class DetectedText(BaseModel):
    """That a machine wrote it; `text` is the text as it was read, to which the spans refer."""

    probability: float
    prior: float
    energy: float
    tokens: int
    blocks: int
    share_read: float
    warnings: list[str]
    disguises: list[str]
    text: str
    spans: list[DetectedSpan]
    sentences: list[DetectedSentence]


class Unjudged(BaseModel):
    """Why a text was not judged."""

    error: str


class DetectAnswer(BaseModel):
    object: Literal["list"] = "list"
    data: list[DetectedText | Unjudged]


class TokenizeAnswer(BaseModel):
    count: int
    max_model_len: int | None
    tokens: list[int]


class Status(BaseModel):
    status: str
