"""The input vector: where each offset stands, and what is no offset."""

import numpy as np
import pytest
from problems import random_model

import gausscontrol as gct
from gausscontrol.systems.arguments import INPUTS
from gausscontrol.systems.inputs import InputLayout


def one_head(dim):
    identity = np.eye(dim)
    return gct.GaussianTransformer(0.5 * identity, identity, -0.5 * identity)


@pytest.mark.parametrize("channels", [(), ("b",), ("V", "A"), INPUTS])
def test_split_undoes_vector(channels):
    rng = np.random.default_rng(0)
    model = random_model(rng, 3, 2)
    layout = InputLayout(model, channels)
    offsets = {key: rng.standard_normal(getattr(model, key).shape) for key in channels}
    u = layout.vector(offsets)
    assert u.shape == (layout.size,) == (len(list(layout.labels())),)
    assert list(layout.split(u)) == list(channels)
    for key, part in layout.split(u).items():
        assert np.array_equal(part, offsets[key])


def test_input_vector_carries_time():
    system = gct.moment_system(one_head(2), inputs=("k", "V", "b"))
    V = np.arange(4.0).reshape(2, 2)
    b = np.arange(6.0).reshape(2, 3)
    u = system.input_vector(b=b, V=V)
    assert u.shape == (8, 3)
    assert np.array_equal(u[:2], np.zeros((2, 3)))
    assert np.array_equal(u[2:6], np.repeat(V.reshape(4, 1), 3, axis=1))
    assert np.array_equal(u[6:], b)
    for shaped in (V, V[None], V[None, :, :, None]):  # one head may drop its axis
        assert np.array_equal(system.input_vector(V=shaped).reshape(8, -1)[2:6, 0], V.reshape(-1))
    assert system.input_vector(V=np.repeat(V[..., None], 7, axis=2)).shape == (8, 7)


def test_input_vector_at_one_dimension():
    system = gct.moment_system(one_head(1), inputs=("V", "k"))
    assert np.array_equal(system.input_vector(V=2, k=3.0), [2, 3])
    assert np.array_equal(system.input_vector(V=np.arange(4.0).reshape(1, 1, 4))[0], range(4))


def test_input_vector_refuses():
    model = random_model(np.random.default_rng(1), 2, 2, tilted=True)
    system = gct.moment_system(model, inputs=("b", "V"))
    with pytest.raises(TypeError, match="unrecognized keyword: Q"):
        system.input_vector(Q=1)
    with pytest.raises(gct.ParameterError, match="A: expected one of this system's inputs, b, V"):
        system.input_vector(A=np.eye(2))
    with pytest.raises(gct.ShapeError, match="V: expected an offset of shape"):
        system.input_vector(V=np.eye(2))  # two heads
    with pytest.raises(gct.ShapeError, match="b: expected an offset"):
        system.input_vector(b=np.ones((2, 3, 4)))
    with pytest.raises(gct.ShapeError, match="offsets: expected one number of time points"):
        system.input_vector(b=np.ones((2, 3)), V=np.ones((2, 2, 2, 4)))
    with pytest.raises(gct.ParameterError, match="b: expected finite"):
        system.input_vector(b=[np.nan, 0])
