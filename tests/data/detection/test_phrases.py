"""Words and pairs of a text as they are counted: common ones as they are, the rest by their kind."""

from lexergy.data.detection.phrases import phrases_of, words_of

COMMON = {"the", "were", "to", "i", "i'm", "it's", "said", "may", "not"}


def names(text):
    return [phrase.name for phrase in words_of(text, COMMON)]


def test_common_words_stand_for_themselves_and_others_for_their_kind():
    assert names("The Danes were rowing to 12 islands.") == ["the", "Name", "were", "-ing", "to", "0", "-s", "."]
    assert names("not 1,200.50.") == ["not", "0", "."]  # the mark behind a number is a mark


def test_a_capital_makes_a_name_but_where_a_sentence_begins():
    assert names("It's May. May I? Said I'm not.") == ["it's", "Name", ".", "may", "i", "?", "said", "i'm", "not", "."]
    assert names("to Said") == ["to", "Name"]


def test_what_has_no_ending_of_the_list_is_a_word():
    assert names("zebu") == ["-"]


def test_pairs_follow_words_and_end_where_their_second_word_does():
    text = "not the, not"
    found = phrases_of(text, COMMON)
    assert [phrase.name for phrase in found] == ["not", "the", ",", "not", "not_the", "the_,", ",_not"]
    assert [text[: phrase.end] for phrase in found[4:]] == ["not the", "not the,", text]


def test_quotes_dashes_and_other_marks_are_not_seen():
    assert names('"The" - to [the] …') == ["the", "to", "the"]
    assert phrases_of("", COMMON) == []
