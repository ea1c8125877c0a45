"""Another attention function for a model, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel


@contextmanager
def attending_by(name: str, model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend by the function that is registered under this name."""
    usual = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(usual)
