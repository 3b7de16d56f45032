"""What a sample of tokens looks like: Gaussian or not, spread out or clustered.

    b1 = N^-2 sum_ij (z_i . z_j)^3      b2 = N^-1 sum_i |z_i|^4,      z = S^(-1/2) (x - mean)

are Mardia's skewness and kurtosis, S with 1/N. Both are unchanged by affine maps. As Gaussian
tokens in infinite number move by affine maps (Theory 1.5), what changes along the depth is what the
Gaussian system leaves out. Covariances may be singular: z then lives in the range of S.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.special import chdtrc, ndtr

from gausscontrol.errors import ShapeError
from gausscontrol.linalg.arrays import real_array

__all__ = [
    "Gaussianity",
    "centre",
    "cluster_count",
    "cosine_similarity",
    "effective_rank",
    "mardia",
    "read_tokens",
    "sample_moments",
    "some_of",
    "whitened",
]

# Two tokens are close when their distance is below this share of the root mean square distance.
CLOSE = 0.1
# Tokens whose pairs are compared, drawn from the sample.
PAIRED_TOKENS = 1_000
# Numbers that differ by less than this share of their size are equal but for rounding.
ROUNDING = 8 * np.finfo(float).eps
# Singular values below this share of the largest are rounding of the sums behind them.
SINGULAR = 1e-13
# Entries of one block of (z_i . z_j)^3.
CHUNK = 4_000_000


@dataclass(frozen=True, eq=False)
class Gaussianity:
    """Mardia's skewness and kurtosis, with their Gaussian law.

    Parameters
    ----------
    skewness, kurtosis : float or (T,) ndarray
        b1, near 0, and b2 - r (r + 2), near 0; r is the rank of the covariance.
    skewness_statistic : float or (T,) ndarray
        About chi-square with r (r + 1)(r + 2)/6 degrees of freedom.
    kurtosis_statistic : float or (T,) ndarray
        About standard normal.
    skewness_pvalue, kurtosis_pvalue : float or (T,) ndarray
        Upper tail for the skewness, both tails for the kurtosis.
    pvalue : float or (T,) ndarray
        Twice the smaller one, at most 1. A small value rejects the Gaussian; in a large sample it
        also does so for a deviation that does not matter, which b1 and b2 tell.
    """

    skewness: float | np.ndarray
    kurtosis: float | np.ndarray
    skewness_statistic: float | np.ndarray
    kurtosis_statistic: float | np.ndarray
    skewness_pvalue: float | np.ndarray
    kurtosis_pvalue: float | np.ndarray

    @property
    def pvalue(self) -> float | np.ndarray:
        """Twice the smaller of both p-values, at most 1."""
        return np.minimum(1.0, 2 * np.minimum(self.skewness_pvalue, self.kurtosis_pvalue))

    def __repr__(self) -> str:
        count = np.size(self.skewness)
        depths = f" at {count} depths" if np.ndim(self.skewness) else ""
        return f"<Gaussianity{depths}: p-value {float(np.ravel(self.pvalue)[-1]):.2g}>"

    def __str__(self) -> str:
        def last(value) -> float:
            return float(np.ravel(value)[-1])

        return (
            f"Mardia: skewness {last(self.skewness):.4g} (p = {last(self.skewness_pvalue):.2g}), "
            f"excess kurtosis {last(self.kurtosis):.4g} (p = {last(self.kurtosis_pvalue):.2g})"
        )


def read_tokens(value: ArrayLike, dim: int | None = None) -> np.ndarray:
    """Return tokens as a float copy of shape (N, d), N >= 2.

    Parameters
    ----------
    value : (N, d) array_like
        [x]
    dim : int, optional
        The dimension d they must have.

    Returns
    -------
    (N, d) ndarray

    Raises
    ------
    ShapeError, ParameterError
        If they are not at least two real tokens.
    """
    tokens = real_array(value, "tokens")
    if tokens.ndim == 1 and dim == 1:
        tokens = tokens[:, None]
    wanted = "d" if dim is None else str(dim)
    if tokens.ndim != 2 or 0 in tokens.shape or dim not in (None, tokens.shape[1]):
        raise ShapeError(
            f"tokens: expected shape (N, {wanted}), found {tokens.shape}; put one token in each row"
        )
    if len(tokens) < 2:
        raise ShapeError("tokens: expected at least two, found 1; a single token has no covariance")
    return np.ascontiguousarray(tokens)


def sample_moments(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of tokens, with 1/N.

    Parameters
    ----------
    tokens : (N, d) ndarray
        [x]

    Returns
    -------
    mean : (d,) ndarray
        [x]
    covariance : (d, d) ndarray
        [x]^2
    """
    mean, centred = centre(tokens)
    return mean, centred.T @ centred / len(tokens)


def centre(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of tokens and their deviations from it.

    Parameters
    ----------
    tokens : (N, d) ndarray
        [x]

    Returns
    -------
    mean : (d,) ndarray
        [x]
    deviations : (N, d) ndarray
        Zero in a coordinate in which tokens differ by rounding only. [x]
    """
    mean = tokens.mean(axis=0)
    centred = tokens - mean
    centred[:, np.ptp(tokens, axis=0) <= ROUNDING * np.abs(mean)] = 0.0
    return mean, centred


def mardia(tokens: ArrayLike) -> Gaussianity:
    """Test for a Gaussian sample by skewness and kurtosis.

    Parameters
    ----------
    tokens : (N, d) array_like
        [x]

    Returns
    -------
    Gaussianity
        The law of the statistics is that of large samples, with Mardia's corrections for N: trust
        the p-values from N of several times r^2 on.

    Raises
    ------
    ShapeError, ParameterError
        If they are not at least two real tokens.

    References
    ----------
    K. V. Mardia, "Applications of some measures of multivariate skewness and kurtosis in testing
    normality and robustness studies", Sankhya B 36 (1974), 115-128.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> rng = np.random.default_rng(0)
    >>> gaussian, uniform = rng.normal(size=(2000, 3)), rng.uniform(size=(2000, 3))
    >>> bool(gct.tokens.mardia(gaussian).pvalue > 0.01)
    True
    >>> bool(gct.tokens.mardia(uniform).pvalue < 1e-6)
    True
    """
    z = whitened(read_tokens(tokens))
    count, rank = z.shape
    if rank == 0 or count <= rank + 1:
        # One point, or no more tokens than a simplex has corners: every such sample looks alike.
        return Gaussianity(0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    b1 = _skewness(z)
    b2 = float(np.mean(np.einsum("ij,ij->i", z, z) ** 2))
    r, N = rank, count
    correction = (r + 1) * (N + 1) * (N + 3) / (N * ((N + 1) * (r + 1) - 6))
    skew = N * correction * b1 / 6
    variance = 8 * r * (r + 2) * (N - 3) * (N - r - 1) * (N - r + 1)
    variance /= (N + 1) ** 2 * (N + 3) * (N + 5)
    expected = r * (r + 2) * (N - 1) / (N + 1)
    tail = (b2 - expected) / np.sqrt(variance) if variance > 0 else 0.0
    return Gaussianity(
        b1,
        b2 - r * (r + 2),
        skew,
        float(tail),
        float(chdtrc(r * (r + 1) * (r + 2) / 6, skew)),
        float(2 * ndtr(-abs(tail))),
    )


def whitened(tokens: np.ndarray) -> np.ndarray:
    """Return tokens in coordinates in which their covariance is I.

    Parameters
    ----------
    tokens : (N, d) ndarray
        [x]

    Returns
    -------
    (N, r) ndarray
        r is the rank of the covariance. No covariance is formed, which would lose half the digits
        of coordinates that are nearly dependent.
    """
    _, centred = centre(tokens)
    size = np.abs(centred).max(axis=0)
    varies = size > 0
    if not varies.any():
        return np.zeros((len(tokens), 0))
    U, values, _ = np.linalg.svd(centred[:, varies] / size[varies], full_matrices=False)
    noise = ROUNDING * (np.abs(tokens[:, varies]).max(axis=0) / size[varies]).max()
    keep = values > max(SINGULAR * values[0], noise * np.sqrt(len(tokens)))
    return np.sqrt(len(tokens)) * U[:, keep]


def _skewness(z: np.ndarray) -> float:
    """Return b1, from third moments or from pairs of tokens, whichever are fewer."""
    count, rank = z.shape
    if count > rank**2:
        third = np.zeros((rank * rank, rank))
        size = max(1, CHUNK // rank**2)
        for start in range(0, count, size):
            part = z[start : start + size]
            third += np.einsum("na,nb->nab", part, part).reshape(len(part), -1).T @ part
        return float(np.sum(third**2)) / count**2
    size = max(1, CHUNK // count)
    blocks = (z[start : start + size] @ z.T for start in range(0, count, size))
    return sum(float(np.sum(block**3)) for block in blocks) / count**2


def some_of(count: int, most: int) -> np.ndarray:
    """Return which tokens stand for all of them.

    Parameters
    ----------
    count, most : int
        How many there are, and how many are wanted at most.

    Returns
    -------
    (min(count, most),) ndarray of int
        Ascending; drawn at random, so that no period in the order of the tokens is met, and the
        same in every call.
    """
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def effective_rank(covariance: np.ndarray) -> float:
    """Return exp of the entropy of the shares of the eigenvalues.

    Parameters
    ----------
    covariance : (d, d) ndarray
        [x]^2

    Returns
    -------
    float
        d for a multiple of the identity, 1 for rank one, 0 for zero. A smooth stand-in for the
        rank, which never changes along the Gaussian system (Theory 1.6) while this may tend to 1.

    References
    ----------
    O. Roy and M. Vetterli, "The effective rank", EUSIPCO 2007.
    """
    values = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    total = values.sum()
    if total == 0:
        return 0.0
    shares = values[values > 0] / total
    return float(np.exp(-np.sum(shares * np.log(shares))))


def cosine_similarity(tokens: np.ndarray) -> float:
    """Return the mean cosine of the angle between two different tokens.

    Parameters
    ----------
    tokens : (N, d) ndarray
        [x]

    Returns
    -------
    float
        1 when all tokens point one way, near 0 when they point everywhere.
    """
    size = np.linalg.norm(tokens, axis=1, keepdims=True)
    units = np.divide(tokens, size, out=np.zeros_like(tokens), where=size > 0)
    count = len(units)
    total = float(np.sum(units.sum(axis=0) ** 2)) - float(np.sum(units**2))
    return total / (count * (count - 1))


def cluster_count(tokens: np.ndarray) -> float:
    """Return the effective number of clusters.

    One over the share of pairs of tokens, a token with itself included, that are closer than a
    tenth of the root mean square distance: 1 / sum_c w_c^2 for tight clusters of shares w_c.

    Parameters
    ----------
    tokens : (N, d) ndarray
        [x]

    Returns
    -------
    float
        K for K equal clusters, up to the number of tokens (at most 1,000 are compared, the same
        ones whenever there are as many) when none are close. A Gaussian on a line has about 12, one
        in the plane about 90, and one of more than a few effective dimensions nearly all of them.
    """
    _, part = centre(tokens[some_of(len(tokens), PAIRED_TOKENS)])
    size = np.abs(part).max()
    if size == 0:
        return 1.0
    part = part / size
    distance = np.sqrt(2 * np.mean(np.sum(part**2, axis=1)))
    tree = cKDTree(part)
    return len(part) ** 2 / float(tree.count_neighbors(tree, CLOSE * distance))
