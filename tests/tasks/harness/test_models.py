"""Requests of lm-eval, answered by the base LM and by the joint model, against exact enumeration."""

import math

import pytest
import torch

from lexergy.core.conditions import Conditions
from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.top_log_probs import greedy_log_probs
from lexergy.models.joint.likelihood import estimate_log_z, text_bounds
from lexergy.models.joint.model import ResidualEBM
from lexergy.tasks.harness.base_lm import BaseLM
from lexergy.tasks.harness.encoding import encode_pair
from lexergy.tasks.harness.joint_lm import JointLM
from lexergy.tasks.harness.run_lm import HarnessSettings
from lexergy.tasks.harness.treatment import Kind
from lexergy.testing import exact_log_prob
from toys.harness import exact, request, table_of_lengths, word_joint, words

PREFIX, CHOICES = (2, 3), [(5, 1), (0, 4), (6, 6)]
CONDITIONS = Conditions(prefix=3, continuation=2)


def requests_of(choices, task="task", item=0):
    return [request(words(PREFIX), f" {words(choice)}", task=task, item=item) for choice in choices]


def model_of(kind=JointLM, trained_on=CONDITIONS, **settings):
    return kind(word_joint(trained_on), HarnessSettings(**settings))


def test_choices_of_one_length_differ_by_the_exact_joint_log_probability():
    model = model_of(compared=None)
    values = [value for value, _ in model.loglikelihood(requests_of(CHOICES))]
    truth = [exact(model.joint, PREFIX, choice) for choice in CHOICES]
    assert [value - values[0] for value in values] == pytest.approx([value - truth[0] for value in truth], abs=1e-5)
    (treatment,) = model.treatments
    assert (treatment.kind, treatment.num_requests, treatment.num_samples) == (Kind.CANCELS, 3, 0)


def test_choices_of_different_lengths_are_normalised_by_an_estimated_log_z():
    choices = [(5, 1), (0,), (6, 2, 1)]
    model = model_of(compared=None, num_samples=4000)
    values = [value for value, _ in model.loglikelihood(requests_of(choices))]
    for value, choice in zip(values, choices, strict=True):
        assert value == pytest.approx(exact(model.joint, PREFIX, choice), abs=0.12)
    (treatment,) = model.treatments
    assert (treatment.kind, treatment.num_estimates, treatment.num_doubtful) == (Kind.ESTIMATED, 3, 0)
    assert treatment.doubt is None
    assert treatment.ess > 100


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        ([("people", (5, 1)), ("people", (0, 4)), ("people", (6,)), ("people", (2,))], Kind.ESTIMATED),
        ([("people", (5, 1)), ("union", (5, 1))], Kind.ESTIMATED),
        ([("people", (5, 1)), ("people", (5, 1))], Kind.ESTIMATED),
        ([("people", (5, 1)), ("people", (0, 4)), ("union", (5, 1)), ("union", (0, 4))], Kind.CANCELS),
    ],
    ids=["two of each length", "two prefixes", "one choice twice", "two prefixes, each with both choices"],
)
def test_log_z_cancels_after_one_prefix_at_one_length_alone(pairs, kind):
    model = model_of(compared=None, num_samples=30)
    model.loglikelihood([request(context, f" {words(choice)}") for context, choice in pairs])
    assert [treatment.kind for treatment in model.treatments] == [kind]


def test_log_z_is_estimated_where_the_metrics_do_more_than_compare():
    """Once for all choices of one length, so that their differences stay exact."""
    model = model_of(compared=["other"], num_samples=64)
    requests = [*requests_of(CHOICES), *requests_of(CHOICES, task="other")]
    values = [value for value, _ in model.loglikelihood(requests)]
    given = encode_pair(model.lm, *requests[0].args).given
    log_z = estimate_log_z(model.joint, [given.space], num_samples=64)[given.space].value
    assert [value + log_z for value in values[:3]] == pytest.approx(values[3:], abs=1e-5)
    assert {treatment.task: treatment.kind for treatment in model.treatments} == {
        "task": Kind.ESTIMATED,
        "other": Kind.CANCELS,
    }


def test_an_untrusted_log_z_is_told():
    model = model_of(num_samples=10)
    model.loglikelihood(requests_of(CHOICES))
    assert "1 of 1 estimates cannot be trusted: 10 samples are too few" in model.treatments[0].doubt
    told = model.get_model_info()["lexergy"]
    assert told["treatments"][0]["doubt"] == model.treatments[0].doubt


def test_lengths_unlike_the_training_are_told():
    model = model_of(trained_on=Conditions(prefix=9, continuation=2), compared=None)
    model.loglikelihood(requests_of(CHOICES))
    assert "3 of 3 texts here are unlike that, most often 2 and 2" in model.notes[0]
    assert model_of(compared=None).notes == []


def test_the_joint_models_greedy_decoding_is_not_known_and_the_lms_is():
    (answer,) = model_of().loglikelihood(requests_of(CHOICES[:1]))
    with pytest.raises(LexergyError, match="not known"):
        int(answer[1])
    with pytest.raises(LexergyError, match="not known"):
        assert answer[1]
    base = model_of(BaseLM)
    greedy = base.lm.sample(torch.tensor([PREFIX]), num_samples=1, max_new_tokens=3, top_k=1).tokens[0, 0]
    other = (*greedy[:2].tolist(), (int(greedy[2]) + 1) % 7)
    answers = base.loglikelihood(requests_of([tuple(greedy.tolist()), other]))
    assert [is_greedy for _, is_greedy in answers] == [True, False]


def test_the_base_lm_is_the_lm_alone():
    base = model_of(BaseLM)
    values = [value for value, _ in base.loglikelihood(requests_of(CHOICES))]
    truth = exact_log_prob(base.lm, torch.tensor(PREFIX), 2)
    assert values == pytest.approx([float(truth[7 * first + second]) for first, second in CHOICES], abs=1e-5)
    rows = torch.tensor([[*PREFIX, *choice] for choice in CHOICES])
    assert greedy_log_probs(base.lm, rows, 2).log_prob.tolist() == pytest.approx(values, abs=1e-9)


def test_rolling_is_the_bound_of_all_chunks():
    text = words((3, 2, 5, 1, 0))
    models = [model_of(kind, num_samples=50) for kind in (BaseLM, JointLM)]
    for model in models:
        model.lm.tokenizer.eos_token = "we"
    base, bound = (model.loglikelihood_rolling([request(text, kind="loglikelihood_rolling")])[0] for model in models)
    chunks = models[1].chunks_of(text)
    assert [chunk.space[1] for chunk in chunks] == [2, 2, 1]
    assert [chunk.prefix for chunk in chunks] == [(0,), (0, 3, 2), (2, 5, 1)]
    expected = text_bounds(models[1].joint, chunks, num_samples=50)
    assert bound == pytest.approx(sum(chunk.bound for chunk in expected))
    assert base == pytest.approx(sum(chunk.log_prob for chunk in expected), abs=1e-6)
    assert bound <= base + 3 * math.log(50)
    assert models[1].treatments[0].kind is Kind.BOUND
    with pytest.raises(LexergyError, match="nobody knows"):
        model_of(trained_on=None).loglikelihood_rolling([request(text, kind="loglikelihood_rolling")])


def test_texts_are_drawn_until_their_strings_and_again_each_time():
    wanted = {"until": ["union"], "do_sample": True, "temperature": 1.0, "max_gen_toks": 5}
    requests = [request(words(PREFIX), wanted, kind="generate_until", item=item) for item in range(12)]
    texts = model_of(num_candidates=30).generate_until(requests)
    assert not any("union" in text for text in texts)
    assert len(set(texts)) > 3
    assert min(len(text.split()) for text in texts) < 5
    assert texts[:2] == model_of(num_candidates=30).generate_until(requests[:2])
    (treatment,) = (model := model_of(num_candidates=30)).generate_until(requests[:2]) and model.treatments
    assert (treatment.kind, treatment.num_requests, treatment.num_samples) == (Kind.RESAMPLED, 2, 30)


def test_with_one_candidate_the_joint_model_writes_what_the_base_lm_does():
    wanted = {"until": [], "do_sample": True, "max_gen_toks": 4}
    requests = [request(words(PREFIX), wanted, kind="generate_until", item=item) for item in range(3)]
    assert model_of(num_candidates=1).generate_until(requests) == model_of(BaseLM).generate_until(requests)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"until": ["."], "do_sample": False}, "greedy decoding"),
        ({"until": ["."]}, "greedy decoding"),
        ({"do_sample": True, "temperature": 0.0}, "greedy decoding"),
        ({"do_sample": True, "num_beams": 4}, "num_beams"),
        ({"do_sample": True, "max_gen_toks": 16}, "fewer than the 16"),
    ],
)
def test_what_the_joint_model_cannot_write_is_refused(wanted, message):
    with pytest.raises(LexergyError, match=message):
        model_of().generate_until([request(words(PREFIX), {"max_gen_toks": 4} | wanted, kind="generate_until")])


def test_the_base_lm_decodes_greedily_where_that_is_asked_for():
    base = model_of(BaseLM)
    (text,) = base.generate_until([request(words(PREFIX), {"until": [], "max_gen_toks": 3}, kind="generate_until")])
    ((_, is_greedy),) = base.loglikelihood([request(words(PREFIX), f" {text}")])
    assert is_greedy


def test_a_text_without_context_follows_the_start_token():
    """The LM reads its start token, the energy does not."""
    joint = word_joint()
    starting = ResidualEBM(CausalLM(joint.lm.model, joint.lm.tokenizer, start_token=3), table_of_lengths)
    values = JointLM(starting, HarnessSettings(num_samples=4000)).loglikelihood([request("", words((0, 1)))])
    log_scores = exact_log_prob(joint.lm, torch.tensor([3]), 2) - table_of_lengths(all_sequences(7, 2))
    assert values[0][0] == pytest.approx(float(log_scores.log_softmax(0)[1]), abs=0.12)
