"""Heads of trained models: which way they pull, and how well the Gaussian form describes them.

Two tables. The signs of every layer: how many heads stabilise, destabilise or do neither, by the
signs of tr B and tr V (Theory 4.3). And for each head of the first layer the error of its Gaussian
form on 4,000 tokens: tokens are drawn from the Gaussian with mean and covariance of the model's own
input, scaled until the logits have standard deviation 0.3; softmax attention is compared with

    V (mu + Sigma (B x + k)),    mu and Sigma those of the sample,

once token by token (root mean square, over that of V Sigma (B x + k)) and once in the rate of the
covariance, V Sigma B Sigma + transpose (Frobenius norm, relative). The logit deviation at the scale
at which the model really works says how far that is from 0.3; norms, rotary embedding and mask are
off, the divisor is the root mean square of the input.

    python examples/pretrained_heads.py --weights DIR --plots DIR
"""

import argparse
import importlib.util
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

import gausscontrol as gct
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.tokens.attention import logit_deviation, softmax_attention

DEVIATION = 0.3
QUICK = ("--quick",)


# -- models and the moments of their inputs -------------------------------------------------------


def models(folder):
    """Yield name, path, options and input moments of every model at hand."""
    home = Path(importlib.util.find_spec("glassllm").origin).parent / "weights"
    yield "glassllm (text decoder)", home / "en.npz", {}, embeddings
    if folder is None:
        print("only glassllm; for MiniLM and a vision transformer see pretrained_weights.py\n")
        return
    folder = Path(folder)
    yield "MiniLM (text encoder)", folder / "minilm/model.safetensors", {}, words
    yield "DINOv2-S (vision)", folder / "vision/vit_s_focus.onnx", {"n_heads": 6}, patches


def moments(rows):
    mean = rows.mean(axis=0)
    return mean, (rows - mean).T @ (rows - mean) / len(rows)


def embeddings(arrays):
    """Return the moments of the embedding matrix, every token of the vocabulary alike."""
    return moments(np.asarray(arrays["E"], dtype=float))


def words(arrays):
    """Return the moments of words at random positions below 128, after the first norm."""
    rng = np.random.default_rng(0)
    table = arrays["embeddings.word_embeddings.weight"]
    chosen = rng.choice(len(table), 8_000, replace=False)
    positions = arrays["embeddings.position_embeddings.weight"][rng.integers(0, 128, 8_000)]
    x = np.asarray(table[chosen] + positions, dtype=float)
    x += arrays["embeddings.token_type_embeddings.weight"][0]
    x -= x.mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)
    gain, bias = (arrays[f"embeddings.LayerNorm.{name}"] for name in ("weight", "bias"))
    return moments(x * gain + bias)


def patches(arrays):
    """Return the moments of patches of white noise at random positions."""
    stem = "backbone.embeddings.patch_embeddings.projection."
    W = np.asarray(arrays[stem + "weight"], dtype=float).reshape(384, -1)
    mean, covariance = moments(np.asarray(arrays["onnx::Reshape_1962"][0], dtype=float))
    return mean + arrays[stem + "bias"], W @ W.T + covariance


# -- one head -------------------------------------------------------------------------------------


def single(model, h):
    """Return one head of a model and its tilt."""
    return FactoredHeads(*(array[h : h + 1] for array in model.heads.arrays)), model.k[h : h + 1]


def scale_for(heads, k, mean, covariance, wanted):
    """Return c such that tokens c x have logits of the wanted standard deviation."""

    def excess(c):
        return logit_deviation(heads, k, c * mean, c**2 * covariance)[0] - wanted

    return brentq(excess, 1e-6, 1e6, xtol=1e-12)


def errors(heads, k, tokens):
    """Return the relative errors of the Gaussian form: of tokens, and of the covariance rate."""
    mean, covariance = moments(tokens)
    V, B = heads.V[0], heads.B[0]
    soft = softmax_attention(heads, k, tokens) - V @ mean
    form = (tokens @ B.T + k[0]) @ covariance @ V.T
    by_token = np.linalg.norm(soft - form) / np.linalg.norm(form)

    def rate(update):
        cross = (update - update.mean(axis=0)).T @ (tokens - mean) / len(tokens)
        return cross + cross.T

    return by_token, np.linalg.norm(rate(soft - form)) / np.linalg.norm(rate(form))


def show_progress(done, total):
    """Draw a bar on the standard error stream, where that is a terminal."""
    if sys.stderr.isatty():
        print(f"[{'#' * (30 * done // total):30}] {done}/{total} heads", end="\r", file=sys.stderr)


def head_table(layer, mean, covariance, count):
    """Print the errors of every head of a layer and return their columns."""
    rng = np.random.default_rng(2)
    values, axes = np.linalg.eigh(covariance)
    sample = rng.standard_normal((count, len(mean))) * np.sqrt(np.maximum(values, 0)) @ axes.T
    rows, total = [], layer.model.n_heads
    print("head   logit sd at work   scale   error of tokens   of covariance rate")
    for h in range(total):
        show_progress(h, total)
        heads, k = single(layer.model, h)
        at_work = logit_deviation(heads, k, mean, covariance)[0]
        scale = scale_for(heads, k, mean, covariance, DEVIATION)
        rows.append((at_work, *errors(heads, k, scale * (mean + sample))))
        a, b, c = rows[-1]
        print(f"{h:4d}   {a:16.2f}   {scale:5.3g}   {100 * b:13.1f} %   {100 * c:16.1f} %")
    rows = np.array(rows)
    below = int(np.sum(rows[:, 1:].max(axis=1) < 0.1))
    print(f"both below 10 %: {below} of {len(rows)} heads\n")
    return rows


# -- signs ----------------------------------------------------------------------------------------


def sign_table(signs):
    """Print the verdicts of every layer."""
    print("layer   stabilising   (B > 0 > V)   destabilising   mixed   mean share of B   of V")
    words = ("stabilising", "destabilising", "mixed")
    for layer in np.unique(signs.layer):
        own = signs.layer == layer
        left, right, none = (int(np.sum(signs.verdict[own] == word)) for word in words)
        print(
            f"{layer:5d}   {left:11d}   {int(signs.mimetic[own].sum()):11d}   {right:13d}   "
            f"{none:5d}   {signs.B_share[own].mean():15.2f}   {signs.V_share[own].mean():4.2f}"
        )
    print("\n".join(str(signs).splitlines()[-2:]))


def draw(results, folder):
    """Save share of V against share of B, one panel for each model."""
    figure, panels = plt.subplots(
        1,
        len(results),
        figsize=(max(5.0, 4.2 * len(results)), 4.4),
        squeeze=False,
        layout="constrained",
    )
    for panel, (name, signs) in zip(panels[0], results.items(), strict=True):
        # A head outside the corners leans too little for a verdict.
        shares, leans = np.concatenate([signs.B_share, signs.V_share]), signs.threshold
        reach = min(1.0, max(3 * leans, 1.15 * float(np.abs(shares).max())))
        for x, y in ((1, -1), (-1, 1), (1, 1), (-1, -1)):
            kind = ("#009E73", "stabilising") if x * y < 0 else ("#D55E00", "destabilising")
            place = (x * leans if x > 0 else -reach, y * leans if y > 0 else -reach)
            size = reach - leans
            panel.add_patch(
                plt.Rectangle(
                    place,
                    size,
                    size,
                    color=kind[0],
                    alpha=0.12,
                    zorder=0,
                    linewidth=0,
                    label=kind[1] if x > 0 else None,
                )
            )
        panel.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        panel.axvline(0, color="0.7", linewidth=0.8, zorder=0)
        points = panel.scatter(
            signs.B_share,
            signs.V_share,
            c=signs.layer,
            cmap="viridis",
            edgecolor="k",
            linewidth=0.3,
            clip_on=False,
            zorder=3,
        )
        panel.set(title=name, xlabel="share of B", aspect="equal")
        panel.set(xlim=(-reach, reach), ylim=(-reach, reach))
        ticks = range(0, int(signs.layer.max()) + 1, max(1, int(signs.layer.max()) // 5))
        figure.colorbar(points, ax=panel, label="layer", shrink=0.7, ticks=list(ticks))
    panels[0, 0].set_ylabel("share of V")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        title=f"both shares beyond {leans:g}",
        loc="outside lower center",
        ncols=2,
        fontsize="small",
        title_fontsize="small",
    )
    figure.savefig(folder / "pretrained_heads.png", dpi=150)


def main(arguments=QUICK):
    """Print both tables for every model at hand."""
    parser = argparse.ArgumentParser(description="Heads of trained models")
    parser.add_argument("--quick", action="store_true", help="a sample that takes seconds")
    parser.add_argument("--weights", metavar="DIR", help="folder of downloaded weights")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="save the figure there")
    chosen = parser.parse_args(arguments)
    if chosen.plots is not None:
        chosen.plots.mkdir(parents=True, exist_ok=True)
    count = 1000 if chosen.quick else 4000
    results = {}
    for name, path, options, inputs in models(chosen.weights):
        print(name)
        arrays = gct.tokens.read_tensors(path)
        layers = gct.tokens.read_layers(path, **options)
        results[name] = gct.tokens.mimetic_signs(layers)
        sign_table(results[name])
        mean, covariance = inputs(arrays)
        size = np.sqrt((np.trace(covariance) + mean @ mean) / len(mean))
        first = layers[0] if layers[0].raw.post_norm else layers[0].refold(float(size))
        print(f"\nGaussian form of layer 0 on {count} tokens, logit sd {DEVIATION}")
        head_table(first, mean, covariance, count)
    if chosen.plots is not None:
        draw(results, chosen.plots)


if __name__ == "__main__":
    main(sys.argv[1:])
