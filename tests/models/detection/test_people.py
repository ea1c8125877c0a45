import random

import pytest

from lexergy.data.detection.style import Style
from lexergy.errors import LexergyError
from lexergy.models.detection.people import FalsePositives, PeopleTexts, accuse, length_warnings


def people(**by_domain: list[float]) -> PeopleTexts:
    """Texts of one length with these energies."""
    domains = [domain for domain, own in by_domain.items() for _ in own]
    style = Style(*[0.0] * len(Style._fields))
    energies = [energy for own in by_domain.values() for energy in own]
    return PeopleTexts(tuple(energies), (200,) * len(energies), tuple(domains), (style,) * len(energies))


def normal(mean: float, count: int, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(mean, 1) for _ in range(count)]


def accused(known: PeopleTexts, energies: list[float], rate: float) -> float:
    found = accuse(known, energies, [200] * len(energies), FalsePositives(rate))
    return sum(own.verdict == "machine" for own in found) / len(energies)


def test_the_rate_holds_in_every_domain():
    """Stories with higher energies than news: one threshold for both would accuse about a tenth of them."""
    known = people(news=normal(0, 400, 0), stories=normal(1, 400, 1))
    assert accused(known, normal(1, 4000, 2), 0.05) < 0.07
    assert accused(known, normal(0, 4000, 3), 0.05) < 0.02


def test_p_value_is_the_largest_among_domains():
    known = people(news=[float(value) for value in range(39)], stories=[value + 20.0 for value in range(39)])
    (found,) = accuse(known, [57.5], [200], FalsePositives(0.05))
    assert found.p_value == pytest.approx((1 + 1) / 40)  # one story is as high, and no news
    assert found.compared_with == 39


def test_domains_of_too_few_texts_count_as_one():
    """Ten texts each support no .05, twenty do."""
    known = people(news=[float(value) for value in range(10)], stories=[value + 10.0 for value in range(10)])
    (found,) = accuse(known, [30.0], [200], FalsePositives(0.05))
    assert (found.p_value, found.compared_with) == (pytest.approx(1 / 21), 20)


def test_a_few_texts_beside_a_large_domain_are_compared_with_all():
    known = people(news=[0.0] * 30, letters=[5.0])
    (found,) = accuse(known, [1.0], [200], FalsePositives(0.05))
    assert found.p_value == pytest.approx(2 / 32)  # the letter is as high


def test_of_a_few_words_nothing_is_told():
    """Energies far above and below those of people's texts, of which the shortest has 200 tokens."""
    known = people(news=normal(0, 40, 0))
    verdicts = [own.verdict for own in accuse(known, [9.0, -9.0] * 2, [99, 99, 100, 100], FalsePositives(0.05))]
    assert verdicts == ["cannot tell", "cannot tell", "machine", "people"]
    assert length_warnings(known, 100) == ()
    assert length_warnings(known, 2) == (
        "2 tokens are too few to tell: people's texts that it is compared with have 200 or more",
    )


def test_too_few_in_all_are_refused():
    with pytest.raises(LexergyError, match="needs at least 19"):
        accuse(people(news=[0.0] * 18), [1.0], [200], FalsePositives(0.05))
