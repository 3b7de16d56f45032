"""Rows about many models: batched trajectories and verdicts beside loops over single ones.

The loops run on a sample of the models and are scaled to all of them: their cost is a sum over
models, and the whole of it would take an hour.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import control as ct
import numpy as np

import gausscontrol as gct
from benchmarks import diffrax_side
from benchmarks.baseline import plain_response, plain_system
from benchmarks.problems import loosest, settling_model
from benchmarks.table import Row, goal_row
from benchmarks.timing import Count, interleaved, once, seconds

__all__ = ["BATCH_ROWS", "Batch", "random_models", "settling_batch"]

TRAJECTORIES, MODELS = 1000, 10_000
# How many of them the loops run.
SAMPLE, VERDICT_SAMPLE, SINGLE_STRIDE = 20, 30, 3
# Error of covariances, over their largest entry, at which the solvers are compared.
ERROR = 1e-6
TIMES = np.linspace(0, 5, 11)
LOOP_GOALS = {2: 80, 3: 80, 4: 80, 8: 30}
VERDICT_GOAL = 200
# Right sides after which the loop gives a model up; those that settle take under a thousand.
PATIENCE = 2000


class Batch(NamedTuple):
    """Models of one head: A, B, V (N, d, d) and b (N, d), with starts."""

    A: np.ndarray
    B: np.ndarray
    V: np.ndarray
    b: np.ndarray
    mean: np.ndarray  # (N, d)
    covariance: np.ndarray  # (N, d, d)

    def model(self, index: int) -> gct.GaussianTransformer:
        """Return one of the models."""
        return gct.GaussianTransformer(self.A[index], self.B[index], self.V[index], self.b[index])

    def start(self, index: int) -> np.ndarray:
        """Return where one of the trajectories starts, packed."""
        return gct.pack(self.mean[index], self.covariance[index])


def settling_batch(dim: int, count: int) -> Batch:
    """Return models of `settling_model`, each started at random around its own equilibrium."""
    rng = np.random.default_rng(dim)
    pairs = [settling_model(dim, seed=seed) for seed in range(count)]
    A, B, V, b = (np.stack([getattr(model, key) for model, _ in pairs]) for key in "ABVb")
    Z = rng.normal(size=(count, dim, dim))
    start = np.stack([Sigma for _, Sigma in pairs]) + Z @ Z.swapaxes(1, 2) / dim
    return Batch(A, B[:, 0], V[:, 0], b, rng.normal(size=(count, dim)), start)


def random_models(dim: int, count: int) -> Batch:
    """Return models half of which settle, the others with normal entries throughout."""
    rng = np.random.default_rng(dim)
    settling = settling_batch(dim, count // 2)
    A, B, V = rng.normal(size=(3, count - count // 2, dim, dim))
    rest = len(A)
    b, mean = np.zeros((2, rest, dim))
    wild = Batch(A, B, V, b, mean, np.tile(np.eye(dim), (rest, 1, 1)))
    return Batch(*(np.concatenate(pair) for pair in zip(settling, wild, strict=True)))


def trajectories() -> Iterator[Row]:
    """1,000 trajectories of 1,000 models, against the plain loop and warm diffrax, equal error."""
    sample = np.linspace(0, TRAJECTORIES - 1, SAMPLE, dtype=int)
    for dim, goal in LOOP_GOALS.items():
        batch = settling_batch(dim, TRAJECTORIES)
        truth = _truth(batch, sample)

        def ours(rtol):
            A, B, V, b, mean, covariance = batch
            found = gct.moment_response_batch(A, B, V, (mean, covariance), TIMES, b, rtol=rtol)
            return found.covariance

        def loop(rtol):
            return [_plain_covariances(batch, i, rtol) for i in sample]

        rtol = loosest(lambda r: _error(ours(r)[sample], truth), ERROR)
        loop_rtol = loosest(lambda r: _error(loop(r), truth), ERROR)
        took = seconds(lambda: ours(rtol), 3)
        theirs = seconds(lambda: loop(loop_rtol), 3) * TRAJECTORIES / SAMPLE
        floor = _right_sides(batch, sample, loop_rtol) * _products(batch)
        note = f"rtol {rtol:.1e} and {loop_rtol:.1e}; loop timed on {SAMPLE}"
        against = "loop of RK45, equal error"
        yield goal_row("1,000 trajectories", dim, took, theirs, against, goal, note, floor)
        if diffrax_side.AVAILABLE:
            solve = diffrax_side.solver(batch, TIMES)
            warm_rtol = loosest(lambda r: _error(solve(r)[sample], truth), ERROR)
            ours_again, warm = interleaved((lambda: ours(rtol), lambda: solve(warm_rtol)), 3)
            note = f"rtol {rtol:.1e} and {warm_rtol:.1e}"
            yield goal_row("1,000 trajectories", dim, ours_again, warm, "warm diffrax", 1.0, note)


def verdicts() -> Iterator[Row]:
    """10,000 models at d = 3 classified, against the plain loop and against `classify`."""
    dim = 3
    batch = random_models(dim, MODELS)
    sample = np.linspace(0, MODELS - 1, VERDICT_SAMPLE, dtype=int)
    found, took = once(lambda: gct.classify_batch(*batch[:4]))
    theirs = once(lambda: [plain_verdict(batch.model(i)) for i in sample])[1]
    note = f"loop timed on {VERDICT_SAMPLE}"
    yield goal_row(
        "10,000 verdicts", dim, took, theirs * MODELS / VERDICT_SAMPLE,
        "simulate, solve, linearize", VERDICT_GOAL, note,
    )  # fmt: skip
    few = sample[::SINGLE_STRIDE]
    single, theirs = once(lambda: [gct.classify(batch.model(i), sdp=False) for i in few])
    agree = sum(found.regime[i] == one.regime for i, one in zip(few, single, strict=True))
    note = f"{agree} of {len(few)} agree; loop timed on these"
    yield Row(
        "10,000 verdicts", dim, took, theirs * MODELS / len(few), "loop of classify", "", True,
        note,
    )  # fmt: skip


def plain_verdict(model: gct.GaussianTransformer) -> str:
    """Say what the generic tools say: simulate, find the operating point, look at its poles."""
    dim = model.dim
    system, start = _counted(model, PATIENCE)[0], gct.pack(np.zeros(dim), np.eye(dim))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Trajectories that blow up overflow on the way.
        warnings.simplefilter("ignore")
        try:
            near = plain_response(system, np.linspace(0, 20, 50), start, 1e-3).states[:, -1]
        except RuntimeError:
            # The solver failed, or was stopped as it crept towards an escape.
            return "blow-up"
        states = ct.find_operating_point(system, near, np.zeros(dim)).states
        if states is None:
            return "undecided"
        poles = ct.linearize(system, states, np.zeros(dim)).poles()
    return "locally stable" if poles.real.max() < 0 else "undecided"


def _products(batch: Batch) -> float:
    # Seconds of the bare products of one right side of all trajectories.
    A, B, V, S = batch.A, batch.B, batch.V, batch.covariance
    return seconds(lambda: (A + (V @ S) @ B) @ S, 9)


def _right_sides(batch: Batch, sample: np.ndarray, rtol: float) -> float:
    # What RK45 takes for one trajectory, on average.
    total = 0
    for index in sample:
        system, count = _counted(batch.model(index))
        plain_response(system, TIMES, batch.start(index), rtol)
        total += count.calls
    return total / len(sample)


def _counted(model: gct.GaussianTransformer, most: float = np.inf):
    # The plain system, counting its right sides up to a number that it refuses to exceed.
    system, count = plain_system(model), Count()

    def update(t, x, u, params):
        count.calls += 1
        if count.calls > most:
            raise RuntimeError(f"more than {most} right sides")
        return system.updfcn(t, x, u, params)

    states = system.nstates
    return ct.nlsys(update, None, inputs=model.dim, states=states, outputs=states), count


def _plain_covariances(batch: Batch, index: int, rtol: float) -> np.ndarray:
    system = plain_system(batch.model(index))
    return gct.unpack(plain_response(system, TIMES, batch.start(index), rtol).states)[1]


def _truth(batch: Batch, sample: np.ndarray) -> list[np.ndarray]:
    return [
        gct.moment_response(batch.model(i), TIMES, batch.start(i), rtol=1e-11).covariance
        for i in sample
    ]


def _error(found: Iterable[np.ndarray], truth: Iterable[np.ndarray]) -> float:
    # The largest error of a covariance, over the largest entry of its trajectory.
    pairs = zip(found, truth, strict=True)
    return max(float(np.abs(one - exact).max() / np.abs(exact).max()) for one, exact in pairs)


BATCH_ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "trajectories": trajectories,
    "verdicts": verdicts,
}
