"""Blow-up certified before it happens (Theory 3.2, 5.3, 5.6).

    y = tr(P Sigma),     y' >= 2 (k y^2 + a y - g),   k > 0
    =>  every Sigma_0 >= 0 with y above the larger zero escapes to infinity at a finite depth

"spectral" compares lambda_max(B^(1/2) Sigma B^(1/2)) instead of y, "subspace" takes P on a
left-invariant subspace of V, "sdp" a P > 0 from a semidefinite programme over the cone relaxation.
"riccati" needs no comparison: where every V_h is a multiple of I, the closed form decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import check_model
from gausscontrol.certificates.balance import Balanced, balanced, check_continuous
from gausscontrol.certificates.base import Certificate, at_most, finished, guarded
from gausscontrol.certificates.blow_up_offers import Offer, offers, repeated_margin, stored_plane
from gausscontrol.certificates.comparison import EPS, Growth
from gausscontrol.certificates.riccati_growth import escape_depth, escape_level, riccati_flow
from gausscontrol.certificates.rigorous.blow_up import prove_blow_up
from gausscontrol.certificates.spectral import spectra, spectral_level
from gausscontrol.certificates.subspace import reference_covariance
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["BlowUp", "certify_blow_up"]


@dataclass(frozen=True, eq=False)
class BlowUp(Certificate):
    """Covariances beyond a threshold escape at a finite depth.

    Attributes
    ----------
    method : str
        "spectral" (Theory 5.6), "subspace" or "sdp" (Theory 5.3), "riccati" (Theory 3.2).
    P : (d, d) ndarray or None
        y = tr(P Sigma), with tr P between 1 and 2; None for "spectral", where
        y = lambda_max(B^(1/2) Sigma B^(1/2)), B that of the head whose key is largest in balanced
        coordinates. For "riccati" y = lambda_max(P Sigma), P not always definite: with
        G = sum_h v_h (B_h + B_h^T), P <= int_0^depth e^(A^T s) G e^(A s) ds or, if A = a I and
        `depth` is 0, P <= G.
    threshold : float
        Bound on tr(P Sigma_0) / sqrt(tr P) [x]^2, for "spectral" and "riccati" on y, above which
        Sigma blows up; 1 where `depth` is not 0.
    rate, gain, loss : float
        y' >= 2 (gain y^2 + rate y - loss). rate is in [1/t]. Zero where `depth` is not.
    multiplier : (d^2, d^2) ndarray or None
        G >= 0 with q_P(S) - <G, S (x) S> > 0, S (x) S the row-major Kronecker product; None for
        zero.
    basis, weight : (d, r) and (r, r) ndarray or None
        "subspace": P = U Q U^T for a left-invariant subspace of V near the columns of U.
    uncertainty : float
        "subspace": how far U is from an exact basis, in the units of `data["scale"]`.
    reading : str
        Ending of the statement where structure is read from rounded numbers; empty if it is exact.
    depth : float
        "riccati", unless A = a I: what is beyond the threshold has escaped by then; otherwise 0,
        and `time_bound` depends on the start alone. [t]
    """

    method: str
    P: np.ndarray | None
    threshold: float
    rate: float
    gain: float
    loss: float
    multiplier: np.ndarray | None = None
    basis: np.ndarray | None = None
    weight: np.ndarray | None = None
    uncertainty: float = 0.0
    reading: str = ""
    depth: float = 0.0

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        if self.threshold == 0 and self.method in ("spectral", "sdp"):
            which = "every covariance but zero"
        else:
            which = f"every covariance with {self._measure} > {at_most(self.threshold)}"
        when = f"no later than depth {at_most(self.depth)}" if self.depth else "at a finite depth"
        return f"{which} escapes to infinity {when}{self.reading}"

    @property
    def _measure(self) -> str:
        if self.P is None:
            return "lambda_max(B^1/2 Sigma_0 B^1/2)"
        if self.method == "riccati":
            return "lambda_max(P Sigma_0)"
        return "tr(P Sigma_0)/sqrt(tr P)"

    def level(self, Sigma0: ArrayLike) -> float:
        """Return y of a covariance, less what rounding may have added.

        Parameters
        ----------
        Sigma0 : (d, d) array_like
            Positive semidefinite; it may be singular. [x]^2

        Returns
        -------
        float

        Raises
        ------
        ShapeError, ParameterError
            If it is no covariance of the model's dimension.
        """
        Sigma = covariance_matrix(Sigma0, "Sigma0", self.model.dim)
        found = balanced(self.model)
        if self.method == "riccati":
            flow = riccati_flow(found)
            return escape_level(flow.from_original(self.P), flow.covariance(Sigma))
        if self.method == "spectral":
            return spectral_level(found, spectra(found).B, Sigma)
        Sigma = found.covariance(Sigma)
        if self.method == "subspace":
            return stored_plane(found, self).value(Sigma, self.uncertainty)
        P = found.to_balanced(self.P)
        rounding = 4 * len(P) * EPS * np.linalg.norm(P) * np.linalg.norm(Sigma)
        return float(np.sum(P * Sigma) - rounding)

    def time_bound(self, Sigma0: ArrayLike) -> float:
        """Return an upper bound of the depth at which Sigma escapes.

        Parameters
        ----------
        Sigma0 : (d, d) array_like
            Positive semidefinite; it may be singular. [x]^2

        Returns
        -------
        float
            [t]; infinite where the certificate says nothing, up to the threshold.

        Raises
        ------
        ShapeError, ParameterError
            If it is no covariance of the model's dimension.

        Notes
        -----
        Theory 5.3, 5.6: the depth at which y' = 2 (gain y^2 + rate y - loss) escapes. Theory 3.2
        for "riccati": a depth t, up to `depth`, at which lambda_max(W(t) Sigma_0) has passed 1.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> certificate = gct.certify_blow_up(gct.GaussianTransformer(-1, 1, 1))
        >>> round(certificate.threshold, 6), round(certificate.time_bound([[2.0]]), 4)
        (1.0, 0.3466)
        """
        if not self.depth:
            return self._growth.escape_depth(self.level(Sigma0))
        found = balanced(self.model)
        flow = riccati_flow(found)
        Sigma = flow.covariance(covariance_matrix(Sigma0, "Sigma0", self.model.dim))
        P = flow.from_original(self.P)
        return escape_depth(flow, P, self.depth / found.depth, Sigma) * found.depth

    def contains(self, Sigma0: ArrayLike) -> bool:
        """Tell whether a covariance is certified to blow up.

        Parameters
        ----------
        Sigma0 : (d, d) array_like
            Positive semidefinite; it may be singular. [x]^2

        Returns
        -------
        bool

        Raises
        ------
        ShapeError, ParameterError
            If it is no covariance of the model's dimension.
        """
        return bool(np.isfinite(self.time_bound(Sigma0)))

    @property
    def _growth(self) -> Growth:
        return Growth(self.rate, self.gain, self.loss)

    @property
    def _least_level(self) -> float:
        """The value of y beyond which covariances escape."""
        return self.threshold if self.depth else self._growth.level

    def _recheck(self) -> float:
        """Repeat the comparison from the model and the stored matrices."""
        return -np.inf if self.model.dt else repeated_margin(balanced(self.model), self)

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_blow_up(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        unit = "" if self.P is None or self.method == "riccati" else " [x]^2"
        return [
            f"  method  {self.method}",
            f"  where   {self._measure} > {at_most(self.threshold)}{unit}",
        ]


@guarded
def certify_blow_up(
    model: GaussianTransformer,
    Sigma0: ArrayLike | None = None,
    *,
    sdp: bool = True,
    rigorous: bool = False,
) -> BlowUp:
    """Certify that large covariances escape at a finite depth.

    With P >= 0 and q_P(S) = sum_h tr(P V_h S B_h S) >= k tr(P S)^2 for S >= 0, y = tr(P Sigma)
    outruns a scalar equation that escapes.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma0 : (d, d) array_like, optional
        A covariance that the certificate must apply to; it may be singular. [x]^2
    sdp : bool, optional
        Whether semidefinite programmes may be solved, if nothing cheaper certifies.
    rigorous : bool, optional
        Repeat the check in ball arithmetic.

    Returns
    -------
    BlowUp
        With `Sigma0`, the certificate with the least bound on the depth of those tried; the
        verdict concerns the covariance.

    Raises
    ------
    NotCertified
        If no growth is verified, if Sigma0 is not beyond the threshold (the message says by how
        much), or if the depth is discrete.
    ShapeError, ParameterError
        If Sigma0 is no covariance of the model's dimension.

    Notes
    -----
    Theory 3.2, 4.7, 5.3, 5.6. Spectral comparison, invariant subspaces and, where every V_h is a
    multiple of the identity, the closed form are tried before semidefinite programmes. There every
    covariance that escapes is certified if it is given as `Sigma0`, and some covariance whenever
    G = sum_h v_h (B_h + B_h^T) has a positive eigenvalue, both but for rounding. The verdict
    changes neither under head gauge nor with the units.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> V = np.array([[1.0, 4.0], [0.0, -2.0]])
    >>> model = gct.GaussianTransformer(-np.eye(2), np.eye(2), V)
    >>> certificate = gct.certify_blow_up(model, 100 * np.eye(2))
    >>> certificate.method, certificate.contains(0.01 * np.eye(2))
    ('subspace', False)
    """
    check_model(model)
    check_continuous(model)
    found = balanced(model)
    start = None if Sigma0 is None else covariance_matrix(Sigma0, "Sigma0", model.dim)
    if start is not None and not start.any():
        raise NotCertified(
            "Sigma0: the zero covariance stays zero; use one that is not, or call without it",
            margin=-1.0,
        )
    Sigma = None if start is None else found.covariance(start)
    best: BlowUp | None = None
    for shown in offers(found, Sigma, sdp=sdp):
        tried = [_certificate(found, offer) for offer in shown]
        # The last one tried wins only where it escapes sooner, or needs less of the start.
        tried += [best] if best else []
        best = min(tried, key=_urgency(found, Sigma)) if len(tried) > 1 else next(iter(tried), None)
        if best is not None and (start is None or best.contains(start)):
            return finished(best, rigorous)
    if best is None:
        raise NotCertified(
            "model: no growth is verified: no P with q_P(S) = sum_h tr(P V_h S B_h S) > 0 on "
            f"S >= 0 was found{'' if sdp else ' without semidefinite programmes'}; covariances "
            "may still blow up, see moment_response"
        )
    raise _short_of(best, start)


def _short_of(certificate: BlowUp, start: np.ndarray) -> NotCertified:
    """Say how far a start is from the threshold."""
    y, least = certificate.level(start), certificate._least_level
    reached = y / least if least > 0 else 0.0
    found = f"it reaches {reached:.4g} of the threshold"
    if y == 0:
        found = f"{certificate._measure} is not positive beyond rounding in the certificate"
    more = f"use more than {1 / reached:.4g} Sigma0, or " if reached > 0 else ""
    return NotCertified(
        f"Sigma0: not certified to blow up: {found} of method {certificate.method!r}; "
        f"{more}call without it",
        margin=float(reached - 1),
    )


def _urgency(found: Balanced, start: np.ndarray | None) -> Callable[[BlowUp], tuple[float, float]]:
    """Order certificates by the depth at which they let a start escape, then by their threshold."""
    reference = reference_covariance(found) if start is None else start
    Sigma = symmetrise(reference) / found.scale[:, None] / found.scale

    def key(certificate: BlowUp) -> tuple[float, float]:
        y = certificate.level(Sigma)
        needed = certificate._least_level / y if y > 0 else np.inf
        return certificate.time_bound(Sigma), needed

    return key


def _certificate(found: Balanced, offer: Offer) -> BlowUp:
    shown = offer.growth
    return BlowUp(
        model=found.original,
        margin=offer.margin,
        data={"scale": found.scale, "rate": shown.rate, "gain": shown.gain, "loss": shown.loss},
        method=offer.method,
        threshold=offer.threshold,
        rate=shown.rate,
        gain=shown.gain,
        loss=shown.loss,
        **{"P": None, **offer.stored},
    )
