import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare

from lexergy.core.decoding import pick
from lexergy.core.search_aware.scheduled_sampling import (
    annealed,
    exponential,
    gumbel_softmax,
    inverse_sigmoid,
    linear,
    scheduled_log_scores,
    soft_argmax,
)
from lexergy.core.search_aware.step_decoder import score_sequences
from lexergy.errors import LexergyError
from toys.decoders import toy_decoder

FAILURE_RATE = 1e-4  # of the chi-square test, were its seed drawn again
DECODER = toy_decoder((4, 2, 3))
GOLD = torch.tensor([[0, 2, 1, 1], [2, 0, 1, 2], [1, 1, 0, 2]])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def coins(rows: int = 3, size: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.rand(rows, size, generator=generator(seed), dtype=torch.double)


@pytest.mark.parametrize("alpha", [0.5, 3.0, math.inf])
def test_gumbel_samples_follow_the_softmax(alpha):
    scores = torch.tensor([0.0, 1.5, -1.0, 0.7]).double()
    uniforms = torch.rand(20_000, 4, generator=generator(), dtype=torch.double)
    draws = gumbel_softmax(scores.expand(20_000, -1), uniforms, alpha)
    assert torch.allclose(draws.sum(-1), torch.ones(20_000).double())
    counts = torch.bincount(draws.argmax(-1), minlength=4)
    assert chisquare(counts, scores.softmax(-1) * 20_000).pvalue > FAILURE_RATE


def test_the_ends_of_the_uniforms_are_finite():
    ends = torch.tensor([0.0, 1 - 2**-53]).double()
    assert gumbel_softmax(torch.zeros(2).double(), ends, 1.0).isfinite().all()


def test_the_soft_argmax_becomes_the_argmax():
    scores = torch.tensor([0.1, 0.4, 0.2]).double()
    assert torch.allclose(soft_argmax(scores, 2.0), (2 * scores).exp() / (2 * scores).exp().sum())
    assert soft_argmax(scores, math.inf).tolist() == [0, 1, 0]
    assert torch.allclose(soft_argmax(scores, 1e4), soft_argmax(scores, math.inf))


def test_gold_alone_is_teacher_forcing():
    log_scores = scheduled_log_scores(DECODER, GOLD, 1.0, coins(), alpha=1.0)
    assert torch.allclose(log_scores.sum(-1), score_sequences(DECODER, GOLD))


@pytest.mark.parametrize("alpha", [0.7, math.inf])
@pytest.mark.parametrize("gold_probability", [0.0, 0.6])
@pytest.mark.parametrize("sentence", [0, 1, 2])
def test_each_step_reads_gold_or_the_decoder_s_own_choice(alpha, gold_probability, sentence):
    """By hand, each sentence alone: so padding and batches change nothing."""
    log_scores = scheduled_log_scores(DECODER, GOLD, gold_probability, coins(), alpha=alpha)
    decoder, length = DECODER.of(sentence), int(DECODER.lengths[sentence])
    states, inputs = decoder.start()
    for position in range(length):
        scores, states = decoder.step(position, states, inputs)
        symbol = GOLD[sentence, position]
        assert torch.allclose(log_scores[sentence, position], scores[0, 0, symbol])
        weights = torch.zeros(3).double().index_fill(0, scores.argmax(), 1)
        if alpha < math.inf:
            weights = (alpha * scores[0, 0]).softmax(-1)
        if coins()[sentence, position] < gold_probability:
            weights = torch.zeros(3).double().index_fill(0, symbol, 1)
        inputs = weights[None, None] @ decoder.embeddings
    assert (log_scores[sentence, length:] == 0).all()


def test_draws_and_gold_are_mixed_in_the_share_asked_for():
    """The second step reads gold in the share that was asked for, and what the decoder drew in the rest."""
    decoder = toy_decoder((2,) * 4000, 2, seed=1)
    decoder.inputs[:] = decoder.inputs[0]
    gold = torch.ones(4000, 2, dtype=torch.long)
    seconds = scheduled_log_scores(decoder, gold, 0.3, coins(4000, 2), noise=lambda step: coins(4000, 2, 1 + step))[
        :, 1
    ]
    first, states = decoder.step(0, *decoder.start())
    after = [
        float(pick(decoder.step(1, states, decoder.embeddings[None, None, v].expand(4000, 1, -1))[0][0, 0], gold[0, 0]))
        for v in (0, 1)
    ]
    share = 0.3 + 0.7 * float(first[0, 0].softmax(-1)[1])
    counts = [int((seconds - value).abs().lt(1e-9).sum()) for value in after]
    assert sum(counts) == 4000
    assert chisquare(counts, [4000 * (1 - share), 4000 * share]).pvalue > FAILURE_RATE


@pytest.mark.parametrize("sampled", [False, True])
def test_gradients_pass_through_soft_choices(sampled):
    noise = (lambda step: coins(3, 3, step)) if sampled else None

    def loss(embeddings: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        decoder = replace(DECODER, embeddings=embeddings, output=output)
        return scheduled_log_scores(decoder, GOLD, 0.4, coins(seed=3), alpha=0.9, noise=noise)

    weights = (DECODER.embeddings.clone().requires_grad_(), DECODER.output.clone().requires_grad_())
    assert torch.autograd.gradcheck(loss, weights, fast_mode=True)


def test_schedules_by_hand():
    assert inverse_sigmoid(0, 100.0) == pytest.approx(100 / 101)
    assert inverse_sigmoid(250, 50.0) == pytest.approx(50 / (50 + math.exp(5)))
    assert inverse_sigmoid(10**9, 50.0) == pytest.approx(0)
    assert [linear(step, 0.25, 0.4) for step in (0, 1, 2, 3)] == [1, 0.75, 0.5, 0.4]
    assert exponential(3, 0.5) == 0.125
    assert [annealed(step, 1.0, 100.0, 4) for step in (0, 2, 4, 9)] == pytest.approx([1, 10, 100, 100])


def test_bad_values_are_named():
    with pytest.raises(LexergyError, match=r"`gold_probability` is 1.5"):
        scheduled_log_scores(DECODER, GOLD, 1.5, coins())
