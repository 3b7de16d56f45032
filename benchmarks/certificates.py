"""Times of certificates, beside an allowance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

import gausscontrol as gct
from benchmarks.problems import fresh, settling_model
from benchmarks.table import Row
from benchmarks.timing import seconds
from gausscontrol.analysis.form import form_maximum
from gausscontrol.analysis.spectra import covariance_abscissa
from gausscontrol.certificates.extended import check_extended, extended_stability

__all__ = ["CERTIFICATE_ROWS"]

# Seconds allowed, by certificate and dimension.
CHEAP = {2: 0.02, 3: 0.02, 4: 0.02, 6: 0.02, 8: 0.05}
ROBUSTNESS = 0.5
EXTENDED = {(2, 2): 0.2, (2, 4): 0.4, (2, 6): 3.0, (3, 2): 0.3, (3, 4): 60.0, (4, 2): 3.0}
REGION = {2: 1.0, 3: 5.0}


def unsettled_model(dim: int, seed: int = 0) -> gct.GaussianTransformer:
    """Return a model at the identity, locally stable, whose attention form is indefinite.

    A head with normal entries beside one that takes 0.8 of its largest q away from all directions.
    """
    rng = np.random.default_rng([seed, dim])
    while True:
        V, B, Z = rng.standard_normal((3, dim, dim))
        plain = gct.GaussianTransformer(np.zeros((dim, dim)), B, V)
        shift = 0.8 * form_maximum(plain)
        heads = np.stack([V, -shift * np.eye(dim)]), np.stack([B, np.eye(dim)])
        A = (Z - Z.T) / 2 - sum(v @ b for v, b in zip(*heads, strict=True))
        model = gct.GaussianTransformer(A, heads[1], heads[0])
        stable = covariance_abscissa(model) < -0.05
        if shift > 0 and stable and np.trace(A) > 0:
            return model


def anew(found: gct.Equilibrium) -> tuple[gct.GaussianTransformer, gct.Equilibrium]:
    """Return the model of an equilibrium under a new name, and the equilibrium as one of it."""
    model = fresh(found.model)
    return model, replace(found, model=model)


def certificates() -> Iterator[Row]:
    """The form, a Lyapunov matrix, a radius of robustness and a region of attraction."""
    for dim, allowed in CHEAP.items():
        model, Sigma = settling_model(dim)
        found = gct.find_equilibrium(model, Sigma)
        works = {
            "form": lambda: gct.certify_global_stability(*anew(found), method="form"),
            "local": lambda: gct.certify_local_stability(*anew(found)),
        }
        for work, certify in works.items():
            yield _allowed(f"certificate: {work}", dim, seconds(certify, 3), allowed)
        took = seconds(lambda: gct.robustness_radius(*anew(found)), 3)
        yield _allowed("certificate: robustness", dim, took, ROBUSTNESS)
    for dim, allowed in REGION.items():
        model = unsettled_model(dim)
        region = gct.certify_region_of_attraction
        took = seconds(lambda: region(fresh(model), np.eye(dim)), 1)
        yield _allowed("certificate: region", dim, took, allowed)


def extended() -> Iterator[Row]:
    """The extended certificate by degree, found and checked; then the check alone."""
    for (dim, degree), allowed in EXTENDED.items():
        model, identity = unsettled_model(dim), np.eye(dim)
        evidence = extended_stability(model, identity, degree)
        verdict = "holds" if evidence.margin > 0 else "does not hold"
        took = seconds(lambda: extended_stability(fresh(model), identity, degree), 1)
        yield _allowed(f"extended, degree {degree}", dim, took, allowed, verdict)
        took = seconds(lambda: check_extended(fresh(model), identity, evidence.witness), 3)
        yield _allowed(f"check of degree {degree}", dim, took, allowed)


def _allowed(work: str, dim: int, took: float, allowed: float, note: str = "") -> Row:
    return Row(work, dim, took, allowed, "allowance", f"<={allowed:g} s", took <= allowed, note)


CERTIFICATE_ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "certificates": certificates,
    "extended": extended,
}
