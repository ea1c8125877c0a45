"""Examples to learn from, to choose on and to judge on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lexergy.data.labelled import Fields, LabelledText, Question, load_labelled, load_questions
from lexergy.errors import LexergyError
from lexergy.files import hash_of

HELD_OUT = 0.1  # share of the texts to choose on, where no others are given

Example = TypeVar("Example", LabelledText, Question)
Examples = Sequence[LabelledText] | Sequence[Question]


@dataclass(frozen=True)
class FinetuneData:
    """Examples to learn from, to choose the best weights and seed on, and to judge on."""

    train: Examples
    validation: Examples
    test: Examples | None = None


def load_data(
    train: str, validation: str | None, test: str | None, *, fields: Fields | None, seed: int
) -> FinetuneData:
    """Labelled texts by the names of their `fields`, or questions where there are none."""

    def load(source: str) -> Any:
        return load_questions(source) if fields is None else load_labelled(source, fields)

    learnt = load(train)
    chosen = load(validation) if validation else None
    judged = load(test) if test else None
    if chosen is None:
        learnt, chosen = hold_out(learnt, HELD_OUT, seed)
    return FinetuneData(learnt, chosen, judged)


def hold_out(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """The examples without a share of their texts, and that share; equal texts, or contexts, stay together."""
    groups = sorted({_group(example) for example in examples}, key=lambda group: hash_of([seed, group]))
    if len(groups) < 2:
        raise LexergyError("there is only one different text to learn from; expected at least two, to hold one out.")
    held = set(groups[: max(1, round(share * len(groups)))])
    return (
        [example for example in examples if _group(example) not in held],
        [example for example in examples if _group(example) in held],
    )


def _group(example: LabelledText | Question) -> str:
    return example.text if isinstance(example, LabelledText) else example.context
