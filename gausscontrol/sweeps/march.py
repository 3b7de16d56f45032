"""Factors of many covariances along the depth, to the end or to an escape (Theory 1.6, 5.3).

    mu_i' = (M_i + Vbar_i) mu_i + b_i,    L_i' = M_i L_i

by Dormand and Prince's pair, every trajectory with its own step. What grows is looked at, and
followed to its escape if it makes one.
"""

from __future__ import annotations

import numpy as np

from gausscontrol.sweeps.batch import Stack, chosen
from gausscontrol.sweeps.escapes import FactorFlows, follow_escapes
from gausscontrol.sweeps.flow import DORMAND_PRINCE, Stepper
from gausscontrol.systems.escape import GROWTH_STEP, GROWTH_WATCH
from gausscontrol.systems.trajectory import LANDED, TIGHTEST

__all__ = ["FactorRun", "most_attempts"]

# Attempts after which a trajectory is handed to the single path, beside some for every sample.
MAX_ATTEMPTS, ATTEMPTS_PER_SAMPLE = 10_000, 20
# Size of a state that is about to overflow.
OVERFLOW = 1e140


def most_attempts(depths: np.ndarray) -> int:
    """Return the attempted steps after which a trajectory is given up."""
    return MAX_ATTEMPTS + ATTEMPTS_PER_SAMPLE * depths.size


class FactorRun:
    """All trajectories, from the start to the end of the grid or to their escapes."""

    def __init__(
        self,
        models: Stack,
        mean: np.ndarray,
        L: np.ndarray,
        depths: np.ndarray,
        rtol: float,
        floor: np.ndarray,
    ) -> None:
        self._models, self._start, self._depths = models, (mean, L), depths
        self._rtol, self._floor = rtol, floor
        count, dim = models.count, models.dim
        state = np.concatenate([mean, L.reshape(count, -1)], axis=1).T
        self.t, self.state, self.step = np.zeros(count), state, np.full(count, np.nan)
        self.samples = np.repeat(state[..., None], depths.size, axis=2)
        self.reached, self.wanted = np.ones(count, dtype=int), np.full(count, depths.size)
        self.escape = np.full((2, count), np.nan)
        self.stuck = np.zeros(count, dtype=bool)
        self._least, self._threshold = np.full(count, np.inf), np.zeros(count)
        self._dim, self._attempts = dim, 0

    def go(self) -> None:
        """Run: march, look at what grows, and march on."""
        waiting = np.arange(self._models.count)
        with np.errstate(all="ignore"):
            while waiting.size:
                parked = self._march(waiting)
                self._look(parked)
                waiting = parked[(self.reached < self.wanted)[parked] & ~self.stuck[parked]]

    def _march(self, active: np.ndarray) -> np.ndarray:
        """Go on with some trajectories; return those that stopped where they grow."""
        depths, last, parked = self._depths, self._depths.size - 1, []
        flow = self._flow(active)
        stepper = Stepper(
            DORMAND_PRINCE,
            lambda y: flow.rate(y),
            self.state[:, active],
            rtol=max(LANDED * self._rtol, TIGHTEST),
            atol=LANDED * self._floor[active],
            bound=depths[self.reached[active]] - self.t[active],
        )
        stepper.bound += self.t[active]
        stepper.t = self.t[active]
        going = ~np.isnan(self.step[active])
        stepper.h[going] = self.step[active[going]]
        most = most_attempts(depths)
        while active.size:
            advanced, self._attempts = stepper.attempt(), self._attempts + 1
            arrived = np.flatnonzero(advanced & (stepper.t >= stepper.bound))
            index = active[arrived]
            self.samples[:, index, self.reached[index]] = stepper.y[:, arrived]
            self.reached[index] += 1
            stepper.bound[arrived] = depths[np.minimum(self.reached[index], last)]
            done = self.reached[active] >= self.wanted[active]
            park = self._suspects(active, flow.trace(stepper.y), advanced) | stepper.failed
            park &= ~done & np.isnan(self.escape[0, active])
            large = ~(np.abs(stepper.y).max(axis=0) < OVERFLOW)
            lost = ~done & ~park & (stepper.failed | large | (self._attempts > most))
            self.stuck[active[lost]] = True
            if (done | lost | park).any():
                gone, index = np.flatnonzero(park), active[park]
                self.t[index], self.step[index] = stepper.t[gone], stepper.h[gone]
                self.state[:, index] = stepper.y[:, gone]
                # What cannot take a step and does not escape is stuck.
                self.stuck[active[stepper.failed & park]] = True
                parked.append(index)
                kept = np.flatnonzero(~(done | lost | park))
                active = active[kept]
                flow.keep(kept)
                stepper.keep(kept)
        return np.concatenate(parked) if parked else active

    def _suspects(self, active: np.ndarray, trace: np.ndarray, advanced: np.ndarray) -> np.ndarray:
        """Take note of the traces, and tell which have grown enough to be looked at."""
        least = np.fmin(self._least[active], trace)
        grown = advanced & (trace > np.maximum(GROWTH_WATCH * least, self._threshold[active]))
        self._least[active] = least
        self._threshold[active] = np.where(grown, GROWTH_STEP * trace, self._threshold[active])
        return grown

    def _look(self, some: np.ndarray) -> None:
        """Follow trajectories that grow to their escapes, if they make one."""
        if not some.size:
            return
        y = chosen(self.state, some)
        atol = np.broadcast_to(LANDED * self._floor[some], y.shape)
        local = max(LANDED * self._rtol, TIGHTEST)
        end = self._depths[-1]
        found = follow_escapes(self._flow(some), self.t[some], y, atol, end, local)
        hit = ~np.isnan(found[0])
        some, found = some[hit], found[:, hit]
        self.escape[:, some], self.stuck[some] = found, False
        self.wanted[some] = np.searchsorted(self._depths, found[0] - found[1])

    def _flow(self, index: np.ndarray) -> FactorFlows:
        models = self._models.take(index)
        return FactorFlows(models.field(), np.ascontiguousarray(models.b.T))

    def result(self, times: np.ndarray) -> dict[str, np.ndarray]:
        """Return what was found, as `BatchResponse` names it; a rougher run tells errors."""
        count, dim, depths = self._models.count, self._dim, self._depths
        escaped = ~np.isnan(self.escape[0])
        reached = np.where(escaped, np.searchsorted(depths, self.escape[0]), self.reached)
        reached = np.minimum(reached, self.reached)
        position = np.minimum(np.arange(depths.size), reached[:, None] - 1)
        samples = self.samples[:, np.arange(count)[:, None], position]
        mean = np.ascontiguousarray(np.moveaxis(samples[:dim], 0, 1))
        L = samples[dim:].reshape(dim, -1, count, depths.size)
        time, error = np.full(count, np.inf), np.zeros(count)
        some = np.flatnonzero(escaped)
        if some.size:
            time[some] = times[0] + self.escape[0, some]
            error[some] = self._errors(some) + 10 * np.spacing(np.abs(time[some]))
        return {
            "mean": mean,
            "covariance": np.einsum("irnt,jrnt->nijt", L, L, optimize=True),
            "valid": np.arange(depths.size) < reached[:, None],
            "blow_up": escaped,
            "blow_up_time": time,
            "blow_up_error": error,
        }

    def _errors(self, some: np.ndarray) -> np.ndarray:
        # A run at ten times the tolerance errs more than this one.
        mean, L = (x[some] for x in self._start)
        ends = self._depths[[0, -1]]
        rough = FactorRun(
            self._models.take(some), mean, L, ends, 10 * self._rtol, self._floor[some] * 10
        )
        rough.go()
        depth = np.where(np.isnan(rough.escape[0]), ends[-1], rough.escape[0])
        return np.abs(depth - self.escape[0, some]) + self.escape[1, some]
