"""Models beyond dense size: agreement with dense ones, sound certificates, little memory."""

import subprocess
import sys

import numpy as np
import pytest
from matrices import relative
from problems import random_covariance, random_model

import gausscontrol as gct
from gausscontrol.analysis import singular, spectra
from gausscontrol.analysis.form import attention_form, form_maximum
from gausscontrol.analysis.propagator import (
    Linearisation,
    gramian_norm,
    growth_rate,
    propagator_norm,
)
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates import balance
from gausscontrol.certificates.local import propagated_stability
from gausscontrol.certificates.propagation import propagation
from gausscontrol.errors import GausscontrolError
from gausscontrol.linalg.symmetric import smat, svec


def settling(dim, n_heads=1, width=None, kappa=1.0, seed=0):
    """A model with factored heads whose form is at most zero, and its equilibrium."""
    rng = np.random.default_rng([seed, dim, n_heads])
    width = width or dim
    frames = np.linalg.qr(rng.normal(size=(2 * n_heads, dim, width)))[0].transpose(0, 2, 1)
    U, K = frames[:n_heads], frames[n_heads:]
    if width == dim:  # projections would leave nothing to see
        U, K = (X * rng.uniform(0.7, 1.3, (n_heads, dim, 1)) for X in (U, K))
    size = dim**2 / (n_heads * width**2)
    Z = rng.normal(size=(dim, dim))
    T = -size * sum(u.T @ u @ k.T @ k for u, k in zip(U, K, strict=True))
    white = gct.GaussianTransformer.from_weights(
        K,
        K,
        U,
        -size * U.transpose(0, 2, 1),
        A=kappa * (Z - Z.T) / np.sqrt(2 * dim) - T,
        b=rng.normal(size=dim),
        scale=1.0,
    )
    root = np.linalg.qr(rng.normal(size=(dim, dim)))[0] * np.linspace(1, 2, dim)
    S = root @ root.T
    return white.transform(root), (S + S.T) / 2


def scattered(rng):
    """A small model with an equilibrium that may be stable or not."""
    dim, heads = int(rng.integers(4, 6)), int(rng.integers(1, 4))
    V, B = rng.normal(size=(2, heads, dim, dim)) / np.sqrt(dim * heads)
    V -= rng.uniform(0, 1) * np.eye(dim)
    B += rng.uniform(0, 1) * np.eye(dim)
    Z = rng.normal(size=(dim, dim))
    A = rng.uniform(0, 1) * (Z - Z.T) - np.einsum("hij,hjk->ik", V, B)
    S = random_covariance(rng, dim)
    R = np.linalg.cholesky(S)
    return gct.GaussianTransformer(A, B, V).transform(R), R @ R.T


# -- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt", [0, 0.1])
def test_linearisation_and_adjoint(dt):
    rng = np.random.default_rng(0)
    model = random_model(rng, 5, 2).replace(dt=dt)
    S, E, F = (random_covariance(rng, 5) for _ in range(3))
    linear = Linearisation(model, S)
    field = gct.moment_system(model)
    J = field.linearize(gct.pack(np.zeros(5), S), np.zeros(5)).A[5:, 5:]
    assert relative(gct.vech(linear.apply(E)), J @ gct.vech(E)) < 1e-12
    assert np.sum(F * linear.apply(E)) == pytest.approx(np.sum(linear.adjoint(F) * E), rel=1e-12)
    assert linear.size <= linear.bound * (1 + 1e-12) or dt


def test_propagator_and_gramian_against_dense_ones():
    from scipy.linalg import expm, solve_continuous_lyapunov

    model, S = settling(6, 2)
    white = model.whiten(S)
    J, linear = dense_operator(white), Linearisation(white)
    E = random_covariance(np.random.default_rng(1), 6)
    Phi = expm(1.5 * J)
    assert relative(svec(linear.propagate(E, 1.5)), Phi @ svec(E)) < 1e-9
    assert relative(svec(linear.propagate(E, 1.5, adjoint=True)), Phi.T @ svec(E)) < 1e-9
    assert propagator_norm(linear, 1.5) == pytest.approx(np.linalg.norm(Phi, 2), rel=1e-2)
    P = solve_continuous_lyapunov(J.T, Phi.T @ Phi - np.eye(len(J)))
    assert gramian_norm(linear, 1.5) == pytest.approx(np.linalg.norm(P, 2), rel=0.2)
    depth = 36 / linear.size
    assert growth_rate(linear) == pytest.approx(np.linalg.eigvals(J).real.max(), abs=3 / depth)


@pytest.mark.parametrize("dim", [40])
def test_spectra_agree_with_dense_ones(dim):
    model, S = settling(dim)
    white = model.whiten(S)
    dense = np.linalg.eigvals(dense_operator(white)).real.max()
    assert spectra.covariance_abscissa(white) == pytest.approx(dense, abs=1e-5)
    form = np.linalg.eigvalsh(attention_form(white.heads))[-1]
    assert form_maximum(white) == pytest.approx(form, abs=1e-6)


# -- certificates ---------------------------------------------------------------------------------


def test_no_unstable_equilibrium_is_certified():
    rng = np.random.default_rng(2)
    stable = certified = 0
    for _ in range(12):
        model, S = scattered(rng)
        abscissa = np.linalg.eigvals(dense_operator(model.whiten(S))).real.max()
        stable += abscissa < 0
        try:
            certificate = propagated_stability(model, S)
        except gct.NotCertified:
            certificate = None
        certified += certificate is not None
        assert certificate is None or abscissa < 0
        if abscissa > 0:  # and not by a horizon of anybody's choice either
            for horizon in (0.01, 2.0):
                assert not propagation(model, S, horizon).margin > 0
    assert stable > 2
    assert certified > stable / 2


def test_propagator_certifies_where_the_form_is_semidefinite():
    model, S = settling(33, 1, 24, kappa=2.0)
    assert not form_maximum(model.whiten(S)) < -1e-6
    certificate = gct.certify_local_stability(model, S)
    assert certificate.method == "propagator"
    assert certificate.horizon > 0
    assert certificate.lyapunov_matrix is None
    assert certificate.verify()
    assert np.linalg.eigvals(dense_operator(model.whiten(S))).real.max() < 0
    assert "matrix-free" in str(certificate)


def test_dissipation_where_the_form_is_definite():
    model, S = settling(36, 2)
    certificate = gct.certify_local_stability(model, S)
    assert certificate.method == "dissipation"
    assert certificate.verify()
    from dataclasses import replace

    assert not replace(certificate, metric=-certificate.metric).verify()
    assert not replace(certificate, metric=None).verify()
    assert not replace(certificate, margin=2 * certificate.margin).verify()
    assert not replace(certificate, metric=None, horizon=1e-3).verify()


@pytest.mark.parametrize(
    ("options", "dt", "reason"),
    [
        ({"rigorous": True}, 0, "rigorous"),
        ({"vertices": ()}, 0, "vertices"),
        ({}, 0.1, "dt"),
    ],
)
def test_what_needs_a_matrix_is_refused_with_its_limit(options, dt, reason):
    model, S = settling(34)
    with pytest.raises(gct.NotCertified, match=f"{reason}.*d = 34"):
        gct.certify_local_stability(model.replace(dt=dt), S, **options)


# -- analysis -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def analysis():
    model, S = settling(36)
    return gct.analyze(model, gct.find_equilibrium(model, 1.05 * S))


def test_equilibrium_from_a_guess(analysis):
    _, S = settling(36)
    assert relative(analysis.equilibrium.covariance, S) < 1e-9
    assert analysis.equilibrium.existence_radius is not None


def test_analysis_says_that_it_is_matrix_free(analysis):
    assert analysis.matrix_free
    assert "matrix-free: n = 666" in str(analysis)
    assert analysis.system.nstates == 36
    assert analysis.poles.real.max() == pytest.approx(analysis.abscissa, rel=1e-6)
    assert analysis.lyapunov is None
    assert "d = 32" in analysis.reasons["lyapunov"]
    assert analysis.stability_radius is None
    with pytest.raises(gct.ParameterError, match="d = 32"):
        analysis.sensitivity("A")


def test_norms_of_the_mean_block_are_those_of_the_whole(analysis):
    A = analysis.system.A
    P = analysis.controllability_gramian
    assert relative(A @ P + P @ A.T, -np.eye(36)) < 1e-9
    assert analysis.h2_norm == pytest.approx(np.sqrt(np.trace(P)), rel=1e-9)
    peak = max(
        np.linalg.norm(np.linalg.inv(1j * w * np.eye(36) - A), 2) for w in np.linspace(0, 5, 400)
    )
    assert peak * (1 - 1e-9) <= analysis.hinf_norm < 1.01 * peak


@pytest.mark.parametrize("parameter", ["A", "V", "B"])
def test_covariance_shift_is_the_derivative(parameter):
    rng = np.random.default_rng(3)
    model, S = settling(6, 2)
    dense = gct.GaussianTransformer(model.A, model.B, model.V, model.b)
    found = gct.find_equilibrium(dense, S)
    change = rng.normal(size=getattr(dense, parameter).shape)
    full = gct.analyze(dense, found).sensitivity(parameter)
    along = np.tensordot(full, change, axes=change.ndim)
    assert relative(gct.analyze(dense, found).covariance_shift(**{parameter: change}), along) < 1e-7


def test_what_reaches_the_covariance_is_refused():
    model, S = settling(36)
    found = gct.find_equilibrium(model, S)
    with pytest.raises(gct.ParameterError, match="inputs: expected b, k"):
        gct.analyze(model, found, inputs=("A",))
    with pytest.raises(gct.ParameterError, match="outputs"):
        gct.analyze(model, found, outputs=("Sigma",))


# -- pieces that have a large form ----------------------------------------------------------------


def test_singular_equilibria_without_large_matrices(monkeypatch):
    rng = np.random.default_rng(0)
    model = random_model(rng, 6, 2)
    for rank in (1, 2):
        L = rng.normal(size=(6, rank))
        dense = singular.leaf_spectrum(model, L)
        with monkeypatch.context() as patch:
            patch.setattr(singular, "DENSE_DIM", 1)
            free = singular.leaf_spectrum(model, L)
        assert free.leaf == pytest.approx(dense.leaf, rel=1e-9)
        assert free.transverse == dense.transverse


def test_balancing_without_large_matrices(monkeypatch):
    rng = np.random.default_rng(1)
    A, (V, B) = rng.normal(size=(7, 7)), rng.normal(size=(2, 3, 7, 7))
    D = np.exp(4 * rng.normal(size=7))
    A, V, B = D[:, None] * A / D, D[:, None] * V / D, B / D / D[:, None]
    V[1] = 0
    dense = balance._exponents(A, V, B)
    monkeypatch.setattr(balance, "DENSE_DIM", 1)
    assert np.array_equal(balance._exponents(A, V, B), dense)


def test_clustered_poles_end_in_a_growth_rate(monkeypatch):
    def stuck(*_, **__):
        raise GausscontrolError("clustered")

    model, S = settling(50, 2)
    white = model.whiten(S).replace(name="clustered")
    monkeypatch.setattr(spectra, "_largest_of_the_propagator", stuck)
    monkeypatch.setattr(spectra, "FALLBACK_DIM", 40)
    assert spectra.covariance_abscissa(white) == growth_rate(Linearisation(white))
    with pytest.raises(GausscontrolError, match="clustered"):
        spectra.rightmost_poles(white)
    assert smat(svec(np.eye(3))).shape == (3, 3)


# -- memory ---------------------------------------------------------------------------------------

MEMORY = """
import resource, sys
import numpy as np
import gausscontrol as gct
from gausscontrol.analysis.form import form_maximum
from gausscontrol.analysis.spectra import covariance_abscissa
rng = np.random.default_rng(0)
d = 256
P, Q, Z = rng.normal(size=(3, d, d))
V, B = -(P @ P.T / d + 0.2 * np.eye(d)), Q @ Q.T / d + 0.2 * np.eye(d)
white = gct.GaussianTransformer((Z - Z.T) / (2 * np.sqrt(d)) - V @ B, B, V)
assert covariance_abscissa(white) < 0 and form_maximum(white) < 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_spectra_and_form_at_256_stay_below_300_mebibytes():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 300
