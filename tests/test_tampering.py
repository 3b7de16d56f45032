"""What a certificate says is what its check looks at: no altered field verifies."""

from dataclasses import fields, replace

import numpy as np
import pytest
from problems import lyapunov_globally_stable

import gausscontrol as gct
from gausscontrol.certificates.base import at_most

IDENTITY = np.eye(2)
LIMIT = gct.GaussianTransformer(IDENTITY, IDENTITY, -IDENTITY)
SPIRAL = gct.GaussianTransformer([[1.0, 2.0], [-2.0, -0.2]], np.diag([1.0, -0.2]), -IDENTITY)
PROBLEM = lyapunov_globally_stable()


def polytope(change):
    moved = [LIMIT.replace(A=LIMIT.A + change * np.diag([1.0, -1.0])), LIMIT]
    return gct.certify_local_stability(LIMIT, IDENTITY, vertices=moved)


def blow_up(method):
    if method == "spectral":
        return gct.certify_blow_up(gct.GaussianTransformer(-IDENTITY, IDENTITY, IDENTITY))
    if method == "subspace":
        V = np.array([[1.0, 4.0], [0.0, -2.0]])
        model = gct.GaussianTransformer(-IDENTITY, IDENTITY, V)
        return gct.certify_blow_up(model, 100 * IDENTITY)
    if method == "riccati":
        A = np.array([[-1.0, 2.0], [-1.0, 0.5]])
        return gct.certify_blow_up(gct.GaussianTransformer(A, np.diag([1.0, -1.0]), IDENTITY))
    if method == "uniform":
        model = gct.GaussianTransformer(-IDENTITY, np.diag([1.0, -1.0]), IDENTITY)
        return gct.certify_blow_up(model)
    V, B = np.random.default_rng(0).standard_normal((2, 2, 2, 2))
    model = gct.GaussianTransformer(-IDENTITY, IDENTITY + 0.2 * B, IDENTITY + 0.2 * V)
    return gct.certify_blow_up(model)


MAKERS = {
    "global": lambda: gct.certify_global_stability(PROBLEM.model, PROBLEM.covariance),
    "local": lambda: gct.certify_local_stability(PROBLEM.model, PROBLEM.covariance),
    "polytope": lambda: polytope(1e-3),
    "wide polytope": lambda: polytope(0.5),
    "semiglobal": lambda: gct.certify_semiglobal_stability(
        LIMIT.replace(dt=0.01), IDENTITY, 2 * IDENTITY
    ),
    "region": lambda: gct.certify_region_of_attraction(SPIRAL, gct.find_equilibrium(SPIRAL)),
    "robustness": lambda: gct.robustness_radius(LIMIT, IDENTITY),
    "bounded": lambda: gct.certify_boundedness(
        gct.GaussianTransformer(IDENTITY, IDENTITY, -IDENTITY)
    ),
    "collapse": lambda: gct.certify_collapse(
        gct.GaussianTransformer(-IDENTITY, IDENTITY, -IDENTITY)
    ),
    "spectral": lambda: blow_up("spectral"),
    "subspace": lambda: blow_up("subspace"),
    "sdp": lambda: blow_up("sdp"),
    "riccati": lambda: blow_up("riccati"),
    "uniform": lambda: blow_up("uniform"),
}
# What each kind must not claim more of: field -> a stronger value.
STRONGER = {
    "global": {"rate": 1.01, "optimal_rate": 2.0, "radius": 0.0, "margin": 2.0},
    "local": {"radius": 0.0, "margin": 2.0},
    "polytope": {"radius": 0.0, "margin": 2.0},
    "wide polytope": {"margin": 2.0},
    "semiglobal": {"largest_step": 100.0, "resolution": 0.0, "level": 1e9, "margin": 2.0},
    "region": {"level": 2.0, "radius": 1.1, "margin": 2.0},
    "robustness": {"radius": 2.0, "relative_radius": 2.0, "displacement": 0.1, "mean_radius": 2.0},
    "bounded": {"bound": 0.5, "gain": 2.0, "margin": 2.0},
    "collapse": {"rate": 2.0, "margin": 2.0},
    "spectral": {"threshold": 0.5, "gain": 2.0, "margin": 2.0},
    "subspace": {"threshold": 0.5, "uncertainty": 0.0, "margin": 2.0},
    "sdp": {"threshold": 0.5, "gain": 2.0, "margin": 2.0},
    "riccati": {"threshold": 0.5, "depth": 0.5, "P": 1.01, "margin": 2.0},
    "uniform": {"threshold": 0.5, "gain": 2.0, "P": 1.01, "margin": 2.0},
}


@pytest.fixture(scope="module", name="found")
def certificates():
    return {name: make() for name, make in MAKERS.items()}


@pytest.mark.parametrize("name", MAKERS)
def test_an_altered_field_does_not_verify(found, name):
    certificate = found[name]
    assert certificate.verify()
    for field, factor in STRONGER[name].items():
        value = factor * getattr(certificate, field)
        assert not replace(certificate, **{field: value}).verify(), field


@pytest.mark.parametrize("name", MAKERS)
def test_nonsense_does_not_verify(found, name):
    certificate = found[name]
    for item in fields(certificate):
        value = getattr(certificate, item.name)
        if item.name in ("data", "proved"):
            continue
        if isinstance(value, np.ndarray):
            skewed = value.copy()
            skewed[0, -1] += 1.0
            wrong = [None, value[:-1], np.nan * value, value.tolist(), np.eye(7), skewed, "P"]
        elif isinstance(value, float):
            wrong = [None, np.nan, "1"] + [-np.inf] * (item.name != "optimal_rate")
        elif item.name in ("model", "method", "kind"):
            wrong = [None, "unheard of", 3]
        else:
            continue
        for other in wrong:
            assert not replace(certificate, **{item.name: other}).verify(), (item.name, other)


@pytest.mark.parametrize("name", ["global", "local", "polytope", "wide polytope"])
def test_the_mean_is_not_claimed_by_hand(found, name):
    certificate = found[name]
    assert certificate.scope == "covariance"
    assert not replace(certificate, mean_stable=True).verify()
    for words in ("statement", "scope"):
        with pytest.raises(TypeError):
            replace(certificate, **{words: "covariance and mean"})


def test_a_polytope_without_vertices_is_no_certificate(found):
    assert not replace(found["wide polytope"], vertices=()).verify()
    assert not replace(found["wide polytope"], radius=1e-9).verify()
    assert "2 vertices" in found["wide polytope"].statement
    assert "radius" not in str(found["wide polytope"])


def test_a_subspace_goes_with_its_matrix(found):
    P = found["subspace"].P
    turned = np.array([[P[1, 1], -P[0, 1]], [-P[0, 1], P[0, 0]]])
    assert not replace(found["subspace"], P=turned).verify()


def test_stored_arrays_are_copies_that_cannot_be_written(found):
    for certificate in found.values():
        for item in fields(certificate):
            value = getattr(certificate, item.name)
            if isinstance(value, np.ndarray):
                assert not value.flags.writeable
                assert value.base is None
    gram = found["region"].witness.gram
    assert not gram.flags.writeable
    skewed = gram + np.triu(np.ones_like(gram), 1)
    witness = replace(found["region"].witness, gram=skewed)
    assert not replace(found["region"], witness=witness).verify()


def test_bounds_are_written_upwards(found):
    assert at_most(1.0000010) == "1.00001"
    assert at_most(1 + 1e-15) == "1"
    assert at_most(2 / 3) == "0.666667"
    assert at_most(0.0) == "0"
    assert f"> {at_most(found['subspace'].threshold)} " in found["subspace"].statement
    growing = gct.certify_blow_up(gct.GaussianTransformer(IDENTITY, IDENTITY, IDENTITY))
    assert growing.statement.startswith("every covariance but zero escapes")
    with pytest.raises(gct.NotCertified, match="zero covariance stays zero"):
        gct.certify_blow_up(growing.model, 0 * IDENTITY)


def test_rigorous_checks_read_the_same_fields(found):
    pytest.importorskip("flint")
    certificate = found["global"]
    assert certificate.verify(rigorous=True)
    assert not replace(certificate, optimal_rate=100.0).verify(rigorous=True)
    with pytest.raises(gct.NotCertified, match="no check in ball arithmetic"):
        found["robustness"].verify(rigorous=True)


def test_growth_without_attention_is_named():
    nothing = 0 * IDENTITY
    with pytest.raises(gct.NotCertified, match="no attention, and A has an eigenvalue"):
        gct.certify_boundedness(gct.GaussianTransformer(IDENTITY, nothing, nothing))


def test_level_of_takes_one_deviation_or_many(found):
    region = found["region"]
    E = np.array([[[0.1, 0.0], [0.0, 0.2]], [[0.0, 0.1], [0.1, 0.0]]])
    assert region.level_of(E[0]) == pytest.approx(region.level_of(E)[0])
    with pytest.raises(gct.ShapeError, match="E: expected shape"):
        region.level_of(np.ones(3))
