"""Sampling many continuations of one prefix: Lexergy beside transformers and CTranslate2, in one run.

SmolLM2-135M, prefix 120, 40 new tokens, top-k 10. Writes docs/results/sampling-speed.md.
"""

import argparse
import importlib.util
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import torch
from timing import matrix_product_rate, seconds

from lexergy import CausalLM
from lexergy.data.corpora import load_corpus
from lexergy.models.energies import TransformerEnergy, as_energy
from lexergy.models.loading.sources import resolve_causal_lm

PREFIX, NEW, TOP_K = 120, 40, 10
FLOP_PER_TOKEN = 2 * 134_515_008  # twice the parameters
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "sampling-speed.md"
Sampler = Callable[[int], object]


def prefix_of(lm: CausalLM) -> torch.Tensor:
    return lm.encode(load_corpus("sotu")[0].text)[None, :PREFIX]


def lexergy_sampler(lm: CausalLM, prefix: torch.Tensor) -> Sampler:
    def sample(n: int) -> object:
        lm.forget_prefix()  # each call pays for its own prefill
        return lm.sample(prefix, num_samples=n, max_new_tokens=NEW, top_k=TOP_K)

    return sample


def transformers_sampler(lm: CausalLM, prefix: torch.Tensor) -> Sampler:
    @torch.inference_mode()
    def sample(n: int) -> object:
        return lm.model.generate(
            prefix,
            attention_mask=torch.ones_like(prefix),
            num_return_sequences=n,
            do_sample=True,
            top_k=TOP_K,
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            pad_token_id=0,
        )

    return sample


def ctranslate2_sampler(lm: CausalLM, prefix: torch.Tensor) -> Sampler:
    import ctranslate2

    folder = tempfile.mkdtemp()
    converter = ctranslate2.converters.TransformersConverter(str(resolve_causal_lm("smollm2-135m").folder))
    converter.convert(folder, quantization="int8", force=True)
    generator = ctranslate2.Generator(folder, compute_type="int8", intra_threads=torch.get_num_threads())
    tokens = lm.tokenizer.convert_ids_to_tokens(prefix[0].tolist())

    def sample(n: int) -> object:
        return generator.generate_batch(
            [tokens] * n,
            max_length=NEW,
            min_length=NEW,
            sampling_topk=TOP_K,
            include_prompt_in_result=False,
        )

    return sample


SAMPLERS: dict[str, Callable[[CausalLM, torch.Tensor], Sampler]] = {
    "lexergy": lexergy_sampler,
    "transformers generate": transformers_sampler,
    "CTranslate2 int8": ctranslate2_sampler,
}


class Measured(NamedTuple):
    seconds: float
    peak_memory: float  # resident, GiB
    matrix_product_rate: float  # FLOP/s, just before


def measured(library: str, n: int) -> Measured:
    """One library in a process of its own, so that no other's threads or memory are in its way."""
    command = [sys.executable, __file__, "--one", library, "--samples", str(n)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return Measured(*map(float, output[-3:]))


def measure_one(library: str, n: int) -> None:
    lm = CausalLM.from_pretrained("smollm2-135m")
    sampler = SAMPLERS[library](lm, prefix_of(lm))
    sampler(2)
    rate = matrix_product_rate()
    print(seconds(lambda: sampler(n)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, rate)


def energy_seconds(lm: CausalLM, prefix: torch.Tensor, n: int) -> tuple[float, float]:
    """Scoring n candidates of one prefix with a UniT energy: sharing the prefix, and as whole sequences."""
    unit = as_energy(TransformerEnergy.from_causal_lm(lm.model).eval(), lm)
    continuations = lm.sample(prefix, num_samples=n, max_new_tokens=NEW, top_k=TOP_K).tokens
    rows = torch.cat((prefix.expand(n, -1), continuations[0]), 1)

    @torch.inference_mode()
    def whole() -> object:
        return [lm.model.base_model(input_ids=part).last_hidden_state.mean(1) for part in rows.split(32)]

    with torch.inference_mode():
        unit.score(prefix, continuations[:, :8])
        shared = min(seconds(lambda: unit.score(prefix, continuations)) for _ in range(2))
    return shared, min(seconds(whole) for _ in range(2))


def speed_table(rounds: int) -> list[str]:
    lines = [
        "| samples | library | tokens/s | Lexergy is faster by | of the matrix-product rate |",
        "|---:|---|---:|---:|---:|",
    ]
    libraries = [name for name in SAMPLERS if "CTranslate2" not in name or importlib.util.find_spec("ctranslate2")]
    for n in (64, 256):
        turns = [{name: measured(name, n) for name in libraries} for _ in range(rounds)]
        for name in libraries:
            speed = statistics.median(n * NEW / turn[name].seconds for turn in turns)
            ratio = statistics.median(turn[name].seconds / turn["lexergy"].seconds for turn in turns)
            share = statistics.median(
                FLOP_PER_TOKEN * n * NEW / turn[name].seconds / turn[name].matrix_product_rate for turn in turns
            )
            lines.append(f"| {n} | {name} | {speed:.0f} | {ratio:.2f}x | {share:.0%} |")
            print(lines[-1], flush=True)
    return lines


def memory_line() -> str:
    own, theirs = (measured(name, 1024).peak_memory for name in ("lexergy", "transformers generate"))
    return (
        f"Peak memory at 1,024 samples: Lexergy {own:.2f} GiB, transformers {theirs:.2f} GiB "
        f"({own / theirs:.2f} of it)."
    )


def energy_line() -> str:
    lm = CausalLM.from_pretrained("smollm2-135m")
    shared, whole = energy_seconds(lm, prefix_of(lm), 256)
    return (
        f"UniT energies of 256 candidates: {shared:.2f} s sharing the prefix, {whole:.2f} s as whole sequences "
        f"({whole / shared:.2f}x faster)."
    )


PARTS: dict[str, Callable[[int], str]] = {
    "speed": lambda rounds: "\n".join(speed_table(rounds)),
    "energy": lambda rounds: energy_line(),
    "memory": lambda rounds: memory_line(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(PARTS), help="print one part instead of writing the page")
    parser.add_argument("--one", choices=list(SAMPLERS), help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure_one(arguments.one, arguments.samples)
        return
    if arguments.only:
        print(PARTS[arguments.only](arguments.rounds))
        return
    heading = (
        f"SmolLM2-135M in float32, prefix {PREFIX}, {NEW} new tokens, top-k {TOP_K}, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__}, {date.today()}. Command: `python benchmarks/sampling.py --rounds "
        f"{arguments.rounds}`. Each library runs in a process of its own, in turn; medians over rounds; the machine's "
        "own fp32 matrix-product rate is measured just before each run."
    )
    parts = ["# Sampling speed", heading, *(part(arguments.rounds) for part in PARTS.values())]
    RESULTS.write_text("\n\n".join(parts) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
