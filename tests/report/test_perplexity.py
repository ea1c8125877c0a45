import math

import pytest

from lexergy.report.perplexity import (
    bounds_gap,
    headlines,
    perplexity_table,
    relative_gain,
    terminal_table,
    verdicts,
)
from lexergy.runs.records import BaselineResult
from toys.runs import make_perplexity


def test_headline_quotes_the_pessimistic_gain():
    (sentence,) = headlines({"energy": make_perplexity()})
    assert sentence == (
        "On 64 held-out windows the perplexity of the joint model is between 26.34 and 26.53; "
        "the frozen LM's is 28.78: 7.8 % lower, pessimistically."
    )


def test_headline_names_energies_where_there_are_several():
    sentences = headlines({"unit": make_perplexity(), "bit": make_perplexity()})
    assert "“unit”" in sentences[0]
    assert "“bit”" in sentences[1]


def test_headline_admits_a_loss():
    (sentence,) = headlines({"energy": make_perplexity(upper=31.0)})
    assert "7.7 % higher, pessimistically" in sentence


def test_headline_without_a_bound():
    (sentence,) = headlines({"energy": make_perplexity(upper=math.inf)})
    assert "too uneven to bound" in sentence
    assert "inf" not in sentence


def test_shares_of_a_perplexity():
    estimate = make_perplexity(base=20.0, lower=10.0, upper=15.0)
    assert relative_gain(estimate) == pytest.approx(0.25)
    assert bounds_gap(estimate) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("k", "above", "part"),
    [
        (0.31, 0.0, "64 samples per window suffice."),
        (0.31, 0.05, "suffice for a typical window, though not for 5 % of them."),
        (0.62, 0.9, "treat the interval with caution and draw more samples."),
        (math.inf, 1.0, "treat the interval with caution and draw more samples."),
        (math.nan, 0.0, "too few of them to judge"),
    ],
)
def test_verdict_in_plain_words(k, above, part):
    (sentence,) = verdicts({"energy": make_perplexity(pareto_k=k, pareto_k_above=above)})
    assert part in sentence
    assert "worth 12.3 equally weighted ones" in sentence


def test_table_has_a_row_per_model():
    table = perplexity_table({"unit": make_perplexity(), "bit": make_perplexity(upper=27.0)})
    assert [row[0] for row in table.rows] == ["frozen LM", "joint model, unit", "joint model, bit"]
    cells = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert cells[0]["perplexity"] == "28.78"
    assert cells[1] == {
        "": "joint model, unit",
        "perplexity": "26.34 - 26.53",
        "std. error": "0.41",
        "gain": "7.8 %",
        "nats per token": "0.081 ± 0.008",
        "bounds gap": "0.72 %",
        "ESS": "12.3",
        "k-hat": "0.31",
        "windows": "64",
        "samples": "64",
    }
    assert cells[2]["perplexity"] == "26.34 - 27.00"


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
        "windows": "64",
    }


def test_many_models_stand_below_each_other_on_a_terminal():
    few = terminal_table({"unit": make_perplexity()}, {})
    assert few == perplexity_table({"unit": make_perplexity()}, {}).transposed
    estimates = {name: make_perplexity() for name in ("unit", "bit", "pairs-1500")}
    many = terminal_table(estimates, {})
    assert [row[0] for row in many.rows] == ["frozen LM", "unit", "bit", "pairs-1500"]
    assert many.columns == ("", "perplexity", "gain", "nats per token", "gap", "ESS", "k-hat")
    assert many.rows[1][1:3] == ("26.34 - 26.53", "7.8 %")
    widths = [max(len(row[place]) for row in (many.columns, *many.rows)) for place in range(len(many.columns))]
    assert sum(widths) + 3 * len(widths) <= 80


def test_the_doubtful_among_many_are_named():
    estimates = {name: make_perplexity(pareto_k=k) for name, k in zip("abcd", (0.1, 0.9, 0.2, math.nan), strict=True)}
    (sentence,) = verdicts(estimates)
    assert "for b, d: a few samples carry most of the weight" in sentence
    (sentence,) = verdicts({name: make_perplexity(pareto_k=0.1) for name in "abcd"})
    assert "the samples suffice" in sentence


def test_many_energies_have_one_headline():
    (sentence,) = headlines({name: make_perplexity() for name in "abcd"})
    assert sentence == (
        "On 64 held-out windows the frozen LM's perplexity is 28.78; those of 4 joint models are in the table."
    )
