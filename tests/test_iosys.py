"""The moment system inside python-control: signals, parameters, exact linearisation, algebra."""

import copy
import itertools
import pickle

import control as ct
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import complex_step_jacobian, plain_rates, random_model

import gausscontrol as gct
from gausscontrol.systems.arguments import INPUTS

few = settings(derandomize=True, deadline=None, max_examples=20)
forms = pytest.mark.parametrize("form", ["covariance", "factor"])


@pytest.fixture
def model():
    return random_model(np.random.default_rng(1), 2, 2, tilted=True).replace(name="layer")


def draw(seed, form, dt=0.0, heads=2, dim=3, rank=2):
    rng = np.random.default_rng(seed)
    system = gct.moment_system(
        random_model(rng, dim, heads, dt, tilted=True),
        inputs=INPUTS,
        form=form,
        rank=rank if form == "factor" else None,
    )
    x = rng.standard_normal(system.nstates)
    return system, x, 0.3 * rng.standard_normal(system.ninputs)


def settled(dim=2, **changes):
    """Return a model whose equilibrium is I, attracting, with a stable mean."""
    identity = np.eye(dim)
    return gct.GaussianTransformer(0.5 * identity, identity, -0.5 * identity).replace(**changes)


# -- signals --------------------------------------------------------------------------------------


def test_labels(model):
    system = gct.moment_system(model, inputs=("V", "b"))
    assert system.name == "layer"
    assert system.state_labels == ["mu[0]", "mu[1]", "Sigma[0]", "Sigma[1]", "Sigma[2]"]
    assert system.output_labels == system.state_labels
    assert system.input_labels == [f"V[{n}]" for n in range(8)] + ["b[0]", "b[1]"]
    factor = gct.moment_system(model, form="factor", rank=1)
    assert factor.state_labels == ["mu[0]", "mu[1]", "L[0]", "L[1]"]
    assert factor.output_labels == system.output_labels


def test_names_and_prefixes(model):
    system = gct.moment_system(
        model, name="second", input_prefix="in_", output_prefix="out_", state_prefix="x_"
    )
    assert system.name == "second"
    assert system.input_labels == ["in_b[0]", "in_b[1]"]
    assert system.output_labels[-1] == "out_Sigma[2]"
    assert system.state_labels[0] == "x_mu[0]"
    system.update_names(name="third", inputs=["p", "q"])
    assert (system.name, system.input_labels) == ("third", ["p", "q"])


def test_dot_in_the_model_name(model):
    assert gct.moment_system(model.replace(name="encoder.3")).name == "encoder_3"
    with pytest.raises(ValueError, match="not allowed"):
        gct.moment_system(model, name="encoder.3")


@pytest.mark.parametrize("inputs", list(itertools.permutations(INPUTS, 2)))
def test_input_order_is_that_of_inputs(model, inputs):
    system = gct.moment_system(model, inputs=inputs)
    rng = np.random.default_rng(5)
    offsets = {key: rng.standard_normal(getattr(model, key).shape) for key in inputs}
    u = system.input_vector(**dict(reversed(offsets.items())))
    assert np.array_equal(u, np.concatenate([offsets[key].reshape(-1) for key in inputs]))
    x = rng.standard_normal(5)
    changed = model.replace(**{key: getattr(model, key) + offsets[key] for key in inputs})
    mean, S = gct.unpack(x)
    expected = gct.pack(*plain_rates(changed, mean, S))
    assert np.allclose(system.dynamics(0, x, u), expected, rtol=1e-12)


def test_no_inputs(model):
    system = gct.moment_system(model, inputs=())
    assert system.ninputs == 0
    linear = ct.linearize(system, np.ones(5))
    assert linear.B.shape == (5, 0)
    assert system.input_vector().size == 0


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("inputs", "c"),
        ("inputs", ("b", "b")),
        ("inputs", 2),
        ("inputs", None),
        ("outputs", ("mu", "L")),
        ("outputs", ()),
        ("form", "vech"),
        ("rank", 1),
    ],
)
def test_wrong_selection(model, argument, value):
    with pytest.raises(gct.ParameterError, match=f"^{argument}: "):
        gct.moment_system(model, **{argument: value})


@pytest.mark.parametrize("rank", [0, 3, 1.0, True])
def test_wrong_rank(model, rank):
    with pytest.raises(gct.ParameterError, match="rank: expected a whole number from 1 to 2"):
        gct.moment_system(model, form="factor", rank=rank)


def test_wrong_keywords(model):
    told = "^unrecognized keyword: {}; expected inputs, outputs, form, .*, repr_format$"
    for keywords, named in (
        ({"colour": "red"}, "colour"),
        ({"states": 3}, "states"),
        ({"input": "u"}, "input"),
        ({"foo": 1, "rank": 1, "bar": 2}, "foo, bar"),
    ):
        with pytest.raises(TypeError, match=told.format(named)):
            gct.moment_system(model, **keywords)
    assert gct.moment_system(model, repr_format="info").repr_format == "info"
    with pytest.raises(gct.ParameterError, match="dt: expected the model's own"):
        gct.moment_system(model, dt=0.1)
    with pytest.raises(gct.ParameterError, match="model: expected a GaussianTransformer"):
        gct.moment_system(ct.rss(2))
    assert gct.moment_system(model.replace(dt=0.5), dt=0.5).dt == 0.5


# -- outputs and states ---------------------------------------------------------------------------


@forms
def test_outputs_selection(model, form):
    whole = gct.moment_system(model, form=form)
    x = np.random.default_rng(0).standard_normal(whole.nstates)
    y = whole.output(0, x, np.zeros(2))
    mean, S = gct.unpack(y)
    if form == "factor":
        L = x[2:].reshape(2, 2)
        assert np.allclose(S, L @ L.T)
    for outputs, expected in (
        ("mu", mean),
        ("Sigma", gct.vech(S)),
        (("Sigma", "mu"), np.concatenate([gct.vech(S), mean])),
    ):
        system = gct.moment_system(model, form=form, outputs=outputs)
        assert np.array_equal(system.output(0, x, np.zeros(2)), expected)
    assert whole.output(0, x, np.zeros(2)) is not x


def test_right_side_accepts_indefinite_covariances(model):
    mean, S = np.ones(2), np.diag([1.0, -1.0])
    rates = gct.moment_system(model).dynamics(0, gct.pack(mean, S), np.zeros(2))
    assert np.allclose(rates, gct.pack(*plain_rates(model, mean, S)), rtol=1e-13)


def test_state_vector_and_moments(model):
    mean, S = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [2.0, 4.0]])
    packed = gct.pack(mean, S)
    assert np.array_equal(gct.moment_system(model).state_vector(mean, S), packed)
    for rank in (1, 2):
        system = gct.moment_system(model, form="factor", rank=rank)
        x = system.state_vector(mean, S)
        assert x.size == 2 + 2 * rank
        assert np.allclose(system.moments(x), packed, rtol=1e-14)
        assert np.allclose(system.moments(list(x)), packed, rtol=1e-14)
        assert np.allclose(system.moments(np.stack([x, x], 1)).T, packed, rtol=1e-14)
    with pytest.raises(gct.ParameterError, match="covariance: expected rank at most 1, found 2"):
        gct.moment_system(model, form="factor", rank=1).state_vector(mean, np.eye(2))


def test_factor_form_moves_the_covariance_as_the_covariance_form_does(model):
    rng = np.random.default_rng(3)
    system = gct.moment_system(model, form="factor")
    x = rng.standard_normal(6)
    rate = system.dynamics(0, x, np.zeros(2))
    L, dL = x[2:].reshape(2, 2), rate[2:].reshape(2, 2)
    expected = gct.moment_system(model).dynamics(0, system.moments(x), np.zeros(2))
    assert np.allclose(gct.pack(rate[:2], dL @ L.T + L @ dL.T), expected, rtol=1e-12)


# -- parameters -----------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("key", INPUTS)
def test_params_override(model, form, key):
    rng = np.random.default_rng(7)
    value = rng.standard_normal(getattr(model, key).shape)
    system = gct.moment_system(model, form=form)
    expected = gct.moment_system(model.replace(**{key: value}), form=form)
    x, u, params = rng.standard_normal(system.nstates), rng.standard_normal(2), {key: value}
    before = system.dynamics(0, x, u)
    assert np.array_equal(system.dynamics(0, x, u, params), expected.dynamics(0, x, u))
    assert np.array_equal(system.updfcn(0, x, u, params), expected.dynamics(0, x, u))
    assert np.array_equal(system.output(0, x, u, params), expected.output(0, x, u))
    assert np.array_equal(
        ct.linearize(system, x, u, params=params).A, ct.linearize(expected, x, u).A
    )
    given = gct.moment_system(model, form=form, params=params)
    assert np.array_equal(given.dynamics(0, x, u), expected.dynamics(0, x, u))
    assert given.model == expected.model
    assert not np.array_equal(before, system.dynamics(0, x, u, params))
    assert np.array_equal(system.dynamics(0, x, u), before)  # nothing stays behind


def test_params_in_input_output_response():
    system = gct.moment_system(settled())
    t, x = np.linspace(0, 1, 5), gct.pack([1.0, 0.0], 2 * np.eye(2))
    params = {"A": np.diag([0.1, 0.2])}
    options = {"solve_ivp_kwargs": {"rtol": 1e-9, "atol": 1e-11}}
    got = ct.input_output_response(system, t, 0, x, params=params, **options)
    expected = gct.moment_response(system, t, x, params=params)
    assert np.allclose(got.states, expected.states, rtol=1e-7)
    nominal = ct.input_output_response(system, t, 0, x, **options)
    assert not np.allclose(nominal.states, got.states, rtol=1e-2)


def test_responses_and_linearisations_leave_the_system_alone():
    system = gct.moment_system(settled())
    x, params = gct.pack([1.0, 0.0], 2 * np.eye(2)), {"A": -np.eye(2)}
    before = system._rhs(0, x, np.zeros(2))
    gct.moment_response(system, [0, 1], x, params=params)
    system.linearize(x, params=params)
    assert np.array_equal(system._rhs(0, x, np.zeros(2)), before)


def test_bad_params(model):
    with pytest.raises(gct.ParameterError, match="params: expected keys among b, A, V, B, k"):
        gct.moment_system(model, params={"Q": 1})
    with pytest.raises(gct.ParameterError, match="params: expected a dict"):
        gct.moment_system(model, params=[1])
    with pytest.raises(gct.ShapeError, match=r"params: expected A of shape \(2, 2\)"):
        gct.moment_system(model, params={"A": np.eye(3)})
    with pytest.raises(gct.ShapeError, match="params: expected V of shape"):
        gct.moment_system(model).dynamics(0, np.ones(5), np.zeros(2), {"V": np.eye(2)})
    with pytest.raises(gct.ParameterError, match="A: expected finite"):
        gct.moment_system(model).dynamics(
            0, np.ones(5), np.zeros(2), {"A": np.full((2, 2), np.nan)}
        )


def test_foreign_params_are_left_alone(model):
    system = gct.moment_system(model)
    x, u = np.ones(5), np.zeros(2)
    assert np.array_equal(system.dynamics(0, x, u, {"gain": 3}), system.dynamics(0, x, u))


def test_interconnected_layers_keep_their_own_parameters():
    A = np.diag([0.1, 0.2])
    one = gct.moment_system(settled(), name="one", params={"A": A})
    two = gct.moment_system(settled(), name="two")
    x = gct.pack([1.0, 2.0], 2 * np.eye(2))
    both = ct.interconnect(
        [one, two],
        inplist=["one.b", "two.b"],
        outlist=["one.mu", "two.mu"],
        ignore_outputs=["one.Sigma", "two.Sigma"],
    )
    expected = [one.dynamics(0, x, np.zeros(2)), two.dynamics(0, x, np.zeros(2))]
    assert np.array_equal(both.dynamics(0, [*x, *x], np.zeros(4)), np.concatenate(expected))
    # An explicit override is for every system, as everywhere in python-control.
    shared = both.dynamics(0, [*x, *x], np.zeros(4), {"A": A})
    assert np.array_equal(shared, np.tile(expected[0], 2))


# -- linearisation --------------------------------------------------------------------------------


@few
@given(
    seed=st.integers(0, 10**6),
    form=st.sampled_from(["covariance", "factor"]),
    dt=st.sampled_from([0.0, 0.2]),
    heads=st.integers(1, 3),
)
def test_linearize_is_the_complex_step(seed, form, dt, heads):
    system, x, u = draw(seed, form, dt, heads)
    linear = ct.linearize(system, x, u)
    for got, function, point in (
        (linear.A, lambda z: system._rhs(0, z, u), x),
        (linear.B, lambda z: system._rhs(0, x, z), u),
        (linear.C, lambda z: system._out(0, z, u), x),
    ):
        exact = complex_step_jacobian(function, point)
        assert np.abs(got - exact).max() <= 1e-13 * max(np.abs(exact).max(), 1)
    assert not linear.D.any()
    assert linear.dt == dt


@forms
@pytest.mark.parametrize("outputs", ["mu", ("Sigma", "mu")])
def test_linearize_selected_outputs(model, form, outputs):
    system = gct.moment_system(model, form=form, outputs=outputs)
    x = np.random.default_rng(2).standard_normal(system.nstates)
    exact = complex_step_jacobian(lambda z: system._out(0, z, np.zeros(2)), x)
    assert np.allclose(ct.linearize(system, x).C, exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("form", ["covariance", "factor"])
def test_linearize_agrees_with_python_control(form):
    system, x, u = draw(4, form)
    differenced = ct.NonlinearIOSystem.linearize(system, x, u)
    exact = ct.linearize(system, x, u)
    for name in "ABCD":
        assert np.allclose(getattr(exact, name), getattr(differenced, name), atol=1e-4)


def test_collapse_where_finite_differences_have_the_wrong_sign():
    V, s = np.array([[1.0, -4.0], [4.0, -3.0]]), 1e-7
    system = gct.moment_system(gct.GaussianTransformer(-s * V, np.eye(2), V))
    x = gct.pack([0.0, 0.0], s * np.eye(2))

    def abscissa(linear):
        return np.linalg.eigvals(linear.A[2:, 2:]).real.max()

    assert np.isclose(abscissa(ct.linearize(system, x)), -2.0e-7, rtol=1e-6)
    differenced = ct.NonlinearIOSystem.linearize(system, x)
    assert np.isclose(abscissa(differenced), 4.3e-6, rtol=0.05)


def test_linearize_names(model):
    system = gct.moment_system(model)
    linear = ct.linearize(system, np.ones(5), copy_names=True)
    assert linear.state_labels == system.state_labels
    assert linear.input_labels == system.input_labels
    assert "layer" in linear.name
    renamed = ct.linearize(system, np.ones(5), name="flat", inputs=["p", "q"])
    assert (renamed.name, renamed.input_labels) == ("flat", ["p", "q"])
    with pytest.raises(TypeError, match="unrecognized"):
        ct.linearize(system, np.ones(5), colour="red")


def test_linearize_at_an_operating_point():
    system = gct.moment_system(settled(b=[1.0, -1.0]), inputs=("b", "A"))
    x = gct.pack([2.0, -2.0], np.eye(2))
    u = system.input_vector(b=[0.1, 0.2], A=np.full((2, 2), 0.05))
    point = ct.OperatingPoint(x, u)
    assert np.array_equal(ct.linearize(system, point).A, ct.linearize(system, x, u).A)
    assert np.array_equal(system.linearize(point, 0).A, ct.linearize(system, x).A)
    with pytest.raises(gct.ParameterError, match="operating point with states, found none"):
        ct.linearize(system, ct.OperatingPoint(None, None))


def test_linearize_reads_vectors(model):
    system = gct.moment_system(model)
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    expected = ct.linearize(system, x).A
    for same in (list(x), x[:, None], ([1, 2], [3, 4, 5]), [np.array([1, 2]), 3, 4, 5]):
        assert np.array_equal(ct.linearize(system, same).A, expected)
    assert np.array_equal(ct.linearize(system, 1).A, ct.linearize(system, np.ones(5)).A)
    for wrong in (x[:3], np.zeros(4), np.ones(6)):
        with pytest.raises(gct.ShapeError, match="x0: expected 5 entries"):
            ct.linearize(system, wrong)
    with pytest.raises(gct.ShapeError, match="u0: expected 2 entries, found 3"):
        ct.linearize(system, x, np.ones(3))
    with pytest.raises(gct.ParameterError, match="x0: expected finite"):
        ct.linearize(system, [1, 2, 3, np.nan, 5])


# -- python-control at large ----------------------------------------------------------------------


@forms
def test_input_output_response(form):
    system = gct.moment_system(settled(b=[1.0, 0.0]), form=form)
    t = np.linspace(0, 30, 4)
    x = system.state_vector([0, 0], [[2, 0.5], [0.5, 1]])
    response = ct.input_output_response(
        system, t, 0, x, solve_ivp_kwargs={"rtol": 1e-8, "atol": 1e-10}
    )
    assert np.allclose(response.outputs[:, -1], gct.pack([2, 0], np.eye(2)), atol=1e-6)


def test_find_operating_point():
    system = gct.moment_system(settled(b=[1.0, 0.0]))
    point = ct.find_operating_point(system, gct.pack([1, 1], 1.2 * np.eye(2)), [0, 0])
    assert np.allclose(point.states, gct.pack([2, 0], np.eye(2)), atol=1e-6)
    assert np.linalg.eigvals(ct.linearize(system, point).A).real.max() < 0


def test_phase_plane_plot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    system = gct.moment_system(gct.GaussianTransformer(0.5, 1, -0.25))
    plot = ct.phase_plane_plot(
        system, [-1, 1, 0.5, 3], timedata=1, gridspec=[3, 3], plot_separatrices=False
    )
    assert plot.axes is not None
    plt.close("all")


def test_interconnect_by_signal_names():
    layer = gct.moment_system(settled(), name="layer", inputs=("b", "A"))
    probe = ct.ss([], [], [], np.ones((1, 3)), name="probe")
    gain = ct.ss([], [], [], -0.5 * np.eye(2), name="gain")
    loop = ct.interconnect(
        [layer, probe, gain],
        connections=[
            ["probe.u", "layer.Sigma"],
            ["gain.u", "layer.mu"],
            ["layer.b", "gain.y"],
        ],
        inplist=["layer.A"],
        outlist=["probe.y", "layer.mu"],
    )
    assert (loop.ninputs, loop.noutputs, loop.nstates) == (4, 3, 5)
    x = gct.pack([1.0, 2.0], [[2.0, 0.3], [0.3, 1.0]])
    u = np.array([0.1, 0.2, 0.3, 0.4])
    expected = layer.dynamics(0, x, np.concatenate([-0.5 * x[:2], u]))
    assert np.allclose(loop.dynamics(0, x, u), expected, rtol=1e-14)
    assert np.allclose(loop.output(0, x, u), [3.3, 1, 2])


def test_interconnect_by_equal_names():
    layer = gct.moment_system(settled(), outputs="mu", name="layer")
    source = ct.ss(
        -np.eye(2), np.eye(2), np.eye(2), 0 * np.eye(2), inputs=2, outputs=layer.input_labels
    )
    chain = ct.interconnect([layer, source], inputs=["u[0]", "u[1]"], outputs=["mu[0]", "mu[1]"])
    assert chain.nstates == 7


def test_series_and_feedback():
    layer = gct.moment_system(settled(), outputs="mu", name="layer")
    filtered = ct.ss(-np.eye(2), np.eye(2), np.eye(2), 0 * np.eye(2), name="filter")
    x = gct.pack([1.0, 2.0], 2 * np.eye(2))
    z = np.array([0.5, -0.5])
    series = layer * filtered
    got = series.dynamics(0, np.concatenate([z, x]), np.zeros(2))
    assert np.allclose(got, np.concatenate([-z, layer.dynamics(0, x, z)]))
    closed = layer.feedback(filtered)
    got = closed.dynamics(0, np.concatenate([x, z]), np.zeros(2))
    assert np.allclose(got, np.concatenate([layer.dynamics(0, x, -z), -z + x[:2]]))
    assert np.allclose((-layer).output(0, x, np.zeros(2)), -x[:2])


def test_conflicting_timebases():
    layer = gct.moment_system(settled(dt=0.1), outputs="mu")
    with pytest.raises(ValueError, match="timebase"):
        layer * ct.ss(-np.eye(2), np.eye(2), np.eye(2), 0 * np.eye(2))
    assert layer.isdtime(strict=True)


@pytest.mark.parametrize(
    "duplicate",
    [lambda s: s.copy(name="twin"), copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))],
    ids=["copy", "deepcopy", "pickle"],
)
@forms
def test_copies_are_independent(model, form, duplicate):
    system = gct.moment_system(model, form=form)
    twin = duplicate(system)
    x, u = np.ones(system.nstates), np.zeros(2)
    expected = system.dynamics(0, x, u)
    assert np.array_equal(twin.dynamics(0, x, u), expected)
    twin._update_params({"A": np.zeros((2, 2))})
    assert twin.updfcn.__self__ is twin
    assert np.array_equal(system._rhs(0, x, u), expected)
    assert not np.array_equal(twin._rhs(0, x, u), expected)


def test_the_same_system_twice_in_one_interconnection():
    layer = gct.moment_system(settled(), name="layer", outputs="mu")
    with pytest.warns(UserWarning, match="duplicate"):
        chain = layer * layer
    assert chain.nstates == 10


def test_text(model):
    text = str(gct.moment_system(model, form="factor"))
    assert "layer" in text
    assert "Form: factor" in text
    assert "2 heads" in text
