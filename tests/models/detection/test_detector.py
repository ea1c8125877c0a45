"""What a detector says of texts: means over blocks and tokens, whatever the batch, saved and loaded alike."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.detection import Detector
from lexergy.models.detection.blocks import Block
from lexergy.models.detection.conditions import EnergyRange, TrainingConditions, energy_ranges
from lexergy.models.detection.detector import SETTINGS_FILE, UNKNOWN, DetectorSettings
from lexergy.models.detection.readers import StatesReader, TokenisedText
from lexergy.models.energies import StatesEnergy
from toys.texts import MACHINE, PEOPLE, written


def logit(probability):
    return math.log(probability / (1 - probability))


TEXTS = [written(PEOPLE, 0), "it is rain.", written(MACHINE, 1) * 2, "hills sang softly. Rain over old walls."]


def test_a_block_is_the_mean_of_its_tokens_and_a_text_of_its_blocks(detector):
    (found,) = detector.detect(TEXTS[2:3])
    text = detector.read(TEXTS[2])
    blocks = detector.blocks_of(text)
    assert len(blocks) > 3
    means = [float(next(detector.reader.token_energies([text.piece(block)])).mean()) for block in blocks]
    assert found.energy == pytest.approx(sum(means) / len(means), abs=1e-5)
    share = 1 / (1 + (32 / found.tokens) ** 2)
    centred = found.energy - 3 / found.tokens
    assert logit(found.probability) == pytest.approx(share * (0.05 * centred + 0.1), rel=1e-5)
    assert (found.blocks, found.tokens, found.share_read) == (len(blocks), len(text.ids), 1)


def test_token_means_are_the_energy_of_the_energy_model(states_detector, encoder_detector):
    lm, states = states_detector.reader.lm, states_detector.reader.energy
    block = states_detector.read(TEXTS[0]).piece(states_detector.blocks_of(states_detector.read(TEXTS[0]))[0])
    features = lm.state_features(block[None], prefix_length=1, features=states.features)
    with torch.no_grad():
        expected = states.score(block[None, :1], block[None, None, 1:], features=features[:, None])
    assert float(next(states_detector.reader.token_energies([block])).mean()) == pytest.approx(
        float(expected), abs=1e-4
    )

    encoder = encoder_detector.reader.energy
    block = torch.tensor(encoder_detector.read(TEXTS[0]).ids[:20])
    empty = torch.empty(1, 0, dtype=torch.long)
    padded = torch.cat((block, torch.zeros(5, dtype=torch.long)))[None, None]  # [PAD] is 0
    with torch.no_grad():
        expected = encoder.score(empty, padded)
    found = next(encoder_detector.reader.token_energies([block]))
    assert found.shape == block.shape
    assert float(found.mean()) == pytest.approx(float(expected), abs=1e-5)


def test_an_encoder_reads_its_own_tokens_as_it_reads_text(encoder_detector):
    energy, tokenizer = encoder_detector.reader.energy, encoder_detector.reader.tokenizer
    ids = encoder_detector.read("the rain sang.").ids
    with torch.no_grad():
        rows = energy.backbone(**tokenizer("the rain sang.", return_tensors="pt")).last_hidden_state[0, 1:-1]
        expected = energy.head(rows).squeeze(-1)
    torch.testing.assert_close(energy.token_energies([torch.tensor(ids)])[0], expected)


def test_company_changes_nothing(detector):
    together = list(detector.detect(TEXTS))
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = detector.detect([text])
        assert alone.energy == pytest.approx(found.energy, abs=1e-5)


def test_spans_cover_the_text_and_their_mean_is_its_energy(detector):
    (found,) = detector.detect(TEXTS[3:])
    assert found.blocks == 1
    assert found.spans[0].start == 0
    assert found.spans[-1].end == len(found.text)
    counts = [end - start for start, end in detector.read(TEXTS[3]).words(Block(0, found.tokens), 16)]
    mean = sum(count * span.energy for count, span in zip(counts, found.spans, strict=True)) / found.tokens
    assert mean == pytest.approx(found.energy, abs=1e-5)


def test_spans_cut_no_word(detector):
    (found,) = detector.detect([written(PEOPLE, 5)])
    assert len(found.spans) > 2
    assert all(
        found.text[one.end : two.start + 1].strip(" ") != found.text[one.end : two.start + 1]
        for one, two in pairwise(found.spans)
    )


def test_a_text_without_blanks_is_cut_all_the_same():
    text = TokenisedText("x" * 10, list(range(10)), [(place, place + 1) for place in range(10)])
    assert list(text.words(Block(0, 10), 2)) == [(0, 4), (4, 8), (8, 10)]


def test_a_spans_probability_is_calibrated_for_its_own_length(states_detector):
    (found,) = states_detector.detect([written(PEOPLE, 5)])
    counts = [end - start for start, end in states_detector.read(written(PEOPLE, 5)).words(Block(0, found.tokens), 16)]
    assert [span.tokens for span in found.spans] == counts
    assert len(set(counts)) > 1
    for span in found.spans:
        share = span.tokens / (span.tokens + 16)
        assert logit(span.probability) == pytest.approx(share * (0.02 * span.energy - 0.1), rel=1e-5)


def test_the_prior_moves_texts_and_spans_alike(states_detector):
    (even,), (rare,) = (states_detector.detect(TEXTS[:1], prior=prior) for prior in (0.5, 0.02))
    shift = math.log(0.02 / 0.98)
    assert logit(rare.probability) == pytest.approx(logit(even.probability) + shift)
    for span, moved in zip(even.spans, rare.spans, strict=True):
        assert logit(moved.probability) == pytest.approx(logit(span.probability) + shift)
    assert (even.prior, rare.prior) == (0.5, 0.02)
    with pytest.raises(LexergyError, match="`prior` is 1;"):
        list(states_detector.detect(TEXTS, prior=1))


def test_a_text_unlike_those_trained_on_is_told(states_detector):
    short, usual, long = states_detector.detect([TEXTS[1], TEXTS[0], " ".join(written(PEOPLE, n) for n in range(5))])
    assert usual.warnings == ()
    assert short.warnings == (f"{short.tokens} tokens, where training texts had 20 to 100",)
    assert long.warnings == (f"{long.tokens} tokens, where training texts had 20 to 100",)
    narrow = replace(states_detector.settings.trained_on, energies=(EnergyRange(2, 90.0, 91.0), EnergyRange(8, 8, 9)))
    detector = Detector(states_detector.reader, replace(states_detector.settings, trained_on=narrow))
    (strange,) = detector.detect(TEXTS[:1])
    assert len(strange.warnings) == 1
    assert f"energy {strange.energy:+.2f}, where texts as long had +8.00 to +9.00" in strange.warnings[0]


@pytest.mark.parametrize(("energy", "is_far"), [(-1.49, False), (-1.51, True), (2.49, False), (2.51, True)])
def test_an_energy_is_far_outside_when_it_is_half_a_range_away(energy, is_far):
    ranges = energy_ranges([-1.0, 0.0, 1.5, 50.0], [64, 100, 127, 300], [64, 128, 256])
    assert ranges == ((64, -1.0, 1.5), (256, 50.0, 50.0))
    conditions = TrainingConditions(64, 256, (EnergyRange(64, -0.5, 1.5),), (), ())
    assert bool(list(conditions.warnings(energy, 100))) == is_far


def test_storage_is_not_seen(detector):
    """Each by itself: equal rows of one batch may differ by rounding."""
    (plain,) = detector.detect([TEXTS[0]])
    (stored,) = detector.detect([TEXTS[0].replace(". ", " .\r\n\r\n\u00a0")])
    assert plain == stored


def test_of_a_very_long_text_excerpts_are_read(detector):
    detector = Detector(detector.reader, DetectorSettings(24, most_blocks=3))
    (found,) = detector.detect([written(PEOPLE, 3) * 10])
    assert found.blocks == 3
    assert found.tokens == 3 * 24
    assert found.spans[0].start == 0
    assert found.spans[-1].end > 0.9 * len(found.text)
    read = sum(span.end - span.start for span in found.spans)
    assert found.share_read == pytest.approx(read / len(found.text), rel=0.05)
    text = detector.read(written(PEOPLE, 3) * 10)
    middle = text.excerpts[1]
    start = text.characters[middle.start][0]
    assert text.ids[middle.start : middle.end] == detector.reader.tokenise(text.text[start : start + 192]).ids[:24]
    means = [float(own.mean()) for own in detector.reader.token_energies([text.piece(b) for b in text.excerpts])]
    assert found.energy == pytest.approx(sum(means) / 3, abs=1e-4)


@pytest.mark.parametrize(("text", "tokens"), [("", "0 tokens"), ("\u200b \n", "0 tokens"), ("a", "1 token;")])
def test_a_text_too_short_is_told_apart_and_the_rest_is_judged(detector, text, tokens):
    first, short, last = detector.detect([TEXTS[0], text, TEXTS[1]])
    assert isinstance(short, LexergyError)
    assert tokens in str(short)
    assert first.tokens > last.tokens > 1


def test_saved_and_loaded_it_says_the_same(detector, tmp_path):
    detector.save_pretrained(tmp_path / "saved")
    loaded = Detector.from_pretrained(tmp_path / "saved")
    assert loaded.settings == detector.settings
    assert list(loaded.detect(TEXTS)) == list(detector.detect(TEXTS))


def test_a_detector_of_the_first_format_says_what_it_said_and_that_it_is_old(states_detector, tmp_path):
    states_detector.save_pretrained(tmp_path)
    old = {"format": 1, "reader": "states", "block_tokens": 24, "temperature": 20.0, "most_blocks": 32}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(old))
    (found,) = Detector.from_pretrained(tmp_path).detect(TEXTS[:1])
    assert found.warnings == (UNKNOWN,)
    assert logit(found.probability) == pytest.approx(found.energy / 20, rel=1e-5)
    first = found.spans[0]
    assert logit(first.probability) == pytest.approx(first.energy / 20 * math.sqrt(16 / 24), rel=1e-5)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{",
        "[]",
        '{"format": 1, "reader": "states"}',
        '{"format": 1}',
        '{"format": 9, "reader": "states"}',
        '{"format": 2, "reader": "states", "block_tokens": -1}',
    ],
)
def test_a_folder_that_is_no_detector(content, tmp_path):
    if content is not None:
        (tmp_path / "detector.json").write_text(content)
    with pytest.raises(LexergyError, match=r"no detector at|damaged|another version"):
        Detector.from_pretrained(tmp_path)


def test_only_means_over_tokens_can_be_read_block_by_block(word_lm):
    with pytest.raises(LexergyError, match="no mean over tokens"):
        StatesReader(word_lm, StatesEnergy.for_lm(word_lm, (1,)))
    with pytest.raises(LexergyError, match="no mean over tokens"):
        StatesReader(word_lm, StatesEnergy.for_lm(word_lm, (1,), statistics="moments", hidden_units=4))


@pytest.mark.parametrize("kind", ["states", "encoder"])
def test_a_bar_moves_before_all_texts_are_read(states_detector, encoder_detector, kind, monkeypatch):
    detector = {"states": states_detector, "encoder": encoder_detector}[kind]
    text = " ".join(["the state of our union is strong ."] * 5)
    monkeypatch.setattr(detector.reader, "tokens_together", 2 * len(detector.read(text).ids))
    begun = []
    detections = detector.detect(begun.append(number) or text for number in range(6))
    next(detections)
    assert begun == [0, 1]


@pytest.mark.parametrize("kind", ["states", "encoder"])
def test_texts_of_all_lengths_are_judged_together_as_alone(states_detector, encoder_detector, kind):
    detector = {"states": states_detector, "encoder": encoder_detector}[kind]
    sentence = "the state of our union is strong ."
    texts = [" ".join(sentence.split()[:length]) * times for length in range(2, 8) for times in (3, 1)]
    together = list(detector.detect(texts))
    for judged, text in zip(together, texts, strict=True):
        (alone,) = detector.detect([text])
        assert judged.energy == pytest.approx(alone.energy, abs=1e-5)
        assert [span.energy for span in judged.spans] == pytest.approx([s.energy for s in alone.spans], abs=1e-5)


@pytest.fixture
def with_bfloat16(monkeypatch):
    """As on a processor that has such products: oneDNN computes them on all of them, slowly."""
    monkeypatch.setattr("lexergy.models.detection.readers.has_products_of_bfloat16", lambda: True)


@pytest.mark.usefixtures("with_bfloat16")
def test_an_encoder_in_bfloat16_says_nearly_the_same(encoder_detector, tmp_path):
    encoder_detector.save_pretrained(tmp_path / "saved")
    rounded = Detector.from_pretrained(f"{tmp_path / 'saved'}#precision=bfloat16")
    rounded.save_pretrained(tmp_path / "rounded")
    found = rounded.scores(TEXTS)
    assert found == pytest.approx(encoder_detector.scores(TEXTS), rel=0.05)
    assert found != encoder_detector.scores(TEXTS)
    assert Detector.from_pretrained(tmp_path / "rounded").scores(TEXTS) == found  # it stays what it was
    exact = Detector.from_pretrained(f"{tmp_path / 'rounded'}#precision=float32")
    assert exact.scores(TEXTS) == encoder_detector.scores(TEXTS)


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_an_encoder_is_refused_in_numbers_that_are_not_to_be_had(encoder_detector, tmp_path, precision, monkeypatch):
    monkeypatch.setattr("lexergy.models.detection.readers.has_products_of_bfloat16", lambda: False)
    encoder_detector.save_pretrained(tmp_path)
    with pytest.raises(LexergyError, match=f"in {precision}"):
        Detector.from_pretrained(f"{tmp_path}#precision={precision}")
