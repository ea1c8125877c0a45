import pytest
import scipy.stats
import torch

from lexergy.core.decoding import FORKS, Decoding, draw, truncated_log_probs
from lexergy.errors import LexergyError

DISTRIBUTIONS = [
    Decoding(),
    Decoding(temperature=0.6),
    Decoding(top_k=3),
    Decoding(top_p=0.7),
    Decoding(top_k=4, top_p=0.8, temperature=1.7),
]


def skewed_logits(rows: int, vocab_size: int) -> torch.Tensor:
    return torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(vocab_size)) * 2


@pytest.mark.parametrize("decoding", DISTRIBUTIONS)
@pytest.mark.parametrize("vocab_size", [7, 300, 4096])
def test_every_uniform_falls_where_the_law_says(decoding, vocab_size):
    """The share of a fine grid of uniforms that falls on a token is the token's probability."""
    logits = skewed_logits(1, vocab_size)
    grid = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    drawn = draw(logits.expand(20_000, -1), grid.unsqueeze(-1), decoding)
    distribution = truncated_log_probs(logits, decoding)[0].double()
    shares = torch.bincount(drawn.tokens, minlength=vocab_size) / 20_000
    assert torch.allclose(shares.double(), distribution.exp(), atol=1.01e-4)
    assert torch.allclose(drawn.log_prob, distribution[drawn.tokens], atol=1e-5)


@pytest.mark.parametrize("decoding", DISTRIBUTIONS)
@pytest.mark.parametrize("vocab_size", [7, 300])
def test_fresh_numbers_at_each_fork_have_the_same_law(decoding, vocab_size):
    count = 20_000
    logits = skewed_logits(1, vocab_size)
    numbers = torch.rand(count, FORKS, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    drawn = draw(logits.expand(count, -1), numbers, decoding).tokens
    expected = truncated_log_probs(logits, decoding)[0].double().exp() * count
    observed = torch.bincount(drawn, minlength=vocab_size)
    assert not observed[expected == 0].any()
    common = expected > 5
    chi_square = ((observed - expected) ** 2 / expected)[common].sum().item()
    assert scipy.stats.chi2.sf(chi_square, int(common.sum()) - 1) > 1e-3


def test_rounding_seldom_changes_a_draw():
    """Logits that another order of summing moves by 1e-4 give other tokens hundreds of times as often by one number."""
    generator = torch.Generator().manual_seed(0)
    logits = skewed_logits(1, 50_000).expand(2000, -1)
    moved = logits + 1e-4 * torch.randn(2000, 50_000, generator=generator)
    numbers = torch.rand(2000, FORKS, dtype=torch.double, generator=generator)
    by_one, by_fresh = (
        (draw(logits, chosen, Decoding()).tokens != draw(moved, chosen, Decoding()).tokens).sum()
        for chosen in (numbers[:, :1], numbers)
    )
    assert by_one > 20
    assert by_fresh <= 5


def test_truncated_laws_by_hand():
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    top_k = truncated_log_probs(logits, Decoding(top_k=2)).exp()
    assert torch.allclose(top_k, torch.tensor([[0, 4 / 7, 0, 3 / 7]]))
    # .4 alone has not reached .5, so .3 is kept too; .4 + .3 has, so .2 is not.
    top_p = truncated_log_probs(logits, Decoding(top_p=0.5)).exp()
    assert torch.allclose(top_p, torch.tensor([[0, 4 / 7, 0, 3 / 7]]))
    assert torch.allclose(truncated_log_probs(logits, Decoding(top_p=0.1)).exp(), torch.tensor([[0.0, 1, 0, 0]]))


@pytest.mark.parametrize("decoding", DISTRIBUTIONS)
def test_memory_order_does_not_matter(decoding):
    logits, numbers = (
        skewed_logits(64, 1024),
        torch.rand(64, 10, generator=torch.Generator().manual_seed(1)).double(),
    )
    row_major, column_major = (
        draw(logits, numbers, decoding),
        draw(logits.t().contiguous().t(), numbers, decoding),
    )
    assert torch.equal(row_major.tokens, column_major.tokens)


@pytest.mark.parametrize("number", [0.0, 1 - 2**-53])
def test_the_ends_never_give_a_token_of_probability_zero(number):
    logits = torch.full((1, 300), -1e9)
    logits[0, 20:40] = 0.0
    token = draw(logits, torch.tensor([[number]], dtype=torch.float64), Decoding()).tokens
    assert token.item() == (20 if number == 0 else 39)


def test_a_wide_nucleus_is_sorted_whole():
    logits = torch.zeros(1, 4096)
    assert truncated_log_probs(logits, Decoding(top_p=0.9)).isfinite().sum() == pytest.approx(0.9 * 4096, abs=1)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"top_k": 0}, "`top_k` is 0"),
        ({"top_p": 0.0}, "`top_p` is 0"),
        ({"temperature": 0.0}, "`temperature` is 0"),
    ],
)
def test_bad_values_are_named(keywords, message):
    with pytest.raises(LexergyError, match=message):
        Decoding(**keywords)
