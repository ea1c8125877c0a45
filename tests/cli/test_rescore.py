"""`lexergy rescore` with tiny models."""

import json

import pytest

from toys.commands import json_of, output_of

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def command(cloze_run, nbest_files):
    return ["rescore", nbest_files["test"], "--model", cloze_run / "electric"]


def test_models_stand_beside_the_first_pass_and_the_oracle(command, cloze_run, nbest_files, tmp_path, capsys):
    out = tmp_path / "better.jsonl"
    result = json_of([*command, "--model", cloze_run / "two-tower", "--dev", nbest_files["dev"], "--out", out], capsys)
    names = [system["name"] for system in result["systems"]]
    models = [str(cloze_run / "electric"), str(cloze_run / "two-tower")]
    assert names == ["1-best", "oracle", *models, " + ".join(models)]
    assert [system["test"] for system in result["systems"][:2]] == [100.0, 0.0]
    assert len(out.read_text().splitlines()) == 5
    without_model = json_of(["rescore", nbest_files["test"], "--dev", nbest_files["dev"]], capsys)
    assert without_model["systems"] == result["systems"][:2]
    few = json_of(["rescore", nbest_files["test"], "--utterances", 2], capsys)
    assert few["num_utterances"] == 2


@pytest.mark.parametrize("options", [[], ["--relative", "1"]], ids=["plain", "relative"])
def test_the_first_pass_and_the_model_s_score_are_added(command, options, cloze_run, nbest_files, tmp_path, capsys):
    """The scores are those of `lexergy score` with the same option."""
    out, texts = tmp_path / "better.json", tmp_path / "texts.txt"
    system = json_of([*command, "--lambda", 0.5, "--out", out, *options], capsys)["systems"][2]
    assert system["weights"] == [{"score": 0.5, "frequencies": 1.0 if options else 0.0}]
    given = json.loads(nbest_files["test"].read_text())["test-0"]
    hypotheses = [given["hyp_1"], given["hyp_2"]]
    texts.write_text("".join(f"{hypothesis['text'].strip()}\n" for hypothesis in hypotheses))
    scores = output_of(["score", cloze_run / "electric", texts, "--json", *options[:1]], capsys).out.splitlines()
    expected = {
        hypothesis["text"].strip(): hypothesis["score"] + 0.5 * json.loads(score)["log_score"]
        for hypothesis, score in zip(hypotheses, scores, strict=True)
    }
    better = json.loads(out.read_text())["test-0"]
    combined = {better[name]["text"].strip(): better[name]["score"] for name in ("hyp_1", "hyp_2")}
    assert combined == pytest.approx(expected, abs=1e-4)


def test_the_table_for_people(command, cloze_run, capsys):
    table = " ".join(output_of([*command, "--model", cloze_run / "two-tower", "--lambda", 0.5], capsys).out.split())
    for part in ("1-best", "electric against the 1-best:", "two-tower against the first model:"):
        assert part in table


def test_a_cascade_from_the_command_line(command, cloze_run, nbest_files, capsys):
    options = ["--then", cloze_run / "two-tower", "--keep", 1, "--dev", nbest_files["dev"], "--relative", "auto"]
    result = json_of([*command, *options], capsys)
    assert [len(system["weights"]) for system in result["systems"]] == [0, 0, 1, 1, 2]
    alone, reads_one = result["systems"][2:4]
    assert reads_one["num_read"] * 2 == alone["num_read"]
    assert reads_one["test"] == alone["test"]  # of one hypothesis there is nothing to choose
