"""`lexergy arena report`: what people preferred."""

from lexergy.cli.options import Json
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table
from lexergy.cli.verbs.arena.serve import StudyArgument, VoteFiles


def report(study: StudyArgument, votes: VoteFiles = None, as_json: Json = False) -> None:
    """Rates as in Table 2 of Deng et al. (2020), with intervals over prompts and annotators; a page and CSV files.

    Votes of a page whose check was failed are dropped, and those of people who did not qualify. May be called while
    people are at work.

    Examples:

    \b
      lexergy arena report arena
      lexergy arena report arena --votes votes-anna.jsonl --votes votes-ben.jsonl
    """
    from lexergy.report.pages.arena import headlines, preference_table, write_arena_report
    from lexergy.tasks.arena.results import analyse
    from lexergy.tasks.arena.study import StudyFolder
    from lexergy.tasks.arena.votes import judged_votes

    folder = StudyFolder(study)
    content, judged = folder.read(), judged_votes(folder, votes or [])
    result = analyse(content, judged)
    page = write_arena_report(content, judged, result, folder.folder / "report")
    if as_json:
        print_json({**vars(result), "report": page})
        return
    table = preference_table(result).transposed
    print_table(table.name, table.columns, table.texts, text_columns=table.text_columns)
    print_paragraphs(*headlines(result))
    print_lines(f"Report: {page}")
