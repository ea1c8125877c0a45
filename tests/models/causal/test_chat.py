"""What an LM is asked by its chat template, and what it answered."""

import copy

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.causal.chat import ChatLM


@pytest.fixture
def chat(word_lm) -> ChatLM:
    lm = copy.copy(word_lm)
    lm.tokenizer = copy.deepcopy(word_lm.tokenizer)
    lm.tokenizer.chat_template = "most {{ messages[0].content }}"
    return ChatLM(lm, "the LM")


def test_a_request_is_in_the_form_of_the_template(chat):
    assert chat.request("our union").tolist() == chat.lm.encode("most our union").tolist()


def test_a_start_token_stands_there_once(chat):
    """Gemma's template writes it, and its LM puts it before every row."""
    chat.lm.start_token = int(chat.lm.encode("most")[0])
    request = chat.request("our union")
    assert request.tolist() == chat.lm.encode("most our union")[1:].tolist()
    assert chat.lm.with_start(request[None])[0].tolist() == chat.lm.encode("most our union").tolist()


def test_an_answer_ends_where_the_lm_ends_it(chat):
    words, end = chat.lm.encode("our union"), torch.tensor([chat.lm.end_token])
    assert chat.answer(torch.cat((words, end, end))) == chat.answer(words) == "our union"
    assert chat.answer(torch.cat((end, end))) == ""


def test_an_lm_without_a_template_cannot_be_asked(word_lm):
    with pytest.raises(LexergyError, match="the LM has no chat template; expected an instruction-tuned LM"):
        ChatLM(word_lm, "the LM")
