"""The simulation of a cluster, on cases whose answer is known."""

import math
import sys
from pathlib import Path

import pytest

from lexergy.recipes.sections.training import TrainingRecipe

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DURATIONS = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import scale_simulation

    yield scale_simulation
    del sys.modules["scale_simulation"]


def quick(scale, workers, **settings):
    return scale.Cluster(workers, **{"start_up": 0.0, "hand_over": 0.0, "per_worker": 0.0, **settings})


def test_one_worker_takes_the_sum(scale):
    outcome = scale.work_through(DURATIONS, quick(scale, 1, start_up=10.0))
    assert outcome.seconds == 10 + sum(DURATIONS)
    assert outcome.busy == pytest.approx(sum(DURATIONS) / outcome.seconds)
    # The driver writes while the worker computes, but for the last shard; the worker waits for answer and reading.
    slow = scale.work_through(DURATIONS, quick(scale, 1, hand_over=0.1), read=0.2, write=0.5)
    assert slow.seconds == pytest.approx(0.1 + sum(DURATIONS) + 8 * (0.1 + 0.2) + 0.5)


def test_enough_workers_take_the_longest_and_what_the_driver_does(scale):
    assert scale.work_through(DURATIONS, quick(scale, 100)).seconds == max(DURATIONS)
    # Shard i is given after i + 1 readings; the longest one ends last.
    read = scale.work_through(DURATIONS, quick(scale, 100), read=0.01)
    assert read.seconds == pytest.approx(max((i + 1) * 0.01 + seconds for i, seconds in enumerate(DURATIONS)))
    # Equal shards come back one after the other and queue up to be written.
    written = scale.work_through([5.0] * 40, quick(scale, 40), write=0.25)
    assert written.seconds == pytest.approx(5 + 40 * 0.25)


def test_two_workers_share_as_on_paper(scale):
    """Whoever is free takes the next of the list."""
    free = [0.0, 0.0]
    for seconds in DURATIONS:
        free[free.index(min(free))] += seconds
    assert scale.work_through(DURATIONS, quick(scale, 2)).seconds == max(free)


def test_the_driver_bounds_the_shards_per_second(scale):
    """With more workers than it can serve, a shard takes what it costs the driver."""
    costs = quick(scale, 500, hand_over=0.01)
    outcome = scale.work_through([1.0] * 20000, costs, read=0.003, write=0.002)
    assert outcome.seconds == pytest.approx(20000 * 0.015, rel=0.05)
    assert outcome.driver > 0.98
    waiting = scale.work_through([1.0] * 20000, quick(scale, 500, hand_over=0.01, per_worker=1e-5))
    assert waiting.seconds == pytest.approx(20000 * (0.01 + 500 * 1e-5), rel=0.05)


def test_deaths_cost_what_probability_says(scale):
    """With deaths at rate r a shard of d seconds takes (e^(rd) - 1) (1/r + replacement) in the mean."""
    rate, seconds, replacement = 1 / 50, 40.0, 30.0
    cluster = quick(scale, 1, deaths_per_hour=3600 * rate, replacement=replacement)
    outcome = scale.work_through([seconds] * 4000, cluster)
    expected = (math.exp(rate * seconds) - 1) * (1 / rate + replacement)
    assert outcome.seconds / 4000 == pytest.approx(expected, rel=0.05)
    assert outcome.deaths / 4000 == pytest.approx(math.exp(rate * seconds) - 1, rel=0.05)


def test_shards_differ_around_their_mean(scale):
    stage = scale.Shards("texts", 5000, 2.0, alone=100.0)
    outcome = scale.simulate(stage, quick(scale, 10, spread=0.3))
    assert outcome.seconds == pytest.approx(100 + 5000 * 2 / 10, rel=0.02)
    assert outcome == scale.simulate(stage, quick(scale, 10, spread=0.3))


def test_trainings_stop_where_gradients_cost_more_than_examples(scale):
    rates = scale.Rates("any", reading=1, writing=1, learning=1, dollars_per_hour=1, exchange=1e9)
    training = TrainingRecipe(learning_rate=1.0, max_steps=10, batch_size=1)  # of each of the paper's 64 GPUs
    seconds = [scale.training_seconds(training, 1.0, 0.0, workers, rates) for workers in (1, 2, 64, 1024)]
    assert seconds == [640, 320, 10, 10]
    # 2 (w - 1) / w * 4 P / bandwidth = 8 s (w - 1) / w: from 16 workers on it grows faster than the shares shrink.
    exchanged = [scale.training_seconds(training, 1.0, 1e9, workers, rates) for workers in (1, 2, 16, 64)]
    assert exchanged == pytest.approx([640, 360, 10 * (4 + 8 * 15 / 16), 10 * (1 + 8 * 63 / 64)])
    # Where the exchange is dear, one worker alone is the fastest.
    dear = scale.Rates("far", reading=1, writing=1, learning=1, dollars_per_hour=1, exchange=1e7)
    assert scale.training_seconds(training, 1.0, 1e9, 1024, dear) == 640


def test_the_study_is_what_the_recipes_say(scale):
    recipe = scale.load_recipe("paper/cc-news-12-layers", scale.ResidualRecipe)
    negatives, perplexity = scale.shard_stages(recipe, scale.V100)
    assert (negatives.number, perplexity.number) == ((1_000_000 + 2000) // 8, 1000)
    assert {training.name for training in scale.trainings(recipe)} == set(scale.PRINTED) - {"bit-med"}
    assert negatives.seconds == pytest.approx(128 * 40 / (256 / 0.020))


def test_the_overhead_is_read_as_it_was_measured(scale):
    waits = {"1": 0.001, "64": 0.002, "1001": 0.011}
    measured = {"hand_over_seconds": {"1": 0.004, "2": 0.003}, "wait_seconds": waits}
    assert scale.measured_overhead(measured) == (0.003, pytest.approx(1e-5))
