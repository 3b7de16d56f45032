"""Small semidefinite programmes with known values, and against another solver."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from gausscontrol.errors import SolverError
from gausscontrol.linalg import interior, lmi
from gausscontrol.linalg.symmetric import smat, svec


def rows(*matrices):
    return scipy.sparse.csr_array(np.array([svec(np.asarray(M, dtype=float)) for M in matrices]))


def random_programme(rng, count, sizes):
    """A, b, c with interior points on both sides."""
    entries = sum(size * (size + 1) // 2 for size in sizes)
    A = rng.standard_normal((count, entries)) * (rng.random((count, entries)) < 0.6)
    inside = []
    for _ in range(2):
        blocks = [rng.standard_normal((size, 2 * size)) for size in sizes]
        inside.append(np.concatenate([svec(X @ X.T) for X in blocks]))
    return scipy.sparse.csr_array(A), A @ inside[0], A.T @ rng.standard_normal(count) + inside[1]


def value_of_another_solver(A, b, c, sizes):
    program = lmi.Program()
    blocks = [program.gram(size) for size in sizes]
    ends = np.cumsum([size * (size + 1) // 2 for size in sizes])[:-1]
    pieces = zip(blocks, np.split(A.toarray(), ends, axis=1), np.split(c, ends), strict=True)
    left, objective = 0, 0
    for X, part, cost in pieces:
        vector = lmi.svec(X)
        left, objective = left + part @ vector, objective + cost @ vector
    program.equal(left, b)
    return program.solve(minimise=objective).value


def test_theta_of_the_pentagon_is_the_root_of_five():
    edges = [(i, (i + 1) % 5) for i in range(5)]
    matrices = [np.eye(5)]
    for i, j in edges:
        E = np.zeros((5, 5))
        E[i, j] = E[j, i] = 1
        matrices.append(E)
    target = np.eye(6)[0]
    x = interior.solve_blocks(rows(*matrices), target, -svec(np.ones((5, 5))), [5])
    assert_allclose(smat(x).sum(), np.sqrt(5), rtol=1e-6)
    assert np.linalg.eigvalsh(smat(x))[0] > 0


def test_numbers_are_blocks_of_size_one():
    # maximise x + y with x + 2 y <= 4, 3 x + y <= 6 (slacks last): 14/5 at (8/5, 6/5)
    A = scipy.sparse.csr_array(np.array([[1.0, 2, 1, 0], [3, 1, 0, 1]]))
    x = interior.solve_blocks(A, np.array([4.0, 6.0]), np.array([-1.0, -1, 0, 0]), [1, 1, 1, 1])
    assert_allclose(x[:2], [1.6, 1.2], atol=1e-6)


@pytest.mark.parametrize("sizes", [[4], [1, 1, 3, 5], [2, 30], [26, 3]])
def test_another_solver_finds_the_same_value(sizes):
    rng = np.random.default_rng(sum(sizes))
    A, b, c = random_programme(rng, 4 + len(sizes), sizes)
    x = interior.solve_blocks(A, b, c, sizes)
    assert_allclose(c @ x, value_of_another_solver(A, b, c, sizes), rtol=1e-5)
    assert_allclose(A @ x, b, atol=1e-6 * (1 + np.linalg.norm(b)))
    ends = np.cumsum([size * (size + 1) // 2 for size in sizes])[:-1]
    assert all(np.linalg.eigvalsh(smat(piece))[0] > 0 for piece in np.split(x, ends))


def test_chunks_and_storage_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    sizes = [3, 6]
    A, b, c = random_programme(rng, 7, sizes)
    x = interior.solve_blocks(A, b, c, sizes)
    monkeypatch.setattr(interior, "CHUNK", 50)
    monkeypatch.setattr(interior, "DENSE", 0)
    monkeypatch.setattr(interior, "MERGED", 1)
    assert_allclose(c @ interior.solve_blocks(A, b, c, sizes), c @ x, rtol=1e-6)


@pytest.mark.parametrize("target", [[1.0, -1.0], [-1.0, 1.0]])
def test_a_programme_without_points_is_an_error(target):
    # tr X < 0, or X_11 = -1
    with pytest.raises(SolverError, match="interior-point method") as caught:
        interior.solve_blocks(
            rows(np.diag([1.0, 0.0]), np.eye(2)), np.array(target), svec(np.eye(2)), [2]
        )
    assert caught.value.status == "infeasible"


def test_arguments_are_not_changed():
    A, b, c = random_programme(np.random.default_rng(8), 3, [3])
    before = A.toarray(), b.copy(), c.copy()
    interior.solve_blocks(A, b, c, [3])
    for old, new in zip(before, (A.toarray(), b, c), strict=True):
        assert_allclose(new, old, rtol=0, atol=0)
