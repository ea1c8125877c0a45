"""`lexergy arena` from plan to report, on a tiny run and on files."""

import csv
import json

import pytest

from lexergy.tasks.arena.sessions import Sessions, Standing
from lexergy.tasks.arena.study import StudyFolder
from toys.arena import play, write_continuations
from toys.commands import json_of, mistake_of, output_of


@pytest.fixture
def files(tmp_path):
    """Two systems and people on 30 prompts, of which one file lacks the last."""
    texts = {
        name: {f"Prompt {number} is": f" good for us and all of them by {name}" for number in range(30)}
        for name in ("weak", "strong", "people")
    }
    texts["strong"].pop("Prompt 29 is")
    texts["weak"]["Prompt 3 is"] = texts["strong"]["Prompt 3 is"]
    paths = {name: write_continuations(tmp_path / f"{name}.jsonl", texts[name]) for name in ("weak", "strong")}
    return [paths["weak"], paths["strong"], write_continuations(tmp_path / "written.jsonl", texts["people"])]


def test_from_files_to_a_report(files, tmp_path, capsys):
    weak, strong, people = files
    study = tmp_path / "study"
    options = ["--qualifying", 4, "--checks", 3, "--bar", 0.5, "--code", "DONE"]
    made = json_of(["arena", "make", "--files", weak, strong, "--people", people, "--out", study, *options], capsys)
    assert made["systems"] == ["weak", "strong"]
    assert (made["qualifying"], made["check"]) == (4, 3)
    assert made["pair"] == 29 - 7 - made["facts"]["left_out_as_alike"]
    folder = StudyFolder(study)
    assert folder.read().rules.code == "DONE"
    sessions = Sessions(folder)
    for seed in range(3):
        assert play(sessions, f"p{seed}", seed, rate=1.0) is Standing.FINISHED
    result = json_of(["arena", "report", study], capsys)
    [pair] = result["pairs"]
    assert pair["preference"]["value"] == 1
    assert pair["rates"]["less"] == pair["rates"]["num_sentences"] == made["pair"]
    text = output_of(["arena", "report", study], capsys).out
    assert "weak" in text
    assert "100.0 %" in text
    page = (study / "report" / "report.html").read_text()
    assert "strong has 100.0 % (29.2 to 100.0) of the votes against weak" in page  # three people are three trials
    with (study / "report" / "votes.csv").open() as rows:
        votes = list(csv.DictReader(rows))
    assert len(votes) == len(folder.votes.rows())
    pairs = [vote for vote in votes if vote["kind"] == "pair"]
    assert {vote["winner"] for vote in pairs} == {"strong"}
    assert {(vote["first"], vote["second"]) for vote in pairs} == {("weak", "strong"), ("strong", "weak")}


@pytest.mark.filterwarnings("ignore::lexergy.models.joint.sampling.UnreliableWeightsWarning")
def test_from_a_run(tiny_run, tmp_path, capsys):
    study = tmp_path / "study"
    arguments = ["arena", "make", tiny_run, "--pairs", 5, "--candidates", 8, "--qualifying", 3, "--checks", 3]
    models = "base,joint,joint:second,worst,people"
    made = json_of([*arguments, "--models", models, "--out", study], capsys)
    assert made["systems"] == models.split(",")
    content = StudyFolder(study).read()
    prompts = {entry.prompt for entry in content.of_kind("pair")}
    known = {entry.prompt for entry in content.comparisons} - prompts
    assert len(prompts) == 5
    assert len(known) == 6
    assert {entry.systems for entry in content.of_kind("qualifying")} == {("people", "base")}
    for check in content.of_kind("check"):
        assert check.systems == ("people", "shuffled")
        assert sorted(check.texts[0].split()) == sorted(check.texts[1].split())
        assert check.texts[0].split() != check.texts[1].split()
    again = tmp_path / "again"
    json_of([*arguments, "--models", models, "--out", again], capsys)
    assert StudyFolder(again).read().comparisons == content.comparisons
    reseeded = tmp_path / "reseeded"
    json_of([*arguments, "--models", "base,joint", "--seed", 1, "--out", reseeded], capsys)
    assert {entry.texts for entry in StudyFolder(reseeded).read().of_kind("pair")}.isdisjoint(
        {entry.texts for entry in content.of_kind("pair")}
    )


def test_systems_of_a_run_share_one_set_of_candidates(tiny_run, tmp_path, capsys):
    """`best` and `worst` are the ends of the candidates' energies; `base` is the first candidate, however many."""
    from lexergy.runs.records import load_run
    from lexergy.tasks.residual.context import RunContext

    study = tmp_path / "study"
    arguments = ["arena", "make", tiny_run, "--pairs", 4, "--candidates", 6, "--qualifying", 0, "--checks", 0]
    json_of([*arguments, "--models", "best,worst,base", "--out", study], capsys)
    result = load_run(tiny_run)
    joint = RunContext(result.recipe, tiny_run).joint("first")
    pairs = StudyFolder(study).read().of_kind("pair")
    json_of([*arguments, "--models", "base,people", "--out", tmp_path / "alone"], capsys)
    alone = {pair.prompt: pair.texts[0] for pair in StudyFolder(tmp_path / "alone").read().of_kind("pair")}
    assert {pair.prompt: pair.texts[1] for pair in pairs if pair.systems[1] == "base"}.items() <= alone.items()
    for pair in pairs:
        prefix = joint.lm.encode(pair.prompt)
        energies = [
            float(joint.score_texts(prefix.reshape(1, -1), joint.lm.encode(text).reshape(1, -1))) for text in pair.texts
        ]
        assert energies[0] < energies[1] or pair.systems == ("worst", "base")


def test_file_and_qualify(files, tmp_path, capsys):
    weak, strong, people = files
    study = tmp_path / "study"
    arguments = ["arena", "make", "--files", weak, strong, "--people", people, "--qualifying", 4, "--checks", 2]
    output_of([*arguments, "--pages", 3, "--out", study], capsys)
    output_of(["arena", "file", study, "--annotator", "anna", "--out", tmp_path / "anna.html"], capsys)
    assert (tmp_path / "anna.html").stat().st_size > 10_000
    assert "has begun already" in mistake_of(
        ["arena", "file", study, "--annotator", "anna", "--out", tmp_path / "b.html"], capsys
    )
    assert "nobody has finished" in mistake_of(["arena", "qualify", study], capsys)
    sessions = Sessions(StudyFolder(study))
    play(sessions, "ben", 0)
    play(sessions, "dora", 1, skill=0.0)
    closed = json_of(["arena", "qualify", study], capsys)
    assert closed == {"bar": 1.0, "accuracies": {"ben": 1.0, "dora": 0.0}}
    assert sessions.standing("ben") is Standing.JUDGING


def test_plan(capsys):
    plan = json_of(["arena", "plan", "--rate", 0.7, "--dropped", 0, "--correlation", 0], capsys)
    assert plan["outcome"]["less"] == pytest.approx(0.784)
    assert plan["power"] >= 0.8
    assert plan["votes"] == 3 * plan["prompts"]
    given = json_of(["arena", "plan", "--rate", 0.7, "--pairs", 333], capsys)
    assert (given["prompts"], given["people"]) == (333, 34)
    hopeless = output_of(["arena", "plan", "--rate", 0.55, "--ties", 0.5], capsys).out
    assert "no more than one half" in hopeless


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["arena", "serve", "nowhere"], "is not a study"),
        (["arena", "report", "nowhere"], "is not a study"),
        (["arena", "make", "nowhere", "--out", "s"], "is not a run"),
        (["arena", "make", "a", "b", "--out", "s"], "without `--files`"),
        (["arena", "make", "--files", "weak.jsonl", "--out", "s"], "expected two or more"),
        (
            ["arena", "make", "--files", "weak.jsonl", "bad.jsonl", "--out", "s"],
            "expected texts in `prompt` and `text`",
        ),
        (["arena", "make", "--files", "weak.jsonl", "strong.jsonl", "--pairs", "99", "--out", "s"], "in common"),
        (
            ["arena", "make", "--files", "weak.jsonl", "strong.jsonl", "--qualifying", "4", "--out", "s"],
            "`--people FILE`",
        ),
        (["arena", "make", "--files", "weak.jsonl", "strong.jsonl", "--bar", "2", "--out", "s"], "`--bar` is 2"),
        (["arena", "plan", "--rate", "1.5"], "`--rate` is 1.5"),
        (["arena", "plan", "--ties", "1"], "`ties` is 1"),
    ],
)
def test_mistakes(files, tmp_path, monkeypatch, capsys, arguments, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text(json.dumps({"prompt": "a", "continuation": "b"}) + "\n")
    assert told in mistake_of(arguments, capsys)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("models", ["base", "base,base", "base,other", "base,joint:third", "base,people:first"])
def test_mistaken_models(tiny_run, tmp_path, capsys, models):
    message = mistake_of(["arena", "make", tiny_run, "--models", models, "--out", tmp_path / "s"], capsys)
    assert "`--models`" in message
    assert not (tmp_path / "s").exists()
