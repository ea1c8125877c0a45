"""What decides a training: optimiser, schedule, length, precision, and how often to look."""

from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from lexergy.recipes.sections.section import PositiveFloat, PositiveInt, Section, Seed

Tracker = Literal[
    "aim", "clearml", "comet_ml", "dvclive", "mlflow", "swanlab", "tensorboard", "trackio", "wandb"
]  # as Accelerate names them
Keep = Literal["best", "last"]
Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainingRecipe(Section):
    """Settings of one training.

    A step reads `batch_size * gradient_accumulation` examples, whatever the number of processes. The
    rate climbs linearly over `warmup_steps`, then falls to zero at `max_steps` (cosine, linear) or stays
    (constant). Training stops early after `patience` evaluations in a row without a better validation loss
    (null: never), and keeps the weights of the best one, or with `keep: last` the last. `weight_decay` is
    AdamW's and spares vectors (biases, norms); 0 is plain Adam. `max_grad_norm` null: no clipping. The defaults
    of Adam are Kingma & Ba's. `trackers` are told how it goes.
    """

    added_later = frozenset({"keep"})

    learning_rate: PositiveFloat
    max_steps: PositiveInt
    batch_size: PositiveInt
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    gradient_accumulation: PositiveInt = 1
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    max_grad_norm: PositiveFloat | None = 1.0
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    adam_betas: tuple[Beta, Beta] = (0.9, 0.999)
    adam_epsilon: PositiveFloat = 1e-8
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    evaluate_every: PositiveInt = 100
    patience: PositiveInt | None = None
    keep: Keep = "best"
    checkpoint_every: PositiveInt = 100
    seed: Seed = 0
    trackers: tuple[Tracker, ...] = Field(default=(), exclude=True)  # decide no result

    @field_validator("trackers")
    @classmethod
    def _trackers_are_installed(cls, trackers: tuple[Tracker, ...]) -> tuple[Tracker, ...]:
        for name in trackers:
            packages = ("tensorboard", "tensorboardX") if name == "tensorboard" else (name,)
            if not any(find_spec(package) for package in packages):
                raise ValueError(f"{name} is not installed; expected its package; run `pip install {name}`")
        return trackers

    @model_validator(mode="after")
    def _warmup_ends(self) -> "TrainingRecipe":
        if self.warmup_steps > self.max_steps:
            raise ValueError(
                f"`warmup_steps` is {self.warmup_steps} and `max_steps` {self.max_steps}; "
                "expected a warm-up no longer than the training"
            )
        return self

    @property
    def examples_per_step(self) -> int:
        return self.batch_size * self.gradient_accumulation
