"""What the usual attacks cost a detector, and what normalisation gives back."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.detection.attack_cost import UnderAttack, under_attack
from lexergy.data.detection.attacks import Attack
from lexergy.data.detection.normalisation import normalise
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.models.detection.detector import Detection, Detector
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Workspace, open_workspace, stage_store
from lexergy.tasks.detection.attacks.table import MIXED, PLACES, AttackChoice, guests_of
from lexergy.tasks.detection.attribution import Attribution, attribution, attribution_row
from lexergy.tasks.detection.evaluation_texts import EvaluationText
from lexergy.tasks.detection.splicing import WrittenText, judge_splices, splices

UNATTACKED, SPLICED = "unattacked", "spliced"
TEXTS_PER_SHARD = 8
ROWS = "rows"
SENTENCES = pa.schema(
    [
        ("group", pa.string()),
        ("probabilities", pa.list_(pa.float64())),
        ("is_machine", pa.list_(pa.bool_())),
        ("right", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True)
class AttackResult:
    """An attack as it was carried out, and what it costs with and without normalisation."""

    name: str
    strength: float
    places: str  # of which that is a share
    as_read: UnderAttack
    normalised: UnderAttack


@dataclass(frozen=True)
class StressReport:
    """Machine texts attacked, people's not; energies are log-odds where the detector is calibrated."""

    folder: str
    people: int
    machines: int
    unattacked: UnderAttack  # which costs nothing
    attacks: tuple[AttackResult, ...]
    attribution: Attribution | None  # of the sentences of mixed texts, where the detector tells of them


class Scores:
    """What a detector says of texts, each read once however often it is asked about."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self._known: dict[str, float] = {}

    def of(self, texts: Sequence[str], normalised: bool) -> list[float]:
        read = [self.detector.read(normalise(text).text if normalised else text) for text in texts]
        short = [text for text, own in zip(texts, read, strict=True) if not self.detector.blocks_of(own)]
        if short:
            raise LexergyError(f"a text is too short to be judged ({short[0][:40]!r}); leave it out.")
        new = list({own.text: own for own in read if own.text not in self._known}.values())
        for own, detection in zip(new, self.detector.judge(new), strict=True):
            self._known[own.text] = self._score(detection)
        return [self._known[own.text] for own in read]

    def _score(self, detection: Detection) -> float:
        calibration = self.detector.settings.text
        if calibration is None:
            return detection.energy
        return float(calibration.log_odds(torch.tensor(detection.energy), torch.tensor(detection.tokens)))

    def remember(self, rows: pa.Table) -> None:
        """What an earlier bench found of texts (see `rows`)."""
        for row in rows.to_pylist():
            self._known[self.detector.read(row["text"]).text] = row["as_read"]
            self._known[self.detector.read(normalise(row["text"]).text).text] = row["normalised"]

    def rows(self, texts: Sequence[str]) -> pa.Table:
        """The scores of some texts as they are read, and with disguises undone."""
        as_read, normalised = (self.of(texts, undone) for undone in (False, True))
        return pa.table({"text": list(texts), "as_read": as_read, "normalised": normalised})


def stress(
    detector: Detector,
    key: dict[str, Any],  # what decides the detector's energies
    texts: Sequence[EvaluationText],
    choice: AttackChoice,
    folder: str | Path,
    *,
    limit: int | None = None,  # texts of either class
    seed: int = 0,
    progress: bool = True,
) -> StressReport:
    """Attack the machine texts in each way, and compare each time with people's texts, which nobody attacked.

    A stage for each attack, in shards: a killed bench goes on where it was, another attack redoes no other.
    """
    people, machines = ([own for own in texts if own.is_machine == wanted][:limit] for wanted in (False, True))
    if not people or not machines:
        raise LexergyError(
            f"{len(people)} texts of people and {len(machines)} of machines to attack; expected some of each."
        )
    bench = _Bench(Scores(detector), choice, people, machines)
    names = choice.chosen(detector)
    with open_workspace(folder, seed, progress=progress) as workspace:
        config = {"detector": key, "texts": hash_of([asdict(own) for own in (*people, *machines)])}
        unattacked = workspace.stage(UNATTACKED, config, [], bench.unattacked_into)
        bench.scores.remember(_rows(unattacked))
        stages = {name: bench.stage(workspace, name, unattacked) for name in names}
        tells_sentences = MIXED in names and detector.settings.writers is not None
        spliced = workspace.stage(SPLICED, {}, [unattacked], bench.spliced_into) if tells_sentences else None
    return bench.report(str(folder), unattacked, stages, spliced, seed)


@dataclass(frozen=True)
class _Bench:
    scores: Scores
    choice: AttackChoice
    people: list[EvaluationText]
    machines: list[EvaluationText]

    def unattacked_into(self, stage: OpenStage) -> Facts:
        texts = [own.text for own in (*self.people, *self.machines)]
        return self._fill(stage, "texts", texts, lambda text, *_: text, 0.0)

    def stage(self, workspace: Workspace, name: str, unattacked: Stage) -> Stage:
        model = self.choice.model_of(name)
        config = {"strength": self.choice.strength_of(name), "model": None if model is None else fingerprint(model)}
        return workspace.stage(f"attack-{name}", config, [unattacked], lambda stage: self._attack_into(name, stage))

    def _attack_into(self, name: str, stage: OpenStage) -> Facts:
        machines, people = ([(own.text, own.document) for own in texts] for texts in (self.machines, self.people))
        attack = self.choice.attack(name, self.scores.detector, guests_of(machines, people))
        texts = [text for text, _ in machines]
        return self._fill(stage, name, texts, attack, self.choice.strength_of(name))

    def _fill(self, stage: OpenStage, label: str, texts: Sequence[str], attack: Attack, strength: float) -> Facts:
        def write(shard: int) -> pa.Table:
            rows = shard_rows(shard, len(texts), TEXTS_PER_SHARD)
            attacked = [attack(texts[row], strength, _seed(stage.seed, row)) for row in rows]
            return self.scores.rows(attacked)

        shards = num_shards(len(texts), TEXTS_PER_SHARD)
        stage.store(ROWS).fill(shards, write, label, progress=stage.progress)
        return {"shards": shards}

    def spliced_into(self, stage: OpenStage) -> Facts:
        """What the detector says of the sentences of texts spliced at known places."""
        detector = self.scores.detector
        texts = [
            WrittenText(whole_sentences(plain_text(own.text)), own.is_machine, own.document)
            for own in (*self.people, *self.machines)
        ]
        spliced = splices(texts, stage.seed)

        def write(shard: int) -> pa.Table:
            rows = shard_rows(shard, len(spliced), TEXTS_PER_SHARD)
            truths = judge_splices(detector, [spliced[row] for row in rows])
            return pa.Table.from_pylist([attribution_row(detector, own) for own in truths], SENTENCES)

        shards = num_shards(len(spliced), TEXTS_PER_SHARD)
        stage.store(ROWS).fill(shards, write, "spliced texts", progress=stage.progress)
        return {"shards": shards}

    def report(
        self, folder: str, unattacked: Stage, stages: dict[str, Stage], spliced: Stage | None, seed: int
    ) -> StressReport:
        before = {column: _column(unattacked, column) for column in ("as_read", "normalised")}

        def costs(stage: Stage | None, column: str) -> UnderAttack:
            people, machine = before[column].split([len(self.people), len(self.machines)])
            attacked = machine if stage is None else _column(stage, column)
            documents = ([own.document for own in texts] for texts in (self.people, self.machines))
            return under_attack(people, machine, attacked, *documents, seed=seed)

        return StressReport(
            folder=folder,
            people=len(self.people),
            machines=len(self.machines),
            unattacked=costs(None, "normalised"),
            attacks=tuple(
                AttackResult(
                    name,
                    self.choice.strength_of(name),
                    PLACES[name].places,
                    costs(stage, "as_read"),
                    costs(stage, "normalised"),
                )
                for name, stage in stages.items()
            ),
            attribution=None if spliced is None else attribution(_rows(spliced).to_pylist(), seed),
        )


def _seed(stage_seed: int, row: int) -> int:
    """Each text has random numbers of its own."""
    return int(np.random.SeedSequence((stage_seed, row)).generate_state(1)[0])


def _column(stage: Stage, name: str) -> Tensor:  # (N,)
    return torch.tensor(_rows(stage).column(name).to_pylist(), dtype=torch.double)


def _rows(stage: Stage) -> pa.Table:
    return stage_store(stage, ROWS).table(stage.facts["shards"])
