"""What is asked for is made once, differs where it should, and goes on after a kill."""

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.tasks.real_or_fake import texts as module
from lexergy.tasks.real_or_fake.laboratory import open_laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet
from lexergy.training.objectives.contrastive import pair_energies
from toys.kills import killed_once
from toys.laboratory import laboratory_recipe

WANTED = TextSet("sotu", "transf-big")


def refuse(*arguments, **settings):
    raise AssertionError("made again")


def test_what_is_there_is_not_made_again(toy_laboratory, monkeypatch):
    first = toy_laboratory.scores("unit", [WANTED], WANTED)
    for place in ("generators.train_lm", "texts.write_twins", "energies.train_into", "laboratory.pair_energies"):
        monkeypatch.setattr(f"lexergy.tasks.real_or_fake.{place}", refuse)
    again = toy_laboratory.scores("unit", [WANTED], WANTED)
    assert (again.energies == first.energies).all()
    with pytest.raises(AssertionError, match="made again"):
        toy_laboratory.scores("unit", [TextSet("sotu", "transf-big", contexts=(4,))], WANTED)


def test_scores_are_the_energies_of_whole_windows(toy_laboratory):
    energy = toy_laboratory.energies.load("linear", [WANTED])
    texts = toy_laboratory.texts.read(WANTED, "test")
    scores = toy_laboratory.scores("linear", [WANTED], WANTED)
    assert scores.energies.shape == (len(texts.people), 3)
    torch.testing.assert_close(torch.from_numpy(scores.energies), pair_energies(energy, texts.contrast))
    with torch.no_grad():
        alone = energy.score(texts.machine[:, 1, :0], texts.machine[:, 1:2]).squeeze(1)
    torch.testing.assert_close(torch.from_numpy(scores.energies[:, 2]).float(), alone)
    assert scores.documents == tuple(texts.documents)


def test_test_texts_are_of_a_twin_of_another_seed(toy_laboratory):
    stages = {
        (side, split): toy_laboratory.generators.stage("transf-big", "sotu", side, split)
        for side in ("prefix", "suffix")
        for split in ("train", "validation", "test")
    }
    assert stages["prefix", "train"].key == stages["prefix", "validation"].key
    assert len({stage.seed for stage in stages.values()}) == len({stage.folder for stage in stages.values()}) == 4
    weights = [
        next(toy_laboratory.generators.load("transf-big", "sotu", "prefix", split).model.parameters())
        for split in ("train", "test")
    ]
    assert not torch.equal(*weights)


def test_splits_share_no_document(toy_laboratory):
    documents = [set(toy_laboratory.texts.read(WANTED, split).documents) for split in ("train", "validation", "test")]
    assert not documents[0] & documents[1]
    assert not documents[0] & documents[2]
    assert not documents[1] & documents[2]


def test_likelihood_as_energy_is_thresholded_on_validation(toy_laboratory):
    scores = toy_laboratory.likelihood_scores(WANTED)
    texts = toy_laboratory.texts.read(WANTED, "test")
    lm = toy_laboratory.generators.load("transf-big", "sotu", "prefix", "train")
    log_prob = lm.token_log_prob(texts.people, prefix_length=1).mean(1).numpy()
    line = [(scores.energies[row, 0] - scores.energies[0, 0]) / (log_prob[row] - log_prob[0]) for row in range(1, 4)]
    assert line == pytest.approx([line[0]] * 3)
    assert abs(line[0]) == pytest.approx(1)


def test_killed_texts_go_on(tmp_path, monkeypatch):
    recipe = LaboratoryRecipe.model_validate(laboratory_recipe(tmp_path))
    monkeypatch.setattr(module, "TWINS_PER_SHARD", 20)
    write = module.write_twins
    killed = killed_once(write, 2)
    monkeypatch.setattr(module, "write_twins", killed)
    with pytest.raises(KeyboardInterrupt), open_laboratory(recipe, tmp_path / "a", progress=False) as laboratory:
        laboratory.texts.read(WANTED, "test")
    with open_laboratory(recipe, tmp_path / "a", progress=False) as laboratory:
        resumed = laboratory.texts.read(WANTED, "test")
    assert [ids for _, _, ids, *_ in killed.calls] == [range(10), range(10, 20), range(10, 20), range(20, 24)]
    monkeypatch.setattr(module, "write_twins", write)
    monkeypatch.setattr(module, "TWINS_PER_SHARD", 1000)  # shards change speed, never results
    with open_laboratory(recipe, tmp_path / "b", progress=False) as laboratory:
        assert torch.equal(laboratory.texts.read(WANTED, "test").machine, resumed.machine)


def test_mistakes(toy_laboratory, tmp_path):
    with pytest.raises(LexergyError, match="no energy `units`; expected one of linear,"):
        toy_laboratory.scores("units", [WANTED], WANTED)
    with pytest.raises(LexergyError, match="no corpus `bible`; expected one of sotu, wikitext"):
        toy_laboratory.texts.read(TextSet("bible", "transf-big"), "test")
    with pytest.raises(LexergyError, match="no generator `gpt2`; expected one of transf-big,"):
        toy_laboratory.texts.read(TextSet("sotu", "gpt2"), "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_from": "gpt"}, "`start_from` is gpt; expected one of transf-big"),
        (
            {"tokenizer": {"vocab_size": 300, "corpora": ["x"]}},
            "`tokenizer.corpora` has x; expected some of the corpora",
        ),
        (
            {"windows": {"length": 8, "stride": 4, "contexts": [8]}},
            "`contexts` has 8 and `length` is 8; expected shorter",
        ),
        (
            {"windows": {"length": 30, "stride": 6, "contexts": [8]}},
            "`generators.transf-big.max_length` is 24; expected",
        ),
    ],
)
def test_a_mistake_in_a_recipe_is_told(tmp_path, changes, message):
    import yaml

    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(laboratory_recipe(tmp_path) | changes, sort_keys=False))
    with pytest.raises(LexergyError) as caught:
        load_recipe(path, LaboratoryRecipe)
    assert message in str(caught.value)
