from lexergy.report.pages.coloured_tokens import LIKELY, MOST, ODD, Piece, colour, pieces, write_page


def test_pieces_cover_the_text_and_letters_of_several_tokens_add_up():
    text = "a <ü> b"
    spans = [(0, 1), (3, 4), (3, 4), (6, 7)]  # the umlaut is two tokens; brackets and blanks are none
    found = pieces(text, spans, [1.0, 2.0, 3.0, 4.0])
    assert found == [Piece("a", 1.0), Piece(" <", None), Piece("ü", 5.0), Piece("> ", None), Piece("b", 4.0)]
    assert "".join(piece.text for piece in found) == text
    assert pieces("", [], []) == []


def test_colours_go_from_likely_to_odd():
    assert colour(-3.0) == colour(0.0) == LIKELY
    assert colour(MOST) == colour(100.0) == ODD
    reds = [colour(energy)[2] for energy in (0.0, 3.0, 6.0, 12.0)]
    assert reds == sorted(reds, reverse=True)
    assert len(set(reds)) == 4


def test_a_page_shows_text_as_text(tmp_path):
    path = tmp_path / "page.html"
    write_page(path, [[Piece("<b>", 2.0), Piece(" & ", None), Piece("x", 4.0)]])
    page = path.read_text()
    assert "&lt;b&gt;</span> &amp; <span" in page
    assert "<b>" not in page
    assert "energy 6.00, 3.00 a token" in page
