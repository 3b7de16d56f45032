"""V and B both free: few heads for a target (Theory 4.4, 7b).

    T(E) = sum_h V_h E B_h,   Z = sum_h vec(V_h) vec(B_h)^T

In Z the problem is convex, and its nuclear norm favours few heads; in (V_h, B_h) it is convex in
each with the other given. So heads are cut out of Z by singular values, or taken from the
explicit head of 4.4, and improved by solving for B_h and V_h in turn: until the form is negative,
then until the norms are within their bounds, then for the rate. The number of heads grows until
that succeeds; it is the fewest for which this search does.

Assumption: tr A > 0, for which d^2 heads always do if no norm bound is in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gausscontrol.errors import InfeasibleDesign, SolverError
from gausscontrol.linalg.lmi import Program, linear_image, nuclear_norm, spectral_norm
from gausscontrol.synthesis.design_operators import lifted_attention_rows, lifted_form_rows
from gausscontrol.synthesis.design_point import Candidate
from gausscontrol.synthesis.design_problem import GIVEN_UP, ConvexDesign
from gausscontrol.synthesis.design_reasons import check_constraints
from gausscontrol.synthesis.design_request import Request
from gausscontrol.synthesis.design_result import WRITTEN_DOWN
from gausscontrol.synthesis.explicit import explicit_rearranged, heads_of, one_head

__all__ = ["design_heads", "lifted"]

# Up to this dimension Z is found by semidefinite programming, beyond it is the explicit one.
LIFTED_DIM = 5
# Beyond this one the number of heads is not searched for: heads are written down (Theory 4.4).
LARGEST_DIM = 10
# Half-steps of the search for a negative form, for smaller norms and for the rate; fewer beyond
# the dimension from which each takes long.
STEPS, FEWER_STEPS, LARGE_DIM = (12, 20, 10), (6, 8, 3), 6
# Progress of a step, relative, below which it is not continued.
PROGRESS = 1e-2
# Share of the best alpha that heads must reach where no rate is asked for.
LEAST_SHARE = 1e-2
# Share of the best alpha that Z is made for where no rate is asked for.
LIFTED_SHARE = 0.5
# |V_h| |B_h| over |A|, whitened, within which a negative form is looked for: what the bounds
# allow and as much again, within these limits.
LEAST_ROOM, MOST_ROOM, MORE_ROOM = 1e4, 1e6, 10.0
# Stands for the bound on a matrix that has none.
UNBOUNDED = 1e6


@dataclass(frozen=True, eq=False)
class Heads:
    """A stage of the search: a candidate and its largest ratio norm / bound."""

    candidate: Candidate
    ratio: float

    @property
    def alpha(self) -> float:
        return self.candidate.alpha


def design_heads(request: Request) -> Iterator[Candidate]:
    """Yield heads for the target, fewer before more.

    More are searched for only if the caller, who certifies them, asks for another candidate.

    Raises
    ------
    InfeasibleDesign
        If the norm bound is in the way, before or after the last candidate.
    """
    d = request.dim
    counts = range(1, d * d + 1) if request.n_heads is None else [request.n_heads]
    fewest = _heads_from_trace(request)
    if fewest > counts[-1]:
        raise InfeasibleDesign(
            f"norm bound: tr A = -sum_h tr(V_h Sigma* B_h) needs at least {fewest} heads of the "
            f"norms allowed, found {_how_many(request)} (Theory 4.4); raise norm_bound"
        )
    search = _Search(request)
    if d > LARGEST_DIM and request.n_heads is None:
        counts = []
    for h in counts:
        found = search.run(h) if h >= fewest else None
        if found is not None:
            yield found
    if request.n_heads in (None, d * d):
        written = search.written_down()
        if written is not None and request.n_heads in (None, len(written.V)):
            yield written
    raise search.failure(request.n_heads or d * d)


def lifted(A: np.ndarray, alpha: float, dt: float = 0.0) -> np.ndarray:
    """Return Z of smallest nuclear norm for a given alpha.

    Parameters
    ----------
    A : (d, d) ndarray
        Whitened.
    alpha : float
        At most tr A / d.
    dt : float, optional

    Returns
    -------
    (d^2, d^2) ndarray

    Raises
    ------
    SolverError
    """
    d = len(A)
    scale = float(np.linalg.norm(A, 2))
    n = d * (d + 1) // 2
    program = Program("lifted design")
    Z = program.matrix(d * d, d * d, "Z")
    drift = A / scale + linear_image(lifted_attention_rows(d), Z, (d, d))
    if dt:
        program.equal(drift)
    else:
        program.equal((drift + drift.T) / 2, symmetric=True)
    form = linear_image(lifted_form_rows(d), Z, (n, n))
    if dt:
        step = dt * scale
        factor = 1 - 2 * dt * alpha
        program.add([spectral_norm(np.eye(n) + 2 * step * form) <= factor])
    else:
        program.below(form + alpha / scale * np.eye(n))
    return scale * program.solve(minimise=nuclear_norm(Z))[Z]


def _heads_from_trace(request: Request) -> int:
    """Return the h that tr A <= h max |V_h| max |B_h| tr Sigma* needs at least."""
    if set(request.bounds) < {"V", "B"}:
        return 1
    area = request.dim if request.default_bounds else float(np.trace(request.covariance))
    most = request.bounds["V"] * request.bounds["B"] * area
    return max(1, int(np.ceil(request.best_alpha * request.dim / most * (1 - 1e-9))))


def _how_many(request: Request) -> str:
    if request.n_heads is None:
        return f"at most {request.dim**2}"
    return f"n_heads={request.n_heads}"


class _Search:
    """The loop over numbers of heads; each run starts from what the last one left too."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.A = request.whitened("A")
        self.steps = STEPS if request.dim < LARGE_DIM else FEWER_STEPS
        self.Z: np.ndarray | None = None
        self.nearest: Heads | None = None
        self.last_error: SolverError | None = None
        # Bounds of norms count in original coordinates, unless they are the default ones.
        self.bound = {name: request.bounds.get(name, UNBOUNDED) for name in ("V", "B")}
        area = request.dim if request.default_bounds else float(np.trace(request.covariance))
        allowed = MORE_ROOM * self.bound["V"] * self.bound["B"] * area
        size = float(np.linalg.norm(self.A, 2))
        self.room = min(max(allowed, LEAST_ROOM * size), MOST_ROOM * size)
        # The user's own terms say what V and B are, so no factor may pass between them.
        self.gauge = request.constraints is None and request.objective is None
        best = request.best_alpha
        self.target = request.alpha or LEAST_SHARE * best
        # A little more than what is asked for, unless that is the best there is.
        self.target = min(self.target * (1 + 2e-6), max(self.target, best * (1 - 1e-7)))

    def run(self, h: int) -> Candidate | None:
        """Return h heads that meet the request, None if none were found."""
        for V in self._starts(h):
            try:
                found = self._negative(V)
                if found is None:
                    continue
                found = self._within_bounds(found)
            except SolverError as error:
                self.last_error = error
                continue
            if self.nearest is None or found.ratio < self.nearest.ratio:
                self.nearest = found
            if found.ratio <= 1:
                return self._finished(found)
        return None

    def written_down(self) -> Candidate | None:
        """Return the heads of Theory 4.4, which need no solver, if their norms are allowed."""
        if not self.gauge:
            return None
        V, B = heads_of(explicit_rearranged(self.A))
        alpha = self.request.best_alpha
        found = self._gauged(Candidate(self.A, V, B, alpha, WRITTEN_DOWN, None))
        if self.nearest is None or found.ratio < self.nearest.ratio:
            self.nearest = found
        return self._for_the_mean(found) if found.ratio <= 1 else None

    def failure(self, heads: int) -> InfeasibleDesign:
        """Say why the last number of heads did not do."""
        what = f"with {heads} head{'s' if heads > 1 else ''}"
        if self.nearest is not None:
            norms = ", ".join(
                f"|{name}| = {self.nearest.ratio * self.bound[name]:.4g} beside {bound:g}"
                for name, bound in self.request.bounds.items()
            )
            where = " in whitened coordinates" if self.request.default_bounds else ""
            return InfeasibleDesign(
                f"norm bound: {what} a design was found only with norms of about {norms}{where}; "
                "raise norm_bound or n_heads"
            )
        return InfeasibleDesign(
            f"n_heads: {what} no design was found with norms |V_h| |B_h| up to {self.room:.3g} in "
            "whitened coordinates, which is no proof that none exists "
            f"({self.last_error or 'the form stays indefinite'}); use more heads, or raise "
            "norm_bound"
        )

    # -- starts -----------------------------------------------------------------------------------

    def _starts(self, h: int) -> Iterator[np.ndarray]:
        """Yield V (h, d, d), whitened, to start from; what serves best comes first."""
        initial = self.request.initial
        if initial is not None and initial.n_heads == h:
            yield np.stack([self.request.whiten("V", V) for V in initial.V])
        if h == 1 and self.request.dt:
            # V = -I, B = A is balanced, and V decides what B is.
            yield -np.eye(self.request.dim)[None]
        elif h == 1:
            yield one_head(self.A)[0][None]
        elif self.nearest is not None and len(self.nearest.candidate.V) < h:
            yield self._split(self.nearest.candidate.V, h)
        if h > 1:
            yield self._cut(h)
        rng = np.random.default_rng(h)
        W = rng.standard_normal((h, self.request.dim, self.request.dim))
        yield -W @ W.transpose(0, 2, 1) / self.request.dim - 0.2 * np.eye(self.request.dim)

    def _split(self, V: np.ndarray, h: int) -> np.ndarray:
        """Add heads that share the work of the largest."""
        rng = np.random.default_rng(len(V))
        norms = np.linalg.norm(V, 2, axis=(1, 2))
        extra = rng.standard_normal((h - len(V), *V.shape[1:])) / np.sqrt(V.shape[-1])
        return np.concatenate([V, norms.max() * extra])

    def _cut(self, h: int) -> np.ndarray:
        if self.Z is None:
            self.Z = self._lifted()
        return heads_of(self.Z, h)[0]

    def _lifted(self) -> np.ndarray:
        request = self.request
        if request.dim <= LIFTED_DIM:
            try:
                share = LIFTED_SHARE * request.best_alpha
                return lifted(self.A, max(self.target, share), request.dt)
            except SolverError as error:
                self.last_error = error
        return explicit_rearranged(self.A)

    # -- the three stages -------------------------------------------------------------------------

    def _step(self, given: np.ndarray, unknown: str, **options) -> ConvexDesign:
        return ConvexDesign(self.request, given, unknown, mean=False, **options)

    def _negative(self, V: np.ndarray) -> Heads | None:
        """Alternate until the form is as negative as asked for, norms being of natural size."""
        given, unknown, reached = V, "B", -np.inf
        for _ in range(self.steps[0]):
            limit = self.room / np.linalg.norm(given, 2, axis=(1, 2)).max()
            problem = self._step(given, unknown, bounds={unknown: limit})
            candidate = problem.raise_alpha()
            if candidate.alpha >= self.target:
                return self._gauged(candidate)
            if candidate.alpha - reached < PROGRESS * (abs(reached) + self.target):
                return None
            reached = candidate.alpha
            gauged, unknown = self._gauged(candidate).candidate, _other(unknown)
            given = gauged.B if unknown == "V" else gauged.V
        return None

    def _within_bounds(self, found: Heads) -> Heads:
        """Alternate until the norms are within their bounds, at the alpha asked for."""
        unknown, idle = "V", 0
        for _ in range(self.steps[1]):
            # A rate that was asked for is reached with the smallest norms.
            if idle == 2 or (found.ratio <= 1 and self.request.alpha is None):
                break
            closer = self._try(lambda problem: problem.lower_norms(self.target)[0], found, unknown)
            smaller = closer is not None and closer.ratio < found.ratio
            idle = 0 if smaller and closer.ratio < (1 - PROGRESS) * found.ratio else idle + 1
            found = closer if smaller else found
            unknown = _other(unknown)
        return found

    def _finished(self, found: Heads) -> Candidate:
        """Alternate for the rate within the bounds, or for the user's objective."""
        if not self.gauge:
            return self._as_the_user_says(found)
        unknown = "V"
        if self.request.alpha is None:
            for _ in range(self.steps[2]):
                better = self._try(ConvexDesign.raise_alpha, found, unknown, True)
                if better is None or not better.alpha > found.alpha or better.ratio > 1:
                    break
                gain, found = better.alpha / found.alpha - 1, better
                unknown = _other(unknown)
                if gain < PROGRESS:
                    break
            least = found.alpha * (1 - GIVEN_UP)
            smaller = self._try(lambda problem: problem.lower_norms(least)[0], found, unknown)
            if smaller is not None and smaller.ratio <= found.ratio:
                found = smaller
        return self._for_the_mean(found)

    def _as_the_user_says(self, found: Heads) -> Candidate:
        """Alternate under the user's constraints, each of which may speak of V, of B or of both."""
        unknown = "V"
        for _ in range(self.steps[2]):
            found = self._try(ConvexDesign.solve, found, unknown, True) or found
            unknown = _other(unknown)
        check_constraints(self.request, found.candidate)
        return found.candidate

    def _try(
        self,
        how: Callable[[ConvexDesign], Candidate],
        found: Heads,
        unknown: str,
        bounded: bool = False,
    ) -> Heads | None:
        """Solve for V or B with the other given; None if that fails."""
        given = found.candidate.B if unknown == "V" else found.candidate.V
        bounds = dict(self.bound) if not self.request.bounds else None
        try:
            return self._gauged(how(self._step(given, unknown, bounded=bounded, bounds=bounds)))
        except SolverError as error:
            self.last_error = error
            return None

    def _for_the_mean(self, found: Heads) -> Candidate:
        """Turn the sign of heads whose V would push the mean away; T does not notice."""
        candidate = found.candidate
        signs = np.where(np.trace(candidate.V, axis1=1, axis2=2) > 0, -1.0, 1.0)
        return _scaled(candidate, signs)

    # -- head gauge -------------------------------------------------------------------------------

    def _gauged(self, candidate: Candidate) -> Heads:
        """Share norms between V_h and B_h in the ratio of their bounds."""
        V, B = candidate.V, candidate.B
        sizes = {"V": self._norms("V", V), "B": self._norms("B", B)}
        if not self.gauge:
            return Heads(candidate, float(max(size.max() for size in sizes.values())))
        usable = (sizes["V"] > 0) & (sizes["B"] > 0)
        factor = np.ones(len(V))
        factor[usable] = np.sqrt(sizes["B"][usable] / sizes["V"][usable])
        ratio = float(np.sqrt(sizes["V"] * sizes["B"]).max())
        return Heads(_scaled(candidate, factor), ratio)

    def _norms(self, name: str, matrices: np.ndarray) -> np.ndarray:
        """Return norm / bound for each head."""
        if not self.request.default_bounds:
            matrices = np.stack([self.request.restore(name, M) for M in matrices])
        return np.linalg.norm(matrices, 2, axis=(1, 2)) / self.bound[name]


def _other(unknown: str) -> str:
    return "B" if unknown == "V" else "V"


def _scaled(candidate: Candidate, factor: np.ndarray) -> Candidate:
    """Return the candidate with (c_h V_h, B_h / c_h)."""
    V = candidate.V * factor[:, None, None]
    return replace(candidate, V=V, B=candidate.B / factor[:, None, None])
