"""One Lyapunov matrix for a polytope of parameters, and the user's own."""

import numpy as np
import pytest
from problems import planted_problem

import gausscontrol as gct
from gausscontrol.analysis.spectra import dense_operator
from gausscontrol.certificates.linearisation import in_vech
from gausscontrol.certificates.polytope import (
    _common,
    check_polytope,
    common_lyapunov,
    given_lyapunov,
    polytope_statement,
    polytope_triples,
)


def planted(seed, dim=2, heads=2):
    model, Sigma = planted_problem(np.random.default_rng(seed), dim, heads, 1.0)
    return model, gct.find_equilibrium(model, Sigma).covariance


def vertices_of(model, rng, size, count=3):
    def moved(M):
        return M * (1 + size * rng.uniform(-1, 1, M.shape))

    return [model.replace(A=moved(model.A), V=moved(model.V), B=moved(model.B))
            for _ in range(count)]  # fmt: skip


def inside(vertices, rng):
    """A model with A, V and B at random places of the three hulls."""
    weights = rng.dirichlet(np.ones(len(vertices)), 3)
    A, V, B = (
        np.tensordot(w, np.stack([getattr(v, key) for v in vertices]), axes=1)
        for w, key in zip(weights, "AVB", strict=True)
    )
    return gct.GaussianTransformer(A, B, V)


# -- what is certified ----------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
def test_the_inequality_holds_in_the_whole_polytope(dim):
    rng = np.random.default_rng(dim)
    model, Sigma = planted(dim, dim)
    vertices = vertices_of(model, rng, 1e-2)
    P, evidence = common_lyapunov(model, Sigma, vertices)
    assert evidence.margin > 0
    assert evidence.data["triples"] == 28  # 3 x 3 x 3 and the model itself
    assert np.linalg.eigvalsh(P)[0] > 0
    for _ in range(50):
        J = dense_operator(inside(vertices, rng).whiten(Sigma))
        assert np.linalg.eigvalsh(P @ J + J.T @ P)[-1] <= -evidence.margin
    assert check_polytope(model, Sigma, vertices, P).margin == pytest.approx(evidence.margin)


def test_equilibria_of_a_small_polytope_are_enclosed_and_stable():
    rng = np.random.default_rng(4)
    model, Sigma = planted(1)
    vertices = vertices_of(model, rng, 1e-4)
    _, evidence = common_lyapunov(model, Sigma, vertices)
    assert evidence.equilibria
    assert "every model" in polytope_statement(3, evidence.radius)
    R = np.linalg.inv(np.linalg.cholesky(Sigma))
    for _ in range(30):
        other = inside(vertices, rng)
        moved = gct.find_equilibrium(other, Sigma)
        assert moved.covariance_is_stable
        assert np.linalg.norm(R @ moved.covariance @ R.T - np.eye(2)) <= evidence.radius


def test_a_wide_polytope_speaks_of_the_linearisation():
    rng = np.random.default_rng(5)
    model, Sigma = planted(2)
    _, evidence = common_lyapunov(model, Sigma, vertices_of(model, rng, 2e-2))
    assert not evidence.equilibria
    assert "linearisations at the given covariance" in polytope_statement(3, evidence.radius)


def test_shared_equilibria_are_recognised():
    # A turns, Sigma* = I stays: sym M(I) = 0 at every vertex.
    J = np.array([[0.0, 1.0], [-1.0, 0.0]])
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    vertices = [model.replace(A=np.eye(2) + c * J) for c in (-3.0, 3.0)]
    P, evidence = common_lyapunov(model, np.eye(2), vertices)
    assert evidence.equilibria
    assert evidence.radius < 1e-12
    np.testing.assert_allclose(P, np.eye(3), atol=1e-12)
    assert evidence.margin == pytest.approx(4, rel=1e-6)  # twice the abscissa of 2


def test_what_neither_the_model_nor_the_mean_serves_is_found():
    rng = np.random.default_rng(11)
    searched = 0
    for _ in range(300):
        model, Sigma = planted(int(rng.integers(10**6)))
        vertices = vertices_of(model, rng, 0.05, count=2)
        try:
            P, evidence = common_lyapunov(model, Sigma, vertices)
        except gct.NotCertified:
            continue
        J = [dense_operator(m.whiten(Sigma)) for m in polytope_triples(model, vertices)]
        candidates = [lyapunov_solution(j) for j in (J[0], np.mean(J, axis=0))]
        if not any(serves(Q, J) for Q in candidates):
            assert serves(P, J)
            assert evidence.margin > 0
            assert serves(_common(np.stack(J)), J)  # the programme, which comes last, agrees
            searched += 1
        if searched == 2:
            return
    pytest.fail("no model needed a search")


def lyapunov_solution(J):
    n = len(J)
    operator = np.kron(J.T, np.eye(n)) + np.kron(np.eye(n), J.T)
    return np.linalg.solve(operator, -np.eye(n).ravel()).reshape(n, n)


def serves(P, J):
    return np.linalg.eigvalsh(P)[0] > 0 and all(
        np.linalg.eigvalsh(P @ j + j.T @ P)[-1] < 0 for j in J
    )


def test_head_gauge_changes_no_verdict():
    rng = np.random.default_rng(6)
    model, Sigma = planted(3)
    vertices = vertices_of(model, rng, 1e-2)
    _, plain = common_lyapunov(model, Sigma, vertices)
    for power in (-8, 8):
        gauge = 10.0**power
        moved = [v.rescale_heads(gauge) for v in vertices]
        _, there = common_lyapunov(model.rescale_heads(gauge), Sigma, moved)
        assert there.margin == pytest.approx(plain.margin, rel=1e-6)
        assert there.equilibria == plain.equilibria


def test_coordinates_change_no_verdict():
    rng = np.random.default_rng(7)
    model, Sigma = planted(3)
    vertices = vertices_of(model, rng, 1e-2)
    R = rng.standard_normal((2, 2)) + 2 * np.eye(2)
    image = R @ Sigma @ R.T
    moved = model.transform(R)
    image = gct.find_equilibrium(moved, (image + image.T) / 2).covariance
    _, plain = common_lyapunov(model, Sigma, vertices)
    _, there = common_lyapunov(moved, image, [v.transform(R) for v in vertices])
    assert there.margin == pytest.approx(plain.margin, rel=1e-3)


# -- through the front door -----------------------------------------------------------------------


def test_certify_local_stability_takes_vertices():
    model, Sigma = planted(3)
    vertices = vertices_of(model, np.random.default_rng(8), 1e-4)
    certificate = gct.certify_local_stability(model, Sigma, vertices=vertices)
    assert certificate.verify()
    assert "vertices" in certificate.statement
    with pytest.raises(gct.NotCertified, match=r"^vertices"):
        gct.certify_local_stability(model, Sigma, vertices=[model.reversed()])


def test_certify_local_stability_takes_a_matrix():
    model, Sigma = planted(3)
    own = gct.certify_local_stability(model, Sigma).lyapunov_matrix
    certificate = gct.certify_local_stability(model, Sigma, lyapunov_matrix=5 * own)
    assert certificate.verify()
    with pytest.raises(gct.NotCertified, match="positive definite"):
        gct.certify_local_stability(model, Sigma, lyapunov_matrix=-own)
    with pytest.raises(gct.NotCertified):
        gct.certify_local_stability(model, Sigma, lyapunov_matrix=np.diag([1.0, 1e6, 1.0]))
    with pytest.raises(ValueError, match="lyapunov_matrix"):
        gct.certify_local_stability(model, Sigma, lyapunov_matrix=np.eye(2))
    with pytest.raises(gct.ParameterError, match="lyapunov_matrix"):
        gct.certify_local_stability(model, Sigma, lyapunov_matrix=np.triu(np.ones((3, 3))))


# -- arguments ------------------------------------------------------------------------------------


def test_given_matrices_are_read_in_vech():
    model, Sigma = planted(3)
    P = np.diag([1.0, 2.0, 3.0])
    there = given_lyapunov(in_vech(P, Sigma), model, Sigma)
    np.testing.assert_allclose(there, P / 3, rtol=1e-9, atol=1e-12)


def test_equal_matrices_are_counted_once():
    model, _ = planted(3)
    assert len(polytope_triples(model, [model, model])) == 1
    other = model.replace(A=2 * model.A)
    assert len(polytope_triples(model, [model, other])) == 2
    assert len(polytope_triples(model, [other])) == 2  # the model itself is always among them


def test_bad_vertices():
    model, Sigma = planted(3)
    bad = [
        ([], "at least one"),
        ([model, "x"], "found str"),
        (None, "NoneType"),
        ([gct.GaussianTransformer(np.eye(3), np.eye(3), np.eye(3))], "d = 2"),
        ([model, gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2))], "heads"),
        ([model.replace(dt=0.1)], "dt"),
        ([model.replace(A=c * model.A, V=c * model.V, B=c * model.B) for c in range(1, 6)], "64"),
    ]
    for vertices, words in bad:
        with pytest.raises(gct.ParameterError, match=r"^vertices") as raised:
            common_lyapunov(model, Sigma, vertices)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)


def test_shortfalls_say_what_is_unstable():
    model, Sigma = planted(3)
    with pytest.raises(gct.NotCertified, match="unstable by itself") as raised:
        common_lyapunov(model, Sigma, [model, model.reversed()])
    assert raised.value.margin is None or raised.value.margin < 0


def test_no_common_matrix_for_opposite_shears():
    # Each vertex is stable, their mean is not.
    shear = np.array([[0.0, 40.0], [0.0, 0.0]])
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    vertices = [model.replace(A=0.5 * np.eye(2) + s) for s in (shear, shear.T)]
    with pytest.raises(gct.NotCertified, match="mean of the triples is unstable"):
        common_lyapunov(model, np.eye(2), vertices)
