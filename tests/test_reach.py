"""Which Gaussian can become which, and what a refusal says."""

import numpy as np
import pytest

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.model.moments import pack
from gausscontrol.synthesis.reach import is_reachable
from gausscontrol.synthesis.steering import steer


def covariance(rng, d, r):
    L = rng.standard_normal((d, r))
    return L @ L.T


@pytest.mark.parametrize("d", range(1, 7))
def test_every_rank_mismatch_is_refused_with_both_ranks(d):
    rng = np.random.default_rng(d)
    for first in range(d + 1):
        for second in range(d + 1):
            start = rng.standard_normal(d), covariance(rng, d, first)
            goal = rng.standard_normal(d), covariance(rng, d, second)
            assert is_reachable(start, goal) == (first == second)
            if first != second:
                message = f"rank {first} cannot become rank {second}: rank is invariant"
                with pytest.raises(UnreachableError, match=message) as refusal:
                    steer(start, goal, 1.0)
                assert "singular values" in str(refusal.value)
                assert "tolerance 1e-13 of the largest" in str(refusal.value)
                assert "\n" not in str(refusal.value)


def test_near_rank_deficiency_is_told_with_its_side():
    start, goal = np.diag([1.0, 1e-12]), np.diag([1.0, 3e-14])
    with pytest.raises(UnreachableError) as refusal:
        steer(start, goal, 1.0)
    text = str(refusal.value)
    assert "singular value 2 of the start, 1e-12 of the largest, is above the tolerance" in text
    assert "singular value 2 of the goal, 3e-14 of the largest, is below the tolerance" in text
    assert "pass rank=1 or rank=2" in text
    assert not is_reachable(start, goal)


def test_a_clear_case_is_not_called_near():
    with pytest.raises(UnreachableError) as refusal:
        steer(np.eye(2), np.diag([1.0, 0.0]), 1.0)
    assert "is above" not in str(refusal.value)
    assert "change one of them" in str(refusal.value)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_user_decides_a_near_case(rank):
    start, goal = np.diag([1.0, 1e-12]), np.diag([4.0, 3e-14])
    plan = steer(start, goal, 1.0, rank=rank)
    assert plan.rank == rank
    assert np.linalg.matrix_rank(plan.start[1], tol=1e-20) == rank
    assert ("is above the tolerance" in str(plan)) == (rank == 2)


def test_an_accepted_near_case_is_reported():
    report = str(steer(np.diag([1.0, 1e-12]), np.eye(2), 1.0))
    assert "singular value 2 of the start, 1e-12 of the largest, is above the tolerance" in report


@pytest.mark.parametrize(
    ("rank", "error", "message"),
    [
        (1, UnreachableError, "start cannot count as rank 1, since its singular value 2 is 1 of"),
        (3, UnreachableError, "start cannot count as rank 3, since its singular value 3 is 0 of"),
        (4, ParameterError, "rank: expected an integer from 0 to 3"),
        (True, ParameterError, "rank: expected an integer"),
        (1.5, ParameterError, "rank: expected an integer"),
    ],
)
def test_a_rank_that_is_wrong_is_refused(rank, error, message):
    S = np.diag([1.0, 1.0, 0.0])
    with pytest.raises(error, match=message):
        steer(S, S, 1.0, rank=rank)


def test_gaussians_are_read_in_every_form():
    mean, S = np.ones(2), np.diag([2.0, 1.0])
    for form in ((mean, S), [mean, S], pack(mean, S), S, [[2, 0], [0, 1]]):
        assert is_reachable(form, np.eye(2))
    assert is_reachable(1.0, (0.0, 4.0))
    assert not is_reachable(1.0, (3.0, 0.0))


@pytest.mark.parametrize(
    ("start", "goal", "error", "message"),
    [
        (np.eye(2), np.eye(3), ShapeError, "goal: expected a 2 x 2"),
        (np.ones(4), np.eye(2), ShapeError, "start: expected d . d"),
        (-np.eye(2), np.eye(2), ParameterError, "start: expected a positive semidefinite"),
        (np.eye(2), (np.zeros(3), np.eye(2)), ShapeError, "goal mean: expected"),
    ],
)
def test_bad_arguments(start, goal, error, message):
    with pytest.raises(error, match=message):
        is_reachable(start, goal)
