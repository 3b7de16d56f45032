"""What is recorded of tokens at each depth, and the response it becomes (Theory 8.3).

Logits are those of the layer that acts next, on the tokens as that layer reads them: normalised
with layer norm, and over the keys that a query may attend to with a causal mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gausscontrol.linalg.bures import bures_wasserstein
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.iosys import moment_system
from gausscontrol.systems.response import MomentResponse
from gausscontrol.tokens.attention import effective_fraction, logit_deviation, masked_deviation
from gausscontrol.tokens.march import layers_of
from gausscontrol.tokens.response import TokenResponse
from gausscontrol.tokens.statistics import (
    Gaussianity,
    cluster_count,
    cosine_similarity,
    effective_rank,
    mardia,
    sample_moments,
)

__all__ = ["TokenRecord"]


class TokenRecord:
    """Statistics of the tokens at each depth, as they come by.

    Parameters
    ----------
    owner : TokenTransformer
        What moves them.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.means: list[np.ndarray] = []
        self.covariances: list[np.ndarray] = []
        self.normality: list[Gaussianity] = []
        self.rows: list[tuple[float, ...]] = []

    def add(self, x: np.ndarray, layer: GaussianTransformer) -> None:
        """Take the tokens at the next depth.

        Parameters
        ----------
        x : (N, d) ndarray
            [x]
        layer : GaussianTransformer
            The layer that acts next, whose logits are recorded.
        """
        # Logits out of the floating-point range end the march, with an error of its own.
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(x, layer)

    def _add(self, x: np.ndarray, layer: GaussianTransformer) -> None:
        mean, covariance = sample_moments(x)
        self.means.append(mean)
        self.covariances.append(covariance)
        self.normality.append(mardia(x))
        read = self.owner.read(x)
        fractions = effective_fraction(layer.heads, layer.k, read, causal=self.owner.causal)
        if self.owner.causal:
            deviations = masked_deviation(layer.heads, layer.k, read)
        else:
            deviations = logit_deviation(layer.heads, layer.k, *sample_moments(read))
        self.rows.append(
            (
                float(deviations.max()),
                float(fractions.min()),
                effective_rank(covariance),
                cosine_similarity(x),
                cluster_count(x),
            )
        )

    def response(
        self,
        count: int,
        depths: np.ndarray,
        gaussian: MomentResponse | str,
        tokens: np.ndarray,
        token_depths: np.ndarray,
        tolerances: tuple[float, float],
    ) -> TokenResponse:
        """Return what was recorded.

        Parameters
        ----------
        count : int
            Number of tokens.
        depths : (T,) ndarray
            [t]
        gaussian : MomentResponse or str
            The Gaussian system beside it, or why there is none.
        tokens : (N, d, K) ndarray
            Those that are kept. [x]
        token_depths : (K,) ndarray
            [t]
        tolerances : tuple of float
            Relative and absolute tolerance of the tokens. [x]

        Returns
        -------
        TokenResponse
        """
        mean, covariance = np.stack(self.means, axis=-1), np.stack(self.covariances, axis=-1)
        owner = self.owner
        system = moment_system(layers_of(owner.model)[0].replace(name=None))
        # vech runs down the columns of the lower triangle, which are rows of the upper one.
        packed = np.concatenate([mean, covariance[np.triu_indices(owner.dim)]])
        response = TokenResponse(
            depths,
            packed,
            packed,
            None,
            issiso=False,
            output_labels=system.state_labels,
            state_labels=system.state_labels,
            title=f"Response of {count} tokens",
            sysname="tokens",
        )
        response.count, response.mean, response.covariance = count, mean, covariance
        response.tokens, response.token_depths = tokens, token_depths
        columns = np.array(self.rows).T
        response.logit_std, response.effective_fraction = columns[0], columns[1]
        response.effective_rank, response.cosine_similarity = columns[2], columns[3]
        response.clusters = columns[4]
        response.gaussianity = _stacked(self.normality)
        found = isinstance(gaussian, MomentResponse)
        response.gaussian, response.no_gaussian = (gaussian, "") if found else (None, gaussian)
        response.gap = _gaps(mean, covariance, gaussian) if found else None
        size = np.sqrt(np.sum(mean**2, axis=0) + np.trace(covariance))
        # Errors of steps add up, and those between steps are larger.
        response.resolution = 10 * (tolerances[1] + tolerances[0] * size)
        response.causal, response.layer_norm = owner.causal, owner.layer_norm
        return response


def _stacked(each: list[Gaussianity]) -> Gaussianity:
    names = Gaussianity.__dataclass_fields__
    return Gaussianity(**{name: np.array([getattr(one, name) for one in each]) for name in names})


def _gaps(mean: np.ndarray, covariance: np.ndarray, gaussian: MomentResponse) -> np.ndarray:
    gaps = np.full(mean.shape[1], np.inf)
    for n in range(gaussian.t.size):
        gaps[n] = bures_wasserstein(
            (mean[:, n], covariance[:, :, n]),
            (gaussian.mean[:, n], gaussian.covariance[:, :, n]),
        )
    return gaps
