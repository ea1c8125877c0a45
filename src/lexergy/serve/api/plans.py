"""From a request to the texts to write; what cannot be done is refused here, before anything is queued."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from lexergy.core.decoding import Decoding
from lexergy.models.causal.chat import without_start
from lexergy.models.causal.lm import CausalLM
from lexergy.serve.api.catalogue import Catalogue, ServedModel
from lexergy.serve.api.errors import invalid
from lexergy.serve.api.requests import ChatRequest, CompletionRequest, Extension, Message, Sampling
from lexergy.serve.api.settings import ServerSettings
from lexergy.serve.api.writing import Manner, Text

DEFAULT_TOKENS = 16  # OpenAI's, for completions
DEFAULT_CHAT_TOKENS = 128
MOST_GROWTH = 16  # candidates drawn at most towards a target ESS, as a multiple of the first ones


@dataclass(frozen=True)
class Plan:
    """Texts to write, and how many choices of each prompt are told."""

    model: ServedModel
    texts: list[Text]
    prompts: list[tuple[int, ...]]
    num_choices: int  # of each prompt
    seed: int


def plan_completion(catalogue: Catalogue, settings: ServerSettings, body: CompletionRequest) -> Plan:
    if body.best_of is not None and body.stream:
        raise invalid(
            "`best_of` is given with `stream`; expected one of them: the best is known when all are.", "best_of"
        )
    of_prompt = body.prompt_logprobs
    if of_prompt is not None and (body.stream or body.echo or body.logprobs is not None):
        raise invalid(
            "`prompt_logprobs` is given with `stream`, `echo` or `logprobs`; expected it alone.",
            "prompt_logprobs",
        )
    max_tokens = DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    return _plan(
        catalogue,
        settings,
        body,
        _prompts(catalogue, body),
        max_tokens,
        best_of=body.best_of,
        log_probs=body.logprobs if of_prompt is None else of_prompt,
        echo=bool(body.echo) or of_prompt is not None,
        stop_at_end=body.lexergy.stop_at_end if body.lexergy else None,
    )


def plan_chat(catalogue: Catalogue, settings: ServerSettings, body: ChatRequest) -> Plan:
    if not catalogue.has_chat:
        raise invalid("the tokenizer of this LM has no chat template; use `/v1/completions`.", "messages", "no_chat")
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise invalid("`max_tokens` and `max_completion_tokens` are given; expected one of them.", "max_tokens")
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("`top_logprobs` is given without `logprobs`; expected both.", "top_logprobs")
    default = min(DEFAULT_CHAT_TOKENS, settings.max_tokens)
    stop_at_end = body.lexergy.stop_at_end if body.lexergy else None
    return _plan(
        catalogue,
        settings,
        body,
        [_chat_tokens(catalogue, body.messages)],
        body.max_completion_tokens or body.max_tokens or default,
        log_probs=(body.top_logprobs or 0) if body.logprobs else None,
        stop_at_end=True if stop_at_end is None else stop_at_end,  # an answer ends where the assistant's turn does
    )


def _plan(
    catalogue: Catalogue,
    settings: ServerSettings,
    body: Sampling,
    prompts: list[tuple[int, ...]],
    max_tokens: int,
    *,
    best_of: int | None = None,
    log_probs: int | None = None,
    echo: bool = False,
    stop_at_end: bool | None = None,
) -> Plan:
    model, extension = catalogue.model(body.model), body.lexergy or Extension()
    if body.stream_options is not None and not body.stream:
        raise invalid("`stream_options` is given without `stream`; expected both.", "stream_options")
    _check_length(model, settings, prompts, max_tokens)
    if log_probs is not None and not isinstance(model.lm, CausalLM):
        raise invalid(
            f"`logprobs` is given, and the base LM runs elsewhere: {model.lm.source}; expected none; ask it there.",
            "logprobs",
        )
    n = body.n or 1
    manner = Manner(
        model=model.id,
        decoding=_decoding(model, body),
        num_candidates=_candidates(model, settings, extension, n, best_of),
        stop=_stop(catalogue, body),
        stop_at_end=_stop_at_end(model, stop_at_end),
        keep_best=None if best_of is None or model.joint is None else n,
        target_ess=extension.target_ess,
        max_candidates=_most_candidates(settings, extension),
        by_smc=_by_smc(model, extension, best_of),
        log_probs=log_probs,
        echo_log_probs=echo,
        return_candidates=extension.return_candidates,
    )
    seed = secrets.randbits(63) if body.seed is None else body.seed
    chunk = max_tokens if manner.keep_best else extension.chunk_tokens or _usual_chunk(catalogue, max_tokens)
    _check_work(settings, manner, min(chunk, max_tokens))
    choices = 1 if manner.keep_best else n
    texts = [
        Text(manner, prompt, seed, place * n + choice, max_tokens, max(1, chunk))
        for place, prompt in enumerate(prompts)
        for choice in range(choices)
    ]
    return Plan(model, texts, prompts, n, seed)


def _prompts(catalogue: Catalogue, body: CompletionRequest) -> list[tuple[int, ...]]:
    prompt = body.prompt
    if isinstance(prompt, str):
        return [tuple(catalogue.encode(prompt))]
    if isinstance(prompt[0], int):
        return [tuple(prompt)]  # type: ignore[arg-type]
    return [tuple(catalogue.encode(item) if isinstance(item, str) else item) for item in prompt]  # type: ignore[arg-type]


def _chat_tokens(catalogue: Catalogue, messages: Sequence[Message]) -> tuple[int, ...]:
    turns = [{"role": message.role, "content": _content(message)} for message in messages]
    try:
        text = catalogue.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's, and may refuse in its own words
        raise invalid(f"the chat template refuses these messages: {error}", "messages") from error
    return tuple(without_start(catalogue.encode(text), catalogue.lm.start_token))


def _content(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content)


def _check_length(
    model: ServedModel, settings: ServerSettings, prompts: Sequence[Sequence[int]], max_tokens: int
) -> None:
    longest = max(len(prompt) for prompt in prompts)
    if min(len(prompt) for prompt in prompts) == 0:
        raise invalid("the prompt is empty; expected at least one token to continue; write a few words.", "prompt")
    if max(max(prompt) for prompt in prompts) >= model.lm.vocab_size:
        raise invalid(
            f"the prompt has token ids of {model.lm.vocab_size} or more; were they made by another tokenizer?", "prompt"
        )
    if max_tokens > settings.max_tokens:
        raise invalid(
            f"`max_tokens` is {max_tokens}; expected at most {settings.max_tokens} on this server.", "max_tokens"
        )
    limit = settings.max_prompt_tokens
    if longest > limit:
        raise invalid(f"the prompt has {longest} tokens; expected at most {limit} on this server.", "prompt")
    most = model.lm.max_length
    if most is not None and longest + max_tokens > most:
        raise invalid(
            f"the prompt has {longest} tokens and {max_tokens} are to be written; expected at most {most} together, "
            "all that the LM reads; shorten the prompt or lower `max_tokens`.",
            "prompt",
            "context_length_exceeded",
        )


def _decoding(model: ServedModel, body: Sampling) -> Decoding:
    temperature = 1.0 if body.temperature is None else body.temperature
    top_p = None if body.top_p == 1 else body.top_p
    if temperature >= 0.01:
        return Decoding(temperature, body.top_k, top_p)
    if temperature > 0:
        raise invalid(f"`temperature` is {temperature:g}; expected 0, or at least 0.01.", "temperature")
    if model.joint is not None:
        raise invalid(
            "`temperature` is 0: all candidates of the joint model would be one and the same text; expected at least "
            "0.01; for its likeliest text give `best_of`.",
            "temperature",
        )
    return Decoding(top_k=1)


def _candidates(model: ServedModel, settings: ServerSettings, extension: Extension, n: int, best_of: int | None) -> int:
    if model.joint is None:
        given = [
            name
            for name in ("candidates", "target_ess", "max_candidates", "method")
            if getattr(extension, name) is not None
        ]
        given += ["return_candidates"] if extension.return_candidates else []
        if given:
            raise invalid(
                f"`lexergy.{given[0]}` is given to the base LM, which has no candidates; ask a joint model.", given[0]
            )
        if best_of not in (None, n):
            raise invalid(
                f"`best_of` is {best_of} for the base LM, which has no energy to tell the best by; ask a joint model.",
                "best_of",
            )
        return 1
    if best_of is not None:
        if best_of < max(2, n):
            raise invalid(
                f"`best_of` is {best_of} and `n` {n}; expected at least 2 and `n`: the one candidate would be the base "
                "LM's text; leave it out to draw from the joint model.",
                "best_of",
            )
        if extension.candidates is not None or extension.target_ess is not None or extension.chunk_tokens is not None:
            raise invalid("`best_of` says how many candidates there are; leave out those of `lexergy`.", "best_of")
    count = best_of or extension.candidates or min(settings.default_candidates, settings.max_candidates)
    if count > settings.max_candidates:
        raise invalid(
            f"{count} candidates are asked for; expected at most {settings.max_candidates} on this server.",
            "best_of" if best_of else "lexergy.candidates",
        )
    return _checked_target(settings, extension, count)


def _checked_target(settings: ServerSettings, extension: Extension, count: int) -> int:
    most = _most_candidates(settings, extension, count)
    if extension.max_candidates is not None and extension.target_ess is None:
        raise invalid(
            "`lexergy.max_candidates` is given without `target_ess`; expected both.", "lexergy.max_candidates"
        )
    if extension.max_candidates is not None and not count <= extension.max_candidates <= settings.max_candidates:
        raise invalid(
            f"`lexergy.max_candidates` is {extension.max_candidates}; expected {count} to {settings.max_candidates}.",
            "lexergy.max_candidates",
        )
    if extension.target_ess is not None and most is not None and extension.target_ess > most:
        raise invalid(
            f"`lexergy.target_ess` is {extension.target_ess:g}; expected at most {most}, the candidates drawn at most.",
            "lexergy.target_ess",
        )
    return count


def _most_candidates(settings: ServerSettings, extension: Extension, count: int | None = None) -> int | None:
    if extension.target_ess is None:
        return None
    first = count or extension.candidates or min(settings.default_candidates, settings.max_candidates)
    return extension.max_candidates or min(settings.max_candidates, first * MOST_GROWTH)


def _by_smc(model: ServedModel, extension: Extension, best_of: int | None) -> bool:
    if extension.method != "smc" or model.joint is None:
        return False
    if best_of is not None or extension.target_ess is not None:
        other = "best_of" if best_of is not None else "lexergy.target_ess"
        raise invalid(f"`lexergy.method` is smc beside `{other}`; expected one of them.", "lexergy.method")
    if model.joint.energy.features is None:
        raise invalid(
            "`lexergy.method` is smc and the energy of this model reads whole texts only; expected one on the LM's "
            "states; leave it out.",
            "lexergy.method",
        )
    return True


def _check_work(settings: ServerSettings, manner: Manner, chunk: int) -> None:
    candidates, limit = manner.max_candidates or manner.num_candidates, settings.max_chunk_tokens
    if candidates * chunk > limit:
        raise invalid(
            f"{candidates} candidates of {chunk} tokens are drawn at once; expected at most {limit} tokens here; "
            "lower the candidates, or let the text be written in chunks by `lexergy.chunk_tokens`.",
            "lexergy.chunk_tokens",
        )


def _stop(catalogue: Catalogue, body: Sampling) -> tuple[str, ...]:
    strings = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    if strings and catalogue.tokenizer is None:
        raise invalid("this LM has no tokenizer; expected no strings to stop at.", "stop")
    return strings


def _stop_at_end(model: ServedModel, at_end: bool | None) -> bool | None:
    lm = model.lm
    if at_end and lm.end_token is None and lm.end_of_text is None:
        raise invalid("this LM has no end-of-text token; leave `stop_at_end` out.", "lexergy.stop_at_end")
    return at_end


def _usual_chunk(catalogue: Catalogue, max_tokens: int) -> int:
    """What the energies were trained on; the base LM is cut alike, so that both write in step."""
    lengths = [
        model.facts.continuation_tokens for model in catalogue.models.values() if model.facts.continuation_tokens
    ]
    return lengths[0] if lengths else max_tokens
