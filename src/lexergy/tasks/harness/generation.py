"""What a task of lm-eval asks for in `generation_kwargs`, in our words; what is not known is refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lexergy.errors import LexergyError

LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # lm-eval's names, in its order
KNOWN = ("until", "do_sample", "temperature", "top_k", "top_p", *LENGTHS)
DEFAULT_TOKENS = 256


@dataclass(frozen=True)
class Wanted:
    """A text to write."""

    max_new_tokens: int
    stop: tuple[str, ...]
    is_greedy: bool
    temperature: float
    top_k: int | None
    top_p: float | None

    @property
    def decoding(self) -> dict[str, Any]:
        """As `CausalLM.sample` takes it; greedy is the likeliest token alone."""
        if self.is_greedy:
            return {"temperature": 1.0, "top_k": 1, "top_p": None}
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}


def wanted_of(generation_kwargs: Mapping[str, Any]) -> Wanted:
    """Greedy unless `do_sample` or a temperature says otherwise, as lm-eval has it."""
    given = {name: value for name, value in generation_kwargs.items() if value is not None}
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        raise LexergyError(
            f"the task asks for {', '.join(unknown)} in `generation_kwargs`; expected some of {', '.join(KNOWN)}; take "
            "the others out of the task."
        )
    temperature = float(given.get("temperature", 1.0))
    do_sample = bool(given.get("do_sample", temperature > 0 and "temperature" in given))
    until = given.get("until", [])
    lengths = [int(given[name]) for name in LENGTHS if name in given]
    top_k, top_p = int(given.get("top_k", 0)), float(given.get("top_p", 1.0))
    return Wanted(
        max_new_tokens=lengths[0] if lengths else DEFAULT_TOKENS,
        stop=(until,) if isinstance(until, str) else tuple(until),
        is_greedy=not do_sample or temperature == 0,
        temperature=temperature,
        top_k=top_k if top_k > 0 else None,
        top_p=top_p if top_p < 1 else None,
    )


def check_joint(wanted: Wanted) -> None:
    """Refuse what the joint model cannot do: it draws by importance resampling, and its likeliest text is not known."""
    if wanted.is_greedy:
        raise LexergyError(
            "the task asks for greedy decoding, which the joint model does not have: it draws by importance "
            "resampling; expected sampling; add `--gen-kwargs do_sample=true,temperature=1`, or evaluate the base LM "
            "alone."
        )
