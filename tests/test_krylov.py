"""What ARPACK is not believed."""

import numpy as np
import pytest
from problems import random_model

from gausscontrol.analysis import krylov
from gausscontrol.analysis.spectra import dense_operator, linear_operator
from gausscontrol.errors import GausscontrolError


def test_what_is_no_eigenpair_is_refused():
    rng = np.random.default_rng(3)
    model = random_model(rng, 4, 1)

    def lying(operator, **_):
        return np.full(4, 7.0), rng.standard_normal((operator.shape[0], 4))

    with pytest.raises(GausscontrolError, match="no reliable"):
        krylov.extreme_eigenvalues(lying, linear_operator(model), "LM")


def test_starts_that_disagree_are_refused():
    model = random_model(np.random.default_rng(4), 4, 1)
    values, vectors = np.linalg.eigh(dense_operator(model) + dense_operator(model).T)
    calls = []

    def wavering(operator, **_):
        calls.append(0)
        pick = [len(calls) - 1]
        return values[pick] + krylov._size(matrix), vectors[:, pick]

    matrix = dense_operator(model) + dense_operator(model).T
    with pytest.raises(GausscontrolError, match="no reliable"):
        krylov.extreme_eigenvalues(wavering, matrix, "LA")
