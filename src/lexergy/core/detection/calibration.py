"""Probabilities that mean what they say, whatever the length of the text: energies as log-odds."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lexergy.errors import LexergyError

EVEN = 0.5  # the share of machine text that is expected where nobody says otherwise
FLATTEST = 1e-3  # limit of the slope: more energy never means less of a machine
HALF_TOKENS = tuple(2.0**exponent for exponent in range(2, 13))
POWERS = (1, 2)
_SHIFT_PENALTY = 0.1  # another kind of text may shift the log-odds by three
_NEWTON_STEPS = 100
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Calibration:
    """The log-odds that a machine wrote n tokens of mean energy E, where a share pi of all texts is a machine's:

        log P(machine) / P(people) = log pi / (1 - pi) + s (slope (E - first / n) + offset),
        s = 1 / (1 + (half_tokens / n)^power)

    The first tokens of a text, which have no context, add `first` to the sum of its energies, whoever wrote it. What is
    left strays from the mean of its class by a variance tau^2 that is the text's own and sigma^2 / n^power that comes
    of its length; the log-ratio of two normal densities is (mu_1 - mu_0) (E - centre) / (tau^2 + sigma^2 / n^power), s
    times its value for a text without end. Independent tokens have power 1; where the first tokens stray most it is 2.
    No tokens say nothing: the prior is left.
    """

    slope: float = 1.0
    offset: float = 0.0
    first: float = 0.0
    half_tokens: float = 0.0  # a text of so many says half of what a very long one would; 0: length does not matter
    power: int = 1

    def share(self, tokens: Tensor) -> Tensor:  # (N,) -> (N,)
        """s, of the evidence of a text without end."""
        return 1 / (1 + (self.half_tokens / tokens.double()) ** self.power)

    def log_odds(self, energies: Tensor, tokens: Tensor, prior: float = EVEN) -> Tensor:  # (N,), (N,) -> (N,)
        centred = energies.double() - self.first / tokens
        evidence = self.share(tokens) * (self.slope * centred + self.offset)
        return evidence + torch.logit(torch.tensor(prior, dtype=torch.double))

    def probability(self, energy: float, tokens: int, prior: float = EVEN) -> float:
        """P(machine) of one text."""
        return float(self.log_odds(torch.tensor(energy), torch.tensor(tokens), prior).sigmoid())


def fit_calibration(
    energies: Tensor,  # (N,), of pieces of texts that were not trained on
    tokens: Tensor,  # (N,), of each piece
    is_machine: Tensor,  # (N,) bool
    texts: Sequence[Hashable],  # N, which text a piece was cut from
) -> Calibration:
    """The calibration under which the writers of pieces of many lengths are likeliest.

    Each text weighs the same, however many pieces it was cut to, and so does each class: the prior is 1/2. Targets
    are (n + 1) / (n + 2) and 1 / (n + 2) for n texts of the class, not 1 and 0 (Platt 1999), and the offset has a
    standard normal prior, in log-odds of the longest piece at the mean energy: a few texts do not make it certain of
    everything. The slope is positive: of two texts of one length the one of higher energy is more a machine's.
    """
    energies, tokens = energies.detach().double().cpu(), tokens.double().cpu()
    is_machine = is_machine.bool().cpu()
    targets, weights = _targets_and_weights(is_machine, texts, energies)
    first = _first(energies, tokens, weights)
    shapes = [Calibration(first=first)]
    shapes += [Calibration(first=first, half_tokens=half, power=power) for power in POWERS for half in HALF_TOKENS]
    fits = [_fit(energies, tokens, targets, weights, shape) for shape in shapes]
    return min(fits, key=lambda fit: fit[0])[1]


def fit_offset(
    calibration: Calibration,
    energies: Tensor,  # (N,), of pieces of texts of another kind
    tokens: Tensor,  # (N,)
    is_machine: Tensor,  # (N,) bool
    texts: Sequence[Hashable],  # N
) -> Calibration:
    """The calibration with the offset of another kind of text, all else as it is.

    On another corpus the energies of both classes are shifted alike before anything else goes wrong, and a few texts
    suffice for one number. Weights and targets are those of `fit_calibration`; the change of the log-odds of the
    longest piece has a normal prior of variance 10.
    """
    energies, tokens, is_machine = energies.detach().double().cpu(), tokens.double().cpu(), is_machine.bool().cpu()
    targets, weights = _targets_and_weights(is_machine, texts, energies)
    share = calibration.share(tokens)
    penalty = torch.tensor([_SHIFT_PENALTY], dtype=torch.double)
    columns, given = (share / share.max()).unsqueeze(1), calibration.log_odds(energies, tokens)
    _, shift = _logistic(columns, targets, weights, penalty, given)
    return replace(calibration, offset=calibration.offset + float(shift / share.max()))


def _targets_and_weights(is_machine: Tensor, texts: Sequence[Hashable], energies: Tensor) -> tuple[Tensor, Tensor]:
    machines, people = (
        len({text for text, machine in zip(texts, is_machine.tolist(), strict=True) if machine == wanted})
        for wanted in (True, False)
    )
    if not machines or not people or not energies.isfinite().all():
        raise LexergyError(
            f"{people} texts of people and {machines} of machines to calibrate on; expected some of each, with finite "
            "energies."
        )
    size = torch.where(is_machine, machines, people).double()  # (N,), of a piece's own class
    pieces = Counter(texts)
    weights = (machines + people) / (2 * size * torch.tensor([pieces[text] for text in texts]))
    return torch.where(is_machine, (size + 1) / (size + 2), 1 / (size + 2)), weights


def _first(energies: Tensor, tokens: Tensor, weights: Tensor) -> float:
    """What first tokens add: n E = first + n centre by least squares, of a variance that grows with n."""
    if tokens.min() == tokens.max():
        return 0.0
    columns = torch.stack((torch.ones_like(tokens), tokens), 1)  # (N, 2)
    return float(torch.linalg.solve(_gram(columns, weights / tokens), (weights * energies * columns.T).sum(1))[0])


def _fit(
    energies: Tensor, tokens: Tensor, targets: Tensor, weights: Tensor, shape: Calibration
) -> tuple[float, Calibration]:
    """The loss and the calibration of one shape over lengths, which leaves a logistic regression."""
    share = shape.share(tokens)
    longest = float(share.max())
    relative = share / longest  # 1 for the longest piece, so that the offset is in log-odds of it
    centred = energies - shape.first / tokens
    centre = float((weights * relative * centred).sum() / (weights * relative).sum())
    spread = max(float(((weights * (relative * (centred - centre)).square()).sum() / weights.sum()).sqrt()), 1e-12)
    columns = torch.stack((relative * (centred - centre) / spread, relative), 1)  # (N, 2)
    penalty = torch.tensor([1e-6, 1.0], dtype=torch.double)
    loss, fitted = _logistic(columns, targets, weights, penalty, torch.zeros_like(targets))
    flattest = FLATTEST * spread * longest
    if fitted[0] < flattest:
        loss, rest = _logistic(columns[:, 1:], targets, weights, penalty[1:], flattest * columns[:, 0])
        fitted = torch.cat((torch.full_like(rest[:1], flattest), rest))
    slope = float(fitted[0]) / spread
    offset = float(fitted[1]) - slope * centre
    return loss, replace(shape, slope=slope / longest, offset=offset / longest)


def _logistic(
    columns: Tensor, targets: Tensor, weights: Tensor, penalty: Tensor, given: Tensor
) -> tuple[float, Tensor]:  # (N, k), (N,), (N,), (k,), (N,) -> (k,)
    """argmin over c of sum_i w_i CE(t_i, sigmoid(given_i + columns_i . c)) + c . diag(penalty) c / 2, by Newton."""

    def loss(coefficients: Tensor) -> Tensor:
        logits = given + (columns * coefficients).sum(1)
        cross_entropy = torch.nn.functional.softplus(logits) - targets * logits
        return (weights * cross_entropy).sum() + (penalty * coefficients.square()).sum() / 2

    coefficients = columns.new_zeros(columns.shape[1])
    value = loss(coefficients)
    for _ in range(_NEWTON_STEPS):
        probs = torch.sigmoid(given + (columns * coefficients).sum(1))
        gradient = (weights * (probs - targets) * columns.T).sum(1) + penalty * coefficients
        hessian = _gram(columns, weights * probs * (1 - probs)) + penalty.diag()
        step = torch.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _TOLERANCE and loss(coefficients - size * step) > value:
            size /= 2
        coefficients = coefficients - size * step
        before, value = value, loss(coefficients)
        if before - value < _TOLERANCE:
            break
    return float(value), coefficients


def _gram(columns: Tensor, weights: Tensor) -> Tensor:  # (N, k), (N,) -> (k, k)
    """sum_i w_i x_i x_i^T, by plain sums: those of a matrix product depend on where the numbers lie in memory."""
    rows = columns.T
    return (weights * rows[:, None] * rows[None]).sum(-1)
