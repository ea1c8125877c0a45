"""Texts of lm-eval's requests as tokens: where the context ends and the continuation begins."""

from typing import NamedTuple

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.text_starts import start_of_text
from lexergy.models.joint.likelihood import Given


class Encoded(NamedTuple):
    """A request in tokens, and what had to be done to it."""

    given: Given
    was_cut: bool  # the context is longer than the LM reads: its beginning was left out
    was_split: bool  # a token would lie across the border: the continuation was encoded alone


def start_tokens(lm: LanguageModel) -> list[int]:
    """What a text without context is predicted from; nothing where the LM puts in its start token itself."""
    return [] if lm.start_token is not None else [start_of_text(lm)]


def encode_pair(lm: LanguageModel, context: str, continuation: str) -> Encoded:
    """Blanks at the end of the context belong to the continuation; then both are encoded as one text.

    So lm-eval has it (`TemplateLM._encode_pair`). Where the tokens of the context are not the beginning of those of
    the whole, lm-eval would score a text that nobody gave; here the continuation is encoded alone. Without a context, a
    text is predicted from the LM's start or end-of-text token. A context that is too long loses its beginning.
    """
    stripped = context.rstrip()
    continuation = context[len(stripped) :] + continuation
    before, whole = _ids(lm, stripped), _ids(lm, stripped + continuation)
    was_split = whole[: len(before)] != before
    after = _ids(lm, continuation) if was_split else whole[len(before) :]
    if not before:
        before = start_tokens(lm)
        after = after[len(before) :] if before and after[:1] == before else after
    if not after:
        raise LexergyError(
            f"the continuation {continuation!r} of a request is empty; expected at least one token to score; correct "
            "`doc_to_choice` or `doc_to_target` of the task."
        )
    room = len(before) if lm.max_length is None else lm.max_length - len(after)
    if room < min(1, len(before)):
        raise LexergyError(
            f"a continuation has {len(after)} tokens; expected fewer than {lm.max_length}, what the LM can read; leave "
            "the item out, or evaluate it by `loglikelihood_rolling`, which cuts texts."
        )
    kept = before[max(0, len(before) - room) :]
    return Encoded(Given(tuple(kept), tuple(after)), len(kept) < len(before), was_split)


def encode_text(lm: LanguageModel, text: str) -> list[int]:
    """Token ids of a whole text, which may not be empty."""
    ids = _ids(lm, text)
    if not ids:
        raise LexergyError(
            "a text to score is empty; expected at least one token; correct `doc_to_target` of the task."
        )
    return ids


def _ids(lm: LanguageModel, text: str) -> list[int]:
    return lm.encode(text).tolist() if text else []
