"""Names of signals against the positions they stand for."""

import numpy as np
import pytest
from problems import random_covariance

import gausscontrol as gct
from gausscontrol.systems.labels import factor_labels, moment_labels


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_covariance_label_names_the_vech_entry(dim):
    S = random_covariance(np.random.default_rng(dim), dim)
    for n, value in enumerate(gct.vech(S)):
        i, j = map(int, gct.covariance_label(n, dim)[6:-1].split(","))
        assert i >= j
        assert value == S[i, j]


@pytest.mark.parametrize("n", [-1, 3])
def test_covariance_label_out_of_range(n):
    with pytest.raises(gct.ParameterError, match="n: expected 0 to 2"):
        gct.covariance_label(n, 2)


def test_states_of_both_forms():
    assert moment_labels(2) == ["mu[0]", "mu[1]", "Sigma[0]", "Sigma[1]", "Sigma[2]"]
    assert factor_labels(2, 1) == ["mu[0]", "mu[1]", "L[0]", "L[1]"]
