"""Table 5 of "Real or fake": a generator that was trained elsewhere, by others."""

from collections.abc import Iterator, Sequence

import numpy as np

from lexergy.core.estimation.findings import Finding, above
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.real_or_fake.cells import POINTS, Cells, Key, Layout, Sample, accuracy, conclusion, unpaired
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, PAPER_CORPORA, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.scores import Scores
from lexergy.tasks.real_or_fake.text_sets import TextSet

ENERGIES = ("unit", "bit")
SEEN = "transf-big"
_NUMBERS = {
    "GPT2 small (137M)": (90.9, 80.4, 82.6, 92.0, 87.6),
    "GPT2 medium (380M)": (88.1, 73.2, 78.8, 89.6, 78.4),
    "TransfHuge (1427M)": (81.8, 66.1, 75.1, 82.3, 66.9),
}


def row_name(energy: str, generator: str) -> str:
    return f"{energy}, {generator}"


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    corpora = settings["corpora"]
    trained_on = [TextSet(corpus, SEEN) for corpus in corpora]
    cells: dict[Key, Scores] = {}
    for energy in ENERGIES:
        for generator in (SEEN, *settings["unseen"]):
            for corpus in corpora:
                texts = TextSet(corpus, generator, sides=("prefix",))
                cells[row_name(energy, generator), corpus] = laboratory.scores(energy, trained_on, texts)
    return cells


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    rows, corpora = (list(dict.fromkeys(part)) for part in zip(*seeds[0], strict=True))
    layout = Layout("accuracy in the wild", ("energy, generator", "corpus"), rows, corpora, {}, PAPER_CORPORA)
    return conclusion(seeds, layout, _findings(seeds, rows, corpora), (_paper_table(),))


def _findings(seeds: Sequence[Cells], rows: Sequence[str], corpora: Sequence[str]) -> Iterator[Finding]:
    for energy in ENERGIES:
        seen, *unseen = [row for row in rows if row.startswith(f"{energy}, ")]
        for row in unseen:
            yield above(
                f"The bigger, unseen generator's texts are harder to tell ({row}).",
                f"accuracy on {SEEN}'s texts - on the unseen generator's, {POINTS}",
                unpaired(*([_pooled(cells, generator, corpora) for cells in seeds] for generator in (seen, row))),
            )
            yield above(
                f"Energies trained on other generators tell the unseen one's texts better than chance ({row}).",
                "balanced accuracy, per cent",
                accuracy(seeds, [(row, corpus) for corpus in corpora]),
                50.0,
            )


def _pooled(cells: Cells, row: str, corpora: Sequence[str]) -> Sample:
    """The accuracies of all corpora's windows."""
    parts = [cells[row, corpus] for corpus in corpora]
    documents = [document for part in parts for document in part.documents]
    return Sample(100 * np.concatenate([part.accuracies for part in parts]), documents)


def _paper_table() -> Table:
    columns = ("generator", "UniTransf, Books", "CCNews", "Wiki", "BiTransf, Books", "CCNews")
    return Table("the paper's Table 5", columns, [(name, *numbers) for name, numbers in _NUMBERS.items()])


STUDY = Study(
    title="A generator trained elsewhere",
    part="Table 5 and Section 5.4",
    paper=PAPER,
    method=(
        f"{SETTING} The energies are trained on all corpora's texts of {SEEN} and tested on texts that follow a "
        "prefix: of the twin of that generator, and of one that was trained elsewhere, on other text, with its own "
        "tokenizer (SmolLM2-135M-Instruct in 4 bits at size cpu, GPT-2 in the paper). Its continuations are decoded, "
        "and encoded again with the energies' tokenizer; so are people's windows, and both are cut by four tokens. "
        "It writes one twin of each window, at size cpu of 128 windows of a corpus."
    ),
    sizes=sizes(
        cpu={"corpora": ("bible", "sotu", "wikitext"), "unseen": ("smollm2-135m",)},
        paper={"corpora": ("books", "cc-news", "wikitext"), "unseen": ("gpt2-small", "gpt2-medium")},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
