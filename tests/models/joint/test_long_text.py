"""Many prefixes at once, and long texts chunk by chunk, against exact enumeration."""

import pytest
import torch

from lexergy.core.conditions import Conditions, UnlikeTrainingWarning
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.joint.long_text import continue_long
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import sample_rows
from lexergy.testing import EnumerableLM, EnumerableMaskedLM, TableEnergy, chi_square_p_value, joint_log_prob

ROWS = 1500
CANDIDATES = 128  # with fewer, the bias of resampling shows in the tests


@pytest.fixture(scope="module")
def joint() -> ResidualEBM:
    return ResidualEBM(EnumerableLM(architecture="llama"), TableEnergy(length=3, scale=1.5))


def test_rows_follow_the_exact_joint(joint):
    prefix = torch.tensor([[4]])
    rows = sample_rows(
        joint,
        prefix.expand(ROWS, -1),
        num_candidates=CANDIDATES,
        max_new_tokens=2,
        seed=3,
        rows_per_batch=8192,
    )
    distribution = joint_log_prob(joint.lm, joint.energy.function, prefix[0], 2).exp()  # (49,)
    counts = torch.bincount(rows.tokens[:, 0] * 7 + rows.tokens[:, 1], minlength=49)
    assert chi_square_p_value(counts, distribution) > 1e-3
    base = torch.bincount(rows.base_tokens[:, 0] * 7 + rows.base_tokens[:, 1], minlength=49)
    assert chi_square_p_value(base, distribution) < 1e-6  # the test can tell the LM from the joint model


def test_rows_tell_their_own_numbers(joint):
    prefix = torch.tensor([[4, 2], [1, 5]])[:, :1]
    rows = sample_rows(joint, prefix, num_candidates=8, max_new_tokens=2, seed=1)
    whole = torch.cat((prefix, rows.tokens), 1)
    assert torch.allclose(rows.energy, joint.energy.function(whole))
    assert torch.allclose(rows.log_prob, joint.lm.log_prob(whole, prefix_length=1))
    assert torch.equal(rows.base_energy, -rows.log_weights[:, 0])


def test_batches_change_nothing(joint):
    prefix = torch.tensor([[4], [1], [6]])
    settings = {"num_candidates": 8, "max_new_tokens": 2, "seed": 2, "top_k": 3}
    whole = sample_rows(joint, prefix, **settings)
    alone = sample_rows(joint, prefix[1:2], prefix_ids=[1], rows_per_batch=3, **settings)
    assert torch.equal(whole.tokens[1:2], alone.tokens)


def test_features_are_those_of_the_chosen():
    lm = EnumerableLM(architecture="llama")

    class Reads:
        features = StateFeatures((1, 2))

        def score(self, prefix, continuations, features=None):
            return features[..., 0] * 5

    joint = ResidualEBM(lm, TableEnergy())
    joint.energy = Reads()
    prefix = torch.tensor([[4], [1]])
    rows = sample_rows(joint, prefix, num_candidates=8, max_new_tokens=3)
    again = lm.state_features(torch.cat((prefix, rows.tokens), 1), prefix_length=1, features=Reads.features)
    assert torch.allclose(rows.features, again, atol=1e-4)


def test_chunks_follow_the_product_of_joints(joint):
    """P(x) = P(x_1 | p) P(x_2 | p_2, x_1): chunks of one token, each read with the two before it."""
    prefix = torch.tensor([[4, 2]])
    long = continue_long(
        joint,
        prefix.expand(ROWS, -1),
        num_chunks=2,
        chunk_tokens=1,
        context_tokens=2,
        num_candidates=CANDIDATES,
        seed=5,
    )
    first = joint_log_prob(joint.lm, joint.energy.function, prefix[0], 1)  # (7,)
    distribution = torch.cat(
        [
            first[token] + joint_log_prob(joint.lm, joint.energy.function, torch.tensor([2, token]), 1)
            for token in range(7)
        ]
    ).exp()
    counts = torch.bincount(long.tokens[:, 0] * 7 + long.tokens[:, 1], minlength=49)
    assert chi_square_p_value(counts, distribution) > 1e-3
    assert long.energy.shape == (ROWS, 2)
    assert torch.allclose(
        long.energy[:, 1],
        joint.energy.function(torch.cat((prefix[:, 1:].expand(ROWS, -1), long.tokens), 1)),
    )


def test_chunks_have_random_numbers_of_their_own(joint):
    prefix = torch.tensor([[4, 2]])
    settings = {"chunk_tokens": 1, "context_tokens": 2, "num_candidates": 4, "seed": 1}
    two = continue_long(joint, prefix.expand(200, -1), num_chunks=2, **settings)
    assert not torch.equal(two.log_weights[:, 0], two.log_weights[:, 1])
    again = continue_long(joint, prefix.expand(200, -1), num_chunks=2, **settings)
    assert torch.equal(two.tokens, again.tokens)


def test_one_prompt_beside_the_lm(joint):
    long = joint.generate_long([4, 2], num_chunks=3, chunk_tokens=1, num_candidates=30, context_tokens=2)
    assert long.tokens.shape == long.base_tokens.shape == (3,)
    assert [chunk.ess > 1 for chunk in long.chunks] == [True] * 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_chunks": 0}, "`num_chunks` is 0"),
        ({"chunk_tokens": 99}, "expected less than 16"),
        ({"context_tokens": 16}, "expected 1 to 15"),
        ({"num_candidates": 0}, "`num_candidates` is 0"),
    ],
)
def test_mistakes_are_told(joint, wrong, message):
    settings = {"num_chunks": 2, "chunk_tokens": 1, "num_candidates": 2, **wrong}
    with pytest.raises(LexergyError, match=message):
        continue_long(joint, torch.tensor([[4, 2]]), **settings)


@pytest.fixture(scope="module")
def words() -> ResidualEBM:
    tokenizer = EnumerableMaskedLM().tokenizer
    lm = CausalLM(EnumerableLM(len(tokenizer), sharpness=2.0).model, tokenizer, forbidden_tokens=range(5))
    return ResidualEBM(lm, lambda tokens: 0.1 * tokens.sum(1))


def test_a_long_text_stops_at_a_string_even_between_two_chunks(words):
    settings = {"num_chunks": 5, "chunk_tokens": 2, "num_candidates": 4}
    stopped_at = set()
    for seed in range(12):
        plain = words.generate_long("the state", seed=seed, **settings)
        later = plain.text.split()
        pair = " ".join(later[1:3])  # of which the first word ends a chunk and the second begins one
        out = words.generate_long("the state", seed=seed, stop=[pair], **settings)
        assert out.text == plain.text[: plain.text.index(pair)]
        assert len(out.chunks) <= 2
        stopped_at.add(len(out.tokens))
    assert 4 in stopped_at


def test_a_long_text_ends_with_its_chunk(words):
    joint = ResidualEBM(words.lm.ending(3), words.energy, Conditions(prefix=2, continuation=3, ends=True))
    settings = {"num_chunks": 4, "chunk_tokens": 3, "num_candidates": 4}
    texts = [joint.generate_long("the state", seed=seed, **settings) for seed in range(12)]
    ended = [text for text in texts if int(text.tokens[-1]) == 3]
    assert len(ended) >= 3
    for text in texts:
        assert 3 not in text.tokens[:-1]
        assert "[SEP]" not in text.text
        assert len(text.tokens) == 12 or int(text.tokens[-1]) == 3
        assert text.warnings == ()
    with pytest.raises(LexergyError, match="may end its texts"):
        continue_long(joint, torch.tensor([[5, 6]]), **settings)
    with pytest.warns(UnlikeTrainingWarning, match="the prompt has 2 and 7 are written"):
        joint.generate_long("the state", num_chunks=1, chunk_tokens=7, num_candidates=2, context_tokens=4)
