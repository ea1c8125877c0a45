"""Token by token from the joint model, against exact enumeration."""

import pytest
import torch

from lexergy.core.enumeration import all_sequences, sequence_numbers
from lexergy.core.estimation import partition
from lexergy.errors import LexergyError
from lexergy.models.joint import weights
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.token_by_token import write_tokens
from lexergy.testing import EnumerableLM, TableEnergy, chi_square_p_value, exact_log_prob
from toys.joint import MANY_ROWS

V, C = 7, 3
PREFIX = torch.tensor([3])
TEXTS = all_sequences(V, C)


def exact_scores(joint):  # -> (V ** C,)
    """log P_LM(x) - E(x) of all texts."""
    return exact_log_prob(joint.lm, PREFIX, C) - joint.score(PREFIX[None], TEXTS[None])[0].double()


class ExactRest(ResidualEBM):
    """Knows log E[exp(-E)] over all that could follow."""

    def log_weights_after(self, prefix, given, tokens, *, num_samples, **settings):
        base, score = exact_log_prob(self.lm, PREFIX, C), exact_scores(self)
        texts = torch.cat((given.unsqueeze(1).expand(-1, tokens.shape[1], -1), tokens.unsqueeze(-1)), -1)
        different, places = texts.flatten(0, 1).unique(dim=0, return_inverse=True)
        values = []
        for begun in different:
            agrees = (TEXTS[:, : len(begun)] == begun).all(1)
            values.append(score[agrees].logsumexp(0) - base[agrees].logsumexp(0))
        return torch.stack(values)[places].view(*tokens.shape, 1).expand(-1, -1, num_samples)


def exact_law(joint, top_k):  # -> (V ** C,)
    """The product of P(x_t | x_<t) of the joint model, each restricted to the LM's likeliest tokens."""
    base = exact_log_prob(joint.lm, PREFIX, C).exp().view(V, V, V)
    weight = exact_scores(joint).exp().view(V, V, V)
    law = torch.zeros(V, V, V, dtype=torch.double)

    def descend(place, chance):
        if len(place) == C:
            law[place] = chance
            return
        likely = base[place].reshape(V, -1).sum(1).topk(top_k).indices.tolist()
        masses = weight[place].reshape(V, -1).sum(1)
        for token in (token for token in likely if masses[token] > 0):  # after an end nothing else follows
            descend((*place, token), chance * masses[token] / masses[likely].sum())

    descend((), 1.0)
    return law.flatten()


def p_value(joint, law, count, **settings):
    written = write_tokens(joint, PREFIX.expand(count, 1), length=C, rows_per_batch=MANY_ROWS, **settings)
    return chi_square_p_value(sequence_numbers(written.tokens, V).bincount(minlength=V**C), law)


def joint_of(kind=ResidualEBM, end_token=None, scale=1.5):
    lm = EnumerableLM()
    if end_token is None:
        return kind(lm, TableEnergy(scale=scale))
    return kind(lm.ending(end_token), lambda tokens: scale * (tokens == 2).sum(1) - 0.5 * scale * tokens.shape[1])


@pytest.mark.parametrize("end_token", [None, 1])
def test_with_the_rest_known_and_all_tokens_it_is_the_joint_model(end_token):
    joint = joint_of(ExactRest, end_token)
    law = exact_scores(joint).softmax(0)
    torch.testing.assert_close(exact_law(joint, V), law)
    assert p_value(joint, law, 2000, top_k=V, num_samples=1) > 1e-4
    # Without the energy the test would fail.
    assert p_value(joint, exact_log_prob(joint.lm, PREFIX, C).exp(), 2000, top_k=V, num_samples=1) < 1e-6


def test_only_the_likeliest_tokens_are_written():
    joint = joint_of(ExactRest)
    law = exact_law(joint, 3)
    assert int((law > 0).sum()) == 27
    assert p_value(joint, law, 2000, top_k=3, num_samples=1) > 1e-4


def test_it_comes_nearer_as_more_of_the_rest_is_drawn():
    joint = joint_of()
    law = exact_law(joint, 3)
    assert p_value(joint, law, 600, top_k=3, num_samples=1) < 1e-4
    assert p_value(joint, law, 600, top_k=3, num_samples=32) > 1e-2


@pytest.mark.parametrize("at_hand", [True, False])
def test_what_the_rest_is_worth_after_each_token(at_hand, monkeypatch):
    """Whether the LM's weights are at hand, so that what stands before is read once, or it lives elsewhere."""
    if not at_hand:
        monkeypatch.setattr(weights, "CausalLM", type(None))
    given, tokens = torch.tensor([[2], [6]]), torch.tensor([[0, 4, 5], [6, 1, 3]])
    prefix, settings = PREFIX.expand(2, 1), {"length": C, "num_samples": 3000, "prefix_ids": [7, 3]}
    expected = joint_of(ExactRest).log_weights_after(prefix, given, tokens, num_samples=1)[..., 0]
    found = joint_of().log_weights_after(prefix, given, tokens, rows_per_batch=MANY_ROWS, **settings)
    torch.testing.assert_close(partition.lower_bound(found), expected, atol=0.08, rtol=0)
    few = joint_of().log_weights_after(prefix, given, tokens, rows_per_batch=700, **settings)
    torch.testing.assert_close(few, found)


def test_a_text_depends_on_its_own_prefix_and_number_alone():
    joint, prefixes = joint_of(), torch.tensor([[1], [3], [5], [3]])
    settings = {"length": C, "top_k": 4, "num_samples": 5, "seed": 2}
    together = write_tokens(joint, prefixes, prefix_ids=[9, 4, 7, 8], **settings)
    alone = write_tokens(joint, prefixes[2:3], prefix_ids=[7], rows_per_batch=3, **settings)
    assert torch.equal(together.tokens[2:3], alone.tokens)
    many = write_tokens(joint, PREFIX.expand(30, 1), **settings)
    assert len(many.tokens.unique(dim=0)) > 3


def test_what_it_costs():
    joint = joint_of(end_token=1)
    written = write_tokens(joint, PREFIX.expand(40, 1), length=C, top_k=4, num_samples=5)
    assert set(written.lengths.tolist()) == {1, 2, 3}
    spent = {1: 1 + 4 * 5 * 2, 2: 2 + 4 * 5 * 3, 3: 3 + 4 * 5 * 3}
    assert written.drawn.tolist() == [spent[length] for length in written.lengths.tolist()]
    assert (written.tokens[written.lengths == 1][:, 1:] == 1).all()
    with pytest.raises(LexergyError, match="`num_samples` is 0"):
        write_tokens(joint, PREFIX[None], length=C, top_k=4, num_samples=0)


def test_one_prompt_is_written_as_many_are():
    joint = joint_of(end_token=1)
    for seed in range(4):
        generation = joint.generate_tokens(PREFIX, max_new_tokens=C, top_k=4, num_samples=5, seed=seed)
        written = write_tokens(joint, PREFIX[None], length=C, top_k=4, num_samples=5, seed=seed)
        length = int(written.lengths)
        assert generation.tokens.tolist() == written.tokens[0, :length].tolist()
        assert generation.num_drawn == int(written.drawn)
        whole = torch.cat((PREFIX, generation.tokens))[None]
        assert generation.energy == pytest.approx(float(joint.energy.function(whole)))
