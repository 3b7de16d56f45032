"""The gap between a feed-forward part and its affine closure (Theory 8.2).

    eps^2 = E |f(x) - A_eq x - b_eq|^2 = sum_ij (W2^T W2)_ij G_ij

G_ij is the covariance of what is left of the units i and j after their affine parts. It is the sum
of their Wiener chaos components of order k >= 2, so nothing large is ever subtracted. With unit
vectors a_i (the direction of g_i in whitened token space), u_i = E u_i + beta_i e_i + <w_i, xi>,
w_i orthogonal to a_i, rho = <a_i, a_j>, c_k the Hermite coefficients of act(g_i),

    p_k = E u c_k + beta (sqrt(k) c_(k-1) + sqrt(k+1) c_(k+1)),        t = c_(k-1)
    G^k = p_i p_j rho^k + sqrt(k) rho^(k-1) (p_i t_j <a_i, w_j> + t_i p_j <w_i, a_j>)
          + t_i t_j (rho^(k-1) <w_i, w_j> + (k-1) rho^(k-2) <a_i, w_j> <w_i, a_j>)

and without a gate G^k = rho^k c_k c_k (Mehler's formula). Diagonal entries are integrated, from
what bends act: r = act(g) - c_0 - c_1 e is that of act less an affine function, which is small
where act is nearly affine, or the sum of c_k h_k where g hardly varies. Then act(g) u leaves

    E u r + beta (c_1 (e^2 - 1) + r e - sqrt(2) c_2 e) + (c_1 e + r) <w, xi>

What is left of the series off the diagonal is bounded by Cauchy and Schwarz. For ReLU without a
gate all of G_ij is one integral, that of (rho - t) times the bivariate normal density at the kinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from gausscontrol.tokens.activations import hermite_values
from gausscontrol.tokens.units import Units

__all__ = ["Gap", "closure_gap"]

# Orders after which the remainder is bounded; coefficients are computed up to the next of LEVELS.
CHECKPOINTS = (4, 8, 12, 16, 24, 32, 64, 128, 256, 512)
LEVELS = (16, 64, 512)
# The series ends when its remainder is below this share of the diagonal's part of eps^2.
REMAINDER = 1e-11
# Entries of a block of pairs held at once; small enough for the cache.
CHUNK = 250_000
# Panels and Gauss-Legendre nodes of the integral for ReLU, up to a correlation and beyond it.
MODERATE, FEW, MANY = 0.5, ((0.0, 1.0), 12), ((0.0, 0.5, 0.75, 0.9, 1.0), 20)
ROUNDING = 8 * np.finfo(float).eps
# Deviation of a unit's argument up to which 16 orders of its series are all of it.
NARROW = 0.05
# Error of that integral beyond MODERATE, over the root of the two diagonal entries: measured to be
# below 2.5e-9, at correlation 1 and ratios m / s near 6. Up to MODERATE it is rounding.
INTEGRAL = 4e-9


@dataclass(frozen=True)
class Gap:
    """Distance of a feed-forward part from its affine closure.

    Parameters
    ----------
    value : float
        Root of E |f(x) - A_eq x - b_eq|^2. [x/t]
    error : float
        Bound on its error: remainder of the series, and rounding of units and of the sum over them.
        [x/t]
    method : str
        "affine" (zero), "integral" (ReLU) or "series".
    order : int
        Last order of the series, 0 for the other methods.
    """

    value: float
    error: float
    method: str
    order: int = 0

    def __str__(self) -> str:
        last = f" of order {self.order}" if self.order else ""
        return f"Gap {self.value:.6g} [x/t], error below {self.error:.1g} ({self.method}{last})"


def closure_gap(units: Units, W2: np.ndarray, mean: np.ndarray, L: np.ndarray) -> Gap:
    """Return the gap for tokens mean + L xi, xi standard normal.

    Parameters
    ----------
    units : Units
    W2 : (d, m) ndarray
    mean : (d,) ndarray
    L : (d, r) ndarray
        Factor of the covariance; r may be zero.

    Returns
    -------
    Gap
    """
    act = units.activation
    if L.shape[1] == 0 or (units.W_u is None and act.name == "identity"):
        return Gap(0.0, 0.0, "affine")
    directions = _Directions.of(units, mean, L)
    if units.W_u is None and act.kinked:
        return _finished(*_relu_square(directions, W2), "integral")
    return _sum_up(_Series(units, directions), W2)


def _finished(square: float, uncertainty: float, method: str, order: int = 0) -> Gap:
    square = max(square, 0.0)
    value = np.sqrt(square)
    least = np.sqrt(max(square - uncertainty, 0.0))
    error = uncertainty / (value + least) if value > 0 else np.sqrt(uncertainty)
    return Gap(float(value), float(error), method, order)


class _Directions(NamedTuple):
    """Units in whitened token space; w is None without a gate."""

    m: np.ndarray
    s: np.ndarray
    a: np.ndarray  # (m, r), rows of length 1, or 0 where s = 0
    u: np.ndarray
    beta: np.ndarray
    w: np.ndarray | None

    @classmethod
    def of(cls, units: Units, mean: np.ndarray, L: np.ndarray) -> _Directions:
        G = units.W_g @ L
        m = units.W_g @ mean + units.c_g
        s = np.linalg.norm(G, axis=1)
        a = np.divide(G, s[:, None], out=np.zeros_like(G), where=s[:, None] > 0)
        if units.W_u is None:
            return cls(m, s, a, np.ones_like(m), np.zeros_like(m), None)
        U = units.W_u @ L
        beta = np.einsum("ij,ij->i", U, a)
        return cls(m, s, a, units.W_u @ mean + units.c_u, beta, U - beta[:, None] * a)


def _blocks(W2: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
    # Rows i, columns j >= first i, and weights that count every pair i < j twice, i = j not at all.
    count, start = W2.shape[1], 0
    while start < count:
        stop = min(count, start + max(1, CHUNK // (count - start)))
        rows, columns = slice(start, stop), slice(start, count)
        yield rows, columns, 2 * np.triu(W2[:, rows].T @ W2[:, columns], 1)
        start = stop


# -- ReLU without a gate --------------------------------------------------------------------------


def _relu_square(units: _Directions, W2: np.ndarray) -> tuple[float, float]:
    # The sum and its uncertainty.
    ratio = np.divide(units.m, units.s, out=np.zeros_like(units.m), where=units.s > 0)
    ratio = np.clip(ratio, -100, 100)
    root = units.s * np.sqrt(_kinks(np.ones_like(ratio), ratio, ratio))
    total = float(np.einsum("ij,ij,j->", W2, W2, root**2))
    error = ROUNDING * total
    for rows, columns, W in _blocks(W2):
        rho = np.clip(units.a[rows] @ units.a[columns].T, -1, 1)
        i, j = np.nonzero(W)
        w, r = W[i, j], rho[i, j]
        G = _kinks(r, ratio[rows][i], ratio[columns][j])
        total += float(w @ (G * units.s[rows][i] * units.s[columns][j]))
        share = np.where(np.abs(r) <= MODERATE, ROUNDING, INTEGRAL)
        error += float(np.abs(w) @ (share * root[rows][i] * root[columns][j]))
    return total, error


def _kinks(rho: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    # int_0^asin(rho) (rho - sin x) exp(-(a^2 - 2 a b sin x + b^2) / (2 cos^2 x)) dx / (2 pi):
    # Price's theorem twice, a = m_i / s_i, b = m_j / s_j. The integrand has one sign.
    out = np.empty_like(rho)
    moderate = np.abs(rho) <= MODERATE
    for chosen, (edges, count) in ((moderate, FEW), (~moderate, MANY)):
        if not chosen.any():
            continue
        r, end = rho[chosen], np.arcsin(rho[chosen])
        spread, product = (a[chosen] - b[chosen]) ** 2 / 2, a[chosen] * b[chosen]
        total = np.zeros_like(r)
        nodes, weights = leggauss(count)
        for low, high in pairwise(edges):
            half = (high - low) / 2
            for node, weight in zip(nodes, weights, strict=True):
                sine = np.sin(end * (low + half * (1 + node)))
                square = np.maximum((1 - sine) * (1 + sine), 1e-300)
                exponent = (spread + product * (1 - sine)) / -square
                total += half * weight * (r - sine) * np.exp(exponent)
        out[chosen] = total * end / (2 * np.pi)
    return out


# -- the series -----------------------------------------------------------------------------------


class _Series:
    """Coefficients p_k, t_(k-1) of all units and the remainders of their series."""

    def __init__(self, units: Units, directions: _Directions) -> None:
        self.activation, self.units = units.activation, directions
        d = directions
        self.gated = d.w is not None
        self.width = np.zeros_like(d.m) if d.w is None else np.einsum("ij,ij->i", d.w, d.w)
        self.count = 0
        self.extend(LEVELS[0])
        self.diagonal, self.unsure = self._diagonal()

    def extend(self, order: int) -> None:
        """Compute the coefficients up to an order."""
        d = self.units
        c = self.activation.hermite(d.m, d.s, order + 2)
        k = np.arange(order + 1)[:, None]
        lower = np.concatenate([np.zeros((1, d.m.size)), c[:order]])
        self.p = c[:-1]
        if self.gated:
            self.p = d.u * c[:-1] + d.beta * (np.sqrt(k) * lower + np.sqrt(k + 1) * c[1:])
        self.c, self.t, self.count = c, lower, order

    def _diagonal(self) -> tuple[np.ndarray, np.ndarray]:
        # E (h - its affine part)^2 of every unit, and the uncertainty of its root.
        d = self.units
        out, unsure = np.zeros_like(d.m), np.zeros_like(d.m)
        width = np.sqrt(self.width)
        for units, e, weight in self.activation.nodes(d.m, d.s):
            r, size = self._bend(units, e, weight)
            u, beta = d.u[units, None], d.beta[units, None]
            first, second = self.c[1, units, None], self.c[2, units, None]
            rest = u * r
            if self.gated:
                rest += beta * (first * (e**2 - 1) + r * e - np.sqrt(2) * second * e)
            out[units] = (weight * rest**2).sum(axis=1)
            if self.gated:
                rest = first * e + r
                out[units] += self.width[units] * (weight * rest**2).sum(axis=1)
            reach = np.abs(d.u[units]) + 4 * np.abs(d.beta[units]) + width[units]
            unsure[units] = ROUNDING * (reach * size + np.sqrt(out[units]))
        still = d.s == 0
        out[still] = unsure[still] = 0.0
        return out, unsure

    def _bend(self, units, e, weight) -> tuple[np.ndarray, np.ndarray]:
        # r at the nodes, and the size of the numbers that it is the difference of.
        d = self.units
        m, s = d.m[units, None], d.s[units, None]
        value = self.activation.bent(m + s * e, np.where(m > 0, 1.0, -1.0))
        r = value - (weight * value).sum(axis=1, keepdims=True)
        r -= (weight * value * e).sum(axis=1, keepdims=True) * e
        size = np.sqrt((weight * value**2).sum(axis=1))
        narrow = d.s[units] <= NARROW
        if narrow.any() and not self.activation.kinked:
            # Nodes that are the same for all units serve those whose argument hardly varies.
            h = np.stack(list(hermite_values(e[0], self.count + 1)))[2:]
            r[narrow] = self.c[2 : self.count + 1, units[narrow]].T @ h
            size[narrow] = np.sqrt((weight * r[narrow] ** 2).sum(axis=1))
        return r, size

    def remainders(self, order: int) -> np.ndarray:
        """Return the energy of every unit beyond an order, rounded up."""
        k = slice(2, order + 1)
        known = (self.p[k] ** 2).sum(axis=0)
        if self.gated:
            known += self.width * (self.t[k] ** 2).sum(axis=0)
        rounding = ROUNDING * self.diagonal + self.doubt
        return np.maximum(self.diagonal - known, 0) + rounding

    @property
    def doubt(self) -> np.ndarray:
        """Uncertainty of the energy of every unit."""
        return self.unsure * (2 * np.sqrt(self.diagonal) + self.unsure)


def _sum_up(series: _Series, W2: np.ndarray) -> Gap:
    root = np.sqrt(series.diagonal)
    diagonal = float(np.einsum("ij,ij,j->", W2, W2, series.diagonal))
    square = scale = diagonal
    remainder, last = float(np.einsum("ij,ij,j->", W2, W2, series.doubt)), 1
    entries = W2.shape[1] * (W2.shape[1] - 1) / 2
    for rows, columns, W in _blocks(W2):
        size = float(root[rows] @ np.abs(W) @ root[columns])
        share = W.size / max(entries, W.size)
        aim = max(REMAINDER * diagonal * share, ROUNDING * size)
        part, rest, order = _Pairs(series, rows, columns, W).sum_up(aim)
        square, scale, remainder = square + part, scale + size, remainder + rest
        last = max(last, order)
    return _finished(square, remainder + ROUNDING * scale, "series", last)


class _Pairs:
    """Pairs of units with the arrays that the term of order k multiplies by p_k and t_k.

    All of them gain one factor rho with every order.
    """

    def __init__(self, series: _Series, rows: slice, columns: slice, W: np.ndarray) -> None:
        d = series.units
        self.series, self.rows, self.columns = series, rows, columns
        self.rho = np.clip(d.a[rows] @ d.a[columns].T, -1, 1)
        self.size, self.W = np.abs(W), W
        self.pp = W * self.rho
        self.arrays = [self.pp]
        if series.gated:
            aw, wa = d.a[rows] @ d.w[columns].T, d.w[rows] @ d.a[columns].T
            self.pt, self.tp = W * aw, W * wa
            self.tt = W * (d.w[rows] @ d.w[columns].T)
            self.cross = W * aw * wa
            self.arrays += [self.pt, self.tp, self.tt]

    def sum_up(self, aim: float) -> tuple[float, float, int]:
        """Return the sum, a bound on what is left out, and the last order."""
        total, done, series = 0.0, 1, self.series
        for order in CHECKPOINTS:
            if order > series.count:
                series.extend(next(level for level in LEVELS if level >= order))
            for k in range(done + 1, order + 1):
                total += self._term(k)
            done = order
            remainder = self._remainder(order, aim)
            if remainder <= aim:
                break
        return total, remainder, order

    def _term(self, k: int) -> float:
        # Orders follow one another from 2.
        s, rows, columns = self.series, self.rows, self.columns
        p, t = s.p[k], s.t[k]
        for array in self.arrays:
            array *= self.rho
        total = p[rows] @ (self.pp @ p[columns])
        if s.gated:
            if k > 2:
                self.cross *= self.rho
            mixed = p[rows] @ (self.pt @ t[columns]) + t[rows] @ (self.tp @ p[columns])
            both = self.tt @ t[columns] + (k - 1) * (self.cross @ t[columns])
            total += np.sqrt(k) * mixed + t[rows] @ both
        return float(total)

    def _remainder(self, order: int, aim: float) -> float:
        root = np.sqrt(self.series.remainders(order))
        left, right = root[self.rows], root[self.columns]
        whole = left @ self.size @ right
        # The largest correlation often settles it; every pair its own costs as much as many terms.
        largest = np.abs(self.rho[self.W != 0]).max(initial=0.0)
        rough = float(whole * self._share(np.array(largest), order + 1))
        if rough <= aim:
            return rough
        return float(left @ (self.size * self._share(np.abs(self.rho), order + 1)) @ right)

    def _share(self, size: np.ndarray, k: int) -> np.ndarray:
        # Norm of the components of order >= k of two units against one another.
        if not self.series.gated:
            return size**k
        # That of the 2 x 2 block between (p, |w| t) of both, with |<a_i, w_j>| at most
        # sqrt(1 - rho^2) |w_j|; it falls with k once k > 2 / -log|rho|, and never exceeds 1.
        away = 1 - size**2
        block = 1 + 2 * np.sqrt(k * away) + (k - 1) * away
        with np.errstate(divide="ignore"):
            falls = -np.log(size) * k > 2
        return np.where(falls, np.minimum(size ** (k - 2) * block, 1), 1)
