"""Boundedness and collapse: what every covariance does, with no equilibrium (Theory 5.1, 5.2).

    y = tr(P Sigma),   y' <= 2 (a y - k y^2):     limsup y <= max(0, a) / k
    a < 0, or a = 0 < k: Sigma -> 0;   a = k = 0: y never grows

Spectral comparison (Theory 5.6) and Lyapunov equations come first, semidefinite programmes last.
Blow-up is in `blow_up`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gausscontrol.analysis.equilibrium import check_model
from gausscontrol.certificates.balance import Balanced, balanced, check_continuous
from gausscontrol.certificates.base import Certificate, at_most, finished, guarded
from gausscontrol.certificates.decay import mean_margin
from gausscontrol.certificates.regime_offers import (
    DecayOffer,
    bounded_margin,
    collapse_margin,
    fastest,
    least_bound,
    repeated,
)
from gausscontrol.certificates.rigorous.regime import prove_boundedness, prove_collapse
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
        limsup of tr Sigma over the depth is at most this, from every start. [x]^2. Where
        `relative`, tr Sigma / tr Sigma_0 is at most this at every depth. [1]
    method : str
        "spectral" (Theory 3.7), "lyapunov" (Theory 5.4), "riccati" or "sdp" (Theory 5.1).
    P : (d, d) ndarray or None
        y = tr(P Sigma), for "riccati" lambda_max(P Sigma); None for "spectral".
    rate, gain : float
        y' <= 2 (rate y - gain y^2); for "spectral" y = lambda_max(B^(1/2) Sigma B^(1/2)), and for
        "riccati" while y >= 1.
    multiplier : (d^2, d^2) ndarray or None
        G >= 0 with -q_P(S) - <G, S (x) S> > 0, S (x) S the row-major Kronecker product; None for
        zero.
    mean_stable : bool
        Whether the mean is verified to stay bounded too.
    relative : bool
        Whether the bound depends on the start, since nothing draws covariances in: rate and gain
        are zero, y never grows, and there may be equilibria of every size.
    """

    bound: float
    method: str
    P: np.ndarray | None
    rate: float
    gain: float
    multiplier: np.ndarray | None = None
    mean_stable: bool = False
    relative: bool = False

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        if self.relative:
            return (
                "every covariance exists for all depths, and tr Sigma is at most "
                f"{at_most(self.bound)} tr Sigma_0"
            )
        return (
            "every covariance exists for all depths, and in the end tr Sigma is at most "
            f"{at_most(self.bound)} [x]^2{'; every mean stays bounded' if self.mean_stable else ''}"
        )

    def _recheck(self) -> float:
        """Repeat the comparison from the model and the stored matrices."""
        found = balanced(self.model)
        offer = repeated(found, self)
        if offer is None or self.model.dt:
            return -np.inf
        shown, slack = offer.shown.scaled(found.depth), REPEATED * abs(self.rate)
        agrees = (
            _bound(offer) <= (1 + REPEATED) * self.bound < np.inf
            and self.relative == offer.keeps
            and shown.rate <= self.rate + slack
            and shown.gain >= (1 - REPEATED) * self.gain
            and (not self.mean_stable or mean_margin(found, offer.reach) > 0)
        )
        return bounded_margin(found, offer) if agrees else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_boundedness(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        return [
            f"  method  {self.method}",
            f"  bound   {at_most(self.bound)} on "
            + ("tr Sigma / tr Sigma_0" if self.relative else "the limsup of tr Sigma [x]^2"),
        ]


@dataclass(frozen=True, eq=False)
class Collapse(Certificate):
    """Every covariance tends to zero.

    Attributes
    ----------
    rate : float
        tr Sigma <= C e^(-rate t), with C proportional to tr Sigma_0. [1/t]. Zero where the decay
        is verified to be algebraic only, which is all that there is if A is not Hurwitz.
    method : str
        "spectral" (Theory 5.6), "lyapunov" or "sdp" (Theory 5.2).
    P : (d, d) ndarray or None
        y = tr(P Sigma) decays at the rate; None for "spectral", where
        y = lambda_max(B^(1/2) Sigma B^(1/2)).
    multiplier : (d^2, d^2) ndarray or None
        As in `Boundedness`.
    mean_stable : bool
        Whether A + Vbar is verified to be Hurwitz.
    gain : float
        With rate 0, y' <= -2 gain y^2; zero otherwise.
    tail : float
        With rate 0, tr Sigma <= tail / t, whatever the start is [x^2 t]; zero otherwise.
    """

    rate: float
    method: str
    P: np.ndarray | None
    multiplier: np.ndarray | None = None
    mean_stable: bool = False
    gain: float = 0.0
    tail: float = 0.0

    @property
    def statement(self) -> str:
        """What is certified, in one sentence."""
        how = f"tr Sigma like exp(-{self.rate:.6g} t)"
        if self.rate == 0:
            how = f"tr Sigma at most {at_most(self.tail)}/t"
        mean = "; every mean tends to -(A + Vbar)^-1 b" if self.mean_stable else ""
        return f"every covariance tends to zero, {how}{mean}"

    def _recheck(self) -> float:
        """Repeat the comparison from the model and the stored matrices."""
        found = balanced(self.model)
        offer = repeated(found, self)
        if offer is None or self.model.dt or not offer.shown.holds or offer.shown.floor:
            return -np.inf
        shown = offer.shown.scaled(found.depth)
        if self.rate > 0:
            agrees = -2 * shown.rate >= (1 - REPEATED) * self.rate and self.gain == self.tail == 0
        else:
            agrees = (
                offer.fades
                and shown.gain >= (1 - REPEATED) * self.gain > 0
                and self.tail >= (1 - REPEATED) * offer.fading * found.depth
            )
        agrees = agrees and (not self.mean_stable or mean_margin(found, 0.0) > 0)
        return collapse_margin(found, offer) if agrees else -np.inf

    def _prove(self) -> bool:
        """Repeat it in ball arithmetic."""
        return prove_collapse(self)

    def details(self) -> list[str]:
        """Return what the report says of this kind in particular."""
        rate = f"  rate    {self.rate:.6g} per unit depth"
        if self.rate == 0:
            rate = f"  tail    tr Sigma <= {at_most(self.tail)}/t [x]^2"
        return [f"  method  {self.method}", rate]


@guarded
def certify_boundedness(
    model: GaussianTransformer, *, sdp: bool = True, rigorous: bool = False
) -> Boundedness:
    """Certify that every covariance stays bounded.

    With P > 0 and q_P(S) = sum_h tr(P V_h S B_h S) <= -k tr(P S)^2 for S >= 0, y = tr(P Sigma)
    obeys y' <= 2 (a y - k y^2), P A + A^T P <= 2 a P. No start escapes; limsup y <= max(0, a)/k.
    With a = k = 0 y never grows. Where every V_h is a multiple of the identity and
    G = sum_h v_h (B_h + B_h^T) <= 0 is singular, P A + A^T P + G < 0 bounds Sigma by P^-1.

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
        Of those that certify, the one with the least bound, one that depends on the start only if
        there is no other. `scope` is "covariance and mean" where
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
    offer, shortfall = least_bound(found, sdp)
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
        margin=bounded_margin(found, offer),
        data={"rate": shown.rate, "gain": shown.gain, "scale": found.scale},
        bound=_bound(offer),
        method=offer.method,
        P=offer.P,
        rate=shown.rate,
        gain=shown.gain,
        multiplier=offer.multiplier,
        mean_stable=mean_margin(found, offer.reach) > 0,
        relative=offer.keeps,
    )
    return finished(certificate, rigorous)


@guarded
def certify_collapse(
    model: GaussianTransformer, *, sdp: bool = True, rigorous: bool = False
) -> Collapse:
    """Certify that every covariance tends to zero.

    With P > 0, P A + A^T P <= 2 a P, a < 0, and q_P(S) <= 0 for S >= 0, tr(P Sigma) decays like
    e^(2 a t) from every start; with a = 0 and q_P(S) <= -k tr(P S)^2 like 1/(2 k t).

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
        Of those that certify, the one with the largest rate; if none is positive, with the least
        tail. `scope` is "covariance and mean"
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
    decided with integers: no attention at all, V_h = v_h I, or B V + V^T B <= 0. So is
    P A + A^T P <= 0 where a = 0.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2))
    >>> certificate = gct.certify_collapse(model)
    >>> certificate.method, round(certificate.rate, 6), certificate.scope
    ('spectral', 2.0, 'covariance and mean')
    >>> pure = gct.certify_collapse(model.replace(A=0 * np.eye(2)))
    >>> pure.rate, round(pure.tail, 6)
    (0.0, 1.0)
    """
    found = _continuous(model)
    offer, shortfall = fastest(found, sdp)
    if offer is None:
        raise NotCertified(
            "model: not certified to collapse: the best P found misses P A + A^T P < 0 with "
            f"q_P(S) < 0 on S >= 0 by {-shortfall:.3g} of their size{_without(sdp)}; "
            "see certify_boundedness",
            margin=shortfall,
        )
    shown = offer.shown.scaled(found.depth)
    certificate = Collapse(
        model=model,
        margin=collapse_margin(found, offer),
        data={"rate": -2 * shown.rate, "scale": found.scale},
        rate=float(abs(2 * shown.rate)),
        method=offer.method,
        P=offer.P,
        multiplier=offer.multiplier,
        mean_stable=mean_margin(found, 0.0) > 0,
        gain=float(shown.gain) if offer.fades else 0.0,
        tail=float(offer.fading * found.depth) if offer.fades else 0.0,
    )
    return finished(certificate, rigorous)


def _bound(offer: DecayOffer) -> float:
    return float(offer.factor if offer.keeps else offer.bound)


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
            "so that covariances grow without bound; make A Hurwitz, or add heads that hold them",
            margin=-abscissa,
        )


def _without(sdp: bool) -> str:
    return "" if sdp else " (without semidefinite programmes)"
