"""The rows about single models: right side, derivatives, equilibria, trajectories."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import control as ct
import numpy as np

import gausscontrol as gct
from benchmarks.baseline import plain_equilibrium, plain_response, plain_system
from benchmarks.problems import fresh, loosest, products, settling_model
from benchmarks.table import Row, goal_row
from benchmarks.timing import compare, counting, interleaved, once, seconds
from gausscontrol.model.heads import DenseHeads
from gausscontrol.model.moments import MomentField
from gausscontrol.systems.forms import CovarianceFlow

__all__ = ["ROWS"]


def right_side() -> Iterator[Row]:
    """The right side x' = f(x), as the integrators call it, against the plain one."""
    for dim in (2, 4, 8, 16, 32, 64, 128, 384):
        model, Sigma = settling_model(dim)
        x, u = gct.pack(np.ones(dim), Sigma), np.zeros(dim)
        system, plain = gct.moment_system(model), plain_system(model)
        ours, theirs, floor = interleaved(
            (
                lambda: system._rhs(0, x, u),
                lambda: plain._rhs(0, x, u),
                products(model, Sigma),
            ),
            15,
        )
        goal, met = ("", True) if dim == 64 else (">=3.5x", theirs >= 3.5 * ours)
        if dim >= 128:
            goal, met = "<=1.3x floor", ours <= 1.3 * floor
        yield Row("right side", dim, ours, theirs, "hand-written nlsys", goal, met, floor=floor)


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
        ours, theirs, wrapped = interleaved(
            (
                lambda: field.jacobian(x),
                lambda: ct.linearize(plain, x, u),
                lambda: ct.linearize(system, x, u),
            ),
            rounds,
        )
        yield goal_row("exact Jacobian", dim, ours, theirs, "ct.linearize", goal)
        if dim in wrapped_goal:
            work, goal = "Jacobian as a StateSpace", wrapped_goal[dim]
            yield goal_row(work, dim, wrapped, theirs, "ct.linearize", goal)


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
                        lambda: gct.find_equilibrium(fresh(model)),
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


def large_equilibrium() -> Iterator[Row]:
    """The equilibrium at d = 256, where the baseline can simulate but no longer solve."""
    dim = 256
    model, Sigma = settling_model(dim)
    plain, start = plain_system(model), gct.pack(np.zeros(dim), np.eye(dim))
    with counting(DenseHeads, "attention") as attention:
        found, ours = once(lambda: gct.find_equilibrium(model))
    theirs = once(lambda: plain_response(plain, np.linspace(0, 20, 50), start, 1e-3))[1]
    floor = attention.calls * seconds(products(model, Sigma), 3)
    right = _is_close(found.covariance, Sigma)
    proven = "existence proven" if found.existence_radius is not None else "existence not proven"
    note = f"{'right' if right else 'WRONG'}, {proven}; {attention.calls} products T(Sigma)"
    yield Row(
        "equilibrium", dim, ours, theirs, "simulate to T = 20 alone", ">=10x",
        right and theirs >= 10 * ours, note, floor,
    )  # fmt: skip


def trajectory() -> Iterator[Row]:
    """One trajectory to error 1e-9, against the plain system at the tolerance that gives it."""
    for dim, goal in ((2, 6), (4, 6), (8, 6), (16, 6), (64, 3.5)):
        model, Sigma = settling_model(dim)
        times = np.linspace(0, 5, 11)
        x0 = gct.pack(np.ones(dim), 2 * Sigma + np.eye(dim))
        plain = plain_system(model)
        truth = gct.moment_response(model, times, x0, rtol=1e-12, method="factor").states

        def error(states):
            return np.abs(states - truth).max() / np.abs(truth).max()

        rtol = loosest(lambda r: error(gct.moment_response(model, times, x0, rtol=r).states), 1e-9)
        plain_rtol = loosest(lambda r: error(plain_response(plain, times, x0, r).states), 1e-9)
        with counting(CovarianceFlow, "rate") as evaluations:
            gct.moment_response(model, times, x0, rtol=rtol)
        ours, theirs, floor = interleaved(
            (
                lambda: gct.moment_response(model, times, x0, rtol=rtol),
                lambda: plain_response(plain, times, x0, plain_rtol),
                products(model, Sigma),
            ),
            5,
        )
        note = f"rtol {rtol:.1e} and {plain_rtol:.1e}, {evaluations.calls} right sides"
        yield goal_row(
            "trajectory to 1e-9", dim, ours, theirs, "RK45 at equal error", goal, note,
            evaluations.calls * floor,
        )  # fmt: skip


def twelve_heads() -> Iterator[Row]:
    """T(S) of a 12-head layer at d = 384 from its factors, against dense heads and the floor."""
    rng = np.random.default_rng(0)
    dim, heads, width = 384, 12, 32
    Q, K, U = rng.normal(size=(3, heads, width, dim)) / np.sqrt(dim)
    O = rng.normal(size=(heads, dim, width)) / np.sqrt(dim)
    few = gct.GaussianTransformer.from_weights(Q, K, U, O).heads
    dense = DenseHeads(np.array(few.V), np.array(few.B))
    S = np.eye(dim) + 0.1 * rng.normal(size=(dim, dim))
    wide, tall = U.reshape(-1, dim), O.transpose(1, 0, 2).reshape(dim, -1).copy()
    middle, small = wide @ S, np.empty((heads, width, width))
    keys, queries = K.transpose(0, 2, 1).copy(), np.array(Q)

    def bare():
        return wide @ S, middle.reshape(heads, width, dim) @ keys, small @ queries, tall @ wide

    ours, theirs, floor = interleaved(
        (lambda: few.attention(S), lambda: dense.attention(S), bare), 15
    )
    yield Row(
        "12 heads from factors", dim, ours, theirs, "dense heads", ">=6x, <=1.3x floor",
        theirs >= 6 * ours and ours <= 1.3 * floor, floor=floor,
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
        yield goal_row(
            "scalar-value models", dim, timed.ours, timed.theirs, "RK45 at rtol 1e-11", goal, note
        )


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
        yield goal_row("long factor runs", dim, timed.ours, timed.theirs, "L' = M L", 1.3)


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "right-side": right_side,
    "jacobian": jacobian,
    "equilibrium": equilibrium,
    "large-equilibrium": large_equilibrium,
    "trajectory": trajectory,
    "twelve-heads": twelve_heads,
    "scalar-values": scalar_values,
    "long-factor-runs": long_factor_runs,
}


def _is_close(found: np.ndarray, Sigma: np.ndarray) -> bool:
    return bool(np.linalg.norm(found - Sigma) < 1e-6 * np.linalg.norm(Sigma))
