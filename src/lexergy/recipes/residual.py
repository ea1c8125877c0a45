"""A recipe: everything that decides the result of a run, written down in one YAML file."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lexergy.recipes.durations import Duration, seconds_of
from lexergy.recipes.sections.base_models import FinetuneRecipe, LMRecipe, MaskedLMRecipe
from lexergy.recipes.sections.energies import AnyEnergyRecipe, NgramTablesRecipe, SumEnergyRecipe
from lexergy.recipes.sections.energy import LearntEnergyRecipe
from lexergy.recipes.sections.engine import EngineRecipe
from lexergy.recipes.sections.fitted_energies import FittedEnergyRecipe
from lexergy.recipes.sections.local_residuals import (
    LOCAL_RESIDUALS,
    RESIDUAL_PERPLEXITY,
    RESIDUAL_STATES,
    residual_folder,
)
from lexergy.recipes.sections.section import Fraction, PositiveInt, Recipe, Section, Seed, check_folder_names
from lexergy.recipes.sections.shapes import CausalShapeRecipe
from lexergy.recipes.sections.training import TrainingRecipe

LEARNING_CURVE = "learning_curve"
RESERVED_FOLDERS = frozenset(
    {
        "tokenizer",
        "windows",
        "lm",
        *(residual_folder(kind) for kind in LOCAL_RESIDUALS),
        RESIDUAL_STATES,
        RESIDUAL_PERPLEXITY,
        "masked_lm",
        "negatives",
        LEARNING_CURVE,
        "steering",
        "perplexity",
        "sums",
        "baselines",
        "samples",
        "report",
        "studies",
    }
)


class CorpusRecipe(Section):
    """Where the text comes from and which share of its documents is held out.

    `split_seed` (null: the recipe's seed) decides which documents and windows are held out, so that runs with
    several seeds can be tested on the same windows.
    """

    added_later = frozenset({"split_seed"})

    source: str
    text_field: str = "text"
    validation: Fraction = 0.1
    test: Fraction = 0.1
    split_seed: Seed | None = None


class WindowsRecipe(Section):
    """Lengths in tokens, and at most how many windows of each split are kept (null: all).

    With `ends`, a document's last tokens and its end are in a window too, and the LM may end its continuations: they
    have at most so many tokens. Without, all windows are whole and no text ends.
    """

    added_later = frozenset({"ends"})

    prefix: PositiveInt
    continuation: PositiveInt
    stride: PositiveInt | None = None
    train: PositiveInt | None = None
    validation: PositiveInt | None = None
    test: PositiveInt | None = None
    ends: bool = False


class NegativesRecipe(Section):
    """Continuations by the LM: untruncated unless said otherwise, as Eq. 3 assumes."""

    per_prefix: PositiveInt = 1
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_k: PositiveInt | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None


class RunNegativesRecipe(NegativesRecipe):
    """Those of a run, of all windows; with a `budget` (`90s`, `60m`, `2h`) of some, until more are not worth it.

    Then pairs are added while the first fitted energy's loss on documents held out still falls, and the time lasts.
    """

    added_later = frozenset({"budget"})

    budget: Duration | None = None

    @property
    def seconds(self) -> float | None:
        """The budget in seconds."""
        return None if self.budget is None else seconds_of(self.budget)


class RalmRecipe(Section):
    """RALM (Eq. 6): the frozen LM times another LM, normalised at every token, of which the other is trained.

    `from` lm: it starts as a copy of the LM; from scratch: untrained, of the LM's shape or of `shape`.
    `max_length` is that of the blocks it is trained on (null: as `lm.train`).
    """

    kind: Literal["ralm"]
    origin: Literal["lm", "scratch"] = Field("lm", alias="from")
    shape: CausalShapeRecipe | None = None
    max_length: PositiveInt | None = None
    ngram_tables: NgramTablesRecipe | None = None
    training: TrainingRecipe

    @model_validator(mode="after")
    def _a_copy_has_its_shape(self) -> Self:
        if self.origin == "lm" and self.shape is not None:
            raise ValueError("`shape` is given and `from` is lm, whose shape it has; expected `from: scratch`")
        return self


class BalmRecipe(CausalShapeRecipe):
    """BALM: a bigger LM over the same tokens, trained from scratch by cross-entropy."""

    kind: Literal["balm"]
    max_length: PositiveInt
    ngram_tables: NgramTablesRecipe | None = None
    training: TrainingRecipe


class LoraBaselineRecipe(FinetuneRecipe):
    """The LM itself trained further by LoRA, as `lm.finetune` does it: what is left on the table by a frozen LM."""

    kind: Literal["lora"]


BaselineRecipe = Annotated[RalmRecipe | BalmRecipe | LoraBaselineRecipe, Field(discriminator="kind")]


SamplingMethod = Literal["importance", "smc"]
"""Whether whole continuations are weighed, or resampled while they are written (energies on the LM's states)."""

SMC_RUNS = 4


class PerplexityRecipe(Section):
    """Samples per window for the bounds of Theorem 2, and how many test windows (null: all).

    By `smc`, `samples` are the particles of a run, and there are so many `runs` of each window and energy (null: 4).
    """

    added_later = frozenset({"method", "runs"})

    samples: Annotated[int, Field(ge=2)] = 64
    windows: PositiveInt | None = None
    method: SamplingMethod = "importance"
    runs: Annotated[int, Field(ge=2)] | None = None

    @model_validator(mode="after")
    def _runs_are_of_smc(self) -> Self:
        if self.runs is not None and self.method != "smc":
            raise ValueError(f"`runs` is {self.runs} and `method` is {self.method}; expected `method: smc`")
        return self

    @property
    def num_runs(self) -> int | None:
        """How many runs of SMC; None where there are none."""
        return (self.runs or SMC_RUNS) if self.method == "smc" else None


class SteeringRecipe(Section):
    """What particles of `method: smc` are drawn and resampled by, fitted to each energy on validation prefixes.

    Resampled every so many tokens where the effective sample size is below this share. Without this section tokens are
    drawn by the LM, and texts weighed by t / T of their energy every four tokens.
    """

    prefixes: PositiveInt = 96
    samples: Annotated[int, Field(ge=3)] = 16
    every: PositiveInt = 1
    below: Annotated[float, Field(ge=0, le=1)] = 1.0


class GenerationRecipe(Section):
    """Prompts that the base LM and the joint model continue side by side (Algorithm 1, or SMC)."""

    added_later = frozenset({"method"})

    prompts: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    candidates: Annotated[int, Field(ge=2)] = 128
    max_new_tokens: PositiveInt = 40
    top_k: PositiveInt | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    method: SamplingMethod = "importance"


class ResidualRecipe(Recipe):
    """A whole run.

    Examples:
        >>> from lexergy import ResidualRecipe
        >>> recipe = ResidualRecipe.model_validate(
        ...     {
        ...         "name": "mine",
        ...         "corpus": {"source": "essays/"},
        ...         "windows": {"prefix": 64, "continuation": 32},
        ...         "lm": {"source": "smollm2-135m"},
        ...         "energies": {
        ...             "energy": {
        ...                 "kind": "states",
        ...                 "layers": [30],
        ...                 "training": {"learning_rate": 1e-3, "max_steps": 300, "batch_size": 64},
        ...             }
        ...         },
        ...         "generation": {"prompts": ["Our economy is"]},
        ...     }
        ... )
        >>> recipe.seed, recipe.negatives.per_prefix, recipe.perplexity.samples  # what was left out
        (0, 1, 64)
    """

    added_later = frozenset({"baselines", "steering"})

    corpus: CorpusRecipe
    windows: WindowsRecipe
    lm: LMRecipe
    masked_lm: MaskedLMRecipe | None = None
    negatives: RunNegativesRecipe = RunNegativesRecipe()
    energies: dict[str, AnyEnergyRecipe] = Field(min_length=1)
    baselines: dict[str, BaselineRecipe] = Field({})
    steering: SteeringRecipe | None = None
    perplexity: PerplexityRecipe | None = PerplexityRecipe()
    generation: GenerationRecipe | None = None
    engine: EngineRecipe = Field(default=EngineRecipe(), exclude=True)  # decides no result

    @model_validator(mode="after")
    def _parts_fit(self) -> "ResidualRecipe":
        _check_names(self)
        _check_masked_lm(self)
        _check_lengths(self)
        _check_layers(self)
        _check_remote(self)
        _check_budget(self)
        for name, energy in self.energies.items():
            energy.check_beside(name, self.energies)
        _check_smc(self)
        return self

    @property
    def split_seed(self) -> int:
        """What decides the split and the windows that are kept."""
        return self.seed if self.corpus.split_seed is None else self.corpus.split_seed

    @property
    def sums(self) -> dict[str, SumEnergyRecipe]:
        """The energies that are sums of others."""
        return {name: energy for name, energy in self.energies.items() if isinstance(energy, SumEnergyRecipe)}

    @property
    def trained_energies(self) -> list[str]:
        """The names of those that are not."""
        return [name for name in self.energies if name not in self.sums]

    @property
    def steered_energies(self) -> list[str]:
        """The names of those that know something of a text before its end."""
        return [name for name in self.energies if _reads_states(self, name)]

    @property
    def fitted_energies(self) -> list[str]:
        """The names of those that are heads fitted in one piece."""
        return [name for name, energy in self.energies.items() if isinstance(energy, FittedEnergyRecipe)]


def _check_names(recipe: ResidualRecipe) -> None:
    """Names of energies and baselines are folders of the run."""
    for kind, names in (("energy", recipe.energies), ("baseline", recipe.baselines)):
        check_folder_names(kind, names, RESERVED_FOLDERS)
    twice = sorted(recipe.energies.keys() & recipe.baselines.keys())
    if twice:
        raise ValueError(
            f"`{twice[0]}` is the name of an energy and of a baseline; expected two names, since each names a folder"
        )


def _check_masked_lm(recipe: ResidualRecipe) -> None:
    if recipe.masked_lm is not None and recipe.lm.train is None:
        raise ValueError(
            f"`masked_lm` is trained here but `lm` is {recipe.lm.source}, whose tokenizer has no mask token; "
            "expected `lm.train`; or use an energy of kind `encoder`"
        )
    for name, energy in recipe.energies.items():
        if "masked_lm" in energy.starts_from and recipe.masked_lm is None:
            raise ValueError(f"the energy `{name}` is made from masked_lm; expected a section `masked_lm`")


def _check_layers(recipe: ResidualRecipe) -> None:
    highest = max((layer for energy in recipe.energies.values() for layer in energy.state_layers or ()), default=0)
    trained = recipe.lm.train
    if trained is None:
        return
    # The last states of an OPT with narrower embeddings are projected to their width.
    projects = trained.architecture == "opt" and trained.embedding_size not in (None, trained.hidden_size)
    last = trained.num_layers - projects
    if highest > last:
        raise ValueError(
            f"an energy of kind `states` reads layer {highest}; expected 0 (embeddings) to "
            f"{last}, the last layer of `lm.train`"
        )


def _check_remote(recipe: ResidualRecipe) -> None:
    """Refuse what needs the weights of an LM that runs elsewhere, before anything is sampled from it."""
    if not recipe.lm.is_remote:
        return
    for name, energy in recipe.energies.items():
        if energy.state_layers is not None or "lm" in energy.starts_from:
            raise ValueError(
                f"the energy `{name}` of kind `{energy.kind}` is made from the LM's weights or states, and the LM is "
                f"{recipe.lm.source}; expected kind fitted_reader, fitted_encoder, encoder, linear or bilstm"
            )
    if recipe.baselines:
        raise ValueError(f"`baselines` are made with the LM's weights, and those of {recipe.lm.source} are elsewhere")


def _check_budget(recipe: ResidualRecipe) -> None:
    budget = recipe.negatives.budget
    if budget is None:
        return
    if not recipe.fitted_energies:
        raise ValueError(
            f"the budget of negatives is {budget} and no energy is fitted, whose learning curve would say when to "
            "stop; expected one of kind fitted_states, fitted_reader or fitted_encoder; or leave the budget out"
        )
    for name, energy in recipe.energies.items():
        if isinstance(energy, LearntEnergyRecipe) and energy.pairs is not None:
            raise ValueError(
                f"the budget of negatives is {budget} and the energy `{name}` asks for {energy.pairs} pairs; expected "
                "one of the two, since a budget decides how many there are"
            )


def _check_smc(recipe: ResidualRecipe) -> None:
    """Refuse energies of which nothing is known before a text has ended, before they are trained."""
    sections = {"perplexity": recipe.perplexity, "generation": recipe.generation}
    asked = [key for key, section in sections.items() if section is not None and section.method == "smc"]
    for name, energy in recipe.energies.items():
        if asked and not _reads_states(recipe, name):
            raise ValueError(
                f"`{asked[0]}.method` is smc and the energy `{name}` of kind `{energy.kind}` reads whole texts only; "
                "expected energies on the LM's states (kind states or fitted_states); or leave `method` out"
            )
    if recipe.steering is not None and not recipe.steered_energies:
        raise ValueError(
            "`steering` is given and all energies read whole texts only; expected one on the LM's states (kind states "
            "or fitted_states); or leave the section out"
        )


def _reads_states(recipe: ResidualRecipe, name: str) -> bool:
    """Itself, or by one of those that it is made from."""
    energy = recipe.energies[name]
    parts = (part for part in energy.starts_from if part in recipe.energies)
    return energy.state_layers is not None or any(_reads_states(recipe, part) for part in parts)


def _check_lengths(recipe: ResidualRecipe) -> None:
    length = recipe.windows.prefix + recipe.windows.continuation
    limits = {f"baselines.{name}.max_length": baseline.max_length for name, baseline in recipe.baselines.items()}
    if recipe.lm.train is not None:
        limits["lm.train.max_length"] = recipe.lm.train.max_length
    if recipe.masked_lm is not None:
        limits["masked_lm.max_length"] = recipe.masked_lm.max_length
    for key, limit in limits.items():
        if limit is None and recipe.lm.train is None:
            raise ValueError(
                f"the key `{key}` is missing; expected the length of the blocks to train on, since the LM is "
                f"{recipe.lm.source} and not trained here"
            )
        if limit is not None and limit < length:
            raise ValueError(
                f"`{key}` is {limit}; expected at least {length}, the prefix and the continuation of a window"
            )
