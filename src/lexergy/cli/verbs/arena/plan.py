"""`lexergy arena plan`: how many prompts, votes and people a study needs."""

from typing import Annotated

import typer

from lexergy.cli.options import Json, at_least, share
from lexergy.cli.render import print_json, print_lines, print_table

VotesPerPair = Annotated[
    int, typer.Option("--votes", help="Votes on each pair.", callback=at_least(1, "the paper has 3"))
]
PagesPerPerson = Annotated[
    int, typer.Option("--pages", help="Pages that one person judges.", callback=at_least(1, "10 take about 20 minutes"))
]
Rate = Annotated[
    float,
    typer.Option("--rate", help="How often a decided vote is for the better system.", callback=share("0.6 is usual")),
]
NumPairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        help="Say what so many prompts can show, in place of how many are needed.",
        show_default="none",
        callback=at_least(1, "leave it out to learn how many are needed"),
    ),
]
Power = Annotated[float, typer.Option("--power", help="Wanted chance to find the difference.")]
Level = Annotated[float, typer.Option("--level", help="Of the one-sided test.")]
Ties = Annotated[float, typer.Option("--ties", help="Share of votes that are ties.")]
Dropped = Annotated[float, typer.Option("--dropped", help="Share of votes that a failed check drops.")]
Correlation = Annotated[
    float,
    typer.Option("--correlation", help="How alike votes on one prompt are: 0 not at all, towards 1 all the same."),
]
SECONDS = 30  # that a comparison takes
COMPARISONS_PER_PAGE = 4


def plan(
    rate: Rate = 0.6,
    pairs: NumPairs = None,
    votes: VotesPerPair = 3,
    pages: PagesPerPerson = 10,
    power: Power = 0.8,
    level: Level = 0.05,
    ties: Ties = 0.0,
    dropped: Dropped = 0.1,
    correlation: Correlation = 0.2,
    as_json: Json = False,
) -> None:
    """How many prompts a study of two systems needs, by the test of Table 2 of Deng et al. (2020).

    A prompt counts when more of its votes are for the better system; the exact one-sided binomial test asks whether
    that is more than half of the prompts. Ties of votes count against it.

    Examples:

    \b
      lexergy arena plan --rate 0.6
      lexergy arena plan --rate 0.58 --pairs 333 --ties 0.1
    """
    from lexergy.core.text_measures.sample_size import plan_study, sentence_outcome
    from lexergy.report.numbers import percent

    outcome = sentence_outcome(rate, votes, ties=ties, dropped=dropped, correlation=correlation)
    per_person = pages * (COMPARISONS_PER_PAGE - 1)  # the rest are checks
    result = plan_study(outcome, votes, per_person, prompts=pairs, wanted=power, level=level)
    hours = None if result.people is None else result.people * pages * COMPARISONS_PER_PAGE * SECONDS / 3600
    if as_json:
        print_json({"rate": rate, **result._asdict(), "hours": hours})
        return
    known = result.prompts is not None
    print_table(
        f"{percent(rate)} of votes for the better system, {votes} votes on each prompt",
        ("", ""),
        [
            ("prompts with more votes for it (<)", percent(outcome.less)),
            ("prompts with as many for either", percent(outcome.equal)),
            ("prompts", f"{result.prompts:,}" if known else "more than 20,000"),
            ("chance to find the difference", percent(result.power) if result.power is not None else "-"),
            ("votes", f"{result.votes:,}" if known else "-"),
            (f"people, {pages} pages each", f"{result.people:,}" if known else "-"),
            ("hours of their time", f"{hours:.1f}" if known else "-"),
        ],
    )
    if not known:
        print_lines(
            "The rate `<` is no more than one half: ask without ties (`--no-ties`), or for more votes on each pair."
        )
