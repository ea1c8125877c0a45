"""`lexergy explain` with a tiny Electric."""

import html
import re

from toys.commands import json_of, output_of

TEXT = "the <state> of ünion"


def test_the_page_holds_the_text_and_none_of_its_tags(cloze_run, tmp_path, capsys):
    page = tmp_path / "odd.html"
    out = output_of(["explain", cloze_run / "electric", "--text", TEXT, "--html", page], capsys).out
    assert "oddest:" in out
    content = page.read_text()
    assert "<state>" not in content
    assert TEXT in html.unescape(re.sub("<[^>]*>", "", content))


def test_pieces_are_the_text(cloze_run, capsys):
    (pieces,) = json_of(["explain", cloze_run / "electric", "--text", TEXT], capsys)
    assert "".join(piece["text"] for piece in pieces) == TEXT
