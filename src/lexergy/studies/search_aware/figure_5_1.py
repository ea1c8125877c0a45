"""Figure 5.1 of Goyal 2021: label bias on an example that is computed exactly."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

from lexergy.core.estimation.findings import Estimate, Finding, above, similar
from lexergy.core.search_aware.label_bias import Sight, global_probabilities, largest_lead_dropped, local_probabilities
from lexergy.recipes.search_aware import LabelBiasRecipe
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.workspace import Seconds
from lexergy.studies.search_aware.comparison import THESIS
from lexergy.studies.study import Opener, Settings, Size, Study

SIGHTS: dict[Sight, str] = {"past": "up to the step", "whole": "all of it"}


class Example(NamedTuple):
    """The recipe, opened: there is nothing to train."""

    recipe: LabelBiasRecipe
    seconds: Seconds = Seconds(0.0, 0.0)


@contextmanager
def open_example(recipe: LabelBiasRecipe, folder: str | Path, *, progress: bool = True) -> Iterator[Example]:
    """Nothing is kept in the folder."""
    yield Example(recipe)


class Seen(NamedTuple):
    """Probabilities of each pair's labels: by sight, of the local model, and of the global one by weight."""

    pairs: Sequence[tuple[str, str]]
    local: Mapping[Sight, list[float]]
    scored: Mapping[tuple[Sight, float], list[float]]
    leads: Mapping[tuple[int, int], float]  # (labels, beam) -> the lead that a local model can undo


def _examine(example: Example, settings: Settings) -> Seen:
    recipe = example.recipe
    return Seen(
        recipe.pairs,
        {sight: local_probabilities(recipe.pairs, sight) for sight in SIGHTS},
        {
            (sight, weight): global_probabilities(recipe.pairs, sight, weight)
            for sight, weight in product(SIGHTS, recipe.weights)
        },
        {
            (labels, beam): largest_lead_dropped(labels, beam, normalised=True)
            for labels, beam in product(recipe.labels, recipe.beams)
            if beam < labels
        },
    )


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    seen = evidence[0]  # no random number is involved: all seeds are alike
    return Conclusion(
        tables=(_probabilities(seen), _leads(seen)),
        panels=(_weights_panel(seen), _leads_panel(seen)),
        findings=_findings(seen),
    )


def _probabilities(seen: Seen) -> Table:
    names = [f"p({labels}) given {inputs}" for inputs, labels in seen.pairs]
    cells: list[tuple[Cell, ...]] = []
    for sight, told in SIGHTS.items():
        cells.append(("local, of highest likelihood", told, None, *seen.local[sight], sum(seen.local[sight])))
        weights = [weight for own, weight in seen.scored if own == sight]
        cells += [
            ("global", told, weight, *seen.scored[sight, weight], sum(seen.scored[sight, weight])) for weight in weights
        ]
    return Table("partial input", ("model", "input seen", "weight", *names, "their sum"), cells)


def _leads(seen: Seen) -> Table:
    rows = [(labels, beam, lead, "any") for (labels, beam), lead in seen.leads.items()]
    columns = ("labels", "beam", "lead of a wrong hypothesis that a local model can undo, nats", "a global one")
    return Table("inexact search", columns, rows)


def _weights_panel(seen: Seen) -> Panel:
    series = []
    for sight, told in SIGHTS.items():
        weights = [weight for own, weight in seen.scored if own == sight]
        series.append(Series(f"global, {told}", weights, [sum(seen.scored[sight, weight]) for weight in weights]))
        series.append(Series(f"local, {told}", weights, [sum(seen.local[sight])] * len(weights)))
    return Panel("weight of a known decision", "sum of the right labellings' probabilities", tuple(series))


def _leads_panel(seen: Seen) -> Panel:
    beams = dict.fromkeys(beam for _, beam in seen.leads)
    series = []
    for beam in beams:
        own = {labels: lead for (labels, width), lead in seen.leads.items() if width == beam}
        series.append(Series(f"beam {beam}", list(own), list(own.values())))
    return Panel("labels", "lead that can be undone, nats", tuple(series), log_x=True)


def _findings(seen: Seen) -> tuple[Finding, ...]:
    largest = max(weight for _, weight in seen.scored)
    past, whole = (sum(seen.scored[sight, largest]) for sight in SIGHTS)
    lead = min(seen.leads.items(), key=lambda item: item[1])
    return (
        above(
            "With partial input, a globally normalised model says what no locally normalised one can.",
            f"sum of the right probabilities, global (weight {largest:g}) - local of highest likelihood",
            _exact(past - sum(seen.local["past"])),
        ),
        similar(
            "No locally normalised model gives both labellings more than a probability of 1 together.",
            "their sum in the local model of highest likelihood, less 1",
            *(_exact(sum(seen.local["past"]) - 1), 1e-12),
        ),
        similar(
            "With the whole input both are as expressive.",
            f"sum of the right probabilities, global (weight {largest:g}) - local of highest likelihood",
            *(_exact(whole - sum(seen.local["whole"])), 0.01),
        ),
        similar(
            "In inexact search among few labels a local model can hardly undo the lead of a wrong hypothesis.",
            f"lead that it can undo with {lead[0][0]} labels and a beam of {lead[0][1]}, nats (a global one: any)",
            *(_exact(lead[1]), 1.0),
        ),
    )


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value)


EXAMPLE = Opener(LabelBiasRecipe, open_example, "nothing, since the numbers are exact")

STUDY = Study(
    title="Label bias, exactly",
    part="Figure 5.1 and Sections 5.1.1 and 5.1.2",
    paper=THESIS,
    method="Two sentences share their first two words and differ in the labels of the last two (Andor et al. 2016). "
    "The local model is the table of conditional probabilities of highest likelihood; the global one scores a "
    "labelling by the number of its decisions that occur in the examples, times a weight, and is normalised over all "
    "labellings by enumeration: its features are the local model's own. Of inexact search, the figure's subject, the "
    "table says by how much a wrong hypothesis may lead and all its continuations still be dropped from the beam: "
    "at most log(V / k) in a locally normalised model of V labels and a beam of k. Nothing is random here.",
    sizes={"cpu": Size("label-bias"), "paper": Size("label-bias")},
    workspace=EXAMPLE,
    examine=_examine,
    conclude=_conclude,
)
