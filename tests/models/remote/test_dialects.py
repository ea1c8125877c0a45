"""What is sent to each kind of server and read from it, on stand-ins that answer in its shape."""

import math

import pytest
import torch

from lexergy.core.decoding import Decoding
from lexergy.errors import LexergyError
from lexergy.models.remote.dialects import Draft, LlamaCpp
from lexergy.models.remote.lm import RemoteLM
from lexergy.models.remote.words import TokenWords
from lexergy.testing import EnumerableLM, assert_sampler_contract, letter_tokenizer
from toys.answering import Reply, StandIn, answering
from toys.language_models import byte_tokenizer

PREFIX = torch.tensor([[1, 2], [4, 3]])


@pytest.fixture(scope="module")
def local() -> EnumerableLM:
    return EnumerableLM(num_layers=1, tokenizer=letter_tokenizer())


def test_vllm_is_asked_with_all_fields_and_read_by_its_ids(local):
    stand_in = StandIn(local, "vllm")
    with answering(stand_in) as url:
        lm = RemoteLM(url, tokenizer=local.tokenizer, forbidden_tokens=[6])
        lm.sample(PREFIX, num_samples=1, max_new_tokens=2, top_k=3)
    sent = stand_in.asked[-1]
    explicit = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"}
    assert explicit | {"seed", "n", "ignore_eos", "min_tokens", "max_tokens"} <= sent.keys()
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["min_p"]) == (1.0, 1.0, 3, 0.0)
    assert sent["logit_bias"] == {"6": -100.0}
    assert lm.max_length == 12


@pytest.mark.parametrize("owner", ["vllm", "somebody"])
def test_samples_follow_the_lm_and_text_is_scored(local, owner):
    with answering(StandIn(local, owner)) as url:
        lm = RemoteLM(url, "toy", tokenizer=local.tokenizer)
        assert_sampler_contract(lm, PREFIX[:1], 2, num_samples=40, exact_lm=local)
        rows = torch.tensor([[1, 2, 3, 4, 5], [6, 5, 4, 3, 2]])
        ours, theirs = (which.token_log_prob(rows, prefix_length=2) for which in (local, lm))
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_log_probs_before_truncation_are_not_taken_for_those_after(local):
    with answering(StandIn(local, "vllm")) as url:
        raw = RemoteLM(url, tokenizer=local.tokenizer)
        assert not raw.server.tells_drawn
        assert raw.sample(PREFIX, num_samples=2, max_new_tokens=2, top_k=3).log_prob.isnan().all()
    with answering(StandIn(local, "vllm", processed=True)) as url:
        processed = RemoteLM(url, tokenizer=local.tokenizer)
        assert processed.server.tells_drawn
        assert_sampler_contract(processed, PREFIX[:1], 2, num_samples=30, exact_lm=local, top_k=3, temperature=0.8)


def test_forbidden_tokens_are_not_in_a_prompts_log_probs(local):
    with answering(StandIn(local, "vllm")) as url:
        lm = RemoteLM(url, tokenizer=local.tokenizer, forbidden_tokens=[6])
        with pytest.raises(LexergyError, match="the 1 forbidden here among them; with `forbid_special_tokens: false`"):
            lm.log_prob(torch.tensor([[1, 2, 3]]), prefix_length=1)


def test_a_server_that_scores_nothing_still_writes(local):
    with answering(StandIn(local, "somebody", scores=False)) as url:
        lm = RemoteLM(url, tokenizer=local.tokenizer)
        assert lm.sample(PREFIX, num_samples=2, max_new_tokens=3).tokens.shape == (2, 2, 3)
        with pytest.raises(LexergyError, match=r"`echo` with `logprobs`.*no echo here.*`perplexity: null`"):
            lm.log_prob(torch.tensor([[1, 2, 3]]), prefix_length=1)


def test_a_server_of_no_more_than_openais_api_has_no_top_k(local):
    with answering(StandIn(local, "somebody")) as url:
        lm = RemoteLM(url, tokenizer=local.tokenizer)
        with pytest.raises(LexergyError, match="`top_k` is 3 for a server of OpenAI's API, which has no such field"):
            lm.sample(PREFIX, num_samples=1, max_new_tokens=1, top_k=3)


def test_another_tokenizer_is_refused(local):
    with (
        answering(StandIn(local, "vllm")) as url,
        pytest.raises(LexergyError, match=r"and the local tokenizer as .* expected the same; name the tokenizer"),
    ):
        RemoteLM(url, tokenizer=letter_tokenizer("gfedcba"))


def test_a_server_that_puts_tokens_in_is_refused(local):
    stand_in = StandIn(local, "vllm")

    def one_more(path, body):
        reply = stand_in(path, body)
        if "usage" in reply.content:
            reply.content["usage"]["prompt_tokens"] += 1
        return reply

    with answering(one_more) as url, pytest.raises(LexergyError, match="counts 9 tokens in a prompt of 8"):
        RemoteLM(url, tokenizer=local.tokenizer)


def test_a_server_without_log_probs_is_refused(local):
    stand_in = StandIn(local, "somebody")

    def silent(path, body):
        reply = stand_in(path, body)
        for choice in reply.content.get("choices", []):
            choice["logprobs"] = None
        return reply

    with answering(silent) as url, pytest.raises(LexergyError, match="does not tell the tokens that it writes"):
        RemoteLM(url, tokenizer=local.tokenizer)


def test_a_text_that_is_cut_short_is_refused(local):
    stand_in = StandIn(local, "vllm")

    def short(path, body):
        reply = stand_in(path, body)
        for choice in reply.content.get("choices", []):
            choice["token_ids"] = choice["token_ids"][:2]
        return reply

    with answering(short) as url:
        lm = RemoteLM(url, tokenizer=local.tokenizer)
        with pytest.raises(LexergyError, match="wrote 2 tokens of 3 and stopped"):
            lm.sample(PREFIX, num_samples=1, max_new_tokens=3)


def test_a_model_is_named_where_there_are_several(local):
    cards = {"data": [{"id": name, "owned_by": "vllm"} for name in ("one-7b", "two-7b")]}
    with answering(lambda path, body: Reply(cards)) as url:
        for model, given in ((None, "no `model` was named"), ("three", "`model` is three")):
            with pytest.raises(LexergyError, match=rf"{given} for {url}; expected one of: one-7b, two-7b"):
                RemoteLM(url, model, tokenizer=local.tokenizer)


def test_something_else_than_openais_api_is_told():
    with (
        answering(lambda path, body: Reply({"detail": "Not Found"}, 404)) as url,
        pytest.raises(LexergyError, match="has no list of models at /v1/models"),
    ):
        RemoteLM(url, tokenizer=letter_tokenizer())


def test_llama_cpp_gets_every_sampler_off_and_ours_in_our_order():
    draft = Draft("m", [1, 2], 4, Decoding(0.7, None, 0.9), seed=5, forbidden_tokens=(0, 2))
    body = LlamaCpp(TokenWords(letter_tokenizer())).body(draft)
    assert body["samplers"] == ["temperature", "top_k", "top_p"]
    assert (body["temperature"], body["top_k"], body["top_p"], body["min_p"]) == (0.7, 0, 0.9, 0.0)
    assert (body["repeat_penalty"], body["dry_multiplier"], body["mirostat"], body["seed"]) == (1.0, 0.0, 0, 5)
    assert body["logit_bias"] == [[0, False], [2, False]]
    assert body["ignore_eos"]


def test_words_are_read_back_as_tokens_also_halves_of_letters():
    words = TokenWords(byte_tokenizer())
    ids = byte_tokenizer()("n\u00e4 !", add_special_tokens=False)["input_ids"]
    assert words.ids(["n", "bytes:\\xc3", "bytes:\\xa4", " ", "token_id:7", "<end>"]) == [*ids[:4], 7, 256]
    with pytest.raises(LexergyError, match="'nn', which the local tokenizer does not have"):
        words.ids(["nn"])


def test_what_llama_cpp_tells_is_a_probability_after_sampling():
    told = [{"id": 3, "prob": 0.25}, {"id": 5, "prob": 0.0}]
    answer = {"tokens": [3, 5], "completion_probabilities": told, "stop_type": "eos"}
    written = LlamaCpp(TokenWords(letter_tokenizer())).written(answer)
    assert (written.tokens, written.ended) == ([3, 5], True)
    assert written.log_probs == [math.log(0.25), -math.inf]


def test_a_token_whose_probability_llama_cpp_keeps_to_itself_makes_the_sum_unknown():
    answer = {"tokens": [3, 5], "completion_probabilities": [{"id": 5, "prob": 0.5}], "stop_type": "limit"}
    written = LlamaCpp(TokenWords(letter_tokenizer())).written(answer)
    assert (written.tokens, written.ended) == ([3, 5], False)
    assert math.isnan(written.log_prob)
