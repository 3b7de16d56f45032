"""What every certificate has in common (Theory 9.1).

A certificate object that exists has been verified: its inequality was evaluated in NumPy from
the parameters and matrices it stores, with an explicit margin for rounding and for the distance
between the computed equilibrium and an exact one. Otherwise the call raises `NotCertified`.

A certificate says nothing that its check does not look at: the statement and the scope are worded
from the fields that are checked, the margin is compared with a fresh one, and what is no
certificate at all, such as a Gram matrix that is not symmetric, does not verify.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, Context, Decimal
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gausscontrol.analysis.enclosure import WhitenedPoint
from gausscontrol.analysis.equilibrium import Equilibrium
from gausscontrol.certificates.stored import is_well_formed, kept
from gausscontrol.display import Report
from gausscontrol.errors import (
    GausscontrolError,
    MatrixEquationError,
    NotCertified,
)
from gausscontrol.linalg.arrays import real_array
from gausscontrol.linalg.balls import require_balls
from gausscontrol.linalg.equations import solve_lyapunov
from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise, whitening
from gausscontrol.model.stack import check_single_model
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "Certificate",
    "at_most",
    "certified_covariance",
    "check_enclosed",
    "finished",
    "guarded",
    "hurwitz_margin",
]

Claim = TypeVar("Claim", bound="Certificate")
Arguments = ParamSpec("Arguments")

# Whitened distance from an exact equilibrium up to which a computed one stands for it.
ROUGHEST = 1e-3
# Share by which a stored margin may exceed a fresh one.
REPEATED = 1e-6
# What a check raises that is handed a field of the wrong type, shape or size.
MALFORMED = (
    ArithmeticError,
    AttributeError,
    GausscontrolError,
    LookupError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)


@dataclass(frozen=True, eq=False)
class Certificate(Report, ABC):
    """A verified statement about a model.

    Stored arrays are read-only copies.

    Attributes
    ----------
    model : GaussianTransformer
    margin : float
        By how much the deciding inequality holds, after rounding was subtracted.
    data : dict
        Numbers behind the verdict, for information: `verify` does not read them.
    proved : bool
        Whether the check was repeated in ball arithmetic before the certificate was returned
        (Theory 9.3); `verify(rigorous=True)` does that at any time.
    """

    model: GaussianTransformer
    margin: float
    data: dict[str, Any] = field(repr=False)
    proved: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        """Keep read-only copies of all matrices."""
        for item in fields(self):
            object.__setattr__(self, item.name, kept(getattr(self, item.name)))

    @property
    @abstractmethod
    def statement(self) -> str:
        """What is certified, in one sentence."""

    @property
    def scope(self) -> str:
        """What it concerns: "covariance and mean" or "covariance"."""
        return "covariance and mean" if self._holds_for_mean else "covariance"

    @property
    def _holds_for_mean(self) -> bool:
        return bool(getattr(self, "mean_stable", False))

    @property
    def verified(self) -> bool:
        """True: an object that exists has passed its check."""
        return bool(self.margin > 0)

    def verify(self, rigorous: bool = False) -> bool:
        """Repeat the check from the stored matrices.

        Parameters
        ----------
        rigorous : bool, optional
            Repeat it in ball arithmetic too, where True is a proof; needs the extra "rigorous".

        Returns
        -------
        bool
            False also for a certificate that is none: a field of the wrong type, shape or sign, or
            a matrix that is not symmetric.

        Raises
        ------
        GausscontrolError
            If `rigorous` and python-flint is not installed.

        Notes
        -----
        Theory 9.1, 9.3.
        """
        if rigorous:
            self._require_proof()
        try:
            with np.errstate(all="ignore"):
                return bool(
                    is_well_formed(self)
                    and 0 < self.margin <= (1 + REPEATED) * self._recheck()
                    and (not rigorous or self._prove())
                )
        except MALFORMED:
            return False

    def _require_proof(self) -> None:
        if type(self)._prove is Certificate._prove:
            self._prove()
        require_balls()

    @abstractmethod
    def _recheck(self) -> float:
        """Repeat the check in floating point and return the margin; at most zero if it fails."""

    def _prove(self) -> bool:
        """Repeat the check in ball arithmetic."""
        raise NotCertified(
            f"rigorous: {type(self).__name__} has no check in ball arithmetic; "
            "use verify() without it"
        )

    def __str__(self) -> str:
        verdict = "Proved" if self.proved else "Certified"
        lines = [f"{verdict}: {self.statement}", f"  scope   {self.scope}"]
        return "\n".join([*lines, *self.details(), f"  margin  {self.margin:.3g}"])

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular.

        Returns
        -------
        list of str
        """
        return []


def guarded(certify: Callable[Arguments, Claim]) -> Callable[Arguments, Claim]:
    """Make a certify function refuse numbers that leave double precision, without warnings.

    Infinity and NaN fail every inequality that is checked, so that a certificate is refused in the
    ordinary way wherever no decomposition stumbles over them first.
    """

    @wraps(certify)
    def guarding(*arguments: Arguments.args, **options: Arguments.kwargs) -> Claim:
        try:
            with np.errstate(all="ignore"):
                certificate = certify(*arguments, **options)
        except (np.linalg.LinAlgError, FloatingPointError, OverflowError) as error:
            raise _out_of_range() from error
        if not np.isfinite(certificate.margin):
            raise _out_of_range()
        return certificate

    return guarding


def _out_of_range() -> NotCertified:
    return NotCertified(
        "model: the numbers of the check leave double precision; change the units of depth or of "
        "the coordinates"
    )


def at_most(value: float) -> str:
    """Write an upper bound with six digits, rounded up.

    Parameters
    ----------
    value : float
        Not negative. The last of twelve digits counts as rounding.

    Returns
    -------
    str

    Examples
    --------
    >>> at_most(1.0000010), at_most(1.0), at_most(1234567.0)
    ('1.00001', '1', '1.23457e+06')
    """
    if not np.isfinite(value):
        return f"{value:g}"
    twelve = Decimal(f"{value:.11e}")
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).plus(twelve)):.6g}"


def finished(certificate: Claim, rigorous: bool) -> Claim:
    """Return a certificate, with its proof in ball arithmetic if one is asked for.

    Parameters
    ----------
    certificate : Certificate
        Verified in floating point.
    rigorous : bool

    Returns
    -------
    Certificate
        With `proved` set if `rigorous`.

    Raises
    ------
    NotCertified
        If `rigorous` and the proof does not go through.
    """
    if not rigorous:
        return certificate
    if not certificate.verify(rigorous=True):
        raise NotCertified(
            "rigorous: the check holds in floating point but not in ball arithmetic; the margin "
            f"{certificate.margin:.3g} is too thin for a proof, use rigorous=False",
            margin=certificate.margin,
        )
    return replace(certificate, proved=True)


def certified_covariance(model: GaussianTransformer, equilibrium: Any) -> np.ndarray:
    """Read the covariance to certify and refuse one that is not positive definite.

    Parameters
    ----------
    model : GaussianTransformer
    equilibrium : Equilibrium or (d, d) array_like

    Returns
    -------
    (d, d) ndarray

    Raises
    ------
    ParameterError
        If it is no positive definite d x d matrix.
    """
    check_single_model(model)
    if isinstance(equilibrium, Equilibrium):
        if equilibrium.rank < model.dim:
            raise NotCertified(
                f"equilibrium: expected a positive definite covariance, found rank "
                f"{equilibrium.rank} of {model.dim}; singular equilibria are not certified"
            )
        equilibrium = equilibrium.covariance
    value = real_array(equilibrium, "equilibrium")
    covariance = covariance_matrix(value, "equilibrium", model.dim)
    whitening(covariance, "equilibrium")
    return covariance


def check_enclosed(point: WhitenedPoint, radius: float) -> None:
    """Refuse a computed equilibrium that is none, or is too rough to stand for the exact one.

    Parameters
    ----------
    point : WhitenedPoint
    radius : float
        Whitened distance within which an exact equilibrium is proven; infinite if none is.

    Raises
    ------
    NotCertified
        If the radius exceeds 1e-3.
    """
    if radius <= ROUGHEST:
        return
    size = np.linalg.norm(point.asymmetry)
    found = f"only one within {radius:.2g}" if np.isfinite(radius) else "none"
    raise NotCertified(
        f"equilibrium: expected an exact one proven within {ROUGHEST:g} in whitened coordinates, "
        f"found {found}, as |F(Sigma)| = {size:.2g} with rounding up to "
        f"{2 * point.drift_error:.2g}; polish it with find_equilibrium(model, guess)",
        margin=-float(size),
    )


def hurwitz_margin(matrix: np.ndarray, perturbation: float) -> float:
    """Verify that a matrix is Hurwitz, by a Lyapunov inequality checked after solving it.

    Parameters
    ----------
    matrix : (d, d) ndarray
    perturbation : float
        Spectral-norm distance within which every matrix must be Hurwitz too.

    Returns
    -------
    float
        Positive if verified: -lambda_max(M^T P + P M) - 2 |P| perturbation, with P scaled to
        |P| = 1 and rounding subtracted. At most zero otherwise.
    """
    size = matrix.shape[0]
    try:
        P = solve_lyapunov(matrix.T, np.eye(size))
    except MatrixEquationError:
        return -np.inf
    P = symmetrise(P) / np.linalg.norm(P, 2)
    values = np.linalg.eigvalsh(P)
    rounding = 8 * size * np.finfo(float).eps
    if not values[0] > rounding:
        return float(min(values[0] - rounding, 0.0))
    product = P @ matrix
    decay = -float(np.linalg.eigvalsh(product + product.T)[-1])
    return decay - 2 * perturbation - 2 * rounding * float(np.linalg.norm(matrix))
