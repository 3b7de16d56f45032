"""The Kalman-Bucy link: a filter's error covariance is a Gaussian Transformer (Theory 6.1).

Without process noise the error covariance of a Kalman-Bucy filter obeys

    P' = A P + P A^T - P C^T R^-1 C P,

which is equation (1) with V = -I and B = C^T R^-1 C / 2. Its limit is therefore both an
equilibrium of the model and the filter's steady state, which python-control computes by `ct.lqe`,
and the transient is exact in closed form.
"""

import control as ct
import numpy as np

import gausscontrol as gct


def filter_model(A: np.ndarray, C: np.ndarray, R: np.ndarray) -> gct.GaussianTransformer:
    """Return the model whose covariance equation is that of the filter."""
    return gct.GaussianTransformer(
        A, C.T @ np.linalg.solve(R, C) / 2, -np.eye(len(A)), name="filter"
    )


def main() -> None:
    """Compare equilibrium, certificate and transient with python-control's filter."""
    rng = np.random.default_rng(1)
    dim = 4
    # Antistable, so that the steady state is positive definite; observed through two outputs.
    A = np.eye(dim) + 0.5 * rng.normal(size=(dim, dim))
    C, R = rng.normal(size=(2, dim)), np.diag([1.0, 2.0])
    model = filter_model(A, C, R)

    equilibrium = gct.find_equilibrium(model)
    _, steady, _ = ct.lqe(A, np.eye(dim), C, np.zeros((dim, dim)), R)
    print(equilibrium)
    error = np.linalg.norm(equilibrium.covariance - steady) / np.linalg.norm(steady)
    print(f"distance from ct.lqe, relative   {error:.1e}")

    # C^T R^-1 C has rank 2 < 4, so the attention form is only semidefinite: the certificate rests
    # on observability instead.
    certificate = gct.certify_global_stability(model, equilibrium)
    print(certificate)

    times = np.linspace(0, 2, 9)
    response = gct.moment_response(model, times, (np.zeros(dim), np.eye(dim)))
    plain = ct.nlsys(
        lambda t, x, u, params: gct.vech(riccati_rate(gct.unvech(x), A, C, R)),
        inputs=0,
        outputs=dim * (dim + 1) // 2,
        states=dim * (dim + 1) // 2,
    )
    oracle = ct.input_output_response(
        plain,
        times,
        np.zeros((0, times.size)),
        gct.vech(np.eye(dim)),
        solve_ivp_kwargs={"rtol": 1e-11, "atol": 1e-13},
    )
    gap = np.abs(gct.vech(response.covariance) - oracle.states).max()
    print(f"transient ({response.method}) from the integrated filter equation   {gap:.1e}")


def riccati_rate(P: np.ndarray, A: np.ndarray, C: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return the right side of the filter's covariance equation as its textbook has it."""
    gain = P @ C.T @ np.linalg.inv(R)
    return A @ P + P @ A.T - gain @ R @ gain.T


if __name__ == "__main__":
    main()
