"""The language models that are had as packages, in words: their weights are not all that their names suggest."""

PACKAGED_LMS = {
    "smollm2-135m": "SmolLM2-135M-Instruct, tuned to chat, 4 bits: Q4_1",
    "gemma3-270m": "Gemma-3-270M, not tuned to chat, 4 to 8 bits: Q4_K_M",
}
"""By the names of `models.loading.sources.CAUSAL_LMS`."""
