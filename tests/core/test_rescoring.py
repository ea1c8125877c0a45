import itertools
import math

import pytest
import torch

from lexergy.core.rescoring import (
    FREQUENCY_WEIGHTS,
    WEIGHTS,
    Dev,
    ModelScores,
    Weight,
    best_ranked,
    choose_weights,
    chosen_statistics,
    combined_scores,
    matched_pairs,
    with_rest_below,
)


def error_rate(sums):
    return 100 * sums[..., 0] / sums[..., 1]


def model(log_scores, log_frequencies=None):
    scores = torch.as_tensor(log_scores).double()
    return ModelScores(scores, torch.zeros_like(scores) if log_frequencies is None else log_frequencies)


FIRST = torch.tensor([[-1.0, -2.0, -math.inf], [-1.0, -1.5, -3.0]]).double()
SCORES = model([[-9.0, -2.0, 0.0], [-4.0, -5.0, -1.0]])
STATISTICS = torch.tensor([[[2, 4], [0, 4], [9, 4]], [[0, 6], [1, 6], [3, 6]]]).double()


def test_the_weight_is_that_of_the_fewest_errors():
    """At .05 the first pass decides in both; from .15 on the first utterance is right; at .7 the second goes wrong."""
    assert WEIGHTS[0] == 0.05
    assert WEIGHTS[-1] == 1.0
    assert len(WEIGHTS) == 20
    values = {}
    for weight in WEIGHTS:
        chosen = combined_scores(FIRST, [SCORES], [Weight(weight)]).argmax(1)
        values[weight] = float(error_rate(chosen_statistics(STATISTICS, chosen).sum(0)))
    assert values[0.1] == pytest.approx(20.0)
    assert values[0.5] == pytest.approx(0.0)
    assert values[1.0] == pytest.approx(30.0)
    assert choose_weights(Dev(FIRST, STATISTICS, error_rate, False), [SCORES]) == (Weight(0.15),)
    assert choose_weights(Dev(FIRST, STATISTICS, error_rate, True), [SCORES]) == (Weight(0.7),)


def test_what_is_not_there_is_never_chosen():
    for weight in WEIGHTS:
        assert combined_scores(FIRST, [SCORES], [Weight(weight)]).argmax(1)[0] != 2


def random_dev(num_models, generator, num_utterances=60, num_hypotheses=5):
    shape = (num_utterances, num_hypotheses)
    errors = torch.randint(0, 4, shape, generator=generator).double()
    statistics = torch.stack([errors, torch.full(shape, 10.0).double()], dim=-1)

    def noisy(scale):
        return -errors + scale * torch.randn(shape, generator=generator).double()

    models = []
    for _ in range(num_models):
        frequencies = 3 * torch.randn(shape, generator=generator).double()
        models.append(ModelScores(noisy(2.0) + 0.7 * frequencies, frequencies))  # frequencies are noise in its score
    return Dev(noisy(2.0), statistics, error_rate, False), models


def dev_value(dev, models, weights):
    chosen = combined_scores(dev.first_pass, models, weights).argmax(1)
    return float(error_rate(chosen_statistics(dev.statistics, chosen).sum(0)))


def test_lambda_and_the_share_of_frequencies_are_the_best_of_the_grid():
    dev, models = random_dev(1, torch.Generator().manual_seed(0))
    (chosen,) = choose_weights(dev, models, frequency_weights=FREQUENCY_WEIGHTS)
    grid = [Weight(*pair) for pair in itertools.product(WEIGHTS, FREQUENCY_WEIGHTS)]
    values = {weight: dev_value(dev, models, [weight]) for weight in grid}
    assert values[chosen] == min(values.values()) < min(values[Weight(weight)] for weight in WEIGHTS)
    assert chosen.frequencies in (0.5, 0.75, 1.0)


def test_weights_of_several_models_are_no_worse_than_those_of_each_alone():
    dev, models = random_dev(3, torch.Generator().manual_seed(1))
    weights = choose_weights(dev, models, frequency_weights=FREQUENCY_WEIGHTS)
    alone = [choose_weights(dev, [own], frequency_weights=FREQUENCY_WEIGHTS) for own in models]
    together = dev_value(dev, models, weights)
    assert together < min(dev_value(dev, [own], weight) for own, weight in zip(models, alone, strict=True))
    for place in range(3):  # and none of them can be bettered with the others held
        for weight in [Weight(0.0), *(Weight(*pair) for pair in itertools.product(WEIGHTS, FREQUENCY_WEIGHTS))]:
            changed = (*weights[:place], weight, *weights[place + 1 :])
            assert dev_value(dev, models, changed) >= together


def test_a_model_that_knows_nothing_gets_no_weight():
    dev, (useful,) = random_dev(1, torch.Generator().manual_seed(2))
    constant = model(torch.ones_like(useful.log_scores))
    assert choose_weights(dev, [useful, constant])[1] == Weight(0.0)


def test_a_text_without_a_score_takes_the_worst_of_its_utterance():
    scores = model([[-3.0, math.nan, -5.0], [math.nan, math.nan, math.nan]], torch.tensor([[-2.0, 0, -1.0], [0, 0, 0]]))
    combined = combined_scores(torch.zeros(2, 3).double(), [scores], [Weight(0.5, 1.0)])
    assert combined.tolist() == [[-0.5, -2.0, -2.0], [0, 0, 0]]


def test_the_best_are_kept_and_the_rest_stay_below_them_in_order():
    earlier = torch.tensor([[-1.0, -4.0, -2.0, -3.0], [-1.0, -1.0, -1.0, -math.inf]]).double()
    kept = best_ranked(earlier, 2)
    assert kept.tolist() == [[True, False, True, False], [True, True, False, False]]
    assert best_ranked(earlier, 9).sum(1).tolist() == [4, 3]
    later = torch.tensor([[-30.0, 0, -20.0, 0], [-7.0, -9.0, 0, 0]]).double()
    ranking = with_rest_below(later, kept, earlier)
    assert ranking.argsort(dim=1, descending=True).tolist() == [[2, 0, 3, 1], [0, 1, 2, 3]]
    assert ranking[0, [0, 2]].tolist() == [-30.0, -20.0]
    assert float(ranking[0, 3] - ranking[0, 1]) == 1.0  # their distance is as it was
    assert ranking[1, 3] == -math.inf
    everything = torch.ones_like(kept)
    assert with_rest_below(later, everything, earlier).equal(later)


def test_matched_pairs_see_a_small_difference_that_every_utterance_shares():
    generator = torch.Generator().manual_seed(0)
    words = torch.full((400,), 20.0).double()
    errors = torch.randint(0, 10, (400,), generator=generator).double()
    worse = torch.stack([errors + (torch.arange(400) % 10 == 0), words], dim=1)  # one more error in a tenth of them
    better = torch.stack([errors, words], dim=1)
    comparison = matched_pairs(worse, better, error_rate, range(400), seed=1)
    assert comparison.difference == pytest.approx(0.5)
    assert 0.3 < comparison.low < 0.5 < comparison.high < 0.75
    assert comparison.p_value == pytest.approx(2 / 1001)
    flipped = matched_pairs(better, worse, error_rate, range(400), seed=1)
    assert flipped.difference == pytest.approx(-0.5)
    assert (flipped.low, flipped.high) == (pytest.approx(-comparison.high), pytest.approx(-comparison.low))
    same = matched_pairs(better, better, error_rate, range(400), seed=1)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_speakers_vary_and_not_their_utterances():
    """One speaker in four is worse by an error in all of his utterances: four people say little."""
    words = torch.full((400,), 20.0).double()
    speakers = [number // 100 for number in range(400)]
    better = torch.stack([torch.full((400,), 3.0).double(), words], dim=1)
    worse = better.clone()
    worse[:100, 0] += 1
    by_utterance = matched_pairs(worse, better, error_rate, range(400), seed=1)
    by_speaker = matched_pairs(worse, better, error_rate, speakers, seed=1)
    assert by_speaker.difference == by_utterance.difference == pytest.approx(1.25)
    assert by_utterance.low > 1.0
    assert by_speaker.low == 0.0
    assert by_speaker.p_value > 0.05 > by_utterance.p_value
