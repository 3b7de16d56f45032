"""Prescribed attention: what its signs do to real tokens, and what was certified beforehand.

Residual layers with softmax attention, prescribed matrices and a nonlinear feed-forward block,

    x_i+ = x_i + dt (A x_i + f(x_i) + V sum_j p_ij x_j),    p_ij ~ exp(<B x_i, x_j>),   B = B^T > 0,

in the two sign configurations: V + V^T < 0 stabilises, V + V^T > 0 does not. Tokens are drawn
beside the Gaussian system that closes f, and two certificates on top, which need no simulation.
In coordinates where B = I let l be a Lipschitz constant of f. The symmetric part of its closure
then lies between -l I and l I, so what Theory 3.7 says with A + l I in place of A holds with f:
every Gaussian is bounded. Likewise Theory 5.6 with A - l I: it escapes before a known depth.
Softmax averages lie within the tokens: these run away at most exponentially, and pass that depth.

`--quick` takes fewer tokens; `--plots DIR` draws the figure.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import sqrtm

import gausscontrol as gct
from gausscontrol.tokens import FeedForward, TokenResponse, TokenTransformer

DIM, WIDTH, DEPTH, LAYER = 4, 16, 4.0, 0.05
RTOL = 1e-4
# Sign of V, and standard deviation of the tokens at the start: above the certified bound for one.
CASES = {"stabilising": (-1.0, 1.7), "destabilising": (1.0, 1.0)}


def prescribed(sign: float, seed: int = 0) -> tuple[gct.GaussianTransformer, FeedForward]:
    """Return a layer of continuous depth and its feed-forward block."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(scale=DIM**-0.5, size=(3, DIM, DIM))
    skew = 0.3 * (Z[0] - Z[0].T)
    B = 0.25 * (np.eye(DIM) + 0.1 * (Z[1] + Z[1].T))
    V = sign * (np.eye(DIM) + 0.25 * Z[2])
    W1, W2 = rng.normal(size=(WIDTH, DIM)), rng.normal(size=(DIM, WIDTH))
    block = FeedForward(
        W1 / np.linalg.norm(W1, 2),
        0.3 * rng.normal(size=WIDTH),
        0.15 * W2 / np.linalg.norm(W2, 2),
        None,
        "relu",
    )
    model = gct.GaussianTransformer(0.25 * np.eye(DIM) + skew, B, V, name="prescribed layer")
    return model, block


def lipschitz(model: gct.GaussianTransformer, block: FeedForward) -> float:
    """Return a Lipschitz constant of the block in the coordinates where B = I."""
    R = sqrtm(model.B[0]).real
    return float(np.linalg.norm(R @ block.W2, 2) * np.linalg.norm(block.W1 @ np.linalg.inv(R), 2))


class Run:
    """Layers, flow and certificate of one configuration."""

    def __init__(self, sign: float, start: float, count: int) -> None:
        self.model, self.block = prescribed(sign)
        tokens = start * np.random.default_rng(1).normal(size=(count, DIM))
        depths = LAYER * np.arange(round(DEPTH / LAYER) + 1)
        self.flow = self._simulate(0, tokens, depths)
        self.layers = self._simulate(LAYER, tokens, depths)
        self.start = self.layers.covariance[:, :, 0]
        self.margin = lipschitz(self.model, self.block)

    def _simulate(self, dt: float, tokens: np.ndarray, depths: np.ndarray) -> TokenResponse:
        layer = self.model.replace(dt=dt)
        return TokenTransformer(layer, self.block).simulate(tokens, depths, rtol=RTOL)

    def shifted(self, sign: float) -> gct.GaussianTransformer:
        """Return the model with A + l I or A - l I, which bounds that with the block."""
        return self.model.replace(A=self.model.A + sign * self.margin * np.eye(DIM))


def report(name: str, run: Run) -> None:
    """Print what tokens and the Gaussian system do."""
    print(f"{name}: {run.layers.count} tokens, {run.layers.t.size - 1} layers of dt = {LAYER}")
    print(f"{'depth':>8}{'tr S, layers':>15}{'tr S, flow':>13}{'Gaussian':>13}{'logit sd':>11}")
    gaussian = np.trace(run.flow.gaussian.covariance)
    for n in np.linspace(0, run.layers.t.size - 1, 9).astype(int):
        layers, flow = (np.trace(each.covariance[:, :, n]) for each in (run.layers, run.flow))
        beside = f"{gaussian[n]:.4f}" if n < gaussian.size else "escaped"
        print(
            f"{run.layers.t[n]:>8.2f}{layers:>15.4f}{flow:>13.4f}{beside:>13}"
            f"{run.layers.logit_std[n]:>11.3f}"
        )


def comparison(certificate: gct.Certificate) -> gct.Certificate:
    """Return a certificate that holds with the block too: only one by spectral comparison does."""
    if certificate.method != "spectral":
        raise RuntimeError(f"expected a spectral comparison, found {certificate.method}")
    return certificate


def stabilised(run: Run) -> float:
    """Certify and check the bound; return it."""
    certificate = comparison(gct.certify_boundedness(run.shifted(1.0)))
    _, upper = gct.existence_bounds(run.shifted(1.0))
    print(f"  certified: limsup tr Sigma <= {certificate.bound:.4f}, whatever the start")
    print(f"  tr Sigma of the tokens at depth {DEPTH:g}: {run.layers.spread[-1] ** 2:.4f}")
    print(f"  largest of S relative to the certified interval: {largest(run, upper):.3f}")
    print(f"  gap to the Gaussian system over spread: {run.flow.relative_gap[-1]:.4f}")
    if not run.layers.spread[-1] ** 2 < certificate.bound:
        raise RuntimeError("expected the tokens below the certified bound")
    return certificate.bound


def largest(run: Run, upper: np.ndarray) -> float:
    """Return the largest eigenvalue of the sample covariance relative to a bound."""
    R = np.linalg.inv(sqrtm(upper).real)
    return float(np.linalg.eigvalsh(R @ run.layers.covariance[:, :, -1] @ R)[-1])


def destabilised(run: Run) -> float:
    """Certify and check the escape; return the certified depth."""
    certificate = comparison(gct.certify_blow_up(run.shifted(-1.0), run.start))
    bound, escape = certificate.time_bound(run.start), run.flow.gaussian.blow_up_time
    spread, t = run.layers.spread, run.layers.t
    rate = np.log(spread[-1] / spread[-11]) / (t[-1] - t[-11])
    most = np.linalg.norm(run.model.A, 2) + np.linalg.norm(run.model.V[0], 2) + run.margin
    print(f"  certified: the Gaussian system escapes before depth {bound:.4f}")
    print(
        f"  it does at depth {escape:.4f}, where tr S of the tokens is "
        f"{np.interp(escape, t, spread**2):.4f}"
    )
    print(f"  tokens go on, at the end like exp({rate:.3f} t); by hand, exp({most:.3f} t) at most")
    if not escape <= bound or not rate <= most:
        raise RuntimeError("expected the escape before its certified depth, and no faster growth")
    return bound


def draw(runs: dict[str, Run], bound: float, depth: float) -> Figure:
    """Draw tr S of both configurations with the certificates on top."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axis, (name, run) in zip(figure.subplots(1, 2), runs.items(), strict=True):
        gaussian = run.flow.gaussian
        axis.plot(run.layers.t, run.layers.spread**2, ".", color="#0072B2", label="tokens, layers")
        axis.plot(run.flow.t, run.flow.spread**2, color="#56B4E9", label="tokens, flow")
        trace = np.trace(gaussian.covariance)
        axis.plot(gaussian.t, trace, "--", color="#009E73", label="Gaussian system")
        axis.set(xlabel="depth t", ylabel="tr S  [x]$^2$", title=name, xlim=(0, DEPTH))
        axis.grid(True, alpha=0.3, linewidth=0.6)
    left, right = figure.axes
    left.axhline(bound, color="#D55E00", label="certified bound on the limsup")
    escape = runs["destabilising"].flow.gaussian.blow_up_time
    right.axvline(escape, color="#009E73", linestyle=":", label="the Gaussian system escapes")
    right.axvline(depth, color="#D55E00", label="certified depth of escape")
    left.set_ylim(0, 1.1 * max(bound, runs["stabilising"].layers.spread.max() ** 2))
    spread = runs["destabilising"].layers.spread
    right.set(yscale="log", ylim=(spread[0] ** 2 / 2, 3 * spread[-1] ** 2))
    for axis in (left, right):
        axis.legend(fontsize="small")
    return figure


def main(plots: str | None = None, *, quick: bool = True) -> None:
    """Run both configurations and check the certificates; draw them if a folder is given."""
    runs = {}
    for n, (name, (sign, start)) in enumerate(CASES.items()):
        print(f"[{n + 1}/{len(CASES)}] {name} ...", file=sys.stderr, flush=True)
        runs[name] = Run(sign, start, 200 if quick else 3000)
    report("stabilising", runs["stabilising"])
    bound = stabilised(runs["stabilising"])
    report("\ndestabilising", runs["destabilising"])
    depth = destabilised(runs["destabilising"])
    if plots is not None:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "prescribed_attention.png"
        draw(runs, bound, depth).savefig(path, dpi=150)
        print(f"wrote {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer tokens, a few seconds")
    parser.add_argument("--plots", metavar="DIR", help="folder for the figure")
    arguments = parser.parse_args()
    main(arguments.plots, quick=arguments.quick)
