"""How long OpenMP's threads should spin before they sleep: the same work under several settings, quiet or busy.

On a machine with other work a thread that spins takes the processor from the one that it waits for; on a quiet one a
thread that sleeps is woken too late. Each setting is a process of its own, since libgomp reads it once. The settings
take turns, so that all of them meet the same machine.

    .venv/bin/python benchmarks/threads.py             # nothing else on the machine
    .venv/bin/python benchmarks/threads.py --busy 2    # beside two processes that never rest
"""

import argparse
import os
import statistics
import subprocess
import sys

WORK = """
import sys, time, torch
rows, layers, steps = map(int, sys.argv[1:])
weights = [(torch.randn(576, 1536), torch.randn(1536, 576)) for _ in range(layers)]
states = torch.randn(rows, 576)
for step in range(steps + 1):
    if step == 1:
        start = time.perf_counter()  # the first made the threads
    for inner, outer in weights:
        states = torch.nn.functional.layer_norm(states + torch.nn.functional.silu(states @ inner) @ outer, (576,))
print(time.perf_counter() - start)
"""
BUSY = "while True: pass"
SETTINGS = {
    "libgomp's own": {},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
    "spin 1,000": {"GOMP_SPINCOUNT": "1000"},
    "spin 3,000": {"GOMP_SPINCOUNT": "3000"},
    "spin 10,000": {"GOMP_SPINCOUNT": "10000"},
    "spin 30,000": {"GOMP_SPINCOUNT": "30000"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def seconds(setting: dict[str, str], rows: int, layers: int, steps: int) -> float:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    command = [sys.executable, "-c", WORK, str(rows), str(layers), str(steps)]
    return float(subprocess.run(command, env=plain | setting, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=0, help="processes that never rest, beside the work")
    parser.add_argument("--rows", type=int, default=64, help="texts that are written together")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
    try:
        times: dict[str, list[float]] = {name: [] for name in SETTINGS}
        for _ in range(options.repeats):
            for name, setting in SETTINGS.items():
                times[name].append(seconds(setting, options.rows, options.layers, options.steps))
    finally:
        for process in others:
            process.kill()
    print("setting          median   fastest   slowest   seconds")
    for name, taken in times.items():
        print(f"{name:15s}{statistics.median(taken):8.2f}  {min(taken):8.2f}  {max(taken):8.2f}")


if __name__ == "__main__":
    main()
