"""Joint models whose energies read the LM's states."""

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import EnumerableLM
from toys.joint import PREFIXES, WINDOWS


class StatesReader:
    """Reads the handed-on states; `as_function` computes the same from tokens, split after the second."""

    features = StateFeatures((1, 2))

    def __init__(self, lm: EnumerableLM) -> None:
        self.lm = lm
        size = self.features.size(lm.hidden_size)
        self.head = torch.randn(size, generator=torch.Generator().manual_seed(0)) / 8

    def score(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        assert features is not None
        assert features.shape[:2] == continuations.shape[:2]
        return features @ self.head

    def as_function(self, tokens: Tensor) -> Tensor:
        return self.lm.state_features(tokens, prefix_length=2, features=self.features) @ self.head


def test_states_are_those_of_the_whole_continuation():
    lm = EnumerableLM()
    reader = StatesReader(lm)
    by_states, by_tokens = ResidualEBM(lm, reader), ResidualEBM(lm, reader.as_function)
    windows = torch.cat([torch.tensor([[2], [4], [6]]), WINDOWS], dim=1)  # prefix 2, continuation 3
    options = {"num_samples": 40, "seed": 2}
    close = {"atol": 1e-4, "rtol": 1e-4}
    steps, reference = (joint.step_probabilities(windows, 2, **options) for joint in (by_states, by_tokens))
    torch.testing.assert_close(steps.lower, reference.lower, **close)
    torch.testing.assert_close(steps.last_exact, reference.last_exact, **close)
    estimate, other = (joint.perplexity(windows, 2, **options) for joint in (by_states, by_tokens))
    assert estimate.upper == pytest.approx(other.upper, rel=1e-4)
    assert estimate.upper != pytest.approx(estimate.base, rel=1e-2)
    out, expected = (joint.generate([2, 1], 20, 3) for joint in (by_states, by_tokens))
    torch.testing.assert_close(out.log_weights, expected.log_weights, **close)
    table, other_table = (joint.next_token([2, 1], num_samples=20, horizon=3) for joint in (by_states, by_tokens))
    assert [e.joint for e in table.entries] == pytest.approx([e.joint for e in other_table.entries], rel=1e-3)


def test_dropout_is_off():
    energy = torch.nn.Sequential(
        torch.nn.Embedding(7, 4), torch.nn.Dropout(0.5), torch.nn.Flatten(), torch.nn.Linear(12, 1)
    )

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = energy

        def forward(self, tokens):
            return self.layers(tokens).squeeze(-1)

    joint = ResidualEBM(EnumerableLM(), Module().train())
    continuations = all_sequences(7, 2)[None]
    assert torch.equal(joint.score(PREFIXES[:1], continuations), joint.score(PREFIXES[:1], continuations))


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
@pytest.mark.parametrize("layers", [(1, 2), ()])  # hidden states and statistics; statistics alone
def test_given_tokens_are_pooled_with_what_is_drawn(architecture, layers):
    """Every feature, the lowest log-probability and deviations too, is that of the whole continuation."""
    lm, features = EnumerableLM(architecture=architecture, forbidden_tokens=(4,)), StateFeatures(layers)
    prefix = torch.tensor([[1, 3, 2, 5, 0], [6, 0, 0, 1, 3]])
    close = {"atol": 1e-4, "rtol": 1e-4}
    for given in (0, 1, 3):
        options = {"num_samples": 6, "max_new_tokens": 3, "seed": 1, "features": features, "given_length": given}
        samples = lm.sample(prefix, **options)
        rows = torch.cat([prefix[:, None].expand(-1, 6, -1), samples.tokens], -1).flatten(0, 1)
        expected = lm.state_features(rows, prefix_length=5 - given, features=features)
        torch.testing.assert_close(samples.features.flatten(0, 1), expected, **close)
        parts = lm.sample_chunks(prefix, **options, chunk_size=4, rows_per_batch=3)
        torch.testing.assert_close(torch.cat([part.features for part in parts], 1), samples.features, **close)
        tokens = torch.tensor([0, 6, 2])
        rows = torch.cat([prefix[:, None].expand(-1, 3, -1), tokens[None, :, None].expand(2, -1, -1)], -1)
        expected = lm.state_features(rows.flatten(0, 1), prefix_length=5 - given, features=features)
        found = lm.next_token_features(prefix, tokens, given_length=given, features=features)
        torch.testing.assert_close(found.flatten(0, 1), expected, **close)


def test_given_tokens_of_samples_that_end():
    lm, features = EnumerableLM().ending(1), StateFeatures((2,))
    prefix = torch.tensor([[2, 3, 2]])
    samples = lm.sample(prefix, num_samples=40, max_new_tokens=4, features=features, given_length=2)
    assert samples.lengths.min() < samples.lengths.max()
    for tokens, length, found in zip(samples.tokens[0], samples.lengths[0], samples.features[0], strict=True):
        for last in (length, 4):
            row = torch.cat([prefix[0], tokens[:last]])[None]
            expected = lm.state_features(row, prefix_length=1, features=features)[0]
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_what_is_remembered_of_given_tokens_is_forgotten_with_the_weights():
    lm, features = EnumerableLM(), StateFeatures((1,))
    prefix, tokens = torch.tensor([[1, 3, 2]]), torch.tensor([5])
    first = lm.next_token_features(prefix, tokens, given_length=2, features=features)
    with torch.no_grad():
        for weight in lm.model.parameters():
            weight.mul_(1.1)
    second = lm.next_token_features(prefix, tokens, given_length=2, features=features)
    expected = lm.state_features(torch.tensor([[1, 3, 2, 5]]), prefix_length=1, features=features)
    torch.testing.assert_close(second[0], expected, atol=1e-4, rtol=1e-4)
    assert (first - second).abs().max() > 1e-2
    with pytest.raises(LexergyError, match="`prefix_length` is 0"):
        lm.next_token_features(prefix, tokens, given_length=3, features=features)


def test_given_tokens_are_run_once_for_all_samples():
    lm = EnumerableLM()
    joint = ResidualEBM(lm, StatesReader(lm))
    prefix, given = torch.tensor([[2, 1]]), torch.tensor([[3, 0, 6, 1, 5, 2, 4, 4]])
    lm.log_prob(WINDOWS, prefix_length=1)  # whether the model can share prefixes is tried once
    fed: list[int] = []
    embeddings = lm.model.get_input_embeddings()
    embeddings.register_forward_hook(lambda module, inputs, output: fed.append(inputs[0].numel()))
    joint.log_weights(prefix, length=10, num_samples=60, given=given, rows_per_batch=20)
    assert sum(fed[:3]) == 2 + 8 + 10  # the prefix, the given after it, both to be continued
    assert sum(fed[3:]) <= 60 * 2  # what is drawn
    fed.clear()
    joint.score_next(prefix, given, torch.arange(7))
    assert sum(fed) == 7  # one step of each candidate; the rest is remembered
