"""Extended certificates and regions proved; their polynomials; tampering and what is false."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import cubic_factor, plain_attention_form, planted_problem, random_model

import gausscontrol as gct
from gausscontrol.certificates.extended import extended_stability
from gausscontrol.certificates.region import certify_region_of_attraction
from gausscontrol.certificates.rigorous.exact_model import ExactModel, working
from gausscontrol.certificates.rigorous.extended import field_terms, prove_extended
from gausscontrol.certificates.rigorous.gram import GramBasis
from gausscontrol.certificates.rigorous.region import prove_region
from gausscontrol.certificates.rigorous.terms import along, multiplied, quadratic_terms
from gausscontrol.errors import NotCertified
from gausscontrol.linalg import balls
from gausscontrol.linalg.polynomials import monomials
from gausscontrol.linalg.symmetric import svec

FEW = settings(derandomize=True, deadline=None, max_examples=10)
SEEDS = st.integers(0, 10_000)


def indefinite_model(rng, dim):
    """Return a model with Sigma* = I whose form is near the edge of being negative."""
    V, B = rng.standard_normal((2, 1, dim, dim))
    shift = rng.uniform(0.5, 1.1) * np.linalg.eigvalsh(plain_attention_form(V, B))[-1]
    V = np.concatenate([V, -shift * np.eye(dim)[None]])
    B = np.concatenate([B, np.eye(dim)[None]])
    Z = rng.standard_normal((dim, dim))
    return gct.GaussianTransformer(Z - Z.T - (V @ B).sum(axis=0), B, V)


def certified(dim, degree, count, seed=0):
    """Yield models and evidence of the extended certificate."""
    rng = np.random.default_rng(seed)
    found = 0
    while found < count:
        model = indefinite_model(rng, dim)
        try:
            evidence = extended_stability(model, np.eye(dim), degree)
        except NotCertified:
            continue
        if evidence.margin > 0:
            found += 1
            yield model, evidence


def value(terms, x):
    return sum(float(c) * np.prod(x[list(key)]) for key, c in terms.items())


# -- polynomials ----------------------------------------------------------------------------------


@FEW
@given(SEEDS, st.integers(1, 3))
def test_polynomials_agree_with_numpy(seed, dim):
    rng = np.random.default_rng(seed)
    model = random_model(rng, dim, 2)
    Z, E = rng.standard_normal((2, dim, dim))
    S, E = Z @ Z.T + np.eye(dim), E + E.T
    x, size = gct.vech(E), dim * (dim + 1) // 2
    with working(dim):
        exact = ExactModel.of(model)
        field = field_terms(exact, balls.exact_matrix(S))
        M = model.drift(S)
        change = model.drift(S + E) @ (S + E)
        plain = M @ S
        wanted = gct.vech(change + change.T - plain - plain.T)
        assert np.allclose([value(terms, x) for terms in field], wanted, rtol=1e-10)

        basis = GramBasis.of_entries(dim, 2)
        z = monomials(size, 1, 2)(svec(E))
        Q = rng.standard_normal((len(z), len(z)))
        Q = Q + Q.T
        square = basis.square(balls.exact_matrix(Q), balls.exact(1))
        assert np.isclose(value(square, x), z @ Q @ z)
        step = 1e-6
        along_field = value(along(square, field), x)
        moved = [value(square, x + sign * step * wanted) for sign in (1, -1)]
        assert np.isclose(along_field, (moved[0] - moved[1]) / (2 * step), rtol=1e-4, atol=1e-4)
        product = multiplied(square, square)
        assert np.isclose(value(product, x), (z @ Q @ z) ** 2)

        linear = GramBasis.of_entries(dim, 1)
        e = svec(E)
        G = rng.standard_normal((size * dim, size * dim))
        G = G + G.T
        cone = linear.cone(balls.exact_matrix(G), balls.exact_matrix(S))
        multiplier = np.einsum("a,ajbk,b->jk", e, G.reshape(size, dim, size, dim), e)
        assert np.isclose(value(cone, x), np.sum(multiplier * (S + E)))


def test_balancing_meets_the_identity_on_every_monomial():
    rng = np.random.default_rng(1)
    with working(2):
        basis = GramBasis.of_entries(2, 1)
        Q, G = rng.standard_normal((3, 3)), rng.standard_normal((6, 6))
        total = quadratic_terms(balls.exact_matrix(Q + Q.T))
        found = basis.balance(total, balls.exact_matrix(np.eye(3)))
        for key, rest in basis.square(found, balls.exact(1)).items():
            assert abs(rest + total[key]) < 1e-80
        top = {(0, 1, 2): balls.exact(1.0), (0, 0, 2): balls.exact(-2.0)}
        found = basis.balance_cone(top, balls.exact_matrix(G + G.T))
        cone = basis.cone(found, balls.identity(2))
        for key, rest in cone.items():
            if len(key) == 3:
                assert abs(rest + top.get(key, balls.exact(0))) < 1e-80
        # What no Gram matrix reaches is refused, not dropped.
        assert basis.balance({(0,): balls.exact(1.0)}, balls.exact_matrix(np.eye(3))) is None
        assert basis.balance({(0, 0, 0): balls.exact(1.0)}, balls.identity(3)) is None


# -- extended certificates ------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "degree", "count"), [(1, 2, 2), (2, 2, 5), (2, 4, 2), (3, 2, 2)])
def test_extended_certificates_are_proved(dim, degree, count):
    for model, evidence in certified(dim, degree, count):
        claim = (model, np.eye(dim), evidence.witness, evidence.radius)
        assert prove_extended(*claim)
        assert prove_extended(*claim, rate=evidence.rate, mean=evidence.mean_stable)
        assert not prove_extended(*claim, rate=1e3 * evidence.rate)
        assert not prove_extended(*claim, rate=np.nan)


def test_extended_certificates_survive_coordinates_and_gauge():
    for model, evidence in certified(2, 2, 2):
        R = np.array([[1e3, 2.0], [0.0, 1e-1]])
        gauged = gct.GaussianTransformer(model.A, model.B * 1e-8, model.V * 1e8)
        assert prove_extended(gauged, np.eye(2), evidence.witness, evidence.radius)
        moved, Sigma = model.transform(R), R @ R.T
        found = extended_stability(moved, (Sigma + Sigma.T) / 2, 2)
        if found.margin > 0:
            assert prove_extended(moved, (Sigma + Sigma.T) / 2, found.witness, found.radius)


def test_tampered_witnesses_are_refused():
    model, evidence = next(certified(2, 2, 1))
    witness, claim = evidence.witness, (model, np.eye(2))
    for name in ("Phi", "Q", "G"):
        matrix = getattr(witness, name)
        # In degree 2 Q follows from the identity: whatever is stored, it is put right.
        negative = np.full_like(matrix, np.inf) if name == "Q" else -matrix
        for wrong in (negative, np.full_like(matrix, np.nan), matrix[:-1, :-1]):
            changed = replace(witness, **{name: wrong})
            assert not prove_extended(*claim, changed, evidence.radius)
    size = float(np.linalg.norm(witness.Q))
    assert prove_extended(*claim, replace(witness, Q=-witness.Q), evidence.radius)
    for change in ({"eta": 0.0}, {"eta": -1.0}, {"alpha": 0.0}, {"alpha": 1e3 * size}):
        assert not prove_extended(*claim, replace(witness, **change), evidence.radius)
    assert not prove_extended(*claim, replace(witness, degree=4), evidence.radius)
    assert not prove_extended(*claim, replace(witness, degree=3), evidence.radius)
    assert not prove_extended(model.replace(dt=0.1), np.eye(2), witness, evidence.radius)
    worse = model.replace(V=-model.V, A=-model.A)
    assert not prove_extended(worse, np.eye(2), witness, evidence.radius)


def two_attractors():
    """Return the model of Theory 4.7 whose form is negative semidefinite, with two equilibria."""
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    E1 = np.diag([1.0, -0.5])
    basis = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), [[0.0, 1.0], [1.0, 0.0]]])
    V, B = [], []
    for E in basis:
        along_E1 = np.sum(E * E1) / np.sum(E1 * E1)
        image = -along_E1 * J - (E - along_E1 * E1)
        # E -> E_ij image is the sum over k of (image e_k e_i^T) E (e_j e_k^T).
        i, j = (0, 1) if E[0, 1] else ((0, 0) if E[0, 0] else (1, 1))
        for k in range(2):
            V.append(np.outer(image[:, k], np.eye(2)[i]))
            B.append(np.outer(np.eye(2)[j], np.eye(2)[k]))
    A = np.array([[0.6, 1.4], [-1.4, 1.2]])
    return gct.GaussianTransformer(A, np.array(B), np.array(V))


def test_a_second_equilibrium_is_never_talked_away():
    model = two_attractors()
    for Sigma in (np.eye(2), np.diag([2.0, 0.5])):
        change = model.drift(Sigma) @ Sigma
        assert np.allclose(change + change.T, 0, atol=1e-14)
    offered = [evidence.witness for _, evidence in certified(2, 2, 5, seed=5)]
    assert not any(prove_extended(model, np.eye(2), witness, 1e-6) for witness in offered)


# -- regions --------------------------------------------------------------------------------------


def regions(dim, method, count, seed=0):
    rng = np.random.default_rng(seed)
    while count:
        try:
            found = certify_region_of_attraction(
                indefinite_model(rng, dim), np.eye(dim), method=method
            )
        except NotCertified:
            continue
        count -= 1
        yield found


@pytest.mark.parametrize("method", ["norm", "sos"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_regions_are_proved_as_certified(dim, method):
    for found in regions(dim, method, 1 if dim == 3 and method == "sos" else 3):
        assert prove_region(found)
        assert prove_region(replace(found, level=found.level / 2, radius=found.radius / 2))
        assert not prove_region(replace(found, level=1.2 * found.level + 1))
        assert not prove_region(replace(found, level=np.nan))
        assert not prove_region(replace(found, radius=1.001 * found.radius))
        assert not prove_region(replace(found, lyapunov_matrix=-found.lyapunov_matrix))
        assert not prove_region(replace(found, model=found.model.replace(dt=0.1)))
        if found.witness is None:
            continue
        for name in ("multiplier", "cone", "gram", "coordinates"):
            matrix = getattr(found.witness, name)
            wrong = replace(found.witness, **{name: np.full_like(matrix, np.nan)})
            assert not prove_region(replace(found, witness=wrong))
        wrong = replace(found.witness, multiplier=-100 * found.witness.multiplier)
        assert not prove_region(replace(found, witness=wrong))


def test_regions_off_the_identity_are_proved():
    rng = np.random.default_rng(2)
    model, Sigma = planted_problem(rng, 2, 1, 1.0)
    for method in ("norm", "sos"):
        found = certify_region_of_attraction(model, Sigma, method=method)
        assert prove_region(found)
        gauged = gct.GaussianTransformer(model.A, model.B * 1e8, model.V * 1e-8)
        assert prove_region(replace(found, model=gauged, mean_stable=False))


def test_no_region_around_an_unstable_equilibrium():
    found = next(regions(1, "norm", 1))
    known = cubic_factor()
    assert not prove_region(replace(found, model=known.model, covariance=known.covariance))


def test_a_region_never_reaches_an_escaping_start():
    """d = 1: sigma' = 2 sigma (sigma - 1)(...) cannot be had; the edge is the singular start 0.

    sigma' = 2 a sigma (1 - sigma) attracts (0, inf), and V = p (sigma - 1)^2 decreases on it, so
    that the largest provable level is the one that touches 0.
    """
    model = gct.GaussianTransformer(1.0, 1.0, -1.0)
    found = certify_region_of_attraction(model, np.eye(1), method="sos")
    edge = float(found.lyapunov_matrix[0, 0])
    assert found.level < edge
    assert prove_region(found)
    assert not prove_region(replace(found, level=1.0001 * edge, radius=0.5))
