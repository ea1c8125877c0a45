"""Open a finished run's models."""

from pathlib import Path
from typing import TYPE_CHECKING

from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.models.joint.model import ResidualEBM
    from lexergy.runs.records import RunResult
    from lexergy.tasks.residual.context import RunContext


def choose_energy(result: "RunResult", name: str | None) -> str:
    """The energy asked for, or the recipe's first."""
    names = list(result.energies)
    if name is not None and name not in names:
        raise LexergyError(
            f"`--energy` is {name}; expected one of {', '.join(names)}, the energies of {result.folder}."
        )
    return name or names[0]


def open_run(result: "RunResult") -> "RunContext":
    """The run's language model, energies and windows, each loaded when it is asked for."""
    from lexergy.tasks.residual.context import RunContext

    return RunContext(result.recipe, result.folder)


def open_joint(run: Path, energy_name: str | None) -> "tuple[str, ResidualEBM]":
    """One energy's name, and the language model and that energy as one: log p~(x) = log p_LM(x) - E(x)."""
    from lexergy.runs.records import load_run

    result = load_run(run)
    name = choose_energy(result, energy_name)
    from lexergy.models.joint.model import ResidualEBM  # seconds to import: after what may be mistaken

    opened = open_run(result)
    return name, ResidualEBM(opened.lm, opened.energy(name))
