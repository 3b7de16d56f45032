"""How far a locally stable layer may be pushed: a certified region, and where it really ends.

One head with V = -I and an indefinite B. Its equilibrium Sigma = I is stable, while large
covariances blow up: it cannot be certified as globally stable. Sums of squares certify an
ellipsoid of covariances that converge, several times as wide as a norm bound does. As V is a
multiple of the identity, the whole basin is known exactly (Theory 3.2), which tells how much is
left.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.linalg

import gausscontrol as gct

DIRECTIONS = 40
DEPTHS = np.linspace(0, 12, 241)


def exact_reach(flows: np.ndarray, E: np.ndarray) -> float:
    """Return how far from I along E starts converge, given e^{-A t} at many depths t.

    X = Sigma^-1 moves to I + e^{-A^T t} (X - I) e^{-A t}, which must stay positive definite.
    """
    identity = np.eye(len(E))
    low, high = 0.0, -1 / min(np.linalg.eigvalsh(E)[0], -1e-3)
    for _ in range(25):
        middle = (low + high) / 2
        gap = np.linalg.inv(identity + middle * E) - identity
        X = identity + flows.swapaxes(1, 2) @ gap @ flows
        low, high = (middle, high) if np.linalg.eigvalsh(X).min() > 0 else (low, middle)
    return low


def main(plots: str | None = None) -> None:
    """Print the certified regions beside the exact basin; draw them if a folder is given."""
    A, B = [[1.0, 1.5], [-1.5, -0.5]], np.diag([1.0, -0.5])
    model = gct.GaussianTransformer(A, B, -np.eye(2), name="rotating layer")
    equilibrium = gct.find_equilibrium(model)
    try:
        gct.certify_global_stability(model, equilibrium)
    except gct.NotCertified:
        print("Locally stable, not globally")
    region = gct.certify_region_of_attraction(model, equilibrium)
    small = gct.certify_region_of_attraction(model, equilibrium, method="norm")
    print(region)
    print(f"  ball by the norm bound  {small.radius:.4f}")

    flows = np.stack([scipy.linalg.expm(-model.A * t) for t in DEPTHS])
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(DIRECTIONS):
        E = rng.standard_normal((2, 2))
        E = (E + E.T) / np.linalg.norm(E + E.T)
        certified = np.sqrt(region.level / region.level_of(E[None])[0])
        shares.append(certified / exact_reach(flows, E))
    print(f"Share of the way to the edge of the exact basin, in {DIRECTIONS} directions")
    print(f"  median {np.median(shares):.2f}, least {min(shares):.2f}, most {max(shares):.2f}")

    if plots is not None:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "region.png"
        plot = gct.region_plot(region)
        plot.figure.savefig(path, dpi=150)
        print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plots", metavar="DIR", help="folder for the figure")
    main(parser.parse_args().plots)
