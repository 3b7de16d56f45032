"""Integers instead of rounding: ranks and sums of tensor products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gausscontrol.linalg.exact import exact_rank, integers, tensor_sum

FEW = settings(derandomize=True, deadline=None, max_examples=30)


@FEW
@given(st.integers(0, 10**6), st.integers(-200, 200))
def test_integers_times_a_power_are_the_array(seed, power):
    array = np.random.default_rng(seed).standard_normal((3, 4)) * 10.0**power
    array[0, 0] = 0.0
    numerators, exponent = integers(array)
    back = [[int(n) * 2**exponent if exponent >= 0 else int(n) / 2**-exponent for n in row]
            for row in numerators]  # fmt: skip
    np.testing.assert_array_equal(np.array(back, dtype=float), array)


def test_integers_of_zero():
    numerators, exponent = integers(np.zeros(3))
    assert (numerators == 0).all()
    assert exponent == 0


@FEW
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 10**6))
def test_rank_of_integer_products(dim, rank, seed):
    rng = np.random.default_rng(seed)
    left = rng.integers(-9, 10, (dim + 2, rank)).astype(float)
    right = rng.integers(-9, 10, (rank, dim)).astype(float)
    product = left @ right  # integers far below 2^53: no rounding
    assert exact_rank(product) == np.linalg.matrix_rank(product)
    assert exact_rank(product * 2.0**-40) == exact_rank(product)


def test_the_last_digit_counts():
    singular = np.array([[1.0, 3.0], [3.0, 9.0]])
    assert exact_rank(singular) == 1
    singular[1, 1] = np.nextafter(9.0, 10.0)
    assert np.linalg.matrix_rank(singular) == 1
    assert exact_rank(singular) == 2


@pytest.mark.parametrize("scales", [(1e-300, 1e300), (1e-160, 1.0)])
def test_rank_over_the_whole_range(scales):
    small, large = scales
    assert exact_rank(np.array([[small, 0.0], [0.0, large]])) == 2
    assert exact_rank(np.array([[small, large], [2 * small, 2 * large]])) == 1
    assert exact_rank(np.zeros((3, 2))) == 0


def test_tensor_sum_cancels_exactly():
    rng = np.random.default_rng(0)
    V, B = rng.standard_normal((2, 3, 3))
    heads = tensor_sum([[V], [-V]], [[B], [B]])
    assert (heads == 0).all()
    assert (tensor_sum([[V], [-V]], [[B], [np.nextafter(B, 9)]]) != 0).any()


def test_tensor_sum_multiplies_factors():
    O, U = np.array([[2.0], [1.0]]), np.array([[3.0, 0.5]])
    B = np.array([[1.0, 2.0], [0.0, 4.0]])
    by_factors, whole = tensor_sum([[O, U]], [[B]]), tensor_sum([[O @ U]], [[B]])
    ratio = {a / b for a, b in zip(by_factors.ravel(), whole.ravel(), strict=True) if b}
    assert len(ratio) == 1  # one common power of two
    assert np.log2(ratio.pop()).is_integer()
    assert ((by_factors == 0) == (whole == 0)).all()
