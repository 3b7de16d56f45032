"""One call for the regime: known regimes, what is implied, order of cost, bad input."""

import numpy as np
import pytest
from problems import (
    attention_collapse,
    cubic_factor,
    lyapunov_globally_stable,
    mimetic_clean,
    no_equilibrium,
    planted_problem,
    random_model,
    two_attractors,
)

import gausscontrol as gct

UNIT = np.eye(2)
LAYERS = gct.GaussianTransformer(UNIT, UNIT, -0.5 * UNIT, dt=0.01)
UNBALANCED = gct.GaussianTransformer([[0.5, 0.3], [-0.3, 0.5]], UNIT, -0.5 * UNIT, dt=0.25)
# A saddle: the second coordinate escapes beyond 1, which no P > 0 of Theory 5.3 shows.
MIXED = gct.GaussianTransformer(
    np.diag([1.0, -1.0]),
    np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])]),
    np.array([np.diag([-1.0, 0.0]), np.diag([0.0, 1.0])]),
)


@pytest.mark.parametrize(
    ("model", "regime"),
    [
        (lyapunov_globally_stable().model, "globally stable"),
        (mimetic_clean().model, "globally stable"),
        (gct.GaussianTransformer(-UNIT, UNIT, -UNIT), "collapse"),
        (gct.GaussianTransformer(-UNIT, 0 * UNIT, UNIT), "collapse"),
        (LAYERS, "semiglobally stable"),
        (UNBALANCED, "locally stable"),
        (two_attractors()[0], "locally stable"),
        (cubic_factor().model, "blow-up"),
        (no_equilibrium().model, "blow-up"),
        (gct.GaussianTransformer(0 * UNIT, np.diag([1.0, -1.0]), UNIT), "blow-up"),
        (MIXED, "undecided"),
        (gct.GaussianTransformer(np.diag([1.0, 1.0, -1.0]), np.eye(3), -np.eye(3)), "bounded"),
        (attention_collapse().model, "collapse"),
        (gct.GaussianTransformer(np.diag([0.0, -1.0]), 0 * UNIT, UNIT), "bounded"),
        (gct.GaussianTransformer(UNIT, 0 * UNIT, UNIT), "undecided"),
        (gct.GaussianTransformer([[0, 1], [-1, 0]], 0 * UNIT, UNIT), "bounded"),
    ],
)
def test_known_regimes(model, regime):
    found = gct.classify(model)
    assert found.regime == regime
    assert (found.certificate is None) == (regime in ("singular limit", "undecided"))
    if found.certificate is not None:
        assert found.certificate.verify()
        assert found.scope == found.certificate.scope
    assert str(found).startswith(f"{regime.capitalize()}: d = {model.dim}")


@pytest.mark.parametrize("a", [-1.0, 0.5])
@pytest.mark.parametrize("v", [-1.0, 2.0])
@pytest.mark.parametrize("sdp", [True, False])
def test_scalar_models_are_classified_exactly(a, v, sdp):
    regime = "blow-up" if v > 0 else "globally stable" if a > 0 else "collapse"
    assert gct.classify(gct.GaussianTransformer(a, 1, v), sdp=sdp).regime == regime


def test_without_programmes_nothing_is_decided_that_they_would_not_confirm():
    rng = np.random.default_rng(4)
    for _ in range(5):
        model = random_model(rng, 2, 1)
        cheap, full = gct.classify(model, sdp=False), gct.classify(model)
        assert set(cheap.certificates) <= set(full.certificates) | {"locally stable", "bounded"}
        if cheap.regime == "globally stable":
            assert full.regime == cheap.regime


def test_what_a_regime_implies():
    found = gct.classify(gct.GaussianTransformer(UNIT, UNIT, -UNIT))
    assert all(map(found.satisfies, ("globally stable", "locally stable", "bounded")))
    assert not any(map(found.satisfies, ("collapse", "blow-up", "undecided")))
    assert gct.classify(gct.GaussianTransformer(-1, 1, -1)).satisfies("bounded")


def test_a_stable_point_and_what_happens_far_from_it_are_both_told():
    found = gct.classify(two_attractors()[0])
    assert found.regime == "locally stable"
    assert found.refused["globally stable"].margin < 0
    assert "not certified as globally stable" in str(found)
    assert found.equilibrium.covariance_is_stable


def test_a_flattening_escape_is_no_singular_limit():
    # One direction escapes, so that the ratio of the eigenvalues tends to zero all the same.
    model = gct.load_model("examples/data/mimetic_head_noisy.mat")
    assert gct.classify(model, sdp=False).regime == "undecided"


def test_regime_survives_coordinates_and_head_gauge():
    rng = np.random.default_rng(7)
    for seed in range(4):
        model, _ = planted_problem(rng, 2, 2, 0.5 * seed)
        regime = gct.classify(model).regime
        R = rng.standard_normal((2, 2)) + 2 * UNIT
        assert gct.classify(model.transform(R)).regime == regime
        for c in (1e-8, 1e8):
            gauged = model.replace(V=c * model.V, B=model.B / c)
            assert gct.classify(gauged).regime == regime


def test_only_models_are_classified():
    with pytest.raises(gct.ParameterError, match="GaussianTransformer, found LayerStack"):
        gct.classify(gct.LayerStack([LAYERS]))


def test_undecided_residual_layers_point_at_trajectories():
    one = np.eye(2)
    parts = {"certificates": {}, "refused": {}, "equilibria": []}
    layers = gct.GaussianTransformer(one, one, -one, dt=0.1)
    found = gct.Classification(layers, "undecided", **parts)
    assert "moment_response follows these layers" in str(found)
    assert "moment_response follows these layers" in found._repr_html_()
    for model, regime in ((layers.replace(dt=0), "undecided"), (layers, "bounded")):
        assert "moment_response" not in str(gct.Classification(model, regime, **parts))


def test_a_path_is_no_model():
    with pytest.raises(gct.ParameterError, match=r"gausscontrol\.load_model\('layer\.mat'\)"):
        gct.classify("layer.mat")
