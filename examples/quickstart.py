"""Where a Transformer layer settles, how fast, and from how far: beside python-control.

    mu'    = (A + V) mu + V Sigma B mu + b
    Sigma' = A Sigma + Sigma A^T + V Sigma B Sigma + Sigma B^T Sigma V^T

The layer is a python-control system like any other: its equilibrium is an operating point, its
linearisation (exact) a `ct.StateSpace`, its moments a `ct.TimeResponseData`.
"""

from pathlib import Path

import control as ct
import numpy as np

import gausscontrol as gct

DATA = Path(__file__).resolve().parent / "data"


def main():
    model = gct.load_model(DATA / "mimetic_head.mat")
    layer = gct.moment_system(model, name="layer")

    # Where it settles.
    equilibrium = gct.find_equilibrium(model)
    print(equilibrium)

    # How fast: the exact linearisation and python-control's tools.
    linear = ct.linearize(layer, equilibrium.operating_point(layer))
    print(f"slowest pole of ct.linearize: {linear.poles().real.max():.4f} per unit depth")

    # What a constant push b[0] of the feed-forward part does to the mean, near the equilibrium.
    depths = np.linspace(0, 40, 401)
    push = 0.1 * np.eye(model.dim)[:, :1] * np.ones_like(depths)
    linear_part = ct.forced_response(linear, depths, push).outputs[: model.dim]
    start = np.concatenate([equilibrium.mean, gct.vech(equilibrium.covariance)])
    moments = ct.input_output_response(
        layer, depths, push, start, solve_ivp_kwargs={"rtol": 1e-8, "atol": 1e-10}
    )
    shift = moments.outputs[: model.dim, -1] - equilibrium.mean
    print(f"a push of 0.1 on b[0] moves the mean by {np.linalg.norm(shift):.4f} [x], ", end="")
    print(f"the linearisation says {np.linalg.norm(linear_part[:, -1]):.4f} [x]")

    # From how far: a certificate, checked apart from the solver.
    print(gct.certify_global_stability(model, equilibrium))

    # One trajectory from far away.
    response = gct.moment_response(model, depths, (np.ones(model.dim), 400 * np.eye(model.dim)))
    distance = np.linalg.norm(response.covariance[:, :, -1] - equilibrium.covariance)
    print(f"from Sigma = 400 I, |Sigma - Sigma*| at depth {depths[-1]:g}: {distance:.1e} [x]^2")


if __name__ == "__main__":
    main()
