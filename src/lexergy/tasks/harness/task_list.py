"""The tasks of an evaluation: lm-eval's own, or YAML files of the user's, which need no hub."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager

from lexergy.errors import LexergyError
from lexergy.tasks.harness.generation import check_joint, wanted_of

# Adding a number to the log-likelihoods of all choices of an item changes none of these.
COMPARISONS = frozenset({"acc", "acc_mutual_info", "f1", "mcc", "brier_score"})
# What asks for greedy decoding, by kind of request.
GREEDY_METRICS = {"loglikelihood": "acc", "multiple_choice": "exact_match"}


@dataclass(frozen=True)
class LoadedTasks:
    """Tasks with their data, as lm-eval evaluates them."""

    manager: TaskManager
    tasks: Mapping[str, Task]

    @property
    def compared(self) -> frozenset[str]:
        """Those whose metrics only compare the choices of an item: log Z may be left out where it cancels."""
        return frozenset(name for name, task in self.tasks.items() if _only_compares(task))


def load_tasks(names: Sequence[str], include_path: Path | None = None) -> LoadedTasks:
    """Tasks, groups or YAML files. lm-eval's own are only indexed if they are needed: that takes a minute."""
    if include_path is not None and not include_path.is_dir():
        raise LexergyError(f"`--include-path` is {include_path}; expected a folder with YAML files of tasks.")
    folder = None if include_path is None else str(include_path)
    manager = TaskManager(include_path=folder, include_defaults=False)
    if not all(_is_known(manager, name) for name in names):
        manager = TaskManager(include_path=folder)
    for name in names:
        if not _is_known(manager, name):
            near = difflib.get_close_matches(name, manager.all_tasks)
            hint = (
                f"did you mean {', '.join(near)}?" if near else "`--include-path` names a folder of tasks of your own."
            )
            raise LexergyError(f"there is no task `{name}`; expected the name of a task or a YAML file; {hint}")
    try:
        loaded = manager.load(list(names))
    except Exception as error:  # whatever lm-eval and datasets raise for a file or a hub that is not there
        raise LexergyError(
            f"the tasks {', '.join(names)} could not be loaded ({type(error).__name__}: {_first_line(error)}); most of "
            "lm-eval's own tasks need the Hugging Face Hub; a task whose data are local JSON files does not."
        ) from error
    return LoadedTasks(manager, loaded["tasks"])


def check_joint_can(tasks: Mapping[str, Task], generation_kwargs: Mapping[str, Any]) -> None:
    """Refuse at once what the joint model cannot compute in these tasks."""
    for name, task in tasks.items():
        metric = GREEDY_METRICS.get(task.OUTPUT_TYPE)
        if metric in task.aggregation():
            raise LexergyError(
                f"the metric {metric} of task {name} asks whether greedy decoding writes the text, which is not known "
                "of the joint model; take the metric out of the task, or evaluate the base LM alone: `--model base`."
            )
        if task.OUTPUT_TYPE == "generate_until":
            try:
                check_joint(wanted_of({**(task.get_config("generation_kwargs") or {}), **generation_kwargs}))
            except LexergyError as error:
                raise LexergyError(f"{name}: {error}") from error


def _is_known(manager: TaskManager, name: str) -> bool:
    return name in manager.all_tasks or (name.endswith((".yaml", ".yml")) and Path(name).is_file())


def _only_compares(task: Task) -> bool:
    own_results = task.get_config("process_results") is not None  # a function that may do anything
    return task.OUTPUT_TYPE == "multiple_choice" and not own_results and set(task.aggregation()) <= COMPARISONS


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
