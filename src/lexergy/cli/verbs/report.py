"""`lexergy report`: write a run's page again."""

from lexergy.cli.options import Json, RunFolder
from lexergy.cli.render import print_json, print_lines


def report(run: RunFolder, as_json: Json = False) -> None:
    """Write RUN/report.html again and print its path.

    Example:

    \b
      lexergy report runs/quickstart
    """
    from lexergy.report.pages.run import write_report

    path = write_report(run)
    if as_json:
        print_json({"report": path})
    else:
        print_lines(str(path))
