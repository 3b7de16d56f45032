import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from gausscontrol.errors import ParameterError, SolverError
from gausscontrol.linalg import lmi
from gausscontrol.linalg.symmetric import svec

M = np.array([[-1.0, 2.0], [0.0, -3.0]])


def lyapunov_program(M, margin):
    program = lmi.Program("Lyapunov inequality")
    P = program.symmetric(len(M), "P")
    program.above(P, 1.0)
    program.below(M.T @ P + P @ M, margin)
    return program, P


@pytest.mark.parametrize("solver", [None, "CLARABEL", "scs"])
def test_a_feasible_inequality_is_solved(solver):
    program, P = lyapunov_program(M, 1e-3)
    solution = program.solve(minimise=lmi.trace(P), solver=solver)
    value = solution[P]
    assert np.linalg.eigvalsh(value)[0] > 0.99
    assert np.linalg.eigvalsh(M.T @ value + value @ M)[-1] < 0
    assert_allclose(value, value.T, rtol=0, atol=0)
    assert solution.margin >= 0.5
    assert solution.status == "optimal"


def test_optimal_by_scs_for_an_infeasible_inequality_is_refused():
    # M has the eigenvalue 1e-7, so that no P > 0 makes M^T P + P M negative definite.
    program, P = lyapunov_program(np.diag([-1.0, 1e-7]), 1e-6)
    problem = cp.Problem(cp.Minimize(0), program._constraints)
    problem.solve(solver="SCS")
    assert problem.status == "optimal"
    with pytest.raises(SolverError, match=r"keeps .* of its margin") as caught:
        program.solve(solver="SCS", options={"eps_abs": 1e-4, "eps_rel": 1e-4})
    assert caught.value.status == "refused"
    with pytest.raises(SolverError):
        program.solve(minimise=lmi.trace(P))


def test_infeasible_and_unbounded_are_told_apart():
    program, P = lyapunov_program(np.eye(2), 1e-3)
    with pytest.raises(SolverError, match="no point meets") as caught:
        program.solve()
    assert caught.value.status == "infeasible"
    program, P = lyapunov_program(M, 1e-3)
    with pytest.raises(SolverError, match=r"CLARABEL .* 4 variables") as caught:
        program.solve(maximise=lmi.trace(P))
    assert caught.value.status == "unbounded"


@pytest.mark.parametrize(
    ("equalities", "inequalities", "told"),
    [
        (0, 0, "for 1 variable, no equalities and no inequalities "),
        (1, 1, "for 1 variable, 1 equality and 1 inequality "),
        (2, 3, "for 1 variable, 2 equalities and 3 inequalities "),
    ],
)
def test_the_size_of_a_programme_is_told_in_words(equalities, inequalities, told):
    program = lmi.Program("sizes")
    x = program.scalar()
    for _ in range(equalities):
        program.equal(x)
    for k in range(inequalities):
        program.above(x + 1, 0.5 * k)  # strict or not
    with pytest.raises(SolverError, match=told):
        program.solve(minimise=x, solver="none")


def test_an_unknown_solver_is_an_error_of_ours():
    program, _ = lyapunov_program(M, 1e-3)
    with pytest.raises(SolverError, match="NONE found no usable point"):
        program.solve(solver="none")


def test_solvers_are_checked_before_they_are_used():
    assert lmi.check_solver("scs") == "SCS"
    assert lmi.check_solver("CLARABEL") == "CLARABEL"
    for name, reason in (("FOO", "not installed"), ("scipy", "no semidefinite"), (3, "found 3")):
        with pytest.raises(ParameterError, match=f"solver: expected one of .*SCS.*{reason}"):
            lmi.check_solver(name)


def test_margins_mean_a_multiple_of_the_identity():
    program = lmi.Program()
    X = program.symmetric(2)
    program.above(X, 1.0)
    assert_allclose(program.solve(minimise=lmi.trace(X))[X], np.eye(2), atol=1e-6)


def test_equalities_go_on_one_triangle():
    target = np.array([[2.0, 1.0], [1.0, 3.0]])
    program = lmi.Program()
    X = program.matrix(2, 2)
    program.equal(X + X.T, 2 * target, symmetric=True)
    solution = program.solve(minimise=lmi.sum_squares(X))
    assert_allclose(solution[X], target, atol=1e-7)
    assert program.problem.size_metrics.num_scalar_eq_constr == 3


def test_parameters_reuse_the_compiled_problem():
    program = lmi.Program()
    x, level = program.scalar(), program.parameter()
    program.above(x - level)
    for value in (1.0, -2.0):
        level.value = value
        solution = program.solve(minimise=x)
        assert_allclose(solution[x], value, atol=1e-6)
        problem = program.problem
    assert program.problem is problem


def test_norms_and_svec():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 3))
    S = X + X.T
    constant = cp.Constant(S)
    assert_allclose(lmi.svec(constant).value, svec(S))
    assert_allclose(lmi.spectral_norm(constant).value, np.linalg.norm(S, 2))
    assert_allclose(lmi.nuclear_norm(constant).value, np.linalg.norm(S, "nuc"))
    assert_allclose(lmi.frobenius_norm(constant).value, np.linalg.norm(S))


def test_the_same_expression_is_minimised_and_maximised():
    program = lmi.Program()
    x = program.scalar()
    program.add([x >= -1, x <= 2])
    for goal, expected in (("minimise", -1.0), ("maximise", 2.0)):
        assert_allclose(program.solve(**{goal: x})[x], expected, atol=1e-6)


def test_only_constraints_are_added():
    with pytest.raises(ParameterError, match="constraints: expected cvxpy constraints, found bool"):
        lmi.Program().add([True])
