"""Two feedback loops: Sigma as the gain of mu, and a regulator that holds Sigma.

1.  The mean equation mu' = (A + V) mu + V Sigma B mu + b is a linear plant with input matrix V in
    state feedback u = Sigma B mu: the covariance is the gain. The loop is built from its parts in
    python-control and gives the trajectory of the moment system.
2.  An unstable equilibrium of the covariance is held by a linear-quadratic regulator acting on the
    feed-forward matrix A, designed on the linearisation and closed around the nonlinear system.
"""

import control as ct
import numpy as np

import gausscontrol as gct

TIGHT = {"rtol": 1e-10, "atol": 1e-12}


def gain_loop(model: gct.GaussianTransformer) -> ct.InterconnectedSystem:
    """Return the mean as a plant in feedback through the covariance."""
    A, B, V, dim = model.A, model.B[0], model.V[0], model.dim
    plant = ct.nlsys(
        lambda t, x, u, params: (A + V) @ x + V @ u + model.b,
        inputs=[f"w[{i}]" for i in range(dim)],
        outputs=[f"x[{i}]" for i in range(dim)],
        states=dim,
        name="plant",
    )
    size = dim * (dim + 1) // 2
    gain = ct.nlsys(
        None,
        lambda t, x, u, params: gct.unvech(u[dim:]) @ B @ u[:dim],
        inputs=[f"x[{i}]" for i in range(dim)] + [f"Sigma[{k}]" for k in range(size)],
        outputs=[f"w[{i}]" for i in range(dim)],
        name="gain",
    )
    covariance = gct.moment_system(model, outputs="Sigma", name="covariance")
    return ct.interconnect(
        [covariance, plant, gain], inputs=covariance.input_labels, outputs=plant.output_labels
    )


def regulated(model: gct.GaussianTransformer, equilibrium: gct.Equilibrium) -> tuple:
    """Return the closed loop of the moment system with an LQR on A, its input and its eigenvalues.

    u = K vech(Sigma*) - K vech(Sigma): the first term is the input, constant.
    """
    K, _, poles = gct.covariance_lqr(model, equilibrium, Q=1.0, R=1.0, inputs=("A",))
    system = gct.moment_system(model, inputs=("A",), outputs="Sigma", name="layer")
    # A matrix, not a function: what linearises the loop can then read the gain.
    loop = system.feedback(ct.ss([], [], [], K))
    return loop, K @ gct.vech(equilibrium.covariance), poles


def main() -> None:
    """Print how closely the loop of parts follows (1), and where the regulator brings Sigma."""
    model = gct.GaussianTransformer(
        [[1.0, 0.4], [-0.4, 0.8]], [[1.0, 0.2], [0.0, 0.6]], -0.5 * np.eye(2), b=[0.3, -0.2]
    )
    times = np.linspace(0, 10, 21)
    mean, covariance = np.array([1.0, -1.0]), np.array([[0.5, 0.1], [0.1, 2.0]])
    state = np.concatenate([gct.pack(mean, covariance), mean])
    loop = ct.input_output_response(
        gain_loop(model), times, np.zeros((2, times.size)), state, solve_ivp_kwargs=TIGHT
    )
    exact = gct.moment_response(model, times, (mean, covariance))
    print("Sigma as the gain of mu")
    print(f"  plant in feedback against (1)  {np.abs(loop.outputs - exact.mean).max():.1e}")

    runaway = gct.GaussianTransformer(-np.eye(2), np.eye(2), 0.5 * np.eye(2))
    equilibrium = gct.find_equilibrium(runaway)
    closed, constant, poles = regulated(runaway, equilibrium)
    start = gct.pack(np.zeros(2), equilibrium.covariance + np.array([[0.3, 0.1], [0.1, -0.2]]))
    held = ct.input_output_response(
        closed, np.linspace(0, 20, 5), list(constant), start, solve_ivp_kwargs=TIGHT
    )
    distance = np.abs(held.outputs[:, -1] - gct.vech(equilibrium.covariance)).max()
    print("A regulator on A holds an unstable equilibrium")
    print(f"  open-loop abscissa    {equilibrium.covariance_abscissa:.4g} per unit depth")
    print(f"  closed-loop abscissa  {poles.real.max():.4g} per unit depth")
    print(f"  distance at depth 20  {distance:.1e}")


if __name__ == "__main__":
    main()
