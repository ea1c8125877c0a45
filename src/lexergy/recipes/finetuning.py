"""The recipe of a fine-tuning: which encoder learns which task, and how."""

from typing import Annotated, Literal

from pydantic import Field

from lexergy.recipes.sections.section import PositiveFloat, PositiveInt, Section, Seed

Task = Literal["classification", "regression", "span"]
Pooling = Literal["mean", "first"]


class FinetuningRecipe(Section):
    """How to fine-tune; the defaults are those of Table 3, Clark et al. 2020, of models of BERT-Base's size.

    `warmup` is a share of the steps; `max_length` null: as much as the encoder reads.
    """

    encoder: str
    task: Task
    epochs: PositiveFloat = 3.0
    learning_rate: PositiveFloat = 1e-4
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 0.8
    warmup: Annotated[float, Field(ge=0, le=1)] = 0.1
    batch_size: PositiveInt = 32
    max_length: PositiveInt | None = None
    stride: PositiveInt = 128
    max_answer_tokens: PositiveInt = 30
    pooling: Pooling = "mean"
    num_seeds: PositiveInt = 5
    seed: Seed = 0
