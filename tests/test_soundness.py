"""Attack on global certificates: every certified equilibrium is run into from extreme starts.

Models are planted, near-marginal or wholly random; starts have eigenvalues from 1e-6 to 1e4 of the
equilibrium's. The integrator is the tests' own (flows.py); near saddles convergence is slow, so a
trajectory is called false only after depth 5,000.
"""

import numpy as np
import pytest
from flows import converge
from problems import plain_attention_form, planted_problem, random_model

import gausscontrol as gct

STARTS = 3


def near_marginal(rng, dim, heads):
    """A model at the equilibrium Sigma whose form has its largest eigenvalue near zero."""
    base = np.eye(dim)
    P, Q, noise_V, noise_B = rng.standard_normal((4, heads, dim, dim))
    V0 = -(P @ P.swapaxes(1, 2) / dim + 0.2 * base)
    B0 = Q @ Q.swapaxes(1, 2) / dim + 0.2 * base
    target = rng.choice([-0.1, -0.03, -0.01, -0.003, 0.003, 0.03])
    low, high = 0.0, 4.0
    for _ in range(25):
        middle = (low + high) / 2
        form = plain_attention_form(V0 + middle * noise_V, B0 + middle * noise_B)
        low, high = (middle, high) if np.linalg.eigvalsh(form)[-1] < target else (low, middle)
    V, B = V0 + low * noise_V, B0 + low * noise_B
    Z = rng.standard_normal((dim, dim))
    kappa = rng.uniform(0, 2)
    model = gct.GaussianTransformer(kappa * (Z - Z.T) / 2 - (V @ B).sum(axis=0), B, V)
    R = rng.standard_normal((dim, dim)) + np.eye(dim)
    R = R * 10 ** rng.uniform(-1, 1, dim)[:, None]
    return model.transform(R), R @ R.T


def certified_models(count, seed):
    """Yield the model and covariance of every certificate that `count` random models give."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        dim, heads = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        if index % 20 == 19:
            model = random_model(rng, dim, heads)
            found = gct.find_equilibria(model, rank=dim, starts=1)
        else:
            make = near_marginal if index % 2 else planted
            model, Sigma = make(rng, dim, heads)
            try:
                found = [gct.find_equilibrium(model, Sigma)]
            except gct.EquilibriumNotFound:
                found = []
        for equilibrium in found:
            try:
                certificate = gct.certify_global_stability(model, equilibrium)
            except gct.NotCertified:
                continue
            assert certificate.verified
            yield model, certificate.covariance


def planted(rng, dim, heads):
    return planted_problem(rng, dim, heads, rng.uniform(0, 2))


def attack(cases, seed):
    """Return how many of the certificates were attacked and those that a trajectory refutes."""
    rng = np.random.default_rng(seed)
    groups = {}
    for model, Sigma in cases:
        R = np.linalg.inv(np.linalg.cholesky(Sigma))
        inverse = np.linalg.inv(R)
        matrices = R @ model.A @ inverse, R @ model.V @ inverse, inverse.T @ model.B @ inverse
        groups.setdefault((model.dim, model.n_heads), []).append((model, *matrices))
    count, refuted = 0, []
    for (dim, _), members in groups.items():
        models, A, V, B = zip(*members, strict=True)
        A, V, B = (np.repeat(np.array(X), STARTS, axis=0) for X in (A, V, B))
        axes = np.linalg.qr(rng.standard_normal((len(A), dim, dim)))[0]
        L = axes * 10 ** (rng.uniform(-6, 4, (len(A), 1, dim)) / 2)
        reached = converge(A, V, B, L).reshape(-1, STARTS).all(axis=1)
        count += len(models)
        refuted += [model for model, fine in zip(models, reached, strict=True) if not fine]
    return count, refuted


@pytest.mark.parametrize("equilibrium", [4.0, -1.0])
def test_the_attack_can_refute(equilibrium):
    # Sigma = 4 I is where these trajectories end; or they blow up.
    identity = np.eye(2)[None]
    A, V, B = abs(equilibrium) * identity, -np.sign(equilibrium) * identity[None], identity[None]
    assert not converge(A, V, B, 0.1 * identity, depth=50.0)[0]
    assert converge(A / abs(equilibrium), -abs(V), B, 0.1 * identity, depth=50.0)[0]


def test_no_certificate_is_refuted():
    count, refuted = attack(certified_models(220, seed=1), seed=2)
    assert count >= 120
    assert refuted == []


@pytest.mark.slow
def test_no_certificate_of_two_thousand_models_is_refuted():
    count, refuted = attack(certified_models(2_000, seed=3), seed=4)
    assert count >= 500
    assert refuted == []
