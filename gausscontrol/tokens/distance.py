"""Distance of a sample of tokens from a Gaussian, along axes (Theory 8.2).

    D^2 = sum_i W2(law of <v_i, x>, N(<v_i, mu>, l_i))^2 <= W2(law of x, N(mu, Sigma))^2

v_i are principal axes of Sigma and l_i the variances along them: whatever couples the two laws
couples them along every axis. On a line W2 couples sorted numbers with cells of equal probability,
so with c_n the mean of N(0, 1) on the n-th of N cells and deviation s = sqrt(l)

    W2^2 = mean (x_(n) - m - s c_n)^2 + s^2 (1 - mean c_n^2)

A sample of the Gaussian itself is not at distance zero: the floor says what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from gausscontrol.model.packing import read_moments
from gausscontrol.tokens.statistics import read_tokens, sample_moments

__all__ = ["GaussianDistance", "gaussian_distance"]

# Numbers drawn for a floor: between FEWEST and MOST samples of one axis.
DRAWN, FEWEST, MOST = 500_000, 8, 64


@dataclass(frozen=True, eq=False)
class GaussianDistance:
    """Distance of a sample of tokens from a Gaussian.

    Parameters
    ----------
    distance : float
        Root of the sum of W2^2 along the principal axes: at most the W2 distance of the sample
        from the Gaussian. [x]
    floor : float
        The same of a sample of that Gaussian, as large as this one, in the root mean square over
        samples. [x]
    spread : float
        Root of tr Sigma of the Gaussian. [x]
    count : int
        Number of tokens.
    """

    distance: float
    floor: float
    spread: float
    count: int

    @property
    def relative(self) -> float:
        """Distance over spread; 0 where both are zero."""
        return self._share(self.distance)

    @property
    def relative_floor(self) -> float:
        """Floor over spread; 0 where both are zero."""
        return self._share(self.floor)

    def _share(self, value: float) -> float:
        if value == 0:
            return 0.0
        return value / self.spread if self.spread > 0 else np.inf

    def __str__(self) -> str:
        return (
            f"Distance of {self.count} tokens from the Gaussian: {self.distance:.4g} [x], "
            f"{self.relative:.4g} of its spread; a Gaussian sample of that size has "
            f"{self.relative_floor:.2g}"
        )


def gaussian_distance(
    tokens: ArrayLike, gaussian: tuple[ArrayLike, ArrayLike] | None = None
) -> GaussianDistance:
    """Measure how far tokens are from a Gaussian.

    D^2 = sum_i W2(law of <v_i, x>, N(<v_i, mu>, l_i))^2 along the principal axes of Sigma, which
    is at most W2(law of x, N(mu, Sigma))^2.

    Parameters
    ----------
    tokens : (N, d) array_like
        [x]
    gaussian : tuple of array_like, optional
        (mu, Sigma); by default mean and covariance of the tokens, which says how far they are from
        any Gaussian shape rather than from a particular one.

    Returns
    -------
    GaussianDistance

    Raises
    ------
    ShapeError, ParameterError
        If the tokens are not at least two real ones, or the moments are invalid.

    See Also
    --------
    gap_estimate : What the distance may have grown to, without tokens.
    mardia : Skewness and kurtosis with p-values.

    Notes
    -----
    Theory 8.2. Along each axis the distance is exact. What couples the axes is not seen: a law
    whose projections on the axes are Gaussian is at distance zero, and where variances are nearly
    equal the axes are arbitrary: projections that mix coordinates look more Gaussian than these.
    The floor over the spread depends on N only and falls about as N^(-1/2).

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> rng = np.random.default_rng(0)
    >>> gaussian, uniform = rng.normal(size=(4000, 3)), rng.uniform(size=(4000, 3))
    >>> near, far = map(gct.tokens.gaussian_distance, (gaussian, uniform))
    >>> bool(near.distance < 1.5 * near.floor), bool(far.distance > 3 * far.floor)
    (True, True)
    """
    x = read_tokens(tokens)
    if gaussian is None:
        mean, covariance = sample_moments(x)
    else:
        mean, covariance = read_moments(gaussian, "gaussian", x.shape[1])
    count, fitted = len(x), gaussian is None
    if fitted:
        centred = x - mean
        _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
        deviations, along = lengths / np.sqrt(count), centred @ axes.T
        # Deviations that are rounding of the tokens; those along the missing axes are zero.
        rounding = 8 * np.finfo(float).eps * max(np.abs(x).max(), deviations[0])
        deviations[deviations <= rounding] = 0.0
        along[:, deviations == 0] = 0.0
    else:
        variances, vectors = np.linalg.eigh(covariance)
        deviations, along = np.sqrt(np.maximum(variances, 0.0)), (x - mean) @ vectors
    centres, left = _cells(count)
    ordered = np.sort(along, axis=0)
    squares = np.mean((ordered - centres[:, None] * deviations) ** 2, axis=0)
    squares += left * deviations**2
    spread = float(np.linalg.norm(deviations))
    return GaussianDistance(
        float(np.sqrt(squares.sum())), _unit_floor(count, fitted) * spread, spread, count
    )


def _cells(count: int) -> tuple[np.ndarray, float]:
    """Return the means of N(0, 1) on cells of equal probability, and the variance within them."""
    edges = ndtri(np.arange(1, count) / count)
    density = np.concatenate([[0.0], np.exp(-(edges**2) / 2), [0.0]]) / np.sqrt(2 * np.pi)
    centres = -count * np.diff(density)
    return centres, max(0.0, 1.0 - float(np.mean(centres**2)))


@lru_cache(maxsize=64)
def _unit_floor(count: int, fitted: bool) -> float:
    # Root mean square of W2 between N(0, 1) and its samples, which may be standardised before.
    number = min(MOST, max(FEWEST, DRAWN // count))
    centres, left = _cells(count)
    rng, squares = np.random.default_rng(0), []
    for _ in range(number):
        x = np.sort(rng.standard_normal(count))
        if fitted:
            x = x - x.mean()
            x /= np.sqrt(np.mean(x**2))
        squares.append(np.mean((x - centres) ** 2) + left)
    return float(np.sqrt(np.mean(squares)))
