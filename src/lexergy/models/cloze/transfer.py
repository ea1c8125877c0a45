"""Start from a pretrained encoder that spells texts with other tokens: its layers, and its vectors by spelling."""

from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.errors import LexergyError

INSIDE_A_WORD = "##"  # WordPiece's mark


def transferred_vectors(
    vectors: Tensor,  # (W, D), of the known tokenizer's tokens
    known: PreTrainedTokenizerBase,
    wanted: PreTrainedTokenizerBase,
) -> Tensor:  # (V, D)
    """A vector for each wanted token: the mean of those of the known tokens that spell it.

    As in Gee et al. 2022, "Fast Vocabulary Transfer for Language Model Compression". Tokens that nothing spells take
    the mean of all; special tokens take those of the same use.
    """
    vocabulary = known.get_vocab()
    rows = [_spelling(str(wanted.decode([token])), known, vocabulary) for token in range(len(wanted))]
    for token, same in _special_tokens(wanted, known).items():
        rows[token] = [same]
    middle = vectors.mean(0)
    return torch.stack([vectors[row].mean(0) if row else middle for row in rows])


def _spelling(text: str, known: PreTrainedTokenizerBase, vocabulary: dict[str, int]) -> list[int]:
    """The known tokens of a token's text, which starts with a blank where a word starts."""
    piece = INSIDE_A_WORD + text
    if not text.startswith(" ") and piece in vocabulary:
        return [vocabulary[piece]]
    return known(text, add_special_tokens=False)["input_ids"]


def _special_tokens(wanted: PreTrainedTokenizerBase, known: PreTrainedTokenizerBase) -> dict[int, int]:
    ends = (known.sep_token_id, known.eos_token_id)
    pairs = (
        (wanted.mask_token_id, known.mask_token_id),
        (wanted.pad_token_id, known.pad_token_id),
        (wanted.eos_token_id, next((end for end in ends if end is not None), None)),
    )
    return {token: same for token, same in pairs if token is not None and same is not None}


def token_vectors(model: PreTrainedModel) -> Tensor:  # (V, D)
    return cast(Tensor, model.get_input_embeddings().weight)


def first_layers(encoder: PreTrainedModel, num_layers: int, vocab_size: int) -> dict[str, Any]:
    """The configuration of an encoder of its first layers over another vocabulary, without dropout."""
    available = encoder.config.num_hidden_layers
    if num_layers > available:
        raise LexergyError(f"`num_layers` is {num_layers} and the encoder has {available}; expected no more than that.")
    dropouts = {name: 0.0 for name in encoder.config.to_dict() if "dropout" in name}
    return {
        **encoder.config.to_dict(),
        **dropouts,
        "num_hidden_layers": num_layers,
        "vocab_size": vocab_size,
        "pad_token_id": None,  # its vector would never learn
    }


@torch.no_grad()
def copy_weights(encoder: PreTrainedModel, into: PreTrainedModel, vectors: Tensor) -> None:
    """The weights of the layers that `into` has, and these vectors for its tokens."""
    own_vectors, weights = token_vectors(into), encoder.state_dict()
    for name, value in into.named_parameters():
        value.copy_(vectors if value is own_vectors else weights[name])
