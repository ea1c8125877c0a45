"""A recipe, stage by stage, into a run folder."""

from functools import partial
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.local_residuals import RESIDUAL_PERPLEXITY, RESIDUAL_STATES, residual_folder
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.parts import current_part
from lexergy.runs.processes import is_main_process, wait_until
from lexergy.runs.records import RUN_FILE, RunResult, load_run
from lexergy.runs.stages import Stage, intact_json
from lexergy.runs.workspace import Workspace, open_workspace
from lexergy.tasks.residual.base_models import (
    build_tokenizer,
    build_windows,
    finetune_lm,
    refer_to_lm,
    train_lm,
    train_masked_lm,
)
from lexergy.tasks.residual.baselines import measure_baselines, train_baseline
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.energies import check_pairs, fit_sum, train_energy
from lexergy.tasks.residual.fitting import fit_energy
from lexergy.tasks.residual.growing import grow_negatives
from lexergy.tasks.residual.local_residuals import fit_residual, measure_residuals, read_positions
from lexergy.tasks.residual.measure import generate_samples, measure_perplexity, measure_sums
from lexergy.tasks.residual.negatives import (
    NEGATIVES,
    SPLITS_WITH_NEGATIVES,
    build_negatives,
    decoding_key,
    features_key,
)
from lexergy.tasks.residual.steering import STEERING, fit_steering


def run(recipe: ResidualRecipe, folder: str | Path, *, progress: bool = True) -> RunResult:
    """Bring the run in `folder` up to date with the recipe and return what it found.

    Finished stages are only read; a stage that was killed goes on where it was, to the same result. Started in
    several processes (`accelerate launch -m lexergy run`), they train together and the first does the rest.

    Examples:
        >>> from lexergy import run
        >>> from lexergy.testing import tiny_recipe, write_tiny_corpus
        >>> result = run(tiny_recipe(write_tiny_corpus("texts")), "runs/tiny", progress=False)
        >>> ppl = result.energies["states"].perplexity
        >>> ppl.lower <= ppl.upper, ppl.num_windows
        (True, 6)
    """
    _check_direction(recipe)
    _check_parts(recipe)
    with open_workspace(folder, recipe.seed, progress=progress, engine=recipe.engine) as workspace:
        _Run(recipe, workspace).all_stages()
        record = {
            "recipe": recipe.plain(),
            "stages": {name: stage.key for name, stage in workspace.stages.items()},
        }
        path = workspace.folder / RUN_FILE
        if not is_main_process():
            wait_until(lambda: intact_json(path) == record, path)
        elif intact_json(path) != record:
            atomic_write_json(path, record)
        return load_run(workspace.folder)


def _check_direction(recipe: ResidualRecipe) -> None:
    if recipe.lm.train is not None and recipe.lm.train.direction == "right_to_left":
        raise LexergyError(
            "`lm.train.direction` is right_to_left; expected left_to_right, since a run's windows are continued on "
            "the right; in Python, `train_lm` and `RightToLeftLM` train and load an LM that writes prefixes."
        )


def _check_parts(recipe: ResidualRecipe) -> None:
    if recipe.negatives.budget is not None and current_part() is not None:
        raise LexergyError(
            f"the budget of negatives is {recipe.negatives.budget} and only a part of the shards is to be computed; "
            "expected one of the two, since nobody knows how long all parts take together; leave one out, or give "
            "`--engine ray` in place of parts."
        )


class _Run:
    """Which stage reads what: the graph of a run."""

    def __init__(self, recipe: ResidualRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.plain = recipe.plain()
        self.stage = workspace.stage
        self.context = RunContext(recipe, workspace.folder)
        self.corpus = {**self.plain["corpus"], "content": fingerprint(recipe.corpus.source)}

    def all_stages(self) -> None:
        if self.recipe.lm.train is None:
            tokenizer = self._found_lm()
            base = {"lm": tokenizer}
            windows = self._windows(tokenizer)
        else:
            tokenizer = self._tokenizer()
            # Before the long trainings: a corpus that is too short is told at once.
            windows = self._windows(tokenizer)
            base = self._trained_models(tokenizer)
        frozen = base["lm"]
        base = {**base, "lm": self._corrected_lm(windows, frozen)}
        check_pairs(self.recipe, windows.facts["windows"]["train"])
        self._check_scores()
        negatives = self._negatives(windows, base["lm"])
        trained = self._trained_energies(negatives, base)
        sums = self._sums(negatives, trained)
        energies = [*trained.values(), *sums]
        steering = self._steering(windows, base["lm"], energies)
        if self.recipe.perplexity is not None:
            steered = steering if self.recipe.perplexity.method == "smc" else []
            perplexity = self._perplexity(windows, base["lm"], [*trained.values(), *steered])
            if sums:
                self._measured_sums(perplexity, sums)
        if self.recipe.baselines:
            starts = {"ralm": base["lm"], "lora": frozen, "balm": tokenizer}
            baselines = [self._baseline(name, starts[own.kind]) for name, own in self.recipe.baselines.items()]
            self._baselines(windows, base["lm"], baselines)
        if self.recipe.generation is not None:
            steered = steering if self.recipe.generation.method == "smc" else []
            self._samples(base["lm"], [*energies, *steered])

    def _check_scores(self) -> None:
        """Refuse a perplexity that the LM cannot give, before its samples are paid for."""
        if self.recipe.perplexity is None or not self.recipe.lm.is_remote:
            return
        missing = self.context.lm.unscored
        if missing is not None:
            raise LexergyError(
                f"the perplexity cannot be measured with {self.recipe.lm.description}: {missing}; expected an LM that "
                "gives log-probabilities of a prompt (Lexergy's own server, vLLM), or `perplexity: null` in the recipe."
            )

    def _found_lm(self) -> Stage:
        settings = {key: value for key, value in self.plain["lm"].items() if not key.startswith("residual")}
        config = {**settings, "content": fingerprint(str(self.recipe.lm.source))}
        if self.recipe.lm.finetune is None:
            return self.stage("lm", config, [], partial(refer_to_lm, self.context))
        config["corpus"] = self.corpus
        return self.stage("lm", config, [], partial(finetune_lm, self.context), together=True)

    def _tokenizer(self) -> Stage:
        config = {"corpus": self.corpus, "vocab_size": self.plain["lm"]["train"]["vocab_size"]}
        return self.stage("tokenizer", config, [], partial(build_tokenizer, self.context))

    def _windows(self, reads_with: Stage) -> Stage:
        config = {"corpus": self.corpus, "windows": self.plain["windows"]}
        if self.recipe.lm.residual:
            config["residual_share"] = self.recipe.lm.residual_fit.share
        return self.stage(
            "windows",
            config,
            [reads_with],
            partial(build_windows, self.context),
        )

    def _trained_models(self, tokenizer: Stage) -> dict[str, Stage]:
        lm = self.stage(
            "lm",
            {"corpus": self.corpus, "model": self.plain["lm"]["train"]},
            [tokenizer],
            partial(train_lm, self.context),
            together=True,
        )
        if self.recipe.masked_lm is None:
            return {"lm": lm}
        masked_lm = self.stage(
            "masked_lm",
            {"corpus": self.corpus, "model": self.plain["masked_lm"]},
            [tokenizer],
            partial(train_masked_lm, self.context),
            together=True,
        )
        return {"lm": lm, "masked_lm": masked_lm}

    def _corrected_lm(self, windows: Stage, lm: Stage) -> Stage:
        """The LM with its residuals, each a stage on top of those before it."""
        residuals = self.recipe.lm.residual
        if not residuals:
            return lm
        fit, lengths = self.recipe.lm.residual_fit.model_dump(mode="json"), self.plain["windows"]
        read = {"corpus": self.corpus, "fit": fit, **{key: lengths[key] for key in ("prefix", "continuation")}}
        if self.recipe.windows.ends:
            read["ends"] = True
        states = self.stage(RESIDUAL_STATES, read, [lm], partial(read_positions, self.context))
        fitted: list[Stage] = []
        for residual in residuals:
            corrected = self.stage(
                residual_folder(residual.kind),
                residual.model_dump(mode="json"),
                [states, *fitted],
                partial(fit_residual, self.context, residual.kind, states),
                together=residual.kind == "adapter",
            )
            fitted.append(corrected)
        measured = {"windows": {split: windows.facts["digests"][split] for split in ("validation", "test")}}
        if self.recipe.perplexity is not None:
            measured["measured"] = self.plain["perplexity"]["windows"]
        self.stage(RESIDUAL_PERPLEXITY, measured, fitted, partial(measure_residuals, self.context))
        return fitted[-1]

    def _negatives(self, windows: Stage, lm: Stage) -> Stage:
        # Named by content: more test windows leave the negatives as they are.
        digests = {split: windows.facts["digests"][split] for split in SPLITS_WITH_NEGATIVES}
        config = {"windows": digests, "sampling": decoding_key(self.context), **features_key(self.context.features)}
        if self.recipe.negatives.budget is None:
            return self.stage(NEGATIVES, config, [lm], partial(build_negatives, self.context))
        fitting = self._energy_config(self.recipe.fitted_energies[0])
        return grow_negatives(self.context, self.stage, config, fitting, lm)

    def _trained_energies(self, negatives: Stage, base: dict[str, Stage]) -> dict[str, Stage]:
        trained: dict[str, Stage] = {}
        for name in self.recipe.trained_energies:
            trained[name] = self._energy(name, negatives, {**base, **trained})
        return trained

    def _sums(self, negatives: Stage, trained: dict[str, Stage]) -> list[Stage]:
        return [
            self._sum(name, negatives, [trained[part] for part in recipe.of])
            for name, recipe in self.recipe.sums.items()
        ]

    def _measured_sums(self, perplexity: Stage, sums: list[Stage]) -> Stage:
        return self.stage(
            "sums",
            {},
            [perplexity, *sums],
            partial(measure_sums, self.context, perplexity),
        )

    def _sum(self, name: str, negatives: Stage, parts: list[Stage]) -> Stage:
        return self.stage(
            name,
            self.plain["energies"][name],
            [negatives, *parts],
            partial(fit_sum, self.context, parts, negatives),
        )

    def _energy_config(self, name: str) -> dict[str, Any]:
        recipe = self.recipe.energies[name]
        config: dict[str, Any] = {**self.plain["energies"][name]}
        if recipe.outside_source is not None:
            config["content"] = fingerprint(recipe.outside_source)
        if recipe.revision:
            config["revision"] = recipe.revision
        return config

    def _energy(self, name: str, negatives: Stage, before: dict[str, Stage]) -> Stage:
        recipe = self.recipe.energies[name]
        is_fitted = name in self.recipe.fitted_energies
        return self.stage(
            name,
            self._energy_config(name),
            [negatives, *(before[stage] for stage in recipe.starts_from)],
            partial(fit_energy if is_fitted else train_energy, self.context, name, negatives),
            together=not is_fitted,
        )

    def _steering(self, windows: Stage, lm: Stage, energies: list[Stage]) -> list[Stage]:
        """What particles are drawn and resampled by, if the recipe asks for it."""
        if self.recipe.steering is None:
            return []
        config = {**self.plain["steering"], "validation": windows.facts["digests"]["validation"]}
        return [self.stage(STEERING, config, [lm, *energies], partial(fit_steering, self.context))]

    def _perplexity(self, windows: Stage, lm: Stage, energies: list[Stage]) -> Stage:
        config = {**self.plain["perplexity"], "test": windows.facts["digests"]["test"]}
        return self.stage(
            "perplexity",
            config,
            [lm, *energies],
            partial(measure_perplexity, self.context),
        )

    def _baseline(self, name: str, start: Stage) -> Stage:
        return self.stage(
            name,
            {"corpus": self.corpus, "model": self.plain["baselines"][name]},
            [start],
            partial(train_baseline, self.context, name),
            together=True,
        )

    def _baselines(self, windows: Stage, lm: Stage, baselines: list[Stage]) -> Stage:
        measured = self.plain["perplexity"] or {"windows": None}
        config = {"windows": measured["windows"], "test": windows.facts["digests"]["test"]}
        return self.stage(
            "baselines",
            config,
            [lm, *baselines],
            partial(measure_baselines, self.context),
        )

    def _samples(self, lm: Stage, energies: list[Stage]) -> Stage:
        return self.stage(
            "samples",
            self.plain["generation"],
            [lm, *energies],
            partial(generate_samples, self.context),
        )
