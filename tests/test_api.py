"""The public face: names, parameters and attributes that scripts outside the project rely on.

Names may be added, with defaults; none may be renamed or go. Each table entry is one promise.
"""

import inspect

import control as ct
import numpy as np
import pytest

import gausscontrol as gct

# Parameters in their order; after "*" by keyword only, "=" with a default, "**" any keyword.
SIGNATURES = {
    # Parameters
    "GaussianTransformer": "A B V b= * k= dt= name=",
    "GaussianTransformer.from_weights": (
        "W_Q W_K W_V W_O * b_Q= b_V= b_O= A= b= scale= n_heads= dt="
    ),
    "GaussianTransformer.attention": "self S",
    "GaussianTransformer.drift": "self S",
    "GaussianTransformer.transform": "self R",
    "GaussianTransformer.reversed": "self",
    "GaussianTransformer.whiten": "self Sigma",
    "GaussianTransformer.replace": "self **",
    "load_model": "path",
    "save_model": "path model",
    "LayerStack": "models durations=",
    # Systems
    "moment_system": "model * inputs= outputs= form= rank= name= **",
    "covariance_label": "n d",
    "MomentSystem.input_vector": "self **",
    "MomentSystem.linearize": "self x0 u0= t= params= eps= copy_names= **",
    "pack": "mean covariance",
    "unpack": "x",
    "vech": "matrix",
    "unvech": "vector",
    # Responses
    "moment_response": "system timepts initial inputs= * method= rtol= atol= params= transition=",
    # Equilibria
    "find_equilibria": "model * rank= starts= seed=",
    "find_equilibrium": "model guess=",
    "Equilibrium.operating_point": "self system",
    "existence_bounds": "model",
    "place_mean": "model equilibrium mean",
    # Analysis
    "analyze": "model equilibrium= * inputs= outputs=",
    "EquilibriumAnalysis.sensitivity": "self parameter",
    "lyapunov": "A Q * method=",
    "generalized_lyapunov": "A Q E * method=",
    "riccati": "A B Q R= * method=",
    "bernoulli": "A G * method=",
    "covariance_lqr": "model equilibrium Q R inputs=",
    # Interconnections
    "exact_linearize": "sys x0 u0= * **",
    # Certificates
    "certify_global_stability": "model equilibrium * method= degree= rigorous=",
    "certify_semiglobal_stability": "model equilibrium Sigma0",
    "certify_local_stability": "model equilibrium * vertices= lyapunov_matrix=",
    "robustness_radius": "model equilibrium",
    "certify_region_of_attraction": "model equilibrium * method=",
    "certify_boundedness": "model",
    "certify_collapse": "model",
    "certify_blow_up": "model Sigma0=",
    "classify": "model * sdp=",
    "GlobalStability.lyapunov_function": "self Sigma",
    "RegionOfAttraction.contains": "self Sigma",
    "BlowUp.time_bound": "self Sigma0",
    "Certificate.verify": "self rigorous=",
    # Design
    "design": "target * A= B= V= free= decay_rate= mean_decay_rate= norm_bound= n_heads= dt= "
    "constraints= objective= initial= solver= verbose=",
    # Steering
    "steer": "start goal duration * actuators= model= rank=",
    "SteeringPlan.parameters": "self t",
    "SteeringPlan.inputs": "self timepts",
    "SteeringPlan.mean": "self t",
    "SteeringPlan.covariance": "self t",
    "SteeringPlan.response": "self timepts",
    "SteeringPlan.layers": "self n kind=",
    "is_reachable": "start goal",
    "bures_wasserstein": "P Q",
    "optimal_transport_map": "S0 S1",
}

DEFAULTS = {
    "GaussianTransformer": {"b": None, "k": None, "dt": 0, "name": None},
    "GaussianTransformer.from_weights": {"A": None, "scale": None, "dt": 0},
    "moment_system": {"inputs": ("b",), "outputs": None, "form": "covariance", "rank": None},
    "moment_response": {"inputs": 0, "method": "auto", "rtol": 1e-8, "atol": None, "params": None},
    "find_equilibria": {"rank": None, "starts": None, "seed": 0},
    "find_equilibrium": {"guess": None},
    "analyze": {"equilibrium": None, "inputs": ("b",), "outputs": None},
    "lyapunov": {"method": "slycot"},
    "covariance_lqr": {"inputs": ("A",)},
    "certify_global_stability": {"method": "auto", "degree": None, "rigorous": False},
    "certify_region_of_attraction": {"method": "auto"},
    "classify": {"sdp": True},
    "design": {"free": ("V",), "dt": 0, "n_heads": None},
    "SteeringPlan.layers": {"kind": "residual"},
}

MODEL = ("A", "B", "V", "b", "k", "dt", "name", "dim", "n_heads")
STACK = ("models", "durations", "boundaries", "dim", "depth")
SYSTEM = ("model", "form", "channels", "rank", "dim")
RESPONSE = (
    "mean", "covariance", "factor", "rank", "transition", "method", "blow_up_time", "blow_up_error",
)  # fmt: skip
EQUILIBRIUM = (
    "mean", "covariance", "rank", "residual", "existence_radius", "method", "covariance_is_stable",
    "mean_is_stable", "is_stable", "covariance_abscissa", "mean_abscissa", "leaf_is_stable",
    "transverse_abscissa", "is_isolated",
)  # fmt: skip
ANALYSIS = (
    "system", "poles", "abscissa", "covariance_abscissa", "mean_abscissa", "damping",
    "time_constants", "lyapunov", "stability_radius", "hinf_norm", "h2_norm",
    "controllability_gramian", "observability_gramian", "hankel_singular_values",
    "attention_form_margin",
)  # fmt: skip
SOLUTION = ("solution", "residual", "separation", "backend")

ERRORS = {
    "GausscontrolError": Exception,
    "ShapeError": ValueError,
    "ParameterError": ValueError,
    "EquilibriumNotFound": gct.GausscontrolError,
    "NotCertified": gct.GausscontrolError,
    "InfeasibleDesign": gct.GausscontrolError,
    "UnreachableError": ValueError,
    "MatrixEquationError": gct.GausscontrolError,
    "BlowUpWarning": UserWarning,
}


def look_up(name):
    thing = gct
    for part in name.split("."):
        static = inspect.isclass(thing)
        thing = inspect.getattr_static(thing, part) if static else getattr(thing, part)
    return thing.__func__ if isinstance(thing, classmethod) else thing


def parameters(name):
    found = dict(inspect.signature(look_up(name)).parameters)
    found.pop("cls", None)
    return found


def promised(text):
    """Return the names that may be given by position, and those by keyword only."""
    names = text.split()
    stop = names.index("*") if "*" in names else len(names)
    return [[n for n in part if n.strip("*")] for part in (names[:stop], names[stop:])]


@pytest.fixture(name="model", scope="module")
def _model():
    return gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2), name="layer")


@pytest.fixture(name="equilibrium", scope="module")
def _equilibrium(model):
    return gct.find_equilibrium(model)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    found = parameters(name)
    positional, keywords = promised(SIGNATURES[name])
    by_position = [key for key, p in found.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    wanted = [key.rstrip("=") for key in positional]
    assert by_position[: len(wanted)] == wanted
    for key in keywords:
        assert found[key.rstrip("=")].kind is inspect.Parameter.KEYWORD_ONLY, key
    for key in positional + keywords:
        has_default = found[key.rstrip("=")].default is not inspect.Parameter.empty
        assert has_default == key.endswith("="), key
    any_keyword = {key for key, p in found.items() if p.kind is p.VAR_KEYWORD}
    assert bool(any_keyword) == ("**" in SIGNATURES[name].split())
    added = set(found) - any_keyword - {key.rstrip("=") for key in positional + keywords}
    for key in added:  # what is added must not be required
        assert found[key].default is not inspect.Parameter.empty, key


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    found = parameters(name)
    assert {key: found[key].default for key in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("attribute", MODEL)
def test_model_has(model, attribute):
    assert hasattr(model, attribute)


def test_model_shapes_are_those_promised(model):
    assert model.B.shape == model.V.shape == (1, 2, 2)
    assert (model.A.shape, model.b.shape, model.k.shape) == ((2, 2), (2,), (1, 2))
    assert (model.dt, model.name, model.dim, model.n_heads) == (0, "layer", 2, 1)
    assert model == model.replace()
    assert "d = 2" in repr(model)
    assert gct.GaussianTransformer(0.5, 1, -0.25).A.shape == (1, 1)


@pytest.mark.parametrize("attribute", STACK)
def test_stack_has(model, attribute):
    stack = gct.LayerStack([model, model.replace(dt=0.1)], [1.0, 0.1])
    assert hasattr(stack, attribute)
    assert (len(stack), stack[0], list(stack)[1].dt) == (2, model, 0.1)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".json"])
def test_files_hold_models_and_stacks(model, tmp_path, suffix):
    for i, thing in enumerate((model, gct.LayerStack([model], [1.0]))):
        gct.save_model(tmp_path / f"{i}{suffix}", thing)
        assert gct.load_model(tmp_path / f"{i}{suffix}") == thing


@pytest.mark.parametrize("attribute", SYSTEM)
def test_system_has(model, attribute):
    assert hasattr(gct.moment_system(model), attribute)


def test_system_signals_are_those_promised(model):
    system = gct.moment_system(model, inputs=("b", "A", "V", "B", "k"), name="s")
    assert isinstance(system, gct.MomentSystem)
    assert isinstance(system, ct.NonlinearIOSystem)
    moments = ["mu[0]", "mu[1]", "Sigma[0]", "Sigma[1]", "Sigma[2]"]
    assert system.state_labels == system.output_labels == moments
    sizes = {"b": 2, "A": 4, "V": 4, "B": 4, "k": 2}
    assert system.input_labels == [
        f"{key}[{n}]" for key, size in sizes.items() for n in range(size)
    ]
    in_factor_form = gct.moment_system(model, form="factor", rank=1, outputs="Sigma")
    assert in_factor_form.state_labels == ["mu[0]", "mu[1]", "L[0]", "L[1]"]
    assert in_factor_form.output_labels == moments[2:]
    x = gct.pack([1.0, 2.0], np.eye(2))
    np.testing.assert_array_equal(x[2:], gct.vech(gct.unvech(x[2:])))
    np.testing.assert_array_equal(gct.unpack(x)[1], np.eye(2))


@pytest.mark.parametrize("attribute", RESPONSE)
def test_response_has(model, attribute):
    response = gct.moment_response(model, [0, 1, 2], (np.zeros(2), np.eye(2)), transition=True)
    assert isinstance(response, gct.MomentResponse)
    assert isinstance(response, ct.TimeResponseData)
    shapes = {"mean": (2, 3), "covariance": (2, 2, 3), "factor": (2, 2, 3), "transition": (2, 2, 3)}
    value = getattr(response, attribute)
    assert attribute not in shapes or value.shape == shapes[attribute]


def test_response_methods_are_those_promised(model):
    for method in ("closed-form", "factor", "covariance"):
        start = (np.zeros(2), np.eye(2))
        assert gct.moment_response(model, [0, 1], start, method=method).method == method


@pytest.mark.parametrize("attribute", EQUILIBRIUM)
def test_equilibrium_has(equilibrium, attribute):
    assert hasattr(equilibrium, attribute)


def test_equilibria_of_every_rank_say_how_they_were_found(model):
    found = gct.find_equilibria(model)
    assert all(isinstance(each, gct.Equilibrium) for each in found)
    methods = {each.rank: each.method for each in found}
    assert methods == {2: "lyapunov", 1: "pencil", 0: "zero"}
    assert found[0].transverse_abscissa is None
    assert all(each.transverse_abscissa > 0 for each in found[1:])


def test_equilibrium_is_an_operating_point(model, equilibrium):
    point = equilibrium.operating_point(gct.moment_system(model))
    assert isinstance(point, ct.OperatingPoint)
    with pytest.raises(gct.ParameterError, match="factor form"):
        equilibrium.operating_point(gct.moment_system(model, form="factor"))


def test_bounds_and_means_are_those_promised(model, equilibrium):
    lower, upper = gct.existence_bounds(model)
    np.testing.assert_allclose(lower, equilibrium.covariance)
    np.testing.assert_allclose(upper, equilibrium.covariance)
    assert gct.existence_bounds(model.reversed()) is None
    for where in (equilibrium, equilibrium.covariance):
        placed = gct.place_mean(model, where, [1.0, 2.0])
        np.testing.assert_allclose(gct.find_equilibrium(placed).mean, [1.0, 2.0])


@pytest.mark.parametrize("attribute", ANALYSIS)
def test_analysis_has(model, equilibrium, attribute):
    assert getattr(gct.analyze(model, equilibrium), attribute) is not None


def test_analysis_types_are_those_promised(model, equilibrium):
    analysis = gct.analyze(model, equilibrium)
    assert isinstance(analysis, gct.EquilibriumAnalysis)
    assert isinstance(analysis.system, ct.StateSpace)
    assert analysis.damping.shape == (5, 3)
    assert analysis.lyapunov.margin > 0
    assert analysis.sensitivity("A").shape == (2, 2, 2, 2)
    assert "per unit depth" in str(analysis)


@pytest.mark.parametrize("method", ["slycot", "scipy"])
def test_matrix_equations_return_what_is_promised(method):
    A, Q = np.diag([-1.0, -2.0]), np.eye(2)
    results = {
        "lyapunov": gct.lyapunov(A, Q, method=method),
        "generalized_lyapunov": gct.generalized_lyapunov(A, Q, np.eye(2), method=method),
        "riccati": gct.riccati(A, np.eye(2), Q, np.eye(2), method=method),
        "bernoulli": gct.bernoulli(-A, -Q, method=method),
    }
    for name, result in results.items():
        assert all(hasattr(result, attribute) for attribute in SOLUTION), name
        assert (result.residual < 1e-12, result.backend) == (True, method), name
        with pytest.raises(AttributeError):
            result.solution = None
    assert results["riccati"].poles.shape == (2,)
    assert results["riccati"].gain.shape == (2, 2)


def test_covariance_lqr_returns_gain_solution_and_eigenvalues(model, equilibrium):
    K, S, E = gct.covariance_lqr(model, equilibrium, np.eye(3), np.eye(4))
    assert (K.shape, S.shape, E.shape) == ((4, 3), (3, 3), (3,))


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    assert issubclass(getattr(gct, name), ERRORS[name])
    assert name == "BlowUpWarning" or issubclass(getattr(gct, name), gct.GausscontrolError)
