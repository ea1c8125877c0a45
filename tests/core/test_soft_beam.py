"""The relaxed search against Algs. 2 and 3 in loops, against hard search, and against finite differences."""

from dataclasses import replace

import pytest
import torch

from lexergy.core.search_aware.beam_search import all_sequences_scored, beam_search
from lexergy.core.search_aware.sequence_costs import hamming_costs, sequence_cost
from lexergy.core.search_aware.step_decoder import score_sequences
from lexergy.core.soft_beam import (
    continuous_top_k_argmax,
    direct_loss,
    soft_beam,
    soft_beam_decode,
    soft_hinge_loss,
)
from lexergy.errors import LexergyError
from toys.decoders import ToyDecoder, toy_decoder

HARD = 1e12

TAGGING = toy_decoder((4, 2, 3), 4)
ENDING = toy_decoder((4, 4, 3), 4, end=1, seed=3)
RAW = toy_decoder((4, 2, 3), 4, normalised=False, seed=5)
DECODERS = {"tagging": TAGGING, "with an end": ENDING, "raw scores": RAW}
GOLD = torch.tensor([[3, 0, 2, 2], [0, 1, 0, 2], [2, 3, 1, 0]])
WEIGHTS = torch.tensor([2.0, 1.0, 1.0, 0.5])


@pytest.fixture(params=DECODERS)
def decoder(request):
    return DECODERS[request.param]


def test_the_ith_best_has_most_of_the_ith_mass():
    scores = torch.tensor([[[1.0, 4.0, 2.0], [3.5, 0.0, -1.0]], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]).double()
    hard = continuous_top_k_argmax(scores, HARD)
    assert hard.shape == (2, 2, 2, 3)
    assert hard.nonzero().tolist() == [[0, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 2], [1, 1, 1, 1]]
    soft = continuous_top_k_argmax(scores, 0.5)
    for sentence, place, largest in ((0, 0, 4.0), (0, 1, 3.5), (1, 0, 5.0), (1, 1, 4.0)):
        weights = (-0.5 * (scores[sentence] - largest) ** 2).exp()
        assert torch.allclose(soft[sentence, place], weights / weights.sum())


def algorithm_3(decoder: ToyDecoder, beam: int, alpha: float, gold=None, *, candidates=None, augment=False):
    """Scores, costs and pairs of most mass of one sentence, in loops, with the printed names."""
    vocab_size, (states, inputs) = len(decoder.embeddings), decoder.start()
    h, e = [states[0][0, 0]] * beam, [inputs[0, 0]] * beam
    s, D, o = [-1e4 * i for i in range(beam)], [0.0] * beam, [0.0] * beam
    targets = [] if gold is None else gold.tolist()
    if decoder.end in targets:
        targets = targets[: targets.index(decoder.end)] + [decoder.end] * len(targets)
    pairs = []
    for t in range(int(decoder.lengths[0])):
        f, (new_h,) = decoder.step(t, (torch.stack(h)[None],), torch.stack(e)[None])
        d = [float(w != targets[t]) if targets else 0.0 for w in range(vocab_size)]
        s_tilde = torch.zeros(beam, vocab_size).double()
        for i in range(beam):
            for w in range(vocab_size):
                probability = f[0, i, w].exp() * (1 - o[i]) + (o[i] if w == decoder.end else 0)
                s_tilde[i, w] = s[i] + (probability.log() if probability > 0 else -1e4) + (d[w] if augment else 0)
        compete = (s_tilde - torch.tensor(d) * augment).amax(0).argsort(descending=True)[:candidates]
        open_ = torch.full_like(s_tilde, -torch.inf)
        open_[:, compete] = s_tilde[:, compete]
        m = open_.flatten().sort(descending=True).values[:beam]
        p = [(-alpha * (open_ - m[i]) ** 2).flatten().softmax(-1).view_as(open_) for i in range(beam)]
        pairs.append([divmod(int(p[i].argmax()), vocab_size) for i in range(beam)])
        finite = open_.masked_fill(open_ == -torch.inf, 0)
        s = [float((finite * p[i]).sum()) for i in range(beam)]
        b, a = [p[i].sum(1) for i in range(beam)], [p[i].sum(0) for i in range(beam)]
        D = [float(a[i] @ torch.tensor(d).double() + b[i] @ torch.tensor(D).double()) for i in range(beam)]
        e = [a[i] @ decoder.embeddings for i in range(beam)]
        h = [b[i] @ new_h[0] for i in range(beam)]
        o = [0.0 if decoder.end is None else float(a[i][decoder.end]) for i in range(beam)]
    return s, D, pairs


@pytest.mark.parametrize("candidates", [None, 3])
@pytest.mark.parametrize("augment", [False, True])
def test_the_recurrence_is_algorithm_3(decoder, candidates, augment):
    final = soft_beam(decoder, 3, 0.7, hamming_costs(decoder, GOLD), candidates=candidates, augment=augment)
    for sentence in range(3):
        scores, costs, pairs = algorithm_3(
            decoder.of(sentence), 3, 0.7, GOLD[sentence], candidates=candidates, augment=augment
        )
        assert final.scores[sentence].tolist() == pytest.approx(scores)
        assert final.costs[sentence].tolist() == pytest.approx(costs)
        for step, pair in enumerate(pairs):
            assert final.backpointers[step, sentence].tolist() == [place for place, _ in pair]
            assert final.symbols[step, sentence].tolist() == [symbol for _, symbol in pair]


@pytest.mark.parametrize("alpha", [0.3, HARD])
def test_as_many_candidates_as_symbols_change_nothing(decoder, alpha):
    for loss in (direct_loss, soft_hinge_loss):
        assert torch.allclose(loss(decoder, GOLD, 3, alpha, candidates=4), loss(decoder, GOLD, 3, alpha))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("beam", [1, 3, 7])
def test_the_limit_is_hard_search_and_the_cost_of_what_it_finds(decoder, beam, weights):
    """Seven hypotheses are more than the first step has symbols."""
    hard, soft = beam_search(decoder, beam), soft_beam_decode(decoder, beam, HARD)
    assert torch.equal(soft.symbols, hard.symbols)
    assert torch.allclose(soft.scores, hard.scores)
    costs = hamming_costs(decoder, GOLD, weights)
    expected = sequence_cost(decoder, hard.symbols[:, 0], costs)
    assert torch.allclose(direct_loss(decoder, GOLD, beam, HARD, costs), expected)
    assert expected.unique().numel() > 1


def test_agreement_with_hard_search_grows_with_alpha():
    decoder = toy_decoder((6,) * 100, 8, seed=7)
    hard = beam_search(decoder, 3).symbols[:, 0]
    shares = [
        float((soft_beam_decode(decoder, 3, alpha).symbols[:, 0] == hard).double().mean())
        for alpha in (0.01, 0.3, 10.0, 1e3, HARD)
    ]
    assert shares == sorted(set(shares))
    assert shares[-1] == 1


@pytest.mark.parametrize("loss", [direct_loss, soft_hinge_loss])
@pytest.mark.parametrize("candidates", [None, 3])
def test_gradients_are_those_of_finite_differences(decoder, loss, candidates):
    def of_weights(*weights: torch.Tensor) -> torch.Tensor:
        names = ("inputs", "recurrence", "feeding", "output", "embeddings")
        bound = replace(decoder, **dict(zip(names, weights, strict=True)))
        return loss(bound, GOLD, 3, 0.8, candidates=candidates)

    weights = (decoder.inputs, decoder.recurrence, decoder.feeding, decoder.output, decoder.embeddings)
    assert torch.autograd.gradcheck(of_weights, [weight.clone().requires_grad_() for weight in weights], fast_mode=True)


def test_a_sentence_has_the_same_loss_alone(decoder):
    for loss in (direct_loss, soft_hinge_loss):
        together = loss(decoder, GOLD, 3, 0.7, candidates=3)
        for sentence, size in enumerate(decoder.lengths.tolist()):
            alone = loss(decoder.of(sentence, size), GOLD[sentence : sentence + 1, :size], 3, 0.7, candidates=3)
            assert torch.allclose(alone[0], together[sentence])


@pytest.mark.parametrize("beam", [1, 5])
def test_states_that_are_missing_never_win_nor_poison_gradients(beam):
    decoder = toy_decoder((3, 1), 2)
    decoder.output.requires_grad_()
    final = soft_beam(decoder, beam, 1.0)
    direct_loss(decoder, torch.tensor([[0, 1, 1], [1, 0, 0]]), beam, 100.0).sum().backward()
    assert decoder.output.grad.isfinite().all()
    decoded = soft_beam_decode(decoder, beam, HARD)
    assert torch.equal(decoded.symbols, beam_search(decoder, beam).symbols)
    assert (final.scores[1] > -5e3).sum() == min(beam, 2)


def test_the_hinge_is_that_of_enumeration(decoder):
    """With a beam as wide as the space and alpha without bound, max_y (cost + score) - s(y*) is exact."""
    every = all_sequences_scored(decoder)
    augmented = torch.stack(
        [
            scores + sequence_cost(decoder, symbols, hamming_costs(decoder, GOLD))
            for symbols, scores in zip(every.symbols.unbind(1), every.scores.unbind(1), strict=True)
        ],
        1,
    )
    expected = (augmented.amax(1) - score_sequences(decoder, GOLD)).relu()
    assert torch.allclose(soft_hinge_loss(decoder, GOLD, 4**4, HARD), expected)
    assert (expected > 0).any()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"beam": 0, "alpha": 1.0}, "`beam` is 0"),
        ({"beam": 1, "alpha": 0.0}, "`alpha` is 0"),
        ({"beam": 1, "alpha": 1.0, "candidates": 0}, "`candidates` is 0"),
    ],
)
def test_bad_values_are_named(keywords, message):
    with pytest.raises(LexergyError, match=message):
        soft_beam(TAGGING, **keywords)
