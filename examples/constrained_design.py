"""A design with constraints of one's own, written in cvxpy.

`design` hands over the matrices as cvxpy expressions in the original coordinates and takes any
convex constraint and objective. Here A and V are free and may only couple neighbouring
coordinates, and V is symmetric, as if its weights were shared; then the same with as few entries
as possible; then a bound on every entry of V, which is refused with the reason.
"""

import cvxpy as cp
import numpy as np

import gausscontrol as gct

DIM = 4
INDEX = np.arange(DIM)
FAR = np.abs(INDEX[:, None] - INDEX) > 1
B = np.eye(DIM) + 0.2 * np.eye(DIM, k=1)
TARGET = (
    np.array([1.0, 0.0, 0.0, -1.0]),
    np.diag([1.0, 1.5, 1.5, 1.0]) + 0.3 * (np.eye(DIM, k=1) + np.eye(DIM, k=-1)),
)
RATE = 0.5


def neighbours(variables):
    A, V = variables["A"], variables["V"]
    return [A[FAR] == 0, V[FAR] == 0, V == V.T]


def entries(variables):
    return cp.sum(cp.abs(variables["A"])) + cp.sum(cp.abs(variables["V"]))


def show(title, des):
    pair = np.hstack([des.model.A, des.model.V[0]])
    count = np.count_nonzero(np.abs(pair) > 1e-6)
    print(f"{title}: certified {des.decay_rate:.4f} per unit depth, {count} entries above 1e-6")
    for row in pair.round(4) + 0.0:
        shown = ["  ".join(f"{entry:7.4f}" for entry in half) for half in np.split(row, 2)]
        print(f"    {shown[0]}  |  {shown[1]}")


def main():
    """Print A | V under one requirement after the other."""
    asked = {"B": B, "free": ("A", "V"), "decay_rate": RATE}
    show("smallest norms", gct.design(TARGET, **asked))
    show("neighbours only, V symmetric", gct.design(TARGET, **asked, constraints=neighbours))
    few = gct.design(TARGET, **asked, constraints=neighbours, objective=entries)
    show("and the smallest sum of entries", few)
    try:
        gct.design(TARGET, **asked, constraints=lambda variables: [variables["V"] >= -0.05])
    except gct.InfeasibleDesign as error:
        print(f"every entry of V above -0.05: {str(error).partition(' (')[0]}")


if __name__ == "__main__":
    main()
