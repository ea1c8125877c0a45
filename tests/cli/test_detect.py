"""`lexergy detect` end to end: numbers for people and programs, colours, and inputs that cannot be read."""

import io
import json
import math
import re
import sys
from functools import partial

import pytest

from lexergy.cli.main import run_command
from lexergy.core.decoding import Decoding
from lexergy.models.detection.detector import Detector
from lexergy.tasks.detection import evaluation_scores, file_judging, generation, training
from toys.kills import killed_once
from toys.texts import PEOPLE, written

TEXT = written(PEOPLE, 7)


@pytest.fixture(scope="module")
def model(text_pairs_file, word_encoder_folder, tmp_path_factory):
    """A detector made by the command itself."""
    folder = tmp_path_factory.mktemp("made") / "detector"
    options = ["--encoder", word_encoder_folder, "--epochs", 1, "--block-tokens", 32, "--test", 0.3]
    train(text_pairs_file, folder, *options, "--validation", 0.2)
    return folder


def train(pairs, out, *options):
    texts = ["--human", pairs, "--human-field", "human", "--machine", pairs, "--machine-field", "machine"]
    assert run_command(["detect", "train", *map(str, [*texts, "--out", out, *options])]) == 0


def detect(*arguments):
    return run_command(["detect", *map(str, arguments)])


def test_the_training_says_what_it_did(text_pairs_file, word_lm_folder, tmp_path, capsys):
    train(text_pairs_file, tmp_path / "out", "--lm", word_lm_folder, "--layers", "1,2", "--block-tokens", 64)
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("detector", "likelihood", "TF-IDF", "Density audit", "line breaks 1.00", "Next:"):
        assert part in shown


def test_files_need_not_be_said(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    assert run_command(["detect", "files", str(model), str(tmp_path / "essay.txt"), "--json"]) == 0
    named = json.loads(capsys.readouterr().out)
    assert detect(model, tmp_path / "essay.txt", "--json") == 0
    assert json.loads(capsys.readouterr().out) == named


def test_a_detector_may_be_named_with_its_precision(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lexergy.models.detection.readers.has_products_of_bfloat16", lambda: True)
    (tmp_path / "essay.txt").write_text(TEXT)
    energies = []
    for name in (model, f"{model}#precision=bfloat16", f"{model}#precision=float32"):
        assert detect(name, tmp_path / "essay.txt", "--json") == 0
        energies.append(json.loads(capsys.readouterr().out)["texts"][0]["energy"])
    assert energies[1] == pytest.approx(energies[0], rel=0.1)
    assert energies[1] != energies[0] == energies[2]
    assert detect(f"{model}#precision=int8", tmp_path / "essay.txt") == 2
    assert "in int8; expected float32 or bfloat16" in capsys.readouterr().err


def test_a_probability_for_each_text(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    (tmp_path / "more.jsonl").write_text(json.dumps({"body": TEXT}) + "\n\n" + json.dumps({"body": TEXT * 3}) + "\n")
    assert detect(model, tmp_path / "essay.txt", tmp_path / "more.jsonl", "--text-field", "body", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unreadable"] == []
    places = [text["place"] for text in found["texts"]]
    assert places == [str(tmp_path / "essay.txt"), f"{tmp_path / 'more.jsonl'}:1", f"{tmp_path / 'more.jsonl'}:3"]
    first, second, third = found["texts"]
    assert first["energy"] == pytest.approx(second["energy"])
    assert 0 < first["probability"] < 1
    assert third["tokens"] > 2 * first["tokens"]
    assert "spans" not in first


@pytest.mark.parametrize("content", [TEXT, json.dumps({"text": TEXT}) + "\n"], ids=["text", "jsonl"])
def test_standard_input(model, content, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert detect(model, "-", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["texts"]
    assert found["place"].startswith("-")
    assert found["tokens"] > 50


def test_explanations(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(f"<b>the day</b> {TEXT}")
    page = tmp_path / "page.html"
    assert detect(model, tmp_path / "essay.txt", "--explain", "--html", page) == 0
    shown = capsys.readouterr().out
    assert "P(machine)" in shown
    assert "while" in shown
    spans = [line.strip() for line in shown.rpartition("essay.txt\n")[2].splitlines() if line.strip()]
    assert len(spans) > 2
    assert all(re.match(r"(\d\.\d\d|\.\.)  ", line) for line in spans)  # no line is broken
    assert max(map(len, spans)) > 80
    html = page.read_text()
    assert "&lt;b&gt;the day" in html
    assert "<b>" not in html
    assert html.count("rgb(") > 5
    assert detect(model, tmp_path / "essay.txt", "--explain", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["texts"]
    assert found["text"][found["spans"][1]["start"] :].startswith(found["text"][found["spans"][0]["end"] :].strip())


def test_disguises_are_undone_and_told(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    (tmp_path / "disguised.txt").write_text(TEXT.replace("e", "\u0435").replace("a", "a\u200b"))
    page = tmp_path / "page.html"
    assert detect(model, tmp_path / "essay.txt", tmp_path / "disguised.txt", "--html", page) == 0
    told = f"{TEXT.count('e')} look-alike letters replaced, {TEXT.count('a')} invisible characters removed"
    shown = capsys.readouterr().out
    assert f"{tmp_path / 'disguised.txt'}: {told}" in shown
    assert shown.count("replaced") == 1
    assert f"Before it was read: {told}." in page.read_text()
    energies = {}
    for option in ("--normalise", "--no-normalise"):
        assert detect(model, tmp_path / "essay.txt", tmp_path / "disguised.txt", option, "--json") == 0
        texts = json.loads(capsys.readouterr().out)["texts"]
        energies[option] = [text["energy"] for text in texts]
        assert texts[1]["disguises"] == (told.split(", ") if option == "--normalise" else [])
    assert energies["--normalise"][0] == energies["--normalise"][1] == energies["--no-normalise"][0]
    assert energies["--no-normalise"][1] != energies["--no-normalise"][0]


def test_a_prior_moves_the_probability(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    log_odds = []
    for prior in (0.5, 0.02):
        assert detect(model, tmp_path / "essay.txt", "--prior", prior, "--json") == 0
        (found,) = json.loads(capsys.readouterr().out)["texts"]
        assert found["prior"] == prior
        log_odds.append(math.log(found["probability"] / (1 - found["probability"])))
    assert log_odds[1] - log_odds[0] == pytest.approx(math.log(0.02 / 0.98))


def test_texts_unlike_those_trained_on_are_told(model, tmp_path, capsys):
    (tmp_path / "usual.txt").write_text(TEXT)
    (tmp_path / "short.txt").write_text("the rain sang.")
    paths = [tmp_path / "usual.txt", tmp_path / "short.txt"]
    assert detect(model, *paths, "--json") == 0
    usual, short = json.loads(capsys.readouterr().out)["texts"]
    assert usual["warnings"] == []
    assert f"{short['tokens']} tokens, where training texts had" in short["warnings"][0]
    assert abs(short["probability"] - 0.5) < abs(usual["probability"] - 0.5)
    assert detect(model, *paths, "--html", tmp_path / "page.html") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"short.txt: {short['tokens']} tokens, where training texts had" in shown
    assert "usual.txt: " not in shown
    assert f"Warning: {short['tokens']} tokens, where" in (tmp_path / "page.html").read_text()


def test_a_detector_is_calibrated_for_another_kind_of_text(model, text_pairs_file, tmp_path, capsys):
    """With the writers exchanged: the bias changes, and nothing else."""
    texts = ["--human", text_pairs_file, "--human-field", "machine", "--machine", text_pairs_file]
    options = [model, *texts, "--machine-field", "human", "--out", tmp_path / "new"]
    assert run_command(["detect", "calibrate", *map(str, options), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["texts"] == {"people": 30, "machines": 30}
    assert detect("calibrate", *options) == 0
    assert "Offset" in capsys.readouterr().out
    (tmp_path / "essay.txt").write_text(TEXT)
    found = []
    for folder in (model, tmp_path / "new"):
        assert detect(folder, tmp_path / "essay.txt", "--json") == 0
        found += json.loads(capsys.readouterr().out)["texts"]
    before, after = found
    assert before["energy"] == pytest.approx(after["energy"])
    assert before["warnings"] == after["warnings"]
    half_tokens = result["after"]["half_tokens"]
    share = before["tokens"] / (before["tokens"] + half_tokens)
    shift = share * (result["after"]["offset"] - result["before"]["offset"])
    log_odds = [math.log(own["probability"] / (1 - own["probability"])) for own in found]
    assert log_odds[1] - log_odds[0] == pytest.approx(shift, abs=1e-4)


def test_what_a_spans_number_is_is_said(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    assert detect(model, tmp_path / "essay.txt", "--explain", "--html", tmp_path / "page.html") == 0
    meaning = "judged by these words alone and calibrated for so few"
    assert meaning in " ".join(capsys.readouterr().out.split())
    assert meaning in (tmp_path / "page.html").read_text()
    assert detect("files", "--help") == 0
    assert "judged by those words alone, calibrated on spans" in " ".join(capsys.readouterr().out.split())


def test_lms_are_read_together_and_an_encoder_beside_those_that_are_named(text_pairs_file, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(training, "train_detector", lambda _, recipe, __: given.append(recipe))
    for options in ([], ["--lm", "a", "--lm", "b"], ["--encoder", "e"], ["--encoder", "e", "--lm", "a", "--lm", "b"]):
        train(text_pairs_file, tmp_path / "out", *options, "--json")
    assert [recipe.lms for recipe in given] == [("smollm2-135m",), ("a", "b"), (), ("a", "b")]
    assert [recipe.together for recipe in given] == [False, False, False, True]


def test_a_generator_is_decoded_in_the_ways_given(word_lm_folder, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(training, "train_detector", lambda texts, *_: given.append(texts))
    command = ["train", "--human", tmp_path, "--out", tmp_path / "out", "--generator", word_lm_folder, "--json"]
    assert detect(*command) == 0
    assert detect(*command, "--temperature", "1,0.8", "--top-p", 0.95, "--top-p", 1, "--generator", "b") == 0
    default, chosen = given
    assert default.decodings == (Decoding(), Decoding(0.7), Decoding(top_p=0.9), Decoding(top_k=40))
    assert chosen.decodings == (Decoding(), Decoding(0.8), Decoding(top_p=0.95))
    assert chosen.generators == (str(word_lm_folder), "b")


def test_the_training_shows_each_decoding(word_lm_folder, tmp_path, capsys, monkeypatch):
    small = partial(generation.GeneratedPairs, prompt_tokens=4, new_tokens=24)
    monkeypatch.setattr(generation, "GeneratedPairs", small)
    (tmp_path / "texts").mkdir()
    for number in range(12):
        (tmp_path / "texts" / f"{number}.txt").write_text(" ".join(written(PEOPLE, 20 * number + n) for n in range(4)))
    options = ["--generator", word_lm_folder, "--lm", word_lm_folder, "--pairs", 24, "--top-k", "1,20"]
    shares = ["--test", 0.4, "--validation", 0.2, "--block-tokens", 64]
    command = ["train", "--human", tmp_path / "texts", "--out", tmp_path / "out", *options, *shares]
    assert detect(*command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "By machine" in shown
    assert "top-k 1 " in shown
    assert "top-k 20 " in shown
    assert detect(*command, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [name.rsplit(", ")[-1] for name in sorted(report["by_machine"])] == ["top-k 1", "top-k 20"]
    assert sorted(report["trained_on"]["machines"]) == sorted(report["by_machine"])


BAD_FILES = {
    "empty.txt": (b"  \n", "empty"),
    "one.txt": (b"a", "1 token"),
    "invisible.txt": ("\u200b\u200b".encode(), "0 tokens"),
    "binary.txt": (bytes(range(256)), "not UTF-8"),
    "nul.txt": (b"some\0text", "NUL bytes"),
    "cut.gz": (b"\x1f\x8b\x08", "truncated"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_cannot_be_read_is_named_and_the_rest_is_judged(name, model, tmp_path, capsys):
    content, reason = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.txt").write_text(TEXT)
    assert detect(model, tmp_path / name, tmp_path / "good.txt", "--json") == 1
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert [text["place"] for text in found["texts"]] == [str(tmp_path / "good.txt")]
    (line,) = [line for line in output.err.splitlines() if line.startswith("error:")]
    assert str(tmp_path / name) in line
    assert reason in line


def test_bad_lines_are_named_by_their_number(model, tmp_path, capsys):
    lines = [json.dumps({"text": TEXT}), '{"other": 1}', "no json", "[1]", '{"text": 5}', '{"text": null}', ""]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join([*lines, json.dumps({"text": TEXT})]))
    assert detect(model, path, tmp_path / "missing.txt", "--json") == 1
    output = capsys.readouterr()
    assert [text["place"] for text in json.loads(output.out)["texts"]] == [f"{path}:1", f"{path}:8"]
    errors = [line for line in output.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 6
    for number, reason in (
        (2, "no field `text`"),
        (3, "no JSON"),
        (4, "no JSON object"),
        (5, "holds int"),
        (6, "empty"),
    ):
        assert any(f"{path}:{number}: " in line and reason in line for line in errors)
    assert "missing.txt: No such file" in errors[-1]
    assert "Traceback" not in output.err


def test_ten_megabytes_are_read_here_and_there(model, tmp_path, capsys):
    path = tmp_path / "long.txt"
    path.write_text(f"{TEXT} " * (10_000_000 // len(TEXT)))
    assert detect(model, path) == 0
    assert "of the text read, in 32 blocks spread evenly" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nowhere", "x.txt"], "no detector at `nowhere`"),
        (["train", "--human", "/nowhere", "--machine", "/nowhere", "--out", "x"], "does not exist"),
        (["train", "--human", "h", "--out", "x"], "`--machine` with texts by machines, or `--generator`"),
        (["train", "--human", "h", "--machine", "m", "--generator", "lm", "--out", "x"], "give one of them"),
        (["train", "--human", "PAIRS", "--machine", "PAIRS", "--out", "x"], "has no field"),
        (["train", "--human", "h", "--machine", "m", "--out", "x", "--layers", "a"], "`--layers` is a"),
        (["train", "--human", "h", "--machine", "m", "--out", "x", "--top-k", "4"], "how a `--generator` writes"),
        (["train", "--human", "h", "--generator", "m", "--out", "x", "--top-k", "4.5"], "`--top-k` is 4.5"),
        (["train", "--human", "h", "--generator", "m", "--out", "x", "--top-p", "2"], "`top_p` is 2"),
        (["nowhere", "x.txt", "--prior", "1"], "`--prior` is 1"),
        (["x.txt", "--lm", "a", "--false-positives", "0"], "`--false-positives` is 0"),
        (["x.txt", "--false-positives", "0.1", "--false-discoveries", "0.1"], "expected one of them"),
        (
            ["x.txt", "--false-positives", "0.3", "--clear-above", "0.2"],
            "at least the rate of false positives, 0.3",
        ),
        (["x.txt", "--explain", "--scorer", "likelihood"], "which another score than the default has not"),
        (["x.txt", "--lines", "--false-discoveries", "0.1"], "known when all texts are judged"),
        (["x.txt", "--domain", "news", "--calibrate", "y.txt"], "leave it out with texts of your own"),
        (["evaluate", "PAIRS", "--report", "page.pdf"], "ends in .md or .html"),
        (["evaluate", "nowhere.jsonl"], "does not exist; check the path."),
    ],
)
def test_mistakes(arguments, part, text_pairs_file, capsys):
    assert detect(*[text_pairs_file if word == "PAIRS" else word for word in arguments]) == 2
    error = capsys.readouterr().err
    assert part in error
    assert "Traceback" not in error


def test_very_many_texts_are_judged_into_shards(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(file_judging, "TEXTS_PER_SHARD", 2)
    path, out = tmp_path / "texts.jsonl", tmp_path / "verdicts"
    path.write_text(
        "\n".join([json.dumps({"text": TEXT}), "no json", '{"text": "a"}', "", json.dumps({"text": TEXT * 2})])
    )
    (tmp_path / "essay.txt").write_text(TEXT)
    sources = [path, tmp_path / "essay.txt", tmp_path / "missing.txt"]
    assert detect(model, *sources, "--json") == 1
    judged = {record["place"]: record for record in json.loads(capsys.readouterr().out)["texts"]}
    assert detect(model, *sources, "--out", out, "--part", "2/2") == 0
    assert "verdicts: part 2/2 done: 1 of 3 shards; 2 are missing" in capsys.readouterr().err
    assert detect(model, *sources, "--out", out) == 1
    output = capsys.readouterr()
    rows = [json.loads(line) for line in output.out.splitlines()]
    assert [row["place"] for row in rows] == [f"{path}:{line}" for line in (1, 2, 3, 5)] + [str(p) for p in sources[1:]]
    assert [row["place"] for row in rows if "reason" in row] == [f"{path}:2", f"{path}:3", str(sources[2])]
    for row in rows:
        if "reason" not in row:
            assert row.keys() == judged[row["place"]].keys()
            assert row["probability"] == pytest.approx(judged[row["place"]]["probability"], abs=1e-5)
            assert row["energy"] == pytest.approx(judged[row["place"]]["energy"], abs=1e-5)
    assert "3 texts could not be judged" in output.err


def test_shards_keep_no_spans(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    assert detect(model, tmp_path / "essay.txt", "--out", tmp_path / "verdicts", "--explain") != 0
    assert "expected it without `--explain`" in capsys.readouterr().err


@pytest.fixture
def people_file(tmp_path):
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps({"text": written(PEOPLE, seed)}) + "\n" for seed in range(100, 139)))
    return path


def test_without_a_model_an_lm_judges_and_people_are_seldom_accused(word_lm_folder, people_file, tmp_path, capsys):
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps({"text": written(PEOPLE, seed)}) + "\n" for seed in range(40)))
    command = [asked, "--lm", word_lm_folder, "--scorer", "likelihood", "--calibrate", people_file]
    assert detect(*command, "--false-positives", 0.1, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    verdicts = [text["verdict"] for text in result["texts"]]
    assert verdicts.count("machine") <= 8  # 1 in 10 in expectation: more than 8 of 40 once in 70 tries
    assert {"people", "cannot tell"} <= set(verdicts)
    assert "warning" not in result
    for text in result["texts"]:
        assert text["probability"] is None
        assert (text["verdict"] == "machine") == (text["p_value"] <= 0.1)
        assert (text["verdict"] == "people") == (text["p_value"] > 0.2)
        assert round(text["p_value"] * 40) == pytest.approx(text["p_value"] * 40)
    assert detect(*command, "--false-discoveries", 0.1) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "adjusted" in shown
    assert "P(machine)" not in shown
    assert "Compared with 39 texts of people (own). The p-value is the share of them that has" in shown
    assert 'Of the texts accused at most 10 % is accused wrongly: the verdict is "machine" up to adjusted 0.1' in shown


def test_texts_unlike_the_calibration_texts_are_told(word_lm_folder, people_file, tmp_path, capsys):
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps({"text": f"THE DAY, {n}: 'we' came -- (home)."}) + "\n" for n in range(20)))
    assert detect(asked, "--lm", word_lm_folder, "--calibrate", people_file, "--json") == 0
    assert "unlike those of people" in json.loads(capsys.readouterr().out)["warning"]
    assert detect(asked, "--lm", word_lm_folder, "--calibrate", people_file) == 0
    assert "Warning: the texts are unlike those of people" in " ".join(capsys.readouterr().out.split())


def test_a_rate_that_so_few_texts_cannot_support_is_refused(word_lm_folder, people_file, tmp_path, capsys, monkeypatch):
    (tmp_path / "essay.txt").write_text(TEXT)
    command = [tmp_path / "essay.txt", "--lm", word_lm_folder, "--false-positives", 0.01]
    judged = []
    judge = Detector.detect
    monkeypatch.setattr(Detector, "detect", lambda *own, **how: judged.append(own) or judge(*own, **how))
    assert detect(*command, "--calibrate", people_file) == 2
    assert "39 texts of people" in capsys.readouterr().err
    assert len(judged) == 1  # people's texts, and not those asked about
    assert detect(*command) == 2
    assert "no texts of people are known to this detector" in capsys.readouterr().err


def test_another_lm_without_calibration_gives_energies_alone(word_lm_folder, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    assert detect(tmp_path / "essay.txt", "--lm", word_lm_folder, "--scorer", "curvature") == 0
    shown = capsys.readouterr().out
    assert "energy" in shown
    assert "p-value" not in shown


def test_a_trained_detector_knows_people_it_was_calibrated_on(model, tmp_path, capsys):
    (tmp_path / "essay.txt").write_text(TEXT)
    assert detect(model, tmp_path / "essay.txt", "--false-positives", 0.3, "--json") == 0
    (text,) = json.loads(capsys.readouterr().out)["texts"]
    assert 0 < text["probability"] < 1
    assert 0 < text["p_value"] <= 1
    assert detect(model, tmp_path / "essay.txt", "--scorer", "likelihood") == 2
    assert "leave them out, or the detector" in capsys.readouterr().err


def test_lines_and_shards_say_what_a_table_does(word_lm_folder, people_file, tmp_path, capsys):
    asked = tmp_path / "asked.csv"
    asked.write_text('id,body\n1,"' + TEXT.replace(". ", '.\n""') + '"\n2,a\n3,' + TEXT.replace(",", "") + "\n")
    command = [asked, "--text-field", "body", "--lm", word_lm_folder]
    people = people_file.read_text().replace('"text"', '"body"')
    people_file.write_text(people)
    options = ["--calibrate", people_file, "--false-positives", 0.1]
    assert detect(*command, *options, "--json") == 1
    expected = json.loads(capsys.readouterr().out)["texts"]
    for way in (["--lines"], ["--out", tmp_path / "out"]):
        assert detect(*command, *options, *way) == 1
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert "reason" in rows[1]
        judged = [rows[0], rows[2]]
        assert [row["place"] for row in judged] == [text["place"] for text in expected]
        for row, text in zip(judged, expected, strict=True):
            assert row["energy"] == pytest.approx(text["energy"], abs=1e-5)
            assert (row["p_value"], row["verdict"]) == (text["p_value"], text["verdict"])
            assert "probability" not in row


@pytest.mark.usefixtures("own_cache")
def test_an_evaluation_in_the_terminal_as_json_and_as_pages(word_lm_folder, text_pairs_file, tmp_path, capsys):
    fields = ["--human-field", "human", "--machine-field", "machine"]
    command = ["detect", "evaluate", str(text_pairs_file), *fields, "--lm", str(word_lm_folder), "--by", "file,length"]
    assert run_command([*command, "--report", str(tmp_path / "page.html")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "texts AUC at 1 % at 5 %" in shown
    assert "By length" in shown
    page = (tmp_path / "page.html").read_text()
    assert "<td>pairs.jsonl</td>" in page
    assert run_command([*command, "--report", str(tmp_path / "page.md"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overall"]["people"] == found["overall"]["machines"] == 30
    assert found["by"]["file"]["pairs.jsonl"] == found["overall"]
    assert "| pairs.jsonl | 30 | 30 |" in (tmp_path / "page.md").read_text()
    assert detect("evaluate", text_pairs_file, "--lm", word_lm_folder) == 2
    assert "there is no field `label`" in capsys.readouterr().err


def test_a_stopped_evaluation_goes_on_where_it_was(word_lm_folder, text_pairs_file, tmp_path, capsys, monkeypatch):
    fields = ["--human-field", "human", "--machine-field", "machine", "--lm", word_lm_folder, "--json"]
    assert detect("evaluate", text_pairs_file, *fields, "--out", tmp_path / "whole") == 0
    whole = capsys.readouterr().out
    stopped = killed_once(evaluation_scores._scored, 3)
    monkeypatch.setattr(evaluation_scores, "_scored", stopped)
    command = ["evaluate", text_pairs_file, *fields, "--out", tmp_path / "stopped"]
    assert detect(*command) == 130
    assert capsys.readouterr().err.endswith("stopped; run the same command again to go on\n")
    assert detect(*command) == 0
    output = capsys.readouterr()
    assert output.out == whole
    assert "texts 32/60" in output.err or "texts 60/60" in output.err
    assert len(stopped.calls) == 3 + 2


@pytest.mark.usefixtures("own_cache")
def test_an_evaluation_of_a_trained_detector(model, text_pairs_file, capsys):
    fields = ["--human-field", "human", "--machine-field", "machine"]
    assert detect("evaluate", model, text_pairs_file, *fields, "--false-positives", 0.3, "--json") == 0
    overall = json.loads(capsys.readouterr().out)["overall"]
    assert 0 <= overall["calibration_error"]["value"] <= 1
    assert 0 <= overall["accused"]["value"] <= 1
