"""Table 3 of "Real or fake": texts of a generator of another architecture."""

from collections.abc import Iterator, Sequence

from lexergy.core.estimation.findings import Finding, above, similar
from lexergy.report.pages.study import Conclusion
from lexergy.studies.real_or_fake.cells import POINTS, Cells, Layout, conclusion, difference
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

CONV, SMALL = "conv", "transf-small"
GENERATORS = (CONV, SMALL)
PAPER_NAMES = {CONV: "Conv", SMALL: "TransfSmall"}
WELL = 10.0  # points; the paper's energies lose 6.4 and 6.7 on the other generator
PAPER_ACCURACIES = {
    (CONV, "Conv"): 92.9,
    (CONV, "TransfSmall"): 81.2,
    (SMALL, "Conv"): 86.5,
    (SMALL, "TransfSmall"): 87.9,
}


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    sets = {generator: TextSet(settings["corpus"], generator) for generator in GENERATORS}
    return {
        (trained, tested): laboratory.scores("unit", [sets[trained]], sets[tested])
        for trained in GENERATORS
        for tested in GENERATORS
    }


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    titles = ("trained on texts of", "tested on texts of")
    layout = Layout("accuracy across architectures", titles, GENERATORS, GENERATORS, PAPER_ACCURACIES, PAPER_NAMES)
    return conclusion(seeds, layout, _findings(seeds))


def _findings(seeds: Sequence[Cells]) -> Iterator[Finding]:
    yield similar(
        f"UniTransf generalises well to another architecture (it loses less than {WELL} points).",
        f"same generator - other generator in training, {POINTS}",
        difference(seeds, [(CONV, CONV), (SMALL, SMALL)], [(SMALL, CONV), (CONV, SMALL)]),
        WELL,
    )
    yield above(
        "The small transformer's texts are harder to tell than the convolutional LM's.",
        f"Conv - TransfSmall, each trained on its own, {POINTS}",
        difference(seeds, [(CONV, CONV)], [(SMALL, SMALL)]),
    )
    yield above(
        "Trained on the transformer's texts, the energy is more robust to the other generator than vice versa.",
        f"TransfSmall to Conv - Conv to TransfSmall, {POINTS}",
        difference(seeds, [(SMALL, CONV)], [(CONV, SMALL)]),
    )
    yield above(
        "Tested on both kinds of texts, it is more accurate when trained on the harder ones.",
        f"trained on TransfSmall's - on Conv's, {POINTS}",
        difference(seeds, [(SMALL, CONV), (SMALL, SMALL)], [(CONV, CONV), (CONV, SMALL)]),
    )


STUDY = Study(
    title="Texts of a generator of another architecture",
    part="Table 3 and Section 5.2",
    paper=PAPER,
    method=(
        f"{SETTING} UniTransf is trained on texts of a gated convolutional LM or of a small transformer, and tested on "
        "texts of either. It starts from the LM TransfBig of the same corpus."
    ),
    sizes=sizes(cpu={"corpus": "wikitext"}, paper={"corpus": "wikitext"}),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
