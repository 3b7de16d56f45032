"""In-context regression: a layer that takes steps of gradient descent on its own tokens.

    token z = (x, y),  y = W x + e        B = [[I, 0], [0, 0]],  V = [[0, 0], [0, -I]],  A = 0

With this head (von Oswald et al., 2023, "Transformers learn in-context by gradient descent") the
drift is M(Sigma) = [[0, 0], [-S_yx, 0]], so S_x stays and

    S_yx' = -S_yx S_x,    S_yx(t) = S_yx(0) e^{-t S_x},    y' = -S_yx x:

each y becomes the residual y - W(t) x of gradient flow on E|y - W x|^2 / 2 from W(0) = 0. A stack
of residual layers of step tau does the same to gradient descent of rate tau, and that exactly, on
the sample moments of whatever tokens are there. The rank of Sigma never changes: it says what no
layer can do. `--plots DIR` draws the residuals.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import expm

import gausscontrol as gct

STEPS = 60
SHOWN = (0, 1, 5, 20, 60)
TOLERANCE = 1e-10  # relative to the largest moment of the tokens


def gradient_head(inputs: int, outputs: int, dt: float = 0) -> gct.GaussianTransformer:
    """Return the head that queries and keys with x and takes y away."""
    reads = np.diag(np.r_[np.ones(inputs), np.zeros(outputs)])
    takes = np.diag(np.r_[np.zeros(inputs), -np.ones(outputs)])
    return gct.GaussianTransformer(np.zeros_like(reads), reads, takes, dt=dt, name="gradient")


def task(inputs: int, outputs: int, tokens: int, noise: float, seed: int) -> np.ndarray:
    """Return tokens (x, y), one a column, with sample mean zero."""
    rng = np.random.default_rng(seed)
    # Inputs with standard deviations from 1 down to 1/2, turned by a random rotation.
    turn = np.linalg.qr(rng.normal(size=(inputs, inputs)))[0]
    x = turn @ (np.linspace(1, 0.5, inputs)[:, None] * rng.normal(size=(inputs, tokens)))
    y = rng.normal(size=(outputs, inputs)) @ x + noise * rng.normal(size=(outputs, tokens))
    sample = np.vstack([x, y])
    return sample - sample.mean(axis=1, keepdims=True)


def gradient_descent(x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    """Return W_0 = 0, W_1, ... for the loss |y - W x|^2 / (2 N), from the tokens themselves."""
    weights = [np.zeros((len(y), len(x)))]
    for _ in range(STEPS):
        residual = y - weights[-1] @ x
        weights.append(weights[-1] + rate * residual @ x.T / x.shape[1])
    return np.stack(weights)


class Regression:
    """Gradient descent on one set of tokens, beside residual layers and gradient flow."""

    def __init__(self, tokens: np.ndarray, inputs: int) -> None:
        self.inputs, (self.x, self.y) = inputs, np.split(tokens, [inputs])
        self.moments = tokens @ tokens.T / tokens.shape[1]
        self.S_x, self.S_yx = self.moments[:inputs, :inputs], self.moments[inputs:, :inputs]
        rate = 0.9 / np.linalg.eigvalsh(self.S_x)[-1]
        self.depths = rate * np.arange(STEPS + 1)
        self.weights = gradient_descent(self.x, self.y, rate)
        start, sizes = (np.zeros(len(tokens)), self.moments), (inputs, len(self.y))
        self.layers = gct.moment_response(
            gradient_head(*sizes, dt=rate), self.depths, start, transition=True
        )
        self.flow = gct.moment_response(gradient_head(*sizes), self.depths, start, rtol=1e-11)

    def loss(self) -> np.ndarray:
        """Return the loss of gradient descent, from the tokens."""
        residuals = self.y - self.weights @ self.x
        return (residuals**2).sum(axis=1).mean(axis=1) / 2

    def loss_of(self, response: gct.MomentResponse) -> np.ndarray:
        """Return half the trace of S_yy: what layers have left of y."""
        return np.trace(response.covariance[self.inputs :, self.inputs :]) / 2

    def least_squares(self) -> np.ndarray:
        """Return the smallest W of least loss."""
        return np.linalg.lstsq(self.x.T, self.y.T)[0].T

    def aim(self) -> np.ndarray:
        """Return the moments with y explained in full, diag(S_x, 0)."""
        aim = np.zeros_like(self.moments)
        aim[: self.inputs, : self.inputs] = self.S_x
        return aim

    def gaps(self) -> dict[str, float]:
        """Return how far layers are from gradient descent, and the flow from its closed form."""
        n, layers = self.inputs, np.moveaxis(self.layers.covariance, -1, 0)
        # A layer is affine in a token, with transition matrix [[I, 0], [-W_k, I]] down to layer k:
        # a token (x, y) comes out as its residual, a query (x, 0) as minus the prediction.
        transition = np.moveaxis(self.layers.transition, -1, 0)
        flow = np.moveaxis(self.flow.covariance, -1, 0)[:, n:, :n]
        exact = np.stack([self.S_yx @ expm(-t * self.S_x) for t in self.depths])
        return {
            "W_k of the layers": np.abs(transition[:, n:, :n] + self.weights).max(),
            "loss of the layers": np.abs(self.loss_of(self.layers) - self.loss()).max(),
            "S_x of the layers": np.abs(layers[:, :n, :n] - self.S_x).max(),
            "S_yx of the flow": np.abs(flow - exact).max(),
        }


def tasks() -> dict[str, Regression]:
    """Return one regression for each kind of tokens."""
    return {
        "one input": Regression(task(1, 1, 200, 0.0, seed=1), 1),
        "four inputs, two outputs": Regression(task(4, 2, 200, 0.0, seed=2), 4),
        "the same with noise": Regression(task(4, 2, 200, 0.3, seed=2), 4),
        "more inputs than tokens": Regression(task(6, 1, 5, 0.3, seed=3), 6),
    }


def report(name: str, found: Regression) -> None:
    """Print one regression; raise if its numbers are not those of gradient descent."""
    print(f"{name}: {found.x.shape[1]} tokens in R^{len(found.moments)}")
    print(f"  {'layer':>7}{'loss':>13}{'of gradient descent':>22}{'|W_k - W_ls|':>15}")
    loss, layer_loss = found.loss(), found.loss_of(found.layers)
    distance = np.linalg.norm(found.weights - found.least_squares(), axis=(1, 2))
    for k in SHOWN:
        print(f"  {k:>7}{layer_loss[k]:>13.5e}{loss[k]:>22.5e}{distance[k]:>15.2e}")
    for what, gap in found.gaps().items():
        print(f"  {what} off by {gap:.1e}")
        if not gap <= TOLERANCE * np.abs(found.moments).max():
            raise RuntimeError(f"{name}: {what} off by {gap:.1e}, expected {TOLERANCE:g}")

    explained = gct.is_reachable(found.moments, found.aim())
    ranks = [np.linalg.matrix_rank(S, hermitian=True) for S in (found.moments, found.aim())]
    print(f"  rank {found.layers.rank}; of diag(S_x, 0): {ranks[1]}; ", end="")
    print("reachable" if explained else "no layers lead there")
    if found.layers.rank != ranks[0] or explained != (ranks[0] == ranks[1]):
        raise RuntimeError(f"{name}: expected ranks to be kept and to decide, found {ranks}")


def draw(found: dict[str, Regression]) -> Figure:
    """Draw the loss of all regressions, and the modes of one."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = np.arange(STEPS + 1)
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    for colour, (name, each) in zip(colours, found.items(), strict=True):
        left.plot(steps, each.loss_of(each.flow), color=colour, linewidth=1, linestyle="--")
        left.plot(steps, each.loss_of(each.layers), color=colour, label=name)
        left.plot(steps[::4], each.loss()[::4], ".", color=colour, markersize=7)
    left.set(yscale="log", ylim=(1e-9, 1e4), xlabel="layer", ylabel="loss, tr S_yy / 2")
    left.set_title("layers (lines), gradient descent (dots), gradient flow (dashes)", fontsize=9)
    left.legend(fontsize="small", loc="upper right")

    chosen = found["the same with noise"]
    values, vectors = np.linalg.eigh(chosen.S_x)
    cross = chosen.layers.covariance[chosen.inputs :, : chosen.inputs]
    modes = np.linalg.norm(np.einsum("yxt,xm->ymt", cross, vectors), axis=0)
    for colour, value, mode in zip(colours, values[::-1], modes[::-1], strict=True):
        rate = chosen.depths[1]
        right.plot(steps, mode, color=colour, label=f"eigenvalue {value:.2f} of S_x")
        right.plot(steps[::4], mode[0] * (1 - rate * value) ** steps[::4], ".", color=colour)
    right.set(yscale="log", ylim=(1e-9, 1e4), xlabel="layer", ylabel="|S_yx v|")
    right.set_title("with noise: modes fall as (1 - rate * eigenvalue)^k (dots)", fontsize=9)
    right.legend(fontsize="small", loc="upper right")
    for axis in (left, right):
        axis.grid(True, alpha=0.3, linewidth=0.6)
    return figure


def main(plots: str | None = None) -> None:
    """Print and check all regressions; draw them into a folder if one is given."""
    found = tasks()
    for name, each in found.items():
        report(name, each)
    if plots is not None:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        draw(found).savefig(folder / "in_context_regression.png", dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plots", metavar="DIR", help="folder for the figure")
    main(parser.parse_args().plots)
