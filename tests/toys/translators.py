"""A masked LM of translations small enough to be enumerated."""

from pathlib import Path

from lexergy.models.architectures.conditional_transformer import ConditionalTransformer, ConditionalTransformerConfig
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.testing import EnumerableMaskedLM, word_tokenizer


class EnumerableTranslator(ConditionalMaskedLM):
    """A random tiny conditional masked LM over a few words, with the special tokens of `EnumerableMaskedLM`."""

    def __init__(
        self, words: tuple[str, ...] = ("the", "state", "of", "union"), *, max_tokens: int = 8, seed: int = 0
    ) -> None:
        tokenizer = word_tokenizer((*EnumerableMaskedLM.special, *words))
        tokenizer.eos_token = tokenizer.sep_token
        config = ConditionalTransformerConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_layers=1,
            num_heads=2,
            feed_forward_size=32,
            max_tokens=max_tokens,
            dropout=0.0,
            initializer_range=0.4,
            pad_token_id=tokenizer.pad_token_id,
        )
        super().__init__(ConditionalTransformer.from_config(config, seed), tokenizer)

    def save_pretrained(self, folder: str | Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
