"""An attack on every kind of certificate: random models, adversarial starts, the tests' own flow.

    model -> certificates of every kind -> simulated claims -> how many were issued, which are false

A claim is simulated in coordinates whitened at the equilibrium, from starts as far out and as flat
as the claim allows. Convergence near a saddle, or of a form hardly definite, is slow, and
slow is not false (SLOW).
"""

from collections import Counter, defaultdict

import numpy as np
from flows import BUDGET, converge, integrate
from problems import planted_problem, random_model

import gausscontrol as gct

GLOBAL_METHODS = ("form", "riccati", "semidefinite", "gradient", "extended")
STARTS = 3
# Depth before which nothing is called false; margins of the models go down to 1e-8.
SLOW = 1e10
# Regions are certified for one model in this many; prime to the number of sorts.
REGIONS = 20


# -- models ---------------------------------------------------------------------------------------


def sample(rng, index):
    """A model of one of nine sorts, d = 2 or 3, 1 or 2 heads, and its equilibrium if known."""
    dim, heads = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    sort = SORTS[index % len(SORTS)]
    model, Sigma = sort(rng, dim, heads)
    if sort is riccati:  # rounding would take the multiples of the identity away
        return model, Sigma
    R = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * 10 ** rng.uniform(-1, 1, dim)
    return model.transform(R), None if Sigma is None else R @ Sigma @ R.T


def planted(rng, dim, heads):
    return planted_problem(rng, dim, heads, rng.uniform(0, 2))


def anything(rng, dim, heads):
    return random_model(rng, dim, heads), None


def whitened(rng, dim, heads, low=0.3, high=1.1):
    """T~ of normal heads, less a multiple of the identity map, around the margin of the form."""
    V, B = rng.standard_normal((2, heads, dim, dim))
    unit = np.eye(dim)
    # q of the heads alone: its largest eigenvalue over symmetric matrices.
    basis = symmetric_basis(dim)
    form = basis.T @ np.einsum("hik,hlj->ijkl", V, B).reshape(dim * dim, -1) @ basis
    shift = rng.uniform(low, high) * np.linalg.eigvalsh((form + form.T) / 2)[-1]
    V, B = np.concatenate([V, -shift * unit[None]]), np.concatenate([B, unit[None]])
    Z = rng.standard_normal((dim, dim))
    K = rng.integers(0, 2) * (Z - Z.T)
    return gct.GaussianTransformer(K - (V @ B).sum(axis=0), B, V), unit


def near_marginal(rng, dim, heads):
    shift = 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-8, -1)
    return whitened(rng, dim, heads, shift, shift)


def gradient(rng, dim, heads):
    """A > 0, V = -B, B > 0 (Theory 4.9), in coordinates where P = I."""
    A, B = definite(rng, dim), definite(rng, dim)
    return gct.GaussianTransformer(A, B, -B), None


def riccati(rng, dim, heads):
    """V_h = v_h I with a gain that is definite, semidefinite or indefinite (Theory 3.2)."""
    A = rng.standard_normal((dim, dim)) + rng.uniform(-1, 3) * np.eye(dim)
    rank = int(rng.integers(1, dim + 1))
    C = rng.standard_normal((dim, rank))
    G = C @ C.T if rng.integers(0, 3) else rng.standard_normal((dim, dim))
    return gct.GaussianTransformer(A, G, -np.eye(dim)), None


def semidefinite(rng, dim, heads):
    """A form with a kernel: attention sees the trace, or a projection, only (Theory 4.7)."""
    Z = rng.standard_normal((dim, dim))
    K = Z - Z.T
    if rng.integers(0, 2):
        # T(E) = -tr(E) I needs one head for each pair of axes.
        units = np.eye(dim)
        pairs = [(i, j) for i in range(dim) for j in range(dim)]
        V = -np.array([np.outer(units[i], units[j]) for i, j in pairs])
        B = np.array([np.outer(units[j], units[i]) for i, j in pairs])
    else:
        u = np.eye(dim)[0]
        V, B = -np.outer(u, u)[None], np.outer(u, u)[None]
    return gct.GaussianTransformer(K - (V @ B).sum(axis=0), B, V), np.eye(dim)


def spectral(rng, dim, heads):
    """One head with B = B^T > 0, every sign of the spectra (Theory 3.7, 5.6)."""
    B = definite(rng, dim)
    root = np.linalg.cholesky(B)
    A, V = rng.standard_normal((2, dim, dim))
    A += rng.choice([-2.0, 0.0, 2.0]) * np.eye(dim)
    V += rng.choice([-2.0, 0.0, 2.0]) * np.eye(dim)
    inverse = np.linalg.inv(root.T)
    return gct.GaussianTransformer(inverse @ A @ root.T, B, inverse @ V @ root.T), None


def dissipative(rng, dim, heads):
    """Every sort of large behaviour beside a contracting feed-forward part (Theory 5.1 to 5.3)."""
    V, B = rng.standard_normal((2, heads, dim, dim))
    V, B = V - rng.uniform(0, 3) * np.eye(dim), B + rng.uniform(0, 3) * np.eye(dim)
    A = rng.standard_normal((dim, dim)) - rng.uniform(0, 3) * np.eye(dim)
    return gct.GaussianTransformer(A, B, V), None


SORTS = (
    planted,
    anything,
    whitened,
    near_marginal,
    gradient,
    riccati,
    semidefinite,
    spectral,
    dissipative,
)


def definite(rng, dim):
    Z = rng.standard_normal((dim, 2 * dim))
    return Z @ Z.T / (2 * dim) + 0.05 * np.eye(dim)


def symmetric_basis(dim):
    units = np.eye(dim)
    columns = []
    for i in range(dim):
        for j in range(i, dim):
            E = np.outer(units[i], units[j]) + np.outer(units[j], units[i])
            columns.append((E / np.linalg.norm(E)).reshape(-1))
    return np.array(columns).T


# -- certificates ---------------------------------------------------------------------------------


def certificates(model, Sigma, regions=True):
    """Yield (kind, certificate) of everything that is certified; regions cost most."""
    for kind, certify in (
        ("bounded", gct.certify_boundedness),
        ("collapse", gct.certify_collapse),
        ("blow-up", gct.certify_blow_up),
    ):
        certificate = attempt(certify, model)
        if certificate is not None:
            yield f"{kind} ({certificate.method})", certificate
    for equilibrium in equilibria(model, Sigma):
        for method in GLOBAL_METHODS:
            options = {"degree": 2} if method == "extended" else {}
            certificate = attempt(
                gct.certify_global_stability, model, equilibrium, method=method, **options
            )
            if certificate is not None:
                yield f"global ({method})", certificate
        certificate = attempt(gct.certify_local_stability, model, equilibrium)
        if certificate is None:
            continue
        yield "local", certificate
        certificate = attempt(gct.robustness_radius, model, equilibrium)
        if certificate is not None:
            yield f"robust ({certificate.kind})", certificate
        if not regions:
            continue
        certificate = attempt(gct.certify_region_of_attraction, model, equilibrium)
        if certificate is not None:
            yield f"region ({certificate.method})", certificate


def attempt(certify, *arguments, **options):
    try:
        certificate = certify(*arguments, **options)
    except gct.NotCertified:
        return None
    assert certificate.verified
    return certificate


def equilibria(model, Sigma):
    try:
        if Sigma is not None:
            return [gct.find_equilibrium(model, Sigma)]
        return gct.find_equilibria(model, rank=model.dim, starts=1)
    except gct.EquilibriumNotFound:
        return []


# -- claims ---------------------------------------------------------------------------------------


class Attack:
    """Claims gathered by shape, so that trajectories are followed many at once."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.issued, self.false = Counter(), []
        self.trials = defaultdict(list)

    def add(self, kind, certificate):
        self.issued[kind] += 1
        name = kind.split()[0]
        for trial in getattr(self, f"_{name.replace('-', '_')}")(certificate):
            shape = (name, trial[0].dim, trial[0].n_heads)
            self.trials[shape].append((kind, certificate, *trial))

    def run(self):
        for (name, *_), trials in self.trials.items():
            kinds, certificates, models, L, limits = zip(*trials, strict=True)
            arrays = (np.array([getattr(m, x) for m in models]) for x in ("A", "V", "B"))
            held = CHECKS[name](*arrays, np.array(L), np.array(limits, dtype=float))
            pairs = zip(kinds, certificates, held, strict=True)
            self.false += [(kind, certificate) for kind, certificate, fine in pairs if not fine]
        return self.false

    # Each yields (model in convenient coordinates, factor of a start, a number for the check).

    def _global(self, certificate):
        white = whiten(certificate.model, certificate.covariance)
        for _ in range(STARTS):
            yield white, self._factor(white.dim, -6, 4), 0.0

    def _local(self, certificate):
        white = whiten(certificate.model, certificate.covariance)
        for _ in range(STARTS):
            E = symmetric_direction(self.rng, white.dim)
            yield white, np.linalg.cholesky(np.eye(white.dim) + 1e-6 * E), 0.0

    def _region(self, certificate):
        white = whiten(certificate.model, certificate.covariance)
        for _ in range(STARTS):
            yield white, edge(self.rng, certificate), 0.0

    def _robust(self, certificate):
        """Every weight moved by almost the radius, towards making things worse at random."""
        model, radius = certificate.model, 0.999 * certificate.radius
        for _ in range(STARTS):
            moved = {
                name: np.array([x + radius * rotation(self.rng, model.dim) for x in value])
                for name, value in (("B", model.B), ("V", model.V))
            }
            moved = model.replace(A=model.A + radius * rotation(self.rng, model.dim), **moved)
            try:
                point = gct.find_equilibrium(moved, certificate.covariance)
            except gct.EquilibriumNotFound:
                self.false.append(("robust", certificate))
                continue
            white = whiten(moved, point.covariance)
            E = symmetric_direction(self.rng, white.dim)
            yield white, np.linalg.cholesky(np.eye(white.dim) + 1e-6 * E), 0.0

    def _bounded(self, certificate):
        model, scale = normal(certificate.model)
        for _ in range(STARTS):
            yield model, self._factor(model.dim, -3, 4), certificate.bound * scale

    def _collapse(self, certificate):
        model, _ = normal(certificate.model)
        for _ in range(STARTS):
            yield model, self._factor(model.dim, -3, 4), 0.0

    def _blow_up(self, certificate):
        model, scale = normal(certificate.model)
        for _ in range(STARTS):
            L = self._factor(model.dim, -3, 0)
            low, high = -200.0, 200.0
            for _ in range(60):
                middle = (low + high) / 2
                holds = certificate.contains(np.exp(middle) * L @ L.T)
                low, high = (low, middle) if holds else (middle, high)
            # Just beyond the threshold, and well beyond it.
            for factor in (1.01, 10.0):
                size = factor * np.exp(high)
                if certificate.contains(size * L @ L.T):
                    bound = certificate.time_bound(size * L @ L.T)
                    yield model, np.sqrt(size * scale) * L, bound

    def _factor(self, dim, low, high):
        axes = np.linalg.qr(self.rng.standard_normal((dim, dim)))[0]
        return axes * 10 ** (self.rng.uniform(low, high, dim) / 2)


def whiten(model, Sigma):
    return model.transform(np.linalg.inv(np.linalg.cholesky(Sigma)))


def normal(model):
    """The model with covariances in units in which A and attention balance, and that unit."""
    pairs = zip(model.V, model.B, strict=True)
    gain = sum(np.linalg.norm(V, 2) * np.linalg.norm(B, 2) for V, B in pairs)
    scale = gain / np.linalg.norm(model.A, 2) if gain > 0 else 1.0
    return model.transform(np.sqrt(scale) * np.eye(model.dim)), scale


def symmetric_direction(rng, dim):
    E = rng.standard_normal((dim, dim))
    E = E + E.T
    return E / np.linalg.norm(E)


def rotation(rng, dim):
    """A matrix of spectral norm 1, at times of rank 1."""
    X = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return np.outer(X[0], X[1]) if rng.integers(0, 2) else X


def edge(rng, region):
    """A factor just inside the certified region, in whitened coordinates."""
    Sigma = region.covariance
    root = np.linalg.cholesky(Sigma)
    E = symmetric_direction(rng, len(Sigma))
    low, high = 0.0, 1e6
    lowest = np.linalg.eigvalsh(E)[0]
    if lowest < 0:
        high = 0.999 / -lowest
    for _ in range(60):
        middle = (low + high) / 2
        inside = region.contains(root @ (np.eye(len(E)) + middle * E) @ root.T)
        low, high = (middle, high) if inside else (low, middle)
    return np.linalg.cholesky(np.eye(len(E)) + low * E)


def check_convergence(A, V, B, L, limits):
    return converge(A, V, B, L, depth=SLOW)


def check_nearby(A, V, B, L, limits):
    """From 1e-6 away to 1e-8, which is beyond what an unstable direction allows."""
    return converge(A, V, B, L, depth=SLOW, near=1e-8, rtol=1e-9)


def check_bounded(A, V, B, L, limits):
    """The bound is on the limit, which a few trajectories take long to reach."""
    held = np.zeros(len(L), dtype=bool)
    for depth in (400.0, 40_000.0):
        i = np.flatnonzero(~held)
        flow = integrate(A[i], V[i], B[i], L[i], depth, budget=BUDGET)
        held[i] = ~flow.escaped & (flow.late_trace <= 1.01 * limits[i] + 1e-9)
    return held


def check_collapse(A, V, B, L, limits):
    def stop(L):
        return np.linalg.norm(L, axis=(1, 2)) < 1e-6

    return integrate(A, V, B, L, stop=stop, budget=BUDGET).stopped


def check_escape(A, V, B, L, limits):
    flow = integrate(A, V, B, L, depth=1.001 * limits, rtol=1e-7, budget=BUDGET)
    return flow.escaped


CHECKS = {
    "global": check_convergence,
    "local": check_nearby,
    "region": check_convergence,
    "robust": check_nearby,
    "bounded": check_bounded,
    "collapse": check_collapse,
    "blow-up": check_escape,
}


def gather(count, seed):
    """Return the claims of every certificate that `count` models give."""
    rng = np.random.default_rng(seed)
    campaign = Attack(seed + 1)
    for index in range(count):
        model, Sigma = sample(rng, index)
        for kind, certificate in certificates(model, Sigma, index % REGIONS == 0):
            campaign.add(kind, certificate)
    return campaign


def attack(count, seed):
    """Return how many certificates of each kind `count` models gave, and the false ones."""
    campaign = gather(count, seed)
    return campaign.issued, campaign.run()
