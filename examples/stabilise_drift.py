"""A layer that drifts, and the smallest change of its value matrix that stabilises it.

The value matrix of the layer below is positive in one direction, and its covariance escapes. Its
feed-forward part A and its keys and queries B are kept; only the value matrix V is designed, so
that a Gaussian of our choice attracts every Gaussian, as near to the old V as that allows.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import gausscontrol as gct

DRIFTING = gct.GaussianTransformer(
    A=[[0.5, 0.8, 0.0], [-0.8, 0.4, 0.2], [0.1, 0.0, 0.6]],
    B=[[1.0, 0.2, 0.0], [0.0, 0.8, -0.1], [0.1, 0.0, 0.6]],
    V=[[-0.6, 0.1, 0.0], [0.0, 0.3, 0.1], [-0.1, 0.0, -0.5]],
    b=[0.2, 0.0, -0.1],
    name="drifting layer",
)
TARGET = ([0.5, 0.0, -0.5], np.diag([1.0, 0.8, 1.2]))
START = ([2.0, -1.0, 1.0], [[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])


def main(plots=None):
    """Print the layer before and after, and draw the flow if a folder is given."""
    depths = np.linspace(0, 30, 301)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gct.BlowUpWarning)  # it is what is to be cured
        before = gct.moment_response(DRIFTING, depths, START)
    print(f"before: the covariance escapes at depth {before.blow_up_time:.4f}")

    # The fastest design, then the nearest one that is at least a quarter as fast.
    kept = {"A": DRIFTING.A, "B": DRIFTING.B}
    fastest = gct.design(TARGET, **kept)
    print(
        f"fastest: {fastest.decay_rate:.4f} per unit depth of at most "
        f"{fastest.optimal_rate:.4f} = 2 tr A/d, |V| = {fastest.norms['V']:.4f}"
    )
    rate = fastest.decay_rate / 4
    nearest = gct.design(TARGET, **kept, decay_rate=rate, initial=DRIFTING)
    print(nearest)
    moved = np.linalg.norm(nearest.model.V[0] - DRIFTING.V[0])
    print(f"V has moved by {moved:.4f} in Frobenius norm, of {np.linalg.norm(DRIFTING.V[0]):.4f}")

    after = gct.moment_response(nearest.model, depths, START)
    left = np.linalg.norm(after.covariance[:, :, -1] - TARGET[1])
    print(f"after: |Sigma - Sigma*| = {left:.1e} [x]^2 at depth {depths[-1]:g}, from that start")

    if plots is not None:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        plot = gct.design_plot(nearest)
        plot.figure.savefig(folder / "stabilise_drift.png", dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plots", metavar="DIR", help="folder for the figure")
    main(parser.parse_args().plots)
