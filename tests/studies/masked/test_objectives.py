"""Table 6.1 and Figure 6.1: what they conclude from given numbers, and end to end on tiny trainings."""

import pytest
import torch
import yaml

from lexergy.cli.main import run_command
from lexergy.core.estimation.findings import Verdict
from lexergy.data.masked.phonemes import PAD
from lexergy.models.architectures.masked_lstm import MaskedLSTM
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.masked import MaskedObjectivesRecipe
from lexergy.report.pages.study import write_study
from lexergy.studies.masked import figure_6_1, table_6_1, table_6_1_phonemes
from lexergy.studies.masked.objectives import Dataset, gap
from lexergy.studies.reproduce import load_study, reproduce
from lexergy.tasks.masked import objectives as masked_objectives
from lexergy.tasks.masked.objectives import SequenceData, measure, sequence_data
from toys.recipes import TRAINING

PHONEMES = "".join(
    f"WORD{i}  {' '.join(['AH0', 'B', 'K'][(i // 3**place) % 3] for place in range(1 + i % 3))}\n" for i in range(60)
)


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    (tmp_path / "cmudict").write_text(PHONEMES)
    field = {"hidden_size": 4, "training": TRAINING | {"max_steps": 3, "batch_size": 16}}
    content = {"name": "tiny", "cmudict": str(tmp_path / "cmudict"), "synthetic": field}
    content |= {"phonemes": field, "few_phonemes": field}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(content))
    monkeypatch.setattr(masked_objectives, "HELD_OUT", 50)
    monkeypatch.setattr(masked_objectives, "VALIDATION", 20)
    monkeypatch.setattr(masked_objectives, "VALIDATION_SHARE", 0.2)
    return path


def facts(nll, own=4.0):
    return {"nll": nll, "nll_one_z": nll + 1, "pll": own, "mlm": own, "true": 5.0}


def trainings(ll, pll, mlm):
    """The same numbers on all data sets, the PLL half as far from the LL where there is more data."""
    return {
        dataset: {
            table_6_1.LL: facts(ll),
            table_6_1.PLL: facts(pll if dataset.size == 1000 else (pll + ll) / 2),
            table_6_1.MLM: facts(mlm, own=4.1),
        }
        for dataset in table_6_1.PRINTED
    }


def test_the_ordering_of_the_thesis_is_recognised():
    evidence = [trainings(5.1, 5.3, 6.0), trainings(5.2, 5.35, 6.2), trainings(5.15, 5.3, 6.1)]
    conclusion = table_6_1.STUDY.conclude(evidence)
    assert {finding.verdict for finding in conclusion.findings} == {Verdict.HOLDS}
    first = conclusion.tables[0]
    assert first.rows[0][:7] == ("p-1k", 5.0, 5.32, pytest.approx(5.15), 6.74, pytest.approx(5.3167, abs=1e-3), 7.01)
    assert [row[0] for row in first.rows] == ["p-1k", "p-10k", "h-1k", "h-10k", "h-1k+", "h-10k+"]
    assert {row[-1] for row in conclusion.tables[1].rows} == {"HOLDS"}


def test_another_ordering_does_not_hold():
    evidence = [trainings(5.4, 5.3, 5.0), trainings(5.5, 5.35, 5.1), trainings(5.45, 5.3, 5.0)]
    verdicts = [finding.verdict for finding in table_6_1.STUDY.conclude(evidence).findings]
    assert verdicts[:2] == [Verdict.DOES_NOT_HOLD, Verdict.DOES_NOT_HOLD]


def curves(masked_lm, **nll):
    sizes = figure_6_1.SYNTHETIC_SIZES
    trained = {method: dict(zip(sizes, map(facts, values), strict=True)) for method, values in nll.items()}
    return dict.fromkeys(figure_6_1.CORPORA, figure_6_1.Curves(facts(masked_lm), trained))


def test_the_projection_is_judged_on_little_data():
    scratch = [7.0, 6.5, 5.6, 5.4, 5.3]
    evidence = [
        curves(7.5 + shift, pseudo_likelihood=scratch, kl=[5.5 + shift] * 5, kl_pll=[7.2 + shift, 6.6 + shift, 5, 5, 5])
        for shift in (0.0, 0.05, 0.1)
    ]
    verdicts = [finding.verdict for finding in figure_6_1.STUDY.conclude(evidence).findings]
    # Better than the masked LM: all three; on little data: KL is, KL + PLL is worse there and better only with more.
    assert verdicts == ([Verdict.HOLDS] * 4 + [Verdict.DOES_NOT_HOLD]) * 2


def test_the_masked_lm_of_phonemes_has_seen_none_of_the_others(recipe, monkeypatch):
    """One split for all sizes: what is held out is the same, and the smaller sets lie within each other."""
    monkeypatch.setattr(masked_objectives, "FOR_PROJECTIONS", 9)
    loaded = load_recipe(recipe, MaskedObjectivesRecipe)
    reserved, few, fewer = (sequence_data(loaded, "phoneme-short", size) for size in (None, 9, 4))
    assert torch.equal(reserved.test, few.test)
    assert torch.equal(few.train[:4], fewer.train)
    rows = [{tuple(row) for row in part.tolist()} for part in (reserved.train, few.train, few.test)]
    assert not (rows[0] | rows[1]) & rows[2]
    assert len(reserved.train) + len(few.train) + len(few.validation) + len(few.test) == 60


def test_held_out_numbers_are_exact():
    """Sequences of two lengths over two tokens: all six are enumerated."""
    model = MaskedLSTM(2, 3, seed=0).double()
    tokens = torch.tensor([[0, PAD], [1, PAD], [0, 0], [0, 1], [1, 0], [1, 1]])
    train = torch.tensor([[0, PAD], [1, 1], [1, 0], [0, 0]])  # a quarter has one token
    found = measure(model, SequenceData(2, train, tokens, tokens, None), progress=False)
    one, two = ((-model.energy_table(length)).softmax(0).detach() for length in (1, 2))
    probabilities = torch.cat([one / 4, two * 3 / 4])
    assert float(probabilities.sum()) == pytest.approx(1)
    assert found["nll"] == pytest.approx(float(-probabilities.log().mean()))
    energies = torch.cat([model.energy_table(1), model.energy_table(2)]).detach()
    assert found["nll_one_z"] == pytest.approx(float(-(-energies).log_softmax(0).mean()))
    assert "true" not in found


def test_how_sure_a_gap_of_one_seed_is():
    """By hand: what differs between lengths is no doubt about the mean, since Z_n would take it away."""
    values = torch.tensor([0.0, 2.0, 0.0, 2.0, 100.0, 100.0, 100.0, 100.0], dtype=torch.double)
    lengths = torch.tensor([1, 1, 1, 1, 2, 2, 2, 2])
    by_hand = 0.5 * 1.0 / 4**0.5  # half of the sequences, of deviation 1
    assert table_6_1_phonemes.std_error_within(values, lengths) == pytest.approx(by_hand, rel=0.1)
    dataset = Dataset("phoneme", None)
    evidence = [{dataset: {"better": facts(14.0), "worse": {**facts(16.0), "gap_std_error": 0.1}}}]
    found = gap(evidence, dataset, "worse", "better")
    assert (found.low, found.high) == (pytest.approx(2 - 0.196, abs=1e-3), pytest.approx(2 + 0.196, abs=1e-3))


@pytest.mark.parametrize("name", ["table-6.1", "table-6.1-phonemes", "figure-6.1"])
def test_end_to_end(name, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(table_6_1, "PRINTED", {Dataset("p", 1000): (5.32,) * 6, Dataset("h+", 10000): (6.4,) * 6})
    monkeypatch.setattr(table_6_1_phonemes, "PRINTED", {Dataset("phoneme-disjoint", None): (None,) * 6})
    corpora = {"p": ("palindromes", 100, (30, 2000)), "phoneme-short": ("phonemes", None, (3, 5))}
    monkeypatch.setattr(figure_6_1, "CORPORA", {key: figure_6_1.Corpus(*of) for key, of in corpora.items()})
    monkeypatch.setattr(figure_6_1, "GROUPS", {"Both": ("p", "phoneme-short")})
    monkeypatch.setattr(masked_objectives, "FOR_PROJECTIONS", 9)
    study = load_study(name)
    result = reproduce(name, study, recipe=recipe, runs=tmp_path / "runs", progress=False)
    files = write_study(result, tmp_path / "results", "the command")
    page = files.page.read_text()
    assert "Goyal 2021" in page
    assert "recipe tiny, seeds 0" in page
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("stage.json")}
    again = reproduce(name, study, recipe=recipe, runs=tmp_path / "runs", progress=False)
    assert write_study(again, tmp_path / "again", "the command").page.read_text() == page
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("stage.json")} == before


def test_mistakes(recipe, capsys):
    assert run_command(["reproduce", "table-6.1", "--energy", "bit"]) == 2
    assert "compares several; leave it out" in capsys.readouterr().err
    recipe.write_text(recipe.read_text() + "hidden: 3\n")
    assert run_command(["reproduce", "table-6.1", "--recipe", str(recipe)]) == 2
    assert "unknown key `hidden`" in capsys.readouterr().err
