"""Table 5.1 of Goyal 2021 for translators."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware import translation
from lexergy.studies.search_aware.comparison import ARMS, THESIS
from lexergy.studies.search_aware.table_5_1 import METHOD, Measured, conclude, examine
from lexergy.studies.study import Study

PRINTED = {"cross-entropy": (24.7, 115.4, 25.8, 129.1), "self-normalised": (0.65, 0.18, 0.7, 0.29)}


def _conclude(evidence: Sequence[Measured]) -> Conclusion:
    return conclude(evidence, PRINTED, "bleu", competitive=1.5)


STUDY = Study(
    title="Log-normalisers of translators, plain and self-normalised",
    part="Table 5.1 and Section 5.3.1",
    paper=THESIS,
    method=METHOD,
    sizes=translation.SIZES,
    workspace=ARMS,
    examine=examine,
    conclude=_conclude,
)
