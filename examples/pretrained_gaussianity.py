"""How Gaussian tokens stay in trained models, layer by layer.

Tokens are drawn from the Gaussian that has mean and covariance of a model's own input (embeddings,
or patches of noise images) and sent through its layers, twice: as trained, and with the norms, the
rotary embedding and the mask off, a fixed divisor in place of each token's own size, which leaves
softmax attention and the feed-forward part. After each layer two numbers say how far the tokens are
from the Gaussian with their own mean and covariance:

    distance   W2 along the principal axes over the root of the total variance,
               sqrt(sum_i W2_i^2 / tr Sigma), and what a Gaussian sample of that size has (floor):
               gausscontrol.tokens.gaussian_distance
    kurtosis   mean of |z|^4 over r (r + 2), less one; z whitened, r the rank: 0 for a Gaussian

The model of glassllm (pip install glassllm) comes first. With --weights DIR, the folder filled by
examples/pretrained_weights.py --download DIR, a text encoder and a vision transformer follow.

    python examples/pretrained_gaussianity.py --weights DIR --plots DIR
"""

import argparse
import importlib.util
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gausscontrol as gct
from gausscontrol.tokens.attention import softmax_attention

QUICK = ("--quick",)


# -- models and the moments of their inputs -------------------------------------------------------


def models(folder):
    """Yield name, layers, arrays and length of a sequence of every model at hand."""
    home = Path(importlib.util.find_spec("glassllm").origin).parent / "weights"
    yield "glassllm (text decoder)", home / "en.npz", {}, embeddings, 128
    if folder is None:
        print("only glassllm; for MiniLM and a vision transformer see pretrained_weights.py\n")
        return
    folder = Path(folder)
    yield "MiniLM (text encoder)", folder / "minilm/model.safetensors", {}, words, 128
    yield "DINOv2-S (vision)", folder / "vision/vit_s_focus.onnx", {"n_heads": 6}, patches, 256


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


# -- how far from Gaussian ------------------------------------------------------------------------


def measures(x):
    """Return distance, its floor and relative excess kurtosis."""
    found = gct.tokens.gaussian_distance(x)
    values = np.linalg.eigvalsh(moments(x)[1])
    rank = int(np.sum(values > 1e-10 * values[-1]))
    kurtosis = gct.tokens.mardia(x).kurtosis / (rank * (rank + 2))
    return found.relative, found.relative_floor, kurtosis


# -- layers ---------------------------------------------------------------------------------------


def trained(layer, x):
    return layer.raw(x)


def plain(layer, x):
    """Return softmax attention and feed-forward part with every norm, turn and mask off."""
    x = x + softmax_attention(layer.model.heads, layer.model.k, x) + layer.model.b
    return x + layer.feedforward(x)


def march(layers, tokens, length, step, progress):
    """Yield the tokens before the first and after every layer, in sequences of that length."""
    x = tokens
    yield x
    for layer in layers:
        if step is plain and not layer.raw.post_norm:
            layer = layer.refold(float(np.sqrt(np.mean(x**2))))
        x = np.concatenate([step(layer, part) for part in np.split(x, len(x) // length)])
        progress()
        yield x


class Progress:
    """Count layers on the standard error stream, where that is a terminal."""

    def __init__(self, total):
        self.total, self.done = total, 0

    def __call__(self):
        """Report one more layer."""
        self.done += 1
        if sys.stderr.isatty():
            bar = "#" * (30 * self.done // self.total)
            end = "\n" if self.done == self.total else ""
            print(f"\r[{bar:30}] {self.done}/{self.total} layers", end=end, file=sys.stderr)


def experiment(name, path, options, inputs, length, count):
    """Print the table of one model and return its columns."""
    arrays = gct.tokens.read_tensors(path)
    layers = gct.tokens.read_layers(path, **options)
    mean, covariance = inputs(arrays)
    rng = np.random.default_rng(1)
    values, axes = np.linalg.eigh(covariance)
    count = count // length * length
    tokens = rng.standard_normal((count, len(mean))) * np.sqrt(np.maximum(values, 0)) @ axes.T
    tokens += mean
    progress = Progress(2 * len(layers))
    table = np.array(
        [
            [measures(x) for x in march(layers, tokens, length, step, progress)]
            for step in (trained, plain)
        ]
    )
    print(f"{name}: {count} tokens in sequences of {length}, d = {len(mean)}")
    print("after         as trained                      norms off")
    print("layer   distance   floor   kurtosis    distance   floor   kurtosis")
    for depth, (left, right) in enumerate(zip(*table, strict=True)):
        cells = [f"{a:8.3f} {b:7.3f} {c:10.3g}" for a, b, c in (left, right)]
        print(f"{depth:5d}   {cells[0]}    {cells[1]}")
    thirds = np.array_split(table[0, 1:, 0], 3)
    early, middle, late = (part.mean() for part in thirds)
    print(f"as trained, mean distance: early {early:.3f}, middle {middle:.3f}, late {late:.3f}\n")
    return table


def draw(tables, folder):
    """Save distance against layer, one panel for each model."""
    figure, panels = plt.subplots(
        1,
        len(tables),
        figsize=(max(4.8, 3.8 * len(tables)), 4),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for panel, (name, table) in zip(panels[0], tables.items(), strict=True):
        depths = np.arange(table.shape[1])
        panel.plot(depths, table[0, :, 0], "o-", color="#0072B2", label="as trained")
        panel.plot(depths, table[1, :, 0], "s--", color="#D55E00", label="norms off")
        panel.plot(depths, table[0, :, 1], ":", color="0.4", label="Gaussian sample")
        panel.set(title=name, xlabel="layers passed")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(True, alpha=0.3, linewidth=0.6)
    panels[0, 0].set_ylabel("W2 distance to Gaussian /\nroot of total variance")
    panels[0, 0].set_ylim(bottom=0)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    figure.savefig(folder / "pretrained_gaussianity.png", dpi=150)


def main(arguments=QUICK):
    """Run the experiment on every model at hand."""
    parser = argparse.ArgumentParser(description="Gaussianity of tokens in trained models")
    parser.add_argument("--quick", action="store_true", help="a sample that takes seconds")
    parser.add_argument("--weights", metavar="DIR", help="folder of downloaded weights")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="save the figure there")
    chosen = parser.parse_args(arguments)
    if chosen.plots is not None:
        chosen.plots.mkdir(parents=True, exist_ok=True)
    count = 512 if chosen.quick else 4096
    tables = {name: experiment(name, *rest, count) for name, *rest in models(chosen.weights)}
    if chosen.plots is not None:
        draw(tables, chosen.plots)


if __name__ == "__main__":
    main(sys.argv[1:])
