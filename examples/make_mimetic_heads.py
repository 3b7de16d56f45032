"""Write the two mimetic heads of examples/data, and check what is said about them.

    B = s (0.7 I + beta Z1),   V = -(0.4 I + nu Z2),   A = I,   |b| = 1,   Z1, Z2 ~ N(0, 1/d)

Mimetic initialisation gives a fresh attention head the look of a trained one: keys and queries
agree (B near a positive multiple of I), values oppose (V near a negative one). Trockman and Kolter,
"Mimetic initialization of self-attention layers", 2023, take 0.7 and 0.4 for the multiples and for
the noise; d = 8 and logits are scaled by s = 1/8. The residual stream grows by A = I, and b is a
random unit vector, so that the mean does not stay at zero.

mimetic_head.mat        half the noise, beta = 0.35 and nu = 0.2, seed 0. It settles at an
                        equilibrium that rotates tokens (M(Sigma*) != 0), and is globally stable.
mimetic_head_noisy.mat  all the noise, beta = 0.7 and nu = 0.4, seed 3. V has an eigenvalue with
                        positive real part; no equilibrium is found, and from Sigma(0) = I the
                        covariance escapes to infinity.

Run it to write the files again, byte for byte: python examples/make_mimetic_heads.py [FOLDER]
"""

import math
import sys
import warnings
from pathlib import Path

import numpy as np

import gausscontrol as gct

DATA = Path(__file__).resolve().parent / "data"
DIM = 8
SCALE = 1 / 8
KEY, VALUE = 0.7, 0.4
SEED, NOISY_SEED = 0, 3


def mimetic_head(noise, seed, name):
    """Draw one head; noise 1 is that of the paper."""
    rng = np.random.default_rng(seed)
    Z1, Z2 = rng.normal(scale=DIM**-0.5, size=(2, DIM, DIM))
    b = rng.standard_normal(DIM)
    length = math.sqrt(math.fsum(b**2))  # the same to the last bit on every machine
    return gct.GaussianTransformer(
        A=np.eye(DIM),
        B=SCALE * KEY * (np.eye(DIM) + noise * Z1),
        V=-VALUE * (np.eye(DIM) + noise * Z2),
        b=b / length,
        name=name,
    )


def check_settles(model):
    equilibrium = gct.find_equilibrium(model)
    rotation = np.linalg.norm(model.drift(equilibrium.covariance))
    certificate = gct.certify_global_stability(model, equilibrium)
    if not rotation > 0.1:
        raise RuntimeError(f"expected an equilibrium with M(Sigma*) != 0, found |M| = {rotation}")
    if certificate.scope != "covariance and mean":
        raise RuntimeError(f"expected a certificate of both moments, found {certificate.scope}")
    print(f"  |M(Sigma*)| = {rotation:.4f} per unit depth: tokens keep rotating")
    print(
        f"  globally stable, {certificate.scope}, rate {certificate.rate:.4f} per unit depth, "
        f"optimum {certificate.optimal_rate:.4f}"
    )


def check_escapes(model):
    growth = np.linalg.eigvals(model.V[0]).real.max()
    if gct.find_equilibria(model, rank=DIM) or not growth > 0:
        raise RuntimeError(
            "expected no positive definite equilibrium and a value matrix that is not Hurwitz"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gct.BlowUpWarning)  # it is what this head is for
        response = gct.moment_response(
            model, np.linspace(0, 4, 81), (np.zeros(DIM), np.eye(DIM)), rtol=1e-6
        )
    if response.blow_up_time is None:
        raise RuntimeError("expected an escape from Sigma(0) = I, found none up to depth 4")
    print(f"  V has an eigenvalue with real part {growth:.4f} > 0; no equilibrium found")
    print(f"  from Sigma(0) = I the covariance escapes at depth {response.blow_up_time:.4f}")


HEADS = (
    ("mimetic_head.mat", 0.5, SEED, check_settles),
    ("mimetic_head_noisy.mat", 1.0, NOISY_SEED, check_escapes),
)


def main(folder=DATA):
    for filename, noise, seed, check in HEADS:
        path = Path(folder) / filename
        model = mimetic_head(noise, seed, path.stem)
        print(f"{path.name}: d = {DIM}, seed {seed}, {noise:g} of the paper's noise")
        check(model)
        gct.save_model(path, model)


if __name__ == "__main__":
    main(*sys.argv[1:2])
