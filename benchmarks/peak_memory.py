"""Peak memory of many samples of one prefix: Lexergy and OpenVINO GenAI, each in a process that loads nothing else.

    python benchmarks/peak_memory.py [--samples 64 256 1024] [--engines Lexergy "Lexergy bfloat16" "OpenVINO 4-bit"]

SmolLM2-135M-Instruct, prefix 120, 40 new tokens, top-k 10; GiB that were resident at most (Linux), by the system's
own allocator. Numbers of samples are asked for in turn, so that each peak is that of all smaller ones too.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MODEL, PREFIX, NEW, TOP_K = "smollm2-135m", 120, 40, 10
LEXERGY = {"Lexergy": "float32", "Lexergy bfloat16": "bfloat16", "Lexergy int8": "int8"}
GENAI = {"OpenVINO float32": "f32", "OpenVINO float16": None, "OpenVINO 4-bit": None}  # None: its own choice
Sampler = Callable[[int], int]  # number of samples -> number of tokens drawn


def lexergy(engine: str, prefix: list[int], rows_per_batch: int) -> Sampler:
    import torch

    from lexergy import CausalLM

    lm = CausalLM.from_pretrained(MODEL, precision=LEXERGY[engine])  # type: ignore[arg-type]
    options = {"max_new_tokens": NEW, "top_k": TOP_K, "rows_per_batch": rows_per_batch}
    return lambda n: lm.sample(torch.tensor([prefix]), num_samples=n, **options).tokens.numel()


def genai(engine: str, prefix: list[int], path: str) -> Sampler:
    import numpy as np
    import openvino
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 4  # GiB that it may take
    scheduler.max_num_batched_tokens = scheduler.max_num_seqs = 4096  # else more than 256 samples would be dropped
    precision = GENAI[engine]
    settings: dict[str, object] = {"INFERENCE_NUM_THREADS": int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))}
    settings |= {} if precision is None else {"INFERENCE_PRECISION_HINT": precision}
    pipeline = openvino_genai.LLMPipeline(path, "CPU", scheduler_config=scheduler, **settings)
    config = openvino_genai.GenerationConfig(
        max_new_tokens=NEW, ignore_eos=True, do_sample=True, top_k=TOP_K, apply_chat_template=False
    )

    def sample(n: int) -> int:
        config.num_return_sequences = n
        return sum(map(len, pipeline.generate(openvino.Tensor(np.array([prefix])), config).tokens))

    return sample


def measure(engine: str, given: dict[str, object]) -> None:
    """The peak after each number of samples."""
    make = lexergy if engine in LEXERGY else genai
    sample = make(engine, given["prefix"], given["how"])  # type: ignore[operator]
    for n in given["samples"]:  # type: ignore[attr-defined]
        assert sample(n) == n * NEW
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        print(int(found.group(1)) / 2**20 if found else float("nan"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--engines", nargs="+", choices=[*LEXERGY, *GENAI])
    parser.add_argument("--rows-per-batch", type=int, default=256, help="of Lexergy")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one[0], json.loads(options.one[1]))
        return
    from engines import float16_gguf, installed, packaged_gguf

    from lexergy import CausalLM
    from lexergy.data.corpora import load_corpus

    prefix = CausalLM.from_pretrained(MODEL).encode(load_corpus("sotu")[0].text)[:PREFIX].tolist()
    has_genai = importlib.util.find_spec("openvino_genai") is not None
    engines = options.engines or [name for name in LEXERGY if name in installed()] + list(GENAI if has_genai else ())
    print(f"| | {' | '.join(f'{n:,} samples' for n in options.samples)} |\n|---|{'---:|' * len(options.samples)}")
    for engine in engines:
        path = packaged_gguf() if engine == "OpenVINO 4-bit" else float16_gguf()
        how = options.rows_per_batch if engine in LEXERGY else str(path)
        given = json.dumps({"prefix": prefix, "how": how, "samples": sorted(options.samples)})
        command = [sys.executable, __file__, "--one", engine, given]
        peaks = subprocess.run(command, env=os.environ, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        print(f"| {engine} | {' | '.join(f'{float(peak):.2f}' for peak in peaks)} |", flush=True)


if __name__ == "__main__":
    main()
