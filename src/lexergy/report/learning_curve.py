"""The learning curve of a run whose negatives had a budget: how many pairs, what they are worth, why no more."""

from typing import NamedTuple

from lexergy.core.fitting.learning_curves import LearningCurve
from lexergy.report.numbers import fixed
from lexergy.report.table import Table

COLUMNS = ("pairs", "held-out loss", "std. error", "less than with half", "std. error of that")
NOTE = (
    "The loss is of documents that the head was not fitted to; errors are over documents. For half as many pairs a "
    "head was fitted anew and measured on the same pairs. Pairs are added while that difference is at least its "
    "standard error, and the time lasts."
)


class Growth(NamedTuple):
    """What a page shows of it."""

    sentence: str
    table: Table
    note: str


def growth(curve: LearningCurve) -> Growth:
    """For a page."""
    rows = [
        (
            str(point.pairs),
            *(fixed(value, 3) for value in (point.loss, point.std_error, point.fall, point.fall_std_error)),
        )
        for point in curve.points
    ]
    return Growth(growth_sentence(curve), Table("pairs", COLUMNS, rows), NOTE)


def growth_sentence(curve: LearningCurve) -> str:
    """How many pairs there are, what the energy loses with them, and why there are no more."""
    last = curve.points[-1]
    return (
        f"{last.pairs} pairs, with which the energy “{curve.energy}” has a held-out loss of {fixed(last.loss, 3)} ± "
        f"{fixed(last.std_error, 3)}, {fixed(last.fall, 3)} ± {fixed(last.fall_std_error, 3)} less than with half of "
        f"them. No more were added: {curve.stop.sentence}."
    )
