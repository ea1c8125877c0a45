"""Short phoneme sequences of the CMU pronouncing dictionary (Lenzo et al. 2007)."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lexergy.data.folder import locate
from lexergy.errors import LexergyError

PAD = -1
MAX_LENGTH = 6
COMMENT = ";;;"


@dataclass(frozen=True)
class Phonemes:
    """Pronunciations as numbers of phonemes; alternates are entries of their own."""

    symbols: tuple[str, ...]
    tokens: Tensor  # (N, L), -1 after the end


def load_phonemes(path: str | Path, max_length: int = MAX_LENGTH) -> Phonemes:
    """The entries of a cmudict file with at most so many phonemes, their stress marks removed."""
    try:
        lines = locate(path).read_text(encoding="latin-1").splitlines()
    except OSError as error:
        raise LexergyError(
            f"the pronouncing dictionary {path} cannot be read ({error.strerror}); expected the file cmudict-0.7b."
        ) from error
    entries = [line.split()[1:] for line in lines if line.strip() and not line.startswith(COMMENT)]
    entries = [[phoneme.rstrip("012") for phoneme in entry] for entry in entries]
    symbols = tuple(sorted({phoneme for entry in entries for phoneme in entry}))
    number = {symbol: index for index, symbol in enumerate(symbols)}
    short = [entry for entry in entries if 1 <= len(entry) <= max_length]
    if not short:
        raise LexergyError(f"{path} holds no entry of 1 to {max_length} phonemes; expected the file cmudict-0.7b.")
    padded = [[number[phoneme] for phoneme in entry] + [PAD] * (max_length - len(entry)) for entry in short]
    return Phonemes(symbols, torch.tensor(padded))


def split_entries(tokens: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:  # (N, L)
    """Entries at random into two parts, the second with `share` of them. Homophones may stand in both."""
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))
    size = round(share * len(tokens))
    return tokens[order[size:]], tokens[order[:size]]


def split_sequences(tokens: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:  # (N, L)
    """Different sequences at random into two parts that share none; all entries of a sequence go with it."""
    unique, group = tokens.unique(dim=0, return_inverse=True)
    order = torch.randperm(len(unique), generator=torch.Generator().manual_seed(seed))
    held_out = torch.zeros(len(unique), dtype=torch.bool)
    held_out[order[: round(share * len(unique))]] = True
    return tokens[~held_out[group]], tokens[held_out[group]]
