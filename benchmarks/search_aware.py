"""What search-aware training and batched search cost, in one run, so that only ratios are read.

A step of training is forward and backward of an LSTM tagger: cross-entropy by its teacher-forced pass (one fused LSTM,
one output product), and the direct loss of the relaxed beam on the same weights.
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from timing import cpu_seconds
from torch import Tensor, nn

from lexergy.core.soft_beam import direct_loss
from lexergy.core.step_decoder import States


class Tagger(nn.Module):
    """Words -> bidirectional LSTM -> LSTM decoder that reads the i-th encoding and the last label at step i."""

    def __init__(self, words: int = 5000, labels: int = 1000, width: int = 128, label_width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 100)
        self.encoder = nn.LSTM(100, width // 2, bidirectional=True, batch_first=True)
        self.labels = nn.Embedding(labels + 1, label_width)  # the last is what stands before the first label
        self.decoder = nn.LSTM(width + label_width, width, batch_first=True)
        self.output = nn.Linear(width, labels)

    def cross_entropy(self, words: Tensor, gold: Tensor) -> Tensor:  # (B, T), (B, T) -> ()
        encodings = self.encoder(self.words(words))[0]
        before = functional.pad(gold[:, :-1], (1, 0), value=self.output.out_features)
        states = self.decoder(torch.cat([encodings, self.labels(before)], -1))[0]
        return functional.cross_entropy(self.output(states).flatten(0, 1), gold.flatten())

    def bound(self, words: Tensor) -> "BoundTagger":
        encodings = self.encoder(self.words(words))[0]
        inputs, labels = self.decoder.weight_ih_l0.split([encodings.shape[-1], self.labels.embedding_dim], 1)
        bias = self.decoder.bias_ih_l0 + self.decoder.bias_hh_l0
        recurrent = torch.cat([labels, self.decoder.weight_hh_l0], 1).t()
        return BoundTagger(self, functional.linear(encodings, inputs, bias), recurrent)


@dataclass
class BoundTagger:
    tagger: Tagger
    gates: Tensor  # (B, T, 4 D), what the encodings add to the gates
    recurrent: Tensor  # (E + D, 4 D)
    end: int | None = None

    @property
    def embeddings(self) -> Tensor:
        return self.tagger.labels.weight[:-1]

    @property
    def lengths(self) -> Tensor:
        return torch.full((len(self.gates),), self.gates.shape[1])

    def start(self) -> tuple[States, Tensor]:
        zeros = self.gates.new_zeros(len(self.gates), 1, self.gates.shape[-1] // 4)
        return (zeros, zeros), self.tagger.labels.weight[-1].expand(len(self.gates), 1, -1)

    def step(self, position: int, states: States, inputs: Tensor) -> tuple[Tensor, States]:
        hidden, cell = states
        gates = torch.cat([inputs, hidden], -1) @ self.recurrent + self.gates[:, position, None]
        write, keep, new, show = gates.chunk(4, -1)
        cell = keep.sigmoid() * cell + write.sigmoid() * new.tanh()
        hidden = show.sigmoid() * cell.tanh()
        return self.tagger.output(hidden).log_softmax(-1), (hidden, cell)


def training_step(tagger: Tagger, loss: Callable[[], Tensor]) -> float:
    def step() -> None:
        tagger.zero_grad()
        loss().backward()

    return cpu_seconds(step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tagger = Tagger(labels=arguments.labels)
    words = torch.randint(5000, (arguments.batch, arguments.length))
    gold = torch.randint(arguments.labels, (arguments.batch, arguments.length))

    def soft(candidates: int | None) -> Tensor:
        return direct_loss(tagger.bound(words), gold, arguments.beam, 1.0, candidates=candidates).mean()

    losses: dict[str, Callable[[], Tensor]] = {
        "50 candidates": lambda: soft(50),
        "all": lambda: soft(None),
    }
    ratios: dict[str, list[float]] = {name: [] for name in losses}
    for repeat in range(arguments.repeats + 1):
        cross_entropy = training_step(tagger, lambda: tagger.cross_entropy(words, gold))
        for name, loss in losses.items():
            ratio = training_step(tagger, loss) / cross_entropy
            if repeat:
                ratios[name].append(ratio)
    for name, values in ratios.items():
        print(f"a soft-beam step is {statistics.median(values):.2f} cross-entropy steps ({name})")


if __name__ == "__main__":
    main()
