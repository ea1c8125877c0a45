"""Does it write better: texts against the models that wrote them, judges by hand, findings that follow the numbers."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from lexergy.core.estimation.findings import Verdict
from lexergy.core.estimation.smc import Resampling
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.local_residuals import UnigramResidual
from lexergy.models.energies import StatesEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.scoring.kinds import load_scorer
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.columns import to_column
from lexergy.runs.records import load_run
from lexergy.studies.residual import text_quality
from lexergy.studies.residual.judges import Judges, log_probs_after, write_arena_files
from lexergy.studies.residual.text_measures import Measures, Quality
from lexergy.studies.residual.workspace import Evidence, Subject
from lexergy.studies.residual.writers import WRITERS, rows, write
from lexergy.tasks.arena.continuations import file_material
from lexergy.tasks.residual.context import RunContext
from toys.energies import wake
from toys.runs import RECIPE, TRAINING, make_run

HOLDS, FAILS = Verdict.HOLDS, Verdict.DOES_NOT_HOLD
SETTINGS = {"candidates": 20, "top_k": None, "token_by_token": None}
USUAL = [name for name in WRITERS if name not in ("frozen", "tokens")]
N, C, D = 90, 12, 6


@pytest.fixture(scope="module")
def subject(toy_studies) -> Subject:
    """An energy on the LM's states, so that SMC is among the writers."""
    toy_studies.reproduce("figure-2-left")
    result = load_run(toy_studies.runs / "tiny-seed0")
    context = RunContext(result.recipe, result.folder)
    energy = wake(StatesEnergy.for_lm(context.lm, layers=[1]))
    return Subject(ResidualEBM(context.lm, energy), context.windows["test"], SETTINGS, seed=5)


def test_each_writer_writes_what_it_is_said_to(subject):
    ids = range(4)
    windows = subject.windows.select(ids)
    written = write(subject, windows, ids)
    assert list(written) == USUAL
    options = {"num_samples": 20, "max_new_tokens": 6, "seed": 5, "prefix_ids": ids}
    samples = subject.joint.lm.sample(windows.prefixes, features=subject.joint.energy.features, **options)
    energies = subject.joint.score(windows.prefixes, samples.tokens, samples.features)
    chosen = {
        "base": samples.tokens[:, 0],
        "likeliest": torch.stack(
            [row[place] for row, place in zip(samples.tokens, samples.log_prob.argmax(1), strict=True)]
        ),
        "best": torch.stack([row[place] for row, place in zip(samples.tokens, energies.argmin(1), strict=True)]),
    }
    for name, tokens in chosen.items():
        assert torch.equal(written[name].tokens, tokens)
    assert torch.equal(written["people"].tokens, windows.continuations)
    for number in ids:
        assert written["joint"].tokens[number].tolist() in samples.tokens[number].tolist()
    costs = {name: set(texts.drawn.tolist()) for name, texts in written.items()}
    assert costs == {name: {0 if name == "people" else 6 if name == "base" else 120} for name in USUAL}


def test_particles_are_resampled_as_the_subject_says(subject):
    ids = range(3)
    windows = subject.windows.select(ids)
    often = dataclasses.replace(subject, resampling=Resampling(every=1, below=1.0))
    texts = [write(tested, windows, ids)["smc"].tokens for tested in (subject, often)]
    assert not torch.equal(*texts)


def test_smc_and_importance_sampling_follow_the_energy(subject):
    """Energies ten times as large: both find texts of lower energy than the LM's, on average."""
    energy = subject.joint.energy
    sharp = wake(StatesEnergy.for_lm(subject.joint.lm, layers=[1]))
    sharp.load_state_dict(energy.state_dict())
    for parameter in sharp.parameters():
        parameter.data *= 10
    tested = dataclasses.replace(subject, joint=ResidualEBM(subject.joint.lm, sharp))
    ids = range(12)
    windows = subject.windows.select(ids)
    written = write(tested, windows, ids)
    means = {
        name: float(tested.joint.score_texts(windows.prefixes, texts.tokens).mean()) for name, texts in written.items()
    }
    assert means["best"] <= means["joint"] < means["base"] - 1
    assert means["smc"] < means["base"] - 1


def test_a_text_depends_on_its_own_window_alone(subject):
    whole = rows(subject, range(4)).to_pydict()
    parts = [rows(subject, ids).to_pydict() for ids in (range(3), range(3, 4))]
    for name in USUAL:
        assert whole[f"{name}_text"] == parts[0][f"{name}_text"] + parts[1][f"{name}_text"]
    for prefix, text, expected in zip(
        whole["prefix_text"],
        whole["people_text"],
        subject.joint.lm.decode(subject.windows.select(range(4)).tokens),
        strict=True,
    ):
        assert prefix + text == expected


@pytest.mark.parametrize("top_k", [None, 3])
def test_log_probabilities_are_those_of_the_whole_lm(subject, top_k):
    """Whether they were told as the texts were drawn, or are read from them."""
    tested = dataclasses.replace(subject, settings={**SETTINGS, "top_k": top_k})
    seen, windows = rows(tested, range(4)), subject.windows.select(range(4))
    for name in USUAL:
        whole = torch.cat((windows.prefixes, torch.tensor(seen.column(f"{name}_tokens").to_pylist())), 1)
        expected = subject.joint.lm.log_prob(whole, prefix_length=windows.prefix_length)
        assert seen.column(f"{name}_log_prob").to_pylist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_an_energy_of_whole_texts_has_no_smc(subject):
    joint = ResidualEBM(subject.joint.lm, lambda tokens: tokens.sum(-1).double())
    ids = range(2)
    written = write(dataclasses.replace(subject, joint=joint), subject.windows.select(ids), ids)
    assert "smc" not in written


def test_further_writers(subject):
    """The joint model token by token when it is asked for; the LM without its local residuals where it has some."""
    ids, lm = range(3), subject.joint.lm
    ratio = UnigramResidual(torch.linspace(-4, 4, lm.vocab_size), strength=1.0)
    joint = ResidualEBM(lm.corrected([ratio]), subject.joint.energy)
    tested = dataclasses.replace(subject, joint=joint, settings={**SETTINGS, "token_by_token": 2})
    windows = subject.windows.select(ids)
    written = write(tested, windows, ids)
    assert list(written) == list(WRITERS)
    assert torch.equal(written["frozen"].tokens, write(subject, windows, ids)["base"].tokens)
    assert not torch.equal(written["frozen"].tokens, written["base"].tokens)
    likeliest = joint.lm.next_log_prob(windows.prefixes).topk(10).indices
    assert (written["tokens"].tokens[:, :1] == likeliest).any(1).all()
    assert written["tokens"].drawn.tolist() == [6 + 10 * 2 * 15] * 3


def test_a_missing_judge_is_told_before_texts_are_drawn(monkeypatch):
    class Run:
        workspace = None

        def measured(self, *arguments, **options):
            raise AssertionError("texts were drawn")

    def nowhere(name):
        raise LexergyError(f"{name} is not installed")

    monkeypatch.setattr(text_quality, "fingerprint", nowhere)
    with pytest.raises(LexergyError, match="not installed"):
        text_quality.STUDY.examine(Run(), {"energy": "energy", "judge": "gemma3-270m", "encoder": "minilm"})


def test_the_judge_reads_the_text_after_its_prefix(toy_studies):
    """log P(whole) - log P(prefix) where no token lies across the boundary, whichever texts are scored together."""
    folder = toy_studies.judges / "judge"
    lm = CausalLM.from_pretrained(folder)
    prefixes, texts = ["the people shall", "our", "our"], [" defend", " union", ""]
    expected = []
    for prefix, text in zip(prefixes, texts, strict=True):
        tokens = torch.cat((torch.tensor([lm.end_of_text]), lm.encode(prefix), lm.encode(text).long()))[None]
        start = 1 + len(lm.encode(prefix))
        expected.append(float(lm.log_prob(tokens, prefix_length=start)) if text else 0.0)
    assert log_probs_after(load_scorer(folder), prefixes, texts) == pytest.approx(expected, abs=1e-4)


def test_the_arena_reads_the_files_as_they_are(tmp_path):
    prompts = [f"prompt {number}" for number in range(40)] + ["prompt 3", " "]
    columns = {"prefix_text": prompts}
    for writer in ("people", "base", "joint"):
        columns[f"{writer}_text"] = [f"{writer} {number}" for number in range(42)]
    columns["joint_text"][7] = "\n"
    assert write_arena_files(pa.table(columns), tmp_path) == 39
    files = [tmp_path / f"{name}.jsonl" for name in ("base", "joint")]
    material = file_material(files, tmp_path / "people.jsonl", pairs=None, qualifying=None, checks=10, seed=0)
    assert material.systems == ("base", "joint")
    assert len(material.pairs) == 39 - 10 - 12
    for entry in material.pairs:
        number = entry.prompt.removeprefix("prompt ")
        assert entry.texts == {"base": f"base {number}", "joint": f"joint {number}"}


def made_up(joint_off, base_off):
    """Writers who are so far from people: by embeddings, by both likelihoods and by repetitions."""
    noise = np.random.default_rng(0)
    shared = noise.normal(size=(N, D))  # what a prefix does to every text
    columns = {"prefix_text": [f"p{number}" for number in range(N)]}
    for writer, off in {"people": 0.0, "base": base_off, "joint": joint_off}.items():
        vectors = 0.3 * shared + 0.3 * noise.normal(size=(N, D)) + off * np.eye(D)[0] + np.eye(D)[1]
        tokens = np.arange(N * C).reshape(N, C) + 1
        tokens[noise.random(N) < abs(off) / 4, 6:] = 0
        columns |= {
            f"{writer}_text": ["text"] * N,
            f"{writer}_embedding": to_column(vectors.astype(np.float32)),
            f"{writer}_tokens": to_column(tokens),
            f"{writer}_lengths": to_column(np.full(N, C)),
            f"{writer}_drawn": to_column(np.full(N, 7)),
            f"{writer}_log_prob": to_column(C * (-3 + off + 0.1 * noise.normal(size=N))),
            f"{writer}_judged": to_column(-20 + 10 * off + noise.normal(size=N)),
            f"{writer}_characters": to_column(np.full(N, 10)),
        }
    evidence = Evidence(make_run(Path("nowhere")), "energy", [n // 3 for n in range(N)], pa.table(columns))
    return Quality(evidence, Judges("judge", "encoder"), Path("arena"))


def findings(quality):
    return text_quality._findings(Measures([quality]), "joint", "base")


def verdicts(quality):
    return [finding.verdict for finding in findings(quality)]


def test_findings_turn_with_the_numbers():
    assert verdicts(made_up(0.3, 1.5)) == [HOLDS] * 5
    assert verdicts(made_up(1.5, 0.3)) == [FAILS] * 5
    assert verdicts(made_up(-0.3, 1.5))[2:4] == [HOLDS] * 2  # nearer is nearer on either side


def test_numbers_of_the_table():
    quality = made_up(0.5, 1.0)
    table, differences, repetition, arena = text_quality.STUDY.conclude([quality]).tables
    lines = {line[0]: dict(zip(table.columns, line, strict=True)) for line in table.rows}
    people, base, joint = (lines[name] for name in ("people", "base LM", "joint model (importance sampling)"))
    judged = "judge, nats per character"
    assert (people[judged], base[judged], joint[judged]) == pytest.approx((2.0, 1.0, 1.5), abs=0.05)
    assert base["base LM, nats per token"] == pytest.approx(2.0, abs=0.05)
    assert people["energy distance from people's"] == 0
    assert 0 < joint["energy distance from people's"] < base["energy distance from people's"]
    assert base["MAUVE across halves"] < joint["MAUVE across halves"] < people["MAUVE across halves"]
    assert (people["LM tokens per text"], base["LM tokens per text"]) == (None, 7)
    [line] = differences.rows
    assert line[1] == pytest.approx(base["energy distance from people's"] - joint["energy distance from people's"])
    assert line[4] == pytest.approx(joint["MAUVE against people's"] - base["MAUVE against people's"])
    assert line[7] == pytest.approx(0.5, abs=0.05)
    assert [row[:2] for row in repetition.rows[:3]] == [("people", 2), ("people", 3), ("people", 4)]
    assert "--files arena/base.jsonl arena/joint.jsonl --people arena/people.jsonl" in arena.rows[0][1]


def test_people_are_no_way_from_people():
    measures = Measures([made_up(0.0, 0.0)])
    near = measures.energy_distance("joint")
    assert near.low < 0 < near.high
    assert abs(near.value) < 0.01


def test_judges_that_the_energy_has_seen_decide_nothing():
    quality = made_up(0.3, 1.5)
    recipe = quality.evidence.run.recipe
    seen = dataclasses.replace(quality, judges=Judges("smollm2-135m", "encoder"))
    doubts = [finding.doubt for finding in findings(seen)]
    assert [doubt is not None for doubt in doubts] == [False, False, True, False, False]
    assert Judges("smollm2-135m", "minilm").doubts(recipe, "energy")[1] is None
    energies = {"reader": {"kind": "encoder", "source": "minilm", "training": TRAINING}, **RECIPE["energies"]}
    energies["sum"] = {"kind": "sum", "of": ["reader", "energy"]}
    recipe_too = ResidualRecipe.model_validate({**RECIPE, "energies": energies})
    assert [Judges("gemma3-270m", "minilm").doubts(recipe_too, name)[1] is None for name in energies] == [
        False,
        True,
        False,
    ]
    assert Judges("gemma3-270m", "minilm").doubts(recipe_too, "sum")[0] is None
