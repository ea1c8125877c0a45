"""Table 6 of "Real or fake": whole documents, written without any context, from blocks."""

from collections.abc import Iterator, Sequence

from lexergy.core.estimation.findings import Finding, above
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.real_or_fake.cells import POINTS_OF_AUC, Cells, Key, Layout, auc_difference, conclusion
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.documents import DocumentSet, bag_of_words_scores, document_scores
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.scores import Scores

WORDS, IN_DOMAIN, GENERALISED = "TF-IDF in-domain", "bit in-domain", "bit generalised"
COLUMNS = (WORDS, IN_DOMAIN, GENERALISED)
_NUMBERS = {
    "Small (137M) top-k": (96.79, 99.09, None),
    "Small (137M) random": (88.29, 99.80, None),
    "Med (380M) top-k": (95.22, 98.07, 97.37),
    "Med (380M) random": (88.94, 99.43, 97.35),
    "Big (762M) top-k": (94.43, 96.50, 93.58),
    "Big (762M) random": (77.16, 99.42, 95.96),
    "Huge (1542M) top-k": (94.43, 95.01, 90.17),
    "Huge (1542M) random": (77.31, 99.00, 91.76),
}


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    def documents(generator: str, top_k: int | None) -> DocumentSet:
        """At most a quarter as many held out: those of a small corpus are fewer."""
        count = settings["documents"]
        held_out = max(2, count // 4)
        return DocumentSet(settings["corpus"], generator, top_k, settings["length"], count, held_out, held_out)

    small, *others = settings["generators"]
    decodings = {"top-k": 10, "random": None}
    seen = [documents(small, top_k) for top_k in decodings.values()]
    cells: dict[Key, Scores] = {}
    for generator in (small, *others):
        for decoding, top_k in decodings.items():
            row, wanted = f"{generator} {decoding}", documents(generator, top_k)
            cells[row, WORDS] = bag_of_words_scores(laboratory, wanted)
            cells[row, IN_DOMAIN] = document_scores(laboratory, "bit", [wanted], wanted)
            if generator != small:
                cells[row, GENERALISED] = document_scores(laboratory, "bit", seen, wanted)
    return cells


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    rows = list(dict.fromkeys(row for row, _ in seeds[0]))
    layout = Layout("AUC on whole documents", ("documents of", "detector"), rows, COLUMNS, {}, {}, metric="auc")
    columns = ("GPT-2, accuracy", *COLUMNS)
    paper = Table("the paper's Table 6", columns, [(name, *numbers) for name, numbers in _NUMBERS.items()])
    return conclusion(seeds, layout, _findings(seeds, rows), (paper,))


def _findings(seeds: Sequence[Cells], rows: Sequence[str]) -> Iterator[Finding]:
    def compare(sentence: str, quantity: str, better: str, worse: str, chosen: Sequence[str]) -> Finding:
        estimate = auc_difference(seeds, [(row, better) for row in chosen], [(row, worse) for row in chosen])
        return above(sentence, f"{quantity}, mean of {len(chosen)} kinds of documents, {POINTS_OF_AUC}", estimate)

    yield compare(
        "Trained on a generator's documents, the energy beats TF-IDF.",
        "energy - TF-IDF, both in-domain",
        IN_DOMAIN,
        WORDS,
        rows,
    )
    unseen = [row for row in rows if (row, GENERALISED) in seeds[0]]
    yield compare(
        "Trained on the smaller generator's documents, it still beats TF-IDF on the bigger one's own.",
        "energy generalised - TF-IDF in-domain",
        GENERALISED,
        WORDS,
        unseen,
    )
    yield compare(
        "It does worse on the bigger generator than when trained on that.",
        "in-domain - generalised",
        IN_DOMAIN,
        GENERALISED,
        unseen,
    )


STUDY = Study(
    title="Whole documents from blocks",
    part="Table 6 and Section 5.4",
    paper=PAPER,
    method=(
        f"{SETTING} Here nothing is given: generators write whole documents, from the 10 likeliest tokens or from all, "
        "after the mark that a document begins. People's texts begin at a document's beginning too, as in the paper, "
        "and both are cut at the same length, so that no place in a document tells who wrote it. At size cpu that is "
        "160 tokens, of all chapters of the Bible that are as long: the corpus that has the most documents. The "
        "machine writes half a window at a time, and never the mark that a document ends. "
        "The energy reads intersecting blocks of a window's length, trained with all blocks of a document as its "
        "author's; a document's energy is the mean over its blocks. The energy starts from the LM without its causal "
        "mask (the paper fine-tunes BiTransf on GPT-2's documents). TF-IDF is of words and word pairs, with logistic "
        "regression. Detectors are compared by the area under the ROC curve, since neither's threshold was chosen; "
        "the paper prints accuracies."
    ),
    sizes=sizes(
        cpu={"corpus": "bible", "generators": ("transf-small", "transf-big"), "documents": 1000, "length": 160},
        paper={"corpus": "cc-news", "generators": ("transf-small", "transf-big"), "documents": 100000, "length": 640},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
