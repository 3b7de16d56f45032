"""Softmax attention among finitely many tokens, exact and streamed (Theory 1.1, 1.3).

    out_i = sum_h V_h sum_j p_h(i, j) x_j,      p_h(i, j) ~ exp(<B_h x_i + k_h, x_j>)

which is softmax(s (W_Q x_i + b_Q) . (W_K x_j)) W_O W_V x_j in the weights of an attention block.
For infinitely many Gaussian tokens it is sum_h V_h (mu + Sigma (B_h x_i + k_h)), the attention part
of the token flow (Theory 1.5). Logits are formed block by block, with the sums of the blocks kept
in logarithms where they might overflow, so memory grows with N and not with N^2. Adding a vector to
all keys changes no weight: tokens are centred first, which spares digits far from the origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gausscontrol.model.heads import FactoredHeads, Heads
from gausscontrol.tokens.statistics import some_of

__all__ = ["effective_fraction", "logit_deviation", "masked_deviation", "softmax_attention"]

# Queries and keys of one block; its logits stay in the cache of one core.
QUERIES, KEYS = 256, 1024
# Logits up to this size go into the exponential as they are.
SAFE_LOGIT = 300.0
# Queries whose weights are looked at, drawn from the tokens.
SAMPLED_QUERIES = 512
# Logits held at once when the weights of a query are needed together.
CHUNK = 4_000_000


class _Head(NamedTuple):
    """One head: logit (query x_i + offset) . (key x_j), output matrix output . value."""

    query: np.ndarray  # (m, d)
    offset: np.ndarray  # (m,)
    key: np.ndarray | None  # (m, d), None for the identity
    value: np.ndarray | None  # (n, d), None for the identity
    output: np.ndarray  # (d, n)


def softmax_attention(
    heads: Heads, k: np.ndarray, tokens: np.ndarray, *, causal: bool = False
) -> np.ndarray:
    """Return what attention adds to each token, per unit depth.

    Parameters
    ----------
    heads : Heads
        Factored ones form their logits in dk dimensions.
    k : (h, d) ndarray
        Tilts. [1/x]
    tokens : (N, d) ndarray
        [x]
    causal : bool, optional
        Token i attends to tokens 0 to i only.

    Returns
    -------
    (N, d) ndarray
        [x/t]
    """
    centre = tokens.mean(axis=0)
    shifted = tokens - centre
    out = np.zeros_like(tokens)
    for head in _active(heads, k):
        queries = tokens @ head.query.T + head.offset
        keys = shifted if head.key is None else shifted @ head.key.T
        values = shifted if head.value is None else shifted @ head.value.T
        out += _weighted_means(queries, keys, values, causal) @ head.output.T
    # The weights of a head sum to one, so the centre passes through every value matrix.
    return out + heads.total @ centre


def effective_fraction(
    heads: Heads, k: np.ndarray, tokens: np.ndarray, *, causal: bool = False
) -> np.ndarray:
    """Return the share of the tokens that each head really averages over.

    (sum_j p_j)^2 / (n sum_j p_j^2) over the n keys a query may attend to, averaged over queries:
    1 for equal weights, 1/n for a single token.

    Parameters
    ----------
    heads : Heads
    k : (h, d) ndarray
        [1/x]
    tokens : (N, d) ndarray
        [x]
    causal : bool, optional

    Returns
    -------
    (h,) ndarray
        One for a head without values, which averages nothing. At most 512 queries are looked at,
        drawn from the tokens.

    Notes
    -----
    Theory 8.3: about exp(-sd^2) for Gaussian tokens and logits of standard deviation sd.
    """
    out = np.ones(heads.n_heads)
    for h, head in enumerate(_heads(heads, k)):
        if head is None:
            continue
        shares = []
        for logits, reachable in _sampled_logits(head, tokens, causal):
            logits -= logits.max(axis=1, keepdims=True)
            weights = np.exp(logits, out=logits)
            total = weights.sum(axis=1)
            shares.append(total**2 / (reachable * np.einsum("ij,ij->i", weights, weights)))
        out[h] = np.concatenate(shares).mean()
    return out


def masked_deviation(heads: Heads, k: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the logits of each head under a causal mask.

    That over the keys 0 to i of query i, in the root mean square over queries, as
    `logit_deviation` has it over all keys.

    Parameters
    ----------
    heads : Heads
    k : (h, d) ndarray
        [1/x]
    tokens : (N, d) ndarray
        [x]

    Returns
    -------
    (h,) ndarray
        Zero for a head without values. The queries are those of `effective_fraction`.
    """
    out = np.zeros(heads.n_heads)
    for h, head in enumerate(_heads(heads, k)):
        if head is None:
            continue
        variances = []
        for logits, reachable in _sampled_logits(head, tokens, causal=True):
            seen = np.isfinite(logits)
            logits[~seen] = 0.0
            logits -= (logits.sum(axis=1) / reachable)[:, None]
            logits[~seen] = 0.0
            variances.append(np.einsum("ij,ij->i", logits, logits) / reachable)
        out[h] = np.sqrt(np.concatenate(variances).mean())
    return out


def logit_deviation(
    heads: Heads, k: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    """Return the standard deviation of the logits of each head.

    That over the keys of one query, in the root mean square over queries:
    sd^2 = tr(Sigma B Sigma B^T) + w^T Sigma w, w = B mu + k.

    Parameters
    ----------
    heads : Heads
    k : (h, d) ndarray
        [1/x]
    mean : (d,) ndarray
        [x]
    covariance : (d, d) ndarray
        [x]^2

    Returns
    -------
    (h,) ndarray
        Zero for a head without values.

    Notes
    -----
    Theory 8.3. Exact for the tokens whose moments these are, whatever their law; a causal mask is
    not looked at.
    """
    out = np.zeros(heads.n_heads)
    for h, head in enumerate(_heads(heads, k)):
        if head is None:
            continue
        # Covariance of the keys, and second moment of the queries about zero.
        spread = covariance if head.key is None else head.key @ covariance @ head.key.T
        tilt = head.query @ mean + head.offset
        queries = head.query @ covariance @ head.query.T + np.outer(tilt, tilt)
        # Roots before products: the square of a logit that is finite may not be.
        sizes = np.abs(queries).max(), np.abs(spread).max()
        if min(sizes) > 0:
            square = float(np.sum((queries / sizes[0]) * (spread / sizes[1])))
            out[h] = np.sqrt(max(square, 0.0)) * np.sqrt(sizes[0]) * np.sqrt(sizes[1])
    return out


def _sampled_logits(
    head: _Head, tokens: np.ndarray, causal: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield logits of some queries, -inf at keys out of reach, and how many keys are in reach."""
    count = len(tokens)
    shifted = tokens - tokens.mean(axis=0)
    keys = shifted if head.key is None else shifted @ head.key.T
    chosen = some_of(count, SAMPLED_QUERIES)
    size = max(1, CHUNK // count)
    for start in range(0, chosen.size, size):
        rows = chosen[start : start + size]
        logits = (tokens[rows] @ head.query.T + head.offset) @ keys.T
        reachable = np.full(rows.size, count)
        if causal:
            logits[np.arange(count) > rows[:, None]] = -np.inf
            reachable = rows + 1
        yield logits, reachable


# -- heads as projections -------------------------------------------------------------------------


def _heads(heads: Heads, k: np.ndarray) -> Iterator[_Head | None]:
    """Yield the projections of every head, None for one whose value matrix is zero."""
    if not isinstance(heads, FactoredHeads):
        for V, B, tilt in zip(heads.V, heads.B, k, strict=True):
            yield _Head(B, tilt, None, None, V) if V.any() else None
        return
    outputs, values, keys, queries = heads.arrays
    narrow_logits, narrow_values = keys.shape[1] < heads.dim, values.shape[1] < heads.dim
    for h, tilt in enumerate(k):
        if not (outputs[h].any() and values[h].any()):
            yield None
            continue
        logits = (heads.B[h], tilt, None)
        if narrow_logits:
            logits = _narrow(queries[h], keys[h], tilt)
        value, output = (values[h], outputs[h]) if narrow_values else (None, heads.V[h])
        yield _Head(*logits, value, output)


def _narrow(query: np.ndarray, key: np.ndarray, tilt: np.ndarray) -> tuple:
    # <k, y> is one more dimension of the keys, on which every query is one.
    if not tilt.any():
        return query, np.zeros(len(query)), key
    zero = np.zeros((1, query.shape[1]))
    return np.vstack([query, zero]), np.r_[np.zeros(len(query)), 1.0], np.vstack([key, tilt])


def _active(heads: Heads, k: np.ndarray) -> Iterator[_Head]:
    return (head for head in _heads(heads, k) if head is not None)


# -- blocks ---------------------------------------------------------------------------------------


def _weighted_means(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, causal: bool
) -> np.ndarray:
    """Return sum_j p(i, j) values_j for every query."""
    count = len(keys)
    out = np.empty_like(values)
    across = np.ascontiguousarray(keys.T)
    # With a column of ones the sums of the weights come out of the same product.
    summed = np.concatenate([values, np.ones((count, 1))], axis=1)
    with np.errstate(over="ignore"):
        reach = np.linalg.norm(queries, axis=1) * np.linalg.norm(keys, axis=1).max()
    for start in range(0, count, QUERIES):
        rows = slice(start, min(start + QUERIES, count))
        last = rows.stop if causal else count
        moderate = bool(reach[rows].max() <= SAFE_LOGIT)
        sums = np.zeros((rows.stop - start, summed.shape[1]))
        top = np.full((rows.stop - start, 1), -np.inf)
        for first in range(0, last, KEYS):
            columns = slice(first, min(first + KEYS, last))
            logits = queries[rows] @ across[:, columns]
            if causal and columns.stop > start + 1:
                ahead = np.arange(first, columns.stop) > np.arange(start, rows.stop)[:, None]
                logits[ahead] = -np.inf
            if not moderate:
                highest = np.maximum(top, logits.max(axis=1, keepdims=True))
                sums *= np.exp(top - highest)
                logits -= highest
                top = highest
            np.exp(logits, out=logits)
            sums += logits @ summed[columns]
        out[rows] = sums[:, :-1] / sums[:, -1:]
    return out
