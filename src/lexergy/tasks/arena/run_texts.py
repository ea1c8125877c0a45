"""Continuations of a run's held-out prompts by its base LM, its joint models and people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.joint.sampling import Candidates, draw_candidates, pick, text_of
from lexergy.models.joint.weights import ROWS_PER_BATCH
from lexergy.runs.records import RunResult
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, read_stage, stage_seed
from lexergy.runs.workspace import OpenStage, Workspace, stage_store
from lexergy.tasks.arena.continuations import PEOPLE, Continued, Material
from lexergy.tasks.residual.context import RunContext

BASE = "base"
CHOSEN = {  # from the candidates' energies (B, n) and the one drawn (B,)
    "joint": lambda energy, drawn: drawn,
    "best": lambda energy, drawn: energy.argmin(1),
    "worst": lambda energy, drawn: energy.argmax(1),
}
PROMPTS_PER_SHARD = 4
ROWS = "rows"


class Writer(NamedTuple):
    """`base`, `people`, or one of `CHOSEN` by an energy, as in `joint` and `joint:bit`."""

    system: str  # as it is called
    kind: str
    energy: str | None


@dataclass(frozen=True)
class RunTexts:
    """What is drawn from a run: top-k candidates of each prompt, and who writes which text (Algorithm 1)."""

    run: RunResult
    systems: tuple[str, ...]
    energy: str  # of the writers that name none
    pairs: int
    qualifying: int
    checks: int
    candidates: int = 256
    top_k: int | None = 10
    top_p: float | None = None
    temperature: float = 1.0

    @property
    def writers(self) -> list[Writer]:
        if len(set(self.systems)) < 2 or len(set(self.systems)) < len(self.systems):
            raise LexergyError(
                f"`--models` is {','.join(self.systems)}; expected two or more different ones, such as `base,joint`."
            )
        return [self._writer(system) for system in self.systems]

    def _writer(self, system: str) -> Writer:
        kind, _, name = system.partition(":")
        if kind in (BASE, PEOPLE) and not name:
            return Writer(system, kind, None)
        energy = name or self.energy
        if kind not in CHOSEN or energy not in self.run.energies:
            raise LexergyError(
                f"`--models` has `{system}`; expected {BASE}, {PEOPLE}, {', '.join(CHOSEN)}, the last three with "
                f"`:ENERGY` for an energy of {self.run.folder}: {', '.join(self.run.energies)}."
            )
        return Writer(system, kind, energy)

    @property
    def decoding(self) -> dict[str, Any]:
        return {"top_k": self.top_k, "top_p": self.top_p, "temperature": self.temperature}

    def material(self, workspace: Workspace) -> Material:
        """All texts, drawn in stages that survive a kill."""
        writers, context = self.writers, RunContext(self.run.recipe, self.run.folder)
        prompts = _test_windows(context, self.pairs)
        known = _known_windows(context, self.qualifying + self.checks, workspace.seed)
        pairs = self._stage(workspace, "texts", context, prompts, writers)
        answers = [Writer(PEOPLE, PEOPLE, None), Writer(BASE, BASE, None)]
        qualifying = self._stage(workspace, "qualifying", context, known.select(range(self.qualifying)), answers)
        checks = known.select(range(self.qualifying, len(known)))
        return Material(
            systems=self.systems,
            pairs=pairs,
            qualifying=qualifying,
            checks=[
                Continued(prompt, group, {PEOPLE: text})
                for prompt, group, text in zip(
                    context.lm.decode(checks.prefixes) if len(checks) else [],
                    checks.document_ids,
                    _people(context.lm, checks),
                    strict=True,
                )
            ],
            facts={"run": str(self.run.folder), "energy": self.energy, "candidates": self.candidates, **self.decoding},
        )

    def _stage(
        self, workspace: Workspace, name: str, context: RunContext, windows: Windows, writers: Sequence[Writer]
    ) -> list[Continued]:
        energies = {writer.energy for writer in writers if writer.energy is not None}
        inputs = [
            read_stage(self.run.folder / part) for part in ("windows", self.run.recipe.lm.folder, *sorted(energies))
        ]
        config = {
            "systems": [writer.system for writer in writers],
            "candidates": self.candidates,
            "windows": len(windows),
            **self.decoding,
        }
        shards = num_shards(len(windows), PROMPTS_PER_SHARD)

        def build(stage: OpenStage) -> Facts:
            def write(shard: int) -> pa.Table:
                ids = shard_rows(shard, len(windows), PROMPTS_PER_SHARD)
                return self._written(context, windows.select(ids), ids, writers, stage.seed)

            stage.store(ROWS).fill(shards, write, name, progress=stage.progress)
            return {"shards": shards}

        if not len(windows):
            return []
        rows = stage_store(workspace.stage(name, config, inputs, build), ROWS).table(shards).to_pylist()
        systems = [writer.system for writer in writers]
        return [Continued(row["prompt"], row["group"], {system: row[system] for system in systems}) for row in rows]

    def _written(
        self, context: RunContext, windows: Windows, ids: range, writers: Sequence[Writer], seed: int
    ) -> pa.Table:
        lm, prefix, columns = context.lm, windows.prefixes, {}
        candidates = self._candidates(context, windows, ids, writers, seed)
        for system, kind, energy in writers:
            if kind == PEOPLE:
                columns[system] = _people(lm, windows)
                continue
            samples, energies, drawn = candidates[energy if energy is not None else next(iter(candidates))]
            place = torch.zeros_like(drawn) if kind == BASE else CHOSEN[kind](energies, drawn)
            columns[system] = _texts(lm, pick(samples.tokens, place), pick(samples.lengths, place))
        return pa.table({"prompt": lm.decode(prefix), "group": windows.document_ids, **columns})

    def _candidates(
        self, context: RunContext, windows: Windows, ids: range, writers: Sequence[Writer], seed: int
    ) -> Mapping[str | None, Candidates]:
        """Those of each energy: the same texts, since their random numbers are; the LM's first one where none is."""
        settings: dict[str, Any] = {
            "max_new_tokens": windows.continuation_length,
            "seed": seed,
            "prefix_ids": list(ids),
        }
        names = dict.fromkeys(writer.energy for writer in writers if writer.energy is not None)
        if not names:
            samples = context.lm.sample(windows.prefixes, num_samples=1, **settings, **self.decoding)
            first = torch.zeros(len(windows), dtype=torch.long)
            return {None: Candidates(samples, torch.zeros(len(windows), 1), first)}
        return {
            name: draw_candidates(
                context.joint(name),
                windows.prefixes,
                num_candidates=self.candidates,
                rows_per_batch=ROWS_PER_BATCH,
                **settings,
                **self.decoding,
            )
            for name in names
        }


def _test_windows(context: RunContext, count: int) -> Windows:
    most = len(context.windows["test"])
    if not 1 <= count <= most:
        raise LexergyError(f"`--pairs` is {count}; expected 1 to {most}, the run's test windows; ask for fewer.")
    return context.some_test_windows(count)


def _known_windows(context: RunContext, count: int, seed: int) -> Windows:
    """Windows whose answer is known, from the validation documents, so that no pair is used up; in random order."""
    windows = context.windows["validation"]
    if count > len(windows):
        raise LexergyError(
            f"`--qualifying` and `--checks` ask for {count} prompts; the run has {len(windows)} validation windows for "
            "them; ask for fewer."
        )
    if count == 0:
        return windows.select([])
    drawn = windows.sample(count, stage_seed(seed, "known"))
    generator = torch.Generator().manual_seed(stage_seed(seed, "order of known"))
    return drawn.select(torch.randperm(count, generator=generator).tolist())


def _people(lm: LanguageModel, windows: Windows) -> list[str]:
    return _texts(lm, windows.continuations, lm.lengths(windows.continuations)) if len(windows) else []


def _texts(lm: LanguageModel, tokens: Tensor, lengths: Tensor) -> list[str]:  # (B, C), (B,)
    return [text_of(lm, row[:length], ()) for row, length in zip(tokens, lengths.tolist(), strict=True)]
