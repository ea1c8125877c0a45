"""Studies carried out: for each seed what they examine, then what they conclude.

runs/reproduce/table-1-cpu-seed0/           a run like any other, shared by the studies
    studies/figure-1-bit/rows/              one Parquet shard per few windows, then stage.json
runs/reproduce/real-or-fake-cpu-seed0/      a laboratory, in which studies find what others made
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.recipes.loader import load_recipe
from lexergy.report.pages.study import Circumstances, StudyPage
from lexergy.studies import CATALOGUE, check_name
from lexergy.studies.study import Settings, Size, Study

RUNS = Path("runs/reproduce")


def load_study(name: str) -> Study:
    """A study by its name."""
    check_name(name)
    return import_module(f"lexergy.studies.{CATALOGUE[name].module}").STUDY


def reproduce(
    name: str,
    study: Study,
    *,
    size: str = "cpu",
    seeds: Sequence[int] = (0,),
    recipe: str | Path | None = None,
    energy: str | None = None,
    changes: Settings | None = None,
    runs: str | Path = RUNS,
    progress: bool = True,
) -> StudyPage:
    """Carry out a study, whose page has this name.

    What is finished is only read, and what was killed goes on. `recipe` and `energy` replace those of the size, and
    `changes` others of its settings.
    """
    chosen = _size(study, size)
    settings = _changed(name, _settings(name, chosen, energy), changes or {})
    loaded = load_recipe(chosen.recipe if recipe is None else recipe, study.workspace.recipe)
    _check_energy(loaded, settings)
    evidence: list[Any] = []
    making = measuring = 0.0
    for seed in seeds:
        seeded = loaded.model_copy(update={"seed": seed})
        with study.workspace.open(seeded, Path(runs) / f"{loaded.name}-seed{seed}", progress=progress) as workspace:
            evidence.append(study.examine(workspace, settings))
            making += workspace.seconds.making
            measuring += workspace.seconds.measuring
    return StudyPage(
        name=name,
        title=study.title,
        part=study.part,
        paper=study.paper,
        method=study.method,
        circumstances=Circumstances(
            size, loaded.name, settings, tuple(seeds), making, measuring, study.workspace.resampled
        ),
        conclusion=study.conclude(evidence),
    )


def _size(study: Study, size: str) -> Size:
    if size not in study.sizes:
        raise LexergyError(f"`size` is {size}; expected one of {', '.join(study.sizes)}.")
    return study.sizes[size]


def _settings(name: str, size: Size, energy: str | None) -> Settings:
    if energy is None:
        return size.settings
    if "energy" not in size.settings:
        raise LexergyError(f"`energy` is {energy}; the study {name} compares several; leave it out.")
    return {**size.settings, "energy": energy}


def _changed(name: str, settings: Settings, changes: Settings) -> Settings:
    for key, value in changes.items():
        if key not in settings or key == "energy":
            listed = ", ".join(known for known in settings if known != "energy")
            raise LexergyError(f"the study {name} has no setting `{key}`; expected one of {listed or 'none'}.")
        usual = settings[key]
        if None not in (usual, value) and type(value) is not type(usual):
            raise LexergyError(f"the setting `{key}` is {value!r}; expected something like {usual!r}.")
    return {**settings, **changes}


def _check_energy(recipe: Any, settings: Settings) -> None:
    """Before anything is trained."""
    if "energy" in settings and settings["energy"] not in recipe.energies:
        raise LexergyError(
            f"the recipe {recipe.name} has no energy `{settings['energy']}`; expected one of "
            f"{', '.join(recipe.energies)}; say which with `--energy`."
        )
