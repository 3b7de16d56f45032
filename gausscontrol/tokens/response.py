"""What tokens did along the depth, beside the Gaussian system (Theory 8.3).

    mean, covariance   of the tokens, with 1/N
    gap                W2 of N(mean, covariance) from the Gaussian system of the same start

W2 between Gaussians is what their laws are apart at least: two laws with these moments are no
nearer to one another.
"""

from __future__ import annotations

import control as ct
import numpy as np

from gausscontrol.systems.response import MomentResponse
from gausscontrol.tokens.statistics import Gaussianity

__all__ = ["TokenResponse"]


class TokenResponse(ct.TimeResponseData):
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
        Standard deviation of the logits over the keys of a query, in the root mean square over
        queries; that of the head where it is largest, in the layer that acts next.
    effective_fraction : (T,) ndarray
        Share of the tokens that a query really averages over, the mean over queries; that of the
        head where it is smallest.
    gaussianity : Gaussianity
        Mardia's skewness and kurtosis at every depth, with p-values.
    effective_rank : (T,) ndarray
        exp of the entropy of the shares of the eigenvalues of the covariance.
    cosine_similarity : (T,) ndarray
        Mean cosine of the angle between two tokens; near 1, all point one way.
    clusters : (T,) ndarray
        Effective number of clusters: K for K tight clusters of equal size.
    gaussian : MomentResponse or None
        The Gaussian system, started at the sample moments, a feed-forward part closed as in
        Theory 8.1; None where that part has no closure. It ends before a finite escape.
    gap : (T,) ndarray or None
        W2 distance of the sample moments from the Gaussian system; infinite from its finite escape
        on; None where `gaussian` is. [x]
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
    gap: np.ndarray | None
    causal: bool
    layer_norm: bool

    @property
    def spread(self) -> np.ndarray:
        """Root of the trace of the sample covariance, (T,). [x]."""
        return np.sqrt(np.trace(self.covariance))

    @property
    def relative_gap(self) -> np.ndarray | None:
        """The gap over the spread of the tokens, (T,); None where there is no gap."""
        if self.gap is None:
            return None
        # Tokens that are all one point, and a Gaussian that is the same, are no distance apart.
        apart = self.gap > 0
        ratio = np.zeros_like(self.gap)
        with np.errstate(divide="ignore"):
            np.divide(self.gap, self.spread, out=ratio, where=apart)
        return ratio

    def __str__(self) -> str:
        kinds = [name for name in ("causal", "layer_norm") if getattr(self, name)]
        marks = f" ({', '.join(kinds).replace('_', ' ')})" if kinds else ""
        lines = [
            f"{self.title}{marks}: d = {len(self.mean)}, depth {self.t[0]:.6g} to {self.t[-1]:.6g}",
            _row("spread of the tokens", self.spread, "[x]"),
            _row("effective rank", self.effective_rank),
            _row("logit standard deviation", self.logit_std),
            _row("effective sample fraction", self.effective_fraction),
            _row("mean cosine", self.cosine_similarity),
            _row("effective number of clusters", self.clusters),
            _row("p-value, Gaussian tokens", np.asarray(self.gaussianity.pvalue)),
        ]
        if self.gap is None:
            return "\n".join([*lines, "  no Gaussian system: the feed-forward part has no closure"])
        lines.append(_row("W2 gap to the Gaussian system", self.gap, "[x]"))
        lines.append(_row("gap over spread", self.relative_gap))
        escape = self.gaussian.blow_up_time
        if escape is not None:
            lines.append(f"  the Gaussian system escapes at depth {escape:.6g}; the tokens go on")
        return "\n".join(lines)


def _row(name: str, values: np.ndarray, unit: str = "") -> str:
    # The gap is infinite past an escape: the range is that of the numbers before it.
    finite = values[np.isfinite(values)]
    text = f"{finite[0]:.4g} at first, {finite[-1]:.4g} at last, {finite.max():.4g} at most"
    return f"  {name:<31}{text} {unit}".rstrip()
