"""The regime of a scalar layer, decided exactly (Theory 3.7 and 5.6 at d = 1).

    s' = 2 (a + g s) s,     a = A,  g = sum_h V_h B_h,     s >= 0 the variance

This equation of Bernoulli is solved by 1/s, which is linear, so that the signs of a and g say
everything. Both signs are exact: g is summed in integers, since heads may cancel. Where no float
holds -a/g, it is rounded to infinity, and the statements say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from gausscontrol.analysis.equilibrium import check_scales
from gausscontrol.certificates.policy import BLOW_UP, BOUNDED, COLLAPSE, GLOBAL, UNDECIDED
from gausscontrol.display import Report
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.structure import exact_riccati_gain
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["ScalarRegime", "scalar_regime"]


@dataclass(frozen=True, eq=False)
class ScalarRegime(Report):
    """What a layer with d = 1 does to variances, exactly.

    Attributes
    ----------
    model : GaussianTransformer
    rate : float
        a. [1/t]
    gain : float
        g = sum_h V_h B_h, rounded once. [1/(t x^2)]
    regime : str
        "globally stable" (a > 0 > g), "collapse" (a < 0, g <= 0, or a = 0 > g), "blow-up" (g > 0),
        "bounded" (a = g = 0: every variance stays) or "undecided" (a > 0 = g: every variance grows
        without bound and none escapes, for which the regimes have no word).
    on_boundary : bool
        Whether the regime is another one arbitrarily near: g = 0, or a = 0 > g.
    equilibrium : float or None
        The positive one, -a/g, if there is one and no other; stable if a > 0; inf where it is
        beyond the range of floats. [x]^2
    threshold : float or None
        With g > 0, variances above it escape at a finite depth, and those below, if a < 0, tend to
        zero; with a < 0 it is -a/g, and inf where that is beyond the range of floats. [x]^2
    """

    model: GaussianTransformer
    rate: float
    gain: float
    regime: str
    on_boundary: bool
    equilibrium: float | None = None
    threshold: float | None = None

    @property
    def statement(self) -> str:
        """What it does, in one sentence."""
        if self.threshold is not None:
            if self.rate >= 0:
                return "every variance but zero escapes to infinity at a finite depth"
            return (
                f"every variance above {_shown(self.threshold)} escapes to infinity at a finite "
                "depth, and every one below tends to zero"
            )
        if self.regime == GLOBAL:
            return f"every positive variance tends to {_shown(self.equilibrium)}"
        if self.regime == COLLAPSE:
            how = f"like exp(-{-2 * self.rate:.6g} t)" if self.rate else "like 1/t"
            return f"every variance tends to zero, {how}"
        if self.regime == BOUNDED:
            return "every variance stays what it is"
        return f"every variance grows like exp({2 * self.rate:.6g} t), and none escapes"

    def __str__(self) -> str:
        place = ", on a boundary between regimes" if self.on_boundary else ""
        return "\n".join(
            (
                f"{self.regime.capitalize()}: d = 1, exactly{place}",
                f"  {self.statement}",
                f"  rate a  {self.rate:.6g} per unit depth",
                f"  gain g  {self.gain:.6g} per unit depth and [x]^2",
            )
        )


def scalar_regime(model: GaussianTransformer) -> ScalarRegime:
    """Say exactly what a layer with d = 1 does to variances.

    s' = 2 (a + g s) s, with a = A and g = sum_h V_h B_h.

    Parameters
    ----------
    model : GaussianTransformer
        d = 1, continuous depth, any number of heads.

    Returns
    -------
    ScalarRegime

    Raises
    ------
    ParameterError
        If it is not a GaussianTransformer, or has dt > 0.
    ShapeError
        If d > 1.

    Notes
    -----
    Theory 3.7, 5.6. b and k move the mean only. `classify` certifies what follows, with margins,
    and says the same, on the boundaries too; only where heads cancel to rounding, so that no
    margin is left in g, may it say less: "bounded" or "undecided".

    Examples
    --------
    >>> import gausscontrol as gct
    >>> print(gct.scalar_regime(gct.GaussianTransformer(1.0, 1.0, -0.5)))
    Globally stable: d = 1, exactly
      every positive variance tends to 2 [x]^2
      rate a  1 per unit depth
      gain g  -0.5 per unit depth and [x]^2
    """
    check_scales(model)
    if model.dim != 1:
        raise ShapeError(f"model: expected d = 1, found d = {model.dim}; use classify(model) there")
    if model.dt:
        raise ParameterError(
            f"dt: expected continuous depth, found layers of depth {model.dt:g}; "
            "use model.replace(dt=0), or classify(model)"
        )
    a = Fraction(float(model.A[0, 0]))
    numbers, exponent = exact_riccati_gain(model)
    g = Fraction(int(numbers[0, 0])) * Fraction(2) ** exponent
    balance = -a / g if g else None
    return ScalarRegime(
        model=model,
        rate=float(a),
        gain=_rounded(g),
        regime=_regime(a, g),
        on_boundary=g == 0 or (a == 0 and g < 0),
        equilibrium=_rounded(balance) if balance is not None and balance > 0 else None,
        threshold=_rounded(max(balance, Fraction(0))) if g > 0 else None,
    )


def _regime(a: Fraction, g: Fraction) -> str:
    if g > 0:
        return BLOW_UP
    if g < 0:
        return GLOBAL if a > 0 else COLLAPSE
    return COLLAPSE if a < 0 else BOUNDED if a == 0 else UNDECIDED


def _shown(variance: float) -> str:
    """Return a positive variance that may have been rounded to infinity."""
    if math.isinf(variance):
        return "one that is finite and beyond the range of floats (above 1.8e308 [x]^2)"
    return f"{variance:.6g} [x]^2"


def _rounded(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:  # -a/g, where heads cancel
        return math.inf
