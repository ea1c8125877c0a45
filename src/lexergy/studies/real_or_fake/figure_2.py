"""Figure 2 of "Real or fake": energy and likelihood of people's text with one token changed, by position."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from lexergy.core.estimation.findings import Estimate, Finding, above, mean
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import EnergyModel
from lexergy.models.energies.perturbations import replaced, swapped, window_energies
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.columns import from_column, to_column
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

COMMON, ENTITY, SWAP = "most common word", "entity", "swap with its neighbour"
KINDS = (COMMON, ENTITY, SWAP)
ENERGY, NLL = "energy", "nll"


class Changes(NamedTuple):
    """What a changed token does to N windows, by its position."""

    by_kind: Mapping[tuple[str, str], np.ndarray]  # (kind, energy or nll) -> (N, L)
    documents: list[str]  # N


def _examine(laboratory: Laboratory, settings: Settings) -> Changes:
    wanted = TextSet(settings["corpus"], settings["generator"])
    energy = laboratory.energies.stage("unit", [wanted])
    generator = laboratory.generators.stage(wanted.generator, wanted.corpus, "prefix", "train")
    texts = laboratory.texts.read(wanted, "test")
    people = texts.people[: settings["windows"]]
    words = {COMMON: settings["common"], ENTITY: settings["entity"]}
    tokens = {
        kind: laboratory.corpora.tokenizer(word, add_special_tokens=False)["input_ids"] for kind, word in words.items()
    }

    def measure(seed: int) -> pa.Table:
        model, lm = EnergyModel.from_pretrained(energy.folder), CausalLM.from_pretrained(generator.folder)

        def scores(windows: torch.Tensor) -> np.ndarray:  # (N, L) -> (2, N)
            nll = -lm.token_log_prob(windows, prefix_length=1).sum(1)
            return torch.stack([window_energies(model, windows), nll]).numpy()

        before = scores(people)
        columns = {}
        for kind in KINDS:
            changed = [
                swapped(people, place) if kind == SWAP else replaced(people, place, tokens[kind])
                for place in range(people.shape[1])
            ]
            after = np.stack([scores(windows) for windows in changed], axis=-1)  # (2, N, L)
            for name, values in zip((ENERGY, NLL), after - before[..., None], strict=True):
                columns[f"{kind}/{name}"] = to_column(values)
        return pa.table(columns)

    config = {key: settings[key] for key in ("windows", "common", "entity")}
    inputs = [energy, generator, laboratory.texts.stage(wanted, "test")]
    table = laboratory.measured("perturbations", f"{wanted.name}--unit", config, inputs, measure)
    changes = {(kind, name): from_column(table.column(f"{kind}/{name}")) for kind in KINDS for name in (ENERGY, NLL)}
    return Changes(changes, texts.documents[: settings["windows"]])


def _over_windows(seeds: Sequence[Changes], values: Sequence[np.ndarray]) -> Estimate:
    return mean(values, groups=[changes.documents for changes in seeds])


def _conclude(seeds: Sequence[Changes]) -> Conclusion:
    rows: list[tuple[Cell, ...]] = []
    for kind in KINDS:
        parts = [
            _over_windows(seeds, [changes.by_kind[kind, name].mean(1) for changes in seeds]) for name in (ENERGY, NLL)
        ]
        rows.append((kind, *parts[0], *parts[1]))
    columns = ("one token changed", "change of energy", "low", "high", "change of NLL (nats)", "low", "high")
    return Conclusion(
        tables=(Table("mean over positions", columns, rows),),
        panels=(_panel(seeds, ENERGY, "change of energy"), _panel(seeds, NLL, "change of negative log-likelihood")),
        findings=tuple(_findings(seeds)),
    )


def _findings(seeds: Sequence[Changes]) -> Iterator[Finding]:
    for kind in KINDS:
        yield above(
            f"Changed text has a lower energy than people's ({kind}).",
            "fall of the energy, mean over positions",
            _over_windows(seeds, [-changes.by_kind[kind, ENERGY].mean(1) for changes in seeds]),
        )
        yield above(
            f"Changed text is less likely under the generator ({kind}).",
            "rise of the negative log-likelihood, nats",
            _over_windows(seeds, [changes.by_kind[kind, NLL].mean(1) for changes in seeds]),
        )
    yield above(
        "The energy is more sensitive at the ends of the text, where machine text differed in training.",
        "absolute change in the outer quarters - in the middle half, mean over kinds",
        _over_windows(seeds, [_ends_minus_middle(changes) for changes in seeds]),
    )


def _ends_minus_middle(changes: Changes) -> np.ndarray:  # (N,)
    sizes_of_change = np.mean([np.abs(changes.by_kind[kind, ENERGY]) for kind in KINDS], axis=0)  # (N, L)
    quarter = sizes_of_change.shape[1] // 4
    outer = np.concatenate([sizes_of_change[:, :quarter], sizes_of_change[:, -quarter:]], axis=1)
    return outer.mean(1) - sizes_of_change[:, quarter:-quarter].mean(1)


def _panel(seeds: Sequence[Changes], name: str, label: str) -> Panel:
    lines = []
    for kind in KINDS:
        curve = np.mean([changes.by_kind[kind, name].mean(0) for changes in seeds], axis=0)  # (L,)
        lines.append(Series(kind, range(1, len(curve) + 1), curve.tolist()))
    return Panel("position", label, tuple(lines), reference=0)


STUDY = Study(
    title="Energy and likelihood of perturbed text",
    part="Figure 2 and Section 5.6",
    paper=PAPER,
    method=(
        f"{SETTING} In people's test windows a token is replaced by the most common word (“the”), by an entity "
        "(“John”), or swapped with its neighbour, at each position in turn; the energy is UniTransf of "
        "detect-table-2, the likelihood that of the training generator, left to right from the second token on. With "
        "a small vocabulary “John” is several tokens, and takes the place of as many. The paper draws this without "
        "printing numbers."
    ),
    sizes=sizes(
        cpu={"corpus": "wikitext", "generator": "transf-big", "windows": 64, "common": " the", "entity": " John"},
        paper={"corpus": "wikitext", "generator": "transf-big", "windows": None, "common": " the", "entity": " John"},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
