"""Who wrote which sentence: a chain of two writers, each sentence with evidence of its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lexergy.core.detection.calibration import EVEN
from lexergy.errors import LexergyError

_STEPS = 200
_PENALTY = 0.1  # of parameters that stray from their starts, in units of one sentence
_SLOWEST = 1e-4  # change of writer: nobody can tell a rarer one from none


@dataclass(frozen=True)
class TwoWriters:
    """A Markov chain over sentences, y_t = 1 where a machine wrote sentence t:

        P(y | l) ∝ p(y_1) prod_t p(y_t | y_t-1) prod_t exp(y_t (scale l_t + offset))

    with the stationary distribution (1 - pi, pi) and changes p(1 | 0) = 2 rate pi, p(0 | 1) = 2 rate (1 - pi). l_t is
    the log-odds of the sentence judged alone at even odds. `rate` is how often the writer changes from one sentence to
    the next at even odds: 1/2 leaves each sentence to itself, 0 makes all one writer's. Neighbouring sentences say in
    part the same, so that their evidence counts `scale` times.
    """

    rate: float
    scale: float = 1.0
    offset: float = 0.0

    def probabilities(self, log_odds: Tensor, prior: float = EVEN) -> Tensor:  # (S,) -> (S,)
        """P(y_t = 1 | l_1 .. l_S) of each sentence, by the forward and backward recursions (Rabiner 1989, Eq. 27)."""
        if log_odds.ndim != 1 or not log_odds.isfinite().all():
            raise LexergyError(
                f"log-odds of shape {tuple(log_odds.shape)}; expected one finite number for each sentence, (S,)."
            )
        parameters = torch.tensor([self.rate, self.scale, self.offset], dtype=torch.double)
        log_scores = _log_scores(log_odds.double(), parameters)  # (S, 2)
        first, step = _log_chain(parameters[0], prior)
        backward = [torch.zeros(2, dtype=torch.double)]
        for scores in log_scores[1:].flip(0):
            backward.append((step + scores + backward[-1]).logsumexp(1))
        both = _forward(log_scores, first, step) + torch.stack(backward[::-1])  # (S, 2)
        return both.softmax(1)[:, 1]


def fit_two_writers(
    log_odds: Sequence[Tensor],  # N texts, (S_n,) each
    is_machine: Sequence[Tensor],  # N texts, (S_n,) bool each
) -> TwoWriters:
    """The chain under which the writers of the sentences of N texts are likeliest, given their evidence.

    argmax of mean_n log P(y_n | l_n), the conditional likelihood (of a linear-chain conditional random field,
    Lafferty et al. 2001), with a weak normal prior on log scale and offset.
    """
    if not log_odds or any(own.shape != labels.shape for own, labels in zip(log_odds, is_machine, strict=True)):
        raise LexergyError(
            f"{len(log_odds)} texts of sentences; expected at least one, and a writer for each sentence."
        )
    evidence = pad_sequence([own.detach().double().cpu() for own in log_odds])  # (S, N)
    labels = pad_sequence([own.long().cpu() for own in is_machine])  # (S, N)
    lengths = torch.tensor([len(own) for own in log_odds])
    free = torch.tensor([math.log(0.2 / 0.3), 0.0, 0.0], dtype=torch.double, requires_grad=True)
    optimiser = torch.optim.LBFGS([free], max_iter=_STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def loss() -> Tensor:
        optimiser.zero_grad()
        likelihood = log_probability(evidence, labels, lengths, _parameters(free)).sum()
        value = _PENALTY * free[1:].square().sum() / 2 - likelihood
        value.backward()
        return value

    optimiser.step(loss)
    return TwoWriters(*_parameters(free.detach()).tolist())


def log_probability(log_odds: Tensor, labels: Tensor, lengths: Tensor, parameters: Tensor) -> Tensor:
    """log P(y | l) at even odds of texts of some lengths, padded: (S, N), (S, N), (N,), (3,) -> (N,).

    The parameters are rate, scale and offset.
    """
    inside = torch.arange(len(log_odds))[:, None] < lengths  # (S, N)
    log_scores = _log_scores(log_odds, parameters)  # (S, N, 2)
    first, step = _log_chain(parameters[0], EVEN)
    path = torch.where(inside, log_scores.gather(2, labels[..., None]).squeeze(2), 0).sum(0)
    path = path + first[labels[0]] + torch.where(inside[1:], step[labels[:-1], labels[1:]], 0).sum(0)
    texts = torch.arange(len(lengths))
    return path - _forward(log_scores, first, step)[lengths - 1, texts].logsumexp(1)


def _parameters(free: Tensor) -> Tensor:  # (3,) -> (3,)
    """Any three numbers as a rate below 1/2, a positive scale and an offset."""
    rate = _SLOWEST + (0.5 - _SLOWEST) * torch.sigmoid(free[0])
    return torch.stack((rate, free[1].exp(), free[2]))


def _log_scores(log_odds: Tensor, parameters: Tensor) -> Tensor:  # (S, ...), (3,) -> (S, ..., 2)
    evidence = parameters[1] * log_odds + parameters[2]
    return torch.stack((torch.zeros_like(evidence), evidence), -1)


def _log_chain(rate: Tensor, prior: float) -> tuple[Tensor, Tensor]:  # () -> (2,), (2, 2)
    """log p(y_1), and log p(y_t | y_t-1) with the earlier writer in the rows."""
    stationary = torch.tensor([1 - prior, prior], dtype=torch.double)
    change = 2 * rate * stationary.flip(0)  # (2,), away from each
    step = torch.diag(1 - change) + torch.diag(change).flip(1)
    return stationary.log(), step.log()


def _forward(log_scores: Tensor, first: Tensor, step: Tensor) -> Tensor:  # (S, ..., 2), (2,), (2, 2) -> (S, ..., 2)
    """log of the sum over all writers before, of each sentence's writer."""
    rows = [first + log_scores[0]]
    for scores in log_scores[1:]:
        rows.append((rows[-1][..., None] + step).logsumexp(-2) + scores)
    return torch.stack(rows)
