"""Activations under a Gaussian: means of all derivatives, and Hermite coefficients.

    z = m + s e,  e ~ N(0, 1):    a_k = E act^(k)(z)    c_k = E[act(z) h_k(e)] = s^k a_k / sqrt(k!)

with h_k the normalised Hermite polynomials (Theory 8.1, 8.2). ReLU, GELU and the identity have
closed forms. The others are integrated by the trapezoidal rule, whose error is bounded by
exp(-2 pi a / h) for a step h and a strip |Im e| < a free of poles. A pole of act at distance q from
the real axis lies at q / s here, so no fixed step does for all s. Two sets of nodes do:

    s <= 1, or |m| > 9 s    uniform in e, h = 0.2 (beyond 9 s a pole has no weight left)
    otherwise               z = (pi/2) sinh(y), uniform in y, h = 0.055: fine where act bends, and
                            as coarse as the Gaussian allows elsewhere

Derivatives of ReLU beyond the first are distributions; their means exist for s > 0 and are taken
as zero at s = 0, which is their value away from the kink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import expit, ndtr

__all__ = ["ACTIVATIONS", "Activation", "Nodes", "hermite_values"]

# Uniform rule in e: step and half-length.
STEP, REACH = 0.2, 10.0
# Rule in y: step and scale, and the ratio |m| / s from which the uniform rule takes over.
SINH_STEP, SINH_SCALE, FAR = 0.055, np.pi / 2, 9.0
# Gauss-Legendre nodes on each side of a kink.
KINK_NODES = 64
# Trapezoidal sums aim at exp(-DIGITS) of aliasing.
DIGITS = 38.0
# Entries of one array of (units, nodes).
CHUNK = 1_000_000

TANH_GAIN, TANH_CUBE = np.sqrt(2 / np.pi), 0.044715


class Nodes(NamedTuple):
    """Quadrature for some units: E F(e) is the sum of weight * F(e) over the last axis."""

    units: np.ndarray
    e: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Activation:
    """An activation with its means under a Gaussian.

    Parameters
    ----------
    name : str
    derivatives : callable
        (z, order) -> list of act, act', ..., up to the order (at most 4, and 1 for ReLU).
    bent : callable
        (z, side) -> act less an affine function of z, which vanishes where z has the sign of side
        and is large.
    means : callable or None
        (m, s, order) -> (order + 1, units) closed form of a_0, a_1, ...
    coefficients : callable or None
        (m, s, count) -> (count, units) closed form of c_0, c_1, ...
    kinked : bool
        Whether act' jumps at 0.
    strip : float
        Distance of the nearest pole from the real axis.
    support : float
        act'' is zero to working precision beyond this distance from 0.
    """

    name: str
    derivatives: Callable[[np.ndarray, int], list[np.ndarray]]
    bent: Callable[[np.ndarray, np.ndarray], np.ndarray]
    means: Callable[[np.ndarray, np.ndarray, int], np.ndarray] | None = None
    coefficients: Callable[[np.ndarray, np.ndarray, int], np.ndarray] | None = None
    kinked: bool = False
    strip: float = np.pi / 2
    support: float = 20.0

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Return act(z)."""
        return self.derivatives(z, 0)[0]

    def expectations(self, m: np.ndarray, s: np.ndarray, order: int) -> np.ndarray:
        """Return a_k = E act^(k)(m + s e) for k = 0 to order.

        Parameters
        ----------
        m, s : (units,) ndarray
            Mean and standard deviation; s may be zero.
        order : int
            At most 4.

        Returns
        -------
        (order + 1, units) ndarray
        """
        if self.means is not None:
            return self.means(m, s, order)
        out = np.empty((order + 1, m.size))
        for units, e, weight in self.nodes(m, s):
            z = m[units, None] + s[units, None] * e
            for k, value in enumerate(self.derivatives(z, order)):
                out[k, units] = (weight * value).sum(axis=1)
        return out

    def nodes(self, m: np.ndarray, s: np.ndarray) -> Iterator[Nodes]:
        """Yield quadrature nodes that together cover all units."""
        if self.kinked:
            yield from _chunked(np.arange(m.size), 2 * KINK_NODES, _kink_nodes, m, s)
            return
        wide = (s > 1) & (np.abs(m) <= FAR * s)
        yield from _chunked(np.flatnonzero(~wide), int(2 * REACH / STEP), _uniform_nodes, m, s)
        yield from _chunked(np.flatnonzero(wide), 300, _sinh_nodes, m, s)

    def hermite(self, m: np.ndarray, s: np.ndarray, count: int) -> np.ndarray:
        """Return c_0, ..., c_(count - 1), (count, units)."""
        if self.coefficients is not None:
            return self.coefficients(m, s, count)
        out = np.zeros((count, m.size))
        out[:2] = self.expectations(m, s, 1)
        out[1] *= s
        for wide in (False, True):
            chosen = np.flatnonzero((s > 1) == wide)
            grid, step = self._coefficient_grid(wide, count)
            for part in _pieces(chosen, grid.size):
                mean, deviation = m[part, None], s[part, None]
                e = (grid - mean) / deviation if wide else grid[None]
                z = grid[None] if wide else mean + deviation * grid
                density = step * _phi(e) / (deviation if wide else 1.0)
                bend = s[part] ** 2 * (self.derivatives(z, 2)[2] * density).T
                for k, h in enumerate(hermite_values(e.T, count - 2), start=2):
                    out[k, part] = (bend * h).sum(axis=0) / np.sqrt(k * (k - 1))
        return out

    def _coefficient_grid(self, wide: bool, count: int) -> tuple[np.ndarray, float]:
        # c_k = s^2 E[act''(z) h_(k-2)(e)] / sqrt(k (k-1)). In the strip |Im e| < a the integrand
        # grows by exp(a sqrt(k) + a^2 / 2), and s >= 1 bounds a by the strip in z too.
        a = self.strip
        step = 2 * np.pi * a / (DIGITS + a * np.sqrt(count) + a * a / 2)
        reach = self.support if wide else REACH + 2.0
        half = int(np.ceil(reach / step))
        return step * np.arange(-half, half + 1), step


def hermite_values(e: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield the normalised Hermite polynomials h_0(e), ..., h_(count - 1)(e)."""
    before, now = np.zeros_like(e), np.ones_like(e)
    for k in range(count):
        yield now
        before, now = now, (e * now - np.sqrt(k) * before) / np.sqrt(k + 1)


# -- nodes ----------------------------------------------------------------------------------------


def _pieces(units: np.ndarray, width: int) -> Iterator[np.ndarray]:
    size = max(1, CHUNK // width)
    for start in range(0, units.size, size):
        yield units[start : start + size]


def _chunked(units, width, rule, m, s) -> Iterator[Nodes]:
    for part in _pieces(units, width):
        yield Nodes(part, *rule(m[part], s[part]))


def _uniform_nodes(m, s) -> tuple[np.ndarray, np.ndarray]:
    half = round(REACH / STEP)
    e = STEP * np.arange(-half, half + 1)
    weight = _phi(e)
    return e[None], (weight / weight.sum())[None]


def _sinh_nodes(m, s) -> tuple[np.ndarray, np.ndarray]:
    reach = (np.abs(m) + REACH * s).max()
    half = int(np.ceil(np.arcsinh(reach / SINH_SCALE) / SINH_STEP))
    y = SINH_STEP * np.arange(-half, half + 1)
    e = (SINH_SCALE * np.sinh(y) - m[:, None]) / s[:, None]
    weight = np.cosh(y) * _phi(e)
    return e, weight / weight.sum(axis=1, keepdims=True)


def _kink_nodes(m, s) -> tuple[np.ndarray, np.ndarray]:
    x, w = leggauss(KINK_NODES)
    kink = np.clip(-_ratio(m, s), -REACH, REACH)[:, None]
    below, above = (kink + REACH) / 2, (REACH - kink) / 2
    e = np.concatenate([kink + below * (x - 1), kink + above * (x + 1)], axis=1)
    weight = np.concatenate([below * w, above * w], axis=1) * _phi(e)
    return e, weight / weight.sum(axis=1, keepdims=True)


def _phi(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _ratio(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    # m / s, and zero where s = 0: its users multiply by s or replace the value.
    with np.errstate(over="ignore"):
        return np.divide(m, s, out=np.zeros_like(m), where=s > 0)


# -- the identity ---------------------------------------------------------------------------------


def _identity_derivatives(z, order):
    return [z, np.ones_like(z), *(np.zeros_like(z) for _ in range(order - 1))][: order + 1]


def _identity_means(m, s, order):
    return np.stack(_identity_derivatives(m, order))


def _identity_coefficients(m, s, count):
    out = np.zeros((count, m.size))
    out[0], out[1] = m, s
    return out


# -- ReLU -----------------------------------------------------------------------------------------


def _relu_derivatives(z, order):
    return [np.maximum(z, 0.0), np.heaviside(z, 0.5)][: order + 1]


def _relu_means(m, s, order):
    spread = s > 0
    a = _ratio(m, s)
    cumulative, density = ndtr(a), _phi(a)
    inverse = np.divide(1.0, s, out=np.zeros_like(s), where=spread)
    # Beyond 40 standard deviations the density is zero, and powers of a could overflow.
    a = np.clip(a, -40, 40)
    bend = density * inverse
    out = [
        np.where(spread, m * cumulative + s * density, np.maximum(m, 0.0)),
        np.where(spread, cumulative, np.heaviside(m, 0.5)),
        bend,
        -a * bend * inverse,
        (a * a - 1) * bend * inverse * inverse,
    ]
    return np.stack(out[: order + 1])


def _relu_coefficients(m, s, count):
    out = np.zeros((count, m.size))
    out[:2] = _relu_means(m, s, 1)
    out[1] *= s
    a = np.clip(_ratio(m, s), -40, 40)
    density = s * _phi(a)
    for k, h in enumerate(hermite_values(-a, count - 2), start=2):
        out[k] = density * h / np.sqrt(k * (k - 1))
    return out


# -- GELU -----------------------------------------------------------------------------------------


def _gelu_derivatives(z, order):
    cumulative, density = ndtr(z), _phi(z)
    y = np.clip(z, -40, 40)
    out = [
        z * cumulative,
        cumulative + y * density,
        density * (2 - y**2),
        density * (y**3 - 4 * y),
        density * (7 * y**2 - y**4 - 4),
    ]
    return out[: order + 1]


def _gelu_means(m, s, order):
    # act^(k) = phi^(k-2) - phi^(k) for k >= 2, and E phi^(j)(z) = (-1)^j He_j(a) phi(a) / r^(j+1).
    r = np.hypot(1.0, s)
    a = m / r
    cumulative, density = ndtr(a), _phi(a)
    a = np.clip(a, -40, 40)
    q = 1 / r
    out = [
        m * cumulative + s * (s * q) * density,
        cumulative + a * density * q * q,
        density * q * (1 + (1 - a * a) * q * q),
        -density * q * q * (a + (3 * a - a**3) * q * q),
        density * q**3 * (a**2 - 1 - (a**4 - 6 * a**2 + 3) * q * q),
    ]
    return np.stack(out[: order + 1])


def _gelu_coefficients(m, s, count):
    out = np.zeros((count, m.size))
    out[:2] = _gelu_means(m, s, 1)
    out[1] *= s
    r = np.hypot(1.0, s)
    a = np.clip(m / r, -40, 40)
    share = -s / r
    power, values = _phi(a) * share, list(hermite_values(a, count))
    for k in range(2, count):
        power = power * share
        out[k] = power * (r * values[k - 2] / np.sqrt(k * (k - 1)) - values[k] / r)
    return out


# -- functions of tanh ----------------------------------------------------------------------------


def _tanh_derivatives(z, order):
    t = np.tanh(z)
    q = 1 - t * t
    return [t, q, -2 * t * q, q * (6 * t * t - 2), q * t * (16 - 24 * t * t)][: order + 1]


def _sigmoid_derivatives(z, order):
    out = [value / 2 ** (k + 1) for k, value in enumerate(_tanh_derivatives(z / 2, order))]
    out[0] = expit(z)
    return out


def _silu_derivatives(z, order):
    inner = _sigmoid_derivatives(z, order)
    return [z * inner[0], *(z * inner[k] + k * inner[k - 1] for k in range(1, order + 1))]


def _gelu_tanh_derivatives(z, order):
    # act = z (1 + tanh u) / 2, u = gain (z + cube z^3); beyond |z| = 60 tanh u is constant.
    y = np.clip(z, -60, 60)
    u = TANH_GAIN * (y + TANH_CUBE * y**3)
    out = [z * expit(2 * u)]
    if not order:
        return out
    t = _tanh_derivatives(u, order)
    u1, u2 = TANH_GAIN * (1 + 3 * TANH_CUBE * y**2), 6 * TANH_GAIN * TANH_CUBE * y
    u3 = 6 * TANH_GAIN * TANH_CUBE
    chain = [
        lambda: t[0],
        lambda: t[1] * u1,
        lambda: t[2] * u1**2 + t[1] * u2,
        lambda: t[3] * u1**3 + 3 * t[2] * u1 * u2 + t[1] * u3,
        lambda: t[4] * u1**4 + 6 * t[3] * u1**2 * u2 + t[2] * (3 * u2**2 + 4 * u1 * u3),
    ]
    T = [chain[k]() for k in range(order + 1)]
    out.append((1 + T[0] + y * T[1]) / 2)
    return out + [(y * T[k] + k * T[k - 1]) / 2 for k in range(2, order + 1)]


# -- act less what it tends to --------------------------------------------------------------------


def _mirrored(derivatives):
    # ReLU and its smooth relatives are z plus their own value at -z.
    return lambda z, side: derivatives(-side * z, 0)[0]


def _saturated(gain: float):
    # gain expit(gain z) up to a constant.
    return lambda z, side: -side * gain * expit(-side * gain * z)


def _straight(z, side):
    return np.zeros_like(z)


ACTIVATIONS = {
    each.name: each
    for each in (
        Activation(
            "relu",
            _relu_derivatives,
            _mirrored(_relu_derivatives),
            _relu_means,
            _relu_coefficients,
            kinked=True,
        ),
        Activation(
            "gelu",
            _gelu_derivatives,
            _mirrored(_gelu_derivatives),
            _gelu_means,
            _gelu_coefficients,
        ),
        Activation(
            "gelu_tanh",
            _gelu_tanh_derivatives,
            _mirrored(_gelu_tanh_derivatives),
            strip=2.7,
            support=10.0,
        ),
        Activation("tanh", _tanh_derivatives, _saturated(2.0)),
        Activation("sigmoid", _sigmoid_derivatives, _saturated(1.0), strip=np.pi, support=40.0),
        Activation(
            "silu", _silu_derivatives, _mirrored(_silu_derivatives), strip=np.pi, support=44.0
        ),
        Activation(
            "identity", _identity_derivatives, _straight, _identity_means, _identity_coefficients
        ),
    )
}
