import math
from dataclasses import replace

import pytest
import torch
from scipy.optimize import minimize

from lexergy.core.detection.calibration import FLATTEST, Calibration, fit_calibration, fit_offset
from lexergy.core.detection.classification import calibration_error
from lexergy.errors import LexergyError

LENGTHS = (4, 8, 16, 32, 64, 128, 256)


def pieces_of_texts(num_texts, *, own=0.0, centre=0.0, first=0.0, seed=0):
    """Texts whose tokens have energies normal about ±0.1 + centre + a text's `own` deviation, cut to many lengths.

    With own = 0 the evidence per token is constant: the log-odds of n tokens are 0.2 n (E - centre). The sum of each
    cut has `first` in it, give or take as much, which says nothing of the writer.
    """
    generator = torch.Generator().manual_seed(seed)
    is_machine = torch.arange(num_texts) % 2 == 1
    mean = torch.where(is_machine, 0.1, -0.1) + centre + own * torch.randn(num_texts, generator=generator)
    energies = mean[:, None] + torch.randn(num_texts, LENGTHS[-1], generator=generator)  # (N, L)
    cuts = torch.stack([energies[:, :length].mean(1) for length in LENGTHS], 1)  # (N, lengths)
    tokens = torch.tensor(LENGTHS).expand_as(cuts)
    cuts = cuts + first * (1 + torch.randn(num_texts, len(LENGTHS), generator=generator)) / tokens
    texts = [text for text in range(num_texts) for _ in LENGTHS]
    return cuts.flatten(), tokens.flatten(), is_machine.repeat_interleave(len(LENGTHS)), texts


def error_by_length(log_odds, tokens, is_machine):
    errors = []
    for length in LENGTHS:
        own = tokens == length
        weights = torch.ones(1, int(own.sum()), dtype=torch.double)
        errors.append(float(calibration_error(log_odds[own].sigmoid(), is_machine[own], weights)))
    return errors


@pytest.mark.parametrize(
    ("own", "centre", "first"), [(0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.1, 0.3, 0.0), (0.1, 0.3, -30.0), (0.0, 0.0, -3.0)]
)
def test_probabilities_are_calibrated_at_all_lengths(own, centre, first):
    """On new texts; a scale and a bias that are fitted on whole texts and know no length are far off on short ones."""
    energies, tokens, is_machine, texts = pieces_of_texts(600, own=own, centre=centre, first=first)
    new_energies, new_tokens, new_is_machine, _ = pieces_of_texts(4000, own=own, centre=centre, first=first, seed=1)
    calibration = fit_calibration(energies, tokens, is_machine, texts)
    assert max(error_by_length(calibration.log_odds(new_energies, new_tokens), new_tokens, new_is_machine)) < 0.05

    whole = tokens == LENGTHS[-1]
    blind = fit_calibration(energies[whole], tokens[whole], is_machine[whole], range(600))
    assert blind.half_tokens == 0
    errors = error_by_length(blind.log_odds(new_energies, new_tokens), new_tokens, new_is_machine)
    assert errors[-1] < 0.05
    assert errors[0] > 0.25


def test_a_few_texts_of_another_kind_correct_the_offset():
    """Energies shifted by 0.2 make people's texts machines'; forty labelled texts mend it, at all lengths."""
    calibration = fit_calibration(*pieces_of_texts(600, own=0.1))
    few = pieces_of_texts(40, own=0.1, centre=0.2, seed=2)
    mended = fit_offset(calibration, *few)
    assert mended == replace(calibration, offset=mended.offset)
    energies, tokens, is_machine, _ = pieces_of_texts(4000, own=0.1, centre=0.2, seed=1)
    assert error_by_length(calibration.log_odds(energies, tokens), tokens, is_machine)[-1] > 0.25
    assert max(error_by_length(mended.log_odds(energies, tokens), tokens, is_machine)) < 0.1


def test_a_short_text_says_less_than_a_long_one_of_the_same_energy():
    calibration = fit_calibration(*pieces_of_texts(100))
    probabilities = [calibration.probability(0.1, length) for length in (1, *LENGTHS)]
    assert probabilities == sorted(probabilities)
    assert probabilities[0] == pytest.approx(0.5, abs=0.02)
    assert probabilities[-1] > 0.85


def test_a_shift_of_all_energies_is_what_the_offset_is_for():
    energies, tokens, is_machine, texts = pieces_of_texts(60, own=0.1)
    calibration = fit_calibration(energies, tokens, is_machine, texts)
    shifted = fit_calibration(energies + 7, tokens, is_machine, texts)
    torch.testing.assert_close(
        shifted.log_odds(energies + 7, tokens), calibration.log_odds(energies, tokens), atol=1e-4, rtol=1e-4
    )


def test_the_fit_minimises_the_penalised_loss():
    energies, tokens, is_machine, texts = pieces_of_texts(24, own=0.2)
    calibration = fit_calibration(energies, tokens, is_machine, texts)
    share = 1 / (1 + (calibration.half_tokens / tokens.double()) ** calibration.power)
    relative = share / share.max()
    centred = energies.double() - calibration.first / tokens
    centre = (relative * centred).sum() / relative.sum()
    targets = torch.where(is_machine, 13 / 14, 1 / 14).double()

    def loss(coefficients):
        slope, offset = coefficients
        log_odds = relative * (slope * (centred - centre) + offset)
        cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits(log_odds, targets, reduction="sum")
        return float(cross_entropy) / len(LENGTHS) + offset**2 / 2

    slope, offset = minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    best = relative * (slope * (centred - centre) + offset)
    torch.testing.assert_close(calibration.log_odds(energies, tokens), best, atol=1e-3, rtol=1e-3)


def test_each_text_weighs_the_same_and_so_does_each_class():
    energies, tokens, is_machine, texts = pieces_of_texts(40, own=0.1)
    once = fit_calibration(energies, tokens, is_machine, texts)
    again = [index for index, text in enumerate(texts) for _ in range(3 if text < 10 else 1)]
    repeated = fit_calibration(energies[again], tokens[again], is_machine[again], [texts[index] for index in again])
    log_odds = repeated.log_odds(energies, tokens) - once.log_odds(energies, tokens)
    assert float(log_odds.abs().max()) < 0.05  # the energies' standard deviation alone counts pieces


def test_the_prior_shifts_the_log_odds_by_its_own():
    calibration = Calibration(slope=2.0, offset=-0.5, half_tokens=10.0)
    for tokens in (2, 500):
        even, rare = (calibration.probability(0.7, tokens, prior) for prior in (0.5, 0.01))
        assert math.log(rare / (1 - rare)) == pytest.approx(math.log(even / (1 - even)) + math.log(0.01 / 0.99))


def test_calibration_changes_no_ranking_at_one_length():
    """Of a detector that is right, and of one that is always wrong."""
    energies, tokens, is_machine, texts = pieces_of_texts(60, own=0.1)
    same = torch.full_like(tokens, 50)
    for labels in (is_machine, ~is_machine):
        calibration = fit_calibration(energies, tokens, labels, texts)
        assert calibration.slope >= FLATTEST * 0.999
        assert torch.equal(calibration.log_odds(energies, same).argsort(stable=True), energies.argsort(stable=True))


def test_a_few_texts_without_a_mistake_do_not_make_it_certain():
    energies = torch.tensor([-2.0, -1.0, 1.0, 2.0])
    calibration = fit_calibration(energies, torch.full((4,), 100), energies > 0, range(4))
    assert 0.6 < calibration.probability(1.0, 100) < 0.9  # about (2 + 1) / (2 + 2)


def test_one_class_cannot_be_calibrated():
    with pytest.raises(LexergyError, match="3 texts of people and 0 of machines"):
        fit_calibration(torch.arange(3.0), torch.ones(3), torch.zeros(3, dtype=torch.bool), range(3))
