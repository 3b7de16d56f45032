"""Large layers: trained ones of d = 128 and d = 384, and planted ones whose equilibrium is known.

Trained layers are classified with a stated feed-forward part: the affine closure of their own
feed-forward network at the moments of real tokens at that layer (A_eq, Theory 8.1), and a leak
A = -I. Depth is continuous, norms are folded with the tokens' root mean square as divisor. Narrow
heads have an attention form of low rank, so that no positive definite equilibrium of theirs can be
certified by it; what is found may be singular, and the reasons are printed.

Planted models have factored heads T(E) = -s sum_h P_h E Q_h with random projections P_h and Q_h, in
coordinates where the equilibrium is the identity, carried to a covariance of condition 25. Wide
heads make the attention form negative definite; narrow ones leave it semidefinite, and the
propagator of the linearisation certifies that the equilibrium attracts locally.

    python examples/large_layers.py --weights DIR      MiniLM too, see pretrained_weights.py
    python examples/large_layers.py --quick            one small layer of each kind, in seconds

--plots DIR draws the poles of the planted layers' means, and the covariance abscissa of every row.
"""

import argparse
import importlib.util
import resource
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import gausscontrol as gct

QUICK = ("--quick",)
TOKENS = 1024
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2, "fontsize": "small"}
WIDTH = (26, 13, 22, 10, 10, 28, 8, 8)


# -- trained layers -------------------------------------------------------------------------------


def trained(folder):
    """Yield name, layers and real tokens of every model at hand."""
    rng = np.random.default_rng(0)
    home = Path(importlib.util.find_spec("glassllm").origin).parent / "weights/en.npz"
    table = gct.tokens.read_tensors(home)["E"]
    chosen = table[rng.choice(len(table), min(TOKENS, len(table)), replace=False)]
    yield "glassllm", gct.tokens.read_layers(home), np.asarray(chosen, dtype=float)
    if folder is None:
        return
    path = Path(folder) / "minilm/model.safetensors"
    arrays = gct.tokens.read_tensors(path)
    words = arrays["embeddings.word_embeddings.weight"]
    positions = arrays["embeddings.position_embeddings.weight"][rng.integers(0, 128, TOKENS)]
    x = np.asarray(words[rng.choice(len(words), TOKENS, replace=False)] + positions, dtype=float)
    x += arrays["embeddings.token_type_embeddings.weight"][0]
    x -= x.mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)
    gain, bias = (arrays[f"embeddings.LayerNorm.{name}"] for name in ("weight", "bias"))
    yield "MiniLM", gct.tokens.read_layers(path), x * gain + bias


def parts(layer, tokens):
    """Yield the layer as a model, once with each feed-forward part."""
    if not layer.raw.post_norm:
        layer = layer.refold(float(np.sqrt(np.mean(tokens**2))))
    mean = tokens.mean(axis=0)
    covariance = (tokens - mean).T @ (tokens - mean) / len(tokens)
    closed = layer.feedforward.closure(mean, covariance).A_eq
    for name, A in (("leak", -np.eye(len(mean))), ("closure", closed)):
        yield name, layer.model.replace(A=A, dt=0)


def show_layer(name, part, model):
    """Classify one layer and print its row; return the reasons, and what a figure shows of it."""
    start = time.perf_counter()
    found = gct.classify(model, sdp=False)
    equilibrium = found.equilibria[0] if found.equilibria else None
    spectrum = ("none", "") if equilibrium is None else describe(equilibrium)
    form = "" if found.equilibrium is None else margin(model, found.equilibrium)
    row(name, part, *spectrum, form, found.regime, time.perf_counter() - start)
    reasons = [found.no_equilibrium] if found.no_equilibrium else []
    reasons += [f"not {regime}: {error}" for regime, error in found.refused.items()]
    abscissa = None if equilibrium is None else equilibrium.covariance_abscissa
    return reasons, (f"{name}, {part}", abscissa, found.regime, found.certificate is not None)


def describe(equilibrium):
    word = "stable" if equilibrium.covariance_is_stable else "not stable"
    return f"rank {equilibrium.rank}, {word}", f"{equilibrium.covariance_abscissa:.4g}"


def margin(model, equilibrium):
    return f"{gct.analyze(model, equilibrium).attention_form_margin:.3g}"


# -- planted layers -------------------------------------------------------------------------------


def planted(dim, n_heads, width, seed=0):
    """Return a model with factored heads and its equilibrium covariance."""
    rng = np.random.default_rng([seed, dim, n_heads, width])

    def frames():
        return np.stack([np.linalg.qr(rng.normal(size=(dim, width)))[0].T for _ in range(n_heads)])

    values, keys = frames(), frames()
    size = dim**2 / (n_heads * width**2)
    attention = -size * sum(u.T @ (u @ k.T) @ k for u, k in zip(values, keys, strict=True))
    Z = rng.normal(size=(dim, dim))
    white = gct.GaussianTransformer.from_weights(
        keys,
        keys,
        values,
        -size * values.transpose(0, 2, 1),
        A=(Z - Z.T) / np.sqrt(2 * dim) - attention,
        b=rng.normal(size=dim),
        scale=1.0,
    )
    root = np.linalg.qr(rng.normal(size=(dim, dim)))[0] * np.linspace(1, 5, dim)
    return white.transform(root), root @ root.T


def show_planted(dim, n_heads, width, certify):
    """Find the equilibrium of a planted model, certify what is found, and print the row.

    Return what a figure shows: the row, and the poles of the mean.
    """
    model, Sigma = planted(dim, n_heads, width)
    start = time.perf_counter()
    found = gct.find_equilibrium(model)
    error = np.linalg.norm(found.covariance - Sigma) / np.linalg.norm(Sigma)
    certificate = certify(model, found)
    form = "" if certificate.method == "propagator" else f"{certificate.margin:.3g}"
    row(
        f"planted {dim}, {n_heads} x {width}",
        "planted",
        f"rank {found.rank}, error {error:.0e}",
        f"{found.covariance_abscissa:.4g}",
        form,
        f"{type(certificate).__name__}, {certificate.method}",
        time.perf_counter() - start,
    )
    # The mean moves by A + V Sigma B + V, of all heads.
    poles = np.linalg.eigvals(model.drift(found.covariance) + model.V.sum(axis=0))
    regime = type(certificate).__name__
    return (f"planted {dim}, {n_heads} x {width}", found.covariance_abscissa, regime, True), poles


# -- the table ------------------------------------------------------------------------------------


def row(*cells):
    """Print cells, seconds and peak memory in columns."""
    cells = [cell if isinstance(cell, str) else f"{cell:.1f}" for cell in cells]
    cells.append(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
    print("".join(f"{cell:<{w}}" for cell, w in zip(cells, WIDTH, strict=False)).rstrip())
    sys.stdout.flush()


def draw(rows, planted):
    """Draw the mean poles of planted layers, and the abscissa of the best point of every row."""
    figure = Figure(figsize=(9.6, max(3.8, 2.0 + 0.3 * len(rows))), layout="constrained")
    left, right = figure.subplots(1, 2)
    styles = (("#0072B2", "o"), ("#D55E00", "x"))
    for (name, poles), (color, marker) in zip(planted.items(), styles, strict=True):
        style = {"marker": marker, "markerfacecolor": "none", "markersize": 5}
        left.plot(poles.real, poles.imag, linestyle="none", color=color, label=name, **style)
    left.axvline(0, color="0.4", linewidth=1, linestyle=":")
    left.set(xlabel="real part [1/t]", ylabel="imaginary part [1/t]")
    left.legend(title="Poles of the mean, planted layers", **ABOVE)
    labels = []
    for place, (name, abscissa, regime, certified) in enumerate(rows):
        labels.append(f"{name}\n{regime}")
        if abscissa is not None:
            face = "#0072B2" if certified else "none"
            right.plot(abscissa, place, "o", color="#0072B2", markerfacecolor=face)
    right.plot([], [], "o", color="#0072B2", label="certified")
    right.plot([], [], "o", color="#0072B2", markerfacecolor="none", label="not certified")
    right.axvline(0, color="0.4", linewidth=1, linestyle=":")
    right.set_yticks(range(len(rows)), labels, fontsize="small")
    right.set(ylim=(len(rows) - 0.5, -0.5), xlabel="covariance abscissa [1/t]")
    right.xaxis.set_major_locator(MaxNLocator(5))
    right.legend(title="Equilibria found", **ABOVE)
    for axis in (left, right):
        axis.grid(True, alpha=0.3, linewidth=0.6)
    return figure


def main(arguments=QUICK):
    """Print one row for every layer and every planted model, then the reasons."""
    parser = argparse.ArgumentParser(description="Large layers")
    parser.add_argument("--quick", action="store_true", help="small models only, in seconds")
    parser.add_argument("--weights", metavar="DIR", help="folder of downloaded weights")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="folder for the figure")
    chosen = parser.parse_args(arguments)
    print("layer                     feed-forward equilibrium           abscissa  form", end="")
    print("      verdict or certificate      s       MiB")
    sizes = ((40, 4, 30), (34, 4, 12)) if chosen.quick else ((384, 12, 128), (128, 4, 32))
    rows, planted_poles, reasons = [], {}, {}
    kinds = (partial(gct.certify_global_stability, method="form"), gct.certify_local_stability)
    for size, certify in zip(sizes, kinds, strict=True):
        shown, poles = show_planted(*size, certify)
        rows.append(shown)
        planted_poles[shown[0]] = poles
    for name, layers, tokens in trained(chosen.weights):
        for number, layer in enumerate(layers[:1] if chosen.quick else layers):
            for part, model in parts(layer, tokens):
                label = f"{name} layer {number}"
                reasons[label, part], shown = show_layer(label, part, model)
                rows.append(shown)
                if chosen.quick:
                    break
            tokens = layer.raw(tokens)
    for (label, part), lines in reasons.items():
        print(f"\n{label}, {part}")
        for line in lines:
            print(f"  {line}")
    if chosen.plots is not None:
        chosen.plots.mkdir(parents=True, exist_ok=True)
        path = chosen.plots / "large_layers.png"
        draw(rows, planted_poles).savefig(path, dpi=150)
        print(f"\nwrote {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
