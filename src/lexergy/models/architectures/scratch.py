"""Models to train from scratch: causal LMs (Llama, OPT, gated convolutions) and masked LMs (EuroBERT, RoBERTa)."""

from typing import Any

from transformers import (
    EuroBertConfig,
    EuroBertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from lexergy.errors import LexergyError
from lexergy.models.architectures.gated_conv import GatedConvConfig, GatedConvForCausalLM
from lexergy.models.architectures.initialisation import initialised_from

GATED_RATIO = 8 / 3  # SwiGLU has three matrices: as many weights as a plain layer four times as wide
PLAIN_RATIO = 4

CausalModel = LlamaForCausalLM | OPTForCausalLM | GatedConvForCausalLM
MaskedModel = EuroBertForMaskedLM | RobertaForMaskedLM


def build_causal_lm(
    vocab_size: int,
    hidden_size: int,
    num_layers: int,
    num_heads: int | None,
    max_length: int,
    seed: int,
    dropout: float = 0.0,
    architecture: str = "llama",
    embedding_size: int | None = None,
    feed_forward_size: int | None = None,
    kernel_size: int | None = None,
) -> CausalModel:
    """An untrained causal LM; the output of a transformer is tied to its embeddings.

    A Llama has rotary positions, RMS norms and SwiGLU; an OPT is the decoder of Vaswani et al. (2017) with
    learned positions and norms before each block, its embeddings `embedding_size` wide and projected to the
    width of the model and back. The weights depend on the seed alone; `dropout` is that of the attention
    weights, and in an OPT of the states too. A gated convolutional LM has no heads and reads texts of any length;
    `kernel_size` (4) is for it alone.
    """
    if architecture == "gated_conv":
        return _gated_conv(vocab_size, hidden_size, num_layers, dropout, embedding_size, kernel_size or 4, seed)
    shape = _shape(vocab_size, hidden_size, num_layers, num_heads)
    assert num_heads is not None
    with initialised_from(seed):
        if architecture == "llama":
            gated = _gated(hidden_size, num_heads, max_length, feed_forward_size, dropout)
            return LlamaForCausalLM(LlamaConfig(**shape, **gated))
        return OPTForCausalLM(
            OPTConfig(
                **shape,
                ffn_dim=feed_forward_size or PLAIN_RATIO * hidden_size,
                max_position_embeddings=max_length,
                word_embed_proj_dim=embedding_size or hidden_size,
                dropout=dropout,
                attention_dropout=dropout,
            )
        )


def build_masked_lm(
    vocab_size: int,
    hidden_size: int,
    num_layers: int,
    num_heads: int,
    max_length: int,
    seed: int,
    dropout: float = 0.0,
    mask_token: int = 0,
    pad_token: int = 0,
    architecture: str = "eurobert",
    feed_forward_size: int | None = None,
) -> MaskedModel:
    """An untrained masked LM, its output tied to its embeddings.

    EuroBERT is the same Llama without its causal mask (Boizard et al. 2025); its `mask_token` is only noted in
    its configuration, for readers of the saved model. RoBERTa (Liu et al. 2019) counts its positions from after
    the number of its `pad_token`, which it never reads.
    """
    shape = _shape(vocab_size, hidden_size, num_layers, num_heads)
    with initialised_from(seed):
        if architecture == "eurobert":
            gated = _gated(hidden_size, num_heads, max_length, feed_forward_size, dropout)
            return EuroBertForMaskedLM(EuroBertConfig(**shape, **gated, mask_token_id=mask_token))
        return RobertaForMaskedLM(
            RobertaConfig(
                **shape | {"pad_token_id": pad_token},
                intermediate_size=feed_forward_size or PLAIN_RATIO * hidden_size,
                max_position_embeddings=max_length + pad_token + 1,
                type_vocab_size=1,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout,
            )
        )


def _gated_conv(
    vocab_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    embedding_size: int | None,
    kernel_size: int,
    seed: int,
) -> GatedConvForCausalLM:
    config = GatedConvConfig(
        vocab_size=vocab_size,
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        kernel_size=kernel_size,
        dropout=dropout,
    )
    with initialised_from(seed):
        return GatedConvForCausalLM(config)


def _shape(vocab_size: int, hidden_size: int, num_layers: int, num_heads: int | None) -> dict[str, Any]:
    if num_heads is None:
        raise LexergyError("`num_heads` is missing; expected a number that divides `hidden_size`.")
    if hidden_size % num_heads:
        raise LexergyError(
            f"`hidden_size` is {hidden_size} and `num_heads` {num_heads}; expected heads of an equal width; "
            f"choose a multiple of {num_heads} as width."
        )
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "tie_word_embeddings": True,
        # The tokenizer knows the special tokens; the library's defaults are another vocabulary's.
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }


def _gated(
    hidden_size: int, num_heads: int, max_length: int, feed_forward_size: int | None, dropout: float
) -> dict[str, Any]:
    """What a Llama and a EuroBERT have beside their shape."""
    if (hidden_size // num_heads) % 2:
        raise LexergyError(
            f"`hidden_size` is {hidden_size} and `num_heads` {num_heads}; expected heads of an equal, even "
            f"width, since rotary positions turn pairs; choose a multiple of {2 * num_heads} as width."
        )
    return {
        "intermediate_size": feed_forward_size or 8 * round(GATED_RATIO * hidden_size / 8),
        "max_position_embeddings": max_length,
        "attention_dropout": dropout,
    }
