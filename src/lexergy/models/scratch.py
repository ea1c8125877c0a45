"""Small transformers to train from scratch: a causal LM and a masked LM of the same shape."""

from typing import Any

from transformers import EuroBertConfig, EuroBertForMaskedLM, LlamaConfig, LlamaForCausalLM

from lexergy.errors import LexergyError
from lexergy.models.initialisation import initialised_from

FEED_FORWARD_RATIO = 8 / 3  # SwiGLU has three matrices: as many weights as a plain layer four times as wide


def build_causal_lm(
    vocab_size: int,
    hidden_size: int,
    num_layers: int,
    num_heads: int,
    max_length: int,
    seed: int,
    dropout: float = 0.0,
) -> LlamaForCausalLM:
    """An untrained Llama (rotary positions, RMS norms, SwiGLU), its output tied to its embeddings.

    The weights depend on the seed alone; `dropout` is that of the attention weights.
    """
    shape = _shape(vocab_size, hidden_size, num_layers, num_heads, max_length, dropout)
    with initialised_from(seed):
        return LlamaForCausalLM(LlamaConfig(**shape))


def build_masked_lm(
    vocab_size: int,
    hidden_size: int,
    num_layers: int,
    num_heads: int,
    max_length: int,
    seed: int,
    dropout: float = 0.0,
    mask_token: int = 0,
) -> EuroBertForMaskedLM:
    """An untrained EuroBERT, which is the same Llama without its causal mask (Boizard et al. 2025).

    `mask_token` is only noted in its configuration, for readers of the saved model.
    """
    shape = _shape(vocab_size, hidden_size, num_layers, num_heads, max_length, dropout)
    with initialised_from(seed):
        return EuroBertForMaskedLM(EuroBertConfig(**shape, mask_token_id=mask_token))


def _shape(
    vocab_size: int, hidden_size: int, num_layers: int, num_heads: int, max_length: int, dropout: float
) -> dict[str, Any]:
    if hidden_size % num_heads or (hidden_size // num_heads) % 2:
        raise LexergyError(
            f"`hidden_size` is {hidden_size} and `num_heads` {num_heads}; expected heads of an equal, even "
            f"width, since rotary positions turn pairs; choose a multiple of {2 * num_heads} as width."
        )
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "intermediate_size": 8 * round(FEED_FORWARD_RATIO * hidden_size / 8),
        "max_position_embeddings": max_length,
        "attention_dropout": dropout,
        "tie_word_embeddings": True,
        # The tokenizer knows the special tokens; the library's defaults are another vocabulary's.
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
