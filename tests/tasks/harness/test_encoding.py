"""Where the context ends and the continuation begins, as lm-eval has it."""

from types import SimpleNamespace

import pytest
from lm_eval.api.model import TemplateLM

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.tasks.harness.encoding import encode_pair
from toys.harness import word_joint

PAIRS = [
    ("when we came home", " the day was long"),
    ("when we came home ", "the day was long"),
    ("when we\n\n", "Answer: grandmother kept bees"),
    ("when we came\n", " home"),
]


def lm_evals(lm: CausalLM, context: str, continuation: str) -> tuple:
    reader = SimpleNamespace(backend="causal", tok_encode=lambda text: lm.encode(text).tolist())
    return tuple(tuple(part) for part in TemplateLM._encode_pair(reader, context, continuation))


@pytest.mark.parametrize(("context", "continuation"), PAIRS)
def test_tokens_are_those_of_lm_eval(word_lm, context, continuation):
    given, was_cut, was_split = encode_pair(word_lm, context, continuation)
    assert tuple(given) == lm_evals(word_lm, context, continuation)
    assert not was_cut
    assert not was_split
    assert "".join(word_lm.decode(word_lm.encode(context + continuation))) == context + continuation


def test_a_word_across_the_border_is_written_as_it_was_given(word_lm):
    context, continuation = "rain ov", "er hills"
    given, _, was_split = encode_pair(word_lm, context, continuation)
    assert was_split
    pieces = [word_lm.tokenizer.decode(part) for part in given]
    assert pieces == [context, continuation]
    theirs = [word_lm.tokenizer.decode(list(part)) for part in lm_evals(word_lm, context, continuation)]
    assert "".join(theirs) != context + continuation


@pytest.mark.parametrize("context", ["", "  "])
def test_a_text_without_context_follows_end_of_text(word_lm, context):
    given = encode_pair(word_lm, context, "the day").given
    assert word_lm.tokenizer.decode(given.prefix) == "<|endoftext|>"
    assert word_lm.tokenizer.decode(given.continuation) == context + "the day"


def test_a_start_token_is_the_lms_own_business(word_lm):
    starting = CausalLM(word_lm.model, word_lm.tokenizer, start_token=3)
    assert encode_pair(starting, "", "the day").given.prefix == ()


def test_a_context_that_is_too_long_loses_its_beginning():
    joint = word_joint(max_length=6)
    given, was_cut, _ = encode_pair(joint.lm, "we the people of this union", " sing union")
    assert (given, was_cut) == (((2, 3, 4, 5), (6, 5)), True)
    with pytest.raises(LexergyError, match="fewer than 6"):
        encode_pair(joint.lm, "we", " sing" * 6)
    with pytest.raises(LexergyError, match="empty"):
        encode_pair(joint.lm, "we", "")
