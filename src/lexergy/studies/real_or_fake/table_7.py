"""Table 7 of "Real or fake": one random negative, three, or the worst of three."""

from collections.abc import Iterator, Sequence

from lexergy.core.estimation.findings import Finding, above
from lexergy.report.pages.study import Conclusion
from lexergy.studies.real_or_fake.cells import POINTS, Cells, Layout, conclusion, difference
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, PAPER_CORPORA, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

ONE, THREE, WORST = "1 random negative", "3 random negatives", "worst negative out of 3"
ROWS = (ONE, THREE, WORST)
PAPER_ACCURACIES = {(ONE, "Books"): 82.9, (THREE, "Books"): 84.2, (WORST, "Books"): 84.6}


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    texts = TextSet(settings["corpus"], settings["generator"])
    return {
        (row, texts.corpus): laboratory.scores(energy, [texts], texts)
        for row, energy in zip(ROWS, settings["energies"], strict=True)
    }


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    [corpus] = {corpus for _, corpus in seeds[0]}
    layout = Layout("mining", ("trained against", "corpus"), ROWS, [corpus], PAPER_ACCURACIES, PAPER_CORPORA)
    return conclusion(seeds, layout, _findings(seeds, corpus))


def _findings(seeds: Sequence[Cells], corpus: str) -> Iterator[Finding]:
    for better, worse, sentence in (
        (THREE, ONE, "More negatives improve accuracy."),
        (WORST, THREE, "Harder negatives improve accuracy further."),
        (WORST, ONE, "The worst of three is better than a random one."),
    ):
        estimate = difference(seeds, [(better, corpus)], [(worse, corpus)])
        yield above(sentence, f"{better} - {worse}, {POINTS}", estimate)


STUDY = Study(
    title="Mining negatives",
    part="Table 7 and Section 5.5",
    paper=PAPER,
    method=(
        f"{SETTING} A small BiLSTM is trained for the same number of steps against one of a window's three stored "
        "negatives, drawn anew each time, against all three, and against the one of lowest energy at the moment (Eq. "
        "1). The hardest negatives are no sample of the generator, so that energy 0 is no longer the point of "
        "indifference: AUC, in the second table, does not depend on it."
    ),
    sizes=sizes(
        cpu={
            "corpus": "bible",
            "generator": "transf-big",
            "energies": ("bilstm-small", "bilstm-small-all", "bilstm-small-hardest"),
        },
        paper={
            "corpus": "books",
            "generator": "transf-big",
            "energies": ("bilstm-small-random", "bilstm-small-all", "bilstm-small"),
        },
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
