"""Text sets: people's windows of a corpus, and what a generator made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.random import uniforms
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.right_to_left import RightToLeftLM
from lexergy.recipes.residual import NegativesRecipe
from lexergy.runs.columns import from_column, to_column
from lexergy.training.objectives.contrastive import ContrastiveData

Side = Literal["prefix", "suffix"]
Split = Literal["train", "validation", "test"]
Writer = CausalLM | RightToLeftLM  # continues a prefix, or writes what comes before a suffix
SIDES: tuple[Side, ...] = ("prefix", "suffix")


@dataclass(frozen=True)
class TextSet:
    """Which texts: windows of `corpus`, rewritten by `generator`, which learnt from `trained_on` (None: the same).

    A generator is given the first (`prefix`) or the last (`suffix`) tokens of a window, as many as one of
    `contexts` (None: the recipe's), each choice with equal probability, and writes the rest.

    Windows begin anywhere in a document. With `beginnings` they are the first of each document, each there with each
    of `contexts`, and the generator is told that a document begins: without a context it knows nothing else, so that
    people's windows from anywhere would be told from its own by their place alone.
    """

    corpus: str
    generator: str
    trained_on: str | None = None
    contexts: tuple[int, ...] | None = None
    sides: tuple[Side, ...] = SIDES
    beginnings: bool = False

    def __post_init__(self) -> None:
        if 0 in (self.contexts or ()) and not self.beginnings:
            raise LexergyError(
                f"`contexts` is {self.contexts}; a machine without a context begins a document, and people's windows "
                "begin anywhere; expected `beginnings`, so that both do, or longer contexts."
            )
        if self.beginnings and "suffix" in self.sides:
            raise LexergyError(
                f"`sides` is {self.sides} with `beginnings`; what comes before a suffix ends at no document's "
                "beginning; expected prefixes only."
            )

    @property
    def name(self) -> str:
        """The folder's name."""
        parts = [self.corpus, self.generator]
        if self.trained_on is not None:
            parts.append(f"of-{self.trained_on}")
        if self.contexts is not None:
            parts.append("after-" + "-".join(map(str, self.contexts)))
        if self.sides != SIDES:
            parts.append("-".join(self.sides))
        if self.beginnings:
            parts.append("beginnings")
        return "--".join(parts)


class Texts(NamedTuple):
    """N windows by people, and K machine-written twins of each that share its context."""

    people: Tensor  # (N, L)
    machine: Tensor  # (N, K, L)
    documents: list[str]  # N
    contexts: Tensor  # (N,), tokens that both share
    suffix: Tensor  # (N,) bool: whether these are the last ones

    @property
    def contrast(self) -> ContrastiveData:
        """For an energy that reads whole windows and is not told where the context ends."""
        return ContrastiveData(self.people[:, :0], self.people, self.machine)

    def select(self, rows: Tensor) -> "Texts":
        """The windows at `rows` (M,)."""
        documents = [self.documents[row] for row in rows.tolist()]
        return Texts(self.people[rows], self.machine[rows], documents, self.contexts[rows], self.suffix[rows])


def joined(parts: Sequence[ContrastiveData]) -> ContrastiveData:
    """The union of sets of windows of one length."""
    return ContrastiveData(
        torch.cat([part.prefixes for part in parts]),
        torch.cat([part.continuations for part in parts]),
        torch.cat([part.negatives for part in parts]),
    )


def load_writer(folder: Path, side: Side) -> Writer:
    """The generator of a folder, which writes after a prefix or before a suffix."""
    return RightToLeftLM.from_pretrained(folder) if side == "suffix" else CausalLM.from_pretrained(folder)


class Choice(NamedTuple):
    """What a generator is given of each window."""

    contexts: Tensor  # (N,)
    suffix: Tensor  # (N,) bool


def choose(ids: Sequence[int], contexts: Sequence[int], sides: Sequence[Side], seed: int) -> Choice:
    """A context length and a side for each window, uniformly; a window's choice depends on its id alone."""
    drawn = uniforms(seed, ids, step=0, first=0, count=2)  # (N, 2)
    lengths = torch.tensor(contexts)[(drawn[:, 0] * len(contexts)).long()]
    are_suffixes = torch.tensor([side == "suffix" for side in sides])
    return Choice(lengths, are_suffixes[(drawn[:, 1] * len(sides)).long()])


def in_turn(ids: Sequence[int], contexts: Sequence[int]) -> Choice:
    """The contexts one after the other, for windows that are there once for each of them."""
    lengths = torch.tensor([contexts[number % len(contexts)] for number in ids])
    return Choice(lengths, torch.zeros(len(ids), dtype=torch.bool))


def write_twins(
    writers: Mapping[Side, Writer],
    windows: Windows,
    ids: Sequence[int],
    choice: Choice,
    decoding: NegativesRecipe,
    seed: int,
    *,
    beginnings: bool = False,
) -> pa.Table:
    """Machine-written twins of the windows `ids`, as rows of a text set; `beginnings` are told to be such."""
    people = windows.tokens[torch.tensor(ids)]  # (B, L)
    machine = people[:, None].repeat(1, decoding.per_prefix, 1)  # (B, K, L)
    for side in writers:
        for context in choice.contexts.unique().tolist():
            chosen = (choice.contexts == context) & (choice.suffix == (side == "suffix"))
            if chosen.any():
                rows = chosen.nonzero().squeeze(-1)
                numbers = [ids[row] for row in rows.tolist()]
                told = document_start(writers[side], len(rows)) if beginnings else people[rows, :0]
                machine[rows] = _rewritten(people[rows], told, context, side, writers[side], decoding, seed, numbers)
    return text_table(Texts(people, machine, [windows.document_ids[number] for number in ids], *choice))


def _rewritten(
    people: Tensor,  # (B, L)
    told: Tensor,  # (B, 0) or (B, 1), before the context
    context: int,
    side: Side,
    writer: Writer,
    decoding: NegativesRecipe,
    seed: int,
    ids: Sequence[int],
) -> Tensor:  # (B, K, L)
    """The windows with all but their context written anew."""
    length = people.shape[1]
    given = people[:, length - context :] if side == "suffix" else people[:, :context]
    samples = writer.sample(
        torch.cat((told, given), dim=1),
        num_samples=decoding.per_prefix,
        max_new_tokens=length - context,
        temperature=decoding.temperature,
        top_k=decoding.top_k,
        top_p=decoding.top_p,
        seed=seed,
        prefix_ids=ids,
    )
    written = samples.tokens.cpu()  # (B, K, L - context)
    kept = given[:, None].expand(-1, decoding.per_prefix, -1)
    return torch.cat((written, kept) if side == "suffix" else (kept, written), dim=2)


def document_start(writer: Writer, rows: int) -> Tensor:  # (B, 1)
    """End-of-text, which parts documents: to begin one, nothing else is given."""
    assert writer.tokenizer is not None
    return torch.full((rows, 1), writer.tokenizer.eos_token_id)


def text_table(texts: Texts) -> pa.Table:
    """The rows of a text set, to be stored."""
    return pa.table(
        {
            "document": pa.array(texts.documents, pa.string()),
            "people": to_column(texts.people.numpy().astype(np.int32)),
            "machine": to_column(texts.machine.numpy().astype(np.int32)),
            "context": to_column(texts.contexts.numpy().astype(np.int32)),
            "suffix": pa.array(texts.suffix.tolist(), pa.bool_()),
        }
    )


def read_texts(table: pa.Table) -> Texts:
    """What `text_table` stored."""

    def tokens(name: str) -> Tensor:
        return torch.from_numpy(from_column(table.column(name))).long()

    suffix = torch.tensor(table.column("suffix").to_pylist(), dtype=torch.bool)
    return Texts(tokens("people"), tokens("machine"), table.column("document").to_pylist(), tokens("context"), suffix)
