"""The numbers of a training on TensorBoard, Weights & Biases and the like, as Accelerate speaks to them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from accelerate import Accelerator

from lexergy.recipes.sections.training import TrainingRecipe


def tracker_folder(folder: Path) -> Path:
    """Where trackers that write files do so: beside a training's own folder, which nobody else may change."""
    return folder.parent / "trackers"


@contextmanager
def tracking(accelerator: Accelerator, config: TrainingRecipe, folder: Path) -> Iterator[None]:
    """Keep the recipe's trackers open; a training is a project of theirs, named after its run and its stage."""
    if config.trackers:
        settings = {name: _plain(value) for name, value in config.model_dump().items()}
        accelerator.init_trackers(f"{folder.parent.name}-{folder.name}", settings)
    try:
        yield
    finally:
        for tracker in accelerator.trackers:
            tracker.finish()


def track(accelerator: Accelerator, kind: str, values: Mapping[str, float], step: int) -> None:
    """Hand numbers to the trackers, as `training/loss` or `validation/loss`."""
    accelerator.log({f"{kind}/{name}": value for name, value in values.items()}, step=step)


def _plain(value: object) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float) else str(value)
