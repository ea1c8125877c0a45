"""A sequence-to-sequence model with its vocabularies: words in, labels or words out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch

from lexergy.data.vocabulary import SequenceVocabulary
from lexergy.errors import LexergyError
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.devices import default_device
from lexergy.models.loading.sources import model_type_of
from lexergy.models.loading.weights import load_weights
from lexergy.models.seq2seq.encoder import Sources
from lexergy.models.seq2seq.model import Seq2SeqConfig, Seq2SeqModel
from lexergy.models.seq2seq.pairs import SequencePairs, padded
from lexergy.models.seq2seq.search import decode
from lexergy.recipes.search_aware import SearchRecipe

Sentence = Sequence[str]
GREEDY = SearchRecipe()


class Seq2Seq:
    """A tagger or translator: `predict` writes a label for each word, or a translation.

    Examples:
        >>> from lexergy.data.vocabulary import build_sequence_vocabulary
        >>> from lexergy.models.seq2seq import Seq2Seq
        >>> sentences, labels = [["a", "dog", "barks"], ["a", "cat"]], [["D", "N", "V"], ["D", "N"]]
        >>> vocabulary = build_sequence_vocabulary(sentences, labels, features=["word"], minimum=1)
        >>> tagger = Seq2Seq.untrained(vocabulary, seed=0, feature_sizes=[8])  # `lexergy seq2seq train` would train it
        >>> [len(labels) for labels in tagger.predict([["a", "dog"], ["barks"]])]
        [2, 1]
    """

    def __init__(self, model: Seq2SeqModel, vocabulary: SequenceVocabulary) -> None:
        self.model = model
        self.vocabulary = vocabulary

    @classmethod
    def untrained(cls, vocabulary: SequenceVocabulary, *, seed: int, **settings: Any) -> Self:
        """A model of random weights over these vocabularies; `settings` are those of `Seq2SeqConfig`."""
        config = Seq2SeqConfig(
            vocab_sizes=[len(feature) for feature in vocabulary.features.values()],
            num_characters=len(vocabulary.characters or ()),
            num_symbols=len(vocabulary.outputs),
            **settings,
        )
        return cls(Seq2SeqModel.from_config(config, seed), vocabulary)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        if not Path(folder).is_dir() or model_type_of(folder) != Seq2SeqConfig.model_type:
            raise LexergyError(
                f"'{folder}' holds no sequence-to-sequence model; expected one that `lexergy seq2seq train` wrote; "
                "it goes on where it was stopped if it is run again."
            )
        model = load_weights(Seq2SeqModel, Path(folder))
        return cls(model.to(default_device()).eval(), SequenceVocabulary.load(folder))

    @without_bars()
    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model and its vocabularies to a folder."""
        self.model.save_pretrained(folder)
        self.vocabulary.save(folder)

    def predict(self, sentences: Sequence[Sentence], search: SearchRecipe = GREEDY) -> list[list[str]]:
        """What the search finds for each sentence."""
        return [
            self.vocabulary.outputs.decode(symbols) for symbols in decode(self.model, self.sources(sentences), search)
        ]

    def sources(self, sentences: Sequence[Sentence]) -> Sources:
        """Sentences as numbers."""
        rows = [torch.tensor(self.vocabulary.feature_numbers(sentence)) for sentence in sentences]  # (S, F) each
        features = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        characters = None
        if self.vocabulary.characters is not None:
            spelt = [self.vocabulary.character_numbers(sentence) for sentence in sentences]
            longest = max(len(word) for words in spelt for word in words)
            whole = [padded([*words, [0] * longest], value=0)[:-1] for words in spelt]  # (S, C) each
            characters = torch.nn.utils.rnn.pad_sequence(whole, batch_first=True)
        return Sources(features, torch.tensor([len(sentence) for sentence in sentences]), characters)

    def pairs(self, sentences: Sequence[Sentence], outputs: Sequence[Sentence]) -> SequencePairs:
        """Sentences and what is to be written for them; a translation ends with the end symbol."""
        end = self.model.config.end_symbol
        last = [] if end is None else [end]
        gold = [[*self.vocabulary.outputs.encode(symbols), *last] for symbols in outputs]
        return SequencePairs(self.sources(sentences), padded(gold), torch.tensor(list(map(len, gold))))
