"""Who computes a run's shards: nothing of it changes a result."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lexergy.recipes.sections.section import PositiveInt, Section

Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EngineRecipe(Section):
    """`in-place`: this process. `ray`: actors of the Ray cluster at `RAY_ADDRESS`, or of one on this machine.

    `actors` null: as many as the cluster has room for now. `cpus` and `gpus` are what an actor reserves; null: as many
    CPUs as this process computes with, and a GPU where it has one. Written `ray` or `ray:actors=4,cpus=2,gpus=0.5` too.

    Examples:
        >>> from lexergy.recipes.sections.engine import EngineRecipe
        >>> EngineRecipe.model_validate("ray:actors=4,cpus=2").actors
        4
    """

    kind: Literal["in-place", "ray"] = "in-place"
    actors: PositiveInt | None = None
    cpus: Share | None = None
    gpus: Share | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return engine_settings(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _actors_are_rays(self) -> "EngineRecipe":
        if self.kind != "ray" and (self.actors, self.cpus, self.gpus) != (None, None, None):
            raise ValueError("`actors`, `cpus` and `gpus` are settings of the engine `ray`; expected `kind: ray`")
        return self


def engine_settings(text: str) -> dict[str, str]:
    """`ray:actors=4` as the keys of a section."""
    kind, _, settings = text.partition(":")
    pairs = (setting.partition("=") for setting in settings.split(",") if setting)
    return {"kind": kind.strip()} | {name.strip(): number.strip() for name, _, number in pairs}
