import pytest

from lexergy.data.translation.pairs import Pair, linked_groups, load_pairs, plain_words, split_pairs
from lexergy.errors import LexergyError

# Two sources share a target, one target has two sources: a chain of three pairs; the others stand alone.
LINKED = [Pair("Hallo!", "Hi."), Pair("Grüß Gott!", "hi"), Pair("grüß gott", "Good day.")]
ALONE = [Pair(f"Satz {number}", f"sentence {number}") for number in range(40)]


def test_pairs_are_read_in_the_direction_asked_for(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("Hi.\tHallo!\tlicence\nRun!\tLauf!\n", encoding="utf-8")
    pairs = load_pairs(path, source_column=1, target_column=0)
    assert pairs == ([Pair("Hallo!", "Hi."), Pair("Lauf!", "Run!")], [])
    assert pairs.messages() == []
    with pytest.raises(LexergyError, match="cannot be read"):
        load_pairs(tmp_path / "missing.tsv")


def test_lines_that_are_no_pair_are_named_and_the_rest_is_read(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("Hi.\tHallo!\nRun!\n\nGo.\t \nStop!\tHalt!\n", encoding="utf-8")
    file = load_pairs(path)
    assert file.pairs == [Pair("Hi.", "Hallo!"), Pair("Stop!", "Halt!")]
    assert [entry.place.rpartition(":")[2] for entry in file.unreadable] == ["2", "3", "4"]
    (message,) = file.messages()
    assert message.startswith("warning: 3 of 5 pairs left out:")
    assert "pairs.tsv:2: columns: 1; expected at least 2" in message
    assert "pairs.tsv:4: a side is empty." in message
    path.write_text("Run!\n", encoding="utf-8")
    with pytest.raises(LexergyError, match=r"holds no pair of sentences that can be read: .*pairs.tsv:1: columns: 1"):
        load_pairs(path)


def test_linked_pairs_are_one_group():
    groups = linked_groups([*ALONE[:2], *LINKED, *ALONE[2:4]])
    assert len(set(groups[2:5])) == 1
    assert len(set(groups)) == 5


def test_the_same_word_in_both_languages_links_nothing():
    assert len(set(linked_groups([Pair("also", "so"), Pair("so", "like this")]))) == 2


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_share_no_sentence(seed):
    splits = split_pairs([*LINKED, *ALONE], validation=0.2, test=0.3, seed=seed)
    assert sorted(pair for part in splits for pair in part) == sorted([*LINKED, *ALONE])
    for side in ("source", "target"):
        seen = [{plain_words(getattr(pair, side)) for pair in part} for part in splits]
        assert not seen[0] & seen[1]
        assert not seen[0] & seen[2]
        assert not seen[1] & seen[2]
    assert len(splits.test) >= 12
