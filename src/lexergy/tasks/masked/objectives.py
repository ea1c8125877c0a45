"""Trainings of one masked LSTM by different objectives on data whose search space can be summed (6.2.3, Goyal 2021).

runs/reproduce/masked-objectives-cpu-seed0/
    p-1000-likelihood/          a stage per training: weights, and in its facts the held-out numbers
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy.data.masked.phonemes import load_phonemes, split_entries, split_sequences
from lexergy.data.masked.synthetic import SequenceDistribution, hidden_markov, palindromes
from lexergy.files import reading
from lexergy.models.architectures.masked_lstm import MaskedLSTM, lengths_of
from lexergy.models.architectures.masked_lstm_partition import log_partition
from lexergy.recipes.masked import FieldRecipe, MaskedObjectivesRecipe
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.stages import Facts, Stage, stage_seed
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace
from lexergy.training.objectives.masked import (
    SequenceLoss,
    SequenceObjective,
    likelihood,
    masked_conditionals,
    projection,
    pseudo_likelihood,
    sampled_projection,
    sampled_pseudo_likelihood,
    sequence_losses,
)
from lexergy.training.stage import train_into

WEIGHTS = "model.safetensors"
HELD_OUT, VALIDATION = 10_000, 1_000  # sequences drawn from a known distribution
TEST_SHARE, VALIDATION_SHARE = 0.1, 0.02  # of the phonemes
HMM_SEED, LOW_ENTROPY, HIGH_ENTROPY = 0, 5.0, 6.43  # nats, as the thesis's ground truths

RESERVED = "phoneme-short"  # phonemes of which most are reserved for a masked LM, few left for its projections
SHORT_LENGTH, FOR_PROJECTIONS = 4, 3_000

Source: TypeAlias = Literal["p", "h", "h+", "phoneme", "phoneme-disjoint", "phoneme-short"]
ObjectiveName: TypeAlias = Literal["likelihood", "pseudo_likelihood", "masked_conditionals", "kl", "kl_pll"]

DISTRIBUTIONS: dict[str, Callable[[], SequenceDistribution]] = {
    "p": palindromes,
    "h": lambda: hidden_markov(LOW_ENTROPY, HMM_SEED),
    "h+": lambda: hidden_markov(HIGH_ENTROPY, HMM_SEED),
}
SPLITS = {"phoneme": split_entries, "phoneme-disjoint": split_sequences}


class SequenceData(NamedTuple):
    """Sequences padded with -1, and the distribution that they were drawn from, where it is known."""

    vocab_size: int
    train: Tensor  # (N, L)
    validation: Tensor  # (M, L)
    test: Tensor  # (K, L)
    distribution: SequenceDistribution | None
    lengths: Tensor | None = None  # how often each length occurs, where the training data are too few to say


class Experiment:
    """Trainings by what they are trained on and for; each is made once and then read."""

    def __init__(self, recipe: MaskedObjectivesRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspace = workspace

    @property
    def seconds(self) -> Seconds:
        """What the trainings and their held-out numbers took, of those asked for."""
        return self.workspace.seconds()

    def trained(
        self, source: Source, size: int | None, objective: ObjectiveName, *, teacher: Stage | None = None
    ) -> Stage:
        """The training on `size` sequences (None: all); a projection starts from its teacher's weights."""
        is_synthetic = source in DISTRIBUTIONS
        field = self._field(source, size)
        config: dict[str, Any] = {"source": source, "size": size, "objective": objective, **field.model_dump()}
        if not is_synthetic:
            config["cmudict"] = fingerprint(self.recipe.cmudict)

        def build(stage: OpenStage) -> Facts:
            data = sequence_data(self.recipe, source, size)
            model = MaskedLSTM(data.vocab_size, field.hidden_size, seed=stage.seed)
            taught = None
            if teacher is not None:
                taught = _read_weights(MaskedLSTM(data.vocab_size, field.hidden_size, seed=stage.seed), teacher)
                model.load_state_dict(taught.state_dict())
            return _train_and_measure(model, _objective(objective, data, taught), data, field.training, stage)

        name = f"{source}-{size or 'all'}-{objective}"
        return self.workspace.stage(name, config, [] if teacher is None else [teacher], build)

    def energies(self, source: Source, size: int | None, stage: Stage) -> tuple[Tensor, Tensor]:
        """E of each held-out sequence under a training's model, and the sequences' lengths, (K,) each."""
        data = sequence_data(self.recipe, source, size)
        field = self._field(source, size)
        model = _read_weights(MaskedLSTM(data.vocab_size, field.hidden_size, seed=0), stage)
        return _energies(model, data), lengths_of(data.test)

    def _field(self, source: Source, size: int | None) -> FieldRecipe:
        """Wide and long enough for the data."""
        if source in DISTRIBUTIONS:
            return self.recipe.synthetic
        return self.recipe.few_phonemes if source == RESERVED and size is not None else self.recipe.phonemes


@contextmanager
def open_experiment(recipe: MaskedObjectivesRecipe, folder: Path, *, progress: bool) -> Iterator[Experiment]:
    """The experiment in its folder, locked meanwhile."""
    with open_workspace(folder, recipe.seed, progress=progress) as workspace:
        yield Experiment(recipe, workspace)


def sequence_data(recipe: MaskedObjectivesRecipe, source: Source, size: int | None) -> SequenceData:
    """Training, validation and held-out sequences: the same for all objectives, others for each seed."""
    if source == RESERVED:
        return _short_phonemes(recipe, size)
    seed = stage_seed(recipe.seed, f"data {source} {size}")
    if source in DISTRIBUTIONS:
        distribution = DISTRIBUTIONS[source]()
        assert size is not None
        train_set, validation, test = (
            distribution.sample(count, seed + i) for i, count in enumerate((size, VALIDATION, HELD_OUT))
        )
        return SequenceData(distribution.vocab_size, train_set, validation, test, distribution)
    phonemes, split = load_phonemes(recipe.cmudict), SPLITS[source]
    rest, test = split(phonemes.tokens, TEST_SHARE, seed)
    kept, validation = split(rest, VALIDATION_SHARE, seed + 1)
    return SequenceData(len(phonemes.symbols), kept if size is None else kept[:size], validation, test, None)


def _short_phonemes(recipe: MaskedObjectivesRecipe, size: int | None) -> SequenceData:
    """At most four phonemes, one split for all sizes: None is what is reserved for a masked LM, none of which is in the
    smaller sets; no held-out sequence is in either."""
    phonemes, seed = load_phonemes(recipe.cmudict, SHORT_LENGTH), stage_seed(recipe.seed, f"data {RESERVED}")
    rest, test = split_sequences(phonemes.tokens, TEST_SHARE, seed)
    kept, validation = split_sequences(rest, VALIDATION_SHARE, seed + 1)
    shuffled = kept[torch.randperm(len(kept), generator=torch.Generator().manual_seed(seed))]
    train_set = shuffled[FOR_PROJECTIONS:] if size is None else shuffled[:FOR_PROJECTIONS][:size]
    return SequenceData(len(phonemes.symbols), train_set, validation, test, None, lengths_of(rest))


def measure(model: MaskedLSTM, data: SequenceData, *, progress: bool) -> dict[str, float]:
    """Held-out numbers in nats per sequence: exact -log p, -PLL and -MLM, and the distribution's own where it is known.

    The objectives but the likelihood say nothing of how likely a length is, so that of sequences of several lengths
    p(y) = p(n) exp(-E(y)) / Z_n, with the training data's share of each length, or that of
    `data.lengths`. `nll_one_z` divides by the sum of all Z_n instead and leaves the lengths to the energy.
    """
    lengths = lengths_of(data.test)
    log_z = torch.zeros(int(lengths.max()) + 1, dtype=torch.double)
    for length in lengths.unique().tolist():
        log_z[length] = log_partition(model, length, progress=progress)
    energies = _energies(model, data)
    seen = lengths_of(data.train) if data.lengths is None else data.lengths
    share = seen.bincount(minlength=len(log_z)).double() / len(seen)
    present = lengths.unique()
    facts = {
        "nll": float((energies + log_z[lengths] - share[lengths].log()).mean()),
        "nll_one_z": float((energies + log_z[present].logsumexp(0)).mean()),
        "pll": float(sequence_losses(pseudo_likelihood, model, data.test).mean()),
        "mlm": float(sequence_losses(masked_conditionals, model, data.test).mean()),
    }
    if data.distribution is not None:
        facts["true"] = float(-data.distribution.log_prob(data.test).mean())
    return facts


def _train_and_measure(
    model: MaskedLSTM, objective: SequenceObjective, data: SequenceData, training: TrainingRecipe, stage: OpenStage
) -> Facts:
    facts = train_into(
        stage,
        model,
        objective,
        training.model_copy(update={"seed": stage.seed}),
        save=lambda folder: save_file(model.state_dict(), folder / WEIGHTS),
        label=stage.name,
    )
    started = time.monotonic()
    measured = measure(model, data, progress=stage.progress)
    return {**facts, "measuring_seconds": round(time.monotonic() - started, 3), **measured}


def _read_weights(model: MaskedLSTM, stage: Stage) -> MaskedLSTM:
    with reading(stage.folder / WEIGHTS):
        model.load_state_dict(load_file(stage.folder / WEIGHTS))
    return model


def _energies(model: MaskedLSTM, data: SequenceData) -> Tensor:  # -> (K,)
    return sequence_losses(lambda lstm, rows: lstm.energy(rows), model, data.test)


def _objective(name: ObjectiveName, data: SequenceData, teacher: MaskedLSTM | None) -> SequenceObjective:
    if data.distribution is None and name != "masked_conditionals":  # 39 energies per position
        if name == "pseudo_likelihood":
            return sampled_pseudo_likelihood(data.train, data.validation)
        return sampled_projection(_given(teacher), data.train, data.validation, with_likelihood=name == "kl_pll")
    losses: dict[str, Callable[[], SequenceLoss]] = {
        "likelihood": lambda: likelihood,
        "pseudo_likelihood": lambda: pseudo_likelihood,
        "masked_conditionals": lambda: masked_conditionals,
        "kl": lambda: projection(_given(teacher)),
        "kl_pll": lambda: projection(_given(teacher), with_likelihood=True),
    }
    return SequenceObjective(losses[name](), data.train, data.validation)


def _given(teacher: MaskedLSTM | None) -> MaskedLSTM:
    assert teacher is not None
    return teacher
