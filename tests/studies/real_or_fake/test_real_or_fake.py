"""Every study of "Real or fake" end to end in a toy laboratory, and what it concludes from given energies."""

import dataclasses
import math

import numpy as np
import pytest
import yaml

from lexergy.cli.main import run_command
from lexergy.core.estimation.findings import Verdict
from lexergy.errors import LexergyError
from lexergy.report.pages.study import write_study
from lexergy.studies import CATALOGUE
from lexergy.studies.real_or_fake.cells import Sample, accuracy, difference, unpaired
from lexergy.studies.reproduce import RUNS, load_study, reproduce
from lexergy.studies.study import Study
from lexergy.tasks.real_or_fake.scores import Scores
from toys.laboratory import laboratory_recipe

STUDIES = [name for name in CATALOGUE if name.startswith("detect-")]
TOY = {
    "corpora": ("sotu", "wikitext"),
    "corpus": "wikitext",
    "prefixes": (0, 8, 12),
    "windows": 10,
    "replacements": 2,
    "unseen": (),
    "documents": 8,
    "length": 40,
}


@pytest.fixture(scope="module")
def carry_out(tmp_path_factory):
    """A function that carries out a study with toy settings, in one laboratory for all."""
    folder = tmp_path_factory.mktemp("studies")
    recipe = folder / "toy.yaml"
    recipe.write_text(yaml.safe_dump(laboratory_recipe(folder)))

    def carried_out(name: str, **options):
        study = load_study(name)
        settings = {key: TOY.get(key, value) for key, value in study.sizes["cpu"].settings.items()}
        study = dataclasses.replace(study, sizes={"cpu": dataclasses.replace(study.sizes["cpu"], settings=settings)})
        return reproduce(name, study, recipe=recipe, runs=folder / RUNS, progress=False, **options)

    carried_out.folder = folder
    return carried_out


def refuse(*arguments, **settings):
    raise AssertionError("made again")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_end_to_end(name, carry_out, tmp_path, monkeypatch):
    result = carry_out(name)
    files = write_study(result, tmp_path, "the command")
    page = files.page.read_text()
    assert page.startswith(f"# {result.title}\n")
    assert "Real or Fake? Learning to Discriminate" in page
    assert "recipe toy, seeds 0" in page
    assert files.picture.read_bytes().startswith(b"\x89PNG")
    for finding in result.conclusion.findings:
        assert f"- **{finding.verdict}**: {finding.sentence}" in page
        assert not finding.estimate.low > finding.estimate.value
        assert not finding.estimate.high < finding.estimate.value
    for place in ("generators.train_lm", "texts.write_twins", "energies.train_into", "laboratory.pair_energies"):
        monkeypatch.setattr(f"lexergy.tasks.real_or_fake.{place}", refuse)
    # As text: an interval of a single document has NaN ends, which equal nothing.
    assert repr(carry_out(name).conclusion) == repr(result.conclusion)


def test_several_seeds_and_a_single_energy(carry_out, tmp_path):
    result = carry_out("detect-table-7", seeds=(0, 1))
    page = write_study(result, tmp_path, "").page.read_text()
    assert "Student's t over 2 seeds" in page
    with pytest.raises(LexergyError, match="the study detect-table-7 compares several; leave it out"):
        carry_out("detect-table-7", energy="unit")


def test_the_command_prints_its_table(carry_out, monkeypatch, capsys):
    monkeypatch.chdir(carry_out.folder)
    assert run_command(["reproduce", "detect-figure-3", "--recipe", "toy.yaml", "--out", "here"]) == 0
    output = capsys.readouterr().out
    assert "Score differences between people's text" in output
    assert "right to left" in output
    assert "bilstm-small puts more of the pairs in the right order than linear" in output
    assert (carry_out.folder / "here" / "detect-figure-3.md").is_file()


def cell(accuracy_of_people: float, accuracy_of_machine: float, num: int = 100) -> Scores:
    """Energies of 1 or -1 with these accuracies, in twenty documents."""
    places = np.arange(num) / num
    people = np.where(places < accuracy_of_people, -1.0, 1.0)
    machine = np.where(places < accuracy_of_machine, 1.0, -1.0)
    return Scores(np.stack([people, machine], axis=1), tuple(f"{row % 20}" for row in range(num)))


def verdicts(study: Study, seeds) -> list[Verdict]:
    return [finding.verdict for finding in study.conclude(seeds).findings]


HOLDS, FAILS = Verdict.HOLDS, Verdict.DOES_NOT_HOLD


def test_cells_by_hand():
    seeds = [{("a", "x"): cell(0.9, 0.7), ("b", "x"): cell(0.6, 0.8), ("a", "y"): cell(0.5, 0.5)}]
    assert accuracy(seeds, [("a", "x")]).value == pytest.approx(80)
    assert accuracy(seeds, [("a", "x"), ("a", "y")]).value == pytest.approx(65)
    assert difference(seeds, [("a", "x")], [("b", "x")]).value == pytest.approx(10)


def test_a_document_counts_once_whatever_the_number_of_its_cells():
    """Cells of the same documents say no more than either: the interval is no shorter."""
    seeds = [{("a", "x"): cell(0.9, 0.7), ("b", "x"): cell(0.9, 0.7)}]
    single, both = accuracy(seeds, [("a", "x")]), accuracy(seeds, [("a", "x"), ("b", "x")])
    assert both == pytest.approx(single)


def test_shares_end_at_100_per_cent():
    seeds = [{("a", "x"): cell(0.99, 1.0)}, {("a", "x"): cell(1.0, 1.0)}]
    for runs in (seeds, seeds[:1]):
        assert accuracy(runs, [("a", "x")]).high == 100


def test_unpaired_differences_add_their_errors():
    random = np.random.default_rng(0)
    one, other = random.normal(3, 1, 400), random.normal(1, 1, 100)
    found = unpaired([Sample(one, range(400))], [Sample(other, range(100))])
    assert found.value == pytest.approx(one.mean() - other.mean())
    error = math.hypot(one.std() / 20, other.std() / 10)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * error, rel=0.1)


def test_table_2_and_its_reverse():
    study = load_study("detect-table-2")
    rising = {"log-likelihood": 0.5, "linear": 0.55, "bilstm-small": 0.65, "bilstm-big": 0.75, "unit": 0.9}
    falling = dict(zip(rising, reversed(list(rising.values())), strict=True))
    for order, verdict in ((rising, HOLDS), (falling, FAILS)):
        cells = {(row, corpus): cell(value, value) for row, value in order.items() for corpus in ("bible", "sotu")}
        assert verdicts(study, [cells]) == [verdict] * 5
        table = study.conclude([cells]).tables[0]
        assert table.rows[0][:2] == ("linear", pytest.approx(100 * order["linear"]))
        assert [row[4] for row in table.rows] == [59.8, 84.7, 86.7, 91.7, 57.1]  # the paper's Books beside the Bible


def test_table_4_and_its_reverse():
    study, corpora = load_study("detect-table-4"), ("bible", "sotu", "wikitext")
    for own, other, both, everything, bit, verdict in (
        (0.9, 0.6, 0.7, 0.9, 0.95, HOLDS),
        (0.6, 0.9, 0.7, 0.5, 0.4, FAILS),
    ):
        cells = {}
        for test in corpora:
            for train in corpora:
                cells[train, test] = cell(*[own if train == test else other] * 2)
            for pair in (corpora[:2], corpora[1:], corpora[::2]):
                cells[" + ".join(pair), test] = cell(*[own if test in pair else both] * 2)
            cells[" + ".join(corpora), test] = cell(everything, everything)
            cells[" + ".join(corpora) + " (bit)", test] = cell(bit, bit)
        assert verdicts(study, [cells]) == [verdict] * 4
    table = study.conclude([cells]).tables[0]
    paper = {row[0]: (row[4], row[8], row[12]) for row in table.rows}
    assert paper["wikitext"] == (70.9, 73.6, 76.4)
    assert paper["bible + wikitext"] == (91.5, 73.6, 78.3)
    assert paper["bible + sotu + wikitext (bit)"] == (91.6, 93.0, None)


def test_figure_1_and_its_reverse():
    study = load_study("detect-figure-1")
    for values, verdict in (((0.9, 0.8, 0.6), HOLDS), ((0.6, 0.8, 0.9), FAILS)):
        cells = {}
        for prefix, value in zip(("0/64", "32/64", "48/64"), values, strict=True):
            lead = 0.1 if value == 0.6 else 0.0  # where the task is hardest
            cells["bilstm-small", prefix] = cell(value - lead, value - lead)
            cells["unit", prefix] = cell(value, value)
        assert verdicts(study, [cells]) == [verdict] * 3
    assert study.conclude([cells]).panels[0].series[0].x == [0, 0.5, 0.75]


def shifted(scores: Scores, by: float) -> Scores:
    """The same ranking with another threshold."""
    return Scores(scores.energies + by, scores.documents)


@pytest.mark.parametrize("by", [-5.0, 0.0, 5.0])
def test_table_6_compares_detectors_by_auc(by):
    """A detector whose threshold is off is not the worse one."""
    study = load_study("detect-table-6")
    for words, own, others, expected in (
        (0.6, 0.9, 0.8, [HOLDS, HOLDS, HOLDS]),
        (0.9, 0.6, 0.7, [FAILS, FAILS, FAILS]),
    ):
        cells = {}
        for row in ("transf-small top-k", "transf-big top-k"):
            cells[row, "TF-IDF in-domain"] = shifted(cell(words, words), by)
            cells[row, "bit in-domain"] = cell(own, own)
        cells["transf-big top-k", "bit generalised"] = cell(others, others)
        assert verdicts(study, [cells]) == expected
        table, panel = study.conclude([cells]).tables[0], study.conclude([cells]).panels[0]
        assert table.rows[0][1] == pytest.approx(100 * words)
        assert (panel.ylabel, panel.colours) == ("ROC AUC (%)", "detector")
