"""The rows of the benchmark table, each beside its baseline or floor and its goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import control as ct
import numpy as np

import gausscontrol as gct
from benchmarks.baseline import plain_equilibrium, plain_response, plain_system
from benchmarks.problems import settling_model
from benchmarks.timing import compare
from gausscontrol.model.heads import DenseHeads
from gausscontrol.model.moments import MomentField

__all__ = ["ROWS", "Row"]

SIZES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Row:
    """One line of the table: what was timed, against what, and whether the goal is met."""

    work: str
    dim: int
    ours: float
    theirs: float
    against: str
    goal: str
    met: bool
    note: str = ""

    def __str__(self) -> str:
        verdict = "met" if self.met else "NOT MET"
        return (
            f"{self.work:<26} d={self.dim:<4} {self.ours * 1e3:10.4f} ms "
            f"{self.theirs * 1e3:10.4f} ms {self.theirs / self.ours:8.1f}x "
            f"{self.against:<20} goal {self.goal:<8} {verdict}  {self.note}"
        )


def right_side() -> Iterator[Row]:
    """The right side x' = f(x), as the integrators call it, against the plain one."""
    for dim in (*SIZES, 128):
        model, Sigma = settling_model(dim)
        x, u = gct.pack(np.ones(dim), Sigma), np.zeros(dim)
        system, plain = gct.moment_system(model), plain_system(model)
        timed = compare(lambda: system._rhs(0, x, u), lambda: plain._rhs(0, x, u))
        if dim <= 32:
            yield _row("right side", dim, timed, "hand-written nlsys", 3.5)
        if dim >= 128:
            A, V, B = model.A, model.V[0], model.B[0]
            S = np.array(Sigma)
            floor = compare(lambda: system._rhs(0, x, u), lambda: (A + (V @ S) @ B) @ S)
            share = floor.ours / floor.theirs
            yield Row(
                "right side", dim, floor.ours, floor.theirs, "matrix products", "<=1.3x floor",
                share <= 1.3, f"{share:.2f}x the floor",
            )  # fmt: skip


def jacobian() -> Iterator[Row]:
    """The exact Jacobian against python-control's finite differences, bare and as a StateSpace."""
    bare_goal = {2: 15, 4: 25, 8: 25, 16: 25, 32: 15}
    wrapped_goal = {2: 5, 8: 15, 16: 10}
    for dim, goal in bare_goal.items():
        model, Sigma = settling_model(dim)
        x, u = gct.pack(np.ones(dim), Sigma), np.zeros(dim)
        system, plain = gct.moment_system(model), plain_system(model)
        rounds = 5 if dim < 32 else 3
        field = MomentField.of(model)
        exact = compare(lambda: field.jacobian(x), lambda: ct.linearize(plain, x, u), rounds)
        yield _row("exact Jacobian", dim, exact, "ct.linearize", goal)
        if dim in wrapped_goal:
            whole = compare(
                lambda: ct.linearize(system, x, u), lambda: ct.linearize(plain, x, u), rounds
            )
            yield _row("Jacobian, ct.linearize", dim, whole, "ct.linearize", wrapped_goal[dim])


def equilibrium() -> Iterator[Row]:
    """Finding the equilibrium, against simulating and then solving; how often each is right."""
    for dim in (4, 8, 16):
        right, plain_right, ratios = 0, 0, []
        for seed in range(10):
            model, Sigma = settling_model(dim, seed=seed)
            start = gct.pack(np.zeros(dim), np.eye(dim))
            plain = plain_system(model)
            right += _is_close(gct.find_equilibrium(model).covariance, Sigma)
            states = plain_equilibrium(plain, start, 20.0)
            plain_right += states is not None and _is_close(gct.unpack(states)[1], Sigma)
            if seed < 3:
                ratios.append(
                    compare(
                        lambda: gct.find_equilibrium(model),
                        lambda: plain_equilibrium(plain, start, 20.0),
                        3,
                    )
                )
        middle = sorted(ratios, key=lambda c: c.ratio)[1]
        note = f"right in {right} of 10, baseline {plain_right} of 10"
        yield Row(
            "equilibrium", dim, middle.ours, middle.theirs, "simulate, then solve", ">=10x",
            middle.ratio >= 10 and right == 10, note,
        )  # fmt: skip


def trajectory() -> Iterator[Row]:
    """One trajectory to error 1e-9, against the plain system at the tolerance that gives it."""
    for dim, goal in ((2, 6), (4, 6), (8, 6), (16, 6), (64, 3.5)):
        model, Sigma = settling_model(dim)
        mean = np.ones(dim)
        times = np.linspace(0, 5, 11)
        x0 = gct.pack(mean, 2 * Sigma + np.eye(dim))
        plain = plain_system(model)
        truth = gct.moment_response(model, times, x0, rtol=1e-12, method="factor").states
        rtol = _loosest(lambda r: gct.moment_response(model, times, x0, rtol=r).states, truth)
        plain_rtol = _loosest(lambda r: plain_response(plain, times, x0, r).states, truth)
        timed = compare(
            lambda: gct.moment_response(model, times, x0, rtol=rtol),
            lambda: plain_response(plain, times, x0, plain_rtol),
            3,
        )
        note = f"rtol {rtol:.1e} and {plain_rtol:.1e}"
        yield _row("trajectory to 1e-9", dim, timed, "RK45 at equal error", goal, note)


def twelve_heads() -> Iterator[Row]:
    """T(S) of a 12-head layer at d = 384 from its factors, against dense heads and the floor."""
    rng = np.random.default_rng(0)
    dim, heads, width = 384, 12, 32
    Q, K, U = rng.normal(size=(3, heads, width, dim)) / np.sqrt(dim)
    O = rng.normal(size=(heads, dim, width)) / np.sqrt(dim)
    few = gct.GaussianTransformer.from_weights(Q, K, U, O).heads
    dense = DenseHeads(np.array(few.V), np.array(few.B))
    S = np.eye(dim) + 0.1 * rng.normal(size=(dim, dim))
    timed = compare(lambda: few.attention(S), lambda: dense.attention(S), 7)
    yield _row("12 heads", dim, timed, "dense heads", 6)
    wide, tall = U.reshape(-1, dim), O.transpose(1, 0, 2).reshape(dim, -1).copy()
    middle, small = wide @ S, np.empty((heads, width, width))
    keys, queries = K.transpose(0, 2, 1).copy(), np.array(Q)

    def products():
        return wide @ S, middle.reshape(heads, width, dim) @ keys, small @ queries, tall @ wide

    floor = compare(lambda: few.attention(S), products, 7)
    share = floor.ours / floor.theirs
    yield Row(
        "12 heads", dim, floor.ours, floor.theirs, "matrix products", "<=1.3x floor",
        share <= 1.3, f"{share:.2f}x the floor",
    )  # fmt: skip


def scalar_values() -> Iterator[Row]:
    """A response in closed form, against the plain system at the error the closed form has."""
    for dim, goal in ((4, 25), (8, 25), (16, 25), (64, 5)):
        rng = np.random.default_rng(dim)
        Z, W = rng.normal(size=(2, dim, dim))
        B = Z @ Z.T / dim + 0.2 * np.eye(dim) + (W - W.T) / 4
        A = np.eye(dim) + 0.5 * (W - W.T) / np.sqrt(dim)
        model = gct.GaussianTransformer(A, B, -np.eye(dim))
        times = np.linspace(0, 5, 11)
        start = gct.pack(np.zeros(dim), np.eye(dim))
        plain = plain_system(model)
        truth = gct.moment_response(model, times, start, rtol=1e-13, method="factor").states
        exact = gct.moment_response(model, times, start).states
        error = np.abs(exact - truth).max() / np.abs(truth).max()
        timed = compare(
            lambda: gct.moment_response(model, times, start),
            lambda: plain_response(plain, times, start, 1e-11),
            3,
        )
        note = f"error {error:.0e}"
        yield _row("scalar-value models", dim, timed, "RK45 at rtol 1e-11", goal, note)


def long_factor_runs() -> Iterator[Row]:
    """The factor form to T = 30 with K != 0: in the horizontal gauge, against L' = M L."""
    for dim in (4, 8):
        model, Sigma = settling_model(dim, kappa=4.0)
        start = (np.zeros(dim), 2 * Sigma + np.eye(dim))
        times = np.array([0.0, 30.0])
        rotating = gct.moment_system(model, form="factor")
        timed = compare(
            lambda: gct.moment_response(model, times, start, method="factor"),
            lambda: gct.moment_response(rotating, times, start, method="factor"),
            3,
        )
        yield _row("long factor runs", dim, timed, "L' = M L", 1.3)


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "right-side": right_side,
    "jacobian": jacobian,
    "equilibrium": equilibrium,
    "trajectory": trajectory,
    "twelve-heads": twelve_heads,
    "scalar-values": scalar_values,
    "long-factor-runs": long_factor_runs,
}


def _row(work, dim, timed, against, goal, note="") -> Row:
    met = timed.ratio >= goal
    return Row(work, dim, timed.ours, timed.theirs, against, f">={goal:g}x", met, note)


def _is_close(found: np.ndarray, Sigma: np.ndarray) -> bool:
    return bool(np.linalg.norm(found - Sigma) < 1e-6 * np.linalg.norm(Sigma))


def _loosest(solve: Callable[[float], np.ndarray], truth: np.ndarray) -> float:
    # The loosest tolerance, in steps of a quarter decade, that reaches 1e-9 of the largest entry.
    for power in np.arange(6, 12, 0.25):
        error = np.abs(solve(10.0**-power) - truth).max() / np.abs(truth).max()
        if error <= 1e-9:
            return float(10.0**-power)
    return 1e-12
