import pytest
import torch

from lexergy.core.search_aware.beam_search import gold_survival
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.tasks.search_aware.examples import Example
from lexergy.tasks.search_aware.judging import fall_off_shares, judge, unknown_labels
from toys.seq2seq import toy_tagged, toy_tagger


def examples(count: int = 30) -> list[Example]:
    return [
        Example(f"f:{place}", tuple(words), tuple(labels))
        for place, (words, labels) in enumerate(zip(*toy_tagged(count, 4), strict=True))
    ]


def test_shares_of_prefixes_that_fall_off_by_hand():
    tagger, chosen, search = toy_tagger(), examples(), SearchRecipe(beam=2)
    falls = []
    for example in chosen:
        pair = tagger.pairs([example.words], [example.outputs])
        falls.append(int(gold_survival(tagger.model.decoder(pair.sources), pair.gold, 2)))
    lengths = torch.tensor([len(example.words) for example in chosen])
    shares = fall_off_shares(tagger, chosen, search)
    for step, share in enumerate(shares):
        long = [place for place, length in enumerate(lengths.tolist()) if length > step]
        assert share == pytest.approx(sum(falls[place] <= step for place in long) / len(long))
    assert 0 < shares[0] < 1


def test_accuracy_counts_labels_and_unknown_ones_are_wrong():
    tagger = toy_tagger()
    known = examples(5)
    right = [example._replace(outputs=tuple(tagger.predict([example.words])[0])) for example in known]
    assert judge(tagger, right, SearchRecipe()).value == 100
    assert unknown_labels(tagger, right) == []
    strange = [right[0]._replace(outputs=("?",) * len(right[0].words)), *right[1:]]
    total = sum(len(example.words) for example in strange)
    wrong = len(right[0].words)
    assert judge(tagger, strange, SearchRecipe()).value == pytest.approx(100 * (total - wrong) / total)
    (message,) = unknown_labels(tagger, strange)
    assert "f:0: '?'" in message
