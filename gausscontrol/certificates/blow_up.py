"""Blow-up certified before it happens (Theory 5.3, 5.6).

    y = tr(P Sigma),     y' >= 2 (k y^2 + a y - g),   k > 0
    =>  every Sigma_0 >= 0 with y above the larger zero escapes to infinity at a finite depth

"spectral" compares lambda_max(B^(1/2) Sigma B^(1/2)) instead of y, "subspace" takes P on a
left-invariant subspace of V, "sdp" a P > 0 from a semidefinite programme over the cone relaxation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gausscontrol.analysis.equilibrium import check_model
from gausscontrol.certificates.balance import Balanced, balanced, check_continuous
from gausscontrol.certificates.base import Certificate, at_most, finished, guarded
from gausscontrol.certificates.comparison import EPS, Growth, pencil_bounds
from gausscontrol.certificates.cone import LARGEST_CONE, Search, pencil, witness_growth
from gausscontrol.certificates.rigorous_blow_up import prove_blow_up
from gausscontrol.certificates.spectral import spectra, spectral_growth, spectral_level
from gausscontrol.certificates.subspace import (
    Plane,
    SubspaceGrowth,
    planes,
    reference_covariance,
    subspace_growth,
)
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.symmetric import covariance_matrix, symmetrise
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["BlowUp", "certify_blow_up"]

# Rates a at which the programme is solved again, as shares of the rate of the first witness.
REFINEMENTS = (0.0, 0.5)
# A stored number may differ from a repeated computation by this much.
REPEATED = 1e-9


@dataclass(frozen=True, eq=False)
class BlowUp(Certificate):
    """Covariances beyond a threshold escape at a finite depth.

    Attributes
    ----------
    method : str
        "spectral" (Theory 5.6), "subspace" or "sdp" (Theory 5.3).
    P : (d, d) ndarray or None
        y = tr(P Sigma), with tr P between 1 and 2; None for "spectral", where
        y = lambda_max(B^(1/2) Sigma B^(1/2)), B that of the head whose key is largest in balanced
        coordinates.
    threshold : float
        Bound on tr(P Sigma_0) / sqrt(tr P) [x]^2, for "spectral" on y, above which Sigma blows up.
    rate, gain, loss : float
        y' >= 2 (gain y^2 + rate y - loss). rate is in [1/t].
    multiplier : (d^2, d^2) ndarray or None
        G >= 0 with q_P(S) - <G, S (x) S> > 0, S (x) S the row-major Kronecker product; None for
        zero.
    basis, weight : (d, r) and (r, r) ndarray or None
        "subspace": P = U Q U^T for a left-invariant subspace of V near the columns of U.
    uncertainty : float
        "subspace": how far U is from an exact basis, in the units of `data["scale"]`.
    reading : str
        Ending of the statement where structure is read from rounded numbers; empty if it is exact.
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

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        if self.threshold == 0 and self.method != "subspace":
            which = "every covariance but zero"
        else:
            which = f"every covariance with {self._measure} > {at_most(self.threshold)}"
        return f"{which} escapes to infinity at a finite depth{self.reading}"

    @property
    def _measure(self) -> str:
        if self.P is None:
            return "lambda_max(B^1/2 Sigma_0 B^1/2)"
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
        if self.method == "spectral":
            return spectral_level(found, spectra(found).B, Sigma)
        Sigma = found.covariance(Sigma)
        if self.method == "subspace":
            return self._plane(found).value(Sigma, self.uncertainty)
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
        Theory 5.3, 5.6: the depth at which y' = 2 (gain y^2 + rate y - loss) escapes.

        Examples
        --------
        >>> import gausscontrol as gct
        >>> certificate = gct.certify_blow_up(gct.GaussianTransformer(-1, 1, 1))
        >>> round(certificate.threshold, 6), round(certificate.time_bound([[2.0]]), 4)
        (1.0, 0.3466)
        """
        return self._growth.escape_depth(self.level(Sigma0))

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

    def _plane(self, found: Balanced) -> Plane:
        return Plane(self.basis / found.scale[:, None], self.weight)

    def _recheck(self) -> float:
        """Repeat the comparison from the model and the stored matrices."""
        found = balanced(self.model)
        least = _threshold(self._growth, self.P) if _fits(self) else np.inf
        if self.model.dt or not self.threshold >= least:
            return -np.inf
        offers = [
            margin
            for shown, margin in self._repeated(found)
            if _agrees(shown.scaled(found.depth), self._growth)
        ]
        return max(offers, default=-np.inf)

    def _repeated(self, found: Balanced) -> Iterator[tuple[Growth, float]]:
        """Yield what the stored matrices show, with margins."""
        if self.method == "spectral":
            numbers = spectra(found)
            shown = spectral_growth(numbers) if numbers else None
            if shown is not None:
                yield shown.scaled(1.0, found.key_gauge), numbers.v_low / numbers.size
        elif self.method == "subspace":
            plane = subspace_growth(found, self._plane(found))
            if plane and plane.uncertainty <= self.uncertainty and self.reading == _reading(plane):
                yield plane.growth, plane.margin
        else:
            G = None if self.multiplier is None else found.multiplier_to_balanced(self.multiplier)
            yield from witness_growth(found.model, found.to_balanced(self.P), G)

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_blow_up(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        unit = "" if self.P is None else " [x]^2"
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
    Theory 5.3, 5.6. Spectral comparison and invariant subspaces are tried before semidefinite
    programmes. The verdict changes neither under head gauge nor with the units.

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
    reference = reference_covariance(found) if start is None else found.covariance(start)
    best: BlowUp | None = None
    for tried in (_spectral, _subspace, _programme):
        if tried is _programme and not (sdp and model.dim <= LARGEST_CONE):
            continue
        offers = [*tried(found, reference), *([best] if best else [])]
        # The last one tried wins only where it escapes sooner, or needs less of the start.
        best = min(offers, key=_urgency(found, reference), default=None)
        if best is not None and (start is None or best.contains(start)):
            return finished(best, rigorous)
    if best is None:
        raise NotCertified(
            "model: no growth is verified: no P with q_P(S) = sum_h tr(P V_h S B_h S) > 0 on "
            f"S >= 0 was found{'' if sdp else ' without semidefinite programmes'}; covariances "
            "may still blow up, see moment_response"
        )
    reached = best.level(start) / best._growth.level
    more = f"use more than {1 / reached:.4g} Sigma0, or " if reached > 0 else ""
    raise NotCertified(
        f"Sigma0: not certified to blow up: it reaches {reached:.4g} of the threshold of "
        f"method {best.method!r}; {more}call without it",
        margin=float(reached - 1),
    )


def _urgency(found: Balanced, reference: np.ndarray) -> Any:
    """Order certificates by the depth at which they let a start escape, then by their threshold."""
    Sigma = symmetrise(reference) / found.scale[:, None] / found.scale

    def key(certificate: BlowUp) -> tuple[float, float]:
        y = certificate.level(Sigma)
        needed = certificate._growth.level / y if y > 0 else np.inf
        return certificate._growth.escape_depth(y), needed

    return key


# -- the three methods ----------------------------------------------------------------------------


def _spectral(found: Balanced, _: np.ndarray) -> Iterator[BlowUp]:
    numbers = spectra(found)
    balanced_growth = spectral_growth(numbers) if numbers else None
    if balanced_growth is not None:
        margin = numbers.v_low / numbers.size
        shown = balanced_growth.scaled(1.0, found.key_gauge)
        yield _certificate(found, "spectral", shown, margin)


def _subspace(found: Balanced, _: np.ndarray) -> Iterator[BlowUp]:
    for plane in planes(found):
        U, Q = plane
        basis = found.scale[:, None] * U
        Q = symmetrise(np.ldexp(Q, -_size(np.sum((basis @ Q) * basis))))
        plane = Plane(U, Q)
        shown = subspace_growth(found, plane)
        if shown is not None:
            yield _certificate(
                found,
                "subspace",
                shown.growth,
                shown.margin,
                reading=_reading(shown),
                P=symmetrise(basis @ Q @ basis.T),
                basis=basis,
                weight=Q,
                uncertainty=shown.uncertainty,
            )


def _programme(found: Balanced, reference: np.ndarray) -> Iterator[BlowUp]:
    search = Search(found.model, 1.0)
    first = search.definite()
    if first is None:
        return
    if not witness_growth(found.model, *first):
        return
    witnesses = [first]
    low, _ = pencil_bounds(*pencil(first.P, found.model.A))
    if low < 0 and reference.any():
        refined = (search.sharpest(share * low / 2, reference) for share in REFINEMENTS)
        witnesses += [witness for witness in refined if witness is not None]
    for P, G in witnesses:
        size = _size(np.trace(found.to_original(P)))
        P, G = np.ldexp(P, -size), None if G is None else np.ldexp(G, -size)
        for balanced_growth, margin in witness_growth(found.model, P, G):
            yield _certificate(
                found,
                "sdp",
                balanced_growth,
                margin,
                P=found.to_original(P),
                multiplier=None if G is None else found.multiplier_to_original(G),
            )


def _certificate(
    found: Balanced, method: str, shown: Growth, margin: float, **stored: Any
) -> BlowUp:
    shown = shown.scaled(found.depth)
    P = stored.pop("P", None)
    return BlowUp(
        model=found.original,
        margin=float(margin),
        data={"scale": found.scale, "rate": shown.rate, "gain": shown.gain, "loss": shown.loss},
        method=method,
        P=P,
        threshold=_threshold(shown, P) * (1 + 32 * EPS),
        rate=shown.rate,
        gain=shown.gain,
        loss=shown.loss,
        **stored,
    )


def _threshold(shown: Growth, P: np.ndarray | None) -> float:
    """Return the level of the comparison in the units that are reported."""
    return float(shown.level / (1.0 if P is None else np.sqrt(np.trace(P))))


def _reading(plane: SubspaceGrowth) -> str:
    return "" if plane.is_exact else ", where B_h = c_h B is read up to rounding"


def _fits(certificate: BlowUp) -> bool:
    """Tell whether exactly the matrices of the method are there, and P = U Q U^T is."""
    P, U, Q = certificate.P, certificate.basis, certificate.weight
    if certificate.method == "subspace":
        if P is None or U is None or Q is None or certificate.multiplier is not None:
            return False
        terms = (np.abs(U) @ np.abs(Q)) @ np.abs(U).T
        return bool((np.abs(P - U @ Q @ U.T) <= 1e-12 * terms).all())
    if not (U is None and Q is None and certificate.uncertainty == 0 and not certificate.reading):
        return False
    if certificate.method == "spectral":
        return P is None and certificate.multiplier is None
    return certificate.method == "sdp" and P is not None


def _size(trace: float) -> int:
    """Return k with trace / 2^k between 1 and 2."""
    return int(np.frexp(float(trace))[1]) - 1


def _agrees(again: Growth, stored: Growth) -> bool:
    """Tell whether a repeated computation bears out stored numbers."""
    return bool(np.allclose(again, stored, rtol=REPEATED, atol=0.0))
