"""Appendix F of "Real or fake": a few tokens, chosen by the energy's gradient, fool it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.estimation.findings import Estimate, Finding, above, mean
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import EnergyModel
from lexergy.models.energies.perturbations import Goal, attack
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.columns import from_column, to_column
from lexergy.studies.real_or_fake.cells import percentage
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import Texts, TextSet

MACHINE, PEOPLE = "machine text", "people's text"
GOALS: dict[str, Goal] = {MACHINE: "lower", PEOPLE: "raise"}
PAPER_EXAMPLES = {MACHINE: "score -0.77 to 0.00, PPL 20.8 to 117.3", PEOPLE: "score -0.25 to -0.78, PPL 77.7 to 142.9"}


class Attacks(NamedTuple):
    """Of N windows before and after each of R replacements; of each author's only those that were told rightly."""

    energies: dict[str, np.ndarray]  # author -> (N, 1 + R)
    log_perplexities: dict[str, np.ndarray]  # (N, 1 + R), nats per token
    documents: dict[str, list[str]]


def _examine(laboratory: Laboratory, settings: Settings) -> Attacks:
    wanted = TextSet(settings["corpus"], settings["generator"])
    energy = laboratory.energies.stage("unit", [wanted])
    generator = laboratory.generators.stage(wanted.generator, wanted.corpus, "prefix", "train")
    texts = laboratory.texts.read(wanted, "test").select(torch.arange(settings["windows"]))

    def measure(seed: int) -> pa.Table:
        model, lm = EnergyModel.from_pretrained(energy.folder), CausalLM.from_pretrained(generator.folder)
        columns = {}
        for author, windows in ((MACHINE, texts.machine[:, 0]), (PEOPLE, texts.people)):
            steps = list(
                attack(
                    model,
                    windows,
                    _written(texts),
                    GOALS[author],
                    replacements=settings["replacements"],
                    forbidden_tokens=lm.forbidden_tokens,
                )
            )
            nll = [-lm.token_log_prob(step.windows, prefix_length=1).mean(1) for step in steps]
            columns[f"{author}/energy"] = to_column(torch.stack([step.energies for step in steps], 1).numpy())
            columns[f"{author}/nll"] = to_column(torch.stack(nll, 1).numpy())
        return pa.table(columns)

    config = {key: settings[key] for key in ("windows", "replacements")}
    inputs = [energy, generator, laboratory.texts.stage(wanted, "test")]
    table = laboratory.measured("attacks", f"{wanted.name}--unit", config, inputs, measure)
    energies, perplexities, documents = {}, {}, {}
    for author, sign in ((MACHINE, 1), (PEOPLE, -1)):
        values = from_column(table.column(f"{author}/energy"))
        told = np.flatnonzero(sign * values[:, 0] > 0)
        energies[author] = values[told]
        perplexities[author] = from_column(table.column(f"{author}/nll"))[told]
        documents[author] = [texts.documents[row] for row in told.tolist()]
    return Attacks(energies, perplexities, documents)


def _written(texts: Texts) -> Tensor:  # (N, L) bool
    """The positions that the machine wrote."""
    length = texts.people.shape[1]
    places = torch.arange(length).expand(len(texts.people), -1)
    after = places >= texts.contexts[:, None]
    before = places < length - texts.contexts[:, None]
    return torch.where(texts.suffix[:, None], before, after)


def _fooled(attacks: Attacks, author: str) -> np.ndarray:  # (N,)
    """Whether the energy's verdict was turned by the last replacement."""
    last = attacks.energies[author][:, -1]
    return 100.0 * (last <= 0 if author == MACHINE else last > 0)


def _share_fooled(seeds: Sequence[Attacks], author: str) -> Estimate:
    return percentage(_over_windows(seeds, author, [_fooled(attacks, author) for attacks in seeds]))


def _over_windows(seeds: Sequence[Attacks], author: str, values: Sequence[np.ndarray]) -> Estimate:
    return mean(values, groups=[attacks.documents[author] for attacks in seeds])


def _conclude(seeds: Sequence[Attacks]) -> Conclusion:
    rows: list[tuple[Cell, ...]] = []
    for author in GOALS:
        before, after = (float(np.mean([seen.energies[author][:, end].mean() for seen in seeds])) for end in (0, -1))
        ppl = [
            float(np.exp(np.mean([seen.log_perplexities[author][:, end].mean() for seen in seeds]))) for end in (0, -1)
        ]
        fooled = _share_fooled(seeds, author)
        rows.append((author, before, after, *ppl, *fooled, PAPER_EXAMPLES[author]))
    columns = ("attacked", "energy", "after", "PPL", "after", "fooled (%)", "low", "high", "the paper's one example")
    return Conclusion(
        tables=(Table("attacks", columns, rows),),
        panels=(_panel(seeds, "energies", "energy"), _panel(seeds, "log_perplexities", "nats per token")),
        findings=tuple(_findings(seeds)),
    )


def _findings(seeds: Sequence[Attacks]) -> Iterator[Finding]:
    for author, target in ((MACHINE, "people's"), (PEOPLE, "a machine's")):
        yield above(
            f"A few replaced tokens make the energy take {author} for {target}.",
            "share of windows that were told rightly and fooled it, per cent",
            _share_fooled(seeds, author),
            50.0,
        )
        yield above(
            f"The attacked text ({author}) is less likely under the generator.",
            "rise of the negative log-likelihood, nats per token",
            _over_windows(
                seeds,
                author,
                [seen.log_perplexities[author][:, -1] - seen.log_perplexities[author][:, 0] for seen in seeds],
            ),
        )


def _panel(seeds: Sequence[Attacks], name: str, label: str) -> Panel:
    lines = []
    for author in GOALS:
        curve = np.mean([getattr(attacks, name)[author].mean(0) for attacks in seeds], axis=0)  # (1 + R,)
        lines.append(Series(author, range(len(curve)), curve.tolist()))
    return Panel("tokens replaced", label, tuple(lines), reference=0 if name == "energies" else None)


STUDY = Study(
    title="A gradient-guided attack on single tokens",
    part="Appendix F",
    paper=PAPER,
    method=(
        f"{SETTING} Tokens that the machine wrote (and, in people's text, those in their place) are replaced one "
        "by one where the gradient of UniTransf's energy promises the largest change to the other side. Only windows "
        "that the energy told rightly are attacked. The paper shows one example of each kind, with five replaced words."
    ),
    sizes=sizes(
        cpu={"corpus": "wikitext", "generator": "transf-big", "windows": 96, "replacements": 5},
        paper={"corpus": "wikitext", "generator": "transf-big", "windows": 1000, "replacements": 5},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
