"""Maps of regimes over two parameters: swept, certified, and held against what is known exactly.

1.  Scalar layers s' = 2 (a + vb s) s over (a, vb). Every verdict off the boundary is compared with
    the exact one.
2.  One head in the plane, over the two eigenvalues of its value matrix. Lines show how far spectra
    decide; what lies beyond is for Lyapunov functions, invariant subspaces and trajectories.

Without `--quick` all cores work for some minutes on fine grids. `--plots DIR` draws the maps.
"""

import argparse
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import numpy as np

import gausscontrol as gct


def scalar_layer(a: float, vb: float) -> gct.GaussianTransformer:
    return gct.GaussianTransformer(a, 1.0, vb)


def classify_scalar(a: float, vb: float) -> gct.Classification:
    return gct.classify(scalar_layer(a, vb), sdp=False)


def planar_layer(v1: float, v2: float) -> gct.GaussianTransformer:
    return gct.GaussianTransformer([[1.0, 1.2], [-1.2, -0.4]], np.eye(2), [[v1, 1.0], [0.0, v2]])


def classify_planar(v1: float, v2: float) -> gct.Classification:
    return gct.classify(planar_layer(v1, v2), sdp=False)


def agreement(result: gct.SweepResult) -> tuple[int, int]:
    """Return how many points off the boundary have the exact regime, of how many."""
    exact = [gct.scalar_regime(scalar_layer(**point)) for point in result.points]
    pairs = zip(result.array("regime").ravel(), exact, strict=True)
    agree = [regime == found.regime for regime, found in pairs if not found.on_boundary]
    return sum(agree), len(agree)


def report(result: gct.SweepResult) -> None:
    print(result)
    count = Counter(result.array("regime").ravel().tolist())
    print(f"  {', '.join(f'{name} {number}' for name, number in count.most_common())}")


def draw(folder: Path, scalar: gct.SweepResult, planar: gct.SweepResult) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    plot = gct.regime_map(scalar, title="Scalar layers")
    plot.axes[0, 0].set(xlabel="a [1/t]", ylabel="vb [1/(t x$^2$)]")
    plot.figure.savefig(folder / "regime_map_scalar.png", dpi=150)
    plot.figure.clear()
    plot = gct.regime_map(planar, model=planar_layer, title="One head in the plane")
    plot.axes[0, 0].set(xlabel="$v_1$ [1/t]", ylabel="$v_2$ [1/t]")
    plot.figure.savefig(folder / "regime_map_planar.png", dpi=150)


def main(plots: str | None = None, *, quick: bool = True, executor: Executor | None = None) -> None:
    """Print what both sweeps find, and draw them if a folder is given."""
    axis = np.linspace(-2.0, 2.0, 8 if quick else 41)
    scalar = gct.sweep(classify_scalar, {"a": axis, "vb": axis}, executor=executor)
    report(scalar)
    agree, compared = agreement(scalar)
    print(f"  off the boundary {agree} of {compared} agree with the exact regime\n")

    values = np.linspace(-2.0, 1.0, 4 if quick else 25)
    planar = gct.sweep(classify_planar, {"v1": values, "v2": values}, executor=executor)
    report(planar)
    print(f"  {np.mean(planar.array('certified').astype(bool)):.1%} of the points are certified")

    if plots is not None:
        draw(Path(plots), scalar, planar)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="coarse grids, a few seconds")
    parser.add_argument("--plots", metavar="DIR", help="folder for the figures")
    arguments = parser.parse_args()
    if arguments.quick:
        main(arguments.plots)
    else:
        with ProcessPoolExecutor() as pool:
            main(arguments.plots, quick=False, executor=pool)
