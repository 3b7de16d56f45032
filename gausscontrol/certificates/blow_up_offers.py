"""What each method shows of blow-up, before it becomes a certificate (Theory 3.2, 5.3, 5.6).

    y' >= 2 (k y^2 + a y - g),   y = tr(P Sigma) or lambda_max(B^(1/2) Sigma B^(1/2));
    or, where V_h = v_h I,   P <= W(t)

"spectral", "subspace", "riccati" and "sdp", in order of cost. Computed in balanced coordinates and
depth; what an offer holds is in those of the model, as its certificate will store it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.comparison import EPS, Growth, pencil_bounds
from gausscontrol.certificates.cone import LARGEST_CONE, Search, pencil, witness_growth
from gausscontrol.certificates.riccati_growth import (
    escape_witness,
    riccati_flow,
    uniform_margin,
    uniform_witness,
    witness_margin,
)
from gausscontrol.certificates.spectral import spectra, spectral_growth
from gausscontrol.certificates.subspace import (
    Plane,
    SubspaceGrowth,
    planes,
    reference_covariance,
    subspace_growth,
)
from gausscontrol.linalg.symmetric import symmetrise

if TYPE_CHECKING:
    from gausscontrol.certificates.blow_up import BlowUp

__all__ = ["METHODS", "Offer", "offers", "repeated_margin", "stored_plane"]

METHODS = ("spectral", "subspace", "riccati", "sdp")
# Rates a at which the programme is solved again, as shares of the rate of the first witness.
REFINEMENTS = (0.0, 0.5)
# A stored number may differ from a repeated computation by this much.
REPEATED = 1e-9
# What a threshold is raised by, so that rounding does not lower it.
RAISED = 1 + 32 * EPS
# "riccati" bounds the escape by a depth, without a comparison.
NO_GROWTH = Growth(0.0, 0.0, 0.0)


class Offer(NamedTuple):
    """A verified growth per unit depth, and the matrices that its certificate stores."""

    method: str
    growth: Growth
    threshold: float
    margin: float
    stored: dict[str, Any]


def offers(found: Balanced, start: np.ndarray | None, *, sdp: bool) -> Iterator[list[Offer]]:
    """Yield what each method shows, one method after the other.

    Parameters
    ----------
    found : Balanced
    start : (d, d) ndarray or None
        A balanced covariance that is to escape; without one, low thresholds are looked for.
    sdp : bool
        Whether semidefinite programmes may be solved.
    """
    reference = reference_covariance(found) if start is None else start
    yield list(_spectral(found))
    yield list(_subspace(found))
    yield list(_riccati(found, reference, start is not None))
    if sdp and found.dim <= LARGEST_CONE:
        yield list(_programme(found, reference))


def repeated_margin(found: Balanced, certificate: BlowUp) -> float:
    """Repeat the check of a certificate from the matrices it stores.

    Parameters
    ----------
    found : Balanced
    certificate : BlowUp

    Returns
    -------
    float
        Its margin; minus infinity if the stored numbers are not borne out.
    """
    if not _fits(certificate):
        return -np.inf
    if certificate.depth:
        flow = riccati_flow(found)
        if flow is None or not certificate.threshold >= 1:
            return -np.inf
        P = flow.from_original(certificate.P)
        return witness_margin(flow, P, certificate.depth / found.depth)
    stored = Growth(certificate.rate, certificate.gain, certificate.loss)
    if not certificate.threshold >= _threshold(certificate.method, stored, certificate.P):
        return -np.inf
    margins = [
        margin
        for shown, margin in _repeated(found, certificate)
        if np.allclose(shown.scaled(found.depth), stored, rtol=REPEATED, atol=0.0)
    ]
    return max(margins, default=-np.inf)


def stored_plane(found: Balanced, certificate: BlowUp) -> Plane:
    """Return the plane of a "subspace" certificate, in balanced coordinates."""
    return Plane(certificate.basis / found.scale[:, None], certificate.weight)


# -- the four methods -----------------------------------------------------------------------------


def _spectral(found: Balanced) -> Iterator[Offer]:
    numbers = spectra(found)
    balanced_growth = spectral_growth(numbers) if numbers else None
    if balanced_growth is not None:
        margin = numbers.v_low / numbers.size
        shown = balanced_growth.scaled(1.0, found.key_gauge)
        yield _compared(found, "spectral", shown, margin)


def _subspace(found: Balanced) -> Iterator[Offer]:
    for plane in planes(found):
        U, Q = plane
        basis = found.scale[:, None] * U
        Q = symmetrise(np.ldexp(Q, -_size(np.sum((basis @ Q) * basis))))
        plane = Plane(U, Q)
        shown = subspace_growth(found, plane)
        if shown is not None:
            yield _compared(
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


def _riccati(found: Balanced, reference: np.ndarray, given: bool) -> Iterator[Offer]:
    flow = riccati_flow(found)
    if flow is None:
        return
    uniform = uniform_witness(flow)
    if uniform is not None:
        P, rate = uniform
        shown = Growth(rate, 0.5, 0.0)
        # In units of P <= G per unit depth of the model, y has the gain 1/2 there.
        size = 1 / found.depth
        stored = symmetrise(flow.to_original(P)) * size
        if np.isfinite(stored).all():
            margin = uniform_margin(flow, P)
            yield _compared(found, "riccati", shown.scaled(1.0, size), margin, P=stored)
        return
    Sigma = flow.covariance(reference / found.scale[:, None] / found.scale)
    witness = escape_witness(flow, symmetrise(Sigma), given=given)
    if witness is not None:
        P, depth, margin = witness
        stored = {"P": symmetrise(flow.to_original(P)), "depth": float(depth * found.depth)}
        if np.isfinite(stored["P"]).all() and 0 < stored["depth"] < np.inf:
            yield Offer("riccati", NO_GROWTH, 1.0, margin, stored)


def _programme(found: Balanced, reference: np.ndarray) -> Iterator[Offer]:
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
            yield _compared(
                found,
                "sdp",
                balanced_growth,
                margin,
                P=found.to_original(P),
                multiplier=None if G is None else found.multiplier_to_original(G),
            )


def _compared(found: Balanced, method: str, shown: Growth, margin: float, **stored: Any) -> Offer:
    shown = shown.scaled(found.depth)
    threshold = _threshold(method, shown, stored.get("P")) * RAISED
    return Offer(method, shown, threshold, float(margin), stored)


def _threshold(method: str, shown: Growth, P: np.ndarray | None) -> float:
    """Return the level of the comparison in the units that are reported."""
    is_trace = method in ("subspace", "sdp")
    return float(shown.level / (np.sqrt(np.trace(P)) if is_trace else 1.0))


def _size(trace: float) -> int:
    """Return k with trace / 2^k between 1 and 2."""
    return int(np.frexp(float(trace))[1]) - 1


def _reading(plane: SubspaceGrowth) -> str:
    return "" if plane.is_exact else ", where B_h = c_h B is read up to rounding"


# -- repeating them -------------------------------------------------------------------------------


def _repeated(found: Balanced, certificate: BlowUp) -> Iterator[tuple[Growth, float]]:
    """Yield what the stored matrices show in balanced depth, with margins."""
    if certificate.method == "spectral":
        numbers = spectra(found)
        shown = spectral_growth(numbers) if numbers else None
        if shown is not None:
            yield shown.scaled(1.0, found.key_gauge), numbers.v_low / numbers.size
    elif certificate.method == "subspace":
        plane = subspace_growth(found, stored_plane(found, certificate))
        is_near = plane is not None and plane.uncertainty <= certificate.uncertainty
        if is_near and certificate.reading == _reading(plane):
            yield plane.growth, plane.margin
    elif certificate.method == "riccati":
        flow = riccati_flow(found)
        if flow is not None:
            size = 1 / found.depth
            margin = uniform_margin(flow, flow.from_original(certificate.P) / size)
            yield Growth(float(flow.A[0, 0]), 0.5, 0.0).scaled(1.0, size), margin
    else:
        G = certificate.multiplier
        G = None if G is None else found.multiplier_to_balanced(G)
        yield from witness_growth(found.model, found.to_balanced(certificate.P), G)


def _fits(certificate: BlowUp) -> bool:
    """Tell whether exactly the fields of the method are there, and P = U Q U^T is."""
    P, U, Q = certificate.P, certificate.basis, certificate.weight
    if certificate.method not in METHODS:
        return False
    numbers = certificate.rate, certificate.gain, certificate.loss
    if certificate.depth and (certificate.method != "riccati" or any(numbers)):
        return False
    if certificate.multiplier is not None and certificate.method != "sdp":
        return False
    if certificate.method == "subspace":
        if P is None or U is None or Q is None:
            return False
        terms = (np.abs(U) @ np.abs(Q)) @ np.abs(U).T
        return bool((np.abs(P - U @ Q @ U.T) <= 1e-12 * terms).all())
    if not (U is None and Q is None and certificate.uncertainty == 0 and not certificate.reading):
        return False
    return (P is None) == (certificate.method == "spectral")
