"""A model in balanced coordinates, reached by powers of two and therefore without rounding.

    x -> D x,   V_h -> c_h V_h,   B_h -> B_h / c_h,   t -> tau t        (D diagonal; Theory 1.7)

D minimises sum_h |V_h|^2 |B_h|^2 at a given determinant, a convex problem in log D whose solution
moves along with the units of the coordinates; c_h, tau and the determinant then make |V_h| = |B_h|
and bring A and attention to about 1. So a certificate sees the same numbers, up to factors of two,
whatever units and head gauge the model came in.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.optimize

from gausscontrol.errors import NotCertified
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Balanced", "balanced", "check_continuous"]

# Weight of A beside attention, and of staying put in directions that nothing determines.
FEED_FORWARD_WEIGHT = 0.1
RIDGE = 1e-6
LARGEST_EXPONENT = 400.0
# Beyond this size sums over all entries are matrix products, and least squares normal equations.
DENSE_DIM = 32


class Balanced:
    """A model and its balanced form.

    Attributes
    ----------
    original : GaussianTransformer
    model : GaussianTransformer
        The balanced one; b and k are zero.
    scale : (d,) ndarray
        D, powers of two: x_balanced = D x.
    depth : float
        tau, a power of two: a rate per unit of balanced depth is tau times that per unit depth.
    gauge : (h,) ndarray
        c, powers of two: B_h = c_h D B_balanced D.
    """

    def __init__(self, original: GaussianTransformer) -> None:
        self.original = original
        A, V, B = original.A, original.V, original.B
        exponents = _exponents(A, V, B)
        # What overflows here is refused below, where nothing comes back as it was.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            self._balance(A, V, B, exponents)

    def _balance(self, A: np.ndarray, V: np.ndarray, B: np.ndarray, exponents: np.ndarray) -> None:
        depth = -_exponent(_similar(A, exponents))
        V = np.array([_similar(v, exponents) for v in V])
        B = np.array([_congruent(b, exponents) for b in B])
        # tau scales A and T alike; c_h and the common factor of D share out what is left.
        gauge = np.array([_gauge(v, b) for v, b in zip(V, B, strict=True)])
        common = (_size(V, B) + depth) // 2
        A = np.ldexp(_similar(A, exponents), depth)
        B = np.array([np.ldexp(b, -g - 2 * common) for b, g in zip(B, gauge, strict=True)])
        V = np.array([np.ldexp(v, g + depth) for v, g in zip(V, gauge, strict=True)])
        if not all(np.isfinite(matrix).all() for matrix in (A, B, V)):
            raise _too_spread()
        self.model = GaussianTransformer(A, B, V)
        self.scale = np.ldexp(1.0, exponents + common)
        self.depth = float(np.ldexp(1.0, depth))
        self.gauge = np.ldexp(1.0, gauge)
        positive = (self.scale > 0).all() and (self.gauge > 0).all() and self.depth > 0
        finite = all(np.isfinite(x).all() for x in (self.scale**4, self.depth, self.gauge))
        if not (positive and finite):
            raise _too_spread()
        self._check(exponents + common, depth, gauge)

    def _check(self, exponents: np.ndarray, depth: int, gauge: np.ndarray) -> None:
        """Refuse data so spread that scaling them by powers of two was not exact."""
        A, V, B = self.model.A, self.model.V, self.model.B
        pairs = [(np.ldexp(_similar(A, -exponents), -depth), self.original.A)]
        for h, g in enumerate(gauge):
            pairs.append((np.ldexp(_similar(V[h], -exponents), -g - depth), self.original.V[h]))
            pairs.append((np.ldexp(_congruent(B[h], -exponents), g), self.original.B[h]))
        if not all(np.array_equal(back, was) for back, was in pairs):
            raise _too_spread()

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.model.dim

    def covariance(self, Sigma: np.ndarray) -> np.ndarray:
        """Return D Sigma D."""
        return self.scale[:, None] * Sigma * self.scale

    def to_original(self, P: np.ndarray) -> np.ndarray:
        """Return D P D, so that tr(P_original Sigma) = tr(P Sigma_balanced)."""
        return self.scale[:, None] * P * self.scale

    def to_balanced(self, P: np.ndarray) -> np.ndarray:
        """Undo `to_original`."""
        return P / self.scale[:, None] / self.scale

    @property
    def key_gauge(self) -> float:
        """Gauge c of the head with the largest balanced key, which stands for a shared key."""
        return float(self.gauge[np.linalg.norm(self.model.B, axis=(1, 2)).argmax()])

    def multiplier_to_original(self, G: np.ndarray) -> np.ndarray:
        """Return (D (x) D) G (D (x) D) / tau, for q_P per unit depth."""
        double = np.kron(self.scale, self.scale)
        return double[:, None] * G * double / self.depth

    def multiplier_to_balanced(self, G: np.ndarray) -> np.ndarray:
        """Undo `multiplier_to_original`."""
        double = np.kron(self.scale, self.scale)
        return G / double[:, None] / double * self.depth


@lru_cache(maxsize=8)
def balanced(model: GaussianTransformer) -> Balanced:
    """Return the balanced form of a model, remembered for the last few models."""
    return Balanced(model)


def check_continuous(model: GaussianTransformer) -> None:
    """Refuse residual layers, of which these certificates do not speak."""
    if model.dt:
        raise NotCertified(
            f"dt: expected continuous depth, found layers of depth {model.dt:g}; boundedness, "
            "collapse and blow-up are certified for the differential equation, "
            "use model.replace(dt=0)"
        )


def _too_spread() -> NotCertified:
    return NotCertified(
        "model: its entries are spread over more than double precision can balance; "
        "change the units of the coordinates"
    )


def _exponents(A: np.ndarray, V: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return log2 D, rounded, with mean zero up to rounding."""
    start = _log_least_squares(A, V, B)
    large = len(A) > DENSE_DIM
    squares = [_scaled_squares(X) if large else _squares(X) for X in (A, *V, *B)]
    heads, log_sum = len(V), _product_sum if large else _log_sum

    def objective(d: np.ndarray) -> tuple[float, np.ndarray]:
        feed, slope_A = log_sum(squares[0], d, -1.0)
        keyed = [log_sum(s, d, -1.0) for s in squares[1 : heads + 1]]
        keys = [log_sum(s, -d, 1.0) for s in squares[heads + 1 :]]
        terms = np.array([v[0] + b[0] for v, b in zip(keyed, keys, strict=True)])
        gap = d - start
        # Without A its share is left out, not minus infinity.
        feed = feed if np.isfinite(feed) else 0.0
        value = FEED_FORWARD_WEIGHT * feed + RIDGE * gap @ gap
        slope = FEED_FORWARD_WEIGHT * slope_A + 2 * RIDGE * gap
        if np.isfinite(terms).any():
            top = terms.max()
            share = np.exp(terms - top)
            value += top + np.log(share.sum()) + 4 * d.mean()
            slopes = np.array([v[1] - b[1] for v, b in zip(keyed, keys, strict=True)])
            slope = slope + share / share.sum() @ slopes + 4 / d.size
        return value, slope

    found = scipy.optimize.minimize(objective, start, jac=True, method="BFGS").x
    found = found if np.isfinite(found).all() else start
    found = (found - found.mean()) / np.log(2)
    if np.abs(found).max() >= LARGEST_EXPONENT:
        # No key sees some coordinates, and the objective pulls them away without end.
        found = (start - start.mean()) / np.log(2)
    return np.rint(np.clip(found, -LARGEST_EXPONENT, LARGEST_EXPONENT)).astype(int)


def _squares(X: np.ndarray) -> np.ndarray:
    """Return log |X_ij|^2, minus infinity for zero entries."""
    with np.errstate(divide="ignore"):
        return 2 * np.log(np.abs(X))


def _log_sum(squares: np.ndarray, d: np.ndarray, sign: float) -> tuple[float, np.ndarray]:
    """Return log sum_ij X_ij^2 e^(2 d_i + 2 sign d_j) and its gradient in d."""
    exponent = squares + 2 * d[:, None] + 2 * sign * d
    top = exponent.max()
    if top == -np.inf:
        return -np.inf, np.zeros(d.size)
    share = np.exp(exponent - top)
    total = share.sum()
    return top + np.log(total), 2 * (share.sum(axis=1) + sign * share.sum(axis=0)) / total


def _scaled_squares(X: np.ndarray) -> tuple[np.ndarray, float]:
    """Return |X_ij|^2 over the largest of them, and the logarithm of that."""
    largest = float(np.abs(X).max())
    if not largest:
        return X, -np.inf
    return np.square(X / largest), 2 * np.log(largest)


def _product_sum(
    squares: tuple[np.ndarray, float], d: np.ndarray, sign: float
) -> tuple[float, np.ndarray]:
    """Return what `_log_sum` does, by products with the vectors e^(2 d) and e^(2 sign d)."""
    X, size = squares
    if size == -np.inf:
        return -np.inf, np.zeros(d.size)
    tops = d.max(), (sign * d).max()
    left, right = np.exp(2 * (d - tops[0])), np.exp(2 * (sign * d - tops[1]))
    rows = left * (X @ right)
    total = rows.sum()
    if not total > 0:  # lost to underflow: the scaled sum over entries is exact there
        with np.errstate(divide="ignore"):
            return _log_sum(np.log(X) + size, d, sign)
    columns = right * (left @ X)
    value = np.log(total) + size + 2 * (tops[0] + tops[1])
    return float(value), 2 * (rows + sign * columns) / total


def _normal_equations(A: np.ndarray, V: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Solve what `_log_least_squares` does by its normal equations, d + h + 1 of them."""
    dim, heads = len(A), len(V)
    matrix, right = np.zeros((dim + heads + 1,) * 2), np.zeros(dim + heads + 1)
    diagonal = np.arange(dim)
    for X, sign, unknown, weight in (
        (A, 1.0, dim + heads, -1.0),
        *((v, 1.0, dim + h, -1.0) for h, v in enumerate(V)),
        *((b, -1.0, dim + h, 1.0) for h, b in enumerate(B)),
    ):
        used = X != 0
        logs = -np.log(np.abs(X), out=np.zeros_like(X), where=used)
        rows, columns = used.sum(axis=1), used.sum(axis=0)
        matrix[:dim, :dim] -= sign * (used.astype(float) + used.T)
        matrix[diagonal, diagonal] += rows + columns
        coupling = weight * (sign * rows - columns)
        matrix[:dim, unknown] += coupling
        matrix[unknown, :dim] += coupling
        matrix[unknown, unknown] += weight**2 * rows.sum()
        right[:dim] += sign * logs.sum(axis=1) - logs.sum(axis=0)
        right[unknown] += weight * logs.sum()
    return np.linalg.lstsq(matrix, right)[0][:dim]


def _log_least_squares(A: np.ndarray, V: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return log D that brings all entries that are not zero closest to one size per matrix."""
    if len(A) > DENSE_DIM:
        return _normal_equations(A, V, B)
    dim, heads = len(A), len(V)
    rows, sides = [], []
    # Unknowns: log D, one gauge for each head, and the size of A.
    for X, sign, unknown, weight in (
        (A, 1.0, dim + heads, -1.0),
        *((v, 1.0, dim + h, -1.0) for h, v in enumerate(V)),
        *((b, -1.0, dim + h, 1.0) for h, b in enumerate(B)),
    ):
        i, j = np.nonzero(X)
        row = np.zeros((i.size, dim + heads + 1))
        row[np.arange(i.size), i] += sign
        row[np.arange(i.size), j] -= 1.0
        row[:, unknown] = weight
        rows.append(row)
        sides.append(-np.log(np.abs(X[i, j])))
    solution = np.linalg.lstsq(np.concatenate(rows), np.concatenate(sides))[0]
    return solution[:dim]


def _similar(X: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    return np.ldexp(X, exponents[:, None] - exponents)


def _congruent(X: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    return np.ldexp(X, -exponents[:, None] - exponents)


def _exponent(X: np.ndarray) -> int:
    """Return the power of two nearest above the Frobenius norm; 0 for zero."""
    norm, power = _norm(X)
    return power + int(np.frexp(norm)[1]) if norm else 0


def _norm(X: np.ndarray) -> tuple[float, int]:
    """Return the Frobenius norm as a number near 1 and a power of two, whatever its size."""
    power = int(np.frexp(np.abs(X).max())[1])
    return float(np.linalg.norm(np.ldexp(X, -power))), power


def _size(V: np.ndarray, B: np.ndarray) -> int:
    """Return the exponent of the norm of all |V_h| |B_h|."""
    norms = [(_norm(v), _norm(b)) for v, b in zip(V, B, strict=True)]
    products = [(v * b, v_power + b_power) for (v, v_power), (b, b_power) in norms if v and b]
    if not products:
        return 0
    top = max(power for _, power in products)
    return top + _exponent(np.array([np.ldexp(x, power - top) for x, power in products]))


def _gauge(V: np.ndarray, B: np.ndarray) -> int:
    """Return the exponent of c that makes |c V| and |B / c| about equal; 0 if one is zero."""
    if not (V.any() and B.any()):
        return 0
    return (_exponent(B) - _exponent(V)) // 2
