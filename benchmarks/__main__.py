"""Print the benchmark table: `python -m benchmarks [ROW ...]`."""

from __future__ import annotations

import argparse
import os
import sys

# Overrides that slow a current OpenBLAS; they must be gone before NumPy loads it.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

from threadpoolctl import threadpool_limits  # noqa: E402

from benchmarks import rows  # noqa: E402
from benchmarks.certificates import CERTIFICATE_ROWS  # noqa: E402
from benchmarks.design import DESIGN_ROWS  # noqa: E402
from benchmarks.regimes import REGIME_ROWS  # noqa: E402

ROWS = rows.ROWS | CERTIFICATE_ROWS | REGIME_ROWS | DESIGN_ROWS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"among {', '.join(ROWS)}")
    chosen = parser.parse_args().rows or list(ROWS)
    unknown = sorted(set(chosen) - set(ROWS))
    if unknown:
        parser.error(f"unknown row {unknown[0]}; choose among {', '.join(ROWS)}")
    print("One BLAS thread; medians of interleaved runs: ours, baseline, ratio.", flush=True)
    missed = 0
    with threadpool_limits(limits=1):
        for name in chosen:
            for row in ROWS[name]():
                print(row, flush=True)
                missed += not row.met
    print(f"{missed} goal(s) not met" if missed else "all goals met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
