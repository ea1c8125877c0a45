"""Which texts belong together, how they are split, and lengths that tell nothing."""

import json

import pytest

from lexergy.errors import LexergyError
from lexergy.tasks.detection.examples import Example, joined_groups, load_examples, matched_lengths, split_examples

OPENING = "All of these texts begin with these words"


def test_groups_are_joined_by_any_key():
    groups = joined_groups(["a", "b", "c", "a", "d"], [1, 1, 2, 3, 4])
    assert groups[0] == groups[1] == groups[3]
    assert len(set(groups)) == 3


def test_texts_of_a_line_and_texts_with_the_same_opening_are_one_group(tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    rows = [("One thing.", "Another."), (f"{OPENING}, say I.", "Something else."), ("Alone.", "Lonely.")]
    pairs.write_text("".join(json.dumps({"h": h, "m": m}) + "\n" for h, m in rows))
    folder = tmp_path / "machine"
    folder.mkdir()
    (folder / "a.txt").write_text(f"{OPENING.lower()}\n and go on")
    (folder / "b.txt").write_text("Of its own")
    examples = load_examples([str(pairs)], [str(pairs), str(folder)], human_field="h", machine_field="m")
    by_text = {example.text.split()[0]: example for example in examples}
    assert by_text["One"].group == by_text["Another."].group
    assert by_text["All"].group == by_text["Something"].group == by_text["all"].group
    assert len({example.group for example in examples}) == 4
    assert [example.is_machine for example in examples] == [False] * 3 + [True] * 5
    assert by_text["Of"].source == str(folder)


def test_no_group_is_on_two_sides():
    examples = [Example(f"{kind} {n}", kind == "m", "here", f"group {n}") for n in range(20) for kind in "hm"]
    splits = split_examples(examples, validation=0.2, test=0.3, seed=1)
    sides = [{example.group for example in part} for part in (splits.train, splits.validation, splits.test)]
    assert [len(side) for side in sides] == [10, 4, 6]
    assert len(set.union(*sides)) == 20


def test_each_share_needs_both_kinds():
    examples = [Example(f"text {n}", n == 0, "here", f"group {n}") for n in range(20)]
    with pytest.raises(LexergyError, match=r"\d+ texts of people and 0 of machines"):
        split_examples(examples, validation=0.1, test=0.2, seed=0)


def test_matched_lengths_by_hand():
    assert matched_lengths([10, 20, 30, 40, 5, 50, 6, 7], [0, 0, 0, 0, 1, 1, 1, 1]) == [5, 6, 7, 40, 5, 40, 6, 7]
    assert matched_lengths([30, 10, 20], [1, 1, 0]) == [20, 10, 10]


def test_matched_lengths_have_one_distribution():
    people, machines = [3 * n % 97 + 10 for n in range(60)], [5 * n % 83 + 20 for n in range(60)]
    limits = matched_lengths(people + machines, [False] * 60 + [True] * 60)
    assert sorted(limits[:60]) == sorted(limits[60:])
    assert all(limit <= length for limit, length in zip(limits, people + machines, strict=True))
