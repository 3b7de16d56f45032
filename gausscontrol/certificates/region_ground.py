"""How far a Lyapunov function decreases around an equilibrium (Theory 4.6, 4.8).

    V(Sigma) = e^T P e,     V' <= -decay |e|^2 + 4 |P| sum_h |V_h| |B_h| |e|^3

for the exact model and the exact equilibrium, from numbers of the computed one: what rounding and
the distance between both may hide is taken off the decay and off every level.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from gausscontrol.analysis.enclosure import EPS, WhitenedPoint
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.base import check_enclosed
from gausscontrol.certificates.evidence import mean_margin
from gausscontrol.certificates.linearisation import in_whitened_svec
from gausscontrol.certificates.region_identity import LocalField, Witness, certified_decay
from gausscontrol.certificates.region_search import explicit, search
from gausscontrol.errors import NotCertified
from gausscontrol.linalg.symmetric import whitening
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Ground"]

# Share of the decay rate at the equilibrium that the norm bound leaves at its level.
RESERVE = 1e-3


class Ground:
    """What is known around an equilibrium, for the exact model and the exact equilibrium.

    Attributes
    ----------
    P : (n, n) ndarray
        In whitened svec coordinates.
    decay : float
        V' <= -decay |e|^2 + (cubic terms); positive.
    lowest, largest : float
        Extreme eigenvalues of P.
    existence_radius : float
    mean_stable : bool
    """

    def __init__(self, model: GaussianTransformer, Sigma: np.ndarray, P: np.ndarray) -> None:
        self.point = point = WhitenedPoint(model, Sigma)
        self.P = P = in_whitened_svec(P, Sigma)
        radius = point.radius
        check_enclosed(point, radius)
        self.existence_radius = radius
        J = dense_operator(point.white)
        values = np.linalg.eigvalsh(P)
        unit = 8 * len(P) * EPS
        self.largest = float(values[-1]) * (1 + unit)
        self.lowest = float(values[0]) - unit * self.largest
        product = P @ J
        # J differs at the exact equilibrium, and by rounding.
        self.strength = point.bound + point.attention_error
        change = 4 * self.strength * radius + 2 * (point.drift_error + point.attention_error)
        slack = 2 * self.largest * (change + unit * float(np.linalg.norm(J)))
        self.decay = -float(np.linalg.eigvalsh(product + product.T)[-1]) - slack
        if not (self.decay > 0 and self.lowest > 0):
            raise NotCertified(
                "equilibrium: the linearisation is not verified to be stable: J^T P + P J < 0 "
                f"fails by {max(-self.decay, 0.0):.3g} for |P| = {self.largest:.3g}; look at the "
                "poles with analyze(model, equilibrium)",
                margin=min(self.decay, self.lowest),
            )
        self.mean_stable = mean_margin(point, radius) > 0
        # sqrt(V) is off by what separates the computed equilibrium from the exact one, and V by
        # rounding in R (Sigma - Sigma*) R.
        self._offset = np.sqrt(self.largest) * (radius + point.offset)
        R, root = whitening(Sigma)
        condition = float(np.linalg.norm(R) * np.linalg.norm(root)) ** 2
        self._blur = 4 * unit * condition * np.sqrt(self.largest / self.lowest)

    def ball(self, level: float) -> float:
        """Return the radius of the largest ball {|E| < r} with V < level."""
        return float(np.sqrt(level / self.largest))

    def level(self, scale: float) -> float:
        """Return the level of V as computed, from scale^2 for V around the exact equilibrium."""
        return float(max(scale * (1 - self._blur) - self._offset, 0.0) ** 2)

    def scale(self, level: float) -> float:
        """Return an upper bound on the inverse of `level`."""
        if not (level > 0 and self._blur < 0.5):
            return np.inf
        return float((np.sqrt(level) + self._offset) / (1 - self._blur) * (1 + 4 * EPS))

    @property
    def norm_level(self) -> float:
        """The level of Theory 4.6."""
        reach = (1 - RESERVE) * self.decay / (4 * self.strength * self.largest)
        return self.level(np.sqrt(self.lowest) * reach)

    def sos_level(self, largest: int) -> tuple[float, Witness | None]:
        """Return the largest level found by sums of squares, by programmes up to `largest`."""
        factor = np.linalg.cholesky(self.P)
        C = scipy.linalg.solve_triangular(factor.T, np.eye(len(factor)))
        find = search if self.point.white.dim <= largest else explicit
        found = find(LocalField(self.point, self.existence_radius, C))
        if found is None:
            return 0.0, None
        scale, witness = found
        return self.level(scale * (1 - self._mismatch(C))), witness

    def margin(self, level: float, witness: Witness | None) -> float:
        """Return a rate alpha with V' <= -alpha V on the region; at most zero if none is shown."""
        scale = self.scale(level)
        if not np.isfinite(scale):
            return -np.inf
        if witness is None:
            reach = scale / np.sqrt(self.lowest)
            return float(self.decay / self.largest - 4 * self.strength * reach)
        mismatch = self._mismatch(witness.coordinates)
        if not mismatch < 0.5:
            return -np.inf
        field = LocalField(self.point, self.existence_radius, witness.coordinates)
        return certified_decay(field, scale / (1 - mismatch), witness)

    def _mismatch(self, C: np.ndarray) -> float:
        """Bound by how much |C^-1 e| / sqrt(V) may exceed 1."""
        size = 8 * len(C) * EPS * float(np.linalg.norm(C)) ** 2 * self.largest
        return float(np.linalg.norm(C.T @ self.P @ C - np.eye(len(C)))) + size
