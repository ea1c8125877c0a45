"""A finished run as one HTML page that needs nothing beside itself."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from lexergy.core.candidates import Candidate
from lexergy.core.estimation import coverage
from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.core.estimation.perplexity import PerplexityEstimate
from lexergy.files import atomic_write_text
from lexergy.recipes.sections.energies import ENERGY_KINDS
from lexergy.report import perplexity
from lexergy.report.figures import plots
from lexergy.report.figures.drawing import Drawing, data_uri
from lexergy.report.learning_curve import growth
from lexergy.report.numbers import duration, fixed, percent
from lexergy.report.pages.html import render
from lexergy.runs.records import EnergyResult, GenerationResult, RunResult, load_run

REPORT_FILE = "report.html"
MOST_CANDIDATES_SHOWN = 5
RANK_BINS = 10
MODEL_NAMES = {"lm": "language model", "masked_lm": "masked language model"}
PERPLEXITY_NOTE = (
    "“At most” bounds the perplexity of what the joint model draws from as many candidates as there are samples "
    "(Lawson et al., 2019). It holds for any weights, and it alone is compared with the frozen LM; its standard error "
    "is by bootstrap over documents. The estimate lies between the ends of Theorem 2 of Deng et al. (2020), the first "
    "optimistic, the second pessimistic where the weights can be trusted: ESS is how many equally weighted samples "
    "the weighted ones are worth; k-hat measures how heavy the tail of the weights is."
)
CORRECTIONS_NOTE = (
    "Perplexities of the frozen LM, and of the LM with its residuals up to each: exact, since the LM is normalised "
    "after each of them. Strengths and weights were chosen on validation documents; errors are over test documents. "
    "The last row is the base LM of the joint model."
)
SAMPLES_NOTE = (
    "The joint model draws candidates from the LM and picks one in proportion to exp(-energy) "
    "(Algorithm 1 of Deng et al., 2020). Low energy means that the text reads as written by people."
)


def write_report(run_folder: str | Path) -> Path:
    """Write RUN/report.html from the run's files and return its path."""
    result = load_run(run_folder)
    path = result.folder / REPORT_FILE
    atomic_write_text(path, render_page(result))
    return path


def render_page(result: RunResult) -> str:
    """The page as text. Autoescape is on: whatever a model writes stays text."""
    return render("run.html", **page_content(result))


def page_content(result: RunResult) -> dict[str, Any]:
    """Everything that the template shows."""
    estimates, alone, base = result.estimates, len(result.energies) == 1, perplexity.base_label(result.recipe)
    return {
        "name": result.recipe.name,
        "base": base,
        "headlines": [*perplexity.gains_in_all(result), *_headlines(result, base)],
        "measured": bool(estimates),
        "perplexity": perplexity.full_table(estimates, result.baselines, base) if estimates else None,
        "corrections": perplexity.corrections_table(result),
        "corrections_note": CORRECTIONS_NOTE,
        "growth": None if result.learning_curve is None else growth(result.learning_curve),
        "verdicts": perplexity.verdicts(estimates) if estimates else [],
        "perplexity_note": PERPLEXITY_NOTE,
        "curves": [_perplexity_curve(estimates, base)] if estimates else [],
        "energies": [_energy_content(energy, alone) for energy in result.energies.values()],
        "samples_note": SAMPLES_NOTE,
        "samples": _samples(result.generations, alone),
        "models": [
            drawing
            for name, history in result.histories.items()
            for drawing in _training_curves(f"The {_model_name(name)} while it was trained", history)
        ],
        "timings": _timings(result.seconds),
        "corpus": corpus_facts(result),
        "versions": list(result.versions.items()),
        "recipe": yaml.safe_dump(result.recipe.plain(), sort_keys=False, allow_unicode=True),
    }


def corpus_facts(result: RunResult) -> list[tuple[str, str]]:
    """What was read and how it was split, as pairs of a name and a value."""
    windows = result.recipe.windows
    lm = result.recipe.lm.description
    return [
        ("corpus", result.corpus.source),
        ("language model", lm),
        ("documents", _counts(result.corpus.documents)),
        ("windows", _counts(result.corpus.windows)),
        ("one window", f"{windows.prefix} tokens given, {windows.continuation} tokens predicted"),
    ]


def _model_name(stage: str) -> str:
    return MODEL_NAMES.get(stage, f"baseline “{stage}”")


def _counts(splits: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in splits.items())


def _headlines(result: RunResult, base: str) -> list[str]:
    return perplexity.headlines(result.estimates, base) if result.estimates else perplexity.unmeasured(result)


def _perplexity_curve(estimates: dict[str, PerplexityEstimate], label: str) -> Drawing:
    alone = len(estimates) == 1
    curves = {"joint model" if alone else name: estimate.curve for name, estimate in estimates.items()}
    base = next(iter(estimates.values())).base
    return Drawing(
        "Bound and estimate against the number of samples",
        data_uri(plots.perplexity_curve(base, curves, label)),
        "More samples bring the bound closer to the joint model's own perplexity.",
    )


def _energy_content(energy: EnergyResult, alone: bool) -> dict[str, Any]:
    return {
        "title": "What the energy sees" if alone else f"What the energy “{energy.name}” sees",
        "description": ENERGY_KINDS[energy.kind].description,
        "figures": _energy_figures(energy) if energy.lm_energies.size else [],
        "training": _learning_curve(energy.fit)
        if energy.fit
        else _training_curves("Training on people's text against the LM's", energy.history),
    }


def _learning_curve(fit: dict[str, Any]) -> list[Drawing]:
    """What more pairs are worth."""
    pairs = [round(float(share) * fit["pairs"]) for share in fit["learning_curve"]]
    curve = plots.Curve(pairs, list(fit["learning_curve"].values()))
    penalties = " and ".join(f"{penalty:g} on {group}" for group, penalty in fit["penalties"].items())
    return [
        Drawing(
            "Loss on documents that the head was not fitted to",
            data_uri(plots.training_curves({"loss": {"held-out documents": curve}}, along="pairs")),
            f"Penalties of {penalties}, chosen by this loss over {fit['documents']} documents. Where the curve still "
            "falls, more training windows help.",
        )
    ]


def _energy_figures(energy: EnergyResult) -> list[Drawing]:
    people, machine = energy.human_energies, energy.lm_energies  # (N,), (N, n)
    separated = percent(_share_ranked_right(energy), digits=0)
    histogram = Drawing(
        "Energies of people's text and of the LM's",
        data_uri(plots.energy_histogram(people, machine.reshape(-1))),
        f"On held-out windows, {separated} of the LM's continuations have a higher energy than the person's "
        "(50 % would be chance).",
    )
    weights = Drawing(
        "How unevenly the samples count",
        data_uri(plots.sorted_weights(-machine, energy.perplexity.ess)),
        "Importance weights of each window's samples, largest first. The flatter, the better the estimate.",
    )
    return [histogram, weights, _rank_check(energy)]


def _rank_check(energy: EnergyResult) -> Drawing:
    estimate = energy.perplexity
    found = coverage.ranks(estimate.windows.energy, -torch.from_numpy(energy.lm_energies))
    histogram = coverage.rank_histogram(found, estimate.windows.documents, RANK_BINS)
    return Drawing(
        "People's text among the joint model's own",
        data_uri(plots.rank_bars(histogram)),
        rank_sentence(found, estimate.windows.documents, estimate.num_samples),
    )


def rank_sentence(found: coverage.Ranks, documents: Sequence[Hashable], num_samples: int) -> str:
    """How often people's text has the lowest energy of all, how often it should, and what that says."""
    share, expected = float(found.is_lowest.mean()), float(found.lowest_weight.mean())
    error = bootstrap_std_error(found.is_lowest - found.lowest_weight, 0, groups=documents)
    if share - expected > 1.96 * error:
        meaning = "the joint model still under-rates people's text"
    elif expected - share > 1.96 * error:
        meaning = "the energy is surer of itself than people's text bears out"
    else:
        meaning = "this does not speak against the joint model"
    return (
        f"In {percent(share, digits=0)} of windows people's energy is below that of all {num_samples} samples. It "
        f"would be in {percent(expected, digits=0)} if the joint model were right, and in "
        f"{percent(1 / (num_samples + 1), digits=0)} if the LM were: {meaning}."
    )


def _share_ranked_right(energy: EnergyResult) -> float:
    return float((energy.lm_energies > energy.human_energies[:, None]).mean())


def _samples(generations: tuple[GenerationResult, ...], alone: bool) -> list[dict[str, Any]]:
    """One entry per prompt and base text; a recipe with several energies shows them below each other."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for generation in generations:
        key = (generation.prompt, generation.base_text)
        entry = entries.setdefault(key, {"prompt": key[0], "base": key[1], "joints": []})
        title = "Joint model" if alone else f"Joint model with “{generation.energy}”"
        entry["joints"].append({"title": title, **_joint_sample(generation)})
    return list(entries.values())


def _joint_sample(generation: GenerationResult) -> dict[str, Any]:
    drawn = f"One of {generation.num_candidates} candidates"
    if generation.num_ancestors is not None:
        drawn = f"By SMC, one of {generation.num_candidates} particles of {generation.num_ancestors} ancestors"
    return {
        "text": generation.joint_text,
        "note": f"{drawn}, worth {fixed(generation.ess, 1)} equally weighted ones; k-hat {fixed(generation.pareto_k)}.",
        "best": _candidate_rows(generation.best),
        "worst": _candidate_rows(generation.worst),
    }


def _candidate_rows(candidates: tuple[Candidate, ...]) -> list[dict[str, str]]:
    return [
        {"energy": fixed(candidate.energy), "text": candidate.text} for candidate in candidates[:MOST_CANDIDATES_SHOWN]
    ]


def _timings(seconds: dict[str, float]) -> Drawing:
    total = duration(sum(seconds.values()))
    return Drawing(
        f"Stage by stage, {total} in all",
        data_uri(plots.stage_seconds(list(seconds), list(seconds.values()))),
    )


def _training_curves(title: str, history: tuple[dict[str, Any], ...]) -> list[Drawing]:
    panels = training_panels(history)
    return [Drawing(title, data_uri(plots.training_curves(panels)))] if panels else []


def training_panels(history: tuple[dict[str, Any], ...]) -> dict[str, dict[str, plots.Curve]]:
    """Loss, and accuracy where there is one, of training and validation: {quantity: {series: curve}}."""
    panels: dict[str, dict[str, plots.Curve]] = {}
    for quantity in ("loss", "accuracy"):
        for series, read in (("training", _training_value), ("validation", _validation_value)):
            points = [(record["step"], read(record, quantity)) for record in history]
            known = [(step, value) for step, value in points if value is not None]
            if known:
                steps, values = zip(*known, strict=True)
                panels.setdefault(quantity, {})[series] = plots.Curve(steps, values)
    return panels


def _training_value(record: dict[str, Any], quantity: str) -> float | None:
    return record["loss"] if quantity == "loss" else record["training"].get(quantity)


def _validation_value(record: dict[str, Any], quantity: str) -> float | None:
    return record["validation"].get(quantity)
