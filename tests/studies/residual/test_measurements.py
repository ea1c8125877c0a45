"""What the studies measure, against the models asked directly; texts and n-grams by hand."""

import dataclasses

import pytest
import torch

from lexergy.models.joint.model import ResidualEBM
from lexergy.runs.columns import from_column
from lexergy.runs.records import load_run
from lexergy.studies.residual import figure_1, long_text, samples, table_3
from lexergy.studies.residual.samples import TEXTS
from lexergy.studies.residual.table_3 import first_repetition
from lexergy.studies.residual.workspace import Subject
from lexergy.tasks.residual.context import RunContext


@pytest.fixture(scope="module")
def subject(toy_studies) -> Subject:
    toy_studies.reproduce("figure-2-left")  # the run, and no measurement
    result = load_run(toy_studies.runs / "tiny-seed0")
    context = RunContext(result.recipe, result.folder)
    joint = ResidualEBM(context.lm, context.energy("bit"))
    return Subject(joint, context.windows["test"], {"samples": 300, "candidates": 40, "top_k": None}, seed=5)


def column(table, name) -> torch.Tensor:
    return torch.from_numpy(from_column(table.column(name)))


def test_figure_1_is_exact_at_the_last_position(subject):
    """log P(x_T | x_<T) = log P_LM(x_T) - E(x) - log sum_v P_LM(v) exp(-E(x_<T, v)), token by token."""
    table = figure_1.rows(subject, range(2))
    joint, windows = subject.joint, subject.windows
    for number in range(2):
        row, length = windows.tokens[number], windows.prefix_length
        log_prob = joint.lm.next_log_prob(row[None, :-1])[0]  # (V,)
        allowed = log_prob.isfinite().nonzero().squeeze(1)
        ends = torch.cat([row[length:-1].expand(len(allowed), -1), allowed[:, None]], dim=1)  # (M, C)
        energies = joint.score(row[None, :length], ends[None])[0].double()  # (M,)
        scores = log_prob[allowed] - energies
        exact = scores[allowed == row[-1]] - scores.logsumexp(0)
        assert column(table, "last_exact")[number] == pytest.approx(float(exact), abs=1e-5)
        middle = (column(table, "lower") + column(table, "upper"))[number, -1] / 2
        assert middle == pytest.approx(float(exact), abs=0.05)
    base = joint.lm.token_log_prob(windows.tokens[:2], prefix_length=windows.prefix_length)
    torch.testing.assert_close(column(table, "base"), base)
    most = dataclasses.replace(subject, settings={**subject.settings, "samples": 2, "enumerated": 20})
    nearly, exact = column(figure_1.rows(most, range(2)), "last_exact"), column(table, "last_exact")
    assert 0 < (nearly - exact).abs().max() < 0.05


def test_samples_are_scored_as_the_models_score_them(subject):
    table = samples.rows(subject, range(5))
    joint, windows = subject.joint, subject.windows.select(range(5))
    for name in ("human", *TEXTS):
        tokens = column(table, f"{name}_tokens")
        whole = torch.cat([windows.prefixes, tokens], dim=1)
        log_prob = joint.lm.log_prob(whole, prefix_length=windows.prefix_length)
        torch.testing.assert_close(column(table, f"{name}_log_prob"), log_prob, atol=1e-4, rtol=0)
        energy = joint.score_texts(windows.prefixes, tokens).double()
        torch.testing.assert_close(column(table, f"{name}_energy"), energy, atol=1e-5, rtol=0)
        assert table.column(f"{name}_text").to_pylist() == joint.lm.decode(tokens)
    best, joint_energy, worst = (column(table, f"{name}_energy") for name in ("best", "joint", "worst"))
    assert (best <= joint_energy).all()
    assert (joint_energy <= worst).all()
    assert (best < worst).all()
    torch.testing.assert_close(column(table, "human_tokens"), windows.continuations)


def test_a_sample_depends_on_its_own_window_alone(subject):
    whole, parts = (
        samples.rows(subject, range(4)).to_pydict(),
        [samples.rows(subject, ids).to_pydict() for ids in (range(3), range(3, 4))],
    )
    for name in ("joint_text", "base_text", "worst_text"):
        assert whole[name] == parts[0][name] + parts[1][name]


def test_the_joint_sample_follows_the_energy(subject):
    """With an energy that forbids all but candidates of one kind, the joint sample is of that kind."""

    class FirstTokenEven:
        features = None

        def score(self, prefix, continuations, features=None):
            return 1000.0 * (continuations[..., 0] % 2)

    forced = Subject(ResidualEBM(subject.joint.lm, FirstTokenEven()), subject.windows, subject.settings, seed=1)
    table = samples.rows(forced, range(12))
    assert (column(table, "joint_tokens")[:, 0] % 2 == 0).all()
    assert (column(table, "base_tokens")[:, 0] % 2 == 1).any()


def test_rank_of_peoples_text(subject):
    table = samples.rows(subject, range(12))
    rank, human = column(table, "human_rank"), column(table, "human_energy")
    assert ((rank == 0) == (human <= column(table, "best_energy"))).all()
    assert ((rank == 1) == (human > column(table, "worst_energy"))).all()


def test_means_over_own_samples(subject):
    """An energy that leaves one candidate makes the joint model's mean that candidate's; an equal one the LM's."""

    class Length:
        features = None
        scale = 0.0

        def score(self, prefix, continuations, features=None):
            return self.scale * continuations.double().sum(-1)

    energy = Length()
    tested = Subject(ResidualEBM(subject.joint.lm, energy), subject.windows, subject.settings, seed=1)
    flat = samples.rows(tested, range(3))
    torch.testing.assert_close(column(flat, "joint_mean_score"), column(flat, "base_mean_log_prob"))
    energy.scale = 1e3
    sharp = samples.rows(tested, range(3))
    best = column(sharp, "best_log_prob") - column(sharp, "best_energy")
    torch.testing.assert_close(column(sharp, "joint_mean_score"), best)


def test_table_3_compares_both_laws_at_the_repetition(subject, monkeypatch):
    """With an energy that is the same for all texts both distributions agree; with another one they do not."""
    monkeypatch.setattr(table_3, "LETTERS", 2)  # the tiny LM has few long words
    settings = {"samples": 4, "candidates": 20, "top_k": 10}

    class Flat:
        features = None

        def score(self, prefix, continuations, features=None):
            assert prefix.shape[1] == 8  # however long the context, the energy judges the whole continuation
            assert continuations.shape[2] == 6
            return torch.ones(continuations.shape[:2])

    flat = Subject(ResidualEBM(subject.joint.lm, Flat()), subject.windows, settings, seed=2)
    records = table_3.rows(flat, range(12)).to_pylist()
    assert len(records) >= 4
    kinds = [record["kind"] for record in records]
    assert kinds == [table_3.REPEATED, table_3.BEFORE] * (len(records) // 2)
    for repeated, before in zip(records[::2], records[1::2], strict=True):
        assert repeated["context"] == before["context"] + before["word"]
    for record in records:
        assert record["joint"] == pytest.approx(record["base"])
        assert [entry["text"] for entry in record["base_top"]] == [entry["text"] for entry in record["joint_top"]]
    tested = Subject(subject.joint, subject.windows, settings, seed=2)
    others = table_3.rows(tested, range(12)).to_pylist()
    assert [record["context"] for record in others] == [record["context"] for record in records]
    assert any(record["joint"] != pytest.approx(record["base"], rel=1e-3) for record in others)


def test_repetitions_by_hand():
    words = {0: " of", 1: " the", 2: " un", 3: "ion", 4: ",", 5: " congress"}

    def found(*tokens, start=1):
        return first_repetition(list(tokens), [words[token] for token in tokens], start)

    assert found(5, 4, 5) == 2  # a long word
    assert found(2, 3, 4, 2, 3) == 4  # five letters in two pieces
    assert found(2, 3, 4, 0, 3) is None  # " of" + "ion" is new
    assert found(0, 1, 4, 0, 1) == 4  # "of the"
    assert found(1, 4, 5, 1) is None  # too short alone, and ", congress the" is new
    assert found(5, 5, 4, 5, start=2) == 3  # " congress," is new
    assert found(5, *[4] * 32, 5) is None  # too long ago
    assert found(5, *[4] * 31, 5) == 32


def test_long_texts_are_scored_chunk_by_chunk(subject):
    """Each chunk's log-probability is the LM's, given as much of the text before it as a prefix is long."""
    settings = {"windows": 3, "chunks": 3, "candidates": 5}
    table = long_text.rows(dataclasses.replace(subject, settings=settings), range(3))
    windows, lm = subject.windows.select(range(3)), subject.joint.lm
    length, context = windows.continuation_length, windows.prefix_length
    for writer in ("joint", "base"):
        text = torch.cat((windows.prefixes, column(table, f"{writer}_tokens")), 1)
        assert text.shape[1] == context + 3 * length
        for chunk in range(3):
            start = chunk * length
            expected = lm.log_prob(text[:, start : start + context + length], prefix_length=context)
            torch.testing.assert_close(column(table, f"{writer}_log_prob")[:, chunk], expected, atol=1e-4, rtol=0)
    assert (column(table, "joint_tokens") != column(table, "base_tokens")).any()
