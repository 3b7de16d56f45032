"""Signals that feed each other: substitution, cycles, units, singular loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gausscontrol.errors import ParameterError
from gausscontrol.systems.loops import shortened, solve_loop

few = settings(derandomize=True, deadline=None, max_examples=30)


def solved(loop, right):
    return solve_loop(loop, right, "loop", [f"u{i}" for i in range(len(loop))])


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_equation_holds_row_by_row_in_any_units(seed, size):
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-8, 8, size)
    loop = rng.standard_normal((size, size)) * (rng.random((size, size)) < 0.5)
    exact = rng.standard_normal((size, 3))
    right = units[:, None] * (exact - loop @ exact)
    loop = units[:, None] * loop / units
    solution = solved(loop, right)
    size_of_terms = np.abs(solution) + np.abs(loop) @ np.abs(solution) + np.abs(right)
    residual = np.abs(loop @ solution + right - solution)
    assert (residual <= 1e-14 * size_of_terms).all()


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_overflow_without_a_cycle_is_refused(seed, size):
    loop = np.diag(np.full(size + 1, 1e200), -1)
    right = np.eye(size + 2)[:, 0] * 1e150
    with pytest.raises(ParameterError, match=r"finite signals in loop, found NaN .* at u1"):
        solved(loop, right)
    order = np.random.default_rng(seed).permutation(size + 2)
    with pytest.raises(ParameterError, match="finite signals in loop"):
        solved(loop[np.ix_(order, order)], right[order])


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_without_a_cycle_the_equation_holds_to_the_last_bit(seed, size):
    rng = np.random.default_rng(seed)
    order = rng.permutation(size)
    loop = np.tril(10.0 ** rng.uniform(-9, 9, (size, size)), -1)[np.ix_(order, order)]
    right = rng.standard_normal(size)
    solution = solved(loop, right)
    assert np.array_equal(loop @ solution + right, solution)


def test_nothing_to_solve():
    right = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(solved(np.zeros((3, 3)), right), right)
    assert solved(np.zeros((0, 0)), np.zeros((0, 2))).shape == (0, 2)


def test_singular_loop_is_named_alone():
    loop = np.diag([0.5, 1.0, 0.0, 2.0])
    loop[2, 0] = 1e9
    with pytest.raises(ParameterError, match=r"in loop, found I - K D singular at u1;"):
        solved(loop, np.zeros(4))
    loop[1, 1] = 1 - 1e-12
    assert solved(loop, np.array([0, 1.0, 0, 0]))[1] == pytest.approx(1e12, rel=1e-3)


def test_names_are_shortened():
    assert shortened(["a"]) == "a"
    assert shortened(list("abcdefg")) == "a, b, c, d, e and 2 more"
