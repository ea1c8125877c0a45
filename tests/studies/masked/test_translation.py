"""Tables 6.2 to 6.6 and Figures 6.2 to 6.4: numbers by hand, conclusions from given walks, end to end on a toy."""

import dataclasses

import numpy as np
import pytest
import sacrebleu
import yaml

from lexergy.core.estimation import corpus
from lexergy.core.estimation.findings import Verdict
from lexergy.report.pages.study import write_study
from lexergy.studies.masked import figure_6_2, figure_6_3, table_6_2, table_6_5, table_6_6
from lexergy.studies.masked.translation import Followed, Sampler, average, bleu, bleu_gap, during, gap, mixed
from lexergy.studies.reproduce import load_study, reproduce
from lexergy.studies.study import Size
from lexergy.tasks.masked.translation_walks import Walk, bleu_statistics

REFERENCES = ["the cat sat on the mat today", "we will see what comes of it", "he has read all of these books"]
RIGHT = np.array(REFERENCES, dtype=object)
WRONG = np.array(
    ["the cat lay on the mat today", "we will see what is left of it", "he has read the books"], dtype=object
)
STUDIES = ("table-6.2", "table-6.3", "table-6.4", "table-6.5", "table-6.6", "figure-6.2", "figure-6.3", "figure-6.4")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(corpus, "NUM_RESAMPLES", 50)


def walk(texts, *, energy=10.0, novel=0.5, accepted=0.5, sweeps=8, apart=0.0):
    """Three sentences and four chains that stay at these texts, ten proposals per sweep.

    The energies of all chains go up and down alike, about means that are `apart` from chain to chain.
    """
    shape = (3, 4, 1 + sweeps)
    proposed = np.full(shape, 10)
    proposed[..., 0] = 0
    every = np.broadcast_to(texts[:, None, None], shape)
    # Energies differ from sentence to sentence, so that an interval has a width.
    energies = (
        np.broadcast_to(energy + np.arange(3.0)[:, None, None] / 10, shape) + np.arange(1 + sweeps) % 3 / 10 - 0.1
    )
    energies = energies + apart * (np.arange(4.0) - 1.5)[:, None]
    return Walk(
        local=energies,
        raw=energies,
        proposed=proposed,
        accepted=proposed * np.broadcast_to(accepted, shape),
        novel=proposed * np.broadcast_to(novel, shape),
        bleu=bleu_statistics(every, REFERENCES),
        proven=np.ones((3, 4)),
        last_texts=[[text] * 4 for text in texts],
    )


def followed(*args, **changes):
    return Followed(walk(*args, **changes), slice(3, None))


def test_numbers_of_a_walk():
    accepted = np.arange(9) / 10
    evidence = [{"a": followed(RIGHT, energy=4.0, accepted=accepted), "b": followed(WRONG, energy=7.0, novel=0.2)}]
    assert average(evidence, "a", "energy").value == pytest.approx(4.1)
    assert average(evidence, "a", "acceptance").value == pytest.approx(np.mean([0.3, 0.4, 0.5, 0.6, 0.7, 0.8]))
    assert average(during(evidence, slice(-1, None)), "a", "acceptance").value == pytest.approx(0.8)
    difference = gap(evidence, "b", "a", "energy")
    assert (difference.value, difference.low) == (pytest.approx(3.0), pytest.approx(3.0))
    assert gap(evidence, "a", "b", "novel").value == pytest.approx(0.3)


def test_bleu_is_that_of_the_corpus():
    evidence = [{"a": followed(RIGHT), "b": followed(WRONG)}]
    expected = sacrebleu.corpus_bleu(WRONG.tolist(), [REFERENCES]).score
    found = bleu(evidence, "b")
    assert found.value == pytest.approx(expected)
    assert found.low < found.value < found.high
    assert bleu(evidence, "a").value == pytest.approx(100)
    ahead = bleu_gap(evidence, "a", "b")
    assert ahead.value == pytest.approx(100 - expected)
    assert ahead.low > 0
    assert bleu_gap(evidence, "a", "a").high == 0


def temperatures(good, bad):
    """What the thesis says of temperatures, with `good` and `bad` texts."""
    novel = {2.0: 0.03, 1.5: 0.05, 1.0: 0.11, 0.8: 0.06, 0.5: 0.03}
    seen = {one: followed(good, energy=8.0, novel=novel[one.temperature]) for one in table_6_2.NORM}
    for one in table_6_2.DEG:
        text = good if one.temperature < 1 else bad
        seen[one] = followed(text, energy=20.0, novel=one.temperature / 2)
    return [seen]


def test_the_findings_on_temperature():
    findings = table_6_2.STUDY.conclude(temperatures(RIGHT, WRONG)).findings
    assert {finding.verdict for finding in findings} == {Verdict.HOLDS}
    findings = table_6_2.STUDY.conclude(temperatures(WRONG, RIGHT)).findings
    assert [finding.verdict for finding in findings[:3]] == [
        Verdict.DOES_NOT_HOLD,
        Verdict.HOLDS,
        Verdict.DOES_NOT_HOLD,
    ]


def test_what_depends_on_the_start_is_not_decided():
    """The same numbers as those that hold above, but the cold chains of Metropolis-Hastings stay where they began."""
    (seen,) = temperatures(RIGHT, WRONG)
    *_, cold = table_6_2.NORM
    seen[cold] = followed(RIGHT, energy=8.0, novel=0.03, apart=2.0)
    conclusion = table_6_2.STUDY.conclude([seen])
    verdicts = [finding.verdict for finding in conclusion.findings]
    assert [verdict == Verdict.NOT_DECIDED for verdict in verdicts] == [False, True, False, True, False, False, False]
    told = conclusion.findings[1].sentence
    assert "MH, norm (temperature 0.5): median R-hat" in told
    assert "100% of the sentences above 1.05" in told
    assert "temperature 2" not in told
    samplers, starts = conclusion.tables
    row = dict(zip(samplers.columns, samplers.rows[4], strict=True))
    assert row["median R-hat"] > 2
    assert row["sentences above 1.05"] == 1
    assert dict(zip(samplers.columns, samplers.rows[0], strict=True))["sentences above 1.05"] == 0
    assert [starts.rows[4][place] for place in range(2, 6)] == pytest.approx([5.1, 7.1, 9.1, 11.1])


def test_chains_that_never_move_have_not_mixed():
    stuck = walk(RIGHT)
    stuck = dataclasses.replace(stuck, local=np.ones_like(stuck.local))
    assert not mixed([{"a": Followed(stuck, slice(3, None))}], "a").enough
    assert mixed([{"a": followed(RIGHT)}], "a").enough


def test_the_table_has_the_numbers_of_the_thesis_beside_ours():
    table, _ = table_6_2.STUDY.conclude(temperatures(RIGHT, WRONG)).tables
    hottest = dict(zip(table.columns, table.rows[0], strict=True))
    assert (hottest["temperature"], hottest["BLEU, thesis"], hottest["novel, thesis"]) == ("2", 25.91, 0.03)
    assert hottest["E_norm, nats per sentence"] == pytest.approx(8.1)
    assert hottest["BLEU"] == pytest.approx(100)


def test_acceptance_is_compared_between_the_first_and_the_last_quarter():
    falling = np.linspace(1, 0.2, 9)
    evidence = [{one: followed(RIGHT, accepted=falling) for one in figure_6_3.BLOCKS}]
    conclusion = figure_6_3.STUDY.conclude(evidence)
    assert {finding.verdict for finding in conclusion.findings} == {Verdict.HOLDS}
    expected = np.mean(falling[1:3]) - np.mean(falling[-2:])
    assert conclusion.findings[0].estimate.value == pytest.approx(expected)


def test_low_energy_goes_with_right_words():
    """Half of the samples right and of low energy, half wrong and of high energy."""
    seen = {
        sampler: followed(texts, energy=energy)
        for sampler, texts, energy in zip(figure_6_2.SAMPLERS, (RIGHT, RIGHT, WRONG), (5.0, 5.0, 9.0), strict=True)
    }
    seen[figure_6_2.START] = followed(RIGHT)
    findings = figure_6_2.STUDY.conclude([seen]).findings
    correlation = next(finding for finding in findings if "correlation" in finding.quantity)
    assert correlation.estimate.value == pytest.approx(1, abs=0.01)  # energies go up and down a little


def test_cooling_is_judged_at_the_end():
    seen = {
        one: followed(RIGHT if one.cooling < 0.03 else WRONG, energy=9 - 10 * one.cooling) for one in table_6_5.SAMPLERS
    }
    verdicts = [finding.verdict for finding in table_6_5.STUDY.conclude([seen]).findings]
    assert verdicts == [Verdict.HOLDS, Verdict.HOLDS, Verdict.NOT_DECIDED] * 2


def test_modes_are_compared_on_the_same_sentences_as_mask_predict():
    seen = {name: followed(WRONG) for name in table_6_6.PRINTED}
    seen[table_6_6.LOCAL] = followed(RIGHT)
    conclusion = table_6_6.STUDY.conclude([seen])
    assert [row[3] for row in conclusion.tables[0].rows] == [None, None, None, 1.0, None]
    verdicts = [finding.verdict for finding in conclusion.findings]
    assert verdicts == [Verdict.HOLDS] * 3 + [Verdict.NOT_DECIDED] * 3


def test_names_say_what_differs():
    assert Sampler("norm").name == "norm"
    assert Sampler("deg", 0.8, cooling=0.02, start="gibbs").name == "deg-temperature-0.8-cooling-0.02-start-gibbs"
    assert Sampler("raw", 0.8, top_p=0.9).label == "MH, raw (temperature 0.8, nucleus 0.9)"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    letters = "abcdefghij"
    lines = [f"{one}{other}\t{other}{one}\n" for one in letters for other in letters if one != other]
    (folder / "pairs.tsv").write_text("".join(lines))
    training = {"learning_rate": 0.01, "max_steps": 2, "batch_size": 8}
    content = {
        "name": "toy",
        "pairs": {
            **{"path": str(folder / "pairs.tsv"), "source_column": 1, "target_column": 0},
            **{"vocab_size": 270, "max_tokens": 3, "validation": 0.1, "test": 0.2},
        },
        "model": {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "training": training},
    }
    (folder / "toy.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.mark.parametrize("name", STUDIES)
def test_end_to_end(name, toy, tmp_path):
    settings = {"sentences": 4, "chains": 4, "sweeps": 4, "burn_in": 0}
    study = dataclasses.replace(load_study(name), sizes={"cpu": Size("toy", settings)})
    result = reproduce(name, study, recipe=toy / "toy.yaml", runs=toy / "runs", progress=False)
    page = write_study(result, tmp_path, "the command").page.read_text()
    assert "Goyal 2021" in page
    assert "one seed, bootstrap over test sentences" in page
    before = {path: path.stat().st_mtime_ns for path in (toy / "runs").rglob("stage.json")}
    again = reproduce(name, study, recipe=toy / "toy.yaml", runs=toy / "runs", progress=False)
    assert again.conclusion.findings == result.conclusion.findings
    assert {path: path.stat().st_mtime_ns for path in (toy / "runs").rglob("stage.json")} == before
