"""An LM behind Lexergy's own server is the LM itself."""

import math

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.remote.lm import RemoteLM
from lexergy.models.remote.opening import open_lm
from lexergy.models.scoring.causal import causal_scorer
from lexergy.models.scoring.kinds import load_scorer
from lexergy.testing import EnumerableLM, assert_sampler_contract, letter_tokenizer, served_lm
from toys.answering import StandIn, answering

PREFIX = torch.tensor([[1], [4]])


@pytest.fixture(scope="module")
def local() -> EnumerableLM:
    return EnumerableLM(num_layers=1, tokenizer=letter_tokenizer())


@pytest.fixture(scope="module")
def url(local):
    with served_lm(local) as address:
        yield address


@pytest.fixture(scope="module")
def remote(url, local) -> RemoteLM:
    return RemoteLM(url, tokenizer=local.tokenizer)


def test_samples_follow_the_exact_distribution(remote, local):
    assert_sampler_contract(remote, PREFIX[:1], 2, num_samples=250, exact_lm=local)


def test_truncated_samples_do_too(remote, local):
    assert_sampler_contract(remote, PREFIX[:1], 2, num_samples=80, exact_lm=local, top_k=3, temperature=1.3)


def test_text_has_the_same_log_probabilities(remote, local):
    rows = torch.tensor([[1, 2, 3, 4, 5], [6, 5, 4, 3, 2], [0, 0, 1, 6, 6]])
    for prefix_length in (1, 3):
        ours = local.token_log_prob(rows, prefix_length=prefix_length)
        assert torch.allclose(remote.token_log_prob(rows, prefix_length=prefix_length), ours, atol=1e-4)


def test_neither_order_nor_concurrency_changes_a_text(remote, local, url):
    options = {"max_new_tokens": 4, "seed": 3}
    whole = remote.sample(PREFIX, num_samples=6, **options)
    alone = RemoteLM(url, tokenizer=local.tokenizer, concurrency=1)
    parts = [
        alone.sample(PREFIX.flip(0), num_samples=3, first_sample=first, prefix_ids=[1, 0], **options)
        for first in (3, 0)
    ]
    assert torch.equal(torch.cat([parts[1].tokens, parts[0].tokens], 1).flip(0), whole.tokens)
    assert len({tuple(row.tolist()) for row in whole.tokens.flatten(0, 1)}) > 6  # each has a seed of its own
    other = remote.sample(PREFIX, num_samples=6, max_new_tokens=4, seed=4)
    assert not torch.equal(other.tokens, whole.tokens)


def test_joint_model_measures_generates_and_reranks(remote, local):
    energy = lambda tokens: 2.0 * (tokens == 6).sum(-1)  # noqa: E731
    far, near = ResidualEBM(remote, energy), ResidualEBM(local, energy)
    rows = torch.tensor([[1, 2, 3], [2, 1, 6]])
    ours, theirs = (joint.perplexity(rows, prefix_length=1, num_samples=8) for joint in (near, far))
    assert math.isclose(ours.base, theirs.base, rel_tol=1e-4)
    generation = far.generate([1, 2], num_candidates=8, max_new_tokens=3)
    assert len(generation.tokens) == 3
    assert generation.candidates[0].energy <= generation.candidates[-1].energy
    ours, theirs = (joint.rerank("ab", ["cg", "cd"], weigh_by="joint") for joint in (near, far))
    assert ours.candidates[0].log_prob == pytest.approx(theirs.candidates[0].log_prob, abs=1e-4)
    assert ours.best == theirs.best


def test_a_list_is_weighed_by_energy_alone_where_the_lm_scores_nothing(local):
    with answering(StandIn(local, "somebody", scores=False)) as address:
        joint = ResidualEBM(RemoteLM(address, tokenizer=local.tokenizer), lambda tokens: 2.0 * (tokens == 6).sum(-1))
        ranked = joint.rerank("ab", ["cg", "cd"])
        assert [candidate.energy for candidate in ranked.candidates] == [2.0, 0.0]
        assert math.isnan(ranked.candidates[0].log_prob)
        assert ranked.best == 1
        with pytest.raises(LexergyError, match="cannot score given text"):
            joint.rerank("ab", ["cg", "cd"], weigh_by="joint")


def test_what_needs_weights_is_refused(remote):
    with pytest.raises(LexergyError, match="whole distribution"):
        remote.next_log_prob(PREFIX)
    with pytest.raises(LexergyError, match="states, which this energy reads"):
        remote.state_features(PREFIX, prefix_length=1, features=None)
    with pytest.raises(LexergyError, match="more than the 16"):
        remote.sample(PREFIX, num_samples=1, max_new_tokens=16)


def test_it_is_noted_and_opened_again(remote, tmp_path):
    remote.save_pretrained(tmp_path)
    again = open_lm(tmp_path)
    assert isinstance(again, RemoteLM)
    assert (again.source, again.server.model, again.vocab_size) == (remote.source, remote.server.model, 7)
    assert again.fingerprint() == remote.fingerprint()
    forbidding = RemoteLM.from_pretrained(tmp_path)
    forbidding.forbidden_tokens = (3,)
    assert forbidding.fingerprint() != remote.fingerprint()


def test_one_word_names_all_of_it(url, local, tmp_path):
    local.tokenizer.save_pretrained(tmp_path)
    lm = open_lm(f"openai:{url}/v1#tokenizer={tmp_path}&model=tiny-lm")
    assert lm.server.model == "tiny-lm"
    for wrong in ("", "#model=x", "#tokenizer=x&temperature=2"):
        with pytest.raises(LexergyError, match=r"expected the address, the tokenizer of its model"):
            open_lm(f"openai:{url}{wrong}")


def test_a_text_is_scored_as_here(url, local, tmp_path):
    local.tokenizer.save_pretrained(tmp_path)
    far = load_scorer(f"openai:{url}#tokenizer={tmp_path}").score(["abc", "gfedc"])
    near = causal_scorer(local).score(["abc", "gfedc"])
    for ours, theirs in zip(near, far, strict=True):
        assert ours.log_scores == pytest.approx(theirs.log_scores, abs=1e-4)


class TestEnds:
    """An LM with an end token, whose other control tokens are forbidden or not."""

    @pytest.fixture(scope="class")
    def ending(self, byte_lm) -> CausalLM:
        return byte_lm

    @pytest.fixture(scope="class")
    def far(self, ending):
        with served_lm(ending) as address:
            yield RemoteLM(address, tokenizer=ending.tokenizer)

    def test_texts_end_where_they_do_here(self, far, ending):
        prefix = ending.encode("it was")[None]
        samples = far.ending().sample(prefix, num_samples=40, max_new_tokens=20, seed=1)
        rows = torch.cat([prefix.expand(40, -1), samples.tokens[0]], 1)
        here = ending.ending().log_prob(rows, prefix_length=prefix.shape[1])
        assert torch.allclose(here, samples.log_prob[0], atol=1e-4)
        assert torch.allclose(far.ending().log_prob(rows, prefix_length=prefix.shape[1]), here, atol=1e-4)
        assert torch.equal(samples.lengths, far.ending().lengths(samples.tokens))

    def test_texts_never_end_where_end_of_text_is_forbidden(self, far, ending):
        prefix = ending.encode("it was")[None]
        samples = far.endless().sample(prefix, num_samples=8, max_new_tokens=12, seed=1)
        rows = torch.cat([prefix.expand(8, -1), samples.tokens[0]], 1)
        here = ending.endless().log_prob(rows, prefix_length=prefix.shape[1])
        assert torch.allclose(here, samples.log_prob[0], atol=1e-4)
        assert torch.allclose(far.endless().log_prob(rows, prefix_length=prefix.shape[1]), here, atol=1e-4)

    def test_going_on_after_an_end_is_refused(self, far, ending):
        with pytest.raises(LexergyError, match="stops at end-of-text, and this LM goes on after it"):
            far.sample(ending.encode("it was")[None], num_samples=1, max_new_tokens=4)

    def test_texts_stop_at_strings(self, far, ending):
        prefix = ending.encode("it was")[None]
        samples = far.endless().sample(prefix, num_samples=6, max_new_tokens=16, seed=2, stop=["a", "e", "t"])
        for row, length in zip(samples.tokens[0], samples.lengths[0].tolist(), strict=True):
            text = ending.decode(row[:length])[0]
            assert length == 16 or any(string in text for string in "aet")
            assert not any(string in ending.decode(row[: length - 1])[0] for string in "aet")

    def test_tokens_that_the_server_may_write_cannot_be_forbidden_here(self, far):
        far = far.endless()
        far.forbidden_tokens = (5, *far.forbidden_tokens)
        with pytest.raises(LexergyError, match="may write 1 tokens that are forbidden here, first 5"):
            far.sample(torch.tensor([[7, 8]]), num_samples=1, max_new_tokens=2)
