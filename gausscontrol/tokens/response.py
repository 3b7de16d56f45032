"""What tokens did along the depth, beside the Gaussian system (Theory 8.3).

    mean, covariance   of the tokens, with 1/N
    gap                W2 of N(mean, covariance) from the Gaussian system of the same start

W2 between Gaussians is what their laws are apart at least: two laws with these moments are no
nearer to one another.
"""

from __future__ import annotations

import control as ct
import numpy as np

from gausscontrol.display import Report
from gausscontrol.systems.response import MomentResponse
from gausscontrol.tokens.statistics import Gaussianity

__all__ = ["TokenResponse"]

# A distance below this share of the tokens' size is rounding, and printed as zero.
ROUNDING = 1e-13


class TokenResponse(Report, ct.TimeResponseData):
    """Sample moments of tokens along the depth, and diagnostics.

    A `ct.TimeResponseData` whose outputs are the sample moments, with more attributes. Made by
    `TokenTransformer.simulate`. T is the number of depths.

    Attributes
    ----------
    count : int
        Number of tokens N.
    mean : (d, T) ndarray
        Sample mean. [x]
    covariance : (d, d, T) ndarray
        Sample covariance, with 1/N. [x]^2
    tokens : (N, d, K) ndarray
        Tokens at `token_depths`, the last depth by default. [x]
    token_depths : (K,) ndarray
        [t]
    logit_std : (T,) ndarray
        Standard deviation of the logits over the keys that a query may attend to, in the root mean
        square over queries; that of the head where it is largest, in the layer that acts next.
    effective_fraction : (T,) ndarray
        Share of those keys that a query really averages over, the mean over queries; that of the
        head where it is smallest.
    gaussianity : Gaussianity
        Mardia's skewness and kurtosis at every depth, with p-values.
    effective_rank : (T,) ndarray
        exp of the entropy of the shares of the eigenvalues of the covariance.
    cosine_similarity : (T,) ndarray
        Mean cosine of the angle between two tokens; near 1, all point one way.
    clusters : (T,) ndarray
        Effective number of clusters: K for K tight clusters of equal size. Tokens within a tenth of
        their root mean square distance from one another count as one cluster.
    gaussian : MomentResponse or None
        The Gaussian system, started at the sample moments, a feed-forward part closed as in
        Theory 8.1. It ends before a finite escape, and has neither mask nor layer norm where the
        tokens do. None where that part has no closure, or where it cannot be integrated.
    no_gaussian : str
        Why `gaussian` is None; empty where it is not.
    gap : (T,) ndarray or None
        W2 distance of the sample moments from the Gaussian system; infinite from its finite escape
        on; None where `gaussian` is. [x]
    resolution : (T,) ndarray
        What tokens are resolved to: ten times the tolerances in continuous depth, and rounding in
        residual layers. [x]
    causal, layer_norm : bool
        How the tokens were moved.
    """

    count: int
    mean: np.ndarray
    covariance: np.ndarray
    tokens: np.ndarray
    token_depths: np.ndarray
    logit_std: np.ndarray
    effective_fraction: np.ndarray
    gaussianity: Gaussianity
    effective_rank: np.ndarray
    cosine_similarity: np.ndarray
    clusters: np.ndarray
    gaussian: MomentResponse | None
    no_gaussian: str
    gap: np.ndarray | None
    resolution: np.ndarray
    causal: bool
    layer_norm: bool

    @property
    def spread(self) -> np.ndarray:
        """Root of the trace of the sample covariance, (T,). [x]."""
        return np.sqrt(np.trace(self.covariance))

    @property
    def relative_gap(self) -> np.ndarray | None:
        """The gap over the spread of the tokens, (T,); None where there is no gap.

        Where tokens are one point within their resolution: 0 if the Gaussian system is there too,
        infinite if it is not.
        """
        if self.gap is None:
            return None
        spread, apart = self.spread, self.spread > self.resolution
        ratio = np.where(self.gap > self.resolution, np.inf, 0.0)
        np.divide(self.gap, spread, out=ratio, where=apart)
        return ratio

    def __repr__(self) -> str:
        depths = f"{self.t.size} depths from {self.t[0]:.6g} to {self.t[-1]:.6g}"
        name = f"TokenResponse of {self.count} tokens{self._marks()}"
        return f"<{name}: d = {len(self.mean)}, {depths}>"

    def _marks(self) -> str:
        kinds = [name for name in ("causal", "layer_norm") if getattr(self, name)]
        return f" ({', '.join(kinds).replace('_', ' ')})" if kinds else ""

    def __str__(self) -> str:
        depths = f"depth {self.t[0]:.6g} to {self.t[-1]:.6g}"
        lines = [
            f"{self.title}{self._marks()}: d = {len(self.mean)}, {depths}",
            _row("spread of the tokens", self.spread, "[x]"),
            _row("effective rank", self.effective_rank),
            _row("logit standard deviation", self.logit_std),
            _row("effective sample fraction", self.effective_fraction),
            _row("mean cosine", self.cosine_similarity),
            _row("effective number of clusters", self.clusters),
            _row("p-value, Gaussian tokens", np.asarray(self.gaussianity.pvalue)),
        ]
        if self.gap is None:
            return "\n".join([*lines, f"  no Gaussian system: {self.no_gaussian}"])
        return "\n".join([*lines, *self._beside()])

    def _beside(self) -> list[str]:
        # What is said of the Gaussian system.
        size = np.sqrt(np.sum(self.mean**2, axis=0) + self.spread**2).max()
        escape = self.gaussian.blow_up_time
        rounding = ROUNDING * size
        lines = [
            _row("W2 gap to the Gaussian system", self.gap, "[x]", rounding, escape),
            _row("gap over spread", self.relative_gap, "", ROUNDING, escape),
        ]
        if escape is not None:
            lines.append(f"  the Gaussian system escapes at depth {escape:.6g}; the tokens go on")
        point = self.spread <= self.resolution
        if point.any():
            first = self.t[point.argmax()]
            lines.append(f"  tokens are one point, to what they are resolved, at depth {first:.6g}")
        if self._marks():
            lines.append("  the Gaussian system has neither mask nor layer norm")
        return lines


def _row(
    name: str,
    values: np.ndarray,
    unit: str = "",
    rounding: float = 0.0,
    escape: float | None = None,
) -> str:
    finite = values[np.isfinite(values)]
    finite = np.where(np.abs(finite) <= rounding, 0.0, finite)
    if finite.size == values.size:
        text = f"{finite[0]:.4g} at first, {finite[-1]:.4g} at last, {finite.max():.4g} at most"
    else:
        # Past an escape there is no last number but infinity.
        since = "" if escape is None else f" from depth {escape:.4g} on"
        text = f"{finite.max():.4g} at most before, infinite{since}" if finite.size else "infinite"
    return f"  {name:<31}{text} {unit}".rstrip()
