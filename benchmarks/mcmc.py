"""Proposals per second of the batched kernel against the thesis's Algorithm 4, one chain at a time, in one run.

Both walk the same chains on the same masked LM (BERT-small's shape with random weights, whose conditionals are the
dear case: hardly a proposal repeats what is there). Algorithm 4 as printed computes both energies at each proposal.
"""

import argparse

import torch
from timing import cpu_seconds, seconds
from transformers import BertConfig, BertForMaskedLM

from lexergy.core.decoding import draw
from lexergy.core.mcmc.metropolis import UNTRUNCATED
from lexergy.core.mcmc.sweeps import Schedule
from lexergy.core.random import uniforms
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.masked.lm import MaskedLM
from lexergy.tasks.masked.mcmc import Sampling, sample_masked_lm
from lexergy.testing import EnumerableMaskedLM


def build_lm(vocab_size: int, hidden_size: int, num_layers: int) -> MaskedLM:
    words = tuple(f"word{number}" for number in range(vocab_size))
    tokenizer = EnumerableMaskedLM(words).tokenizer
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=hidden_size // 32,
        intermediate_size=4 * hidden_size,
        max_position_embeddings=64,
    )
    with initialised_from(0):
        return MaskedLM(BertForMaskedLM(config), tokenizer)


@torch.no_grad()
def algorithm_4(lm: MaskedLM, length: int, sweeps: int, chain: int) -> None:
    """One chain as the thesis writes it: a pass per masked position, the old energy computed again at each proposal."""
    tokens = torch.tensor(lm.blank(length))
    free = (tokens == lm.mask_token).nonzero().flatten().tolist()
    tokens[free] = _law(lm, tokens)[free].argmax(-1)
    for sweep in range(sweeps):
        for step, place in enumerate(free):
            old_energy = _energy(lm, tokens, free)
            numbers = uniforms(0, [chain], sweep * length + step, 0, 2)[0]
            masked = tokens.clone()
            masked[place] = lm.mask_token
            distribution = _law(lm, masked)[place]
            proposal = tokens.clone()
            proposal[place] = draw(distribution[None], numbers[:1], UNTRUNCATED).tokens[0]
            log_ratio = (
                old_energy
                - _energy(lm, proposal, free)
                + float(distribution[tokens[place]] - distribution[proposal[place]])
            )
            if float(numbers[1].log()) < log_ratio:
                tokens = proposal


def _law(lm: MaskedLM, tokens: torch.Tensor) -> torch.Tensor:  # (L,) -> (L, V)
    logits = lm.model(input_ids=tokens[None]).logits[0]
    return logits.index_fill(1, lm.special_tokens, -1e9).log_softmax(-1)


def _energy(lm: MaskedLM, tokens: torch.Tensor, free: list[int]) -> float:
    total = 0.0
    for place in free:
        masked = tokens.clone()
        masked[place] = lm.mask_token
        total -= float(_law(lm, masked)[place, tokens[place]])
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--length", type=int, default=12)
    parser.add_argument("--sweeps", type=int, default=2)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--one-by-one", type=int, default=1, help="chains that Algorithm 4 walks")
    arguments = parser.parse_args()
    lm = build_lm(arguments.vocab_size, arguments.hidden_size, arguments.layers)
    sampling = Sampling(Schedule(arguments.sweeps), chains=arguments.chains, start="greedy")
    sample_masked_lm(lm, [lm.blank(2)], Sampling(Schedule(1), chains=2))  # warm
    each = arguments.length * arguments.sweeps
    for name, clock in (("CPU", cpu_seconds), ("wall", seconds)):
        batched = clock(lambda: sample_masked_lm(lm, [lm.blank(arguments.length)], sampling))
        single = clock(
            lambda: [algorithm_4(lm, arguments.length, arguments.sweeps, i) for i in range(arguments.one_by_one)]
        )
        rates = arguments.chains * each / batched, arguments.one_by_one * each / single
        print(
            f"{name} time, {torch.get_num_threads()} threads: {rates[0]:.1f} proposals per second with "
            f"{arguments.chains} chains in a batch, {rates[1]:.2f} one chain at a time with the old energy computed "
            f"again: {rates[0] / rates[1]:.1f} times"
        )


if __name__ == "__main__":
    main()
