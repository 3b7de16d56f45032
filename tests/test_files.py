"""Model files: exact round trips, MATLAB's habits, one-line refusals, atomic writing."""

import io
import json
import os
import pickle
import stat
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gausscontrol.errors import GausscontrolError, ParameterError, ShapeError
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.transformer import GaussianTransformer

SUFFIXES = (".npz", ".mat", ".json")
MATLAB_FILES = Path(scipy.io.matlab.__file__).parent / "tests" / "data"
HDF5 = b"\x89HDF\r\n\x1a\n"
EYE = np.eye(2)


@pytest.fixture
def values():
    """Arguments of a model with d = 2 and three heads, all entries distinct."""
    rng = np.random.default_rng(7)
    return {
        "A": rng.normal(size=(2, 2)),
        "B": rng.normal(size=(3, 2, 2)),
        "V": rng.normal(size=(3, 2, 2)),
        "b": rng.normal(size=2),
        "k": rng.normal(size=(3, 2)),
        "dt": 0.1,
        "name": "layer 3",
    }


@pytest.fixture
def model(values):
    return GaussianTransformer(**values)


def matlab(values):
    """The variables a MATLAB user would have for these arguments."""
    pages = {key: np.moveaxis(values[key], 0, -1) for key in ("B", "V")}
    return values | pages | {"b": values["b"][:, None], "k": values["k"].T}


def store_mat(path, **variables):
    scipy.io.savemat(path, variables, oned_as="column")
    return path


def store_mat_beside_objects(path, **variables):
    """A workspace in which MATLAB's strings and tables precede and follow the variables."""
    store_mat(path, **variables)
    content = path.read_bytes()
    path.write_bytes(
        content[:128] + opaque(b"note", b"string") + content[128:] + opaque(b"log", b"table")
    )
    return path


def opaque(name, kind):
    """A variable as MATLAB stores an object of a newer class: no dimensions, a reference inside."""
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"reference": np.array([[1, 2]], dtype="uint32")})
    flags = element(6, struct.pack("=II", 17, 0))
    parts = flags + element(1, name) + element(1, b"MCOS") + element(1, kind)
    return element(14, parts + stream.getvalue()[128:])


def element(kind, data):
    return struct.pack("=II", kind, len(data)) + data + bytes(-len(data) % 8)


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
    return [np.asarray(getattr(model, key)).tobytes() for key in ("A", "B", "V", "b", "k", "dt")]


# Round trips

# Sums over heads stay finite.
ENTRIES = st.floats(-1e307, 1e307)
NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@st.composite
def models(draw):
    d, h = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def array(*shape):
        return draw(arrays(float, shape, elements=ENTRIES))

    return GaussianTransformer(
        array(d, d),
        array(h, d, d),
        array(h, d, d),
        array(d),
        k=array(h, d),
        dt=draw(st.floats(0, 1e3)),
        name=draw(NAMES),
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(model=models())
def test_round_trip_keeps_every_bit(tmp_path, suffix, model):
    path = tmp_path / f"model{suffix}"
    save_model(path, model)
    loaded = load_model(path)
    assert loaded == model
    assert bits(loaded) == bits(model)
    assert loaded.name == model.name
    assert type(loaded.dt) is float


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "name", ["", " padded ", "two\nlines", "couche d\u00e9riv\u00e9e \U0001f600"]
)
def test_names_survive(tmp_path, model, suffix, name):
    save_model(tmp_path / f"m{suffix}", model.replace(name=name))
    assert load_model(tmp_path / f"m{suffix}").name == name


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_extreme_numbers_survive(tmp_path, suffix):
    extreme = [[-0.0, 5e-324], [1.7976931348623157e308, 0.1 + 0.2]]
    model = GaussianTransformer(extreme, EYE, EYE)
    save_model(tmp_path / f"m{suffix}", model)
    assert bits(load_model(tmp_path / f"m{suffix}")) == bits(model)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_models_give_equal_bytes(tmp_path, model, suffix):
    save_model(tmp_path / f"one{suffix}", model)
    save_model(tmp_path / f"two{suffix}", model.replace())
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".NPZ", ".Mat", ".JSON"])
def test_case_of_the_suffix_and_kind_of_the_path_do_not_matter(tmp_path, model, suffix):
    save_model(str(tmp_path / f"m{suffix}"), model)
    assert load_model(str(tmp_path / f"m{suffix}")) == model


def test_files_read_without_the_package(tmp_path, model):
    for suffix in SUFFIXES:
        save_model(tmp_path / f"m{suffix}", model)
    archive = np.load(tmp_path / "m.npz")
    text = json.loads((tmp_path / "m.json").read_text())
    workspace = scipy.io.loadmat(tmp_path / "m.mat")
    np.testing.assert_array_equal(archive["B"], model.B)
    np.testing.assert_array_equal(text["k"], model.k)
    assert workspace["B"].shape == (2, 2, 3)
    np.testing.assert_array_equal(workspace["B"][:, :, 1], model.B[1])
    np.testing.assert_array_equal(workspace["k"][:, 2], model.k[2])
    assert workspace["b"].shape == (2, 1)
    assert workspace["dt"].shape == (1, 1)
    assert workspace["name"].tolist() == ["layer 3"]


# MATLAB's habits


@pytest.mark.parametrize("compressed", [False, True])
def test_heads_lie_on_the_last_axis(tmp_path, values, model, compressed):
    path = tmp_path / "m.mat"
    scipy.io.savemat(path, matlab(values), do_compression=compressed)
    assert load_model(path) == model


@pytest.mark.parametrize("oned_as", ["row", "column"])
def test_vectors_may_be_rows_or_columns(tmp_path, oned_as):
    variables = {"A": EYE, "B": EYE, "V": -EYE, "b": np.array([1.0, 2.0]), "k": np.array([3.0, 4])}
    scipy.io.savemat(tmp_path / "m.mat", variables, oned_as=oned_as)
    loaded = load_model(tmp_path / "m.mat")
    np.testing.assert_array_equal(loaded.b, [1, 2])
    np.testing.assert_array_equal(loaded.k, [[3, 4]])
    assert loaded.n_heads == 1
    assert (loaded.dt, loaded.name) == (0, None)


def test_trailing_axes_of_length_one_may_be_kept(tmp_path):
    path = store_mat(tmp_path / "m.mat", A=EYE, B=EYE[:, :, None], V=EYE[:, :, None])
    assert load_model(path) == GaussianTransformer(EYE, EYE, EYE)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1, 3)])
def test_scalar_models_with_heads(tmp_path, shape):
    heads = np.array([1.0, 2.0, 3.0])
    path = store_mat(
        tmp_path / "m.mat", A=0.5, B=heads.reshape(shape), V=-heads.reshape(shape), k=heads, b=7.0
    )
    expected = GaussianTransformer(
        0.5, heads.reshape(3, 1, 1), -heads.reshape(3, 1, 1), 7, k=heads[:, None]
    )
    assert load_model(path) == expected


def test_scalar_model(tmp_path):
    path = store_mat(tmp_path / "m.mat", A=1, B=2, V=-3, dt=0.25, name="x")
    assert load_model(path) == GaussianTransformer(1, 2, -3, dt=0.25, name="x")


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32", ">f8"])
def test_other_number_classes_become_float(tmp_path, kind):
    path = store_mat(tmp_path / "m.mat", A=EYE.astype(kind), B=EYE, V=EYE, dt=np.int32(2))
    loaded = load_model(path)
    assert loaded == GaussianTransformer(EYE, EYE, EYE, dt=2)
    assert loaded.A.dtype == float


def test_version_4(tmp_path):
    path = tmp_path / "m.mat"
    variables = {"A": EYE, "B": scipy.sparse.csc_array(EYE), "V": -2 * EYE, "name": "old"}
    scipy.io.savemat(path, variables, format="4")
    assert load_model(path) == GaussianTransformer(EYE, EYE, -2 * EYE, name="old")
    scipy.io.savemat(path, variables | {"V": EYE * 1j}, format="4")
    assert "V: expected real numbers, found complex numbers" in refusal(path)


def test_sparse_matrices_are_exact(tmp_path):
    A = np.array([[0, 0.1], [0, -3e-300]])
    path = store_mat(tmp_path / "m.mat", A=scipy.sparse.csc_array(A), B=EYE, V=EYE)
    np.testing.assert_array_equal(load_model(path).A, A)


def test_a_sparse_matrix_that_points_outside_itself_is_damage(tmp_path):
    A = scipy.sparse.csc_array(EYE)
    A.indices[0] = 1000
    path = store_mat(tmp_path / "m.mat", A=A, B=EYE, V=EYE)
    assert "found damage or another format" in refusal(path)


def test_other_variables_of_a_workspace_are_ignored(tmp_path):
    path = store_mat(
        tmp_path / "m.mat",
        A=EYE,
        B=EYE,
        V=EYE,
        C=[[1j]],
        t={"u": 1},
        a=3,
        scale=EYE,
        flag=True,
        layers=12,
    )
    assert load_model(path) == GaussianTransformer(EYE, EYE, EYE)


def test_strings_and_tables_do_not_hide_the_rest(tmp_path, values, model):
    path = tmp_path / "m.mat"
    assert load_model(store_mat_beside_objects(path, **matlab(values))) == model
    with pytest.warns(UserWarning, match="found only K, which is ignored; "):
        load_model(store_mat_beside_objects(path, A=EYE, B=EYE, V=EYE, K=1.0))
    store_mat_beside_objects(path, A=EYE, V=EYE)
    assert "B: expected A, B, V together, found note, A, V, log; " in refusal(path)
    for key, value, words in (
        ("A", EYE == 1, "A: expected real numbers, found a variable of MATLAB class logical"),
        ("B", EYE * 1j, "B: expected real numbers, found complex numbers"),
        ("V", {"x": 1}, "V: expected real numbers, found a variable of MATLAB class struct"),
    ):
        store_mat_beside_objects(path, **({"A": EYE, "B": EYE, "V": EYE} | {key: value}))
        assert words in refusal(path)


def test_a_string_object_is_no_text(tmp_path):
    path = store_mat(tmp_path / "m.mat", A=EYE, B=EYE, V=EYE)
    path.write_bytes(path.read_bytes() + opaque(b"name", b"string"))
    words = "name: expected text, found a variable of MATLAB class string; store char(name)"
    assert words in refusal(path)


def test_mat_names_must_not_repeat(tmp_path):
    path = store_mat(tmp_path / "m.mat", A=EYE, B=EYE, V=EYE)
    path.write_bytes(path.read_bytes() + path.read_bytes()[128:])
    assert "A: expected one value, found 2 of this name; keep one" in refusal(path)


@pytest.mark.parametrize("name", ["some_functions.mat", "parabola.mat"])
def test_inner_workings_of_a_workspace_are_not_listed(name):
    path = MATLAB_FILES / name
    if not path.exists():
        pytest.skip("SciPy is installed without its test files")
    text = refusal(path)
    assert "parabola" in text
    assert "__" not in text.removeprefix(str(path))


def test_a_twin_of_an_absent_optional_key_is_pointed_at(tmp_path):
    path = store_mat(tmp_path / "m.mat", A=EYE, B=EYE, V=EYE, K=[[1.0, 2.0]])
    with pytest.warns(
        UserWarning, match="k: expected k .* found only K, which is ignored; "
    ) as seen:
        loaded = load_model(path)
    assert loaded == GaussianTransformer(EYE, EYE, EYE)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(store_mat(tmp_path / "m.mat", A=EYE, B=EYE, V=EYE, K=1.0, k=[[0.0], [0.0]]))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("A", np.ones((2, 3)), "A: expected a square matrix, found shape (2, 3)"),
        (
            "B",
            np.ones((3, 2, 2)),
            "B: expected 2 x 2 or 2 x 2 x h to agree with A, found 3 x 2 x 2",
        ),
        ("V", np.ones((2, 2, 2)), "V: expected 1 head(s) as in B, found 2"),
        ("V", np.zeros((0, 0)), "found 0 x 0"),
        ("b", np.ones((3, 1)), "b: expected a vector of 2 entries, found shape (3,"),
        ("k", np.ones((3, 1)), "k: expected 2 x 1, one column a head, found 3 x 1"),
        ("dt", np.ones((1, 2)), "dt: expected one number, found shape (1, 2)"),
    ],
)
def test_mat_shapes_that_do_not_agree(tmp_path, key, value, words):
    path = store_mat(tmp_path / "m.mat", **({"A": EYE, "B": EYE, "V": EYE} | {key: value}))
    assert words in refusal(path, ShapeError)


def test_tilts_of_several_heads_are_columns(tmp_path, values):
    path = store_mat(tmp_path / "m.mat", **(matlab(values) | {"k": values["k"]}))
    assert "k: expected 2 x 3, one column a head, found 3 x 2" in refusal(path, ShapeError)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("A", EYE == 1, "A: expected real numbers, found a variable of MATLAB class logical"),
        ("B", scipy.sparse.csc_array(EYE == 1), "class logical; store double(B)"),
        ("V", EYE * 1j, "V: expected real numbers, found complex numbers; store real(V)"),
        ("A", scipy.sparse.csc_array(EYE * 1j), "A: expected real numbers, found complex"),
        ("B", np.array([[EYE, EYE]], dtype=object)[:, :, 0], "class cell; for heads in a cell"),
        ("V", {"x": 1}, "V: expected real numbers, found a variable of MATLAB class struct"),
        ("A", "text", "A: expected real numbers, found entries of type <U4"),
        ("A", EYE * np.nan, "A: expected finite numbers, found 4 NaN"),
        ("dt", -1.0, "dt: expected 0 or a positive number, found -1"),
        ("name", 3.0, "name: expected one row of text, found an array of shape (1, 1)"),
        ("name", np.array(["ab", "cd"]), "name: expected one row of text"),
    ],
)
def test_mat_values_that_are_no_parameters(tmp_path, key, value, words):
    path = store_mat(tmp_path / "m.mat", **({"A": EYE, "B": EYE, "V": EYE} | {key: value}))
    assert words in refusal(path)


@pytest.mark.parametrize("start", [b"", b"MATLAB 7.3 MAT-file".ljust(512)])
def test_version_7_3_is_refused_by_name(tmp_path, start):
    path = tmp_path / "m.mat"
    path.write_bytes(start + HDF5 + bytes(100))
    text = refusal(path)
    assert "found version 7.3 (HDF5)" in text
    assert "m = load('m.mat'); save('m.mat', '-struct', 'm', '-v7')" in text


# Keys


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_key_is_named(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    store(path, {"A": [[1.0]], "b": [1.0], "v": [[1.0]]})
    text = refusal(path)
    assert "B, V: expected A, B, V together, found A, b, v; " in text
    assert "names are case-sensitive, rename v to V, and b if it is B" in text
    store(path, {"a": [[1.0]], "b": [[1.0]], "v": [[1.0]]})
    text = refusal(path)
    assert text.endswith("rename a to A, v to V, and b if it is B")
    store(path, {"A": [[1.0]], "b": [[1.0]], "V": [[1.0]]})
    assert refusal(path).endswith("found A, b, V; names are case-sensitive, rename b if it is B")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_set_of_keys_says_what_there_could_be(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    store(path, {"C": [[1.0]]})
    text = refusal(path)
    assert "A, B, V: expected A, B, V together, found C; store each under its own name" in text
    assert text.endswith("or W_Q, W_K, W_V, W_O, or layers")


def test_a_struct_of_parameters_is_seen(tmp_path):
    path = store_mat(tmp_path / "m.mat", model={"A": EYE, "B": EYE, "V": EYE})
    assert "save(file, '-struct', 'model')" in refusal(path)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_unknown_keys_are_refused(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    store(path, {"A": [[1.0]], "B": [[1.0]], "V": [[1.0]], "bias": [1.0]})
    assert "keys: expected only A, B, V, b, k, dt, name, found bias; " in refusal(path)


def store(path, values):
    if path.suffix == ".json":
        path.write_text(json.dumps(values))
    elif path.suffix == ".npz":
        np.savez(path, **values)
    else:
        scipy.io.savemat(path, values)


# .npz


@pytest.mark.parametrize("key", ["A", "name"])
def test_object_arrays_are_never_unpickled(tmp_path, key):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = tmp_path / "m.npz"
    np.savez(path, **({"A": EYE, "B": EYE, "V": EYE} | {key: np.array([Trap()], dtype=object)}))
    text = refusal(path)
    assert f"{key}: expected " in text
    assert "found an object array (pickled); files are never unpickled" in text
    path.write_bytes(pickle.dumps(Trap()))
    text = refusal(path)
    assert "expected a NumPy .npz archive, found damage or another format (it does not" in text
    assert "; write it with save_model, or with numpy.savez(file, A=A, ...)" in text
    assert "pickle" not in text
    assert not (tmp_path / "sprung").exists()


def test_a_bare_array_is_no_archive(tmp_path):
    stream = io.BytesIO()
    np.save(stream, EYE)
    (tmp_path / "m.npz").write_bytes(stream.getvalue())
    assert "found one bare array" in refusal(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("A", EYE == 1, "A: expected real numbers, found booleans"),
        ("V", EYE * 1j, "V: expected real numbers, found complex numbers"),
        ("name", np.array(b"bytes"), "name: expected one row of text"),
        ("dt", np.array("0.1"), "dt: expected real numbers"),
    ],
)
def test_npz_values_that_are_no_parameters(tmp_path, key, value, words):
    np.savez(tmp_path / "m.npz", **({"A": EYE, "B": EYE, "V": EYE} | {key: value}))
    assert words in refusal(tmp_path / "m.npz")


# .json


def write_json(path, **changes):
    parts = {"A": "[[1, 0], [0, 1]]", "B": "[[1, 0], [0, 1]]", "V": "[[1, 0], [0, 1]]"} | changes
    path.write_text("{" + ", ".join(f'"{key}": {text}' for key, text in parts.items()) + "}")
    return path


def test_json_by_hand(tmp_path):
    path = write_json(tmp_path / "m.json", b="null", k="[1, 2]", dt="1", name="null")
    assert load_model(path) == GaussianTransformer(EYE, EYE, EYE, k=[1, 2], dt=1)
    path.write_bytes(b"\xef\xbb\xbf" + b'{"A": 1, "B": 2, "V": -3}')
    assert load_model(path) == GaussianTransformer(1, 2, -3)


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("A", "[[NaN, 0], [0, 1]]", "A: expected finite numbers, found 1 NaN or infinite of 4"),
        ("b", "[Infinity, 0]", "b: expected finite numbers"),
        ("b", "[1e999, 0]", "b: expected finite numbers"),
        ("B", "[[1, true], [0, 1]]", "B: expected real numbers, found true or false"),
        ("V", "[[1, null], [0, 1]]", "V: expected real numbers, found null"),
        ("A", '[[1, "0"], [0, 1]]', "A: expected real numbers, found entries of type <U"),
        ("A", "{}", "A: expected real numbers, found an object"),
        ("A", "null", "A: expected real numbers, found None"),
        ("dt", "null", "dt: expected real numbers"),
        ("dt", "false", "dt: expected real numbers, found true or false"),
        ("name", "3", "name: expected one row of text"),
        ("name", "[1]", "name: expected one row of text"),
    ],
)
def test_json_values_that_are_no_parameters(tmp_path, key, text, words):
    assert words in refusal(write_json(tmp_path / "m.json", **{key: text}))


def test_json_rows_of_different_lengths(tmp_path):
    path = write_json(tmp_path / "m.json", A="[[1, 0], [0]]")
    assert "A: expected a rectangular array" in refusal(path, ShapeError)
    path = write_json(tmp_path / "m.json", B="[[[1, 2], [3, 4]], [[1, 2, 3], [4, 5, 6]]]")
    assert "B: expected a rectangular array" in refusal(path, ShapeError)


def test_json_keys_must_not_repeat(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('{"A": [[1]], "B": [[1]], "V": [[1]], "A": [[2]]}')
    assert "A: expected one value, found 2 of this name; keep one" in refusal(path)


@pytest.mark.parametrize(("text", "found"), [("[1, 2]", "a list"), ("3", "a number")])
def test_json_must_be_an_object(tmp_path, text, found):
    (tmp_path / "m.json").write_text(text)
    assert f"expected a JSON object with named values, found {found}; " in refusal(
        tmp_path / "m.json"
    )


# Files that are not what their name says


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_empty_damaged_and_foreign_files(tmp_path, model, suffix):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(b"")
    assert "found an empty file" in refusal(path)
    for content in (
        b"\xff\xfe nonsense",
        b"# Created by Octave\n" * 20,
        bytes(600),
        b"[" * 100_000,
    ):
        path.write_bytes(content)
        assert "found damage or another format" in refusal(path)
    save_model(path, model)
    whole = path.read_bytes()
    for size in range(1, len(whole) - 8, 97):
        path.write_bytes(whole[:size])
        refusal(path)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_changed_bytes_never_escape_the_two_exceptions(tmp_path, model, suffix):
    path = tmp_path / f"m{suffix}"
    save_model(path, model)
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    messages = []
    for _ in range(300):
        content = bytearray(whole)
        for place in rng.integers(len(content), size=4):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            load_model(path)
        except (GausscontrolError, UserWarning) as error:  # A key may have become its twin.
            messages.append(str(error))
    assert len(messages) > 50
    assert not any("\n" in message for message in messages)


def test_a_changed_byte_in_a_mat_of_ours_is_seen(tmp_path, model):
    # Each variable is compressed, with a checksum; SciPy may not survive damage that it decodes.
    path = tmp_path / "m.mat"
    save_model(path, model)
    content = bytearray(path.read_bytes())
    (size,) = struct.unpack("=I", content[132:136])
    content[128 + 8 + size - 1] ^= 1
    path.write_bytes(content)
    assert "found damage or another format (error: " in refusal(path)


def test_an_archive_that_was_cut_short_is_told_so(tmp_path, model):
    path = tmp_path / "m.npz"
    save_model(path, model)
    path.write_bytes(path.read_bytes()[:-100])
    assert "found damage (it begins as an archive, and its end is lost); write it" in refusal(path)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        (dict.fromkeys("ABV", EYE), "found dict; make a model of arrays with GaussianTransformer("),
        ({"W_Q": EYE}, "found dict; make a model of arrays with GaussianTransformer.from_weights("),
        (None, "found NoneType; name a file such as 'layer.mat'"),
        (3, "found int; name a file such as 'layer.mat'"),
    ],
)
def test_what_is_no_path_is_refused(model, path, advice):
    for call in (lambda: load_model(path), lambda: save_model(path, model)):
        with pytest.raises(ParameterError) as caught:
            call()
        assert f"path: expected a path, {advice}" in str(caught.value)


@pytest.mark.parametrize("name", ["model", "model.txt", "model.mat.gz", ".mat"])
def test_a_suffix_is_needed(tmp_path, model, name):
    for call in (load_model, lambda path: save_model(path, model)):
        with pytest.raises(
            ParameterError, match=r"path: expected a name ending in .npz, .mat, .json"
        ):
            call(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_file_system_speaks_for_itself(tmp_path, model, suffix):
    path = tmp_path / f"m{suffix}"
    with pytest.raises(FileNotFoundError, match="expected a model file, found none at this path"):
        load_model(path)
    with pytest.raises(FileNotFoundError, match="expected an existing folder, found none"):
        save_model(tmp_path / "absent" / path.name, model)
    path.mkdir()
    for call in (load_model, lambda path: save_model(path, model)):
        with pytest.raises(IsADirectoryError, match="expected a file, found a directory"):
            call(path)


# Writing


def test_arguments_in_the_wrong_order(tmp_path, model):
    with pytest.raises(ParameterError, match=r"model: expected .* or LayerStack, found str; "):
        save_model(model, str(tmp_path / "m.mat"))


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_files_cannot_keep(tmp_path, model, name):
    with pytest.raises(ParameterError, match="name: expected "):
        save_model(tmp_path / "m.json", model.replace(name=name))
    assert list(tmp_path.iterdir()) == []


def test_overwriting_can_be_forbidden(tmp_path, model):
    path = tmp_path / "m.npz"
    save_model(path, model, overwrite=False)
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        save_model(path, model.replace(dt=0), overwrite=False)
    assert load_model(path) == model
    save_model(path, model.replace(dt=0))
    assert load_model(path).dt == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, model, suffix, monkeypatch):
    path = tmp_path / f"m{suffix}"
    save_model(path, model)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_model(path, model.replace(dt=0))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert load_model(path) == model


def test_links_and_permissions_are_kept(tmp_path, model):
    target, link = tmp_path / "m.npz", tmp_path / "link.npz"
    save_model(target, model)
    target.chmod(0o640)
    link.symlink_to(target)
    save_model(link, model.replace(dt=0))
    assert link.is_symlink()
    assert load_model(target).dt == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path, model):
    save_model(tmp_path / "m.npz", model)
    (tmp_path / "plain").touch()
    modes = {entry.stat().st_mode for entry in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_model_is_left_alone(tmp_path, model, suffix):
    before = bits(model)
    save_model(tmp_path / f"m{suffix}", model)
    assert bits(model) == before
    loaded = load_model(tmp_path / f"m{suffix}")
    for key in ("A", "B", "V", "b", "k"):
        assert not getattr(loaded, key).flags.writeable
