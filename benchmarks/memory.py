"""Peak memory of a few statements, run by a fresh Python process.

The peak is `ru_maxrss` of a grandchild: a process started straight from this one would inherit
the peak of this one, which a small process in between does not pass on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["peak_megabytes"]

LAUNCHER = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_megabytes(statements: str) -> float:
    """Return the peak resident memory of a process that runs some statements, in megabytes."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, statements],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).resolve().parents[1],
    )
    # Linux counts in kibibytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return int(done.stdout) * unit / 1e6
