"""A run on a disk that is full again and again, and on one that may not be written; to be run in a mount namespace.

unshare --mount python disks.py FOLDER PLACE     # FOLDER has a finished run and its recipe; PLACE is where to mount
"""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

from lexergy.cli.main import quieten_libraries, run_command

GENERATE = ["--prompt", "our union", "--candidates", "4", "--max-new-tokens", "2", "--json"]


def mount(place: Path, *options: str) -> None:
    subprocess.run(["mount", *options, "none", str(place)], check=True)


def ended(arguments: list[str]) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_command(arguments)
    return {"status": status, "out": out.getvalue(), "err": err.getvalue().strip().split("\n")[-1]}


def main(folder: Path, place: Path) -> None:
    quieten_libraries()
    run = ["run", str(folder / "run.yaml"), "--out", str(place / "run"), "--json"]
    mount(place, "-t", "tmpfs", "-o", "size=16k")
    results = {"full": []}
    for size in (64, 192, 50_000):
        results["full"].append(ended(run))
        mount(place, "-o", f"remount,size={size}k")
    results["room"] = ended(run)
    results["written"] = ended(["generate", str(place / "run"), *GENERATE])
    mount(place, "-o", "remount,ro")
    results["read"] = ended(["generate", str(place / "run"), *GENERATE])
    results["again"] = ended(run)
    results["new"] = ended(["run", str(folder / "run.yaml"), "--out", str(place / "another"), "--json"])
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
