"""An enumerable world for kernels: random masked conditionals that fit no joint distribution, and exact transitions."""

import torch

from lexergy.core.decoding import Decoding
from lexergy.core.enumeration import all_sequences
from lexergy.core.mcmc.metropolis import ChainState

VOCAB_SIZE, LENGTH = 3, 3
STATES = all_sequences(VOCAB_SIZE, LENGTH)  # (27, 3)


class TableConditionals:
    """Random logits for each position in each masked context: a masked LM with no structure at all."""

    def __init__(self, vocab_size=VOCAB_SIZE, length=LENGTH, seed=1, scale=1.5):
        generator = torch.Generator().manual_seed(seed)
        self.mask = vocab_size
        self.place = (vocab_size + 1) ** torch.arange(length)
        shape = ((vocab_size + 1) ** length, length, vocab_size)
        self.table = scale * torch.randn(shape, generator=generator, dtype=torch.double)

    def __call__(self, tokens, block):  # (N, L), (N, L) -> (M, V)
        context = (tokens.masked_fill(block, self.mask) * self.place).sum(dim=1)
        return self.table[context][block]


def law_by_hand(logits, decoding):  # (M, V) -> (M, V)
    """Temperature, then the smallest set of likeliest tokens whose mass reaches top_p, token by token."""
    probs = (logits / decoding.temperature).softmax(-1)
    if decoding.top_p is None:
        return probs
    distribution = torch.zeros_like(probs)
    for row, kept in zip(probs, distribution, strict=True):
        mass = 0.0
        for token in row.argsort(descending=True).tolist():
            if mass < decoding.top_p:
                kept[token] = row[token]
            mass += float(row[token])
    return distribution / distribution.sum(-1, keepdim=True)


def transition_matrix(step, conditionals, target_energy, blocks, decoding=None, states=STATES):
    """P(x, y) of one step from every state x with the block blocks[x], over all random paths.

    For each way of filling the block the numbers are put in the middle of those tokens' cells, so the kernel must
    propose just this; the probability of the path is the distribution's own, times that of the acceptance, which is
    found from the kernel's ratio and held against what the kernel decides just below and just above it.
    """
    decoding = decoding or Decoding()
    num_states, length = states.shape
    vocab_size = int(states.max()) + 1
    place = vocab_size ** torch.arange(length - 1, -1, -1)
    start = ChainState(states, target_energy(states).double())
    size = int(blocks.sum(dim=1).max())
    distribution = law_by_hand(conditionals(states, blocks), decoding).view(num_states, size, vocab_size)
    ends = distribution.cumsum(-1)
    matrix = torch.zeros(num_states, num_states, dtype=torch.double)
    for filling in all_sequences(vocab_size, size):  # (b,)
        index = filling.expand(num_states, -1)[..., None]
        share = distribution.gather(2, index).squeeze(2)  # (S, b)
        middles = (ends - distribution / 2).gather(2, index).squeeze(2)
        probability = share.prod(dim=1)
        numbers = torch.zeros(num_states, 1 + length, dtype=torch.double)
        numbers[:, 1:][blocks] = middles.flatten()
        _, info = step(start, blocks, numbers)
        accept = info.log_ratio.exp().clamp_max(1.0)
        arrived = _check_acceptance(step, start, blocks, numbers, accept)
        possible = probability > 0
        expected = states.masked_scatter(blocks, filling.expand(num_states, -1))
        moved = possible & (accept > 0)
        assert torch.equal(arrived[moved], expected[moved])
        here = torch.arange(num_states)
        matrix.index_put_((here, (expected * place).sum(1)), probability * accept, accumulate=True)
        matrix.index_put_((here, here), probability * (1 - accept), accumulate=True)
    return matrix


def _check_acceptance(step, start, blocks, numbers, accept):
    """The kernel accepts a number just below the probability and refuses one just above; where it arrives."""
    below, above = numbers.clone(), numbers.clone()
    below[:, 0], above[:, 0] = accept * (1 - 1e-9), accept * (1 + 1e-9)
    arrived, info = step(start, blocks, below)
    assert bool((info.accepted == (accept > 0)).all())
    stayed, info = step(start, blocks, above)
    certain = accept >= 1
    assert not bool(info.accepted[~certain].any())
    assert torch.equal(stayed.tokens[~certain], start.tokens[~certain])
    return arrived.tokens


def stationarity_gap(matrix, target):  # (S, S), (S,)
    return float((target @ matrix - target).abs().max())


def stationary_law(matrix):  # (S, S) -> (S,)
    """The left eigenvector of eigenvalue 1."""
    size = len(matrix)
    system = torch.cat([matrix.T - torch.eye(size, dtype=torch.double), torch.ones(1, size, dtype=torch.double)])
    right = torch.zeros(size + 1, dtype=torch.double)
    right[-1] = 1
    return torch.linalg.lstsq(system, right[:, None], driver="gelsd").solution.squeeze(1)


def same_block(positions, num_states=VOCAB_SIZE**LENGTH, length=LENGTH):
    block = torch.zeros(num_states, length, dtype=torch.bool)
    block[:, positions] = True
    return block
