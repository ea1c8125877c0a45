"""From pieces of text to OpenAI's objects: whole answers, and the events of a stream."""

import math
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lexergy.core.candidates import Candidate
from lexergy.serve.api import answers
from lexergy.serve.api.catalogue import Catalogue
from lexergy.serve.api.desk import Written
from lexergy.serve.api.plans import Plan
from lexergy.serve.api.writing import INCOMPLETE, Piece, TokenLogProb

LONGEST_LETTER = 4  # bytes of UTF-8


@dataclass
class Reply:
    """The answer to one request while it grows."""

    catalogue: Catalogue
    plan: Plan
    prefix: str  # of the id: cmpl or chatcmpl
    echo: bool = False
    prompt_log_probs: bool = False
    pieces: dict[int, list[Piece]] = field(default_factory=dict)  # by choice

    def __post_init__(self) -> None:
        self.common: dict[str, Any] = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": self.plan.model.id,
            "system_fingerprint": self.catalogue.fingerprint,
        }
        for choice in range(len(self.plan.prompts) * self.plan.num_choices):
            self.pieces[choice] = []

    def add(self, written: Written) -> None:
        self.pieces[written.choice].append(written.piece)

    def usage(self) -> answers.Usage:
        prompt = sum(len(prompt) for prompt in self.plan.prompts)
        written = sum(len(piece.tokens) for pieces in self.pieces.values() for piece in pieces)
        return answers.Usage(prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written)

    def facts(self) -> answers.AnswerFacts:
        pieces = [piece for own in self.pieces.values() for piece in own]
        drawn = "base LM" if self.plan.model.joint is None else "joint model"
        return answers.AnswerFacts(
            seed=self.plan.seed,
            drawn="lowest energy" if self.plan.texts[0].manner.keep_best else drawn,  # type: ignore[arg-type]
            sampled_tokens=sum(piece.sampled_tokens for piece in pieces),
            warnings=list(dict.fromkeys(warning for piece in pieces for warning in piece.warnings)),
        )

    def echoed(self, choice: int) -> str:
        """The prompt before the first chunk of its text, where that was asked for."""
        if not self.echo or self.catalogue.tokenizer is None:
            return ""
        prompt = self.plan.prompts[choice // self.plan.num_choices]
        return self.catalogue.tokenizer.decode(list(prompt), clean_up_tokenization_spaces=False)

    def completion(self) -> answers.Completion:
        choices = [
            answers.CompletionChoice(
                index=choice,
                text=self.echoed(choice) + text_of(pieces),
                logprobs=self.log_probs(choice, pieces),
                prompt_logprobs=self.of_prompt(choice, pieces),
                finish_reason=pieces[-1].finish,
                lexergy=choice_facts(pieces),
            )
            for choice, pieces in self.pieces.items()
        ]
        return answers.Completion(**self.common, choices=choices, usage=self.usage(), lexergy=self.facts())

    def completion_chunk(self, written: Written) -> answers.Completion:
        choice, piece = written
        first = len(self.pieces[choice]) == 1
        told = answers.CompletionChoice(
            index=choice,
            text=(self.echoed(choice) if first else "") + piece.text,
            logprobs=self.log_probs(choice, [piece], before=self.pieces[choice][:-1]),
            finish_reason=piece.finish,
            lexergy=chunk_facts(piece),
        )
        return answers.Completion(**self.common, choices=[told])

    def log_probs(
        self, choice: int, pieces: Sequence[Piece], before: Sequence[Piece] = ()
    ) -> answers.CompletionLogProbs | None:
        if self.plan.texts[0].manner.log_probs is None or self.prompt_log_probs:
            return None
        start = len(text_of(before)) + (len(self.echoed(choice)) if before else 0)
        end = start + len(text_of(pieces)) + (0 if before else len(self.echoed(choice)))
        kept, offsets = self._within([token for piece in pieces for token in piece.log_probs], start, end)
        return answers.CompletionLogProbs(
            tokens=[self.word(token.token) for token in kept],
            token_logprobs=[token.log_prob for token in kept],
            top_logprobs=[
                None if token.log_prob is None else {self.word(other): value for other, value in token.top}
                for token in kept
            ],
            text_offset=offsets,
        )

    def of_prompt(self, choice: int, pieces: Sequence[Piece]) -> list[dict[str, answers.TokenValue] | None] | None:
        """Of each token of the prompt by its id, as vLLM tells it: a prompt need not be text to be scored."""
        if not self.prompt_log_probs:
            return None
        length = len(self.plan.prompts[choice // self.plan.num_choices])
        return [None if token.log_prob is None else _values(token) for token in pieces[0].log_probs[:length]]

    def _within(self, tokens: Iterable[TokenLogProb], start: int, end: int) -> tuple[list[TokenLogProb], list[int]]:
        """The tokens of the text that is told: those of a stop string are not, nor is an end token."""
        kept: list[TokenLogProb] = []
        offsets: list[int] = []
        pending: list[int] = []  # bytes of a letter that is not whole yet
        for token in tokens:
            if start >= end:
                break
            kept.append(token)
            offsets.append(start)
            pending.append(token.token)
            text = self.word(*pending)
            if not text.endswith(INCOMPLETE) or len(pending) == LONGEST_LETTER:
                start += len(text)
                pending = []
        return kept, offsets

    def chat(self) -> answers.ChatCompletion:
        choices = [
            answers.ChatChoice(
                index=choice,
                message=answers.ChatMessage(content=text_of(pieces)),
                logprobs=self.chat_log_probs(pieces),
                finish_reason=pieces[-1].finish or "length",
                lexergy=choice_facts(pieces),
            )
            for choice, pieces in self.pieces.items()
        ]
        return answers.ChatCompletion(**self.common, choices=choices, usage=self.usage(), lexergy=self.facts())

    def chat_chunk(self, written: Written) -> dict[str, Any]:
        choice, piece = written
        delta: dict[str, Any] = {"role": "assistant"} if len(self.pieces[choice]) == 1 else {}
        log_probs = self.chat_log_probs([piece])
        told = {
            "index": choice,
            "delta": delta | {"content": piece.text},
            "logprobs": None if log_probs is None else log_probs.model_dump(mode="json"),
            "finish_reason": piece.finish,
            "lexergy": chunk_facts(piece).model_dump(mode="json"),
        }
        return {**self.common, "object": "chat.completion.chunk", "choices": [told]}

    def last_chunk(self, with_usage: bool) -> dict[str, Any]:
        """Seed and warnings, and the usage where it was asked for, after all texts."""
        kind = "chat.completion.chunk" if self.prefix == "chatcmpl" else "text_completion"
        usage = self.usage().model_dump(mode="json") if with_usage else None
        return {
            **self.common,
            "object": kind,
            "choices": [],
            "usage": usage,
            "lexergy": self.facts().model_dump(mode="json"),
        }

    def chat_log_probs(self, pieces: Sequence[Piece]) -> answers.ChatLogProbs | None:
        if self.plan.texts[0].manner.log_probs is None:
            return None
        tokens, _ = self._within([token for piece in pieces for token in piece.log_probs], 0, len(text_of(pieces)))
        content = [
            answers.ChatToken(
                **self._likely(token.token, token.log_prob or 0.0),
                top_logprobs=[answers.LikelyToken(**self._likely(*other)) for other in token.top],
            )
            for token in tokens
        ]
        return answers.ChatLogProbs(content=content)

    def _likely(self, token: int, log_prob: float) -> dict[str, Any]:
        word = self.word(token)
        return {"token": word, "logprob": log_prob, "bytes": list(word.encode("utf-8"))}

    def word(self, *tokens: int) -> str:
        if self.catalogue.tokenizer is None:
            return "".join(f"token_id:{token}" for token in tokens)
        return self.catalogue.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)


def _values(token: TokenLogProb) -> dict[str, answers.TokenValue]:
    likely = [*token.top, (token.token, token.log_prob or 0.0)]
    return {str(other): answers.TokenValue(logprob=value) for other, value in likely}


def text_of(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def choice_facts(pieces: Sequence[Piece]) -> answers.ChoiceFacts:
    energies = [piece.energy for piece in pieces if piece.energy is not None]
    sizes = [piece.ess for piece in pieces if piece.ess is not None]
    tails = [piece.pareto_k for piece in pieces if piece.pareto_k is not None and not math.isnan(piece.pareto_k)]
    return answers.ChoiceFacts(
        energy=finite(sum(energies)) if energies else None,
        ess=min(sizes) if sizes else None,
        pareto_k=finite(max(tails)) if tails else None,
        chunks=[chunk_facts(piece) for piece in pieces],
    )


def chunk_facts(piece: Piece) -> answers.ChunkFacts:
    return answers.ChunkFacts(
        tokens=list(piece.tokens),
        energy=finite(piece.energy),
        log_prob=finite(piece.log_prob),
        num_candidates=piece.num_candidates,
        ess=piece.ess,
        pareto_k=finite(piece.pareto_k),
        num_ancestors=piece.num_ancestors,
        candidates=None if piece.candidates is None else [weighed(item) for item in piece.candidates],
    )


def weighed(candidate: Candidate) -> answers.WeighedText:
    return answers.WeighedText(
        text=candidate.text,
        energy=finite(candidate.energy),
        log_prob=finite(candidate.log_prob),
        weight=candidate.weight,
        tokens=list(candidate.tokens),
    )


def finite(value: float | None) -> float | None:
    """JSON has neither NaN nor infinities."""
    return value if value is not None and math.isfinite(value) else None
