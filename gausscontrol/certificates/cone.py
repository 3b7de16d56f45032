"""Quadratic forms on covariances, and which of them are nonnegative there (Theory 5).

    q_P(S) = sum_h tr(P V_h S B_h S),      S >= 0  =>  <G, S (x) S> >= 0  for every G >= 0

A form is nonnegative on S >= 0 if it is a Gram part, nonnegative for all symmetric S, plus a
realigned part <G, S (x) S>, G of size d^2 (rows (i, k), columns (j, l) meet S_ij S_kl). S (x) S
commutes with the exchange of its factors, so G is taken block-diagonal, one block on symmetric and
one on skew tensors. Matrices of forms are in svec coordinates.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gausscontrol.certificates.comparison import (
    EPS,
    DenseForm,
    Growth,
    eigenvalue_rounding,
    gain,
    growth,
    pencil_bounds,
)
from gausscontrol.errors import NotCertified, SolverError
from gausscontrol.linalg.operators import symmetric_basis, symmetric_operator, to_svec_basis
from gausscontrol.linalg.symmetric import svec, symmetrise, vech_index
from gausscontrol.model.transformer import GaussianTransformer

__all__ = [
    "LARGEST_CONE",
    "Search",
    "Witness",
    "cone_form",
    "pencil",
    "realigned",
    "witness_growth",
]

# Up to this dimension semidefinite programmes are tried.
LARGEST_CONE = 10
# Up to this dimension a programme is compiled once and solved for many models.
LARGEST_COMPILED = 4
# Least eigenvalue of the P that is searched for, where tr P = d.
LEAST_EIGENVALUE = 0.01
# Share of its size by which a multiplier is moved into the cone.
FLOOR = 1e-12


class Witness(NamedTuple):
    """P and the multiplier G of a form, in balanced coordinates; G None stands for zero."""

    P: np.ndarray
    multiplier: np.ndarray | None = None


def cone_form(model: GaussianTransformer, witness: Witness, sign: float) -> DenseForm | None:
    """Return Phi > 0 with sign q_P(S) >= Phi(S) for S >= 0, or None if G is not verified >= 0.

    Parameters
    ----------
    model : GaussianTransformer
        In balanced coordinates.
    witness : Witness
    sign : float
        +1 or -1.

    Returns
    -------
    DenseForm or None
        The form sign q_P(S) - <G, S (x) S> with a bound on its rounding.
    """
    P, G = witness
    dim, heads = model.dim, model.n_heads
    PV = P @ model.V
    matrix = sign * symmetrise(to_svec_basis(symmetric_operator(PV / 2, model.B)))
    sizes = np.linalg.norm(model.V, axis=(1, 2)) * np.linalg.norm(model.B, axis=(1, 2))
    error = (dim + heads + 12) * EPS * float(np.linalg.norm(P) * sizes.sum())
    if G is not None:
        size = float(np.linalg.norm(G))
        if np.linalg.eigvalsh(G)[0] < eigenvalue_rounding(dim * dim) * size:
            return None
        matrix = matrix - realigned(G)
        error += 12 * EPS * size
    return DenseForm(matrix, error)


def realigned(G: np.ndarray) -> np.ndarray:
    """Return the matrix of the form <G, S (x) S>.

    Parameters
    ----------
    G : (d^2, d^2) ndarray
        Symmetric.

    Returns
    -------
    (n, n) ndarray
        Symmetric, in svec coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from gausscontrol.linalg.symmetric import svec
    >>> S, G = np.array([[2.0, 1.0], [1.0, 3.0]]), np.diag([1.0, 2.0, 3.0, 4.0])
    >>> bool(np.isclose(svec(S) @ realigned(G) @ svec(S), np.sum(G * np.kron(S, S))))
    True
    """
    dim = int(np.sqrt(len(G)))
    paired = G.reshape(dim, dim, dim, dim).transpose(0, 2, 1, 3).reshape(len(G), len(G))
    _, basis = _bases(dim)
    return symmetrise(basis.T @ paired @ basis)


def witness_growth(
    model: GaussianTransformer, P: np.ndarray, G: np.ndarray | None
) -> list[tuple[Growth, float]]:
    """Return what a witness shows, with and without A's bound in the norm of P, and margins."""
    form = cone_form(model, Witness(P, G), 1.0)
    if form is None or not form.usable:
        return []
    # P >= 0 with rounding to spare, which the singular form of P needs as much as the other.
    if not np.linalg.eigvalsh(P)[0] > eigenvalue_rounding(len(P)) * np.linalg.norm(P):
        return []
    margin = form.lowest / max(form.size, EPS)
    v, w = _coordinates(P, model.A)
    noise = 4 * len(P) * EPS * float(np.linalg.norm(P))
    shown = [growth(form, v, w, noise, noise * float(np.linalg.norm(model.A)))]
    low, _ = pencil_bounds(*pencil(P, model.A))
    if np.isfinite(low):
        shown.append(Growth(low / 2, gain(form, v, noise), 0.0))
    return [(g, margin) for g in shown]


def pencil(P: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return P A + A^T P, P, and a bound on the rounding of the first."""
    product = P @ A
    error = 2 * (len(P) + 2) * EPS * np.linalg.norm(P) * np.linalg.norm(A)
    return product + product.T, P, float(error)


def _coordinates(P: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return v and w with tr(P S) = <v, svec S> and tr(P A S) = <w, svec S>."""
    return svec(P), svec(symmetrise(P @ A))


@lru_cache(maxsize=16)
def _bases(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal bases of skew and of symmetric matrices, row-major columns."""
    index = vech_index(dim)
    off = np.flatnonzero(index.rows != index.columns)
    skew = np.zeros((dim * dim, off.size))
    skew[index.low[off], np.arange(off.size)] = 1 / np.sqrt(2)
    skew[index.high[off], np.arange(off.size)] = -1 / np.sqrt(2)
    return skew, symmetric_basis(dim).toarray()


@lru_cache(maxsize=16)
def _realigned_map(dim: int, symmetric: bool) -> np.ndarray:
    """Return the map from a block of G, row-major, to the form, row-major."""
    basis, svec_basis = _bases(dim)
    block = svec_basis if symmetric else basis
    count, size = svec_basis.shape[1], block.shape[1]
    units = svec_basis.T.reshape(count, dim, dim)
    image = np.zeros((count, count, size, size))
    for a in range(count):
        for b in range(a, count):
            value = block.T @ np.kron(units[a], units[b]) @ block
            image[a, b] = image[b, a] = symmetrise(value)
    return image.reshape(count * count, size * size)


def _form_map(model: GaussianTransformer) -> np.ndarray:
    """Return the map from P, row-major, to the matrix of q_P, row-major."""
    dim = model.dim
    _, basis = _bases(dim)
    units = basis.T.reshape(-1, dim, dim)
    images = np.einsum("hij,njk,hkl->nil", model.V, units, model.B, optimize=True)
    # tr(P T(E_b) E_a), symmetrised in (a, b) and in P.
    products = np.einsum("bij,ajk->abki", images, units, optimize=True)
    products = (products + products.transpose(0, 1, 3, 2)) / 2
    products = (products + products.transpose(1, 0, 2, 3)) / 2
    return products.reshape(len(units) ** 2, dim * dim)


# -- semidefinite programmes ----------------------------------------------------------------------


class Search:
    """Programmes that look for a witness of sign q_P > 0 on S >= 0.

    Parameters
    ----------
    model : GaussianTransformer
        In balanced coordinates.
    sign : float
        -1: bounded or collapse; +1: blow-up.

    Raises
    ------
    NotCertified
        If d exceeds 10.
    """

    def __init__(self, model: GaussianTransformer, sign: float) -> None:
        if model.dim > LARGEST_CONE:
            raise NotCertified(
                f"model: semidefinite programmes are tried up to d = {LARGEST_CONE}, found "
                f"d = {model.dim}; only shared keys B = B^T > 0 are certified beyond"
            )
        self._dim, self._sign = model.dim, sign
        self._data = {"form": sign * _form_map(model), "A": model.A}

    def definite(self, *, decaying: bool = False) -> Witness | None:
        """Return the witness whose form is most definite, or None if there is none."""
        return self._solve("collapse" if decaying else "definite", {})

    def sharpest(self, rate: float, reference: np.ndarray | None = None) -> Witness | None:
        """Return the witness with the largest gain k at a given rate a, or None."""
        data: dict[str, Any] = {"rate": rate}
        if reference is not None:
            data["reference"] = reference / np.trace(reference)
        return self._solve("sharpest", data)

    def _solve(self, kind: str, data: dict[str, Any]) -> Witness | None:
        data = self._data | data
        if self._dim <= LARGEST_COMPILED:
            problem = _compiled(self._dim, self._sign, kind, threading.get_ident())
            problem.load(data)
        else:
            problem = _Problem(self._dim, self._sign, kind, data)
        return problem.solve()


class _Problem:
    """One programme. Its data are parameters if none are given, so that it is compiled once."""

    def __init__(self, dim: int, sign: float, kind: str, data: dict[str, Any] | None) -> None:
        # cvxpy takes a second to import, and nothing else here needs it.
        from gausscontrol.linalg import lmi

        self._lmi, self._dim, self._sign = lmi, dim, sign
        self._given = data
        self._parameters: dict[str, Any] = {}
        self._program = lmi.Program("cone relaxation")
        skew, symmetric = _bases(dim)
        self._P = self._program.symmetric(dim, "P")
        self._blocks = [(symmetric, self._program.gram(symmetric.shape[1], "G"))]
        if dim > 1:
            self._blocks.append((skew, self._program.gram(skew.shape[1], "G_skew")))
        self._objective = self._pose_sharpest() if kind == "sharpest" else self._pose(kind)

    # maximise s over P, G:  sign q_P - <G, S (x) S> >= s,  P >= 0.01 I, tr P = d, G >= 0
    # and for a collapse     P A + A^T P <= -s I
    def _pose(self, kind: str) -> dict[str, Any]:
        form, P, program = self._form(), self._P, self._program
        slack = program.scalar("slack")
        identity = np.eye(self._dim)
        program.above(form - slack * np.eye(form.shape[0]))
        program.above(P - LEAST_EIGENVALUE * identity)
        program.equal(self._lmi.trace(P), self._dim)
        if kind == "collapse":
            A = self._value("A", (self._dim, self._dim))
            program.below(P @ A + A.T @ P + slack * identity)
        return {"maximise": slack}

    # minimise w over P, G:  [[Phi, v], [v^T, w]] >= 0, v = svec P, G >= 0
    # bounded                P A + A^T P <= 2 a P, P >= I
    # blow-up                P A + A^T P >= 2 a P, <P, S> = 1, P >= 1e-3 I, S of trace 1 given
    def _pose_sharpest(self) -> dict[str, Any]:
        P, program = self._P, self._program
        width = program.scalar("width")
        program.above(self._lmi.bordered(self._form(), self._lmi.svec(P), width))
        A = self._value("A", (self._dim, self._dim))
        rate = self._value("rate", ())
        program.above(self._sign * (P @ A + A.T @ P - 2 * rate * P))
        if self._sign < 0:
            program.above(P - np.eye(self._dim))
        else:
            reference = self._value("reference", (self._dim, self._dim))
            program.equal(self._lmi.trace(P @ reference), 1.0)
            program.above(P - 1e-3 * np.eye(self._dim))
        return {"minimise": width}

    def _form(self) -> Any:
        size = self._blocks[0][0].shape[1]
        maps = [
            self._value("form", (size * size, self._dim**2)),
            -_realigned_map(self._dim, True),
            -_realigned_map(self._dim, False),
        ]
        variables = [self._P, *(block for _, block in self._blocks)]
        return sum(
            self._lmi.linear_image(operator, variable, (size, size))
            for operator, variable in zip(maps, variables, strict=False)
        )

    def _value(self, name: str, shape: tuple[int, ...]) -> Any:
        if self._given is not None:
            return self._given[name]
        if name not in self._parameters:
            self._parameters[name] = self._program.parameter(shape, name)
        return self._parameters[name]

    def load(self, data: dict[str, Any]) -> None:
        """Set the parameters."""
        for name, parameter in self._parameters.items():
            parameter.value = data[name]

    def solve(self) -> Witness | None:
        """Return the witness, scaled to tr P = d, or None."""
        try:
            solution = self._program.solve(solver="CLARABEL", **self._objective)
        except SolverError:
            # What counts is the check of a witness; without a point there is none to check.
            return None
        P = symmetrise(solution[self._P])
        scale = self._dim / np.trace(P)
        G = sum(basis @ _inside(solution[block]) @ basis.T for basis, block in self._blocks)
        return Witness(scale * P, scale * symmetrise(G))


@lru_cache(maxsize=32)
def _compiled(dim: int, sign: float, kind: str, thread: int) -> _Problem:
    """Return a programme that is compiled once; threads must not share one."""
    return _Problem(dim, sign, kind, None)


def _inside(G: np.ndarray) -> np.ndarray:
    """Move a Gram matrix into the interior of the cone, by as little as counts."""
    values, vectors = np.linalg.eigh(G)
    floor = FLOOR * max(1.0, float(np.abs(values).max(initial=0.0)))
    return vectors * np.maximum(values, floor) @ vectors.T
