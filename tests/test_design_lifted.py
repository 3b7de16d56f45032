"""Design with V and B both free: the explicit attention of Theory 4.4, and few heads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import plain_attention_form, random_covariance
from test_design import KEYS, SKEWED, TARGET, check

import gausscontrol as gct
from gausscontrol.errors import SolverError
from gausscontrol.synthesis.design import design
from gausscontrol.synthesis.explicit import (
    constant_diagonal,
    explicit_rearranged,
    heads_of,
    one_head,
)
from gausscontrol.synthesis.lifted import lifted
from gausscontrol.synthesis.nearest import distance_from


def drift_with_trace(seed, dim, trace):
    A = np.random.default_rng([seed, dim]).standard_normal((dim, dim))
    return A + (trace - np.trace(A)) / dim * np.eye(dim)


def largest(V, B):
    return np.linalg.eigvalsh(plain_attention_form(V, B))[-1]


# -- explicit -------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 5), st.floats(0.01, 5))
def test_explicit_attention_is_balanced_at_the_optimal_rate(seed, dim, trace):
    A = drift_with_trace(seed, dim, trace)
    V, B = heads_of(explicit_rearranged(A))
    assert len(V) <= dim**2
    np.testing.assert_allclose((V @ B).sum(axis=0), -A, atol=1e-12 * np.linalg.norm(A))
    np.testing.assert_allclose(largest(V, B), -trace / dim, rtol=1e-9, atol=1e-12)


def test_explicit_attention_is_the_formula():
    A = drift_with_trace(0, 3, 1.0)
    V, B = heads_of(explicit_rearranged(A))
    E = np.random.default_rng(1).standard_normal((3, 3))
    E = E + E.T
    c = 1 / 3
    C0 = (A + A.T) / 2 - c * np.eye(3)
    expected = -c * E - (np.trace(E) * C0 - np.sum(C0 * E) * np.eye(3)) / 3
    expected -= np.trace(E) / 3 * (A - A.T) / 2
    np.testing.assert_allclose((V @ E @ B).sum(axis=0), expected, atol=1e-13)


def test_heads_are_cut_by_singular_values():
    rng = np.random.default_rng(0)
    V, B = rng.standard_normal((2, 2, 3, 3))
    Z = np.einsum("hi,hj->ij", V.reshape(2, 9), B.reshape(2, 9))
    found = heads_of(Z)
    assert len(found[0]) == 2
    E = rng.standard_normal((3, 3))
    np.testing.assert_allclose(
        (found[0] @ E @ found[1]).sum(axis=0), (V @ E @ B).sum(axis=0), atol=1e-12
    )
    for v, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.linalg.norm(v), np.linalg.norm(b))
    assert len(heads_of(Z, 1)[0]) == 1


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_rotation_to_a_constant_diagonal(seed, dim):
    C = np.random.default_rng([seed, dim]).standard_normal((dim, dim))
    C = C + C.T
    Q = constant_diagonal(C)
    np.testing.assert_allclose(Q.T @ Q, np.eye(dim), atol=1e-12)
    np.testing.assert_allclose(np.diag(Q.T @ C @ Q), np.trace(C) / dim, atol=1e-11)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_one_head_is_negative_and_meets_the_equality(seed, dim):
    A = drift_with_trace(seed, dim, 1.0)
    V, B = one_head(A)
    np.testing.assert_allclose(V @ B + (V @ B).T, -A - A.T, atol=1e-9)
    assert np.linalg.eigvalsh(-V)[0] > 0
    assert np.linalg.eigvalsh(B)[0] > 0
    assert largest(V[None], B[None]) < 0


@pytest.mark.parametrize("dt", [0.0, 0.02])
def test_lifted_attention_needs_less_than_the_explicit_one(dt):
    A = drift_with_trace(1, 3, 1.5)
    Z = lifted(A, 0.25, dt)
    V, B = heads_of(Z)
    drift = A + (V @ B).sum(axis=0)
    np.testing.assert_allclose(drift if dt else drift + drift.T, 0, atol=1e-5)
    assert largest(V, B) <= -0.25 * (1 - 1e-5)
    explicit = np.linalg.norm(explicit_rearranged(A), "nuc")
    assert np.linalg.norm(Z, "nuc") < explicit


def test_lifted_attention_cannot_beat_the_trace():
    with pytest.raises(SolverError) as caught:
        lifted(drift_with_trace(1, 2, 1.0), 0.51)
    assert caught.value.status == "infeasible"


# -- few heads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "dim"), [(0, 1), (1, 2), (2, 2), (3, 3), (4, 3), (5, 4)])
def test_any_drift_with_a_positive_trace_is_stabilised(seed, dim):
    A = drift_with_trace(seed, dim, 0.3 * dim)
    rng = np.random.default_rng(seed)
    target = (rng.standard_normal(dim), random_covariance(rng, dim))
    des = design(target, A=A, free=("V", "B"))
    check(des, target, rtol=1e-3)
    assert des.decay_rate >= 0.9 * des.optimal_rate
    assert des.model.n_heads - des.mean_heads <= 3
    np.testing.assert_array_equal(des.model.A, A)


def test_heads_are_as_many_as_the_norms_need():
    counts = []
    for bound in (50.0, 1.2):
        des = design(TARGET, A=SKEWED, free=("V", "B"), norm_bound=bound)
        check(des, TARGET)
        assert max(des.norms["V"], des.norms["B"]) <= bound
        counts.append(des.model.n_heads - des.mean_heads)
    assert counts[0] == 1 < counts[1]


def test_the_number_of_heads_can_be_chosen():
    for heads in (1, 3):
        des = design(TARGET, A=SKEWED, free=("V", "B"), n_heads=heads, decay_rate=0.5)
        check(des, TARGET)
        assert des.model.n_heads - des.mean_heads == heads
        assert des.decay_rate >= 0.5 * (1 - 1e-6)


def test_one_head_is_cheaper_than_the_explicit_one():
    A = drift_with_trace(7, 2, 0.5)
    target = (np.zeros(2), np.eye(2))
    des = design(target, A=A, free=("V", "B"), n_heads=1, decay_rate=0.25)
    V, B = one_head(A)
    explicit = np.linalg.norm(V, 2) * np.linalg.norm(B, 2)
    assert des.norms["V"] * des.norms["B"] <= explicit
    check(des, target)


def test_norms_without_enough_heads_are_the_reason():
    with pytest.raises(gct.InfeasibleDesign, match=r"norm bound: with 1 head a design was found"):
        design(TARGET, A=SKEWED, free=("V", "B"), norm_bound=0.8, n_heads=1)
    with pytest.raises(gct.InfeasibleDesign, match=r"norm bound: tr A .* needs at least 21 heads"):
        design(TARGET, A=SKEWED, free=("V", "B"), norm_bound=0.12)


def test_a_bound_on_one_of_them_is_enough():
    des = design(TARGET, A=SKEWED, free=("V", "B"), norm_bound={"V": 0.3})
    check(des, TARGET)
    assert des.norms["V"] <= 0.3


def test_heads_for_the_mean_keep_the_bound_too():
    des = design(TARGET, A=SKEWED, free=("V", "B"), norm_bound=1.5, mean_decay_rate=4.0)
    check(des, TARGET)
    assert des.norms["V"] <= 1.5
    assert des.mean_heads >= 2
    assert des.mean_decay_rate >= 4 * (1 - 1e-6)
    with pytest.raises(gct.InfeasibleDesign, match="norm bound: the mean needs heads"):
        design(TARGET, A=SKEWED, free=("V", "B"), norm_bound=1.5, mean_decay_rate=40.0)


def test_constraints_hold_on_both():
    def symmetric(variables):
        V, B = variables["V"], variables["B"]
        return [V == V.T, B == B.T]

    des = design(
        (np.zeros(2), np.eye(2)), A=[[0.6, 0.2], [-0.2, 0.4]], free=("V", "B"), n_heads=1,
        constraints=symmetric,
    )  # fmt: skip
    for matrix in (des.model.V[0], des.model.B[0]):
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
    assert des.verify()


def test_initial_heads_are_where_the_search_starts():
    V = [[[-1.0, 0.2], [0.0, -0.6]]]
    start = gct.GaussianTransformer(SKEWED, [KEYS], V, name="trained")
    des = design(TARGET, free=("V", "B"), n_heads=1, decay_rate=0.3, initial=start)
    check(des, TARGET)
    assert des.model.name == "trained"
    np.testing.assert_array_equal(des.model.A, SKEWED)


@pytest.mark.parametrize("rate", [None, 0.3])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_design_near_a_model_is_no_further_than_one_that_changes_less(seed, rate):
    rng = np.random.default_rng(seed)
    V = -0.6 * np.eye(2) + 0.2 * rng.standard_normal((2, 2))
    start = gct.GaussianTransformer(SKEWED, KEYS, V)
    both = design(TARGET, free=("V", "B"), decay_rate=rate, initial=start)
    check(both, TARGET, rtol=1e-3)
    distance = distance_from(start, both.model, TARGET[1])
    rate = rate or both.decay_rate * (1 - 1e-6)
    for free in (("V",), ("B",)):
        try:
            one = design(TARGET, free=free, decay_rate=rate, initial=start)
        except gct.InfeasibleDesign:
            continue
        assert distance <= distance_from(start, one.model, TARGET[1]) * (1 + 1e-4)


def test_near_a_model_bounds_and_constraints_still_hold():
    start = gct.GaussianTransformer(SKEWED, KEYS, -0.6 * np.eye(2))
    bound = {"V": 5.0, "B": 0.9 * np.linalg.norm(KEYS, 2)}
    des = design(TARGET, free=("V", "B"), decay_rate=0.3, initial=start, norm_bound=bound)
    check(des, TARGET, rtol=1e-3)
    assert des.norms["B"] <= bound["B"]
    assert (des.free, des.bounds) == (("V", "B"), bound)
    des = design(
        (np.zeros(2), np.eye(2)), free=("V", "B"), n_heads=1, decay_rate=0.1, initial=start,
        constraints=lambda v: [v["B"] == v["B"].T],
    )  # fmt: skip
    np.testing.assert_allclose(des.model.B[0], des.model.B[0].T, atol=1e-9)


def test_distance_counts_heads_that_one_side_lacks():
    one = gct.GaussianTransformer(SKEWED, KEYS, -np.eye(2))
    two = gct.GaussianTransformer(SKEWED, [KEYS, 0 * KEYS], [-np.eye(2), -0.5 * np.eye(2)])
    np.testing.assert_allclose(distance_from(one, two, TARGET[1]), np.sqrt(0.5))
    other = one.replace(B=KEYS + np.eye(2))
    np.testing.assert_allclose(distance_from(one, other, TARGET[1]), 1.5 * np.sqrt(2))


def test_residual_layers():
    des = design(TARGET, A=SKEWED, free=("V", "B"), dt=0.05)
    np.testing.assert_allclose(des.model.drift(TARGET[1]), 0, atol=1e-10)
    assert des.model.dt == 0.05 < des.largest_step
    assert des.verify()


def test_beyond_the_solver_heads_are_written_down():
    dim = 12
    A = drift_with_trace(0, dim, 6.0)
    target = (np.ones(dim), random_covariance(np.random.default_rng(0), dim, condition=10.0))
    des = design(target, A=A, free=("V", "B"))
    assert des.status == "explicit"
    assert des.problem is None
    assert des.model.n_heads - des.mean_heads <= dim**2
    np.testing.assert_allclose(des.decay_rate, 1.0, rtol=1e-3)
    assert des.verify()
