"""Zero-shot scores of whole texts against the LMs' own distributions, one text at a time."""

import pytest
import torch

from lexergy import CausalLM
from lexergy.core.detection.assistant import AssistantScore
from lexergy.core.detection.wording import WordingWeights
from lexergy.core.detection.zero_shot import SCORERS
from lexergy.data.detection.habits import Habits
from lexergy.errors import LexergyError
from lexergy.models.detection import Detector
from lexergy.models.detection.detector import DetectorSettings
from lexergy.models.detection.wording import wording_of
from lexergy.models.detection.zero_shot import ZeroShotReader
from toys.texts import MACHINE, PEOPLE, written

TEXTS = [written(PEOPLE, 0)[:150], "it is rain.", written(MACHINE, 1)[:90]]


def another(word_lm):
    """An LM of the same tokens that predicts otherwise."""
    model = type(word_lm.model)(type(word_lm.model.config)(**word_lm.model.config.to_diff_dict()))
    model.name_or_path = ""  # it lies nowhere yet
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    return CausalLM(model, word_lm.tokenizer, forbidden_tokens=word_lm.forbidden_tokens)


def reference(lm, sampling, ids):
    """log q, E_p log q, Var_p log q and log(1 + rank) of each token, from whole next-token distributions."""
    rows = []
    for place in range(1, len(ids)):
        before = torch.tensor([ids[:place]])
        log_q, log_p = lm.next_log_prob(before)[0], sampling.next_log_prob(before)[0]
        p, finite = log_p.exp(), log_q.clamp_min(-1e9)
        mean = (p * finite).sum()
        rank = (log_q > log_q[ids[place]]).sum()
        rows.append((log_q[ids[place]], mean, (p * (finite - mean) ** 2).sum(), rank.double().log1p()))
    return torch.tensor(rows).T


@pytest.mark.parametrize("paired", [False, True], ids=["one LM", "two LMs"])
def test_statistics_are_those_of_the_distributions(word_lm, paired):
    second = another(word_lm) if paired else None
    reader = ZeroShotReader(word_lm, "curvature", second)
    ids = reader.tokenise(TEXTS[0]).ids[:20]
    (found,) = reader.statistics([torch.tensor(ids)])
    torch.testing.assert_close(
        torch.stack(found), reference(word_lm, second or word_lm, ids).double(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("scorer", SCORERS)
def test_company_and_padding_change_nothing_and_a_texts_energy_is_its_score(word_lm, scorer):
    detector = Detector(ZeroShotReader(word_lm, scorer), DetectorSettings(block_tokens=64))
    together = list(detector.detect(TEXTS))
    for text, judged in zip(TEXTS, together, strict=True):
        block = torch.tensor(detector.read(text).ids)
        (statistics,) = detector.reader.statistics([block])
        assert judged.energy == pytest.approx(float(SCORERS[scorer](statistics).mean()), abs=1e-4)


def fitted():
    """A score that knows some words of TEXTS, and a pair."""
    words = ("is", "rain", "it_is", ".")
    wording = WordingWeights(words, (0.5, -1.0, 0.25, 0.1), (1.0, 2.0, 3.0, 1.0), (0.1,) * len(Habits._fields))
    return AssistantScore((-3.0, -0.2, -4.0), (0.5, 0.1, 1.0), wording, 0.5)


def test_the_score_of_an_assistants_wording_is_of_the_texts_own_words(word_lm, tmp_path):
    score = fitted()
    detector = Detector(ZeroShotReader(word_lm, "assistant", fitted=score), DetectorSettings(block_tokens=64))
    together = list(detector.detect(TEXTS))
    for text, judged in zip(TEXTS, together, strict=True):
        block = torch.tensor(detector.read(text).ids)
        (statistics,) = detector.reader.statistics([block])
        wording = wording_of(word_lm.tokenizer, block, score.common)
        assert judged.energy == pytest.approx(float(score.terms(statistics, wording).mean()), abs=1e-4)
    detector.save_pretrained(tmp_path)
    loaded = Detector.from_pretrained(tmp_path)
    assert loaded.reader.fitted == score
    assert [judged.energy for judged in loaded.detect(TEXTS)] == [judged.energy for judged in together]


def test_the_score_of_an_assistants_wording_is_for_the_lm_that_it_was_fitted_to(word_lm):
    with pytest.raises(LexergyError, match="is fitted to the default LM alone; leave out `--lm`"):
        ZeroShotReader(word_lm, "assistant")
    with pytest.raises(LexergyError, match="is fitted to the default LM alone"):
        ZeroShotReader(word_lm, "assistant", another(word_lm), fitted())


def test_bits_for_a_character_of_lms_with_other_tokens(word_lm, byte_lm):
    reader = ZeroShotReader(word_lm, "bits-ratio", byte_lm)
    text = TEXTS[1]
    ids = reader.tokenise(text).ids
    (terms,) = reader.token_energies([torch.tensor(ids)])
    own = word_lm.token_log_prob(torch.tensor([ids]), prefix_length=1).sum()
    read = word_lm.tokenizer.decode(ids)
    letters = byte_lm.tokenizer(read, add_special_tokens=False)["input_ids"]
    theirs = byte_lm.token_log_prob(torch.tensor([letters]), prefix_length=1).sum()
    own_characters = len(word_lm.tokenizer.decode(ids[1:]))
    their_characters = len(read) - len(byte_lm.tokenizer.decode(letters[:1]))
    expected = -(own / own_characters) / (theirs / their_characters)
    assert float(terms.mean()) == pytest.approx(float(expected), rel=1e-4)


def test_the_second_lm_reads_what_it_can_of_a_long_text(word_lm, byte_lm):
    reader = ZeroShotReader(word_lm, "bits-ratio", byte_lm)
    ids = torch.tensor(reader.tokenise(TEXTS[0]).ids[:50])
    (terms,) = reader.token_energies([ids])
    letters = torch.tensor(byte_lm.tokenizer(word_lm.tokenizer.decode(ids))["input_ids"])
    assert len(letters) > byte_lm.max_length
    letters = letters[: byte_lm.max_length]
    theirs = byte_lm.token_log_prob(letters[None], prefix_length=1).mean()  # a byte is a character
    own = word_lm.token_log_prob(ids[None], prefix_length=1).sum() / len(word_lm.tokenizer.decode(ids[1:]))
    assert float(terms.mean()) == pytest.approx(-float(own / theirs), rel=1e-4)


def test_token_by_token_needs_one_tokenizer(word_lm, byte_lm):
    with pytest.raises(LexergyError, match="have different tokens; `ratio` compares"):
        ZeroShotReader(word_lm, "ratio", byte_lm)
    with pytest.raises(LexergyError, match="compares two LMs; one is given"):
        ZeroShotReader(word_lm, "bits-ratio")
    with pytest.raises(
        LexergyError, match="the scorer is `likelyhood`; expected one of: machine, assistant, sample, likelihood"
    ):
        ZeroShotReader(word_lm, "likelyhood")


def test_saved_and_loaded_it_says_the_same(word_lm, tmp_path):
    detector = Detector(ZeroShotReader(word_lm, "curvature", another(word_lm)), DetectorSettings(block_tokens=24))
    detector.save_pretrained(tmp_path)
    loaded = Detector.from_pretrained(tmp_path)
    assert loaded.reader.scorer == "curvature"
    assert [judged.energy for judged in loaded.detect(TEXTS)] == [judged.energy for judged in detector.detect(TEXTS)]
