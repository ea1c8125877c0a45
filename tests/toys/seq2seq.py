"""Sequence-to-sequence models in double precision, small enough to be compared by hand."""

from typing import Any

import torch

from lexergy.models.seq2seq import Seq2SeqConfig, Seq2SeqModel, Sources

NUM_WORDS, NUM_SUFFIXES, NUM_CHARACTERS, NUM_SYMBOLS, END = 11, 5, 7, 6, 5


def tiny_config(**changes: Any) -> Seq2SeqConfig:
    settings = {
        "vocab_sizes": [NUM_WORDS, NUM_SUFFIXES],
        "feature_sizes": [5, 3],
        "num_symbols": NUM_SYMBOLS,
        "symbol_size": 4,
        "encoder_size": 7,
        "decoder_size": 6,
    }
    return Seq2SeqConfig(**{**settings, **changes})


def translating() -> dict[str, Any]:
    return {"attention": "additive", "end_symbol": END, "max_symbols": 6}


def tiny_model(seed: int = 0, **changes: Any) -> Seq2SeqModel:
    """Weights larger than those of a start, so that every part of it counts."""
    model = Seq2SeqModel.from_config(tiny_config(**changes), seed).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    return model


def random_sources(lengths: tuple[int, ...], *, size: int | None = None, spelt: bool = False, seed: int = 0) -> Sources:
    """Random words; what stands after the end of a sentence is as random."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), size or max(lengths))
    words = torch.randint(NUM_WORDS, shape, generator=generator)
    suffixes = torch.randint(NUM_SUFFIXES, shape, generator=generator)
    characters = torch.randint(1, NUM_CHARACTERS, (*shape, 4), generator=generator)
    characters[..., 2:] *= torch.randint(2, (*shape, 1), generator=generator)
    return Sources(torch.stack([words, suffixes], dim=-1), torch.tensor(lengths), characters if spelt else None)


def random_symbols(batch: int, size: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(NUM_SYMBOLS, (batch, size), generator=torch.Generator().manual_seed(seed))
