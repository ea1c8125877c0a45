"""Sentences to learn from, to choose on and to judge on: tagged, or translated."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lexergy.data.reading import numbered_lines, read_text
from lexergy.data.tagging.files import Layout, load_tagged
from lexergy.data.tagging.splits import load_tagged_splits
from lexergy.data.translation.pairs import load_pairs
from lexergy.data.translation.words import load_word_pairs, words_of
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_text, read_json, reading
from lexergy.recipes.search_aware import TaggedRecipe, TranslatedRecipe

LAYOUT_KEYS = {"format", "word_column", "label_column", "scheme"}


class Example(NamedTuple):
    """A sentence and what is to be written for it, nothing where that is to be predicted."""

    place: str
    words: tuple[str, ...]
    outputs: tuple[str, ...] = ()


class Examples(NamedTuple):
    """The three parts of data, and what is to be told of its reading."""

    train: list[Example]
    validation: list[Example]
    test: list[Example]
    messages: list[str]


class ReadFile(NamedTuple):
    examples: list[Example]
    messages: list[str]


def load_examples(recipe: TaggedRecipe | TranslatedRecipe, seed: int) -> Examples:
    """The examples of a recipe's data; training sentences that are too long are left out."""
    if isinstance(recipe, TranslatedRecipe):
        splits, messages = load_word_pairs(**recipe.model_dump(exclude={"kind"}), seed=seed)
        train, validation, test = ([Example(recipe.source, *pair) for pair in part] for part in splits)
        return Examples(train, validation, test, messages)
    layout = Layout(**recipe.model_dump(include=LAYOUT_KEYS))
    tagged = load_tagged_splits(
        recipe.source, layout, validation=recipe.validation, test=recipe.test, share=recipe.share, seed=seed
    )
    train, validation, test = (
        [Example(sentence.place, sentence.words, sentence.labels or ()) for sentence in file.sentences]
        for file in tagged
    )
    short = [example for example in train if recipe.max_words is None or len(example.words) <= recipe.max_words]
    messages = tagged.messages()
    if not short:
        raise LexergyError(f"`max_words` is {recipe.max_words} and leaves no sentence to learn from; raise it.")
    if len(short) < len(train):
        messages.append(f"{len(train) - len(short)} training sentences of more than {recipe.max_words} words left out")
    return Examples(short, validation, test, messages)


def read_tagged(source: str, layout: Layout) -> ReadFile:
    """The sentences of a file; what cannot be read is told, the rest is there."""
    file = load_tagged(source, layout)
    examples = [Example(sentence.place, sentence.words, sentence.labels or ()) for sentence in file.sentences]
    return ReadFile(examples, file.messages())


def read_sentences(source: str) -> ReadFile:
    """The sentences of a file to translate, one per line."""
    path = Path(source)
    if not path.is_file():
        raise LexergyError(f"the file {source} does not exist; expected sentences to translate, one a line.")
    lines = [(number, words_of(line)) for number, line in numbered_lines(read_text(path))]
    if not lines:
        raise LexergyError(f"the file {source} holds no sentence; expected sentences to translate, one a line.")
    return ReadFile([Example(f"{source}:{number}", words) for number, words in lines if words], [])


def read_translations(source: str) -> ReadFile:
    """The pairs of a file with tabs: a sentence, a translation; what cannot be read is told, the rest is there."""
    file = load_pairs(source)
    return ReadFile([Example(source, *map(words_of, pair)) for pair in file.pairs], file.messages())


def save_examples(examples: Examples, path: Path) -> None:
    atomic_write_text(path, json.dumps(examples._asdict(), ensure_ascii=False))


def stored_examples(path: Path) -> Examples:
    """What `save_examples` wrote."""
    with reading(path):
        content = read_json(path, dict)
        messages = content.pop("messages")
        parts = {
            name: [Example(place, tuple(words), tuple(outputs)) for place, words, outputs in part]
            for name, part in content.items()
        }
        return Examples(**parts, messages=messages)


def words_and_outputs(examples: Sequence[Example]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Both sides, for a model."""
    return [example.words for example in examples], [example.outputs for example in examples]
