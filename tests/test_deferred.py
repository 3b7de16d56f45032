"""Modules that are imported late: cvxpy only where a programme is posed."""

import subprocess
import sys

import cvxpy as cp
import pytest

from gausscontrol.linalg import lmi
from gausscontrol.linalg.deferred import Deferred

POSED = """
import sys
import numpy as np
import gausscontrol as gct
from gausscontrol.cli import main

model = gct.GaussianTransformer(0.5 * np.eye(2), np.eye(2), -np.eye(2))
print("cvxpy" in sys.modules)
gct.certify_global_stability(model, gct.find_equilibrium(model))
print("cvxpy" in sys.modules)
gct.design((np.zeros(2), np.eye(2)), A=model.A, B=model.B, norm_bound=2, constraints=lambda v: [])
print("cvxpy" in sys.modules)
"""


def test_cvxpy_is_imported_where_a_programme_is_posed():
    done = subprocess.run(
        [sys.executable, "-c", POSED], capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["False", "False", "True"]


def test_statuses_are_those_of_cvxpy():
    assert (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT) == lmi.USABLE
    assert (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE) == lmi.INFEASIBLE
    assert (cp.UNBOUNDED, cp.UNBOUNDED_INACCURATE) == lmi.UNBOUNDED


def test_a_deferred_module_has_what_the_module_has():
    deferred = Deferred("cvxpy.atoms")
    assert deferred.trace is cp.trace
    assert "imported when it is needed" in repr(deferred)
    with pytest.raises(AttributeError, match="no_such"):
        _ = deferred.no_such
    with pytest.raises(ModuleNotFoundError):
        _ = Deferred("no_such_module_at_all").anything
