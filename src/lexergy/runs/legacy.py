"""The old way to open stages, until all tasks open a workspace."""

from contextlib import nullcontext

from lexergy.runs.processes import is_main_process
from lexergy.runs.stages import remove_leftovers
from lexergy.runs.workspace import Workspace, _locked


class StageRunner:
    def __init__(self, folder, run_seed, announce):
        self._workspace = Workspace(folder, run_seed, announce.__name__ == "announce")
        self.stages = self._workspace.stages
        if is_main_process():
            remove_leftovers(folder)

    def run(self, name, config, inputs, build, *, together=False):
        return self._workspace.stage(name, config, inputs, lambda s: build(s.folder, s.seed), together=together)


def locked(folder):
    return _locked(folder) if is_main_process() else nullcontext()
