"""Print the benchmark table: `python -m benchmarks [ROW ...]`, or write all of it: `--all`.

`--all` runs every row and writes docs/benchmarks_table.txt and docs/_static/benchmarks_cost.svg,
which the page on speed includes; `--write ROW ...` writes them from chosen rows, and the table says
which were left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

# Overrides that slow a current OpenBLAS; they must be gone before NumPy loads it.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

from threadpoolctl import threadpool_limits  # noqa: E402

from benchmarks import page, rows  # noqa: E402
from benchmarks.batches import BATCH_ROWS  # noqa: E402
from benchmarks.certificates import CERTIFICATE_ROWS  # noqa: E402
from benchmarks.design import DESIGN_ROWS  # noqa: E402
from benchmarks.regimes import REGIME_ROWS  # noqa: E402
from benchmarks.scaling import SCALING_ROWS  # noqa: E402
from benchmarks.spectra import SPECTRUM_ROWS  # noqa: E402

ROWS = rows.ROWS | SPECTRUM_ROWS | BATCH_ROWS | SCALING_ROWS
ROWS |= CERTIFICATE_ROWS | REGIME_ROWS | DESIGN_ROWS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"among {', '.join(ROWS)}")
    parser.add_argument("--all", action="store_true", help="run every row, write the page's table")
    parser.add_argument("--write", action="store_true", help="write it from the rows chosen")
    arguments = parser.parse_args()
    if arguments.all and arguments.rows:
        parser.error("--all takes no rows")
    unknown = sorted(set(arguments.rows) - set(ROWS))
    if unknown:
        parser.error(f"unknown row {unknown[0]}; choose among {', '.join(ROWS)}")
    print("One BLAS thread; median processor times of interleaved runs.", flush=True)
    start, tables = time.time(), {}
    with threadpool_limits(limits=1):
        for name in arguments.rows or ROWS:
            tables[name] = []
            for row in ROWS[name]():
                print(row, flush=True)
                tables[name].append(row)
    minutes = (time.time() - start) / 60
    if arguments.all or arguments.write:
        page.write(tables, minutes, [name for name in ROWS if name not in tables])
    missed = sum(not row.met for table in tables.values() for row in table)
    print(f"{missed} goal(s) not met" if missed else "all goals met", f"({minutes:.1f} minutes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
