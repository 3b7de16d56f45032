"""Cost against the dimension, with the exponent that a least-squares line in log-log gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import gausscontrol as gct
from benchmarks.problems import fresh, settling_model
from benchmarks.table import Row
from benchmarks.timing import seconds
from gausscontrol.analysis.form import form_maximum
from gausscontrol.analysis.spectra import covariance_abscissa
from gausscontrol.model.moments import MomentField

__all__ = ["SCALING_ROWS", "Curve", "curves", "scaling"]


class Curve(NamedTuple):
    """Seconds of one kind of work at several dimensions, and the exponent over the last of them."""

    work: str
    dims: np.ndarray
    seconds: np.ndarray
    exponent: float
    fitted: int  # how many of the dimensions, from the largest down, the exponent is fitted to


# What each kind of work does to a model and its equilibrium, the dimensions it is timed at, and
# how many of these are large enough for the power to show.
def _right_side(model, Sigma):
    field, x = MomentField.of(model), gct.pack(np.ones(model.dim), Sigma)
    return lambda: field.covariance_form(x)


def _jacobian(model, Sigma):
    field, x = MomentField.of(model), gct.pack(np.ones(model.dim), Sigma)
    return lambda: field.jacobian(x)


def _equilibrium(model, Sigma):
    return lambda: gct.find_equilibrium(fresh(model))


def _spectra(model, Sigma):
    white = model.whiten(Sigma)

    def both():
        named = fresh(white)
        return covariance_abscissa(named), form_maximum(named)

    return both


def _certificate(model, Sigma):
    return lambda: gct.certify_global_stability(fresh(model), Sigma, method="form")


def _trajectory(model, Sigma):
    start = np.ones(model.dim), 2 * Sigma + np.eye(model.dim)
    times = np.linspace(0, 5, 11)
    return lambda: gct.moment_response(model, times, start, rtol=1e-6)


WORKS = (
    ("right side", _right_side, (2, 4, 8, 16, 32, 64, 128, 256, 512), 3),
    ("exact Jacobian", _jacobian, (2, 4, 8, 16, 32, 64), 3),
    ("equilibrium", _equilibrium, (2, 4, 8, 16, 32, 64, 128, 256), 3),
    ("both spectra", _spectra, (2, 4, 8, 16, 32, 64, 128, 256), 3),
    ("form certificate", _certificate, (2, 4, 8, 16, 32, 64, 128, 256), 3),
    ("trajectory at rtol 1e-6", _trajectory, (2, 4, 8, 16, 32, 64, 128), 3),
)


@lru_cache(maxsize=1)
def curves() -> tuple[Curve, ...]:
    """Time every kind of work at every dimension, once a run."""
    measured = []
    for work, prepare, dims, fitted in WORKS:
        took = []
        for dim in dims:
            call = prepare(*settling_model(dim))
            took.append(seconds(call, 5 if dim < 128 else 1))
        logs = np.log(dims[-fitted:]), np.log(took[-fitted:])
        exponent = float(np.polyfit(*logs, 1)[0])
        measured.append(Curve(work, np.array(dims), np.array(took), exponent, fitted))
    return tuple(measured)


def scaling() -> Iterator[Row]:
    """The exponents, each with the time at the largest dimension."""
    for curve in curves():
        note = f"d^{curve.exponent:.1f} from d = {curve.dims[-curve.fitted]} on"
        dim, took = int(curve.dims[-1]), float(curve.seconds[-1])
        yield Row(f"cost: {curve.work}", dim, took, None, "", "", True, note)


SCALING_ROWS: dict[str, Callable[[], Iterator[Row]]] = {"scaling": scaling}
