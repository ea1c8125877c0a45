"""Scheduled sampling's objective along a line in weight space: it jumps where a greedy decision changes (3.3.1)."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from lexergy.core.search_aware.beam_search import beam_search
from lexergy.core.search_aware.scheduled_sampling import scheduled_log_scores
from lexergy.files import atomic_write_json, read_json, reading
from lexergy.models.seq2seq import Seq2Seq, SequencePairs
from lexergy.tasks.search_aware.examples import Example, words_and_outputs

HALVINGS = 30  # of the piece of the line in which a decision changes
FILE = "landscape.json"


@dataclass(frozen=True)
class Line:
    """`points` on the line theta + x d, |x| <= radius, d random with the norm of each weight; sentences have
    `shortest` words at least."""

    sentences: int
    points: int
    radius: float
    alphas: tuple[float, ...]
    shortest: int


@dataclass(frozen=True)
class Landscape:
    """Losses of S sentences per word, when no gold is read, by name of the objective; and their jumps.

    A jump is the difference of a loss on both sides of a change of the greedy decisions, closer than can be seen:
    one number for each change on the line, of each objective.
    """

    places: list[float]  # x
    losses: dict[str, list[list[float]]]  # S lists of points
    jumps: dict[str, list[float]]
    sentences: list[list[str]]

    def save(self, folder: Path) -> None:
        atomic_write_json(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> "Landscape":
        with reading(folder / FILE):
            return cls(**read_json(folder / FILE, dict))


def objective_names(line: Line) -> dict[str, float]:
    """Names of the objectives and their alpha."""
    return {"hard": math.inf, **{f"alpha {alpha:g}": alpha for alpha in line.alphas}}


@torch.no_grad()
def walk_line(model: Seq2Seq, examples: Sequence[Example], line: Line, seed: int) -> Landscape:
    """Double precision, no dropout. The model is left somewhere on the line."""
    model.model.double().eval()
    chosen = [example for example in examples if len(example.words) >= line.shortest][: line.sentences]
    pairs = model.pairs(*words_and_outputs(chosen))
    walker = _Walker(model, seed)
    places = torch.linspace(-line.radius, line.radius, line.points, dtype=torch.double).tolist()
    alphas = objective_names(line)
    seen = [walker.at(place, pairs, alphas) for place in places]
    losses = {name: torch.stack([losses[name] for losses, _ in seen], 1).tolist() for name in alphas}
    jumps: dict[str, list[float]] = {name: [] for name in alphas}
    for row in range(len(pairs)):
        sentence = pairs.select(torch.tensor([row]))
        for number in range(len(places) - 1):
            if not torch.equal(seen[number][1][row], seen[number + 1][1][row]):
                ends = walker.closest(places[number], places[number + 1], sentence)
                left, right = (walker.at(place, sentence, alphas)[0] for place in ends)
                for name in alphas:
                    jumps[name].append(abs(float(right[name] - left[name])))
    return Landscape(places, losses, jumps, [list(example.words) for example in chosen])


class _Walker:
    """A model that is moved along a line."""

    def __init__(self, model: Seq2Seq, seed: int) -> None:
        self.model = model.model
        generator = torch.Generator().manual_seed(seed)
        self.start = {name: weight.clone() for name, weight in self.model.named_parameters()}
        self.direction = {}
        for name, weight in self.start.items():
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.double).to(weight.device)
            self.direction[name] = drawn * weight.norm() / drawn.norm()

    def move(self, place: float) -> None:
        for name, weight in self.model.named_parameters():
            torch.add(self.start[name], self.direction[name], alpha=place, out=weight)

    def at(self, place: float, pairs: SequencePairs, alphas: dict[str, float]) -> tuple[dict[str, Tensor], Tensor]:
        """Losses (S,) by objective, and the greedy decisions (S, T - 1) that are read by later steps."""
        self.move(place)
        decoder = self.model.decoder(pairs.sources, max_symbols=pairs.lengths, normalised=True)
        coins = torch.ones(pairs.gold.shape, dtype=torch.double)
        losses = {
            name: -scheduled_log_scores(decoder, pairs.gold, 0.0, coins, alpha=alpha).sum(-1) / pairs.lengths
            for name, alpha in alphas.items()
        }
        decisions = beam_search(decoder, 1).symbols[:, 0]
        last = torch.arange(decisions.shape[1]) == pairs.lengths.unsqueeze(-1) - 1
        return losses, decisions.masked_fill(last, -1)

    def closest(self, left: float, right: float, sentence: SequencePairs) -> tuple[float, float]:
        """Two places between which a decision of the sentence changes, by halving."""
        _, first = self.at(left, sentence, {})
        for _ in range(HALVINGS):
            middle = (left + right) / 2
            if torch.equal(self.at(middle, sentence, {})[1], first):
                left = middle
            else:
                right = middle
        return left, right
