"""Files of factored models and of stacks: exact round trips, hand-made files, one-line refusals."""

import io
import json
import os
import struct
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gausscontrol.errors import GausscontrolError, ParameterError, ShapeError
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

SUFFIXES = (".npz", ".mat", ".json")
EYE = np.eye(2)
WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")
law = settings(
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def weights():
    """Arguments of from_weights with d = 4, three heads, dk = 2, dv = 5, all entries distinct."""
    rng = np.random.default_rng(11)
    return {
        "W_Q": rng.normal(size=(3, 2, 4)),
        "W_K": rng.normal(size=(3, 2, 4)),
        "W_V": rng.normal(size=(3, 5, 4)),
        "W_O": rng.normal(size=(3, 4, 5)),
        "b_Q": rng.normal(size=(3, 2)),
        "b_V": rng.normal(size=(3, 5)),
        "b_O": rng.normal(size=4),
        "A": rng.normal(size=(4, 4)),
        "b": rng.normal(size=4),
        "scale": 0.3,
        "dt": 0.1,
        "name": "block 3",
    }


def matlab(values):
    """The variables a MATLAB user would have for these arguments."""
    moved = {key: np.moveaxis(values[key], 0, -1) for key in values if key.startswith("W_")}
    columns = {key: np.transpose(values[key]) for key in ("b_Q", "b_V", "k") if key in values}
    return values | moved | columns


def store(path, values):
    """Write values by hand, in the layout of the format."""
    if path.suffix == ".mat":
        scipy.io.savemat(path, matlab(values), oned_as="column")
    elif path.suffix == ".npz":
        np.savez(path, **values)
    else:
        path.write_text(json.dumps(plain(values)))
    return path


def store_layers(path, layers, **others):
    """Write a stack by hand, in the layout of the format."""
    if path.suffix == ".mat":
        scipy.io.savemat(path, {"layers": struct_array(map(matlab, layers))} | others)
    elif path.suffix == ".npz":
        flat = {f"layers/{i}/{key}": v for i, part in enumerate(layers) for key, v in part.items()}
        np.savez(path, **flat, **others)
    else:
        path.write_text(json.dumps(plain({"layers": list(layers)} | others)))
    return path


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def struct_array(layers):
    """What layers(1).A = ...; layers(2).W_Q = ...; makes: fields that were not set are []."""
    layers = list(layers)
    names = dict.fromkeys(key for layer in layers for key in layer)
    array = np.empty((1, len(layers)), dtype=[(name, object) for name in names])
    for i, layer in enumerate(layers):
        array[0, i] = tuple(layer.get(name, np.zeros((0, 0))) for name in names)
    return array


def cell(*items):
    array = np.empty((1, len(items)), dtype=object)
    array[0, :] = items
    return array


PLACES = {".npz": "layers/{}", ".json": "layers[{}]", ".mat": "layers({})"}


def place(suffix, index):
    """The name of a layer, counted from 0, in a message about such a file."""
    return PLACES[suffix].format(index + (suffix == ".mat"))


def refusal(path, kind=ParameterError):
    with pytest.raises(kind) as caught:
        load_model(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert "; " in text
    assert isinstance(caught.value, GausscontrolError)
    return text


def bits(model):
    parts = (model.A, *model.heads.arrays, model.b, model.k)
    return [type(model.heads), *(part.tobytes() for part in parts), model.dt, model.name]


# Round trips

ENTRIES = st.floats(-1e150, 1e150)
NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def array(draw, *shape):
    return draw(arrays(float, shape, elements=ENTRIES))


@st.composite
def factored_models(draw, dim=None, dt=None):
    d, h, dk, dv = (draw(st.integers(1, 3)) for _ in range(4))
    d = dim or d
    model = GaussianTransformer.from_weights(
        array(draw, h, dk, d),
        array(draw, h, dk, d),
        array(draw, h, dv, d),
        array(draw, h, d, dv),
        A=array(draw, d, d),
        dt=draw(st.floats(0, 1e3)) if dt is None else dt,
        name=draw(NAMES),
    )
    return model.replace(b=array(draw, d), k=array(draw, h, d))


@st.composite
def dense_models(draw, dim, dt):
    h = draw(st.integers(1, 3))
    return GaussianTransformer(
        array(draw, dim, dim),
        array(draw, h, dim, dim),
        array(draw, h, dim, dim),
        array(draw, dim),
        k=array(draw, h, dim),
        dt=dt,
        name=draw(NAMES),
    )


@st.composite
def stacks(draw):
    dim = draw(st.integers(1, 3))
    durations = draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4))
    layers = [
        draw((factored_models if draw(st.booleans()) else dense_models)(dim, dt))
        for dt in (draw(st.sampled_from([0.0, duration])) for duration in durations)
    ]
    return LayerStack(layers, durations)


@pytest.mark.parametrize("suffix", SUFFIXES)
@law
@given(model=factored_models())
def test_factored_models_keep_every_bit(tmp_path, suffix, model):
    save_model(tmp_path / f"m{suffix}", model)
    loaded = load_model(tmp_path / f"m{suffix}")
    assert bits(loaded) == bits(model)
    assert type(loaded.dt) is float


@pytest.mark.parametrize("suffix", SUFFIXES)
@law
@given(stack=stacks())
def test_stacks_keep_every_bit(tmp_path, suffix, stack):
    save_model(tmp_path / f"s{suffix}", stack)
    loaded = load_model(tmp_path / f"s{suffix}")
    assert isinstance(loaded, LayerStack)
    assert [bits(layer) for layer in loaded] == [bits(layer) for layer in stack]
    assert loaded.durations.tobytes() == stack.durations.tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_factored_model_stays_factored_and_acts_the_same(tmp_path, suffix, weights):
    model = GaussianTransformer.from_weights(**weights)
    save_model(tmp_path / f"m{suffix}", model)
    loaded = load_model(tmp_path / f"m{suffix}")
    assert isinstance(loaded.heads, FactoredHeads)
    assert "V" not in model.heads.__dict__
    assert "B" not in loaded.heads.__dict__
    S = np.cov(np.random.default_rng(0).normal(size=(4, 9)))
    np.testing.assert_array_equal(loaded.attention(S), model.attention(S))
    assert loaded == model


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_model_in_other_coordinates_stays_factored(tmp_path, suffix, weights):
    R = np.random.default_rng(1).normal(size=(4, 4))
    model = GaussianTransformer.from_weights(**weights).transform(R).rescale_heads([2, -3, 0.5])
    save_model(tmp_path / f"m{suffix}", model)
    assert bits(load_model(tmp_path / f"m{suffix}")) == bits(model)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_stacks_give_equal_bytes(tmp_path, suffix, weights):
    def stack():
        layer = GaussianTransformer.from_weights(**weights)
        return LayerStack([layer, layer.replace(dt=0)], [0.1, 2])

    for name in ("one", "two"):
        save_model(tmp_path / f"{name}{suffix}", stack())
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_negative_zero_survives_where_nothing_is_added_to_it(tmp_path):
    model = GaussianTransformer.from_weights(EYE, EYE, EYE, EYE, scale=1).replace(b=[-0.0, 0.0])
    save_model(tmp_path / "m.json", model)
    assert np.signbit(load_model(tmp_path / "m.json").b).tolist() == [True, False]


# Factored models by hand


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "absent", [(), ("scale", "b_Q", "b"), ("b_V", "b_O", "name"), ("A", "dt", "b_V")]
)
def test_weights_are_the_arguments_of_from_weights(tmp_path, suffix, weights, absent):
    kept = {key: value for key, value in weights.items() if key not in absent}
    loaded = load_model(store(tmp_path / f"m{suffix}", kept))
    assert bits(loaded) == bits(GaussianTransformer.from_weights(**kept))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_tilt_may_stand_in_place_of_the_query_bias(tmp_path, suffix, weights):
    expected = GaussianTransformer.from_weights(**weights)
    del weights["b_Q"]
    weights["k"] = expected.k
    assert bits(load_model(store(tmp_path / f"m{suffix}", weights))) == bits(expected)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_tilt_and_a_query_bias_are_one_too_many(tmp_path, suffix, weights):
    text = refusal(store(tmp_path / f"m{suffix}", weights | {"k": np.ones((3, 4))}))
    assert "k: expected k or b_Q, found both; keep one, for k = scale W_K^T b_Q" in text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_head_may_be_a_matrix(tmp_path, suffix):
    one = {
        key: np.arange(6.0).reshape(shape)
        for key, shape in dict.fromkeys(WEIGHTS[:3], (2, 3)).items()
    }
    one |= {"W_O": np.arange(6.0).reshape(3, 2), "b_Q": np.array([1.0, 2.0])}
    path = tmp_path / f"m{suffix}"
    if suffix == ".mat":
        scipy.io.savemat(path, one)  # Rows and columns alike.
    else:
        store(path, one)
    assert bits(load_model(path)) == bits(GaussianTransformer.from_weights(**one))


def test_heads_lie_on_the_last_axis_in_mat(tmp_path, weights):
    model = GaussianTransformer.from_weights(**weights)
    save_model(tmp_path / "m.mat", model)
    workspace = scipy.io.loadmat(tmp_path / "m.mat")
    assert workspace["W_Q"].shape == workspace["W_K"].shape == (2, 4, 3)
    assert workspace["W_V"].shape == (5, 4, 3)
    assert workspace["W_O"].shape == (4, 5, 3)
    assert workspace["k"].shape == (4, 3)
    assert workspace["b"].shape == (4, 1)
    assert workspace["scale"].item() == 1
    assert not {"B", "V", "b_Q", "b_V", "b_O"} & set(workspace)
    np.testing.assert_array_equal(workspace["W_O"][:, :, 1], weights["W_O"][1])
    np.testing.assert_array_equal(workspace["W_Q"][:, :, 2], 0.3 * weights["W_Q"][2])


def test_nulls_are_not_given(tmp_path):
    keys = ("b_Q", "b_V", "b_O", "A", "b", "k", "scale", "name")
    values = {key: [[1, 2], [3, 4]] for key in WEIGHTS} | dict.fromkeys(keys)
    path = tmp_path / "m.json"
    path.write_text(json.dumps(values))
    W = values["W_Q"]
    assert bits(load_model(path)) == bits(GaussianTransformer.from_weights(W, W, W, W))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("key", ["B", "V"])
def test_two_sets_of_keys_are_one_too_many(tmp_path, suffix, weights, key):
    text = refusal(store(tmp_path / f"m{suffix}", weights | {key: np.eye(4)}))
    assert f"keys: expected either A, B, V or W_Q, W_K, W_V, W_O, found {key}, W_Q" in text
    assert text.endswith("; keep the one set that is meant")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_bias_of_weights_does_not_go_with_dense_heads(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    store(path, {"A": EYE, "B": EYE, "V": EYE, "b_O": np.ones(2)})
    assert "found B, V, b_O; keep the one set" in refusal(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_weights_are_named(tmp_path, suffix):
    path = store(tmp_path / f"m{suffix}", {"W_Q": EYE, "w_k": EYE, "A": EYE})
    text = refusal(path)
    assert "W_K, W_V, W_O: expected W_Q, W_K, W_V, W_O together, found W_Q, w_k, A; " in text
    assert "rename w_k to W_K" in text
    store(path, dict.fromkeys(["w_q", "w_k", "w_v", "w_o"], EYE))
    assert "rename w_q to W_Q, w_k to W_K, w_v to W_V, w_o to W_O" in refusal(path)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_unknown_keys_beside_weights(tmp_path, suffix, weights):
    text = refusal(store(tmp_path / f"m{suffix}", weights | {"b_K": np.ones((3, 2))}))
    assert "b, k, scale, dt, name, found b_K; rename or remove" in text


def test_other_variables_beside_weights_in_a_workspace(tmp_path, weights):
    path = store(tmp_path / "m.mat", weights | {"b_K": np.ones(3), "layers": 12.0, "x": "y"})
    assert bits(load_model(path)) == bits(GaussianTransformer.from_weights(**weights))
    del weights["scale"]
    store(path, weights | {"Scale": 0.5})
    with pytest.warns(UserWarning, match="scale: expected scale .* found only Scale"):
        load_model(path)


@pytest.mark.parametrize(
    ("key", "shape", "words"),
    [
        ("W_Q", (2,), "W_Q: expected shape (any, any, any), heads first, found (2,)"),
        ("W_K", (2, 4, 3), "W_K: expected shape (3, 2, 4), heads first, found (2, 4, 3)"),
        ("W_O", (3, 5, 4), "W_O: expected shape (3, 4, 5), heads first, found (3, 5, 4)"),
        ("b_Q", (2, 3), "b_Q: expected shape (3, 2), one row per head, found (2, 3)"),
        ("A", (3, 3), "A: expected a 4 x 4 matrix, found shape (3, 3)"),
        ("b", (3,), "b: expected a vector of 4 entries, found shape (3,)"),
        ("scale", (2,), "scale: expected one number, found shape (2,)"),
    ],
)
@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_shapes_of_weights_that_do_not_agree(tmp_path, suffix, weights, key, shape, words):
    path = store(tmp_path / f"m{suffix}", weights | {key: np.ones(shape)})
    assert words in refusal(path, ShapeError)


@pytest.mark.parametrize(
    ("key", "shape", "words"),
    [
        ("W_Q", (0, 0), "W_Q: expected dk x d x h, found 0 x 0; put heads on the last axis"),
        ("W_K", (3, 2, 4), "W_K: expected 2 x 4 x 3, found 3 x 2 x 4; put heads on the last"),
        ("W_V", (3, 5, 4), "W_V: expected dv x 4 x 3, found 3 x 5 x 4"),
        ("W_O", (5, 4, 3), "W_O: expected 4 x 5 x 3, found 5 x 4 x 3"),
        ("b_Q", (3, 2), "b_Q: expected 2 x 3, one column a head, found 3 x 2"),
        ("b_V", (3, 5), "b_V: expected 5 x 3, one column a head, found 3 x 5"),
        ("scale", (1, 2), "scale: expected one number, found shape (1, 2)"),
    ],
)
def test_shapes_of_weights_in_mat(tmp_path, weights, key, shape, words):
    path = tmp_path / "m.mat"
    scipy.io.savemat(path, matlab(weights) | {key: np.ones(shape)})
    assert words in refusal(path, ShapeError)


# Stacks by hand

DENSE = {"A": EYE, "B": EYE, "V": -EYE}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_layers_of_both_kinds(tmp_path, suffix, weights):
    dense = {"A": np.eye(4), "B": np.eye(4), "V": -np.eye(4), "dt": 0.5, "name": "first"}
    path = store_layers(tmp_path / f"s{suffix}", [dense, weights])
    expected = [GaussianTransformer(**dense), GaussianTransformer.from_weights(**weights)]
    loaded = load_model(path)
    assert [bits(layer) for layer in loaded] == [bits(layer) for layer in expected]
    np.testing.assert_array_equal(loaded.durations, [0.5, 0.1])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_layer_is_a_stack_too(tmp_path, suffix):
    path = store_layers(tmp_path / f"s{suffix}", [DENSE], durations=np.array([3.0]))
    assert load_model(path) == LayerStack([GaussianTransformer(**DENSE)], [3])


def test_many_layers_come_in_the_order_of_their_numbers(tmp_path):
    layers = [DENSE | {"dt": 1.0 + i} for i in range(12)]
    path = tmp_path / "s.npz"
    flat = {f"layers/{i}/{key}": v for i, part in enumerate(layers) for key, v in part.items()}
    np.savez(path, **dict(sorted(flat.items())))
    np.testing.assert_array_equal(load_model(path).durations, np.arange(1.0, 13))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_durations_are_written_where_they_say_more_than_dt(tmp_path, suffix):
    layer = GaussianTransformer(**DENSE, dt=0.5)
    path = tmp_path / f"s{suffix}"
    for stack, written in (
        (LayerStack([layer, layer]), False),
        (LayerStack([layer, layer.replace(dt=0)], [0.5, 2]), True),
        (LayerStack([layer], [np.nextafter(0.5, 1)]), True),
    ):
        save_model(path, stack)
        assert load_model(path).durations.tobytes() == stack.durations.tobytes()
        if suffix == ".mat":
            names = set(scipy.io.loadmat(path))
        else:
            names = set(np.load(path) if suffix == ".npz" else json.loads(path.read_text()))
        assert ("durations" in names) == written


def test_a_struct_array_is_written_as_matlab_would(tmp_path, weights):
    dense = GaussianTransformer(np.eye(4), np.eye(4), -np.eye(4), dt=1)
    save_model(tmp_path / "s.mat", LayerStack([dense, GaussianTransformer.from_weights(**weights)]))
    layers = scipy.io.loadmat(tmp_path / "s.mat")["layers"]
    assert layers.shape == (1, 2)
    assert layers["A"][0, 1].shape == (4, 4)
    assert layers["W_Q"][0, 1].shape == (2, 4, 3)
    assert layers["W_Q"][0, 0].shape == (0, 0)
    assert layers["name"][0, 1].tolist() == ["block 3"]


@pytest.mark.parametrize("shape", [(1, 2), (2, 1)])
def test_rows_and_columns_of_structs_and_of_cells(tmp_path, shape):
    expected = LayerStack([GaussianTransformer(**DENSE)] * 2, [1, 2])
    structs = struct_array([DENSE, DENSE | {"k": np.zeros((2, 1))}]).reshape(shape)
    cells = cell(DENSE, DENSE | {"dt": 0.0}).reshape(shape)
    for layers in (structs, cells):
        for oned_as in ("row", "column"):
            variables = {"layers": layers, "durations": np.array([1.0, 2.0])}
            scipy.io.savemat(tmp_path / "s.mat", variables, oned_as=oned_as)
            assert load_model(tmp_path / "s.mat") == expected
    scipy.io.savemat(tmp_path / "s.mat", {"layers": cell(DENSE), "durations": 3})
    assert load_model(tmp_path / "s.mat") == LayerStack([GaussianTransformer(**DENSE)], [3])


def test_other_variables_beside_a_stack(tmp_path):
    path = store_layers(tmp_path / "s.mat", [DENSE], durations=1, A=EYE, i=3, note="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load_model(path)) == 1
    path = store_layers(tmp_path / "s.mat", [DENSE | {"dt": 1.0}], Durations=1)
    with pytest.warns(UserWarning, match="durations: expected .* found only Durations"):
        load_model(path)


def test_sparse_and_integer_fields(tmp_path):
    layer = {"A": scipy.sparse.csc_array(EYE), "B": EYE.astype("int8"), "V": -EYE, "dt": 1}
    path = store_layers(tmp_path / "s.mat", [layer])
    assert load_model(path)[0] == GaussianTransformer(**DENSE, dt=1)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("layer", "kind", "words"),
    [
        ({"B": np.ones((3, 3))}, ShapeError, "B: expected "),
        ({"A": EYE * np.nan}, ParameterError, "A: expected finite numbers, found 4 NaN"),
        ({"dt": -1.0}, ParameterError, "dt: expected 0 or a positive number, found -1"),
        ({"K": EYE}, ParameterError, "keys: expected only A, B, V, b, k, dt, name, found K; "),
        ({"W_O": EYE}, ParameterError, "keys: expected either A, B, V or W_Q, W_K, W_V, W_O"),
        ({"name": 3.0}, ParameterError, "name: expected one row of text"),
    ],
)
def test_a_fault_in_a_layer_says_which(tmp_path, suffix, layer, kind, words):
    path = store_layers(tmp_path / f"s{suffix}", [DENSE, DENSE | layer], durations=np.ones(2))
    assert f"{path}: {place(suffix, 1)}: {words}" in refusal(path, kind)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_key_of_a_layer(tmp_path, suffix):
    path = store_layers(tmp_path / f"s{suffix}", [DENSE, {"A": EYE}], durations=np.ones(2))
    text = refusal(path)
    assert f"{place(suffix, 1)}: B, V: expected A, B, V together, found A; " in text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_layers_of_different_dimensions(tmp_path, suffix):
    small = dict.fromkeys("ABV", 1.0)
    path = store_layers(tmp_path / f"s{suffix}", [DENSE, small], durations=np.ones(2))
    words = f"{place(suffix, 1)}: A: expected d = 2 as in the first layer, found 1; "
    assert words in refusal(path, ShapeError)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("durations", "kind", "words"),
    [
        (None, ParameterError, "durations: expected one for each layer since {} has dt = 0"),
        (np.ones(3), ShapeError, "durations: expected a vector of 2 entries, found shape "),
        (np.array([0.5, 0.0]), ParameterError, "durations: expected positive depths, found 0"),
        (np.array([0.7, 1.0]), ParameterError, "durations: expected 0.5, the dt of residual"),
    ],
)
def test_durations_that_do_not_agree(tmp_path, suffix, durations, kind, words):
    others = {} if durations is None else {"durations": durations}
    path = store_layers(tmp_path / f"s{suffix}", [DENSE | {"dt": 0.5}, DENSE], **others)
    assert words.format(place(suffix, 1)) in refusal(path, kind)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("key", ["B", "W_Q"])
def test_a_stack_beside_a_single_model(tmp_path, suffix, key):
    path = store_layers(tmp_path / f"s{suffix}", [DENSE], durations=np.ones(1), **{key: EYE})
    text = refusal(path)
    assert f"keys: expected only layers, durations, found {key} beside them; " in text


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_unknown_keys_beside_a_stack(tmp_path, suffix):
    path = store_layers(tmp_path / f"s{suffix}", [DENSE], depths=np.ones(1))
    assert "keys: expected only layers, durations, found depths; " in refusal(path)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (3.0, "layers: expected one model for each layer, found a variable of MATLAB class double"),
        (cell(DENSE, EYE), "found a cell with other things than structs; put one struct in each"),
        (cell("relu"), "found a cell with other things than structs"),
        (struct_array([DENSE] * 4).reshape(2, 2), "found a 2 x 2 struct array; make it 1 x n"),
        (cell(*[DENSE] * 4).reshape(2, 2), "found a 2 x 2 cell array; make it 1 x n"),
        (struct_array([DENSE])[:, :0], "layers: expected at least one layer, found none"),
        (cell(), "layers: expected at least one layer, found none"),
    ],
)
def test_mat_variables_that_are_no_layers(tmp_path, layers, words):
    scipy.io.savemat(tmp_path / "s.mat", {"layers": layers, "durations": 1})
    assert words in refusal(tmp_path / "s.mat")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("A", EYE == 1, "found a variable of MATLAB class logical; store double(A)"),
        ("B", EYE * 1j, "B: expected real numbers, found complex numbers; store real(B)"),
        ("B", scipy.sparse.csc_array(EYE * 1j), "B: expected real numbers, found complex numbers"),
        ("V", cell(EYE, EYE), "MATLAB class cell; for heads in a cell, store cat(3, V{:})"),
        ("V", {"x": 1}, "MATLAB class struct; store a plain numeric array"),
        ("A", "text", "A: expected real numbers, found entries of type <U4"),
        ("A", np.zeros((0, 3)), "A: expected a matrix, found shape (0, 3)"),
    ],
)
def test_fields_that_are_no_parameters(tmp_path, key, value, words):
    path = store_layers(tmp_path / "s.mat", [DENSE, DENSE | {key: value}], durations=np.ones(2))
    text = refusal(path, (ParameterError, ShapeError))
    assert text.startswith(f"{path}: layers(2): {key}: ")
    assert words in text
    scipy.io.savemat(path, {"layers": cell(DENSE, DENSE | {key: value}), "durations": [1, 1]})
    assert f"layers{{2}}: {key}: " in refusal(path, (ParameterError, ShapeError))


def test_a_string_object_in_a_field(tmp_path):
    """What layers(1).name = "first" makes in MATLAB: a reference to where objects are kept."""

    def element(kind, data):
        return struct.pack("=II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name, value):
        stream = io.BytesIO()
        scipy.io.savemat(stream, {name: value}, do_compression=False)
        return stream.getvalue()[128:]

    def header(number, *rest):
        return element(6, struct.pack("=II", number, 0)) + b"".join(rest)

    reference = matrix("r", np.array([[1, 2]], dtype="uint32"))
    opaque = header(17, element(1, b""), element(1, b"MCOS"), element(1, b"string"), reference)
    names = ("A", "B", "V", "name")
    body = header(2, element(5, struct.pack("=ii", 1, 1)), element(1, b"layers"))
    body += struct.pack("=HHi", 5, 4, 8) + element(
        1, b"".join(n.encode().ljust(8, b"\0") for n in names)
    )
    body += b"".join(matrix("x", DENSE[key]) for key in "ABV") + element(14, opaque)
    scipy.io.savemat(tmp_path / "s.mat", {"durations": 1.0})
    with (tmp_path / "s.mat").open("ab") as stream:
        stream.write(element(14, body))
    text = refusal(tmp_path / "s.mat")
    words = "layers(1): name: expected text, found a variable of MATLAB class string; "
    assert words + "store char(name)" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3", "layers: expected one model for each layer, found a number; write a list of objects"),
        ("null", "found null; write a list of objects"),
        ('{"A": 1}', "found an object; write a list of objects"),
        ('[{"A": 1}, 3]', "found a number, an object; write a list of objects"),
        ("[]", "layers: expected at least one layer, found none"),
        ("[{}]", "layers[0]: A, B, V: expected A, B, V together, found nothing"),
        ('[{"A": 1, "B": 1, "V": 1, "A": 2}]', "layers[0]: A: expected one value, found 2"),
        ('[{"A": 1, "B": true, "V": 1}]', "layers[0]: B: expected real numbers, found true"),
        ('[{"A": 1, "B": 1, "V": 1, "layers": []}]', "layers[0]: keys: expected only A"),
    ],
)
def test_json_that_is_no_stack(tmp_path, text, words):
    (tmp_path / "s.json").write_text(f'{{"layers": {text}}}')
    assert words in refusal(tmp_path / "s.json")
    (tmp_path / "s.json").write_text('{"layers": [{"A": 1, "B": 1, "V": 1}], "layers": []}')
    assert "layers: expected one value, found 2 of this name" in refusal(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["layers"], "layers: expected one model for each layer, found one array; name the"),
        (["layers/1/A"], "found only numbers 1; number from 0 without gaps"),
        (["layers/0/A", "layers/2/A"], "found only numbers 0, 2; number from 0 without gaps"),
        (["layers/0/A", "layers/01/A"], "keys: expected only layers, durations, found layers/01/A"),
        (["layers/0/A", "layers"], "layers: expected one value, found 2 of this name"),
        (["layers/0/A", "layers/0/x/y"], "layers/0: B, V: expected A, B, V together, found A, x/y"),
        (["layers/0"], "A, B, V: expected A, B, V together, found layers/0; "),
    ],
)
def test_npz_that_is_no_stack(tmp_path, names, words):
    np.savez(tmp_path / "s.npz", **dict.fromkeys(names, EYE))
    assert words in refusal(tmp_path / "s.npz")


def test_layers_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = tmp_path / "s.npz"
    layer = DENSE | {"B": np.array([Trap()], dtype=object)}
    store_layers(path, [layer], durations=np.ones(1))
    text = refusal(path)
    assert "layers/0: B: expected real numbers, found an object array (pickled); " in text
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_truncated_stacks(tmp_path, suffix):
    stack = LayerStack([GaussianTransformer(**DENSE, dt=1)] * 2)
    path = tmp_path / f"s{suffix}"
    save_model(path, stack)
    whole = path.read_bytes()
    for size in range(1, len(whole) - 8, 41):
        path.write_bytes(whole[:size])
        refusal(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_of_layers_that_files_cannot_keep(tmp_path, suffix):
    layer = GaussianTransformer(**DENSE, dt=1)
    with pytest.raises(ParameterError, match=r"model\[1\].name: expected text without NUL"):
        save_model(tmp_path / f"s{suffix}", LayerStack([layer, layer.replace(name="\0")]))
    assert list(tmp_path.iterdir()) == []


def side_by_side(weights, suffix=".npz"):
    """The same weights with the heads next to each other, as frameworks keep them."""
    flat = {key: weights[key].reshape(-1, 4) for key in ("W_Q", "W_K", "W_V")}
    flat |= {key: weights[key].ravel() for key in ("b_Q", "b_V")}
    flat |= {"W_O": weights["W_O"].transpose(1, 0, 2).reshape(4, -1)}
    if suffix == ".mat":  # `store` moves the first axis of a weight to the end.
        flat |= {key: flat[key].T for key in WEIGHTS}
    return weights | flat


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_heads_side_by_side_are_told_apart_by_their_number(tmp_path, suffix, weights):
    path = store(tmp_path / f"layer{suffix}", side_by_side(weights, suffix) | {"n_heads": 3})
    model = load_model(path)
    assert model.n_heads == 3
    assert model == GaussianTransformer.from_weights(**weights)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_number_of_heads_beside_heads_of_their_own_axis_must_agree(tmp_path, suffix, weights):
    path = store(tmp_path / f"layer{suffix}", weights | {"n_heads": 3})
    assert load_model(path) == GaussianTransformer.from_weights(**weights)
    path = store(tmp_path / f"layer{suffix}", weights | {"n_heads": 2})
    with pytest.raises(ShapeError, match="W_Q: expected 2 heads as n_heads says, found 3; "):
        load_model(path)


@pytest.mark.parametrize("number", [0, 2.5, -1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_number_of_heads_that_is_none(tmp_path, suffix, weights, number):
    path = store(tmp_path / f"layer{suffix}", side_by_side(weights) | {"n_heads": number})
    with pytest.raises(ParameterError, match="n_heads: expected a positive integer, found"):
        load_model(path)


def test_heads_side_by_side_that_do_not_divide(tmp_path, weights):
    path = store(tmp_path / "layer.npz", side_by_side(weights) | {"n_heads": 4})
    with pytest.raises(ShapeError, match=r"W_Q: expected shape .* with h = 4"):
        load_model(path)


@pytest.fixture
def attention():
    """A state_dict of torch.nn.MultiheadAttention, width 4."""
    rng = np.random.default_rng(3)
    return {
        "in_proj_weight": rng.normal(size=(12, 4)),
        "in_proj_bias": rng.normal(size=12),
        "out_proj.weight": rng.normal(size=(4, 4)),
        "out_proj.bias": rng.normal(size=4),
    }


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_state_dict_of_attention_with_the_number_of_heads(tmp_path, suffix, attention):
    q, k, v = attention["in_proj_weight"].reshape(3, 4, 4)
    b_q, _, b_v = attention["in_proj_bias"].reshape(3, 4)
    model = GaussianTransformer.from_weights(
        q,
        k,
        v,
        attention["out_proj.weight"],
        b_Q=b_q,
        b_V=b_v,
        b_O=attention["out_proj.bias"],
        n_heads=2,
        dt=1.0,
    )
    path = store(tmp_path / f"attn{suffix}", attention | {"n_heads": 2, "dt": 1.0})
    assert load_model(path) == model


def test_a_state_dict_does_not_say_how_many_heads_there_are(tmp_path, attention):
    path = store(tmp_path / "attn.npz", attention)
    with pytest.raises(ParameterError, match=r"n_heads: .*; store n_heads=attn\.num_heads too"):
        load_model(path)


def test_a_state_dict_of_another_shape(tmp_path, attention):
    wrong = attention | {"in_proj_weight": np.eye(4), "n_heads": 2}
    with pytest.raises(ShapeError, match=r"in_proj_weight: expected shape \(3 d, d\).*\(4, 4\)"):
        load_model(store(tmp_path / "attn.npz", wrong))


@pytest.mark.parametrize("spelling", ["WQ", "wq", "Wq", "w_q"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_weight_under_another_spelling_is_pointed_at(tmp_path, suffix, spelling):
    values = {spelling: EYE, "W_K": EYE, "W_V": EYE, "W_O": EYE}
    with pytest.raises(ParameterError, match=f"rename {spelling} to W_Q"):
        load_model(store(tmp_path / f"layer{suffix}", values))


def test_a_matrix_called_k_has_a_better_claim_than_the_bias(tmp_path):
    values = {"A": EYE, "K": EYE, "V": EYE, "b": [0.0, 0.0]}
    with pytest.raises(ParameterError, match="; rename K to B if it is the key-query matrix"):
        load_model(store(tmp_path / "layer.mat", values))


def test_a_sample_time_of_matlab_is_pointed_at(tmp_path):
    path = store(tmp_path / "layer.mat", {"A": EYE, "B": EYE, "V": -EYE, "Ts": 0.1})
    with pytest.warns(UserWarning, match="dt: .* found only Ts"):
        load_model(path)
