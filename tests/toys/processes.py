"""Two processes on one machine, as `accelerate launch` and `torchrun` start them."""

import os
import subprocess
import sys
from pathlib import Path


def launch(script: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in two processes on CPUs; what it printed is shown when it fails.

    `accelerate launch --cpu` starts one process only, so torch's own launcher starts the two.
    """
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    settings = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [*launcher, script, *arguments], env=os.environ | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done
