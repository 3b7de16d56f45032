"""When softmax attention follows the Gaussian form, in numbers, and what breaks it.

Tokens are drawn from N(0, I), so that sampling and softmax are all that differs from the Gaussian
system, and moved by one residual layer of attention alone (A = 0) unless said otherwise. An update
error is |dS - dS_Gauss| / |dS_Gauss|, dS the change of the sample covariance and dS_Gauss that of
the Gaussian system started at the SAMPLE moments.

  1  input scale and N    the logits' standard deviation decides; more tokens help up to about 1
  2  sampling             against the POPULATION no layer can be judged below sqrt(d / N)
  3  layer norm           not affine; near a fixed rescaling for isotropic tokens in many dimensions
  4  rotary embeddings    B depends on the distance of two tokens; B at distance 0 is not their mean

`--quick` takes fewer and smaller samples; `--plots DIR` draws the first table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import gausscontrol as gct
from gausscontrol.tokens import TokenTransformer

DIM, STEP = 16, 0.1
DEVIATIONS = (0.1, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
ROTARY_BASE = 10_000.0


class Size(NamedTuple):
    """How much is computed."""

    counts: tuple[int, ...]
    samples: int
    norm_dims: tuple[int, ...]
    norm_count: int


FULL = Size(counts=(500, 2000, 8000), samples=3, norm_dims=(4, 16, 64, 256), norm_count=3000)
QUICK = Size(counts=(100, 400), samples=2, norm_dims=(4, 16), norm_count=400)


def head(dim: int, deviation: float, A: float = 0.0, seed: int = 0) -> gct.GaussianTransformer:
    """Return one residual layer whose logits have a standard deviation on N(0, I): |B|_F."""
    Z = np.random.default_rng(seed).normal(scale=dim**-0.5, size=(2, dim, dim))
    B = np.eye(dim) + 0.5 * Z[0]
    V = -(np.eye(dim) + 0.5 * Z[1])
    return gct.GaussianTransformer(
        A * np.eye(dim), deviation * B / np.linalg.norm(B), V, dt=STEP, name="head"
    )


def update_error(moved: np.ndarray, expected: np.ndarray, start: np.ndarray) -> float:
    """Return |dS - dS_Gauss| / |dS_Gauss|."""
    return float(np.linalg.norm(moved - expected) / np.linalg.norm(expected - start))


def progress(text: str) -> None:
    """Say on standard error what is being computed, where that is a terminal."""
    if sys.stderr.isatty():
        end = "" if text else "\r"
        print(f"\r{text:<60}", end=end, file=sys.stderr, flush=True)


# -- input scale and N ----------------------------------------------------------------------------


def scale_table(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Print and return effective fractions (n,) and update errors (n, counts)."""
    fractions = np.zeros(len(DEVIATIONS))
    errors = np.zeros((len(DEVIATIONS), len(size.counts)))
    for i, deviation in enumerate(DEVIATIONS):
        transformer = TokenTransformer(head(DIM, deviation))
        for j, count in enumerate(size.counts):
            progress(f"logit sd {deviation}, N = {count}")
            found = []
            for sample in range(size.samples):
                tokens = np.random.default_rng(sample).normal(size=(count, DIM))
                r = transformer.simulate(tokens, [0, STEP])
                S = r.covariance
                expected = r.gaussian.covariance[:, :, -1]
                found.append(update_error(S[:, :, 1], expected, S[:, :, 0]))
                fractions[i] = r.effective_fraction[0]
            errors[i, j] = np.sqrt(np.mean(np.square(found)))
    progress("")
    print(f"\n1  update error of one layer, d = {DIM}, attention alone")
    names = "".join(f"{f'N = {count}':>12}" for count in size.counts)
    print(f"{'logit sd':>10}{'eff. fraction':>15}{'exp(-sd^2)':>12}{names}")
    for deviation, fraction, row in zip(DEVIATIONS, fractions, errors, strict=True):
        cells = "".join(f"{100 * error:>11.2f}%" for error in row)
        print(f"{deviation:>10.1f}{fraction:>15.4f}{np.exp(-(deviation**2)):>12.4f}{cells}")
    return fractions, errors


# -- sampling -------------------------------------------------------------------------------------


def sampling_table(size: Size) -> None:
    """Print what a sample can tell of the population, and of the layer."""
    model = head(DIM, 0.3)
    exact = gct.moment_response(model, [0, STEP], (np.zeros(DIM), np.eye(DIM))).covariance
    print(f"\n2  sampling, d = {DIM}, logit sd 0.3: relative errors of S in Frobenius norm")
    print(f"{'N':>10}{'start':>12}{'sqrt(d/N)':>12}{'after, of population':>22}{'of sample':>12}")
    for count in size.counts:
        rows = []
        for sample in range(size.samples):
            tokens = np.random.default_rng(sample).normal(size=(count, DIM))
            r = TokenTransformer(model).simulate(tokens, [0, STEP])
            pairs = (
                (r.covariance[:, :, 0], exact[:, :, 0]),
                (r.covariance[:, :, 1], exact[:, :, 1]),
                (r.covariance[:, :, 1], r.gaussian.covariance[:, :, 1]),
            )
            rows.append([np.linalg.norm(S - T) / np.linalg.norm(T) for S, T in pairs])
        start, after, sampled = np.sqrt(np.mean(np.square(rows), axis=0))
        print(
            f"{count:>10}{start:>12.5f}{np.sqrt(DIM / count):>12.5f}{after:>22.5f}{sampled:>12.6f}"
        )


# -- layer norm -----------------------------------------------------------------------------------


def rescaled(model: gct.GaussianTransformer, covariance: np.ndarray) -> gct.GaussianTransformer:
    """Return the model with each token divided by the typical deviation of its coordinates."""
    dim = model.dim
    centring = np.eye(dim) - 1 / dim
    R = centring / np.sqrt(np.trace(centring @ covariance) / dim)
    return model.replace(A=model.A @ R, B=R.T @ model.B @ R, V=model.V @ R)


def norm_table(size: Size) -> None:
    """Print how far layers with layer norm are from the Gaussian system, as it is and rescaled."""
    print(f"\n3  layer norm, A = I, dt = 1, logit sd 0.3, N = {size.norm_count}: update errors")
    print(
        f"{'tokens':>14}{'d':>6}{'without':>11}{'with':>11}{'rescaled':>11}"
        f"{'kurtosis before':>18}{'after':>9}{'p-value':>10}"
    )
    for name, ratio in (("isotropic", 1.0), ("anisotropic", 30.0)):
        for dim in size.norm_dims:
            progress(f"layer norm, {name}, d = {dim}")
            spread = np.geomspace(ratio, 1.0, dim)
            spread *= np.sqrt(dim / np.sum(spread**2))
            tokens = spread * np.random.default_rng(1).normal(size=(size.norm_count, dim))
            S = np.cov(tokens.T, bias=True)
            B = head(dim, 0.3).B[0]
            B = 0.3 * B / np.sqrt(np.trace(S @ B @ S @ B.T))
            model = head(dim, 0.3, A=1.0).replace(B=B, dt=1.0)
            plain, normed = (
                TokenTransformer(model, layer_norm=on).simulate(tokens, [0, 1])
                for on in (False, True)
            )
            moments = normed.mean[:, 0], normed.covariance[:, :, 0]
            scaled = gct.moment_response(rescaled(model, S), [0, 1], moments)
            expected = [plain.gaussian, normed.gaussian, scaled]
            errors = [
                update_error(r.covariance[:, :, 1], e.covariance[:, :, 1], S)
                for r, e in zip((plain, normed, normed), expected, strict=True)
            ]
            cells = "".join(f"{100 * error:>10.2f}%" for error in errors)
            excess = normed.gaussianity.kurtosis / (dim * (dim + 2))
            p = normed.gaussianity.pvalue[1]
            print(f"{name:>14}{dim:>6}{cells}{excess[0]:>18.5f}{excess[1]:>9.5f}{p:>10.1g}")
    progress("")
    print("   kurtosis: excess over that of a Gaussian, relative to it")


# -- rotary embeddings ----------------------------------------------------------------------------


def rotation(angle: np.ndarray) -> np.ndarray:
    """Return the matrix that turns coordinates (2i, 2i + 1) by each angle."""
    R = np.zeros((2 * angle.size,) * 2)
    even, odd = np.arange(0, 2 * angle.size, 2), np.arange(1, 2 * angle.size, 2)
    R[even, even] = R[odd, odd] = np.cos(angle)
    R[odd, even], R[even, odd] = np.sin(angle), -np.sin(angle)
    return R


def rotary_table(size: Size) -> None:
    """Print how well one B describes attention with rotary position embeddings."""
    count = min(size.counts[-1], 2000)
    model = head(DIM, 0.3)
    B, V = model.B[0], model.V[0]
    tokens = np.random.default_rng(2).normal(size=(count, DIM))
    rates = ROTARY_BASE ** (-np.arange(DIM // 2) / (DIM // 2))
    # Logit of key j and query i: x_j . R(j)^T R(i) B x_i, R(i) turning pair n by i rates[n].
    turned_keys, turned_queries = np.empty_like(tokens), np.empty_like(tokens)
    queries = tokens @ B.T
    mean_turn = np.zeros((DIM, DIM))
    for i in range(count):
        R = rotation(i * rates)
        turned_keys[i], turned_queries[i] = R @ tokens[i], R @ queries[i]
        mean_turn += R / count
    p = np.exp(turned_queries @ turned_keys.T)
    moved = tokens + STEP * (p / p.sum(axis=1, keepdims=True)) @ tokens @ V.T
    moments = tokens.mean(axis=0), np.cov(tokens.T, bias=True)
    # Mean of R(j)^T R(i) over both positions.
    averaged = mean_turn.T @ mean_turn @ B
    print(f"\n4  rotary embeddings, d = {DIM}, logit sd 0.3, N = {count}: update error")
    for name, matrix in (("B at distance 0", B), ("B averaged over distances", averaged)):
        expected = gct.moment_response(model.replace(B=matrix), [0, STEP], moments)
        error = update_error(np.cov(moved.T, bias=True), expected.covariance[:, :, 1], moments[1])
        print(f"   {name:<28}{100 * error:>8.2f}%")


# -- figure ---------------------------------------------------------------------------------------


def draw(size: Size, fractions: np.ndarray, errors: np.ndarray) -> Figure:
    """Draw the first table."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    for colour, count, column in zip(colours, size.counts, 100 * errors.T, strict=False):
        left.loglog(DEVIATIONS, column, "o-", markersize=4, color=colour, label=f"N = {count}")
    left.axhline(1.0, color="0.5", linewidth=1, linestyle=":", label="1 %")
    left.set(ylabel="|dS - dS_Gauss| / |dS_Gauss|  [%]")
    left.set_title(f"Update of S by one layer of attention, d = {DIM}", fontsize="medium")
    left.yaxis.set_major_formatter(plain_number)
    left.set_xticks(DEVIATIONS, [f"{deviation:g}" for deviation in DEVIATIONS])
    left.minorticks_off()
    right.plot(DEVIATIONS, fractions, "o", color="#0072B2", label=f"N = {size.counts[-1]}")
    grid = np.linspace(0, DEVIATIONS[-1], 200)
    right.plot(grid, np.exp(-(grid**2)), color="#D55E00", label="exp(-sd$^2$)")
    right.set(ylabel="share of the tokens", yscale="log", ylim=(1e-4, 1.5))
    right.set_title(f"Tokens a query really averages over, d = {DIM}", fontsize="medium")
    for axis in (left, right):
        axis.set_xlabel("standard deviation of the logits")
        axis.grid(True, alpha=0.3, linewidth=0.6)
        axis.legend(fontsize="small")
    return figure


def plain_number(value: float, _position: int) -> str:
    """Return a tick label without powers of ten."""
    return f"{value:g}"


def main(plots: str | None = None, *, quick: bool = True) -> None:
    """Print all tables; draw the first into a folder if one is given."""
    size = QUICK if quick else FULL
    fractions, errors = scale_table(size)
    sampling_table(size)
    norm_table(size)
    rotary_table(size)
    if plots is not None:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "when_gaussian.png"
        draw(size, fractions, errors).savefig(path, dpi=150)
        print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller samples, a few seconds")
    parser.add_argument("--plots", metavar="DIR", help="folder for the figure")
    arguments = parser.parse_args()
    main(arguments.plots, quick=arguments.quick)
