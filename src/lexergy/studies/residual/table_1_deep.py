"""Table 1, lower half: the same models on a deeper base LM."""

from dataclasses import replace
from functools import partial

from lexergy.studies.residual import table_1
from lexergy.studies.study import Size

STUDY = replace(
    table_1.STUDY,
    title="Perplexity of base LM, RALM, BALM and joint models on a deeper base LM",
    part="Table 1, rows of 24 layers, and Section 4.2",
    sizes={
        "cpu": Size("table-1-deep-cpu", {"energy": "bit"}),
        "paper": Size("paper/cc-news-24-layers", {"energy": "bit-base"}),
    },
    conclude=partial(table_1.conclude, layers=24),
)
