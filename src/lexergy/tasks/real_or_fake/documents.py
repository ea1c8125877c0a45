"""Whole documents, people's and machine-written without any context, told apart block by block.

Both begin where documents begin and are cut at one length, so that no place in a document tells who wrote it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import EnergyModel
from lexergy.models.energies.perturbations import window_energies
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.stages import Stage, stage_seed
from lexergy.tasks.real_or_fake.energies import LEARNING_SPLITS
from lexergy.tasks.real_or_fake.laboratory import Laboratory, read_measurement
from lexergy.tasks.real_or_fake.scores import Scores
from lexergy.tasks.real_or_fake.text_sets import Split, document_start
from lexergy.training.objectives.contrastive import ContrastiveData


@dataclass(frozen=True)
class DocumentSet:
    """The first `length` tokens of at most so many documents of a corpus, and as many of a generator's own.

    The generator samples from its `top_k` likeliest tokens, or from all of them (None).
    """

    corpus: str
    generator: str
    top_k: int | None
    length: int
    train: int
    validation: int
    test: int

    @property
    def name(self) -> str:
        return f"{self.corpus}--{self.generator}--{'random' if self.top_k is None else f'top-{self.top_k}'}"


class Documents(NamedTuple):
    people: Tensor  # (N, T)
    machine: Tensor  # (N, T)
    sources: list[str]  # N, which document of the corpus


def documents_stage(laboratory: Laboratory, wanted: DocumentSet, split: Split) -> Stage:
    """One generator writes all splits' documents: what is unseen in the test is other documents (Table 6)."""
    generator = laboratory.generators.stage(wanted.generator, wanted.corpus, "prefix", "train")
    count = getattr(wanted, split)

    def make(seed: int) -> pa.Table:
        people = laboratory.corpora.beginnings(wanted.corpus, split, wanted.length)
        people = people.sample(min(count, len(people)), seed)
        lm = CausalLM.from_pretrained(generator.folder)
        machine = write_documents(lm, len(people), wanted.length, laboratory.recipe.windows.length, wanted.top_k, seed)
        return pa.table(
            {
                "people": to_column(people.tokens.numpy()),
                "machine": to_column(machine.numpy()),
                "source": pa.array(people.document_ids, pa.string()),
            }
        )

    config = {"count": count, "length": wanted.length, "top_k": wanted.top_k, "from": "beginnings"}
    return laboratory.measurement_stage("documents", f"{wanted.name}--{split}", config, [generator], make)


def read_documents(stage: Stage) -> Documents:
    table = read_measurement(stage)
    people, machine = (torch.from_numpy(from_column(table.column(name))) for name in ("people", "machine"))
    return Documents(people, machine, table.column("source").to_pylist())


def write_documents(
    lm: CausalLM, count: int, length: int, window: int, top_k: int | None, seed: int
) -> Tensor:  # (count, length)
    """Documents from their beginning on, half a window at a time, since the LM reads no more than a window."""
    ids = list(range(count))
    start = document_start(lm, count)
    text = lm.sample(start, num_samples=1, max_new_tokens=window, top_k=top_k, seed=seed, prefix_ids=ids).tokens[:, 0]
    half = window // 2
    while text.shape[1] < length:
        piece = lm.sample(
            text[:, -half:],
            num_samples=1,
            max_new_tokens=half,
            top_k=top_k,
            seed=stage_seed(seed, f"tokens from {text.shape[1]} on"),
            prefix_ids=ids,
        )
        text = torch.cat((text, piece.tokens[:, 0]), dim=1)
    return text[:, :length]


def blocks(documents: Tensor, length: int) -> Tensor:  # (N, T) -> (N, blocks, length)
    """Intersecting blocks, each half a block after the one before."""
    return documents.unfold(1, length, length // 2)


def block_energy_stage(laboratory: Laboratory, name: str, train_sets: Sequence[DocumentSet]) -> Stage:
    """An energy trained on the blocks of documents: all blocks of a document are its author's."""
    stages = {split: [documents_stage(laboratory, wanted, split) for wanted in train_sets] for split in LEARNING_SPLITS}
    length = laboratory.recipe.windows.length

    def data(split: Split) -> ContrastiveData:
        sets = [read_documents(stage) for stage in stages[split]]
        people, machine = (
            torch.cat([blocks(getattr(documents, author), length).flatten(0, 1) for documents in sets])
            for author in ("people", "machine")
        )
        return ContrastiveData(people[:, :0], people, machine[:, None])

    on = "documents--" + "+".join(wanted.name for wanted in train_sets)
    return laboratory.energies.trained_stage(
        name, on, train_sets[0].corpus, [stage for split in stages.values() for stage in split], data
    )


def document_scores(
    laboratory: Laboratory, name: str, train_sets: Sequence[DocumentSet], wanted: DocumentSet
) -> Scores:
    """The mean energy over the blocks of each test document."""
    energy, stage = block_energy_stage(laboratory, name, train_sets), documents_stage(laboratory, wanted, "test")

    def score(seed: int) -> pa.Table:
        model, documents = EnergyModel.from_pretrained(energy.folder), read_documents(stage)
        columns = [
            _mean_over_blocks(model, tokens, laboratory.recipe.windows.length)
            for tokens in (documents.people, documents.machine)
        ]
        return pa.table({"energy": to_column(np.stack(columns, axis=1))})

    pair = f"{energy.folder.name}--of--{wanted.name}"
    table = laboratory.measured("document_scores", pair, {}, [energy, stage], score)
    return Scores(from_column(table.column("energy")), tuple(read_documents(stage).sources))


def _mean_over_blocks(energy: EnergyModel, documents: Tensor, length: int) -> np.ndarray:  # (N,)
    cut = blocks(documents, length)
    return window_energies(energy, cut.flatten(0, 1)).view(cut.shape[:2]).mean(1).numpy()


def bag_of_words_scores(laboratory: Laboratory, wanted: DocumentSet) -> Scores:
    """TF-IDF of words and word pairs with logistic regression, trained and tested on one set (Radford & Wu 2019)."""
    train, test = (documents_stage(laboratory, wanted, split) for split in ("train", "test"))

    def score(seed: int) -> pa.Table:
        # Imported here: scikit-learn takes a second of start-up that nothing else needs.
        from lexergy.tasks.detection.baselines import tf_idf_energies

        learnt, asked = (_texts(laboratory.corpora.tokenizer, read_documents(stage)) for stage in (train, test))
        is_machine = [row >= len(learnt) // 2 for row in range(len(learnt))]
        energies = tf_idf_energies(learnt, is_machine, asked)
        return pa.table({"energy": to_column(energies.view(2, -1).T.numpy())})

    table = laboratory.measured("bag_of_words", wanted.name, {}, [train, test], score)
    return Scores(from_column(table.column("energy")), tuple(read_documents(test).sources))


def _texts(tokenizer: Any, documents: Documents) -> list[str]:
    """People's, then the machine's."""
    rows = torch.cat([documents.people, documents.machine]).tolist()
    return tokenizer.batch_decode(rows, clean_up_tokenization_spaces=False)
