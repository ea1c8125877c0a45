"""Texts of a generator with another tokenizer come back as the energies' tokens, people's the same way."""

import pytest
import torch
import yaml

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.tasks.real_or_fake.foreign_texts import SLACK
from lexergy.tasks.real_or_fake.laboratory import open_laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet
from toys.laboratory import laboratory_recipe

WANTED = TextSet("sotu", "stranger", sides=("prefix",))


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    """With a generator of long tokens, that was trained on nothing."""
    folder = tmp_path_factory.mktemp("foreign")
    recipe = laboratory_recipe(folder)
    texts = [path.read_text() for path in sorted((folder / "sotu").iterdir())]
    stranger = folder / "stranger"
    tokenizer = train_tokenizer(texts, 400, stranger)
    build_causal_lm(len(tokenizer), 16, 1, 2, 64, seed=0).save_pretrained(stranger)
    path = folder / "toy.yaml"
    path.write_text(
        yaml.safe_dump(recipe | {"found_generators": {"stranger": {"source": str(stranger), "windows": 20}}})
    )
    with open_laboratory(load_recipe(path, LaboratoryRecipe), folder / "toy", progress=False) as laboratory:
        yield laboratory


def test_twins_are_windows_of_the_energies_tokens(laboratory):
    texts = laboratory.texts.read(WANTED, "test")
    assert 0 < len(texts.people) <= 20
    assert texts.machine.shape[1] == 1
    assert texts.people.shape[1] == texts.machine.shape[2] == 16 - SLACK
    tokenizer = laboratory.corpora.tokenizer
    written = tokenizer.batch_decode(texts.machine[:, 0].tolist())
    people = tokenizer.batch_decode(texts.people.tolist())
    assert written != people
    for row, context in enumerate(texts.contexts.tolist()):
        # The last given tokens may be merged with the first written ones.
        shared = context - SLACK
        assert torch.equal(texts.machine[row, 0, :shared], texts.people[row, :shared])
    assert not torch.isin(texts.machine, torch.tensor(tokenizer.all_special_ids)).any()


def test_people_are_read_back_as_the_machine_is(laboratory):
    """No window of people's is in tokens that its own text would not give."""
    texts, tokenizer = laboratory.texts.read(WANTED, "test"), laboratory.corpora.tokenizer
    for tokens in (texts.people[0], texts.machine[0, 0]):
        again = tokenizer(tokenizer.decode(tokens.tolist()), add_special_tokens=False)["input_ids"]
        assert again[: len(tokens) - 1] == tokens.tolist()[:-1]  # the last one is cut from a longer text


def test_it_writes_left_to_right_only(laboratory):
    with pytest.raises(LexergyError, match="writes left to right; expected texts that follow a prefix"):
        laboratory.texts.read(TextSet("sotu", "stranger"), "test")
    assert isinstance(laboratory.generators.load("stranger", "sotu", "prefix", "test"), CausalLM)
