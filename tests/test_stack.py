"""LayerStack: construction, durations, slices, equality, errors (Theory 1.4)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer

law = settings(derandomize=True, deadline=None, max_examples=50)


def layer(dt=0.0, A=0.5, dim=1):
    return GaussianTransformer(A * np.eye(dim), np.eye(dim), -np.eye(dim), dt=dt)


def residual(*depths):
    return LayerStack([layer(dt, A=i) for i, dt in enumerate(depths)])


positive = st.floats(1e-3, 1e3)


# Construction


def test_layers_keep_their_order():
    layers = [layer(0.1 * (i + 1), A=i) for i in range(4)]
    stack = LayerStack(layers)
    assert stack.models == tuple(layers)
    assert list(stack) == layers
    assert len(stack) == 4
    assert stack[2] is layers[2]
    assert stack[-1] is layers[3]
    assert stack.dim == 1
    assert layers[1] in stack
    assert stack.index(layers[3]) == 3
    assert list(reversed(stack)) == layers[::-1]


def test_any_iterable_or_one_model_will_do():
    layers = [layer(0.5), layer(0.25)]
    assert LayerStack(iter(layers)) == LayerStack(tuple(layers)) == LayerStack(layers)
    assert LayerStack(layers[0]) == LayerStack(layers[:1])
    assert LayerStack(LayerStack(layers)) == LayerStack(layers)


def test_layers_may_differ_in_heads_and_kind():
    W = np.eye(2)
    layers = [
        GaussianTransformer(W, np.ones((3, 2, 2)), np.ones((3, 2, 2)), dt=1),
        GaussianTransformer.from_weights(W, W, W, W),
    ]
    stack = LayerStack(layers, [1, 2])
    assert [each.n_heads for each in stack] == [3, 1]
    assert stack.dim == 2


# Durations


def test_a_residual_layer_acts_for_its_dt():
    stack = residual(0.5, 0.25, 2)
    np.testing.assert_array_equal(stack.durations, [0.5, 0.25, 2])
    np.testing.assert_array_equal(stack.boundaries, [0, 0.5, 0.75, 2.75])
    assert stack.depth == 2.75


def test_a_continuous_layer_acts_for_the_duration_it_is_given():
    stack = LayerStack([layer(), layer(0.5), layer()], [3, 0.5, 1])
    np.testing.assert_array_equal(stack.boundaries, [0, 3, 3.5, 4.5])
    np.testing.assert_array_equal(LayerStack(layer(), 2).durations, [2])
    assert stack.durations.dtype == float


@law
@given(st.lists(st.tuples(positive, st.booleans()), min_size=1, max_size=6))
def test_boundaries_are_the_sums_of_durations(parts):
    durations = [duration for duration, _ in parts]
    stack = LayerStack([layer(dt * discrete) for dt, discrete in parts], durations)
    np.testing.assert_array_equal(stack.durations, durations)
    assert stack.boundaries[0] == 0
    assert (np.diff(stack.boundaries) > 0).all()
    np.testing.assert_allclose(np.diff(stack.boundaries), durations, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(stack.depth, sum(durations), rtol=1e-12)


def test_durations_are_copied_and_read_only():
    durations = np.array([1.0, 2.0])
    stack = LayerStack([layer(), layer()], durations)
    durations[0] = 5
    np.testing.assert_array_equal(stack.durations, [1, 2])
    for array in (stack.durations, stack.boundaries):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_dt_of_a_residual_layer_may_be_repeated():
    stack = LayerStack([layer(0.1), layer(0.3)], [0.1, 0.1 + 0.2])  # Up to rounding.
    np.testing.assert_allclose(stack.durations, [0.1, 0.3], rtol=1e-15)


@pytest.mark.parametrize(
    ("depths", "durations", "kind", "words"),
    [
        ((1, 0), None, ParameterError, "expected one for each layer, found none although layer 1"),
        ((0, 0), [1], ShapeError, r"expected a vector of 2 entries, found shape \(1,\)"),
        ((0, 0), 1.0, ShapeError, "expected a vector of 2 entries"),
        ((0, 0), [1, 0], ParameterError, "expected positive depths, found 0; drop such layers"),
        ((0, 0), [1, -2], ParameterError, "expected positive depths, found -2"),
        ((0, 0), [1, np.inf], ParameterError, "expected finite numbers"),
        ((0, 0), [1, np.nan], ParameterError, "expected finite numbers"),
        ((0, 0), ["1", "2"], ParameterError, "expected real numbers"),
        ((0, 1), [1, 2], ParameterError, "expected 1, the dt of residual layer 1, found 2; "),
    ],
)
def test_durations_that_do_not_fit(depths, durations, kind, words):
    with pytest.raises(kind, match=f"^durations: {words}") as caught:
        LayerStack([layer(dt) for dt in depths], durations)
    assert "\n" not in str(caught.value)


# Slices


def test_a_slice_is_a_stack_with_its_own_durations():
    stack = LayerStack([layer(0, A=i) for i in range(4)], [1, 2, 3, 4])
    part = stack[1:3]
    assert isinstance(part, LayerStack)
    assert part.models == stack.models[1:3]
    np.testing.assert_array_equal(part.durations, [2, 3])
    np.testing.assert_array_equal(part.boundaries, [0, 2, 5])
    np.testing.assert_array_equal(stack[::-1].durations, [4, 3, 2, 1])
    assert stack[:] == stack
    assert stack[::-1][::-1] == stack


@law
@given(st.lists(positive, min_size=2, max_size=6), st.data())
def test_two_parts_are_as_deep_as_the_whole(depths, data):
    stack = residual(*depths)
    cut = data.draw(st.integers(1, len(depths) - 1))
    first, second = stack[:cut], stack[cut:]
    np.testing.assert_allclose(first.depth + second.depth, stack.depth, rtol=1e-12)
    assert LayerStack([*first, *second]) == stack


def test_an_empty_slice_and_a_far_index_are_refused():
    stack = residual(1, 2)
    with pytest.raises(ParameterError, match="models: expected at least one layer, found none"):
        stack[2:]
    with pytest.raises(IndexError):
        stack[2]


# Equality


def test_equality_is_that_of_layers_and_durations():
    stack = LayerStack([layer(), layer()], [1, 2])
    assert stack == LayerStack([layer(), layer()], (1.0, 2.0))
    assert hash(stack) == hash(LayerStack([layer(), layer()], (1.0, 2.0)))
    assert stack != LayerStack([layer(), layer()], [2, 1])
    assert stack != LayerStack([layer(), layer(A=2)], [1, 2])
    assert stack != LayerStack([layer()], [1])
    assert stack != list(stack)
    assert residual(1) != layer(1)
    assert len({stack, LayerStack([layer(), layer()], [1, 2]), residual(1)}) == 2


def test_pickling():
    stack = LayerStack([layer(0.5), layer()], [0.5, 2])
    again = pickle.loads(pickle.dumps(stack))
    assert again == stack
    np.testing.assert_array_equal(again.boundaries, stack.boundaries)


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        (residual(0.5, 1), "2 residual layers, d = 1, 1 head, depth 1.5"),
        (LayerStack([layer()] * 3, [1, 2, 3]), "3 continuous layers, d = 1, 1 head, depth 6"),
        (LayerStack([layer(), layer(1)], [1, 1]), "2 mixed layers, d = 1, 1 head, depth 2"),
        (
            LayerStack(
                [layer(), GaussianTransformer(1, np.ones((4, 1, 1)), np.ones((4, 1, 1)))], [1, 1]
            ),
            "2 continuous layers, d = 1, 1/4 heads, depth 2",
        ),
    ],
)
def test_repr_is_one_line(stack, text):
    assert repr(stack) == f"<LayerStack of {text}>"


# Errors


@pytest.mark.parametrize(
    ("models", "kind", "words"),
    [
        ([], ParameterError, "models: expected at least one layer, found none"),
        ([layer(1), 3], ParameterError, r"models\[1\]: expected a GaussianTransformer, found int"),
        ([None], ParameterError, r"models\[0\]: expected a GaussianTransformer, found NoneType"),
        ("ab", ParameterError, r"models\[0\]: expected a GaussianTransformer, found str"),
        (
            [layer(1), layer(1), layer(1, dim=2)],
            ShapeError,
            r"models\[2\]: expected d = 1 as in the first layer, found 2; ",
        ),
    ],
)
def test_layers_that_are_none(models, kind, words):
    with pytest.raises(kind, match=f"^{words}") as caught:
        LayerStack(models)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        gct.find_equilibrium,
        gct.analyze,
        gct.classify,
        gct.moment_system,
        gct.phase_plot,
        lambda stack: gct.certify_global_stability(stack, np.eye(2)),
        lambda stack: gct.steer((np.zeros(2), np.eye(2)), (np.ones(2), np.eye(2)), 1, model=stack),
    ],
)
def test_where_one_layer_is_wanted_a_stack_is_told_what_to_do(call):
    stack = gct.LayerStack([gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2), dt=0.1)] * 2)
    with pytest.raises(gct.ParameterError, match=r"found LayerStack \(2 layers\).*moment_response"):
        call(stack)
    with pytest.raises(gct.ParameterError, match=r"found int.*GaussianTransformer\(A, B, V\)"):
        call(1)
