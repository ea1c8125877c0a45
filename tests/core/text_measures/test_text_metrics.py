import jiwer
import pytest
import sacrebleu
import torch

from lexergy.core.text_measures.text_metrics import metric_named
from lexergy.errors import LexergyError

REFERENCES = ["the cat sat on the mat today", "it was a dark and stormy night", "hello there my old friend"]
CHOSEN = ["the cat sat on mat to day", "it was dark and a stormy night", ""]


def value_of(name):
    metric = metric_named(name)
    rows = [
        metric.statistics([hypothesis], reference) for hypothesis, reference in zip(CHOSEN, REFERENCES, strict=True)
    ]
    return float(metric.value(torch.cat(rows).sum(0)))


def test_word_error_rate_is_jiwer_s():
    assert value_of("wer") == pytest.approx(100 * jiwer.wer(REFERENCES, CHOSEN))


def test_bleu_and_chrf_are_sacrebleu_s():
    assert value_of("bleu") == pytest.approx(sacrebleu.corpus_bleu(CHOSEN, [REFERENCES]).score)
    assert value_of("chrf") == pytest.approx(sacrebleu.corpus_chrf(CHOSEN, [REFERENCES]).score)


def test_values_of_many_sums_at_once():
    metric = metric_named("bleu")
    rows = metric.statistics(CHOSEN[:2], REFERENCES[0])  # (2, S)
    both = metric.value(torch.stack([rows[0], rows.sum(0)]))
    assert both.tolist() == [
        pytest.approx(float(metric.value(rows[0]))),
        pytest.approx(float(metric.value(rows.sum(0)))),
    ]


def test_an_unknown_metric():
    with pytest.raises(LexergyError, match="expected one of wer, bleu, chrf"):
        metric_named("rouge")
