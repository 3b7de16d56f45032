"""Names of the signals of a moment system (Theory 1.1, 1.6).

    mu[i], Sigma[n]   the lower triangle of Sigma, column by column      mu[i], L[n]   the rows of L

python-control knows a signal by one number in brackets; a plot can say which entry it is.
"""

from __future__ import annotations

from gausscontrol.errors import ParameterError
from gausscontrol.linalg.symmetric import vech_index

__all__ = ["covariance_label", "factor_labels", "moment_labels"]


def covariance_label(n: int, d: int) -> str:
    """Name the n-th entry of vech(Sigma) by its subscripts.

    Parameters
    ----------
    n : int
        Position in vech, from 0; the state called ``Sigma[n]``.
    d : int
        Token dimension.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If n is not a position in the vech of a d x d matrix.

    Examples
    --------
    >>> import gausscontrol as gct
    >>> gct.covariance_label(1, 2)
    'Sigma[1,0]'
    """
    index = vech_index(d)
    if not 0 <= n < index.rows.size:
        raise ParameterError(
            f"n: expected 0 to {index.rows.size - 1} for d = {d}, found {n}; "
            "vech stacks the lower triangle column by column"
        )
    return f"Sigma[{index.rows[n]},{index.columns[n]}]"


def moment_labels(dim: int) -> list[str]:
    """Return the names of the entries of (mu, vech Sigma)."""
    return _numbered("mu", dim) + _numbered("Sigma", dim * (dim + 1) // 2)


def factor_labels(dim: int, rank: int) -> list[str]:
    """Return the names of the entries of (mu, rows of L)."""
    return _numbered("mu", dim) + _numbered("L", dim * rank)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}[{i}]" for i in range(count)]
