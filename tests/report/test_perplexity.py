import math

import pytest

from lexergy.report.perplexity import (
    headlines,
    perplexity_table,
    relative_gain,
    terminal_table,
    verdicts,
)
from lexergy.runs.records import BaselineResult
from toys.runs import make_perplexity


def test_headline_quotes_the_bound():
    (sentence,) = headlines({"energy": make_perplexity()})
    assert sentence == (
        "On 64 held-out windows the perplexity of the joint model is at most 26.85; "
        "the frozen LM's is 28.78: 6.7 % lower."
    )


def test_headline_names_energies_where_there_are_several():
    sentences = headlines({"unit": make_perplexity(), "bit": make_perplexity()})
    assert "“unit”" in sentences[0]
    assert "“bit”" in sentences[1]


def test_headline_admits_a_loss():
    (sentence,) = headlines({"energy": make_perplexity(bound=31.0)})
    assert "7.7 % higher" in sentence


def test_headline_without_a_bound():
    (sentence,) = headlines({"energy": make_perplexity(bound=math.inf)})
    assert "Nothing bounds" in sentence
    assert "inf" not in sentence.replace("finite", "")


def test_the_gain_is_that_of_the_bound():
    assert relative_gain(make_perplexity(base=20.0, bound=15.0, upper=10.0)) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"pareto_k_above": 0.0}, "k-hat 0.31 is no more than 0.45, they suffice."),
        ({"pareto_k_above": 0.05}, "they suffice for a typical window, though not for 5 % of them."),
        ({"pareto_k": 0.62}, "k-hat 0.62 is above 0.45: do not rely on it"),
        ({"pareto_k": math.inf}, "do not rely on it"),
        ({"ess": 6.0}, "the effective sample size 6.0 is below 10: do not rely on it"),
        ({"num_samples": 8, "pareto_k": math.nan}, "8 samples per window are too few to judge"),
        ({"upper": 24.0}, "64 samples per window can tell no more than 0.130 nats per token: do not rely on it"),
    ],
)
def test_verdict_in_plain_words(changes, part):
    (sentence,) = verdicts({"energy": make_perplexity(**changes)})
    assert part in sentence
    assert "equally weighted ones" in sentence
    assert "error over 16 documents" in sentence


def test_table_has_a_row_per_model():
    table = perplexity_table({"unit": make_perplexity(), "bit": make_perplexity(bound=27.0)})
    assert [row[0] for row in table.rows] == ["frozen LM", "joint model, unit", "joint model, bit"]
    cells = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert cells[0]["perplexity"] == "28.78"
    assert cells[1] == {
        "": "joint model, unit",
        "perplexity": "",
        "at most": "26.85",
        "std. error": "0.41",
        "gain": "6.7 %",
        "nats per token": "0.069 ± 0.008",
        "estimate": "26.34 - 26.53",
        "ESS": "12.3",
        "k-hat": "0.31",
        "documents": "16",
        "windows": "64",
        "samples": "64",
    }
    assert cells[2]["at most"] == "27.00"


def test_what_the_joint_model_is_at_most_stands_below_the_frozen_lm():
    table = terminal_table({"energy": make_perplexity()}, {})
    assert [row[:3] for row in table.rows[:2]] == [("perplexity", "28.78", ""), ("at most", "", "26.85")]


def test_baselines_stand_between_the_lm_and_the_joint_models():
    baseline = BaselineResult(
        name="ralm",
        kind="ralm",
        perplexity=27.5,
        std_error=0.33,
        gain=0.0455,
        gain_std_error=0.0021,
        parameters=12_000_000,
        num_windows=64,
        num_documents=16,
    )
    table = perplexity_table({"energy": make_perplexity()}, {"ralm": baseline})
    assert [row[0] for row in table.rows] == ["frozen LM", "baseline, ralm", "joint model"]
    cells = dict(zip(table.columns, table.rows[1], strict=True))
    assert {name: cell for name, cell in cells.items() if cell} == {
        "": "baseline, ralm",
        "perplexity": "27.50",
        "std. error": "0.33",
        "gain": "4.4 %",
        "nats per token": "0.045 ± 0.002",
        "documents": "16",
        "windows": "64",
    }


def test_many_models_stand_below_each_other_on_a_terminal():
    few = terminal_table({"unit": make_perplexity()}, {})
    assert few == perplexity_table({"unit": make_perplexity()}, {}).transposed
    estimates = {name: make_perplexity() for name in ("unit", "bit", "pairs-1500")}
    many = terminal_table(estimates, {})
    assert [row[0] for row in many.rows] == ["frozen LM", "unit", "bit", "pairs-1500"]
    assert many.columns == ("", "perplexity", "at most", "gain", "nats per token", "ESS", "k-hat")
    assert many.rows[1][1:4] == ("", "26.85", "6.7 %")
    widths = [max(len(row[place]) for row in (many.columns, *many.rows)) for place in range(len(many.columns))]
    assert sum(widths) + 3 * len(widths) <= 80


def test_the_doubtful_among_many_are_named():
    estimates = {name: make_perplexity(pareto_k=k) for name, k in zip("abcd", (0.1, 0.9, 0.2, 0.7), strict=True)}
    (sentence,) = verdicts(estimates)
    assert "do not rely on the intervals of b, d, where a few samples carry most of the weight" in sentence
    (sentence,) = verdicts({name: make_perplexity(pareto_k=0.1) for name in "abcd"})
    assert "bear out all of the intervals" in sentence


def test_many_energies_have_one_headline():
    (sentence,) = headlines({name: make_perplexity() for name in "abcd"})
    assert sentence == (
        "On 64 held-out windows the frozen LM's perplexity is 28.78; those of 4 joint models are in the table."
    )
