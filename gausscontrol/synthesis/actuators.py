"""Parameters that give a Gaussian the velocity wanted of it (Theory 6c, 6d).

    M L = L' + L Omega,  Omega skew    <=>    Sigma' = M Sigma + Sigma M^T = L' L^T + L L'^T

The offset D of the steered parameter enters M L linearly, Y D X = L' - M L + L Omega with

    feedforward  dA             Y = I                    X = L
    attention    (dV_1 .. dV_h) Y = I                    X = stack of Sigma B_h L
    keys         stack of dB_h  Y = (V_1 Sigma .. )      X = L

and the D of least Frobenius norm is Y^+ (L' - M L + L Omega) X^+, minimised over Omega too: that
is the gauge freedom A -> A + K Sigma^-1, K = L Omega L^T. With X = Ux sx Zx^T, Y = Uy sy Vy^T,
P = sy^-1 Uy^T (L' - M L) Zx sx^-1 and F = sy^-1 Uy^T L Zx sx it is

    D = Vy (P + F Psi) Ux^T,    F^T F Psi + Psi F^T F = P^T F - F^T P,    Psi skew.

The mean then follows by b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gausscontrol.errors import ParameterError
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.synthesis.crossings import dips, resolved
from gausscontrol.synthesis.paths import PathPoint

__all__ = ["ACTUATORS", "Actuation"]

ACTUATORS = {"feedforward": "A", "attention": "V", "keys": "B"}
# Below this share of the largest singular value an actuator counts as singular.
SINGULAR = 1e-12


@dataclass(frozen=True, eq=False)
class Actuation:
    """Which parameter steers, around which nominal values.

    Attributes
    ----------
    model : GaussianTransformer
        Nominal parameters, at continuous depth.
    kind : {"feedforward", "attention", "keys"}
    gauge : bool
        Whether Omega is chosen to shrink the offset; otherwise it is zero.
    """

    model: GaussianTransformer
    kind: str
    gauge: bool

    @property
    def channel(self) -> str:
        """Name of the steered parameter."""
        return ACTUATORS[self.kind]

    @property
    def channels(self) -> tuple[str, str]:
        """Names of all parameters that vary: b and the steered one."""
        return ("b", self.channel)

    def along(self, point: PathPoint) -> dict[str, np.ndarray]:
        """Return the offsets that move a Gaussian as a path does at a point."""
        return self.offsets(point.mean, point.factor, point.mean_rate, point.factor_rate)

    def shifted(self, offsets: dict[str, np.ndarray]) -> GaussianTransformer:
        """Return the nominal parameters with offsets added."""
        changes = {key: getattr(self.model, key) + value for key, value in offsets.items()}
        return self.model.replace(**changes)

    def signal(self, offsets: dict[str, np.ndarray]) -> np.ndarray:
        """Return offsets as inputs of `moment_system`, (ninputs,)."""
        return np.concatenate([offsets[key].reshape(-1) for key in self.channels])

    def offsets(
        self,
        mean: np.ndarray,
        L: np.ndarray,
        mean_rate: np.ndarray,
        factor_rate: np.ndarray,
        *,
        gauge: bool | None = None,
    ) -> dict[str, np.ndarray]:
        """Return offsets of b and of the steered parameter that give these rates.

        Parameters
        ----------
        mean, mean_rate : (d,) ndarray
            [x], [x/t]
        L, factor_rate : (d, r) ndarray
            [x], [x/t]
        gauge : bool, optional
            In place of the attribute; without gauge M L = L' holds exactly.

        Returns
        -------
        dict
            "b" (d,) and one of "A" (d, d), "V", "B" (h, d, d).
        """
        model, S = self.model, L @ L.T
        M = model.A + model.heads.attention(S)
        offset = self._offset(S, L, factor_rate - M @ L, self.gauge if gauge is None else gauge)
        total, tilts = model.heads.total, S @ model.k.T
        forcing = model.b + np.einsum("hij,jh->i", model.V, tilts) if model.k.any() else model.b
        if self.channel == "A":
            M = M + offset
        elif self.channel == "B":
            M = M + np.einsum("hij,hjk->ik", model.V @ S, offset)
        else:
            M = M + np.einsum("hij,hjk->ik", offset, S @ model.B)
            total = total + offset.sum(axis=0)
            forcing = forcing + np.einsum("hij,jh->i", offset, tilts)
        return {"b": mean_rate - (M + total) @ mean - forcing, self.channel: offset}

    def _offset(self, S, L, wanted, gauge: bool) -> np.ndarray:
        dim, heads = self.model.dim, self.model.n_heads
        if L.shape[1] == 0:
            return np.zeros((dim, dim) if self.channel == "A" else (heads, dim, dim))
        if self.channel == "A":
            return _least(wanted, L, L, None, gauge)
        if self.channel == "V":
            X = (S @ self.model.B @ L).reshape(heads * dim, -1)
            side_by_side = _least(wanted, L, X, None, gauge)
            return side_by_side.reshape(dim, heads, dim).transpose(1, 0, 2)
        Y = (self.model.V @ S).transpose(1, 0, 2).reshape(dim, heads * dim)
        return _least(wanted, L, L, Y, gauge).reshape(heads, dim, dim)

    def condition(self, L: np.ndarray) -> tuple[float, float]:
        """Return how far the actuator is from singular at a factor, and a determinant.

        Parameters
        ----------
        L : (d, r) ndarray
            [x]

        Returns
        -------
        margin : float
            Smallest singular value of the maps that must be injective (attention: L^T B_h L) or
            onto (keys: V_h L), in an orthonormal basis of the range, over the norm of the heads.
        determinant : float
            Of one head at that place: where it changes sign it has passed through zero; nan with
            several heads.
        """
        if self.channel == "A" or L.shape[1] == 0:
            return 1.0, np.nan
        U = np.linalg.svd(L, full_matrices=False)[0]
        if self.channel == "V":
            blocks = U.T @ self.model.B @ U
            square, matrix = blocks[0], blocks.reshape(-1, U.shape[1])
            size = np.linalg.norm(self.model.B, 2, axis=(1, 2)).max()
        else:
            blocks = self.model.V @ U
            square, matrix = blocks[0], blocks.transpose(1, 0, 2).reshape(len(U), -1)
            size = np.linalg.norm(self.model.V, 2, axis=(1, 2)).max()
        if matrix.shape[1] < len(U) and self.channel == "B":
            return 0.0, np.nan
        values = np.linalg.svd(matrix, compute_uv=False)
        single = self.model.n_heads == 1 and square.shape[0] == square.shape[1]
        # The basis U has no sign of its own; U^T B U does not mind, V U does.
        determinant = np.linalg.det(square / size) if single and self.channel == "V" and size else 1
        return float(values[-1] / size) if size else 0.0, float(determinant) if single else np.nan

    def check(self, factor_at: Callable[[float], np.ndarray], depths: np.ndarray) -> None:
        """Refuse an actuator that is singular somewhere along a path.

        Parameters
        ----------
        factor_at : callable
            t -> L (d, r).
        depths : (N,) ndarray
            Where to look first; dips between them are followed to the bottom. [t]

        Raises
        ------
        ParameterError
            If it is.
        """
        if self.channel == "A":
            return
        depths, factors = resolved(factor_at, depths)
        rank, before, margins = factors[0].shape[1], np.nan, []
        for t, L in zip(depths, factors, strict=True):
            margin, determinant = self.condition(L)
            if margin < SINGULAR:
                raise ParameterError(self._refusal(rank, f"at depth {t:.6g}", margin))
            if determinant * before < 0:
                raise ParameterError(self._refusal(rank, f"before depth {t:.6g}", 0.0))
            before = determinant
            margins.append(margin)

        def signed(t: float) -> float:
            # A determinant that has changed sign makes the margin negative: the dip goes on below
            # zero instead of turning back there.
            margin, determinant = self.condition(factor_at(t))
            return -margin if determinant * before < 0 else margin

        for t, margin in dips(signed, depths, np.array(margins)):
            if margin < SINGULAR:
                raise ParameterError(self._refusal(rank, f"at depth {t:.6g}", max(margin, 0.0)))

    def _refusal(self, rank: int, where: str, margin: float) -> str:
        dim, heads = self.model.dim, self.model.n_heads
        heads_word = "head" if heads == 1 else "heads"
        if self.channel == "V":
            return (
                f"actuators: attention needs L^T B L nonsingular along the path, found it singular "
                f"{where} (relative margin {margin:.1g}); give a model with B + B^T > 0, another "
                "path, or use feedforward"
            )
        if heads * rank < dim:
            return (
                f"actuators: keys need full rank r = d = {dim} with one head, or h r >= d, found "
                f"rank {rank} and {heads} {heads_word}: values only reach the range of V L; use "
                "feedforward or attention"
            )
        return (
            f"actuators: keys need (V_1 L, ..., V_h L) of full row rank {dim} along the path (one "
            f"head: V invertible), found it singular {where} (relative margin {margin:.1g}); give "
            "a model with invertible V, or use feedforward"
        )


def _least(
    wanted: np.ndarray, L: np.ndarray, X: np.ndarray, Y: np.ndarray | None, gauge: bool
) -> np.ndarray:
    """Return the D of least norm with Y D X = wanted + L Omega, Y = I if None."""
    Ux, sx, Zt = np.linalg.svd(X, full_matrices=False)
    P, F = (wanted @ Zt.T) / sx, (L @ Zt.T) * sx
    back = None
    if Y is not None:
        Uy, sy, back = np.linalg.svd(Y, full_matrices=False)
        P, F = (Uy.T @ P) / sy[:, None], (Uy.T @ F) / sy[:, None]
    if gauge and F.shape[1] > 1:
        P = P + F @ _skew_minimiser(P, F)
    D = P @ Ux.T
    return D if back is None else back.T @ D


def _skew_minimiser(P: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Return the skew Psi for which |P + F Psi| is least, F of full column rank."""
    G, s, Et = np.linalg.svd(F, full_matrices=False)
    product = s[:, None] * (G.T @ P @ Et.T)
    skew = (product.T - product) / (s[:, None] ** 2 + s**2)
    return Et.T @ skew @ Et
