"""Which way the heads of a layer pull: the signs of B and V (Theory 4.3).

    q(E) = sum_h tr(V_h E B_h E),    E symmetric, in coordinates where Sigma* = I

decides stability, and E V_s E B_s with V_s < 0 < B_s makes it negative. Averaged over symmetric E
of unit norm, one head's part is (tr V tr B + tr(V B^T)) / (d (d + 1)): opposite traces stabilise.
A head of width dk < d has symmetric parts of rank at most 2 dk, whose spectra come from matrices of
that size; nothing of size d x d is formed. Signs are read in the coordinates of the model, which
are whitened ones when Sigma is a multiple of I; `model.whiten(Sigma)` makes them so otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gausscontrol.errors import ParameterError
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["MimeticSigns", "mimetic_signs"]

# Share of the trace in the sum of absolute eigenvalues from which on a matrix leans to one sign.
# For random factors it has mean 0 and deviation about 1 / sqrt(d dk): 0.006 to 0.02 in real models.
LEANING = 0.1
# What is left of a symmetric part that cancels, over the size of its factors.
ROUNDING = 4 * np.finfo(float).eps
VERDICTS = ("stabilising", "destabilising", "mixed")


@dataclass(frozen=True, eq=False)
class MimeticSigns:
    """Signs of the heads of one or many layers.

    Parameters
    ----------
    layer, head : (n,) ndarray of int
        Positions, from 0; layers from `read_layers` keep those that they have in their model.
    B_trace, V_trace : (n,) ndarray
        [1/x^2] and [1/t].
    B_spectrum, V_spectrum : tuple of (m,) ndarray
        Eigenvalues of the symmetric parts, ascending; those that are zero because the head is
        narrower than d are left out.
    B_share, V_share : (n,) ndarray
        Trace over the sum of absolute eigenvalues: 1 if the symmetric part is positive
        semidefinite, -1 if negative, near 0 if both signs balance, and 0 if there is no symmetric
        part.
    mean_form : (n,) ndarray
        Average of tr(V E B E) over symmetric E of unit Frobenius norm; it does not depend on the
        head gauge. [1/(t x^2)]
    margin : (n,) ndarray
        lambda_min(-V_s) lambda_min(B_s) - |V_a|_2 |B_a|_2, after (V, B) -> (-V, -B) if V leans
        positive. Positive: the sign condition holds as it stands. Where a factor is not positive
        definite its smallest eigenvalue times the other's size stands in for the product.
    verdict : (n,) ndarray of str
        "stabilising": both lean, B and V to opposite signs; "destabilising": to the same sign;
        "mixed": one of them does not lean.
    threshold : float
        Absolute share from which on a matrix leans.
    """

    layer: np.ndarray
    head: np.ndarray
    B_trace: np.ndarray
    V_trace: np.ndarray
    B_spectrum: tuple[np.ndarray, ...]
    V_spectrum: tuple[np.ndarray, ...]
    B_share: np.ndarray
    V_share: np.ndarray
    mean_form: np.ndarray
    margin: np.ndarray
    verdict: np.ndarray
    threshold: float

    @property
    def holds(self) -> np.ndarray:
        """Whether the sign condition itself holds, (n,) of bool."""
        return self.margin > 0

    @property
    def mimetic(self) -> np.ndarray:
        """Whether a head is stabilising with B positive and V negative, (n,) of bool."""
        return (self.verdict == "stabilising") & (self.B_trace > 0)

    def count(self, verdict: str) -> int:
        """Return the number of heads with a verdict.

        Parameters
        ----------
        verdict : {"stabilising", "destabilising", "mixed"}

        Returns
        -------
        int
        """
        return int(np.sum(self.verdict == verdict))

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(word)} {word}" for word in VERDICTS)
        return f"<MimeticSigns of {self.layer.size} heads: {counts}>"

    def __str__(self) -> str:
        lines = [" layer head       tr B  share       tr V  share   mean form  verdict"]
        for i in range(self.layer.size):
            sure = ", condition holds" if self.holds[i] else ""
            lines.append(
                f"{self.layer[i]:6d} {self.head[i]:4d} {self.B_trace[i]:10.4g} "
                f"{self.B_share[i]:6.2f} {self.V_trace[i]:10.4g} {self.V_share[i]:6.2f} "
                f"{self.mean_form[i]:11.3g}  {self.verdict[i]}{sure}"
            )
        counts = ", ".join(f"{self.count(word)} {word}" for word in VERDICTS)
        lines.append(f"{self.layer.size} heads: {counts}")
        lines.append(
            f"stabilising with B positive and V negative: {int(self.mimetic.sum())}; "
            f"sign condition (Theory 4.3): {int(self.holds.sum())}"
        )
        return "\n".join(lines)


def mimetic_signs(model: Any, *, threshold: float = LEANING) -> MimeticSigns:
    """Return traces, spectra and verdicts of the heads of a model.

    Parameters
    ----------
    model : GaussianTransformer, LayerStack, PretrainedLayer or iterable of these
        One or many layers.
    threshold : float, optional
        Share, between 0 and 1, from which on B or V counts as leaning to one sign.

    Returns
    -------
    MimeticSigns

    Raises
    ------
    ParameterError
        If there is no layer, one is not a model, or the threshold is outside [0, 1).

    Notes
    -----
    Theory 4.3. Mimetic initialisation (Trockman and Kolter 2023) starts heads with B positive and V
    negative, as trained vision transformers have them. A verdict is about signs only: it certifies
    nothing, and even the sign condition speaks of an equilibrium that is a multiple of I.

    References
    ----------
    A. Trockman and J. Z. Kolter, "Mimetic initialization of self-attention layers", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import gausscontrol as gct
    >>> model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2))
    >>> signs = gct.tokens.mimetic_signs(model)
    >>> print(signs.verdict[0], signs.B_trace[0], signs.V_trace[0], signs.holds[0])
    stabilising 2.0 -1.0 True
    """
    if not np.isscalar(threshold) or isinstance(threshold, str) or not 0 <= threshold < 1:
        raise ParameterError(
            f"threshold: expected a number in [0, 1), found {threshold!r}; 0.1 is the default"
        )
    rows = []
    for index, layer in _layers(model):
        keys, values = _products(layer.heads)
        for head, (key, value) in enumerate(zip(keys, values, strict=True)):
            rows.append((index, head, *_signs(key, value, layer.dim, threshold)))
    if not rows:
        raise ParameterError("model: expected at least one layer, found none; pass a model")
    columns = list(zip(*rows, strict=True))
    numbers = [np.array(column) for column in columns]
    return MimeticSigns(
        *numbers[:4], columns[4], columns[5], *numbers[6:], threshold=float(threshold)
    )


def _layers(model: Any) -> list[tuple[int, GaussianTransformer]]:
    # Layers of a trained model keep their positions in it.
    found = list(model) if isinstance(model, Iterable) else [model]
    positions = [getattr(layer, "index", i) for i, layer in enumerate(found)]
    layers = [getattr(layer, "model", layer) for layer in found]
    for i, layer in enumerate(layers):
        if not isinstance(layer, GaussianTransformer):
            raise ParameterError(
                f"model[{i}]: expected a GaussianTransformer, found {type(layer).__name__}; "
                "pass a model, a stack or a list of layers"
            )
    return list(zip(positions, layers, strict=True))


# -- matrices as products of thin factors ---------------------------------------------------------


def _products(heads) -> tuple[list, list]:
    """Return (L, R) with B_h = L R and (L, R) with V_h = L R, for every head."""
    if isinstance(heads, FactoredHeads) and heads.arrays[2].shape[1] < heads.dim:
        outputs, values, keys, queries = heads.arrays
        return (
            [(key.T, query) for key, query in zip(keys, queries, strict=True)],
            list(zip(outputs, values, strict=True)),
        )
    identity = np.eye(heads.dim)
    return [(identity, B) for B in heads.B], [(identity, V) for V in heads.V]


def _signs(key, value, dim: int, threshold: float) -> tuple:
    B, V = _parts(*key), _parts(*value)
    B_trace, V_trace = _trace(*key), _trace(*value)
    B_share, V_share = _share(B_trace, B[0], *key), _share(V_trace, V[0], *value)
    # tr(V B^T) = tr((R_B R_V^T) (L_V^T L_B)), from small matrices.
    inner = float(np.sum((key[1] @ value[1].T) * (key[0].T @ value[0])))
    mean_form = (V_trace * B_trace + inner) / (dim * (dim + 1))
    sign = -1.0 if V_trace > 0 else 1.0
    low_V = _lowest(-sign * V[0], dim)
    low_B = _lowest(sign * B[0], dim)
    if min(low_V, low_B) > 0:
        product = low_V * low_B
    else:
        product = min(low_V * np.abs(B[0]).max(), low_B * np.abs(V[0]).max(), 0.0)
    verdict = "mixed"
    if min(abs(B_share), abs(V_share)) > threshold:
        verdict = "stabilising" if B_share * V_share < 0 else "destabilising"
    margin = product - V[1] * B[1]
    return B_trace, V_trace, B[0], V[0], B_share, V_share, mean_form, margin, verdict


def _trace(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.sum(left.T * right))


def _share(trace: float, spectrum: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    size = float(np.abs(spectrum).sum())
    # A skew product has no symmetric part but rounding, whose signs mean nothing.
    rounding = ROUNDING * len(left) * float(np.linalg.norm(left) * np.linalg.norm(right))
    return trace / size if size > rounding else 0.0


def _lowest(spectrum: np.ndarray, dim: int) -> float:
    lowest = float(spectrum.min())
    return lowest if spectrum.size == dim else min(lowest, 0.0)


def _parts(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the spectrum of the symmetric part of L R and the norm of the skew part."""
    dim, width = left.shape
    if 2 * width >= dim:
        small = left @ right
    else:
        # L R acts on the range of [L, R^T] only.
        basis, _ = np.linalg.qr(np.hstack([left, right.T]))
        small = (basis.T @ left) @ (right @ basis)
    return (
        np.linalg.eigvalsh((small + small.T) / 2),
        # i times a real skew matrix is Hermitian.
        float(np.abs(np.linalg.eigvalsh(0.5j * (small - small.T))).max()),
    )
