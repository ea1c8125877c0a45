"""`lexergy finetune`, end to end on a tiny model."""

import json

import pytest

from lexergy.cli.main import run_command

FAST = ["--epochs", "1", "--num-seeds", "2", "--batch-size", "16", "--learning-rate", "0.01"]


@pytest.fixture(scope="module")
def classifier(pretrained_encoders, labelled_files, tmp_path_factory):
    out = tmp_path_factory.mktemp("finetuned") / "colours"
    assert run_command(training(pretrained_encoders, labelled_files, out)) == 0
    return out


def training(encoders, files, out):
    command = ["finetune", "train", str(files / "train.jsonl"), "--test", str(files / "test.jsonl")]
    return [*command, "--encoder", str(encoders / "masked-lm"), "--out", str(out), *FAST]


def test_the_report_has_the_medians_of_all_seeds(classifier, pretrained_encoders, labelled_files, capsys):
    command = training(pretrained_encoders, labelled_files, classifier)
    assert run_command(command) == 0
    printed = capsys.readouterr().out
    assert "On 16 test examples, over 2 seeds" in printed
    assert "Matthews' correlation" in printed
    assert run_command([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    values = [seed["accuracy"] for seed in report["seeds"]]
    assert report["metrics"]["accuracy"] == {"median": sum(values) / 2, "least": min(values), "greatest": max(values)}
    assert report["best"] in ("seed-0", "seed-1")


def test_predictions_of_a_file_without_labels(classifier, tmp_path, capsys):
    path = tmp_path / "new.csv"
    path.write_text("body\nthe red nation\nblue people\n")
    command = ["finetune", "predict", str(classifier), str(path), "--text-field", "body"]
    assert run_command([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["place"] for each in found] == [f"{path}:2", f"{path}:3"]
    for each in found:
        assert each["label"] in ("warm", "cold")
        assert each["probability"] == max(each["probabilities"].values())
    assert run_command(command) == 0
    assert "new.csv:3" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize("task", ["regression", "span"])
def test_numbers_and_answers(task, pretrained_encoders, labelled_files, tmp_path, capsys):
    out, train = str(tmp_path / "out"), str(labelled_files / "test.jsonl")
    command = ["finetune", "train", train, "--task", task, "--label-field", "year", "--out", out]
    assert run_command([*command, "--encoder", str(pretrained_encoders / "electric"), *FAST, "--num-seeds", "1"]) == 0
    assert "give --test for numbers to quote" in capsys.readouterr().out
    assert run_command(["finetune", "predict", out, train, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    if task == "regression":
        assert 1500 < first["estimate"] < 2300
    else:
        context = json.loads((labelled_files / "test.jsonl").read_text().split("\n")[0])["context"]
        assert context[first["start"] :].startswith(first["answer"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl"], "`nowhere.jsonl` does not exist"),
        (["FILES/train.jsonl", "--label-field", "stars"], "train.jsonl:1: there is no field `stars`"),
        (["FILES/train.jsonl", "--layer-decay", "2"], "`--layer-decay` is 2"),
        (["FILES/train.jsonl", "--max-length", "1000"], "`max_length` is 1000; expected 8 .. 24"),
        (["FILES/train.jsonl", "--encoder", "ENCODERS/two-tower"], "holds a two-tower model"),
        (["FILES/train.jsonl", "--task", "regression"], "expected a number for a regression"),
        (["glue:nothing"], "GLUE has no task `nothing`"),
    ],
    ids=["file", "field", "decay", "length", "two-tower", "number", "glue"],
)
def test_mistakes_are_told_in_a_line(arguments, message, pretrained_encoders, labelled_files, tmp_path, capsys):
    arguments = [
        each.replace("FILES", str(labelled_files)).replace("ENCODERS", str(pretrained_encoders)) for each in arguments
    ]
    command = [
        "finetune",
        "train",
        "--encoder",
        str(pretrained_encoders / "electric"),
        "--out",
        str(tmp_path),
        *arguments,
    ]
    assert run_command(command) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_a_model_that_is_none(pretrained_encoders, labelled_files, tmp_path, capsys):
    assert run_command(["finetune", "predict", str(tmp_path / "no"), str(labelled_files / "test.jsonl")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert (
        run_command(["finetune", "predict", str(pretrained_encoders / "electric"), str(labelled_files / "test.jsonl")])
        == 2
    )
    assert "lexergy finetune train" in capsys.readouterr().err
