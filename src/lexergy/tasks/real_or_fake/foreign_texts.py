"""Texts of a generator with a tokenizer of its own: written as text, and read back the same way as people's."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.recipes.residual import NegativesRecipe
from lexergy.tasks.real_or_fake.text_sets import Choice, Texts, text_table

SLACK = 4  # tokens by which a window may shrink when its text, which begins and ends within words, is read back


def write_foreign_twins(
    writer: CausalLM,
    tokenizer: Any,
    windows: Windows,
    ids: Sequence[int],
    choice: Choice,
    decoding: NegativesRecipe,
    seed: int,
) -> pa.Table:
    """Twins of the windows `ids` by a left-to-right LM that reads and writes text, as rows of a text set.

    People's windows are decoded and encoded again as the machine's are, so that nothing but the words tells them
    apart, and both are cut by a few tokens. A window whose text is still too short is left out.
    """
    tokens = windows.tokens[torch.tensor(ids)]  # (B, L)
    length = tokens.shape[1] - SLACK
    people = _encoded(tokenizer, _decoded(tokenizer, tokens))
    given = [_decoded(tokenizer, row[None, :context])[0] for row, context in zip(tokens, choice.contexts, strict=True)]
    twins = _continued(given, ids, tokens.shape[1] - choice.contexts, writer, decoding, seed)
    machine = [_encoded(tokenizer, texts) for texts in twins]
    kept = [row for row in range(len(ids)) if min(map(len, [people[row], *machine[row]])) >= length]
    if not kept:
        raise LexergyError(
            f"no text of {writer.source} is {length} tokens long; expected some; shorten the windows or contexts."
        )
    return text_table(
        Texts(
            people=torch.tensor([people[row][:length] for row in kept]),
            machine=torch.tensor([[twin[:length] for twin in machine[row]] for row in kept]),
            documents=[windows.document_ids[ids[row]] for row in kept],
            contexts=choice.contexts[kept],
            suffix=choice.suffix[kept],
        )
    )


def _continued(
    given: Sequence[str],
    ids: Sequence[int],
    new_tokens: Tensor,  # (B,)
    writer: CausalLM,
    decoding: NegativesRecipe,
    seed: int,
) -> list[list[str]]:
    """Each text with K continuations; those of as many tokens go through together.

    A continuation has as many of the writer's tokens as the window misses of its own: enough where the writer's
    vocabulary is the larger one.
    """
    encoded = [writer.encode(text) for text in given]
    groups: dict[tuple[int, int], list[int]] = {}
    for row, tokens in enumerate(encoded):
        groups.setdefault((len(tokens), int(new_tokens[row])), []).append(row)
    written: list[list[str]] = [[] for _ in given]
    for (_, count), rows in groups.items():
        samples = writer.sample(
            torch.stack([encoded[row] for row in rows]),
            num_samples=decoding.per_prefix,
            max_new_tokens=count,
            temperature=decoding.temperature,
            top_k=decoding.top_k,
            top_p=decoding.top_p,
            seed=seed,
            prefix_ids=[ids[row] for row in rows],
        )
        for row, continuations in zip(rows, samples.tokens, strict=True):
            written[row] = [given[row] + text for text in writer.decode(continuations)]
    return written


def _decoded(tokenizer: Any, tokens: Tensor) -> list[str]:  # (B, L)
    return tokenizer.batch_decode(tokens.tolist(), clean_up_tokenization_spaces=False)


def _encoded(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False)["input_ids"]
