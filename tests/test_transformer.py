"""GaussianTransformer: validation, immutability, coordinate changes, gauge and reversal."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import plain_rates, random_covariance, random_model

import gausscontrol as gct
from gausscontrol import GaussianTransformer, ParameterError, ShapeError

law = settings(derandomize=True, deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 6)
head_counts = st.integers(1, 3)

KEYS = ("A", "B", "V", "b", "k")


def arguments(dim=2, heads=1):
    """Good constructor arguments, to be spoilt one at a time."""
    return {
        "A": np.eye(dim),
        "B": np.ones((heads, dim, dim)),
        "V": -np.ones((heads, dim, dim)),
        "b": np.ones(dim),
        "k": np.ones((heads, dim)),
    }


def make(**changes):
    return GaussianTransformer(**(arguments() | changes))


def relative_error(value, expected):
    return np.abs(value - expected).max() / max(np.abs(expected).max(), 1e-300)


# -- what is accepted -----------------------------------------------------------------------------


def test_order_of_the_arguments_is_A_B_V_b():
    model = GaussianTransformer([[1.0]], [[2.0]], [[3.0]], [4.0])
    assert [float(getattr(model, key).squeeze()) for key in "ABVb"] == [1.0, 2.0, 3.0, 4.0]


def test_one_head_and_many():
    one = GaussianTransformer(np.eye(3), np.eye(3), np.eye(3))
    assert (one.dim, one.n_heads) == (3, 1)
    assert one.B.shape == one.V.shape == (1, 3, 3)
    many = GaussianTransformer(np.eye(3), np.ones((4, 3, 3)), np.ones((4, 3, 3)))
    assert (many.dim, many.n_heads) == (3, 4)
    assert many.k.shape == (4, 3)


def test_defaults_are_zero_and_continuous():
    model = GaussianTransformer(np.eye(2), np.eye(2), np.eye(2))
    assert not model.b.any()
    assert not model.k.any()
    assert model.dt == 0
    assert model.name is None


def test_scalars_at_dimension_one():
    model = GaussianTransformer(1, 2, 3, 4, k=5)
    assert (model.dim, model.n_heads) == (1, 1)
    assert model.k.shape == (1, 1)
    np.testing.assert_array_equal(model.drift(2.0), [[13.0]])


def test_integers_become_floats():
    model = GaussianTransformer([[1, 0], [0, 1]], [[1, 2], [3, 4]], [[1, 2], [3, 4]], [1, 2])
    assert all(getattr(model, key).dtype == np.float64 for key in KEYS)


@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 1)])
def test_rows_and_columns_as_vectors(shape):
    model = make(b=np.reshape([1, 2], shape), k=np.reshape([3, 4], shape))
    np.testing.assert_array_equal(model.b, [1.0, 2.0])
    np.testing.assert_array_equal(model.k, [[3.0, 4.0]])


@pytest.mark.parametrize("dt", [0, 0.0, 0.5, 1, np.float32(0.25), np.int64(2), np.array(0.1)])
def test_depth_of_a_layer(dt):
    model = make(dt=dt)
    assert type(model.dt) is float
    assert model.dt == pytest.approx(float(dt))


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda array: np.where(array, np.nan, 0), "NaN or infinite"),
        (lambda array: np.where(array, np.inf, 0), "NaN or infinite"),
        (lambda array: array * 1j, "complex numbers"),
        (lambda array: array.astype(object), "objects"),
        (lambda array: array != 0, "booleans"),
        (lambda array: array.astype(str), "entries of type"),
    ],
    ids=["nan", "infinite", "complex", "object", "boolean", "text"],
)
def test_bad_entries_are_refused_by_name(key, spoil, found):
    with pytest.raises(ParameterError, match=f"^{key}: expected .*found .*{found}.*; ") as caught:
        make(**{key: spoil(arguments()[key])})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ("A", (2, 3)),
        ("A", (2,)),
        ("A", (1, 2, 2)),
        ("A", (0, 0)),
        ("B", (2, 3)),
        ("B", (3, 3)),
        ("B", (2,)),
        ("B", ()),
        ("B", (0, 2, 2)),
        ("B", (1, 1, 2, 2)),
        ("V", (3, 2)),
        ("V", (1, 3, 3)),
        ("V", (2, 2, 2)),
        ("V", (0,)),
        ("b", (3,)),
        ("b", ()),
        ("b", (0,)),
        ("b", (2, 2)),
        ("k", (3,)),
        ("k", (2, 2)),
        ("k", (0,)),
        ("k", (1, 1, 2)),
    ],
)
def test_bad_shapes_are_refused_by_name(key, shape):
    with pytest.raises(ShapeError, match=f"^{key}: expected .*found .*; ") as caught:
        make(**{key: np.ones(shape)})
    assert "\n" not in str(caught.value)


def test_a_tilt_of_as_many_entries_but_another_shape_is_refused():
    with pytest.raises(ShapeError, match=r"^k: expected a vector of 4 entries"):
        GaussianTransformer(np.eye(4), np.eye(4), np.eye(4), k=np.eye(2))


@pytest.mark.parametrize("shape", [(2,), (2, 3), (3, 3), (6,)])
def test_tilts_of_many_heads_need_one_row_each(shape):
    with pytest.raises(ShapeError, match=r"^k: expected shape \(3, 2\), one tilt per head"):
        GaussianTransformer(**(arguments(2, 3) | {"k": np.ones(shape)}))


def test_there_is_no_dimension_zero():
    empty = np.zeros((0, 0))
    with pytest.raises(ShapeError, match=r"^A: expected a matrix, found shape \(0, 0\)"):
        GaussianTransformer(empty, empty, empty)


@pytest.mark.parametrize("key", KEYS[:3])
def test_nothing_stands_for_a_missing_matrix(key):
    with pytest.raises(ParameterError, match=f"^{key}: expected real numbers, found None"):
        make(**{key: None})


@pytest.mark.parametrize(
    "dt",
    [-1, -1e-300, True, np.True_, None, "0.1", np.nan, np.inf, 1j, [0.1], np.array([0.1]), {}],
    ids=repr,
)
def test_bad_depths_are_refused(dt):
    with pytest.raises(ParameterError, match=r"^dt: expected .*found .*; "):
        make(dt=dt)


@pytest.mark.parametrize("name", [3, b"head", ["head"]])
def test_names_are_text(name):
    with pytest.raises(ParameterError, match=r"^name: expected a string, found"):
        make(name=name)


def test_unknown_keywords_are_type_errors():
    with pytest.raises(TypeError, match="gain"):
        make(gain=1)
    with pytest.raises(TypeError, match=r"unrecognized keyword.*C, gain; replace takes A, B, V"):
        make().replace(gain=1, C=2)


@pytest.mark.parametrize("method", ["attention", "drift"])
@pytest.mark.parametrize(
    ("S", "error"),
    [(np.eye(3), ShapeError), ([1.0, 2.0], ShapeError), (np.eye(2) * 1j, ParameterError)],
)
def test_operators_check_their_argument(method, S, error):
    with pytest.raises(error, match=r"^S: expected"):
        getattr(make(), method)(S)


# -- a value that does not change -----------------------------------------------------------------


def test_inputs_are_copied_and_never_touched():
    given_arrays = arguments(3, 2)
    before = {key: array.copy() for key, array in given_arrays.items()}
    model = GaussianTransformer(**given_arrays)
    for key, array in given_arrays.items():
        assert not np.shares_memory(getattr(model, key), array)
        array += 1
        np.testing.assert_array_equal(getattr(model, key), before[key])


@pytest.mark.parametrize("key", KEYS)
def test_arrays_are_read_only(key):
    model = make()
    changed = [model, model.transform(np.diag([1.0, 2.0])), model.reversed()]
    changed += [model.rescale_heads(2.0), model.replace(name="x"), copy.deepcopy(model)]
    for one in changed:
        with pytest.raises(ValueError, match="read-only"):
            getattr(one, key)[...] = 0


@pytest.mark.parametrize("attribute", [*KEYS, "dt", "name", "dim", "n_heads", "heads", "other"])
def test_attributes_cannot_be_set_or_deleted(attribute):
    model = make()
    with pytest.raises(AttributeError, match=f"^{attribute}: .*immutable; use model.replace"):
        setattr(model, attribute, 1)
    with pytest.raises(AttributeError, match=f"^{attribute}: .*immutable"):
        delattr(model, attribute)
    assert model == make()


@pytest.mark.parametrize("key", [*KEYS, "dt", "name"])
def test_equal_if_and_only_if_every_parameter_is(key):
    value = {"dt": 0.5, "name": "other"}.get(key)
    changed = make().replace(**{key: 2 * arguments()[key] if value is None else value})
    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != changed
    assert make() != "a string"


def test_negative_zero_is_zero():
    zero, negative = make(A=np.zeros((2, 2))), make(A=-np.zeros((2, 2)))
    assert zero == negative
    assert hash(zero) == hash(negative)
    assert len({zero, negative, make()}) == 2


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_are_equal(duplicate):
    model = GaussianTransformer(**arguments(3, 2), dt=0.25, name="layer")
    twin = duplicate(model)
    assert twin == model
    assert hash(twin) == hash(model)
    np.testing.assert_array_equal(twin.attention(np.eye(3)), model.attention(np.eye(3)))


def test_repr_says_what_the_model_is():
    plain = repr(GaussianTransformer(2 * np.eye(2), np.eye(2), -3 * np.eye(2)))
    assert plain == (
        "<GaussianTransformer d = 2, 1 head, continuous depth; |A| = 2, |B| = 1, |V| = 3>"
    )
    rich = repr(GaussianTransformer(**arguments(2, 3), dt=0.1, name="layer 4"))
    assert "'layer 4'" in rich
    assert "3 heads" in rich
    assert "layers of depth 0.1" in rich
    assert "with b and k" in rich


# -- replace --------------------------------------------------------------------------------------


def test_replace_changes_only_what_it_is_told():
    model = GaussianTransformer(**arguments(2, 2), dt=0.5, name="layer")
    changed = model.replace(A=[[0, 1], [2, 3]])
    np.testing.assert_array_equal(changed.A, [[0.0, 1.0], [2.0, 3.0]])
    assert changed.replace(A=model.A) == model
    assert model.replace() == model
    assert not model.replace(b=None).b.any()


@pytest.mark.parametrize(("key", "value"), [("A", np.eye(3)), ("dt", -1), ("k", [1.0])])
def test_replace_validates(key, value):
    with pytest.raises(ValueError, match="expected"):
        make().replace(**{key: value})


def test_replace_may_change_the_size_where_nothing_else_depends_on_it():
    model = GaussianTransformer(np.eye(2), np.eye(2), np.eye(2))
    assert model.replace(B=np.ones((3, 2, 2)), V=np.ones((3, 2, 2))).n_heads == 3
    assert model.replace(A=np.eye(4), B=np.eye(4), V=np.eye(4)).dim == 4
    with pytest.raises(ShapeError, match=r"^k: "):
        make().replace(B=np.ones((3, 2, 2)), V=np.ones((3, 2, 2)))


# -- operators and coordinates (Theory 1) ---------------------------------------------------------


def test_attention_and_drift():
    model = GaussianTransformer(np.eye(2), np.ones((2, 2, 2)), [np.eye(2), 2 * np.eye(2)])
    S = np.array([[1.0, 2.0], [2.0, 5.0]])
    np.testing.assert_allclose(model.attention(S), [[9.0, 9.0], [21.0, 21.0]])
    np.testing.assert_allclose(model.drift(S), [[10.0, 9.0], [21.0, 22.0]])


def case(seed, dim, heads):
    """A random model with tilts, a mean, a covariance and a change of coordinates."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, dim, heads, tilted=True)
    rotation, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    R = rotation * 2.0 ** rng.uniform(-1, 1, dim)
    return model, rng.standard_normal(dim), random_covariance(rng, dim), R


@law
@given(seeds, dims, head_counts)
def test_coordinate_change_commutes_with_the_field(seed, dim, heads):
    model, mean, S, R = case(seed, dim, heads)
    mean_rate, covariance_rate = plain_rates(model, mean, S)
    moved_mean, moved_covariance = plain_rates(model.transform(R), R @ mean, R @ S @ R.T)
    assert relative_error(moved_mean, R @ mean_rate) < 1e-11
    assert relative_error(moved_covariance, R @ covariance_rate @ R.T) < 1e-11


@law
@given(seeds, dims, head_counts)
def test_coordinate_changes_compose_and_undo(seed, dim, heads):
    model, _, _, R = case(seed, dim, heads)
    back = model.transform(R).transform(np.linalg.inv(R))
    twice = model.transform(R).transform(R)
    for key in KEYS:
        np.testing.assert_allclose(getattr(back, key), getattr(model, key), atol=1e-12)
        expected = getattr(model.transform(R @ R), key)
        np.testing.assert_allclose(getattr(twice, key), expected, atol=1e-10)


@law
@given(seeds, dims, head_counts)
def test_whitening_makes_the_covariance_the_identity(seed, dim, heads):
    model, _, S, _ = case(seed, dim, heads)
    values, vectors = np.linalg.eigh(S)
    root = vectors * np.sqrt(values) @ vectors.T
    whitened = model.whiten(S)
    expected = np.linalg.solve(root, model.drift(S) @ root)
    np.testing.assert_allclose(whitened.drift(np.eye(dim)), expected, atol=1e-10)


@law
@given(seeds, dims, head_counts)
def test_head_gauge_leaves_the_covariance_rate(seed, dim, heads):
    model, mean, S, _ = case(seed, dim, heads)
    scale = (-10.0) ** np.arange(1, heads + 1)
    scaled = model.rescale_heads(scale)
    _, covariance_rate = plain_rates(model, mean, S)
    _, scaled_rate = plain_rates(scaled, mean, S)
    assert relative_error(scaled_rate, covariance_rate) < 1e-11
    np.testing.assert_allclose(scaled.V, scale[:, None, None] * model.V, rtol=1e-14)
    np.testing.assert_allclose(scaled.k * scale[:, None], model.k, rtol=1e-14)


@law
@given(seeds, dims, head_counts)
def test_reversal_turns_the_field_round(seed, dim, heads):
    model, mean, S, _ = case(seed, dim, heads)
    backwards = plain_rates(model.reversed(), mean, S)
    for rate, reverse in zip(plain_rates(model, mean, S), backwards, strict=True):
        np.testing.assert_allclose(reverse, -rate, rtol=1e-12, atol=1e-12)
    assert model.reversed().reversed() == model


@pytest.mark.parametrize("change", ["transform", "whiten", "rescale_heads"])
def test_changes_keep_depth_and_name(change):
    model = make(dt=0.25, name="layer")
    changed = getattr(model, change)(2.0 if change == "rescale_heads" else 2 * np.eye(2))
    assert changed.dt == 0.25
    assert changed.name == "layer"


def test_layers_have_no_reverse():
    with pytest.raises(ParameterError, match=r"^dt: reversal needs continuous depth, found"):
        make(dt=0.5).reversed()


@pytest.mark.parametrize("R", [np.zeros((2, 2)), np.ones((2, 2)), np.diag([1.0, 1e-14])])
def test_singular_coordinates_are_refused(R):
    with pytest.raises(ParameterError, match=r"^R: expected an invertible matrix, found c"):
        make().transform(R)


@pytest.mark.parametrize(
    ("method", "value", "name"),
    [
        ("transform", np.eye(3), "R"),
        ("transform", [[1.0, np.nan], [0.0, 1.0]], "R"),
        ("transform", 1e-200 * np.eye(2), "R"),
        ("whiten", np.eye(3), "Sigma"),
        ("whiten", -np.eye(2), "Sigma"),
        ("whiten", [[1.0, 0.5], [0.0, 1.0]], "Sigma"),
        ("whiten", np.ones((2, 2)), "Sigma"),
        ("rescale_heads", 0, "scale"),
        ("rescale_heads", [1.0, 2.0], "scale"),
        ("rescale_heads", np.nan, "scale"),
        ("rescale_heads", True, "scale"),
        ("rescale_heads", 1e-320, "scale"),
    ],
)
def test_changes_check_their_argument(method, value, name):
    with pytest.raises(ValueError, match=f"^{name}: expected .*found .*; ") as caught:
        getattr(make(), method)(value)
    assert isinstance(caught.value, gct.GausscontrolError)
