"""What each method shows of decay, before it becomes a certificate (Theory 3.7, 5.1, 5.2, 5.6).

    y' <= 2 (a y - k y^2),   y = tr(P Sigma) or lambda_max(B^(1/2) Sigma B^(1/2))

    or, where V_h = v_h I,   y' <= 2 a y while y >= 1,   y = lambda_max(P Sigma)

a < 0: y decays like e^{2 a t};  a = 0 < k: like 1/(2 k t);  a > 0: limsup y <= a/k;  a = k = 0: y
never grows. That a = 0 is decided with integers, on P A + A^T P <= 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gausscontrol.certificates.balance import Balanced
from gausscontrol.certificates.comparison import EPS
from gausscontrol.certificates.cone import Witness
from gausscontrol.certificates.decay import Decay, candidates, decay, programmes, trace_factor
from gausscontrol.certificates.riccati_bound import RiccatiBound, riccati_bound, riccati_bounds
from gausscontrol.certificates.spectral import spectra, trace_of_inverse
from gausscontrol.linalg.exact import exactly_nonpositive, integers

if TYPE_CHECKING:
    from gausscontrol.certificates.regime import Boundedness, Collapse

__all__ = [
    "DecayOffer",
    "bounded_margin",
    "collapse_margin",
    "fastest",
    "least_bound",
    "repeated",
]

# Rates a, as a share of |A|, up to which a = 0 is worth deciding.
MARGINAL = 1e-9


class DecayOffer(NamedTuple):
    """What one P shows, in balanced depth but with y in the units of the model.

    `bound` and `reach` bound the limsup of tr Sigma and of the balanced trace; `trace` bounds
    tr Sigma / y, and `factor` tr Sigma(t) / tr Sigma_0 where y never grows.
    """

    method: str
    shown: Decay
    bound: float
    reach: float
    trace: float
    factor: float
    P: np.ndarray | None = None
    multiplier: np.ndarray | None = None

    @property
    def margin(self) -> float:
        """By how much q_P < 0 holds, as a share of its size."""
        return float(self.shown.margin)

    @property
    def keeps(self) -> bool:
        """Whether y is shown never to grow, and nothing more."""
        shown = self.shown
        return bool(shown.holds and shown.rate == 0 == shown.gain and not shown.floor)

    @property
    def fading(self) -> float:
        """Bound on t tr Sigma(t), t the balanced depth, where y decays like 1/t."""
        return self.trace / (2 * self.shown.gain) * (1 + 16 * EPS)

    @property
    def fades(self) -> bool:
        """Whether y decays like 1/t."""
        return bool(self.shown.holds and self.shown.rate == 0 < self.shown.gain)


def least_bound(found: Balanced, sdp: bool) -> tuple[DecayOffer | None, float]:
    """Return the offer with the least bound, and how close the best came if there is none.

    Parameters
    ----------
    found : Balanced
    sdp : bool
        Whether semidefinite programmes may be solved.
    """
    offers = list(_cheap(found))
    best = _lowest(offers) or _lowest(_riccati(found))
    if best is None:
        kept = [offer for offer in offers if offer.keeps]
        if kept:
            return min(kept, key=lambda offer: offer.factor), 0.0
        offers += _solved(found, decaying=False) if sdp else ()
        best = _lowest(offers)
    if best is not None:
        return best, best.margin
    return None, max((offer.margin for offer in offers), default=-1.0)


def _lowest(offers: Iterable[DecayOffer]) -> DecayOffer | None:
    """Return the offer with the least bound, or None if none is finite."""
    best = min(offers, key=lambda offer: offer.bound, default=None)
    return best if best is not None and np.isfinite(best.bound) else None


def fastest(found: Balanced, sdp: bool) -> tuple[DecayOffer | None, float]:
    """Return the offer with the fastest decay, and how close the best came if there is none.

    Parameters
    ----------
    found : Balanced
    sdp : bool
        Whether semidefinite programmes may be solved.
    """
    offers: list[DecayOffer] = []
    for source in (_cheap, _solved) if sdp else (_cheap,):
        offers += source(found)
        valid = [offer for offer in offers if offer.shown.holds and offer.shown.rate < 0]
        if valid:
            return min(valid, key=lambda offer: offer.shown.rate), 0.0
        fading = [offer for offer in offers if offer.fades]
        if fading:
            return min(fading, key=lambda offer: offer.fading), 0.0
    return None, max((collapse_margin(found, offer) for offer in offers), default=-1.0)


def repeated(found: Balanced, certificate: Boundedness | Collapse) -> DecayOffer | None:
    """Evaluate what a certificate stores.

    Parameters
    ----------
    found : Balanced
    certificate : Boundedness or Collapse
    """
    if certificate.method == "spectral":
        return _spectral(found) if certificate.P is None else None
    if certificate.method == "riccati" and certificate.multiplier is None:
        shown = riccati_bound(found, certificate.P)
        return None if shown is None else _riccati_offer(shown)
    if certificate.method not in ("lyapunov", "sdp"):
        return None
    G = certificate.multiplier
    G = None if G is None else found.multiplier_to_balanced(G)
    return _evaluated(found, certificate.method, Witness(found.to_balanced(certificate.P), G))


# -- the methods ----------------------------------------------------------------------------------


def _cheap(found: Balanced) -> Iterator[DecayOffer]:
    spectral = _spectral(found)
    if spectral is not None:
        yield spectral
    for witness in candidates(found):
        offer = _offer(found, "lyapunov", witness)
        if offer is not None:
            yield offer


def _riccati(found: Balanced) -> Iterator[DecayOffer]:
    return map(_riccati_offer, riccati_bounds(found))


def _riccati_offer(shown: RiccatiBound) -> DecayOffer:
    """Return the offer of a P of the Riccati case, of which y may grow up to 1."""
    decaying = Decay(shown.rate, 0.0, 0.0, True, floor=1.0)
    return DecayOffer("riccati", decaying, shown.bound, shown.reach, shown.bound, np.inf, shown.P)


def _solved(found: Balanced, decaying: bool = True) -> Iterator[DecayOffer]:
    for witness in programmes(found, decaying=decaying):
        offer = _offer(found, "sdp", witness)
        if offer is not None:
            yield offer


def _spectral(found: Balanced) -> DecayOffer | None:
    numbers = spectra(found)
    if numbers is None or not np.isfinite(numbers.a_high):
        return None
    holds = numbers.v_high <= 0
    margin = -numbers.v_high / numbers.size
    rate = _rate(found, numbers.B, numbers.a_high / 2)
    shown = Decay(rate, max(-numbers.v_high, 0.0) / 2, margin, holds)
    trace = trace_of_inverse(numbers.B, found.scale)
    bound, reach = shown.bound(trace), shown.bound(trace_of_inverse(numbers.B, np.ones(found.dim)))
    # y in the units of the model's own B.
    shown = shown._replace(gain=shown.gain / found.key_gauge)
    factor = trace * _largest(found.to_original(numbers.B))
    return DecayOffer("spectral", shown, bound, reach, trace / found.key_gauge, factor)


def _offer(found: Balanced, method: str, witness: Witness) -> DecayOffer | None:
    """Normalise a witness to tr P between 1 and 2 in original coordinates, and evaluate it."""
    size = int(np.frexp(float(np.trace(found.to_original(witness.P))))[1]) - 1
    P, G = np.ldexp(witness.P, -size), witness.multiplier
    G = None if G is None else np.ldexp(G, -size)
    return _evaluated(found, method, Witness(P, G))


def _evaluated(found: Balanced, method: str, witness: Witness) -> DecayOffer | None:
    shown = decay(found, witness)
    if shown is None:
        return None
    shown = shown._replace(rate=_rate(found, witness.P, shown.rate))
    trace = trace_factor(witness.P, found.scale)
    bound = shown.bound(trace)
    reach = shown.bound(trace_factor(witness.P, np.ones(found.dim)))
    P, G = found.to_original(witness.P), witness.multiplier
    G = None if G is None else found.multiplier_to_original(G)
    return DecayOffer(method, shown, bound, reach, trace, trace * _largest(P), P, G)


def _rate(found: Balanced, P: np.ndarray, rate: float) -> float:
    """Return zero instead of a bound a > 0 of rounding size, if P A + A^T P <= 0 exactly."""
    A = found.model.A
    if not 0 < rate <= MARGINAL * np.linalg.norm(A):
        return rate
    return 0.0 if exactly_nonpositive(integers(P)[0] @ integers(A)[0]) else rate


def _largest(P: np.ndarray) -> float:
    """Return an upper bound of the largest eigenvalue of P > 0."""
    return float(np.linalg.eigvalsh(P)[-1]) * (1 + 8 * len(P) * EPS)


# -- margins --------------------------------------------------------------------------------------


def bounded_margin(found: Balanced, offer: DecayOffer) -> float:
    """Return the margin of a bound: that of q_P < 0, or of a < 0 where q_P <= 0 holds exactly."""
    if offer.keeps:
        return 1.0
    return offer.margin if offer.shown.margin > 0 else _decay_margin(found, offer.shown)


def collapse_margin(found: Balanced, offer: DecayOffer) -> float:
    """Return the least of the margins of a < 0 and of q_P < 0, of those that are not exact."""
    if offer.fades:
        return offer.margin
    margin = _decay_margin(found, offer.shown)
    # Where q_P <= 0 holds exactly, there is no margin to speak of.
    if offer.shown.holds and offer.shown.margin <= 0:
        return margin
    return min(margin, offer.margin)


def _decay_margin(found: Balanced, shown: Decay) -> float:
    """Return -a as a share of A."""
    return float(-shown.rate / (np.linalg.norm(found.model.A) or 1.0))
