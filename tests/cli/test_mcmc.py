"""`lexergy mcmc` end to end on a tiny masked LM."""

import json
from types import SimpleNamespace

import psutil
import pytest
from transformers import BertModel

from lexergy.cli.main import run_command
from lexergy.testing import EnumerableMaskedLM
from toys.language_models import tiny_gpt2
from toys.translators import EnumerableTranslator

QUICK = ["--sweeps", "6", "--burn-in", "1", "--chains", "3"]


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    EnumerableMaskedLM().save_pretrained(folder)
    return str(folder)


def test_free_text(masked_lm, capsys, tmp_path):
    plot = tmp_path / "chains.png"
    assert run_command(["mcmc", masked_lm, "--length", "4", *QUICK, "--plot", str(plot)]) == 0
    output = capsys.readouterr()
    assert "where a chain ended" in output.out
    assert "WARNING: the chains have not mixed" in output.out.replace("\n", " ")
    assert f"Picture: {plot}" in output.out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "mcmc 6/6" in output.err
    assert "acceptance" in output.err


def test_prompts_as_json(masked_lm, capsys):
    prompts = ["the [MASK] [MASK] of the union", "union [MASK] strong"]
    arguments = ["mcmc", masked_lm, *QUICK, "--target", "raw", "--json"]
    assert run_command([*arguments, "--prompt", prompts[0], "--prompt", prompts[1]]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["prompt"] == prompts[0]
    assert len(first["samples"]) == 3
    assert all(sample["text"].endswith("of the union") for sample in first["samples"])
    assert [len(trace) for trace in second["energies"]] == [6, 6, 6]
    assert second["mixed"] is False
    assert set(second["mixing"]) == {"r_hat", "ess", "num_chains", "num_draws"}


def test_translations(masked_lm, capsys, tmp_path):
    EnumerableTranslator().save_pretrained(tmp_path)
    sentences = ["the state", "union of union"]
    words = [word for sentence in sentences for word in ("--translate", sentence)]
    assert run_command(["mcmc", str(tmp_path), *QUICK, "--start", "gibbs", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [sentence["prompt"] for sentence in found] == sentences
    assert all(len(sentence["samples"]) == 3 for sentence in found)
    assert run_command(["mcmc", masked_lm, "--translate", "the state"]) == 2
    assert "holds no conditional masked LM" in capsys.readouterr().err.replace("\n", " ")
    assert run_command(["mcmc", str(tmp_path), "--translate", "the state", "--length", "3"]) == 2
    assert "expected it alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--sampler", "gibbs"], "follow no energy's distribution"),
        (["--cooling", "0.05"], "The target was cooled"),
        (["--chains", "1"], "cannot be told"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_said_of_the_chains(masked_lm, capsys, options, sentence):
    assert run_command(["mcmc", masked_lm, "--length", "2", *QUICK, *options]) == 0
    assert sentence in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize("start", ["sampled", "dispersed"])
def test_chains_that_mix_are_said_to_have_mixed_at_the_defaults(masked_lm, capsys, start):
    """Two words of six: all fillings are soon met."""
    assert run_command(["mcmc", masked_lm, "--length", "2", "--start", start]) == 0
    assert "The chains have mixed: split R-hat 1.0" in capsys.readouterr().out.replace("\n", " ")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A causal LM, and an encoder without its head."""
    folder = tmp_path_factory.mktemp("others")
    tiny_gpt2(11, 32).save_pretrained(folder / "gpt2")
    BertModel(EnumerableMaskedLM().model.config).save_pretrained(folder / "encoder")
    return folder


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["MODEL", "--length", "0"], ["`--length` is 0", "at least 1"]),
        (["MODEL", "--prompt", "the state"], ["no mask", "[MASK]"]),
        (["MODEL", "--prompt", "[MASK]", "--length", "3"], ["`--length` is 3 beside `--prompt`"]),
        (["MODEL", "--chains", "1000000000"], ["`--chains` is 1000000000", "expected at most"]),
        (["MODEL", "--length", "500"], ["502 tokens", "at most 32"]),
        (["MODEL", "--burn-in", "140"], ["`--burn-in` is 140 of 100 sweeps"]),
        (["MODEL", "--top-p", "0"], ["`--top-p` is 0"]),
        (["OTHERS/gpt2"], ["holds GPT2LMHeadModel", "expected a masked LM with its head"]),
        (["OTHERS/encoder"], ["holds BertModel"]),
        (["nowhere/at/all"], ["nowhere/at/all", "does not exist"]),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else None,
)
def test_mistakes(masked_lm, others, capsys, arguments, parts):
    words = [word.replace("MODEL", masked_lm).replace("OTHERS", str(others)) for word in arguments]
    assert run_command(["mcmc", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "Traceback" not in output.err
    for part in parts:
        assert part in output.err


def test_chains_that_need_more_memory_than_is_free(masked_lm, capsys, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100))
    assert run_command(["mcmc", masked_lm, "--chains", "1000"]) == 2
    error = capsys.readouterr().err
    assert "`chains` is 1000: they need about" in error
    assert "GB of memory" in error
    assert "expected at most 0" in error


def test_a_tokenizer_without_a_mask_token(capsys, tmp_path):
    lm = EnumerableMaskedLM()
    lm.tokenizer.mask_token = None
    lm.save_pretrained(tmp_path)
    assert run_command(["mcmc", str(tmp_path)]) == 2
    assert "no mask token" in capsys.readouterr().err
