"""The most that a setting may be: more than anybody needs, and less than what would hang or fill the memory.

One table for recipes and options of commands; what is not in it may be `COUNT`.
"""

COUNT = 10**12
SEED = 2**62
WIDTH = 2**17
LENGTH = 2**20  # tokens
TEXTS = 2**20  # in memory at once
DEPTH = 2**12
PARAMETERS = 10**12

LIMITS = {
    **dict.fromkeys(("seed", "split_seed"), SEED),
    **dict.fromkeys(
        (
            "hidden_size", "feed_forward_size", "embedding_size", "encoder_size", "decoder_size", "symbol_size",
            "character_size", "hidden_units", "width",
        ),
        WIDTH,
    ),
    **dict.fromkeys(
        (
            "prefix", "continuation", "max_length", "length", "stride", "block_length", "block_tokens", "max_tokens",
            "max_new_tokens", "max_words", "max_answer_tokens", "horizon", "block_size",
        ),
        LENGTH,
    ),
    **dict.fromkeys(
        (
            "batch_size", "gradient_accumulation", "candidates", "max_candidates", "per_prefix", "samples", "chains",
            "top", "show", "queue", "num_seeds", "seeds", "chunks",
        ),
        TEXTS,
    ),
    **dict.fromkeys(("num_layers", "num_heads", "beam", "kernel_size", "orders"), DEPTH),
    "rank": 2**13,
    "vocab_size": 2**22,
    "buckets": 2**27,
    "threads": 2**12,
    "port": 2**16 - 1,
    "max_body": 2**32,
}  # fmt: skip


def limit_of(name: str) -> int:
    """The most that a setting of this name may be, spelt as a key or as an option."""
    return LIMITS.get(name.lstrip("-").replace("-", "_"), COUNT)


def shown(number: float) -> str:
    """A number as a message has it, however long it is."""
    if isinstance(number, float):
        return f"{number:g}"
    return str(number) if abs(number) < 10**40 else "a number of more than 40 digits"
