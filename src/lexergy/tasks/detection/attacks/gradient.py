"""Tokens replaced where the gradient of a detector's energy promises most (App. F, Bakhtin et al. 2019)."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from lexergy.data.detection.attacks import Attack
from lexergy.data.detection.attacks.places import check_strength
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detector
from lexergy.models.detection.readers import EncoderReader, TokenisedText
from lexergy.models.energies import TransformerEnergy
from lexergy.models.energies.perturbations import attack, token_embedding


class _MarkedRows(nn.Module):
    """An encoder's energy of rows that hold the marks which it puts around a text."""

    def __init__(self, energy: TransformerEnergy, before: int, after: int) -> None:
        super().__init__()
        self.energy = energy
        self.before, self.after = before, after

    def score(self, prefix: Tensor, continuations: Tensor) -> Tensor:  # (B, 0), (B, K, L) -> (B, K)
        return self.energy.score(prefix, continuations[..., self.before : continuations.shape[-1] - self.after])


def gradient_guided(detector: Detector) -> Attack:
    """An attack that knows the detector: an encoder's, through which the energy has a gradient.

    The strength is a share of the tokens; whole words are replaced by whole words. `seed` changes nothing.
    """
    reader = detector.reader
    if not isinstance(reader, EncoderReader):
        raise LexergyError(
            "the gradient attack needs a detector that is an encoder (`lexergy detect train --encoder`); this one "
            "reads likelihoods, which have no gradient in the words; leave `gradient` out of `--attacks`."
        )
    tokens = reader.tokenizer.convert_ids_to_tokens(list(range(len(reader.tokenizer))))
    size = token_embedding(reader.energy).num_embeddings
    forbidden = tuple(token for token in range(size) if token >= len(tokens) or not tokens[token].isalpha())

    def apply(text: str, strength: float, seed: int) -> str:
        check_strength(strength)
        read = reader.tokenise(text)
        parts, end = [], 0
        for place, token in _replacements(reader, read, detector.settings.block_tokens, strength, forbidden):
            first, last = read.characters[place]
            parts += [text[end:first], tokens[token]]
            end = last
        return "".join([*parts, text[end:]])

    return apply


def _replacements(
    reader: EncoderReader, read: TokenisedText, block_tokens: int, strength: float, forbidden: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Places and their new tokens, in order, found block by block."""
    is_word = torch.tensor([_is_word(read.text, *characters) for characters in read.characters])
    for start in range(0, len(read.ids), block_tokens):
        ids = read.ids[start : start + block_tokens]
        rows = reader.energy.reader.own_rows([ids], torch.device("cpu"))
        inside = rows.continuation[0].nonzero().squeeze(1)  # (L,)
        allowed = rows.continuation.clone()
        allowed[0, inside] = is_word[start : start + block_tokens]
        count = min(round(strength * len(ids)), int(allowed.sum()))
        energy = _MarkedRows(reader.energy, int(inside[0]), rows.tokens.shape[1] - int(inside[-1]) - 1)
        *_, last = attack(energy, rows.tokens, allowed, "lower", replacements=count, forbidden_tokens=forbidden)
        changed = last.windows[0, inside].tolist()
        yield from (
            (start + place, token) for place, (token, old) in enumerate(zip(changed, ids, strict=True)) if token != old
        )


def _is_word(text: str, first: int, last: int) -> bool:
    """Whether some characters are a word from beginning to end."""
    before, after = text[first - 1 : first], text[last : last + 1]
    return text[first:last].isalpha() and not (before.isalnum() or after.isalnum())
