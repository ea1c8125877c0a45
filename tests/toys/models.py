"""Tiny untrained models, and inputs for them."""

from typing import TypeVar

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from lexergy.models.energies import EnergyModel

Kind = TypeVar("Kind", bound=EnergyModel)

SIZES = {"vocab_size": 257, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_length": 64}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token per byte, and an end-of-text token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def random_tokens(*shape: int, seed: int = 0, vocab_size: int = 256) -> Tensor:
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def wake(energy: Kind, seed: int = 0) -> Kind:
    """Give random weights to what starts at zero (head, n-gram input, LoRA's B), as training would."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in energy.named_parameters():
        if parameter.requires_grad and not parameter.any():
            # Large adapters make the sums of float32 so ill-conditioned that nothing could be compared.
            parameter.data.normal_(std=0.03 if "lora_" in name else 1, generator=generator)
    return energy.eval()
