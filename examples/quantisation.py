"""How far quantisation may move the weights of an attention head (Theory 7.1b).

Weights are stored with fewer digits: half precision, bfloat16, 8 or 4 bits with one scale for each
matrix or for each of its rows. `robustness_radius` says beforehand, for all such changes at once,
how far V and B may move in spectral norm with one globally attracting equilibrium left, and how far
that equilibrium can go. Each quantised copy is then held against it. A "no" is not a proof of the
opposite: a copy beyond the radius can still be certified by itself.
"""

from pathlib import Path

import numpy as np

import gausscontrol as gct

HEAD = Path(__file__).resolve().parent / "data" / "mimetic_head.mat"


def half(W: np.ndarray) -> np.ndarray:
    """Round to float16: 11 significant bits."""
    return W.astype(np.float16).astype(float)


def brain(W: np.ndarray) -> np.ndarray:
    """Round to bfloat16: 8 significant bits."""
    mantissa, exponent = np.frexp(W)
    return np.ldexp(np.round(mantissa * 2**8), exponent - 8)


def integer(bits: int, rows: bool):
    """Return rounding to signed integers times a scale, one for the matrix or one for each row."""

    def quantise(W: np.ndarray) -> np.ndarray:
        largest = np.abs(W).max(axis=-1 if rows else (-2, -1), keepdims=True)
        scale = largest / (2 ** (bits - 1) - 1)
        return np.round(W / scale) * scale

    return quantise


FORMATS = {
    "float16": half,
    "bfloat16": brain,
    "int8, a scale for each row": integer(8, rows=True),
    "int8, one scale": integer(8, rows=False),
    "int4, one scale": integer(4, rows=False),
}


def globally_stable(model: gct.GaussianTransformer, guess: np.ndarray) -> tuple[str, float]:
    """Certify a model by itself; return the verdict and the distance of its equilibrium."""
    equilibrium = gct.find_equilibrium(model, guess)
    shift = float(np.linalg.norm(equilibrium.covariance - guess))
    try:
        gct.certify_global_stability(model, equilibrium, method="form")
    except gct.NotCertified:
        return "not certified", shift
    return "certified", shift


def main() -> None:
    """Compare the radius with what each format does to the weights."""
    model = gct.load_model(HEAD)
    equilibrium = gct.find_equilibrium(model)
    Sigma = equilibrium.covariance
    robust = gct.robustness_radius(model, equilibrium)
    print(robust)

    print(
        f"\n{'weights V, B as':28} {'moved by':>9} {'covered':>8} {'shift':>9} {'bound':>9}  alone"
    )
    for name, quantise in FORMATS.items():
        copy = model.replace(V=quantise(model.V), B=quantise(model.B))
        share = max(
            np.linalg.norm(new - old, 2) / np.linalg.norm(old, 2)
            for new, old in ((copy.V[0], model.V[0]), (copy.B[0], model.B[0]))
        )
        covered = robust.covers(copy)
        alone, shift = globally_stable(copy, Sigma)
        bound = f"{robust.displacement_of(copy):9.3f}" if covered else f"{'none':>9}"
        answer = "yes" if covered else "no"
        print(f"{name:28} {100 * share:7.3f} % {answer:>8} {shift:9.3f} {bound}  {alone}")
    print(
        f"shifts in Frobenius norm of Sigma* [x]^2, of {np.linalg.norm(Sigma):.1f}; "
        "alone: by a certificate of the copy itself"
    )


if __name__ == "__main__":
    main()
