"""Which Gaussian can become which, and what a refusal says."""

import numpy as np
import pytest

from gausscontrol.errors import ParameterError, ShapeError, UnreachableError
from gausscontrol.model.packing import pack
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


def near(share):
    """Return correlations whose smallest eigenvalue has this share of the largest."""
    r = (1 - share) / (1 + share)
    return np.array([[1.0, r], [r, 1.0]])


def test_units_of_coordinates_do_not_decide_the_rank():
    start, goal = np.diag([1e8, 1e-8]), np.diag([1e8, 4e-8])
    assert is_reachable(start, goal)
    assert not is_reachable(start, np.diag([1e8, 0.0]))
    plan = steer(start, goal, 4.0)
    assert plan.rank == 2
    assert plan.energy == pytest.approx(1e-8 / 4, rel=1e-12)
    end = plan.response([0, 4.0]).covariance[:, :, -1]
    np.testing.assert_allclose(np.diag(end), [1e8, 4e-8], rtol=1e-9)
    with pytest.raises(UnreachableError, match=r"\(1, 1\) of the start's and \(1, 0\) of"):
        steer(start, np.diag([1e8, 0.0]), 1.0)


def test_near_rank_deficiency_is_told_with_its_side():
    start, goal = near(1e-12), near(3e-14)
    with pytest.raises(UnreachableError) as refusal:
        steer(start, goal, 1.0)
    text = str(refusal.value)
    assert "second singular value of the start, 1e-12 of the largest, is above the tol" in text
    assert "second singular value of the goal, 3e-14 of the largest, is below the tol" in text
    assert "pass rank=1 or rank=2" in text
    assert not is_reachable(start, goal)


def test_a_clear_case_is_not_called_near():
    with pytest.raises(UnreachableError) as refusal:
        steer(np.eye(2), np.diag([1.0, 0.0]), 1.0)
    assert "is above" not in str(refusal.value)
    assert "change one of them" in str(refusal.value)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_user_decides_a_near_case(rank):
    start, goal = near(1e-12), 4 * near(3e-14)
    plan = steer(start, goal, 1.0, rank=rank)
    assert plan.rank == rank
    assert np.linalg.matrix_rank(plan.start[1], tol=1e-14) == rank
    assert ("is above the tolerance" in str(plan)) == (rank == 2)


def test_an_accepted_near_case_is_reported():
    report = str(steer(near(1e-12), np.eye(2), 1.0))
    assert "second singular value of the start, 1e-12 of the largest, is above the" in report


def test_a_rank_by_request_drops_what_is_small_in_either_scale():
    plan = steer(np.diag([1.0, 1e-12]), np.diag([4.0, 3e-14]), 1.0, rank=1)
    np.testing.assert_allclose(plan.goal[1], np.diag([4.0, 0.0]), atol=1e-15)
    assert plan.energy == pytest.approx(1)


@pytest.mark.parametrize(
    ("rank", "error", "message"),
    [
        (1, UnreachableError, "cannot count as rank 1, since its second singular value is 1"),
        (3, UnreachableError, "cannot count as rank 3, since its third singular value is 0"),
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
        (np.zeros(2), np.eye(2), ShapeError, "start, a vector of 2 entries, was read as a packed"),
        (np.ones(4), np.eye(2), ShapeError, "start: expected d . d"),
        (-np.eye(2), np.eye(2), ParameterError, "start: expected a positive semidefinite"),
        (np.eye(2), (np.zeros(3), np.eye(2)), ShapeError, "goal mean: expected"),
    ],
)
def test_bad_arguments(start, goal, error, message):
    with pytest.raises(error, match=message):
        is_reachable(start, goal)
