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

from lexergy.data.phonemes import load_phonemes, split_entries, split_sequences
from lexergy.data.synthetic import SequenceLaw, hidden_markov, palindromes
from lexergy.models.architectures.masked_lstm import MaskedLSTM, lengths_of
from lexergy.models.architectures.masked_lstm_partition import log_partition
from lexergy.recipes.masked import FieldRecipe, MaskedObjectivesRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.legacy import StageRunner, locked
from lexergy.runs.stages import Stage, stage_seed
from lexergy.tasks.residual.run import announce, say_nothing
from lexergy.training.loop import train
from lexergy.training.objectives.masked import (
    SampledPseudoLikelihood,
    SequenceLoss,
    SequenceObjective,
    likelihood,
    masked_conditionals,
    projection,
    pseudo_likelihood,
    sequence_losses,
)

WEIGHTS = "model.safetensors"
HELD_OUT, VALIDATION = 10_000, 1_000  # sequences drawn from a known law
TEST_SHARE, VALIDATION_SHARE = 0.1, 0.02  # of the phonemes
HMM_SEED, LOW_ENTROPY, HIGH_ENTROPY = 0, 5.0, 6.43  # nats, as the thesis's ground truths

Source: TypeAlias = Literal["p", "h", "h+", "phoneme", "phoneme-disjoint"]
ObjectiveName: TypeAlias = Literal["likelihood", "pseudo_likelihood", "masked_conditionals", "kl", "kl_pll"]

LAWS: dict[str, Callable[[], SequenceLaw]] = {
    "p": palindromes,
    "h": lambda: hidden_markov(LOW_ENTROPY, HMM_SEED),
    "h+": lambda: hidden_markov(HIGH_ENTROPY, HMM_SEED),
}
SPLITS = {"phoneme": split_entries, "phoneme-disjoint": split_sequences}


class SequenceData(NamedTuple):
    """Sequences padded with -1, and the law that they were drawn from, where it is known."""

    vocab_size: int
    train: Tensor  # (N, L)
    validation: Tensor  # (M, L)
    test: Tensor  # (K, L)
    law: SequenceLaw | None


class Experiment:
    """Trainings by what they are trained on and for; each is made once and then read."""

    def __init__(self, recipe: MaskedObjectivesRecipe, runner: StageRunner, progress: bool) -> None:
        self.recipe = recipe
        self.making_seconds = 0.0  # of the trainings asked for, when they were made
        self.measuring_seconds = 0.0  # of their held-out numbers
        self._runner = runner
        self._progress = progress

    def trained(
        self, source: Source, size: int | None, objective: ObjectiveName, *, teacher: Stage | None = None
    ) -> Stage:
        """The training on `size` sequences (None: all); a projection starts from its teacher's weights."""
        is_law = source in LAWS
        field = self.recipe.synthetic if is_law else self.recipe.phonemes
        config: dict[str, Any] = {"source": source, "size": size, "objective": objective, **field.model_dump()}
        if not is_law:
            config["cmudict"] = fingerprint(self.recipe.cmudict)
        stage = self._runner.run(
            f"{source}-{size or 'all'}-{objective}",
            config,
            [] if teacher is None else [teacher],
            lambda folder, seed: self._build(source, size, objective, teacher, field, folder, seed),
        )
        self.measuring_seconds += stage.facts["measuring_seconds"]
        self.making_seconds += stage.seconds - stage.facts["measuring_seconds"]
        return stage

    def energies(self, source: Source, size: int | None, stage: Stage) -> tuple[Tensor, Tensor]:
        """E of each held-out sequence under a training's model, and the sequences' lengths, (K,) each."""
        data = sequence_data(self.recipe, source, size)
        field = self.recipe.synthetic if source in LAWS else self.recipe.phonemes
        model = MaskedLSTM(data.vocab_size, field.hidden_size, seed=0)
        model.load_state_dict(load_file(stage.folder / WEIGHTS))
        return _energies(model, data), lengths_of(data.test)

    def _build(
        self,
        source: Source,
        size: int | None,
        objective: ObjectiveName,
        teacher: Stage | None,
        field: FieldRecipe,
        folder: Path,
        seed: int,
    ) -> dict[str, Any]:
        data = sequence_data(self.recipe, source, size)
        model = MaskedLSTM(data.vocab_size, field.hidden_size, seed=seed)
        taught = None
        if teacher is not None:
            taught = MaskedLSTM(data.vocab_size, field.hidden_size, seed=seed)
            taught.load_state_dict(load_file(teacher.folder / WEIGHTS))
            model.load_state_dict(taught.state_dict())
        goal = _objective(objective, data, taught)
        config = field.training.model_copy(update={"seed": seed})
        result = train(model, goal, config, folder, progress=self._progress, label=folder.name)
        save_file(model.state_dict(), folder / WEIGHTS)
        started = time.monotonic()
        measured = measure(model, data, progress=self._progress)
        seconds = round(time.monotonic() - started, 3)
        return {"steps": result.steps, "best_step": result.best_step, "measuring_seconds": seconds, **measured}


@contextmanager
def open_experiment(recipe: MaskedObjectivesRecipe, folder: Path, *, progress: bool) -> Iterator[Experiment]:
    """The experiment in its folder, locked meanwhile."""
    with locked(folder):
        runner = StageRunner(folder, recipe.seed, announce if progress else say_nothing)
        yield Experiment(recipe, runner, progress)


def sequence_data(recipe: MaskedObjectivesRecipe, source: Source, size: int | None) -> SequenceData:
    """Training, validation and held-out sequences: the same for all objectives, others for each seed."""
    seed = stage_seed(recipe.seed, f"data {source} {size}")
    if source in LAWS:
        law = LAWS[source]()
        assert size is not None
        train_set, validation, test = (
            law.sample(count, seed + i) for i, count in enumerate((size, VALIDATION, HELD_OUT))
        )
        return SequenceData(law.vocab_size, train_set, validation, test, law)
    phonemes, split = load_phonemes(recipe.cmudict), SPLITS[source]
    rest, test = split(phonemes.tokens, TEST_SHARE, seed)
    kept, validation = split(rest, VALIDATION_SHARE, seed + 1)
    return SequenceData(len(phonemes.symbols), kept if size is None else kept[:size], validation, test, None)


def measure(model: MaskedLSTM, data: SequenceData, *, progress: bool) -> dict[str, float]:
    """Held-out numbers in nats per sequence: exact -log p, -PLL and -MLM, and the law's own where it is known.

    The objectives but the likelihood say nothing of how likely a length is, so that of sequences of several lengths
    p(y) = p(n) exp(-E(y)) / Z_n, with the training data's share of each length. `nll_one_z` divides by the sum of
    all Z_n instead and leaves the lengths to the energy.
    """
    lengths = lengths_of(data.test)
    log_z = torch.zeros(int(lengths.max()) + 1, dtype=torch.double)
    for length in lengths.unique().tolist():
        log_z[length] = log_partition(model, length, progress=progress)
    energies = _energies(model, data)
    share = lengths_of(data.train).bincount(minlength=len(log_z)).double() / len(data.train)
    found = lengths.unique()
    facts = {
        "nll": float((energies + log_z[lengths] - share[lengths].log()).mean()),
        "nll_one_z": float((energies + log_z[found].logsumexp(0)).mean()),
        "pll": float(sequence_losses(pseudo_likelihood, model, data.test).mean()),
        "mlm": float(sequence_losses(masked_conditionals, model, data.test).mean()),
    }
    if data.law is not None:
        facts["true"] = float(-data.law.log_prob(data.test).mean())
    return facts


def _energies(model: MaskedLSTM, data: SequenceData) -> Tensor:  # -> (K,)
    return sequence_losses(lambda one, rows: one.energy(rows), model, data.test)


def _objective(name: ObjectiveName, data: SequenceData, teacher: MaskedLSTM | None) -> SequenceObjective:
    if name == "pseudo_likelihood" and data.law is None:  # 39 energies per position
        return SampledPseudoLikelihood(data.train, data.validation)
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
