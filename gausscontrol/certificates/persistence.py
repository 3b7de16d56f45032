"""What is left of a verdict after the parameters have moved (Theory 7.1b).

    global   q'(E) <= -alpha' |E|^2, and |E*| <= |sym M'(I)|_F / alpha' for every equilibrium I + E*
    local    P of one Lyapunov inequality, and Newton and Kantorovich's theorem

In coordinates whitened at the computed equilibrium I. Global: the derivative of W of Theory 4.1 is
2 <E, sym M'(I)> + 2 q'(E), negative beyond that distance, so that a sublevel set of W, which is
convex, is invariant and holds an equilibrium; Newton and Kantorovich's theorem may place it closer.
There the form differs from q' by at most s |T'(E)|_F |E|_F, s = |E*| / (1 - |E*|). Local: the
theorem with the moved residual, and J changes by at most 4 |T'| |E*| on the way. Both are closed
expressions in the size of the moves that only get worse as it grows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint, form_evidence
from gausscontrol.analysis.form import attention_form
from gausscontrol.analysis.krylov import DENSE_DIM
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import check_enclosed, hurwitz_margin
from gausscontrol.certificates.linearisation import lyapunov_solution
from gausscontrol.certificates.perturbation import Moves, Reach, WhitenedMoves
from gausscontrol.errors import GausscontrolError, NotCertified
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Found", "Persistence"]

# Whitened distance from the computed equilibrium up to which a moved one is followed.
LARGEST_SHIFT = 0.9
REFINEMENTS = 30
# Trials of the weight between |T(E)|^2 and |E|^2, each twice the last.
KAPPAS = 8


class Found(NamedTuple):
    """What is left of the deciding inequality, and the whitened shift of the equilibrium."""

    margin: float
    shift: float


class Persistence:
    """The deciding inequality of a model, after moves of any size.

    Parameters
    ----------
    model : GaussianTransformer
        Continuous depth.
    Sigma : (d, d) ndarray
        Positive definite, the computed equilibrium. [x]^2
    P : (n, n) ndarray, optional
        A Lyapunov matrix in whitened svec coordinates, which then decides. Default: the attention
        form if it is negative definite, else the solution of J^T P + P J = -I.

    Attributes
    ----------
    point : WhitenedPoint
    P : (n, n) ndarray or None
        None where the attention form decides, else the Lyapunov matrix with |P| = 1.
    data : dict
        Margins at the model itself.

    Raises
    ------
    NotCertified
        If the model itself is not certified.
    """

    def __init__(
        self, model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray | None = None
    ) -> None:
        self.model, self.point = model, WhitenedPoint(model, Sigma)
        point = self.point
        self.data: dict[str, Any] = {}
        self.P: np.ndarray | None = None
        self._moves = WhitenedMoves(point, Sigma)
        self._mean = hurwitz_margin(point.drift + point.white.heads.total, 0.0)
        if P is not None or not self._use_form():
            self._use_lyapunov(model, P)

    def at(self, moves: Moves, r: float) -> Found:
        """Return what is left of the inequality after moves of r, positive if it holds."""
        reach = self._moves.reach(moves, r)
        return self._form_at(reach) if self.P is None else self._lyapunov_at(reach)

    def mean_margin(self, moves: Moves, r: float) -> float:
        """Return what is left of a Lyapunov inequality for M + Vbar, positive if it holds."""
        found, reach = self.at(moves, r), self._moves.reach(moves, r)
        if not (found.margin > 0 and np.isfinite(found.shift)):
            return -np.inf
        moved = self.point.drift_error + self.point.total_error + reach.spectral + reach.total
        return self._mean - 2 * (moved + self._norm_of(reach) * found.shift)

    def _use_form(self) -> bool:
        """Let the attention form decide, if it does at the model itself."""
        point = self.point
        try:
            form = form_evidence(point)
        except GausscontrolError:
            return False
        if not form.margin > 0:
            return False
        check_enclosed(point, form.radius)
        self._alpha, self._rounding = form.alpha - form.rounding, form.rounding
        if self._moves.gram is not None:
            self._form = -attention_form(point.white.heads)
        self.data = {"alpha": form.alpha, "existence_radius": form.radius}
        return True

    def _use_lyapunov(self, model: GaussianTransformer, P: np.ndarray | None) -> None:
        """Let a Lyapunov matrix decide."""
        point = self.point
        if model.dim > DENSE_DIM:
            raise NotCertified(
                "model: its attention form is not negative definite, and the linearisation at d = "
                f"{model.dim} exceeds the d = {DENSE_DIM} that local robustness is computed for; "
                "certify_local_stability serves the model itself at any d"
            )
        check_enclosed(point, point.radius_from(self._moves.beta))
        J = dense_operator(point.white)
        P = lyapunov_solution(J) if P is None else P / np.linalg.norm(P, 2)
        product, unit = P @ J, 8 * len(J) * EPS
        decay = -float(np.linalg.eigvalsh(product + product.T)[-1])
        lowest = float(np.linalg.eigvalsh(P)[0])
        error = 2 * (point.drift_error + point.attention_error)
        self._decay = decay - 2 * error - 2 * unit * float(np.linalg.norm(J))
        if not (lowest > unit and self._decay > 0):
            raise NotCertified(
                "equilibrium: neither its attention form nor its linearisation is verified to be "
                "stable, so there is no stability to keep; see certify_local_stability",
                margin=min(lowest - unit, self._decay),
            )
        self.P = P
        self.data = {"decay": decay, "existence_radius": point.radius_from(self._moves.beta)}

    def _norm_of(self, reach: Reach) -> float:
        """Bound |T| of the moved model."""
        return self._moves.norm + reach.attention

    def _inverse(self, reach: Reach, strength: float) -> tuple[float, float]:
        """Bound |L'^-1| and |L'^-1 F'(I)| of the moved model, |L'^-1| <= 1 / strength known."""
        point, beta = self.point, self._moves.beta
        residual = float(np.linalg.norm(point.asymmetry)) + 2 * point.drift_error
        known = 1 / strength if strength > 0 else np.inf
        step = known * (residual + 2 * reach.frobenius)
        change = beta * 2 * (reach.spectral + reach.attention)
        if not change < 1:
            return known, step
        # L'^-1 = (I + L^-1 dL)^-1 L^-1.
        return (
            min(known, beta / (1 - change)),
            min(step, (beta * residual + reach.step) / (1 - change)),
        )

    def _form_at(self, reach: Reach) -> Found:
        point = self.point
        alpha = self._alpha - reach.attention
        if not alpha > 0:
            return Found(alpha, np.inf)
        force = float(np.linalg.norm(point.asymmetry)) / 2 + point.drift_error + reach.frobenius
        # For the identity <E, L'(E)> = 2 q'(E) + 2 <E, sym(M') E>.
        defect = float(np.linalg.norm(point.asymmetry, 2)) / 2 + point.drift_error + reach.spectral
        beta, step = self._inverse(reach, 2 * (alpha - defect))
        norm = self._norm_of(reach)
        shift = min(force / alpha, _kantorovich(norm, beta, step))
        if not shift < LARGEST_SHIFT:
            return Found(-np.inf, np.inf)
        for _ in range(REFINEMENTS):
            # E* = -L'^-1 (F'(I) + N'(E*)), |N'(E)| <= 2 |T'| |E|^2.
            shift = min(shift, step + 2 * norm * beta * shift**2)
        return Found(self._form_margin(reach, shift / (1 - shift)), shift)

    def _form_margin(self, reach: Reach, s: float) -> float:
        """Return the least -q(E) - s |T(E)| |E| over |E| = 1, after moves and rounding."""
        moved = reach.attention + s * (reach.attention + self.point.attention_error)
        norm, gram = self._moves.norm, self._moves.gram
        plain = self._alpha - s * norm
        if gram is None:
            return plain - moved
        # |T| |E| <= (k |T|^2 + |E|^2 / k) / 2 for every k > 0; k = 1 / |T| is no worse than plain.
        best = plain
        for power in range(KAPPAS):
            k = 2.0**power / norm
            values = np.linalg.eigvalsh(self._form - s * k / 2 * gram)
            best = max(best, float(values[0]) - self._rounding - s / (2 * k))
        return best - moved

    def _lyapunov_at(self, reach: Reach) -> Found:
        strength = self._decay - 4 * (reach.spectral + reach.attention)
        if not strength > 0:
            return Found(strength, np.inf)
        norm = self._norm_of(reach)
        beta, step = self._inverse(reach, strength / 2)
        shift = _kantorovich(norm, beta, step)
        if not shift < LARGEST_SHIFT:
            return Found(-np.inf, np.inf)
        return Found(strength - 8 * norm * shift, shift)


def _kantorovich(norm: float, beta: float, step: float) -> float:
    """Return Newton and Kantorovich's radius for bounds on |T|, |L^-1| and |L^-1 F|."""
    product = 4 * norm * beta * step
    return float(2 * step / (1 + np.sqrt(1 - 2 * product))) if product <= 0.5 else np.inf
