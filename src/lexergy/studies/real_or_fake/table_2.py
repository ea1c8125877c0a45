"""Table 2 of "Real or fake": which energies tell machine text from people's, in-domain."""

from collections.abc import Iterator, Mapping, Sequence

from lexergy.core.estimation.findings import Finding, above
from lexergy.report.pages.study import Conclusion
from lexergy.studies.real_or_fake.cells import POINTS, Cells, Key, Layout, conclusion, difference
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, PAPER_CORPORA, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.scores import Scores
from lexergy.tasks.real_or_fake.text_sets import TextSet

LIKELIHOOD = "log-likelihood"
ENERGIES = ("linear", "bilstm-small", "bilstm-big", "unit")
ROWS = (*ENERGIES, LIKELIHOOD)
_NUMBERS = {
    "linear": (59.8, 58.6, 56.3),
    "bilstm-small": (84.7, 77.6, 71.0),
    "bilstm-big": (86.7, 80.1, 72.8),
    "unit": (91.7, 88.4, 76.4),
    LIKELIHOOD: (57.1, 50.8, 50.5),
}
PAPER_ACCURACIES: Mapping[Key, float] = {
    (row, corpus): number
    for row, numbers in _NUMBERS.items()
    for corpus, number in zip(("Books", "CCNews", "Wiki"), numbers, strict=True)
}


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    cells: dict[Key, Scores] = {}
    for corpus in settings["corpora"]:
        texts = TextSet(corpus, settings["generator"])
        for energy in ENERGIES:
            cells[energy, corpus] = laboratory.scores(energy, [texts], texts)
        cells[LIKELIHOOD, corpus] = laboratory.likelihood_scores(texts)
    return cells


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    corpora = list(dict.fromkeys(corpus for _, corpus in seeds[0]))
    layout = Layout("accuracy in-domain", ("energy", "corpus"), ROWS, corpora, PAPER_ACCURACIES, PAPER_CORPORA)
    return conclusion(seeds, layout, _findings(seeds, corpora))


def _findings(seeds: Sequence[Cells], corpora: Sequence[str]) -> Iterator[Finding]:
    def over(better: str, worse: str, sentence: str) -> Finding:
        estimate = difference(seeds, [(better, corpus) for corpus in corpora], [(worse, corpus) for corpus in corpora])
        return above(sentence, f"{better} - {worse}, {POINTS}", estimate)

    yield over("bilstm-small", "linear", "An energy that reads the order of tokens beats a bag of tokens.")
    yield over("bilstm-big", "bilstm-small", "The bigger BiLSTM beats the smaller one.")
    yield over("unit", "bilstm-big", "UniTransf, of the generator's own size, beats the BiLSTMs.")
    yield over("unit", LIKELIHOOD, "UniTransf beats the training generator's log-likelihood as an energy.")
    yield over("linear", LIKELIHOOD, "Even a bag of tokens beats the generator's log-likelihood.")


STUDY = Study(
    title="Telling machine text from people's, in-domain",
    part="Table 2 and Section 5.1",
    paper=PAPER,
    method=(
        f"{SETTING} Each energy is trained on each corpus with texts of a generator trained there, and tested with "
        "those of its twin of another seed. The last row takes the training generator's log-probability of the whole "
        "window as energy, with the threshold and the sign that are best on the validation texts. Findings are over "
        "the corpora together, paired by window."
    ),
    sizes=sizes(
        cpu={"corpora": ("bible", "sotu", "wikitext"), "generator": "transf-big"},
        paper={"corpora": ("books", "cc-news", "wikitext"), "generator": "transf-big"},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
