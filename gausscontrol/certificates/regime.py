"""Boundedness and collapse: what every covariance does, with no equilibrium (Theory 5.1, 5.2).

    y = tr(P Sigma),   y' <= 2 (a y - k y^2):     limsup y <= max(0, a) / k,     a < 0: Sigma -> 0

Spectral comparison (Theory 5.6) and Lyapunov equations come first, semidefinite programmes last.
Blow-up is in `blow_up`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gausscontrol.analysis.equilibrium import check_model
from gausscontrol.certificates.balance import Balanced, balanced, check_continuous
from gausscontrol.certificates.base import Certificate, at_most, finished, guarded
from gausscontrol.certificates.cone import Witness
from gausscontrol.certificates.decay import (
    Decay,
    candidates,
    decay,
    mean_margin,
    programmes,
    trace_factor,
)
from gausscontrol.certificates.rigorous_regime import prove_boundedness, prove_collapse
from gausscontrol.certificates.spectral import spectra, trace_of_inverse
from gausscontrol.errors import NotCertified
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Boundedness", "Collapse", "certify_boundedness", "certify_collapse"]

# A stored number may differ from a repeated computation by this much.
REPEATED = 1e-9


@dataclass(frozen=True, eq=False)
class Boundedness(Certificate):
    """Every covariance exists for all depths and stays bounded.

    Attributes
    ----------
    bound : float
        limsup of tr Sigma over the depth is at most this, from every start. [x]^2
    method : str
        "spectral" (Theory 3.7), "lyapunov" (Theory 5.4) or "sdp" (Theory 5.1).
    P : (d, d) ndarray or None
        y = tr(P Sigma); None for "spectral".
    rate, gain : float
        y' <= 2 (rate y - gain y^2); for "spectral" y = lambda_max(B^(1/2) Sigma B^(1/2)).
    multiplier : (d^2, d^2) ndarray or None
        G >= 0 with -q_P(S) - <G, S (x) S> > 0, S (x) S the row-major Kronecker product; None for
        zero.
    mean_stable : bool
        Whether the mean is verified to stay bounded too.
    """

    bound: float
    method: str
    P: np.ndarray | None
    rate: float
    gain: float
    multiplier: np.ndarray | None = None
    mean_stable: bool = False

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        return (
            "every covariance exists for all depths, and in the end tr Sigma is at most "
            f"{at_most(self.bound)} [x]^2{'; every mean stays bounded' if self.mean_stable else ''}"
        )

    def _recheck(self) -> float:
        """Repeat the comparison from the model and the stored matrices."""
        found = balanced(self.model)
        offer = _repeat(found, self)
        if offer is None or self.model.dt or not offer.bound <= (1 + REPEATED) * self.bound:
            return -np.inf
        shown = offer.shown.scaled(found.depth)
        slack = REPEATED * abs(self.rate)
        repeated = (
            shown.rate <= self.rate + slack
            and shown.gain >= (1 - REPEATED) * self.gain
            and np.isfinite(self.bound)
            and (not self.mean_stable or mean_margin(found, offer.reach) > 0)
        )
        return _bounded_margin(found, offer) if repeated else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_boundedness(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        return [
            f"  method  {self.method}",
            f"  bound   {at_most(self.bound)} on the limsup of tr Sigma [x]^2",
        ]


@dataclass(frozen=True, eq=False)
class Collapse(Certificate):
    """Every covariance tends to zero exponentially.

    Attributes
    ----------
    rate : float
        tr Sigma <= C e^(-rate t), with C proportional to tr Sigma_0. [1/t]
    method : str
        "spectral" (Theory 5.6), "lyapunov" or "sdp" (Theory 5.2).
    P : (d, d) ndarray or None
        tr(P Sigma) decays at the rate; None for "spectral".
    multiplier : (d^2, d^2) ndarray or None
        As in `Boundedness`.
    mean_stable : bool
        Whether A + Vbar is verified to be Hurwitz.
    """

    rate: float
    method: str
    P: np.ndarray | None
    multiplier: np.ndarray | None = None
    mean_stable: bool = False

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        return (
            f"every covariance tends to zero, tr Sigma like exp(-{self.rate:.6g} t)"
            f"{'; every mean tends to -(A + Vbar)^-1 b' if self.mean_stable else ''}"
        )

    def _recheck(self) -> float:
        """Repeat the comparison from the model and the stored matrices."""
        found = balanced(self.model)
        offer = _repeat(found, self)
        if offer is None or self.model.dt or not offer.shown.holds:
            return -np.inf
        repeated = -2 * offer.shown.rate / found.depth >= (1 - REPEATED) * self.rate > 0 and (
            not self.mean_stable or mean_margin(found, 0.0) > 0
        )
        return _collapse_margin(found, offer) if repeated else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_collapse(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        return [
            f"  method  {self.method}",
            f"  rate    {self.rate:.6g} per unit depth",
        ]


@guarded
def certify_boundedness(
    model: GaussianTransformer, *, sdp: bool = True, rigorous: bool = False
) -> Boundedness:
    """Certify that every covariance stays bounded.

    With P > 0 and q_P(S) = sum_h tr(P V_h S B_h S) <= -k tr(P S)^2 for S >= 0, y = tr(P Sigma)
    obeys y' <= 2 (a y - k y^2), P A + A^T P <= 2 a P. No start escapes; limsup y <= max(0, a)/k.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    sdp : bool, optional
        Whether semidefinite programmes may be solved, if nothing cheaper certifies.
    rigorous : bool, optional
        Repeat the check in ball arithmetic.

    Returns
    -------
    Boundedness
        Of those that certify, the one with the least bound. `scope` is "covariance and mean" where
        the mean is certified to stay bounded too.

    Raises
    ------
    NotCertified
        If no such P is verified, or the depth is discrete.
    ParameterError
        If it is not a GaussianTransformer.

    Notes
    -----
    Theory 3.7, 5.1, 5.4. The verdict changes neither under head gauge nor with the units.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> V = np.array([[-1.0, 4.0], [0.0, -2.0]])
    >>> certificate = gct.certify_boundedness(gct.GaussianTransformer(np.eye(2), np.eye(2), V))
    >>> certificate.method, bool(certificate.bound < 100)
    ('lyapunov', True)
    """
    found = _continuous(model)
    offer, shortfall = _least_bound(found, sdp)
    if offer is None:
        _check_attention(found)
        raise NotCertified(
            f"model: not certified as bounded: the best P found misses q_P(S) < 0 on S >= 0 by "
            f"{-shortfall:.3g} of its size{_without(sdp)}; covariances may still be bounded",
            margin=shortfall,
        )
    shown = offer.shown.scaled(found.depth)
    certificate = Boundedness(
        model=model,
        margin=_bounded_margin(found, offer),
        data={"rate": shown.rate, "gain": shown.gain, "scale": found.scale},
        bound=offer.bound,
        method=offer.method,
        P=offer.P,
        rate=shown.rate,
        gain=shown.gain,
        multiplier=offer.multiplier,
        mean_stable=mean_margin(found, offer.reach) > 0,
    )
    return finished(certificate, rigorous)


@guarded
def certify_collapse(
    model: GaussianTransformer, *, sdp: bool = True, rigorous: bool = False
) -> Collapse:
    """Certify that every covariance tends to zero exponentially.

    With P > 0, P A + A^T P <= 2 a P, a < 0, and q_P(S) <= 0 for S >= 0, tr(P Sigma) decays like
    e^(2 a t) from every start.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    sdp : bool, optional
        Whether a semidefinite programme may be solved, if nothing cheaper certifies.
    rigorous : bool, optional
        Repeat the check in ball arithmetic.

    Returns
    -------
    Collapse
        Of those that certify, the one with the largest rate. `scope` is "covariance and mean"
        where A + Vbar is Hurwitz, so that every mean tends to -(A + Vbar)^-1 b.

    Raises
    ------
    NotCertified
        If no such P is verified, or the depth is discrete.
    ParameterError
        If it is not a GaussianTransformer.

    Notes
    -----
    Theory 5.2, 5.6. q_P is verified to be negative by more than rounding, except where q_P <= 0 is
    decided with integers: no attention at all, V_h = v_h I, or B V + V^T B <= 0.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2))
    >>> certificate = gct.certify_collapse(model)
    >>> certificate.method, round(certificate.rate, 6), certificate.scope
    ('spectral', 2.0, 'covariance and mean')
    """
    found = _continuous(model)
    offer, shortfall = _fastest(found, sdp)
    if offer is None:
        raise NotCertified(
            "model: not certified to collapse: the best P found misses P A + A^T P < 0 with "
            f"q_P(S) < 0 on S >= 0 by {-shortfall:.3g} of their size{_without(sdp)}; "
            "see certify_boundedness",
            margin=shortfall,
        )
    rate = -2 * offer.shown.rate / found.depth
    certificate = Collapse(
        model=model,
        margin=_collapse_margin(found, offer),
        data={"rate": rate, "scale": found.scale},
        rate=rate,
        method=offer.method,
        P=offer.P,
        multiplier=offer.multiplier,
        mean_stable=mean_margin(found, 0.0) > 0,
    )
    return finished(certificate, rigorous)


# -- offers: what each method shows ---------------------------------------------------------------


class _Offer(NamedTuple):
    # In balanced depth, but y as stored; `reach` bounds limsup tr of the balanced Sigma.
    method: str
    shown: Decay
    bound: float
    reach: float
    P: np.ndarray | None = None
    multiplier: np.ndarray | None = None

    @property
    def margin(self) -> float:
        return float(self.shown.margin)


def _continuous(model: GaussianTransformer) -> Balanced:
    check_model(model)
    check_continuous(model)
    return balanced(model)


def _check_attention(found: Balanced) -> None:
    """Say so where covariances grow because nothing holds them."""
    if found.model.heads.norms().any():
        return
    abscissa = float(np.linalg.eigvals(found.model.A).real.max()) / found.depth
    if abscissa > 0:
        raise NotCertified(
            f"model: there is no attention, and A has an eigenvalue with real part {abscissa:.4g}, "
            "so that covariances grow without bound",
            margin=-abscissa,
        )


def _least_bound(found: Balanced, sdp: bool) -> tuple[_Offer | None, float]:
    """Return the offer with the least bound, and how close the best came if there is none."""
    offers = list(_cheap(found))
    best = min(offers, key=lambda offer: offer.bound, default=None)
    if sdp and (best is None or not np.isfinite(best.bound)):
        offers += _solved(found, decaying=False)
        best = min(offers, key=lambda offer: offer.bound, default=None)
    if best is not None and np.isfinite(best.bound):
        return best, best.margin
    return None, max((offer.margin for offer in offers), default=-1.0)


def _fastest(found: Balanced, sdp: bool) -> tuple[_Offer | None, float]:
    """Return the offer with the fastest decay, and how close the best came if there is none."""
    offers: list[_Offer] = []
    for source in (_cheap, _solved) if sdp else (_cheap,):
        offers += source(found)
        valid = [offer for offer in offers if offer.shown.holds and offer.shown.rate < 0]
        if valid:
            return min(valid, key=lambda offer: offer.shown.rate), 0.0
    return None, max((_collapse_margin(found, offer) for offer in offers), default=-1.0)


def _cheap(found: Balanced) -> Iterator[_Offer]:
    spectral = _spectral(found)
    if spectral is not None:
        yield spectral
    for witness in candidates(found):
        offer = _offer(found, "lyapunov", witness)
        if offer is not None:
            yield offer


def _solved(found: Balanced, decaying: bool = True) -> Iterator[_Offer]:
    for witness in programmes(found, decaying=decaying):
        offer = _offer(found, "sdp", witness)
        if offer is not None:
            yield offer


def _spectral(found: Balanced) -> _Offer | None:
    numbers = spectra(found)
    if numbers is None or not np.isfinite(numbers.a_high):
        return None
    holds = numbers.v_high <= 0
    margin = -numbers.v_high / numbers.size
    shown = Decay(numbers.a_high / 2, max(-numbers.v_high, 0.0) / 2, margin, holds)
    bound = shown.bound(trace_of_inverse(numbers.B, found.scale))
    reach = shown.bound(trace_of_inverse(numbers.B, np.ones(found.dim)))
    # y in the units of the model's own B.
    shown = shown._replace(gain=shown.gain / found.key_gauge)
    return _Offer("spectral", shown, bound, reach)


def _offer(found: Balanced, method: str, witness: Witness) -> _Offer | None:
    """Normalise a witness to tr P between 1 and 2 in original coordinates, and evaluate it."""
    size = int(np.frexp(float(np.trace(found.to_original(witness.P))))[1]) - 1
    P, G = np.ldexp(witness.P, -size), witness.multiplier
    G = None if G is None else np.ldexp(G, -size)
    return _evaluated(found, method, Witness(P, G))


def _evaluated(found: Balanced, method: str, witness: Witness) -> _Offer | None:
    shown = decay(found, witness)
    if shown is None:
        return None
    bound = shown.bound(trace_factor(witness.P, found.scale))
    reach = shown.bound(trace_factor(witness.P, np.ones(found.dim)))
    G = witness.multiplier
    return _Offer(
        method,
        shown,
        bound,
        reach,
        found.to_original(witness.P),
        None if G is None else found.multiplier_to_original(G),
    )


def _repeat(found: Balanced, certificate: Boundedness | Collapse) -> _Offer | None:
    """Evaluate what a certificate stores."""
    if certificate.method == "spectral":
        return _spectral(found) if certificate.P is None else None
    if certificate.method not in ("lyapunov", "sdp"):
        return None
    G = certificate.multiplier
    G = None if G is None else found.multiplier_to_balanced(G)
    return _evaluated(found, certificate.method, Witness(found.to_balanced(certificate.P), G))


# -- margins --------------------------------------------------------------------------------------


def _bounded_margin(found: Balanced, offer: _Offer) -> float:
    return offer.margin if offer.shown.margin > 0 else _decay_margin(found, offer.shown)


def _decay_margin(found: Balanced, shown: Decay) -> float:
    """Return -a as a share of A."""
    return float(-shown.rate / (np.linalg.norm(found.model.A) or 1.0))


def _collapse_margin(found: Balanced, offer: _Offer) -> float:
    margin = _decay_margin(found, offer.shown)
    # Where q_P <= 0 holds exactly, there is no margin to speak of.
    if offer.shown.holds and offer.shown.margin <= 0:
        return margin
    return min(margin, offer.margin)


def _without(sdp: bool) -> str:
    return "" if sdp else " (without semidefinite programmes)"
