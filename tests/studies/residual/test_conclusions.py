"""Findings follow the numbers: made-up rows on which a finding holds, and the same rows turned round."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lexergy.core.estimation.findings import Verdict
from lexergy.errors import LexergyError
from lexergy.report.pages.study import describe
from lexergy.runs.columns import to_column
from lexergy.runs.records import load_run
from lexergy.studies.reproduce import load_study
from lexergy.studies.residual.workspace import Evidence
from toys.runs import make_run

HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.NOT_DECIDED
N, C = 200, 8


def conclude(name, columns, run=None, documents=range(N)):
    rows = pa.table({key: value if isinstance(value, list) else to_column(value) for key, value in columns.items()})
    return load_study(name).conclude([Evidence(run or studied(), "bit", documents, rows)])


def studied(**changes):
    """A run whose weights can be trusted, unless changed."""
    return make_run(Path("nowhere"), energies=("bit",), **changes)


def verdicts(conclusion):
    return [finding.verdict for finding in conclusion.findings]


def noise(scale=1.0, shape=(N,), seed=0):
    return scale * np.random.default_rng(seed).normal(size=shape)


def position_rows(*, falling=True, bias=0.0, gap=1e-3):
    """A gain and a gap that shrink from left to right (or grow), and an estimate off by `bias` at the last."""
    size = np.linspace(1, 0.1, C) if falling else np.linspace(0.1, 1, C)
    base = -3 + noise(0.1, (N, C))
    middle = base + 0.5 * size + noise(0.05, (N, C), 1)
    middle[:, -1] = base[:, -1] + (0.05 if falling else -0.5)
    exact = middle[:, -1] - bias + noise(0.01, seed=2)
    return {"base": base, "lower": middle - gap * size, "upper": middle + gap * size, "last_exact": exact}


def test_figure_1():
    conclusion = conclude("figure-1", position_rows())
    assert verdicts(conclusion) == [HOLDS, HOLDS, HOLDS, HOLDS]
    assert verdicts(conclude("figure-1", position_rows(falling=False, bias=0.1))) == [FAILS, FAILS, FAILS, FAILS]
    rows = position_rows()
    by_position, last = conclusion.tables
    expected = np.exp((rows["base"] - rows["lower"]).mean(0))
    assert [row[2] for row in by_position.rows] == pytest.approx(expected.tolist())
    assert [row[3] for row in by_position.rows[:-1]] == [None] * (C - 1)
    assert by_position.rows[-1][3] == pytest.approx(np.exp((rows["base"][:, -1] - rows["last_exact"]).mean()))
    assert last.rows[0][3] == pytest.approx(conclusion.findings[0].estimate.value)


def test_weights_that_cannot_be_trusted_decide_nothing():
    """What is exact is decided all the same."""
    heavy = studied(pareto_k=0.9)
    conclusion = conclude("figure-1", position_rows(), heavy)
    assert verdicts(conclusion) == [HOLDS, HOLDS, OPEN, OPEN]
    assert describe(conclusion.findings[3]).endswith("Nothing is decided: k-hat 0.90 is above 0.45.")
    for run in (heavy, studied(ess=3.0), studied(upper=20.0)):
        assert verdicts(conclude("figure-3", score_rows(9, 2), run)) == [OPEN]
        assert verdicts(conclude("table-3", words(-1.0, -0.1), run)) == [OPEN, OPEN]


def test_windows_of_a_document_count_once():
    """A difference of a few documents is none of many windows."""
    document = np.arange(N) // (N // 4)
    columns = score_rows(9, 2)
    columns["base_mean_log_prob"] += np.array([20.0, -20.0, 20.0, -20.0])[document]
    assert verdicts(conclude("figure-3", columns)) == [HOLDS]
    assert verdicts(conclude("figure-3", columns, documents=document.tolist())) == [OPEN]


def test_errors_that_agree_by_chance_are_no_bias():
    """All windows are off by as much, yet by less than their weights say that they may be."""
    assert verdicts(conclude("figure-1", position_rows(bias=0.01)))[0] is FAILS
    assert verdicts(conclude("figure-1", position_rows(bias=0.01, gap=0.2)))[0] is Verdict.NOT_DECIDED


def test_the_monte_carlo_error_of_figure_1_is_the_spread_of_its_estimates():
    """Weights of a known distribution: the errors of many windows spread as the gap of their bounds says."""
    import torch

    from lexergy.core.estimation.partition import lower_bound, upper_bound

    log_weights = torch.from_numpy(noise(0.5, (N, 400)))
    lower, upper = lower_bound(log_weights).numpy(), upper_bound(log_weights).numpy()
    base = np.zeros((N, C))
    columns = {"base": base, "lower": base - upper[:, None], "upper": base - lower[:, None]}
    conclusion = conclude("figure-1", columns | {"last_exact": np.full(N, -0.125)})
    _, over_windows, monte_carlo = conclusion.tables[1].rows[0][3:6]
    assert monte_carlo == pytest.approx(over_windows, rel=0.15)
    assert conclusion.findings[0].verdict is HOLDS


def repeating(share):
    """Texts in which every position says 0 with some probability, and something new otherwise."""
    tokens = np.arange(N * 20).reshape(N, 20) + 1
    return np.where(np.random.default_rng(0).random((N, 20)) < share, 0, tokens)


def test_figure_2_right():
    tokens = [repeating(share) for share in (0.1, 0.5, 0.8)]
    columns = dict(zip(("human_tokens", "joint_tokens", "base_tokens"), tokens, strict=True))
    conclusion = conclude("figure-2-right", columns)
    assert verdicts(conclusion) == [HOLDS] * 6
    assert verdicts(conclude("figure-2-right", dict(zip(columns, tokens[::-1], strict=True)))) == [FAILS] * 6
    assert {row[0] for row in conclusion.tables[0].rows} == {"people", "joint model", "base LM"}


def score_rows(base_off, joint_off):
    """People's text is `base_off` less likely than the LM's own, and `joint_off` than the joint model's."""
    columns = {"human_log_prob": -100 + noise(seed=1), "human_energy": -2 + noise(seed=2)}
    columns["base_log_prob"] = columns["human_log_prob"] + base_off + noise(seed=3)
    columns["joint_log_prob"] = columns["human_log_prob"] + joint_off + noise(seed=4)
    columns["joint_energy"] = columns["human_energy"] + noise(seed=5)
    columns["base_mean_log_prob"] = columns["human_log_prob"] + base_off
    columns["joint_mean_score"] = columns["human_log_prob"] - columns["human_energy"] + joint_off
    return columns | {"log_z_lower": noise(seed=6), "log_z_upper": noise(seed=6) + 0.2}


def test_figure_3():
    conclusion = conclude("figure-3", score_rows(9, 2))
    assert verdicts(conclusion) == [HOLDS]
    assert verdicts(conclude("figure-3", score_rows(-9, 2))) == [HOLDS]
    assert verdicts(conclude("figure-3", score_rows(2, -9))) == [FAILS]
    assert conclusion.findings[0].estimate.value == pytest.approx(7)
    base, joint = conclusion.tables[0].rows
    assert (base[3], joint[3]) == (pytest.approx(-9), pytest.approx(-2))
    assert (base[-1], joint[-1]) == (21.64, 6.2)
    # log Z is the same for both texts of a prefix, so whatever it is, the difference stays.
    moved = score_rows(9, 2)
    moved["log_z_lower"] += 5
    assert conclude("figure-3", moved).tables[0].rows[1][3:6] == pytest.approx(joint[3:6])


def words(repeated, new):
    """Contexts whose word changes its log-probability by as much as said, give or take."""
    changes = {"repeated": repeated + noise(0.5, seed=1), "before": new + noise(0.5, seed=2)}
    kinds = [kind for kind, values in changes.items() for _ in values]
    top = [[{"text": " union", "probability": 0.5}, {"text": " debt", "probability": 0.2}]] * len(kinds)
    return {
        "kind": kinds,
        "window": np.tile(np.arange(N), 2),
        "context": ["our union"] * len(kinds),
        "word": [" union"] * len(kinds),
        "base": np.full(len(kinds), 0.1),
        "joint": 0.1 * np.exp(np.concatenate(list(changes.values()))),
        "base_top": top,
        "joint_top": top,
    }


def test_table_3():
    conclusion = conclude("table-3", words(-1.0, -0.1))
    assert verdicts(conclusion) == [HOLDS, HOLDS]
    assert verdicts(conclude("table-3", words(1.0, 0.1))) == [FAILS, FAILS]
    repeated, new = conclusion.tables[0].rows
    assert repeated[5] == pytest.approx(-1, abs=0.1)
    assert new[2] < repeated[2]
    assert [row[2] for row in conclusion.tables[1].rows[:2]] == ["**union**", "debt"]


def test_table_3_without_repetitions_decides_nothing():
    rows = {key: value[:0] for key, value in words(0, 0).items()}
    rows |= {key: pa.array(rows[key], pa.string()) for key in ("kind", "context", "word")}
    table = pa.table({key: value if isinstance(value, pa.Array) else pa.array(value) for key, value in rows.items()})
    conclusion = load_study("table-3").conclude([Evidence(studied(), "bit", range(N), table)])
    assert verdicts(conclusion) == [OPEN] * 2


def test_rows_of_table_3_without_their_windows_must_be_measured_again():
    rows = words(-1.0, -0.1)
    del rows["window"]
    with pytest.raises(LexergyError, match=r"remove nowhere/studies/table-3-bit and measure them again"):
        conclude("table-3", rows)


def energy_rows(sign):
    columns = {f"{name}_text": ["a"] * N for name in ("prefix", "human", "base", "joint", "best", "worst")}
    columns |= {f"{name}_energy": noise(seed=seed) for seed, name in enumerate(("base", "best", "worst"))}
    columns["human_energy"] = columns["base_energy"] - sign
    columns["joint_energy"] = columns["base_energy"] - 0.5 * sign
    return columns | {"human_rank": np.linspace(1, 0, N)}


def test_tables_5_6():
    conclusion = conclude("tables-5-6", energy_rows(1))
    assert verdicts(conclusion) == [HOLDS, HOLDS]
    assert verdicts(conclude("tables-5-6", energy_rows(-1))) == [FAILS, FAILS]
    best, worst = conclusion.tables
    energies = energy_rows(1)["human_energy"]
    # The rank falls from the first row to the last, so people's text is judged best in the last.
    assert [row[3] for row in best.rows if row[1] == "people"] == energies[::-1][:3].tolist()
    assert [row[3] for row in worst.rows if row[1] == "people"] == energies[:3].tolist()


@pytest.fixture
def study_run(toy_studies):
    toy_studies.reproduce("figure-2-left")
    return load_run(toy_studies.runs / "tiny-seed0")


def test_table_1_is_paired_by_window(study_run):
    """Each gain is the run's own, and what separates two rows is the mean of their differences."""
    documents = study_run.energies["bit"].perplexity.windows.documents
    conclusion = load_study("table-1").conclude([Evidence(study_run, "bit", documents)])
    ours, paper = conclusion.tables
    rows = {row[0]: row for row in ours.rows}
    assert list(rows) == ["base LM", "ralm", "balm", "joint unit", "joint bit"]
    for name, result in study_run.baselines.items():
        assert rows[name][2] == result.perplexity
        assert rows[name][5] == pytest.approx(result.gain)
        assert (rows[name][7] - rows[name][6]) / 2 / 1.96 == pytest.approx(result.gain_std_error, rel=0.1)
    for name, energy in study_run.energies.items():
        estimate = energy.perplexity
        assert rows[f"joint {name}"][2:4] == (estimate.bound, estimate.std_error)
        assert rows[f"joint {name}"][5] == pytest.approx(estimate.gain)
        assert rows[f"joint {name}"][8:11] == (estimate.lower, estimate.upper, estimate.ess)
    gains = {name: row[5] for name, row in rows.items()}
    found = {finding.quantity.split(",")[0]: finding.estimate.value for finding in conclusion.findings}
    assert found["gain of BiT - gain of UniT"] == pytest.approx(gains["joint bit"] - gains["joint unit"])
    assert found["gain of UniT - gain of BALM"] == pytest.approx(gains["joint unit"] - gains["balm"])
    assert rows["joint bit"][-6:-2] == (
        "joint BiT-Base",
        "LM+125M",
        "14.61-14.64",
        pytest.approx(100 * (1 - 14.64 / 17.57)),
    )
    # The tiny corpus has words for a few tokens less than the recipe asks for.
    counted = study_run.baselines["balm"].parameters / 1e6
    assert float(rows["balm"][1].removesuffix("M")) == pytest.approx(counted, rel=0.02)
    assert rows["joint unit"][1].startswith("LM+")
    assert len(paper.rows) == 15


def shifted(run, name, nats):
    """The run with one energy's gain raised by so many nats per token in every window."""
    energy = run.energies[name]
    estimate, windows = energy.perplexity, energy.perplexity.windows
    lower = dataclasses.replace(windows, energy=windows.energy - nats * estimate.continuation_length)
    moved = dataclasses.replace(energy, measured=dataclasses.replace(estimate, windows=lower))
    return dataclasses.replace(run, energies=run.energies | {name: moved})


def test_table_1_findings_turn_with_the_numbers(study_run):
    documents = study_run.energies["bit"].perplexity.windows.documents

    def verdict(run, sentence):
        conclusion = load_study("table-1").conclude([Evidence(run, "bit", documents)])
        return next(f.verdict for f in conclusion.findings if f.sentence.startswith(sentence))

    better, worse = shifted(study_run, "bit", 1.0), shifted(study_run, "bit", -1.0)
    for sentence in (
        "Joint BiT has a lower perplexity than the base LM",
        "Joint BiT has a lower perplexity than joint",
    ):
        assert verdict(better, sentence) is HOLDS
        assert verdict(worse, sentence) is FAILS
    for nats in (-1.0, 1.0):
        assert verdict(shifted(study_run, "unit", nats), "BALM performs similarly") is FAILS


def test_weights_of_any_tail_decide_table_1_by_its_bounds(study_run):
    """Between what a joint model gains at least and at most nothing is decided."""
    energy = study_run.energies["bit"]
    windows = energy.perplexity.windows
    wide = dataclasses.replace(windows.log_z, sampler=windows.log_z.sampler + 9, lower=windows.log_z.lower - 9)
    estimate = dataclasses.replace(energy.perplexity, windows=dataclasses.replace(windows, log_z=wide))
    energies = study_run.energies | {"bit": dataclasses.replace(energy, measured=estimate)}
    run = dataclasses.replace(study_run, energies=energies)
    conclusion = load_study("table-1").conclude([Evidence(run, "bit", windows.documents)])
    found = {finding.sentence: finding.verdict for finding in conclusion.findings}
    assert found["Joint BiT has a lower perplexity than the base LM."] is OPEN


def test_long_text_is_compared_with_peoples():
    """The joint model matches people's text in the first chunk only; the LM is off by 1 everywhere."""
    from lexergy.studies.residual.long_text import _closer

    noise = np.random.default_rng(0).normal(0, 0.1, (200, 2))
    distance = {"base": [1 + noise], "joint": [noise[::-1] + np.array([0.0, -1.5])]}
    groups = [range(200)]
    assert [_closer(distance, chunk, groups).verdict for chunk in (0, 1)] == [Verdict.HOLDS, Verdict.DOES_NOT_HOLD]
    turned = {"base": distance["joint"], "joint": distance["base"]}
    assert [_closer(turned, chunk, groups).verdict for chunk in (0, 1)] == [Verdict.DOES_NOT_HOLD, Verdict.HOLDS]
