"""`lexergy arena serve`, `file` and `qualify`: people at work."""

from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import Json, new_file
from lexergy.cli.render import lexergy_command, print_json, print_lines, print_table

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of a study.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen at.")]
Port = Annotated[int, typer.Option("--port", help="Port to listen at.", min=1, max=65535)]
Annotator = Annotated[str, typer.Option("--annotator", help="Who will judge: letters, digits, dots, dashes.")]
HtmlFile = Annotated[Path, typer.Option("--out", help="HTML file to write.", callback=new_file)]
VoteFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--votes", help="Votes downloaded from an HTML file; may be given several times.", show_default="none"
    ),
]


def serve(study: StudyArgument, host: Host = "127.0.0.1", port: Port = 8765) -> None:
    """Serve a study's page until Ctrl-C.

    Each vote is on the disk before it is confirmed. People come with `?PROLIFIC_PID=...`, with `?annotator=...`, or
    get an identifier of their own; with the same one they find their place again.

    Examples:

    \b
      lexergy arena serve arena
      lexergy arena serve arena --host 0.0.0.0 --port 8080
    """
    from lexergy.serve.extra import need_extra

    need_extra()
    from lexergy.serve.arena.app import serve as serve_study

    serve_study(study, host, port)


def file(study: StudyArgument, annotator: Annotator, out: HtmlFile) -> None:
    """Write one person's comparisons as an HTML file that needs no server.

    The answers are downloaded from it as JSONL: `lexergy arena report STUDY --votes FILE` reads them.

    Example:

    \b
      lexergy arena file arena --annotator anna --out anna.html
    """
    from lexergy.serve.arena.page import write_file
    from lexergy.tasks.arena.study import StudyFolder

    count = write_file(StudyFolder(study), annotator, out)
    print_lines(
        f"{out}: {count} pages for {annotator}",
        "",
        "Next:",
        f"  {lexergy_command()} arena report {study} --votes votes-{annotator}.jsonl",
    )


def qualify(study: StudyArgument, votes: VoteFiles = None, as_json: Json = False) -> None:
    """Close the qualifying round: the better half go on (App. A.4, Deng et al. 2020).

    Those who come later go on at the same bar. Give `--bar` when the study is made to let people go on at once.

    Example:

    \b
      lexergy arena qualify arena
    """
    from lexergy.tasks.arena.qualifying import close_qualifying
    from lexergy.tasks.arena.study import StudyFolder
    from lexergy.tasks.arena.votes import finished_qualifying

    folder = StudyFolder(study)
    result = close_qualifying(folder, finished_qualifying(folder, votes or []))
    if as_json:
        print_json(result)
        return
    ranked = sorted(result.accuracies.items(), key=lambda entry: -entry[1])
    rows = [(name, f"{value:.1%}", "goes on" if result.passed(name) else "") for name, value in ranked]
    print_table(f"The bar is {result.bar:.1%}", ("annotator", "right", ""), rows, text_columns=(0, 2))
