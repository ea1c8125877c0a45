"""A run whose LM is behind an address: the same stages, resumed when the server was away."""

import pyarrow.parquet as parquet
import pytest

from lexergy.errors import LexergyError
from lexergy.models.remote.client import Client
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.pages.run import write_report
from lexergy.tasks.residual import negatives
from lexergy.tasks.residual.run import run
from lexergy.testing import save_tiny_encoder, served_lm
from toys.recipes import TRAINING


@pytest.fixture(scope="module")
def url(byte_lm):
    with served_lm(byte_lm.without_special_tokens()) as address:
        yield address


@pytest.fixture(scope="module")
def recipe(url, byte_lm, tiny_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    byte_lm.tokenizer.save_pretrained(folder / "tokenizer")
    save_tiny_encoder(folder / "encoder", ["the", "people", "union"])

    def made(**changes) -> ResidualRecipe:
        content = {
            "name": "far",
            "corpus": {"source": str(tiny_corpus), "validation": 0.2, "test": 0.2},
            "windows": {"prefix": 6, "continuation": 5, "train": 16, "validation": 8, "test": 3},
            "lm": {"source": f"openai:{url}", "tokenizer": str(folder / "tokenizer")},
            "energies": {"text": {"kind": "encoder", "source": str(folder / "encoder"), "training": TRAINING}},
            "perplexity": {"samples": 4},
            "generation": {"prompts": ["our union"], "candidates": 4, "max_new_tokens": 4},
        }
        return ResidualRecipe.model_validate(content | changes)

    return made


def drawn(folder):
    shards = sorted((folder / "negatives").glob("*.parquet"))
    return [parquet.read_table(shard).column("tokens").to_pylist() for shard in shards]


def test_all_stages_and_the_same_text_after_the_server_was_away(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(negatives, "ROWS_PER_SHARD", 6)
    result = run(recipe(), tmp_path / "whole", progress=False)
    assert result.energies["text"].perplexity.num_windows == 3
    assert result.generations[0].num_candidates == 4

    post, count = Client.post_all, [0]

    def failing(self, path, bodies):
        count[0] += 1
        if count[0] == 3:
            raise LexergyError(f"{self.url} did not answer")
        return post(self, path, bodies)

    monkeypatch.setattr(Client, "post_all", failing)
    with pytest.raises(LexergyError, match="did not answer"):
        run(recipe(), tmp_path / "again", progress=False)
    assert len(drawn(tmp_path / "again")) == 2  # of four shards
    monkeypatch.setattr(Client, "post_all", post)
    again = run(recipe(), tmp_path / "again", progress=False)
    assert drawn(tmp_path / "again") == drawn(tmp_path / "whole")
    # Who shares a batch at the server changes the last digits of its log-probabilities, never a text.
    bounds = [made.energies["text"].perplexity.bound for made in (again, result)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-5)


def test_without_perplexity_the_run_and_its_report_say_so(recipe, tmp_path):
    result = run(recipe(perplexity=None), tmp_path / "run", progress=False)
    assert result.estimates == {}
    assert "perplexity" not in result.seconds
    with pytest.raises(LexergyError, match="its recipe has `perplexity: null`"):
        _ = result.energies["text"].perplexity
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "no perplexity was measured" in page
    assert "of validation pairs (50 % would be chance)" in page


def test_a_perplexity_that_the_server_cannot_give_is_refused_before_anything_is_drawn(recipe, tmp_path, monkeypatch):
    from lexergy.models.remote.lm import RemoteLM

    monkeypatch.setattr(RemoteLM, "unscored", "llama.cpp gives no log-probabilities of a prompt")
    with pytest.raises(LexergyError, match=r"cannot be measured with openai:.*or `perplexity: null` in the recipe"):
        run(recipe(), tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "negatives").exists()
