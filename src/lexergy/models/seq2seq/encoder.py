"""The input side of a sequence-to-sequence model: words to vectors, vectors to states that know their sentence."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lexergy.core.ends import inside

CHARACTER_SIZE = 16  # of the vectors that the convolution over characters reads
CHARACTER_WIDTH = 3


class Sources(NamedTuple):
    """A batch of input sentences, padded at their ends with anything.

    A word is a row of `features`: its number, and those of its suffix, its shape, ... in vocabularies of their own.
    """

    features: Tensor  # (B, S, F)
    lengths: Tensor  # (B,)
    characters: Tensor | None = None  # (B, S, C), 0 after a word's last character

    def select(self, rows: Tensor) -> "Sources":
        """These sentences, without the columns in which all of them have ended."""
        lengths = self.lengths[rows]
        longest = int(lengths.max())
        characters = None if self.characters is None else self.characters[rows, :longest]
        return Sources(self.features[rows, :longest], lengths, characters)

    def to(self, device: torch.device) -> "Sources":
        characters = None if self.characters is None else self.characters.to(device)
        return Sources(self.features.to(device), self.lengths.to(device), characters)


class WordVectors(nn.Module):
    """The vectors of a word's features and of its characters, side by side."""

    def __init__(
        self, vocab_sizes: list[int], feature_sizes: list[int], num_characters: int, character_size: int
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(*sizes) for sizes in zip(vocab_sizes, feature_sizes, strict=True))
        self.size = sum(feature_sizes)
        self.characters: nn.Embedding | None = None
        if num_characters:
            self.characters = nn.Embedding(num_characters, CHARACTER_SIZE)
            self.convolution = nn.Conv1d(CHARACTER_SIZE, character_size, CHARACTER_WIDTH, padding=CHARACTER_WIDTH // 2)
            self.size += character_size

    def forward(self, sources: Sources) -> Tensor:  # -> (B, S, W)
        vectors = [table(column) for table, column in zip(self.tables, sources.features.unbind(-1), strict=True)]
        if self.characters is not None:
            assert sources.characters is not None
            vectors.append(self._spelling(sources.characters))
        return torch.cat(vectors, dim=-1)

    def _spelling(self, characters: Tensor) -> Tensor:  # (B, S, C) -> (B, S, W')
        """The maximum over places of a convolution (Ma & Hovy 2016), whatever padding follows."""
        assert self.characters is not None
        rows = characters.flatten(0, 1)  # (B S, C)
        written = (rows > 0).unsqueeze(1)  # (B S, 1, C)
        embedded = self.characters(rows).transpose(1, 2) * written
        strengths = self.convolution(embedded).tanh().masked_fill(~written, -1.0).amax(dim=-1)
        return strengths.view(*characters.shape[:2], -1)


class Encoding(NamedTuple):
    states: Tensor  # (B, S, D)
    last: Tensor  # (B, D), what each direction has read at its end
    lengths: Tensor  # (B,)


class Encoder(nn.Module):
    """An LSTM over the words, or two that read both ways: with one alone, state i knows words 1 .. i (5.4.2)."""

    def __init__(self, input_size: int, hidden_size: int, bidirectional: bool) -> None:
        super().__init__()
        self.forwards = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.backwards = nn.LSTM(input_size, hidden_size, batch_first=True) if bidirectional else None
        self.size = hidden_size * (2 if bidirectional else 1)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Encoding:  # (B, S, W), (B,)
        states, _ = self.forwards(vectors)
        last = _at(states, lengths - 1)
        if self.backwards is not None:
            # Sentences are turned within their lengths, so that their padding stays at the end, where it is not seen.
            places = turned_places(lengths, vectors.shape[1])
            turned, _ = self.backwards(_rows(vectors, places))
            states = torch.cat([states, _rows(turned, places)], dim=-1)
            last = torch.cat([last, _at(turned, lengths - 1)], dim=-1)
        return Encoding(states, last, lengths)


def turned_places(lengths: Tensor, size: int) -> Tensor:  # (B,) -> (B, S)
    """Where the words of sentences stand when these are read from the right; padding stays where it is."""
    places = torch.arange(size, device=lengths.device).expand(len(lengths), -1)
    return torch.where(inside(lengths, size), lengths.unsqueeze(1) - 1 - places, places)


def _rows(vectors: Tensor, places: Tensor) -> Tensor:  # (B, S, D), (B, S) -> (B, S, D)
    return vectors.gather(1, places.unsqueeze(-1).expand(-1, -1, vectors.shape[-1]))


def _at(states: Tensor, place: Tensor) -> Tensor:  # (B, S, D), (B,) -> (B, D)
    return states[torch.arange(len(states), device=states.device), place]
