"""What people preferred: one HTML page, and its tables as CSV."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lexergy.core.estimation.findings import Estimate
from lexergy.files import atomic_write_text
from lexergy.report.figures.drawing import Drawing, data_uri
from lexergy.report.figures.panels import panels_figure
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.numbers import fixed, percent
from lexergy.report.pages.html import render
from lexergy.report.table import Cell, Table, comma_separated
from lexergy.tasks.arena.results import ArenaResult, PairResult, tallies
from lexergy.tasks.arena.study import Study
from lexergy.tasks.arena.votes import TIE, JudgedVotes

PAGE = "report.html"
EXAMPLES = 3
RATES_NOTE = (
    "“<” is the share of prompts on which fewer votes were for the baseline than for the compared system, “≤” that on "
    "which no more were, of all prompts with a vote; p is the one-sided binomial test against one half, as in Table 2 "
    "of Deng et al. (2020). What is even counts against the compared system in “<” and for it in “≤”."
)
PREFERENCE_NOTE = (
    "The preference is the share of votes for the compared system, a tie being half a vote. Its 95 % interval is for "
    "other prompts and other annotators: bootstrap over either, with the variances of both."
)


def write_arena_report(study: Study, judged: JudgedVotes, result: ArenaResult, folder: Path) -> Path:
    """Write `report.html` and a CSV per table; the path of the page."""
    tables = {
        "rates": rates_table(result),
        "annotators": annotators_table(result),
        "pairs": pairs_table(study, judged),
        "votes": votes_table(judged),
    }
    if result.strengths:
        tables["strengths"] = strengths_table(result)
    for name, table in tables.items():
        atomic_write_text(folder / f"{name}.csv", comma_separated(table))
    page = folder / PAGE
    atomic_write_text(page, render("arena.html", **_content(study, judged, result, list(tables))))
    return page


def preference_table(result: ArenaResult) -> Table:
    """For people: Table 2, and the preference with its interval."""
    rows = [
        (
            pair.baseline,
            pair.compared,
            f"{pair.rates.num_sentences}",
            f"{percent(pair.rates.less_rate)}, p {_p_value(pair.rates.less_p_value)}",
            f"{percent(pair.rates.less_or_equal_rate)}, p {_p_value(pair.rates.less_or_equal_p_value)}",
            interval(pair.preference),
            f"{pair.num_votes} ({percent(pair.ties, 0)} ties)",
            interval(pair.alpha, percents=False),
        )
        for pair in result.pairs
    ]
    columns = ("baseline", "compared", "prompts", "<", "≤", "preference", "votes", "agreement")
    return Table("Which system people preferred", columns, rows)


def rates_table(result: ArenaResult) -> Table:
    """All digits of `preference_table`."""
    columns = (
        *("baseline", "compared", "prompts", "less", "equal", "less_rate", "less_p_value"),
        *("less_or_equal_rate", "less_or_equal_p_value", "preference", "preference_low", "preference_high"),
        *("ties", "votes", "alpha", "alpha_low", "alpha_high"),
    )
    return Table("Rates", columns, [_rates_row(pair) for pair in result.pairs])


def _rates_row(pair: PairResult) -> tuple[Cell, ...]:
    rates = pair.rates
    return (
        pair.baseline,
        pair.compared,
        rates.num_sentences,
        rates.less,
        rates.equal,
        rates.less_rate,
        rates.less_p_value,
        rates.less_or_equal_rate,
        rates.less_or_equal_p_value,
        *pair.preference,
        pair.ties,
        pair.num_votes,
        *pair.alpha,
    )


def strengths_table(result: ArenaResult) -> Table:
    """Bradley-Terry, best first."""
    ranked = sorted(result.strengths.items(), key=lambda entry: -entry[1].value)
    return Table("Strengths", ("system", "log-strength", "low", "high"), [(name, *value) for name, value in ranked])


def annotators_table(result: ArenaResult) -> Table:
    columns = (
        *("annotator", "qualifying", "went_on", "votes", "kept", "checks", "checks_passed"),
        *("first", "consistent", "median_seconds"),
    )
    rows = [
        (
            person.annotator,
            person.qualifying,
            "yes" if person.went_on else "no",
            person.votes,
            person.kept,
            person.checks,
            person.checks_passed,
            person.first,
            person.consistent,
            person.median_seconds,
        )
        for person in result.annotators
    ]
    return Table("Annotators", columns, rows)


def pairs_table(study: Study, judged: JudgedVotes) -> Table:
    """The kept votes on each pair, with its texts."""
    counts, rows = tallies(judged.kept()), []
    for pair in study.of_kind("pair"):
        tally = counts.get(pair.id, Counter())
        first, second = pair.systems
        votes = (tally[first], tally[second], tally[TIE])
        rows.append((pair.id, pair.group, first, second, *votes, pair.prompt, *pair.texts))
    columns = ("comparison", "document", "baseline", "compared", "baseline_votes", "compared_votes", "ties")
    return Table("Pairs", (*columns, "prompt", "baseline_text", "compared_text"), rows)


def votes_table(judged: JudgedVotes) -> Table:
    """Every answer, what was shown on which side, and whether it counts."""
    columns = (
        *("annotator", "page", "slot", "kind", "comparison", "document", "first", "second", "choice", "winner"),
        *("seconds", "right", "status"),
    )
    rows = [
        (
            vote.annotator,
            vote.page,
            vote.slot,
            vote.kind,
            vote.comparison,
            vote.group,
            vote.first,
            vote.second,
            vote.choice,
            vote.winner,
            vote.seconds,
            None if vote.is_right is None else "yes" if vote.is_right else "no",
            vote.status,
        )
        for vote in judged.votes
    ]
    return Table("Votes", columns, rows)


def interval(estimate: Estimate, percents: bool = True) -> str:
    """`58.3 % (51.2 to 65.0)`."""
    if math.isnan(estimate.value):
        return "-"
    value, low, high = (fixed(100 * part, 1) if percents else fixed(part) for part in estimate)
    return f"{value}{' %' if percents else ''} ({low} to {high})"


def _p_value(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def headlines(result: ArenaResult) -> list[str]:
    """A sentence per pair of systems."""
    return [_headline(pair) for pair in result.pairs]


def _headline(pair: PairResult) -> str:
    if not pair.num_votes:
        return f"No vote on {pair.baseline} and {pair.compared} counts yet."
    said = f"{pair.compared} has {interval(pair.preference)} of the votes against {pair.baseline}"
    if pair.preference.low > 0.5:
        return f"{said}: people prefer {pair.compared}."
    if pair.preference.high < 0.5:
        return f"{said}: people prefer {pair.baseline}."
    return f"{said}: these votes do not decide it."


def _content(study: Study, judged: JudgedVotes, result: ArenaResult, tables: Sequence[str]) -> dict[str, object]:
    return {
        "name": study.name,
        "headlines": headlines(result),
        "rates": preference_table(result),
        "notes": [RATES_NOTE, PREFERENCE_NOTE],
        "figures": _figures(result),
        "quality": _quality(result),
        "annotators": annotators_table(result),
        "examples": _examples(study, judged),
        "facts_of": [
            *((key.replace("_", " "), _plain(value)) for key, value in study.facts.items() if value is not None),
            ("seed", str(study.seed)),
            ("question", study.rules.question),
        ],
        "files": [f"{name}.csv" for name in tables],
    }


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _figures(result: ArenaResult) -> list[Drawing]:
    judged = [pair for pair in result.pairs if pair.num_votes]
    if not judged:
        return []
    names = tuple(f"{pair.compared} against {pair.baseline}" for pair in judged)
    series = Series.of("", range(len(judged)), [pair.preference for pair in judged], "points")
    panel = Panel("", "share of votes", (series,), categories=names, reference=0.5)
    figures = [Drawing("Preference with its 95 % interval", data_uri(panels_figure((panel,))))]
    if result.strengths:
        ranked = sorted(result.strengths.items(), key=lambda entry: -entry[1].value)
        points = Series.of("", range(len(ranked)), [value for _, value in ranked], "points")
        strength = Panel("", "log-strength", (points,), categories=tuple(name for name, _ in ranked), reference=0.0)
        figures.append(
            Drawing(
                "Strengths by Bradley and Terry",
                data_uri(panels_figure((strength,))),
                "A system one unit above another is preferred to it in 73 % of votes.",
            )
        )
    return figures


def _quality(result: ArenaResult) -> list[tuple[str, str]]:
    dropped = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items()))
    bar = [] if result.bar is None else [("bar of the qualifying round", percent(result.bar))]
    return [
        ("annotators", str(len(result.annotators))),
        *bar,
        ("votes on pairs", dropped or "none"),
        ("text shown first chosen", f"{interval(result.first)}; 50 % without position bias"),
        ("repeated pairs judged the same way", interval(result.consistent)),
    ]


def _examples(study: Study, judged: JudgedVotes) -> list[dict[str, str]]:
    """Pairs of which all votes, two or more, were for one system, both ways (as in Tables 5 and 6 of the paper)."""
    counts, examples = tallies(judged.kept()), []
    for place in (1, 0):
        unanimous = [
            pair
            for pair in study.of_kind("pair")
            if len(counts.get(pair.id, Counter())) == 1 and counts[pair.id][pair.systems[place]] > 1
        ]
        examples += [
            {
                "prompt": pair.prompt,
                "winner": pair.systems[place],
                "preferred": pair.texts[place],
                "loser": pair.systems[1 - place],
                "rejected": pair.texts[1 - place],
                "votes": str(counts[pair.id][pair.systems[place]]),
            }
            for pair in unanimous[:EXAMPLES]
        ]
    return examples
