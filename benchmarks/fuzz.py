"""Calls, recipes, files and damaged runs that nobody would make on purpose: no traceback, no hang, no silent failure.

make fuzz                                # 100,000 of them
python benchmarks/fuzz.py --seed 3 --calls 5000
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.update({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"})
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from lexergy.cli.main import quieten_libraries
from lexergy.tasks.residual.run import run
from lexergy.testing import tiny_recipe, write_tiny_corpus
from toys.fuzz import Failed, fuzzed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first call; the same seed makes the same calls")
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args()
    quieten_libraries()
    made: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEXERGY_CACHE"] = str(Path(folder) / "cache")
        made_run = Path(folder) / "run"
        run(tiny_recipe(write_tiny_corpus(Path(folder) / "texts")), made_run, progress=False)
        started = time.monotonic()
        with fuzzed(options.seed, made_run) as fuzz:
            while made.total() < options.calls:
                try:
                    made[fuzz.step()] += 1
                except Failed as failure:
                    made["failed"] += 1
                    failures.append(str(failure))
                    print(f"\n--- failure {len(failures)}, call {made.total()}\n{failure}", flush=True)
                if made.total() % 1000 == 0:
                    print(f"{made.total()} calls, {time.monotonic() - started:.0f} s: {dict(made)}", flush=True)
    print(f"{made.total()} calls and inputs, {len(failures)} failures: {dict(made)}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
