"""What search-aware training and batched search cost on the project's own tagger, in one run: only ratios are read.

A step of training is forward and backward: cross-entropy by the teacher-forced pass (one fused LSTM, one product with
all labels), then the direct loss of the relaxed beam and the soft hinge on the same weights. Hard beam search is run on
a batch of sentences and on each sentence alone, by the same function.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as functional
from timing import cpu_seconds
from torch import Tensor

from lexergy.core.search_aware.beam_search import beam_search
from lexergy.core.soft_beam import direct_loss, soft_hinge_loss
from lexergy.models.seq2seq import Seq2SeqConfig, Seq2SeqModel, Sources

WORDS = 5000


def median_ratios(
    calls: dict[str, Callable[[], object]], against: Callable[[], object], repeats: int
) -> dict[str, float]:
    """CPU time of each call over that of `against`, run side by side; the median of the repeats, the first left out."""
    ratios: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        seconds = cpu_seconds(against)
        for name, call in calls.items():
            ratio = cpu_seconds(call) / seconds
            if repeat:
                ratios[name].append(ratio)
    return {name: statistics.median(values) for name, values in ratios.items()}


def training(model: Seq2SeqModel, sources: Sources, gold: Tensor, beam: int, repeats: int) -> None:
    def step(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def forward_and_backward() -> None:
            model.zero_grad()
            loss().backward()

        return forward_and_backward

    def cross_entropy() -> Tensor:
        scores = model.decoder(sources, normalised=False).teacher_forced(gold)
        return functional.cross_entropy(scores.flatten(0, 1), gold.flatten())

    calls = {
        f"{name}, {symbols}": step(
            lambda loss=loss, count=count: loss(model.decoder(sources), gold, beam, 1.0, candidates=count).mean()
        )
        for name, loss in (("direct loss", direct_loss), ("soft hinge", soft_hinge_loss))
        for symbols, count in (("50 candidates", 50), ("all labels", None))
    }
    for name, ratio in median_ratios(calls, step(cross_entropy), repeats).items():
        print(f"a step of {name}: {ratio:.2f} steps of cross-entropy")


def decoding(model: Seq2SeqModel, sources: Sources, beam: int, repeats: int) -> None:
    alone = [sources.select(torch.tensor([sentence])) for sentence in range(len(sources.lengths))]

    @torch.inference_mode()
    def one_by_one() -> None:
        for sentence in alone:
            beam_search(model.decoder(sentence), beam)

    @torch.inference_mode()
    def batched() -> None:
        beam_search(model.decoder(sources), beam)

    (ratio,) = median_ratios({"one by one": one_by_one}, batched, max(repeats // 3, 3)).values()
    print(f"beam search on {len(alone)} sentences at once: {ratio:.1f} times as fast as one by one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    config = Seq2SeqConfig(vocab_sizes=[WORDS], feature_sizes=[100], num_symbols=arguments.labels)
    model = Seq2SeqModel.from_config(config, seed=0)
    shape = (arguments.batch, arguments.length)
    sources = Sources(
        torch.randint(WORDS, (*shape, 1), generator=generator), lengths=torch.full((arguments.batch,), arguments.length)
    )
    gold = torch.randint(arguments.labels, shape, generator=generator)
    training(model, sources, gold, arguments.beam, arguments.repeats)
    decoding(model, sources, arguments.beam, arguments.repeats)


if __name__ == "__main__":
    main()
