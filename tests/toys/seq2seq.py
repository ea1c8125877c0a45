"""Sequence-to-sequence models in double precision, small enough to be compared by hand."""

from typing import Any

import torch

from lexergy.data.vocabulary import build_sequence_vocabulary
from lexergy.models.seq2seq import Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Sources

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


WORDS = ("red", "blue", "runs", "sleeps", "dog", "cat")


def toy_tagged(count: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of 1 to 6 words whose labels say the kind of the word and whether it stands before a dog."""
    generator = torch.Generator().manual_seed(seed)
    kinds = {"red": "A", "blue": "A", "runs": "V", "sleeps": "V", "dog": "N", "cat": "N"}
    sentences, labels = [], []
    for _ in range(count):
        length = int(torch.randint(1, 7, (), generator=generator))
        words = [WORDS[number] for number in torch.randint(len(WORDS), (length,), generator=generator).tolist()]
        sentences.append(words)
        followed = [*words[1:], ""]
        labels.append(
            [kinds[word] + ("+" if after == "dog" else "") for word, after in zip(words, followed, strict=True)]
        )
    return sentences, labels


def toy_tagger(seed: int = 0, **settings: Any) -> Seq2Seq:
    sentences, labels = toy_tagged(100)
    vocabulary = build_sequence_vocabulary(sentences, labels, features=["word"], spelled=False, minimum=1)
    sizes: dict[str, Any] = {"feature_sizes": [8], "symbol_size": 4, "encoder_size": 16, "decoder_size": 16}
    return Seq2Seq.untrained(vocabulary, seed=seed, **{**sizes, **settings})
