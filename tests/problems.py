"""The shared zoo: systems with known answers, generators of random ones, and slow plain oracles.

    mu'    = (A + Vbar) mu + sum_h V_h Sigma B_h mu + sum_h V_h Sigma k_h + b
    Sigma' = A Sigma + Sigma A^T + sum_h (V_h Sigma B_h Sigma + Sigma B_h^T Sigma V_h^T)      (1)

Reference cases come from public sources, named in `Problem.source`; every number in `known` stands
in that source or follows from it by the formula beside it. The oracles share no code with
`gausscontrol.model.moments`: they may be slow, and they must be obvious.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from gausscontrol import GaussianTransformer

__all__ = [
    "Problem",
    "all_problems",
    "attention_blow_up",
    "attention_collapse",
    "carex_1_2",
    "cubic_factor",
    "distance_to_instability",
    "generalised_lyapunov",
    "lotka_volterra",
    "lyapunov_globally_stable",
    "mimetic_clean",
    "no_equilibrium",
    "scalar_riccati",
    "stable_not_normal",
    "heads_of",
    "two_attractors",
    "planted_problem",
    "random_covariance",
    "random_model",
    "rank_one_problem",
    "central_difference",
    "complex_step_jacobian",
    "plain_attention_form",
    "plain_rates",
    "reference_solution",
]


@dataclass(frozen=True, eq=False)
class Problem:
    """A model with an answer from elsewhere.

    `covariance` is an equilibrium of the model (None if it has no nonzero one that is known), and
    `known` holds the other facts under the names that each function's docstring gives.
    """

    name: str
    source: str
    model: GaussianTransformer
    covariance: np.ndarray | None = None
    known: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


# -- reference cases ------------------------------------------------------------------------------


def carex_1_2() -> Problem:
    """A Riccati equation whose closed loop becomes a model with a rank-1 equilibrium.

    Known: A, G, Q of the equation A^T X + X A - X G X + Q = 0, its stabilising `solution` X, and
    the `rank` of the equilibrium.
    """
    A = np.array([[4.0, 3.0], [-4.5, -3.5]])
    b = np.array([1.0, -1.0])
    Q = np.array([[9.0, 6.0], [6.0, 4.0]])
    X = (1 + np.sqrt(2)) * Q
    G = np.outer(b, b)
    return Problem(
        "carex-1.2",
        "CAREX example 1.2 (SLICOT BB01AD; SLICOT-Reference issue 44)",
        GaussianTransformer((A - G @ X).T, G / 2, np.eye(2)),
        2 * np.sqrt(2) * Q,
        {"A": A, "G": G, "Q": Q, "solution": X, "rank": 1},
    )


def lyapunov_globally_stable() -> Problem:
    """V = I: the inverse of the equilibrium solves a Lyapunov equation.

    Known: `C` and the four-digit `solution` X of A^T X + X A = C, the `spectrum` of the covariance
    linearisation, `form_maximum` (largest value of the attention form), `globally_stable`.
    """
    A = np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
    C = np.array([[25.0, 24.0, 15.0], [24.0, 32.0, 8.0], [15.0, 8.0, 40.0]])
    X = np.array([[3.2604, 2.7187, 1.8616], [2.7187, 4.4271, 0.5699], [1.8616, 0.5699, 6.0461]])
    operator = np.kron(A.T, np.eye(3)) + np.kron(np.eye(3), A.T)
    exact = np.linalg.solve(operator, C.reshape(-1)).reshape(3, 3)
    return Problem(
        "sb03qd",
        "SLICOT, example program of SB03QD",
        GaussianTransformer(A, -C / 2, np.eye(3)),
        np.linalg.inv((exact + exact.T) / 2),
        {
            "C": C,
            "solution": X,
            "spectrum": np.array([-8.0, -7.0, -6.0, -6.0, -5.0, -4.0]),
            "form_maximum": -1.838,
            "globally_stable": True,
        },
    )


def generalised_lyapunov() -> Problem:
    """A Newton step: A^T X E + E^T X A = Y is L(X) = Y at a balanced equilibrium Sigma = I.

    The model has V = A^T, B = E and the feed-forward matrix -A^T E, so that M(I) = 0 and
    L(X) = V X B + B^T X V^T. Known: `A`, `E`, `X`, `Y`.
    """
    A = np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, 0.0, 2.0]])
    E = np.array([[1.0, 3.0, 0.0], [3.0, 2.0, 1.0], [1.0, 0.0, 1.0]])
    X = -np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 3.0]])
    Y = np.array([[-64.0, -73.0, -28.0], [-73.0, -70.0, -25.0], [-28.0, -25.0, -18.0]])
    return Problem(
        "sg03ad",
        "SLICOT, example program of SG03AD",
        GaussianTransformer(-A.T @ E, E, A.T),
        np.eye(3),
        {"A": A, "E": E, "X": X, "Y": Y},
    )


def scalar_riccati() -> Problem:
    """d = 1 with finite escape: sigma' = 2 a sigma + 2 v b sigma^2.

    Known: `start` and `blow_up_time` = log(1 + a / (v b sigma0)) / (2 a).
    """
    return Problem(
        "scalar-riccati",
        "Scalar Riccati equation, textbook formula for its finite escape time",
        GaussianTransformer(0.5, 1.0, 1.0),
        None,
        {"start": np.array([[0.25]]), "blow_up_time": 1.0986122887},
    )


def cubic_factor() -> Problem:
    """d = 1: the factor obeys x' = -x + x^3, sigma = x^2, with an unstable equilibrium at 1.

    Known: `start` (beyond the threshold), `blow_up_time` = log(1 + a / sigma0) / (2 a), a = -1,
    and `collapsing_start` (below it).
    """
    return Problem(
        "cubic-factor",
        "Cubic polynomial system of Drake's region-of-attraction example",
        GaussianTransformer(-1.0, 1.0, 1.0),
        np.eye(1),
        {
            "start": np.array([[1.1]]),
            "blow_up_time": 1.19894763639,
            "collapsing_start": np.array([[0.9]]),
        },
    )


def attention_blow_up() -> Problem:
    """Pure attention, V = I, that escapes. Case 6a.

    Known: `start` = I/2 and `blow_up_time` = 2 / lambda_max(B + B^T).
    """
    B = np.array([[0.174072, 0.484521], [0.280218, 1.306821]])
    return Problem(
        "attention-blow-up",
        "Castin, Ablin, Carrillo, Peyre, arXiv 2501.18322, and its published scripts",
        GaussianTransformer(np.zeros((2, 2)), B, np.eye(2)),
        None,
        {"start": np.eye(2) / 2, "blow_up_time": 0.70234060},
    )


def attention_collapse() -> Problem:
    """Pure attention that tends to zero at an algebraic rate. Case 6b.

    Known: `start` = I/2, and the `trace` 0.028 that is left at `depth` 1000.
    """
    random = np.random.RandomState(35)  # the scripts use numpy.random.seed(35)
    Q = random.rand(2, 2)
    R = random.randn(2, 2)
    return Problem(
        "attention-collapse",
        "Castin, Ablin, Carrillo, Peyre, arXiv 2501.18322, and its published scripts",
        GaussianTransformer(np.zeros((2, 2)), -Q.T @ Q / np.sqrt(2), R @ R.T),
        None,
        {"start": np.eye(2) / 2, "depth": 1000.0, "trace": 0.028},
    )


def mimetic_clean(dim: int = 8) -> Problem:
    """Mimetic initialisation without noise: a multiple of I, globally stable.

    Known: `scale` s, `variance` 1 / (0.4 * 0.7 * s) to six digits, `globally_stable`.
    """
    scale = 1 / 8
    return Problem(
        "mimetic-clean",
        "Trockman and Kolter 2023, mimetic initialisation of self-attention layers",
        GaussianTransformer(np.eye(dim), scale * 0.7 * np.eye(dim), -0.4 * np.eye(dim)),
        np.eye(dim) / (0.4 * 0.7 * scale),
        {"scale": scale, "variance": 28.5714, "globally_stable": True},
    )


def distance_to_instability() -> Problem:
    """No attention: the mean matrix M + Vbar is a Hurwitz matrix close to instability.

    Known: `beta`, the distance of A to the matrices with an eigenvalue on the imaginary axis.
    """
    A = np.array(
        [
            [246.5, 242.5, 202.5, -197.5],
            [-252.5, -248.5, -207.5, 202.5],
            [-302.5, -297.5, -248.5, 242.5],
            [-307.5, -302.5, -252.5, 246.5],
        ]
    )
    return Problem(
        "ab13fd",
        "SLICOT, example program of AB13FD",
        GaussianTransformer(A, np.zeros((4, 4)), np.zeros((4, 4))),
        None,
        {"beta": 0.0039196472317},
    )


def lotka_volterra(
    growth: ArrayLike = (1.0, 1.0), interaction: ArrayLike = ((-1.0, -0.5), (-0.5, -1.0))
) -> Problem:
    """Heads V = (C_ij / 2) E_ij, B = E_ji, A = diag(r) / 2 keep Sigma = diag(x) diagonal.

    There x_i' = x_i (r_i + sum_j C_ij x_j). The default is symmetric competition, whose species
    coexist at (2/3, 2/3). Known: `growth`, `interaction`, `coexistence` = -C^-1 r.
    """
    r, C = np.asarray(growth, dtype=float), np.asarray(interaction, dtype=float)
    pairs = [(i, j) for i in range(r.size) for j in range(r.size) if C[i, j] != 0]
    V, B = np.zeros((2, len(pairs), r.size, r.size))
    for head, (i, j) in enumerate(pairs):
        V[head, i, j] = C[i, j] / 2
        B[head, j, i] = 1.0
    coexistence = np.linalg.solve(C, -r)
    return Problem(
        "lotka-volterra",
        "Lotka and Volterra's equations, embedded exactly on diagonal covariances",
        GaussianTransformer(np.diag(r) / 2, B, V),
        np.diag(coexistence) if (coexistence > 0).all() else None,
        {"growth": r, "interaction": C, "coexistence": coexistence},
    )


def no_equilibrium(dim: int = 2) -> Problem:
    """A = V = B = I, which has no positive definite equilibrium.

    Known: `false_roots`, where root finders end (0 is singular, -I is no covariance).
    """
    identity = np.eye(dim)
    return Problem(
        "no-equilibrium",
        "Sigma' = 2 Sigma + 2 Sigma^2 > 0 for every Sigma > 0",
        GaussianTransformer(identity, identity, identity),
        None,
        {"false_roots": (0 * identity, -identity)},
    )


def stable_not_normal() -> Problem:
    """A Hurwitz matrix that looks unstable to `eigvalsh`; no attention.

    Known: spectral `abscissa` of A, `symmetric_part` (its largest eigenvalue), and the
    `wrong_abscissa` that `eigvalsh` reads from one triangle.
    """
    return Problem(
        "stable-not-normal",
        "cvxpy issue 932",
        GaussianTransformer(
            [[0.0, 1.0], [-578.0978, -67.4375]], np.zeros((2, 2)), np.zeros((2, 2))
        ),
        None,
        {"abscissa": -10.08, "symmetric_part": 256.8, "wrong_abscissa": 545.0},
    )


def all_problems() -> list[Problem]:
    """Return every reference case once."""
    return [
        carex_1_2(),
        lyapunov_globally_stable(),
        generalised_lyapunov(),
        scalar_riccati(),
        cubic_factor(),
        attention_blow_up(),
        attention_collapse(),
        mimetic_clean(),
        distance_to_instability(),
        lotka_volterra(),
        no_equilibrium(),
        stable_not_normal(),
    ]


def heads_of(operator):
    """Return V, B with sum_h V_h E B_h = operator(E) on symmetric matrices, by one SVD."""
    dim = 2
    matrix = np.zeros((dim,) * 4)  # image (i, j) of the entry (k, l)
    for k, l in np.ndindex(dim, dim):
        E = np.zeros((dim, dim))
        E[k, l] = 1.0
        matrix[:, :, k, l] = operator((E + E.T) / 2)
    rearranged = matrix.transpose(0, 2, 3, 1).reshape(dim**2, dim**2)  # (i, k) by (l, j)
    U, values, Wt = np.linalg.svd(rearranged)
    root = np.sqrt(values)
    return (U * root).T.reshape(-1, dim, dim), (root[:, None] * Wt).reshape(-1, dim, dim)


def two_attractors():
    """Theory 4.7: q <= 0 and L(I) Hurwitz at I, yet there is a second equilibrium."""
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    second = np.diag([2.0, 0.5])
    E1 = second - np.eye(2)

    def operator(E):
        share = np.sum(E * E1) / np.sum(E1 * E1)
        return -share * J - (E - share * E1)

    V, B = heads_of(operator)
    assert np.allclose((V @ E1 @ B).sum(axis=0), -J)
    return GaussianTransformer([[0.6, 1.4], [-1.4, 1.2]], B, V), second


# -- generators -----------------------------------------------------------------------------------


def random_covariance(
    rng: np.random.Generator, dim: int, *, rank: int | None = None, condition: float = 1e2
) -> np.ndarray:
    """Return a covariance with random axes and nonzero eigenvalues spread up to `condition`."""
    axes, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = condition ** rng.uniform(-0.5, 0.5, dim)
    values[dim if rank is None else rank :] = 0
    covariance = axes * values @ axes.T
    return (covariance + covariance.T) / 2


def random_model(
    rng: np.random.Generator, dim: int, heads: int, dt: float = 0, tilted: bool = False
) -> GaussianTransformer:
    """Return a model with normal entries over sqrt(d), and tilts if asked for."""
    A = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    B, V = rng.standard_normal((2, heads, dim, dim)) / np.sqrt(dim)
    b = rng.standard_normal(dim)
    k = rng.standard_normal((heads, dim)) if tilted else None
    return GaussianTransformer(A, B, V, b, k=k, dt=dt)


def planted_problem(
    rng: np.random.Generator, dim: int, heads: int, kappa: float
) -> tuple[GaussianTransformer, np.ndarray]:
    """Return a model and its globally attracting equilibrium Sigma*, of condition up to 1e3.

    In whitened coordinates V~_h = -(P P^T/d + .2 I) + noise, B~_h = Q Q^T/d + .2 I + noise, the
    noise halved until the attention form is negative definite, K = kappa (Z - Z^T)/2 and
    A~ = K - T~(I), so that M~(I) = K is skew. P, Q, Z have standard normal entries.
    """
    identity = np.eye(dim)
    P, Q, noise_V, noise_B = rng.standard_normal((4, heads, dim, dim))
    base_V = -(P @ P.transpose(0, 2, 1) / dim + 0.2 * identity)
    base_B = Q @ Q.transpose(0, 2, 1) / dim + 0.2 * identity
    noise = 0.5 / np.sqrt(dim)
    V, B = base_V + noise * noise_V, base_B + noise * noise_B
    while np.linalg.eigvalsh(plain_attention_form(V, B))[-1] > -0.01:
        noise /= 2
        V, B = base_V + noise * noise_V, base_B + noise * noise_B
    Z = rng.standard_normal((dim, dim))
    A = kappa * (Z - Z.T) / 2 - (V @ B).sum(axis=0)

    axes, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = 10.0 ** rng.uniform(-1.5, 1.5, dim)
    covariance = axes * values @ axes.T
    root = axes * np.sqrt(values) @ axes.T
    inverse = axes / np.sqrt(values) @ axes.T
    model = GaussianTransformer(
        root @ A @ inverse,
        inverse @ B @ inverse,
        root @ V @ inverse,
        root @ rng.standard_normal(dim),
        name=f"planted d={dim} h={heads} kappa={kappa:g}",
    )
    return model, (covariance + covariance.T) / 2


def rank_one_problem(rng: np.random.Generator, dim: int) -> tuple[GaussianTransformer, np.ndarray]:
    """Return a bounded model, V < 0 < B, and a start u u^T of rank 1."""
    P, Q, A = rng.standard_normal((3, dim, dim))
    V = -(P @ P.T / dim + 0.2 * np.eye(dim))
    B = Q @ Q.T / dim + 0.2 * np.eye(dim)
    u = rng.standard_normal(dim)
    return GaussianTransformer(A / np.sqrt(dim), B, V), np.outer(u, u)


# -- oracles --------------------------------------------------------------------------------------


def complex_step_jacobian(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray
) -> np.ndarray:
    """Return the Jacobian of an analytic function, exact to rounding: Im f(x + i h e) / h."""
    step = 1e-30
    columns = []
    for position in range(x.size):
        shifted = x.astype(complex)
        shifted[position] += 1j * step
        columns.append(function(shifted).imag / step)
    return np.stack(columns, axis=-1)


def central_difference(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 1.0
) -> np.ndarray:
    """Return (f(x + h e) - f(x - h e)) / 2h, exact up to rounding if f is quadratic."""
    shifts = step * np.eye(x.size)
    return np.stack(
        [(function(x + shift) - function(x - shift)) / (2 * step) for shift in shifts], axis=-1
    )


def plain_attention_form(V: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix of <E, sum_h V_h E B_h> in an orthonormal symmetric basis."""
    dim = V.shape[-1]
    basis = []
    for j in range(dim):
        for i in range(j, dim):
            E = np.zeros((dim, dim))
            E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
            basis.append(E)
    basis = np.array(basis)
    images = (V[:, None] @ basis @ B[:, None]).sum(axis=0)
    form = basis.reshape(len(basis), -1) @ images.reshape(len(basis), -1).T
    return (form + form.T) / 2


def plain_rates(
    model: GaussianTransformer, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mu' and Sigma' of system (1), term by term."""
    S = covariance
    VS = np.einsum("hij,jk->hik", model.V, S)
    T = np.einsum("hik,hkl->il", VS, model.B)
    covariance_rate = model.A @ S + S @ model.A.T + T @ S + S @ T.T
    mean_rate = model.A @ mean + np.einsum("hij,j->i", model.V, mean) + T @ mean
    mean_rate = mean_rate + np.einsum("hij,hj->i", VS, model.k) + model.b
    return mean_rate, covariance_rate


def reference_solution(
    model: GaussianTransformer, mean: ArrayLike, covariance: ArrayLike, times: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Integrate (1) in continuous depth on a factor of the start, so that the rank is kept.

    Returns mean (d, N) and covariance (d, d, N) at `times`, from a start at `times[0]`, by an
    eighth-order Runge-Kutta method with relative tolerance 1e-12. Raises RuntimeError where the
    integration cannot reach the end, as after a blow-up.
    """
    mean, covariance = np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float)
    times = np.asarray(times, dtype=float)
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-13 * values[-1]
    factor = vectors[:, keep] * np.sqrt(values[keep])
    dim = mean.size

    def right_side(_: float, state: np.ndarray) -> np.ndarray:
        mu, L = state[:dim], state[dim:].reshape(dim, -1)
        S = L @ L.T
        mean_rate, _ = plain_rates(model, mu, S)
        drift = model.A + np.einsum("hij,hjk->ik", np.einsum("hij,jk->hik", model.V, S), model.B)
        return np.concatenate([mean_rate, (drift @ L).reshape(-1)])

    solution = solve_ivp(
        right_side,
        (times[0], times[-1]),
        np.concatenate([mean, factor.reshape(-1)]),
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-14 * max(1.0, float(np.abs(factor).max(initial=0.0))),
    )
    if solution.status != 0:
        raise RuntimeError(f"integration stopped at {solution.t[-1:]}: {solution.message}")
    L = solution.y[dim:].reshape(dim, -1, times.size)
    return solution.y[:dim], np.einsum("irt,jrt->ijt", L, L)
