"""Texts whose tokens are coloured by energy: the odder a token in its context, the darker."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from lexergy.files import atomic_write_text
from lexergy.report.pages.html import Colour, blend

LIKELY, ODD = (255, 255, 255), (230, 97, 1)  # white to orange
MOST = 12.0  # nats from which on a token is as odd as can be shown: one in 160,000

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Energies of tokens</title>
<style>
body {{ font: 17px/1.9 system-ui, sans-serif; color: #222; background: #fff; max-width: 48rem; margin: 2rem auto;
       padding: 0 1rem; }}
.facts {{ color: #555; font-size: .85rem; margin: 1.6rem 0 0; }}
.text {{ overflow-wrap: anywhere; white-space: pre-wrap; }}
.text span {{ padding: .15em 0; }}
.key {{ display: inline-block; padding: 0 .6em; color: #222; }}
</style>
</head>
<body>
<h1>Which word is odd?</h1>
<p>Each token in the colour of its energy, -log p of the token given the others:
{key}</p>
{texts}
</body>
</html>
"""


class Piece(NamedTuple):
    """A run of text and its energy; none for what no token covers."""

    text: str
    energy: float | None


def pieces(text: str, spans: Sequence[Sequence[int]], energies: Sequence[float]) -> list[Piece]:
    """The text from beginning to end, cut at its tokens; tokens of the same characters are joined."""
    cut: list[Piece] = []
    done = 0
    for (start, end), energy in zip(spans, energies, strict=True):
        if end <= done:  # a letter of several bytes may be several tokens
            if cut and cut[-1].energy is not None:
                cut[-1] = Piece(cut[-1].text, cut[-1].energy + energy)
            continue
        if start > done:
            cut.append(Piece(text[done:start], None))
        cut.append(Piece(text[max(start, done) : end], energy))
        done = end
    if done < len(text):
        cut.append(Piece(text[done:], None))
    return cut


def colour(energy: float) -> Colour:
    """From white (expected) to orange (odd)."""
    return blend(LIKELY, ODD, min(max(energy, 0.0), MOST) / MOST)


def write_page(path: str | Path, texts: Sequence[Sequence[Piece]]) -> None:
    """One page with all texts; whatever a text says stays text."""
    key = " ".join(_span(Piece(f"{energy:g}", energy), "key") for energy in (0.0, 3.0, 6.0, 9.0, MOST))
    atomic_write_text(path, PAGE.format(key=key, texts="\n".join(_paragraph(text) for text in texts)))


def _paragraph(text: Sequence[Piece]) -> str:
    energies = [piece.energy for piece in text if piece.energy is not None]
    mean = f", {sum(energies) / len(energies):.2f} a token" if energies else ""
    spans = "".join(_span(piece) for piece in text)
    return f'<p class="facts">energy {sum(energies):.2f}{mean}</p>\n<div class="text">{spans}</div>'


def _span(piece: Piece, kind: str = "") -> str:
    if piece.energy is None:
        return escape(piece.text)
    attributes = f' class="{kind}"' if kind else f' title="{piece.energy:.2f}"'
    return '<span{} style="background: rgb({}, {}, {})">{}</span>'.format(
        attributes, *colour(piece.energy), escape(piece.text)
    )
