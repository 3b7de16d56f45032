"""Interconnections linearised exactly, and where the finite difference of python-control ends.

    x_i' = f_i(x_i, u_i)    y_i = h_i(x_i, u_i)    u = K y + M w

Three interconnections around a layer whose covariance has nearly collapsed, Sigma* = 1e-7 I, or
that closes an algebraic loop. `ct.linearize` takes steps of 1e-6 through the whole; the exact
linearisation combines those of the parts. Every matrix is compared with one derived by hand.
"""

import control as ct
import numpy as np

import gausscontrol as gct

SCALE = 1e-7  # of Sigma*, [x]^2
VALUES = np.array([[1.0, -4.0], [4.0, -3.0]])
# M(Sigma*) = 0, so the covariance moves by L(E) = s (V E + E V^T); here on (E11, E21, E22).
LEAF = SCALE * np.array([[2.0, -8.0, 0.0], [4.0, -2.0, -4.0], [0.0, 8.0, -6.0]])


def nearly_collapsed(inputs: str) -> tuple[gct.MomentSystem, np.ndarray]:
    """Return a layer with the equilibrium 1e-7 I, and the state there."""
    model = gct.GaussianTransformer(-SCALE * VALUES, np.eye(2), VALUES)
    layer = gct.moment_system(model, inputs=inputs, outputs="Sigma", name="layer")
    return layer, gct.pack(np.zeros(2), SCALE * np.eye(2))


def filtered() -> tuple:
    """Return a layer whose covariance is read through lags of 1, and its A by hand."""
    layer, state = nearly_collapsed("b")
    lags = ct.ss(-np.eye(3), np.eye(3), np.eye(3), np.zeros((3, 3)), name="lags")
    system = ct.interconnect(
        [layer, lags],
        connections=[[f"lags.u[{i}]", f"layer.Sigma[{i}]"] for i in range(3)],
        inplist="layer.b",
        outlist="lags",
    )
    nothing = np.zeros((3, 3))
    by_hand = np.block([[LEAF, nothing], [np.eye(3), -np.eye(3)]])
    return system, [state, SCALE, 0, SCALE], 0, mean_beside(by_hand)


def regulated() -> tuple:
    """Return a layer with the feedback dA = (Sigma* - Sigma) / s, and its A by hand."""
    layer, state = nearly_collapsed("A")
    # Sigma = (S11, S21, S22) to A = (a11, a12, a21, a22)
    spread = np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]) / SCALE
    system = layer.feedback(ct.ss([], [], [], spread, name="regulator"))
    # A change dA moves Sigma by s (dA + dA^T), hence by -2 E.
    return system, state, spread @ gct.vech(SCALE * np.eye(2)), mean_beside(LEAF - 2 * np.eye(3))


def looped() -> tuple:
    """Return a layer with b = w + 0.8 (mu + 0.5 b), an algebraic loop, and its A by hand."""
    a, beta, v, mean, spread = 0.5, 1.0, -0.25, 0.3, 2.0
    layer = gct.moment_system(gct.GaussianTransformer(a, beta, v), outputs="mu", name="layer")
    mixer = ct.ss([], [], [], [[1.0, 0.5]], inputs=["mu", "b"], outputs="mix", name="mixer")
    system = ct.interconnect(
        [layer, mixer],
        connections=[
            ["layer.b[0]", ("mixer", "mix", 0.8)],
            ["mixer.mu", "layer.mu[0]"],
            ["mixer.b", ("mixer", "mix", 0.8)],
        ],
        inplist=[["layer.b[0]", "mixer.b"]],
        outlist=["layer.mu[0]"],
    )
    # b = (w + 0.8 mu) / 0.6
    drift = a + v * beta * spread
    by_hand = [[drift + v + 0.8 / 0.6, v * beta * mean], [0, 2 * (a + 2 * v * beta * spread)]]
    return system, [mean, spread], 0, np.array(by_hand)


def mean_beside(covariance_part: np.ndarray) -> np.ndarray:
    """Return A with the equation of the mean, mu' = V mu, in front."""
    size = 2 + len(covariance_part)
    whole = np.zeros((size, size))
    whole[:2, :2] = VALUES
    whole[2:, 2:] = covariance_part
    return whole


def slowest(A: np.ndarray) -> float:
    """Return the abscissa of what follows the mean."""
    return float(np.linalg.eigvals(A[2:, 2:] if len(A) > 2 else A).real.max())


def main() -> None:
    """Print abscissae and errors of both linearisations; raise if the exact one is not exact."""
    print(
        f"{'interconnection':<18}{'by hand':>10}{'exact':>12}{'error':>9}{'differenced':>14}  error"
    )
    for build in (filtered, regulated, looped):
        system, state, inputs, by_hand = build()
        exact = gct.exact_linearize(system, state, inputs, require_exact=True).A
        error = np.abs(exact - by_hand).max()
        row = f"{build.__name__:<18}{slowest(by_hand):>10.3g}{slowest(exact):>12.3g}{error:>9.1g}"
        try:
            differenced = ct.linearize(system, state, inputs).A
            print(f"{row}{slowest(differenced):>14.3g}  {np.abs(differenced - by_hand).max():.1e}")
        except RuntimeError as refusal:
            print(f"{row}       refused: {refusal}")
        if error > 1e-12:
            raise RuntimeError(f"{build.__name__}: off the matrix derived by hand by {error:.1e}")

    # A function of the user's own has no formula: it is differenced, alone, and named.
    layer, state = nearly_collapsed("b")
    clip = ct.nlsys(None, lambda t, x, u, params: np.tanh(u), inputs=2, outputs=2, name="clip")
    print(f"differenced in layer * clip: {', '.join(gct.differenced_subsystems(layer * clip))}")


if __name__ == "__main__":
    main()
