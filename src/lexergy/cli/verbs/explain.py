"""`lexergy explain`: which word of a text does the model find odd?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Html, Json, ScorerName, read_lines
from lexergy.cli.render import print_json, print_lines, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.report.pages.coloured_tokens import Piece


Text = Annotated[str | None, typer.Option("--text", help="A text to look at.")]
TextFile = Annotated[str | None, typer.Option("--file", help="A file of texts, one a line; `-` reads stdin.")]


def explain(
    model: ScorerName,
    text: Text = None,
    file: TextFile = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    """Colour the tokens of a text by energy, -log p of each given the others.

    The darker, the odder. With a causal LM a token is given only those before it.

    Examples:

    \b
      lexergy explain runs/electric-cpu/electric --text "she watched the reign fall"
      lexergy explain runs/electric-cpu/electric --file sentences.txt --html odd.html
    """
    if (text is None) == (file is None):
        raise LexergyError(
            f"{'neither' if text is None else 'both'} of `--text` and `--file` given; expected exactly one of them."
        )
    texts = read_lines(file) if file is not None else [str(text)]
    if not any(line.strip() for line in texts):
        raise LexergyError("the text is empty; expected some words to look at.")
    from lexergy.models.scoring.kinds import load_scorer  # seconds to import: after what may be mistaken
    from lexergy.report.pages.coloured_tokens import pieces, write_page

    explained = [
        pieces(line, score.spans, [-value for value in score.log_scores])
        for line, score in zip(texts, load_scorer(model).score(texts), strict=True)
    ]
    if html is not None:
        write_page(html, explained)
    if as_json:
        print_json([[{"text": piece.text, "energy": piece.energy} for piece in tokens] for tokens in explained])
        return
    for tokens in explained:
        _print_in_colours(tokens)
    if html is not None:
        print_lines(f"Page: {html}")


def _print_in_colours(tokens: "Sequence[Piece]") -> None:
    """The text in colours, and its three oddest tokens in words, for terminals without colours."""
    from rich.console import Console
    from rich.text import Text

    from lexergy.report.pages.coloured_tokens import colour

    line = Text()
    for piece in tokens:
        style = "" if piece.energy is None else "black on #{:02x}{:02x}{:02x}".format(*colour(piece.energy))
        line.append(visible(piece.text), style=style)
    Console(highlight=False).print(line)
    scored = [(piece.energy, piece.text) for piece in tokens if piece.energy is not None]
    oddest = sorted(scored, reverse=True)[:3]
    print_lines("  oddest: " + ", ".join(f"{visible(text).strip()} {energy:.2f}" for energy, text in oddest))
