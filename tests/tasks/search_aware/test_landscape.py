"""Scheduled sampling along a line: the hard objective jumps where a decision changes, relaxations do not."""

import numpy as np
import pytest
import torch

from lexergy.core.search_aware.scheduled_sampling import scheduled_log_scores
from lexergy.tasks.search_aware.examples import Example
from lexergy.tasks.search_aware.landscape import Line, walk_line
from toys.seq2seq import toy_tagged, toy_tagger

EXAMPLES = [Example("", tuple(words), tuple(labels)) for words, labels in zip(*toy_tagged(30, seed=3), strict=True)]
LINE = Line(sentences=2, points=15, shortest=4, radius=2.0, alphas=(1.0, 30.0, 1000.0))


@pytest.fixture(scope="module")
def landscape():
    return walk_line(toy_tagger(), EXAMPLES, LINE, seed=1)


def test_only_the_hard_objective_jumps(landscape):
    assert len(landscape.jumps["hard"]) > 3
    assert np.median(landscape.jumps["hard"]) > 1e-3
    for alpha in ("alpha 1", "alpha 30"):
        assert max(landscape.jumps[alpha]) < 1e-5


def test_relaxations_approach_it(landscape):
    distances = [
        np.abs(np.array(landscape.losses[name]) - np.array(landscape.losses["hard"])).mean()
        for name in ("alpha 1", "alpha 30", "alpha 1000")
    ]
    assert distances[0] > 2 * distances[1] > 2 * distances[2]


def test_the_middle_of_the_line_is_the_model_itself(landscape):
    tagger = toy_tagger()
    tagger.model.double().eval()
    example = next(example for example in EXAMPLES if len(example.words) >= LINE.shortest)
    pairs = tagger.pairs([example.words], [example.outputs])
    decoder = tagger.model.decoder(pairs.sources, normalised=True)
    with torch.no_grad():
        scores = scheduled_log_scores(decoder, pairs.gold, 0.0, torch.ones(pairs.gold.shape))
    assert landscape.places[7] == pytest.approx(0, abs=1e-12)
    assert landscape.losses["hard"][0][7] == pytest.approx(-float(scores.sum()) / len(example.words))
