"""Trained layers: files, layouts, the layer as it runs, what folds, bad input."""

import json
import zipfile
from pathlib import Path

import glassllm
import numpy as np
import pytest
from scipy.special import erf

import gausscontrol as gct
from gausscontrol.model.heads import FactoredHeads
from gausscontrol.tokens.attention import logit_deviation, softmax_attention
from gausscontrol.tokens.tensors import read_tensors
from gausscontrol.tokens.weights import read_layers

D, HEADS, M = 8, 2, 12

# Part of the extra "test": where it is missing, these tests have to fail.
GLASS = Path(glassllm.__file__).parent / "weights" / "en.npz"

TORCH = {
    "bert": (
        "encoder.layer.{}.",
        ["attention.self.query", "attention.self.key", "attention.self.value"],
        "attention.output.dense",
        ["attention.output.LayerNorm", "output.LayerNorm"],
        ["intermediate.dense", "output.dense"],
    ),
    "vit": (
        "vit.encoder.layer.{}.",
        ["attention.attention.query", "attention.attention.key", "attention.attention.value"],
        "attention.output.dense",
        ["layernorm_before", "layernorm_after"],
        ["intermediate.dense", "output.dense"],
    ),
    "dinov2": (
        "encoder.layer.{}.",
        ["attention.attention.query", "attention.attention.key", "attention.attention.value"],
        "attention.output.dense",
        ["norm1", "norm2"],
        ["mlp.fc1", "mlp.fc2"],
    ),
}


def encoder(architecture, layers=2, seed=0):
    """Arrays of an encoder with all its biases."""
    rng = np.random.default_rng(seed)
    stem, queries, output, norms, parts = TORCH[architecture]
    arrays = {}
    for i in range(layers):
        shapes = dict.fromkeys([*queries, output], (D, D)) | {parts[0]: (M, D), parts[1]: (D, M)}
        for name, shape in shapes.items():
            arrays[stem.format(i) + name + ".weight"] = rng.standard_normal(shape) / 2
            arrays[stem.format(i) + name + ".bias"] = rng.standard_normal(shape[0])
        for name in norms:
            arrays[stem.format(i) + name + ".weight"] = 1 + rng.random(D)
            arrays[stem.format(i) + name + ".bias"] = rng.standard_normal(D)
        if architecture == "dinov2":
            for name in ("layer_scale1", "layer_scale2"):
                arrays[stem.format(i) + name + ".lambda1"] = rng.standard_normal(D)
    return arrays


def llama(layers=2, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {}
    for i in range(layers):
        shapes = {
            "self_attn.q_proj": (D, D),
            "self_attn.k_proj": (D // 2, D),
            "self_attn.v_proj": (D // 2, D),
            "self_attn.o_proj": (D, D),
            "mlp.gate_proj": (M, D),
            "mlp.up_proj": (M, D),
            "mlp.down_proj": (D, M),
        }
        for name, shape in shapes.items():
            arrays[f"model.layers.{i}.{name}.weight"] = rng.standard_normal(shape) / 2
        for name in ("input_layernorm", "post_attention_layernorm"):
            arrays[f"model.layers.{i}.{name}.weight"] = 1 + rng.random(D)
    return arrays


def named(arrays, name, i):
    """Weight and bias of a linear map of one layer."""
    [weight] = [v for k, v in arrays.items() if k.endswith(f".{i}.{name}.weight")]
    [bias] = [v for k, v in arrays.items() if k.endswith(f".{i}.{name}.bias")]
    return weight, bias


def plain_attention(x, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O, heads):
    """Softmax attention written out from weights as frameworks store them."""
    width = len(W_Q) // heads
    Q, K, V = x @ W_Q.T + b_Q, x @ W_K.T + b_K, x @ W_V.T + b_V
    mixed = []
    for h in range(heads):
        own = slice(h * width, (h + 1) * width)
        P = np.exp(Q[:, own] @ K[:, own].T / np.sqrt(width))
        mixed.append(P / P.sum(axis=1, keepdims=True) @ V[:, own])
    return np.concatenate(mixed, axis=1) @ W_O.T + b_O


def by_model(layer, x):
    return softmax_attention(layer.model.heads, layer.model.k, x) + layer.model.b


def gelu(z):
    return z * (1 + erf(z / np.sqrt(2))) / 2


def normalised(x, gain, bias, epsilon):
    return gain * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + epsilon) + bias


# -- the layer as trained -------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", TORCH)
def test_encoder_layer_runs_as_written_out(architecture):
    arrays = encoder(architecture)
    x = np.random.default_rng(1).standard_normal((20, D))
    epsilon = 1e-3
    _, queries, output, norms, parts = TORCH[architecture]
    layers = read_layers(arrays, n_heads=HEADS, config={"layer_norm_eps": epsilon})
    assert [layer.name for layer in layers] == [f"{architecture} layer {i}" for i in (0, 1)]
    for i, layer in enumerate(layers):
        blocks = [w for name in (*queries, output) for w in named(arrays, name, i)]
        first, second = ((*named(arrays, name, i), epsilon) for name in norms)
        (W1, c1), (W2, c2) = (named(arrays, name, i) for name in parts)
        scales = [np.ones(D), np.ones(D)]
        if architecture == "dinov2":
            scales = [arrays[f"encoder.layer.{i}.layer_scale{j}.lambda1"] for j in (1, 2)]

        def feedforward(z, weights=(W1, c1, W2, c2)):
            return gelu(z @ weights[0].T + weights[1]) @ weights[2].T + weights[3]

        if architecture == "bert":
            y = normalised(x + plain_attention(x, *blocks, HEADS), *first)
            y = normalised(y + feedforward(y), *second)
        else:
            y = x + scales[0] * plain_attention(normalised(x, *first), *blocks, HEADS)
            y = y + scales[1] * feedforward(normalised(y, *second))
        np.testing.assert_allclose(layer.raw(x), y, rtol=1e-12, atol=1e-12)


def test_glassllm_layers_run_as_the_package_runs_them():
    import glassllm

    original = glassllm.GlassLM.load(GLASS, dtype=np.float64)
    layers = read_layers(GLASS)
    x = np.random.default_rng(0).standard_normal((20, 128))
    for i, (block, layer) in enumerate(zip(original.blocks, layers, strict=True)):
        y = block(glassllm.Tensor(x[None]), i).data[0]
        np.testing.assert_allclose(layer.raw(x), y, rtol=1e-12, atol=1e-12)
        assert np.abs(layer.raw(x, rotary=False) - y).max() > 1e-6
        assert np.abs(layer.raw(x, causal=False) - y).max() > 1e-3


def test_rotary_halves_turn_pairs_half_a_head_apart():
    [layer, _] = read_layers(llama(), n_heads=HEADS)
    rotary = layer.raw.rotary
    x = np.random.default_rng(0).standard_normal((7, 4))
    turned = rotary(x)
    plane = x[:, :2] + 1j * x[:, 2:]
    expected = plane * np.exp(1j * np.outer(np.arange(7), [1.0, 10000.0**-0.5]))
    np.testing.assert_allclose(turned, np.hstack([expected.real, expected.imag]), atol=1e-14)
    paired = rotary._replace(style="pairs")(x.reshape(7, 2, 2).transpose(0, 2, 1).reshape(7, 4))
    np.testing.assert_allclose(paired.reshape(7, 2, 2).transpose(0, 2, 1).reshape(7, 4), turned)


def test_causal_layer_sees_no_later_token():
    [layer, _] = read_layers(llama(), n_heads=HEADS)
    x = np.random.default_rng(0).standard_normal((9, D))
    changed = x.copy()
    changed[6:] += 1
    np.testing.assert_array_equal(layer.raw(x)[:6], layer.raw(changed)[:6])
    assert np.abs(layer.raw(x, causal=False) - layer.raw(changed, causal=False))[:6].max() > 1e-3


def fused(style, layers=2, seed=0):
    """Arrays with one map to queries, keys and values, as GPT-2 and timm have them."""
    rng = np.random.default_rng(seed)
    prefix, names, norms, parts = {
        "gpt2": ("h.{}.", ("attn.c_attn", "attn.c_proj"), ("ln_1", "ln_2"), ("c_fc", "c_proj")),
        "timm": ("blocks.{}.", ("attn.qkv", "attn.proj"), ("norm1", "norm2"), ("fc1", "fc2")),
    }[style]
    arrays = {}
    for i in range(layers):
        shapes = {names[0]: (3 * D, D), names[1]: (D, D)}
        shapes |= {f"mlp.{parts[0]}": (M, D), f"mlp.{parts[1]}": (D, M)}
        for name, shape in shapes.items():
            W = rng.standard_normal(shape) / 2
            arrays[prefix.format(i) + name + ".weight"] = W.T if style == "gpt2" else W
            arrays[prefix.format(i) + name + ".bias"] = rng.standard_normal(shape[0])
        for name in norms:
            arrays[prefix.format(i) + name + ".weight"] = 1 + rng.random(D)
            arrays[prefix.format(i) + name + ".bias"] = rng.standard_normal(D)
    return arrays


@pytest.mark.parametrize("style", ["gpt2", "timm"])
def test_fused_layers_run_as_written_out(style):
    arrays, x = fused(style), np.random.default_rng(1).standard_normal((20, D))
    arrays["h.0.attn.bias"] = np.tril(np.ones((20, 20)))  # the buffer that is GPT-2's mask
    if style == "timm":
        del arrays["h.0.attn.bias"]
    layers = read_layers(arrays, n_heads=HEADS)
    assert [layer.name for layer in layers] == [f"{style} layer {i}" for i in (0, 1)]
    raw, first = layers[0].raw, list(arrays.values())[:12]
    W, b, O, c, W1, c1, W2, c2, g1, h1, g2, h2 = first
    if style == "gpt2":
        W, O, W1, W2 = W.T, O.T, W1.T, W2.T
    blocks = [each for i in range(3) for each in (W[i * D : (i + 1) * D], b[i * D : (i + 1) * D])]
    epsilon = 1e-5 if style == "gpt2" else 1e-6
    y = x + plain_attention(normalised(x, g1, h1, epsilon), *blocks, O, c, HEADS)
    z = normalised(y, g2, h2, epsilon) @ W1.T + c1
    if style == "gpt2":
        z = z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2
    else:
        z = gelu(z)
    np.testing.assert_allclose(raw(x, causal=False), y + z @ W2.T + c2, rtol=1e-12, atol=1e-12)
    assert raw.causal == (style == "gpt2")


def test_layer_scale_of_timm_is_read_where_it_is():
    arrays = fused("timm", 1)
    for name in ("ls1", "ls2"):
        arrays[f"blocks.0.{name}.gamma"] = np.full(D, 0.5)
    [layer] = read_layers(arrays, n_heads=HEADS)
    np.testing.assert_array_equal(layer.raw.scales[0], 0.5)
    assert any("LayerScale" in line for line in layer.folded)
    del arrays["blocks.0.ls2.gamma"]
    with pytest.raises(gct.ParameterError, match=r"expected blocks\.0\.ls2\.gamma, found no"):
        read_layers(arrays, n_heads=HEADS)


# -- what folds -----------------------------------------------------------------------------------


def test_glassllm_heads_are_the_raw_attention_block():
    arrays = read_tensors(GLASS)
    read = [np.asarray(arrays[f"blocks.0.attn.W_{n}"], dtype=float) for n in "QKVO"]
    gain = np.asarray(arrays["blocks.0.norm1.gamma"], dtype=float)
    layer = read_layers(GLASS)[0]
    x = np.random.default_rng(0).standard_normal((200, 128))
    z = x * gain
    expected = np.zeros_like(x)
    for h in range(4):
        own, shared = slice(32 * h, 32 * (h + 1)), slice(32 * (h // 2), 32 * (h // 2 + 1))
        P = np.exp((z @ read[0][:, own]) @ (z @ read[1][:, shared]).T / np.sqrt(32))
        P /= P.sum(axis=1, keepdims=True)
        alone = P @ (z @ read[2][:, shared]) @ read[3][own]
        np.testing.assert_allclose(layer.attention(x, head=h), alone, atol=1e-12)
        expected += alone
    np.testing.assert_allclose(by_model(layer, x), expected, atol=1e-10)
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(
        layer.model.B[3], (gain[:, None] * read[1][:, 32:]) @ (read[0][:, 96:].T * gain) / 32**0.5
    )


@pytest.mark.parametrize("architecture", TORCH)
def test_encoder_heads_are_the_raw_attention_block(architecture):
    arrays = encoder(architecture)
    _, queries, output, norms, _ = TORCH[architecture]
    divisor = 1.7
    layer = read_layers(arrays, n_heads=HEADS, divisor=divisor)[1]
    x = np.random.default_rng(2).standard_normal((30, D)) / 2
    z, scale = x, np.ones(D)
    if architecture != "bert":
        gain, bias = named(arrays, norms[0], 1)
        z = gain * (x - x.mean(axis=1, keepdims=True)) / divisor + bias
    if architecture == "dinov2":
        scale = arrays["encoder.layer.1.layer_scale1.lambda1"]
    blocks = [w for name in (*queries, output) for w in named(arrays, name, 1)]
    expected = scale * plain_attention(z, *blocks, HEADS)
    np.testing.assert_allclose(by_model(layer, x), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(layer.attention(x), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("architecture", [*TORCH, "llama"])
def test_feedforward_folds_as_attention_does(architecture):
    arrays = llama() if architecture == "llama" else encoder(architecture)
    divisor = 0.8
    layer = read_layers(arrays, n_heads=HEADS, divisor=divisor)[0]
    x = np.random.default_rng(2).standard_normal((30, D))
    z, raw = x, layer.raw
    if architecture == "llama":
        z = raw.norms[1].gain * x / divisor
    elif architecture != "bert":
        z = raw.norms[1].gain * (x - x.mean(1, keepdims=True)) / divisor + raw.norms[1].bias
    expected = raw.scales[1] * raw.feedforward(z)
    np.testing.assert_allclose(layer.feedforward(x), expected, rtol=1e-12, atol=1e-12)


def test_divisor_imitates_the_norm_where_tokens_have_one_size():
    layer = read_layers(encoder("vit"), n_heads=HEADS)[0]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((25, D))
    x -= x.mean(axis=1, keepdims=True)
    x *= 3 / x.std(axis=1, keepdims=True)
    exact = layer.raw.attention(layer.raw.norms[0](x))
    np.testing.assert_allclose(by_model(layer.refold(3.0), x), exact, rtol=1e-10, atol=1e-10)
    assert layer.refold(3.0).divisor == 3.0
    assert np.abs(by_model(layer, x) - exact).max() > 0.1


def test_grouped_keys_are_repeated():
    arrays = llama()
    model = read_layers(arrays, n_heads=4)[0].model
    assert model.n_heads == 4
    _, _, keys, _ = model.heads.arrays
    np.testing.assert_array_equal(keys[0], keys[1])
    np.testing.assert_array_equal(keys[2], keys[3])
    assert np.abs(keys[1] - keys[2]).max() > 0.1


def test_query_bias_becomes_the_tilt():
    arrays = encoder("bert")
    model = read_layers(arrays, n_heads=HEADS)[0].model
    (W_Q, b_Q), (W_K, _) = (named(arrays, f"attention.self.{n}", 0) for n in ("query", "key"))
    np.testing.assert_allclose(model.k[1], W_K[4:].T @ b_Q[4:] / 2)
    np.testing.assert_allclose(model.B[1], W_K[4:].T @ W_Q[4:] / 2)


def test_gaussian_form_of_every_glassllm_head():
    layer = read_layers(GLASS)[0]
    covariance = np.cov(np.asarray(read_tensors(GLASS)["E"], dtype=float).T, bias=True)
    tokens = np.random.default_rng(3).standard_normal((1500, 128))
    tokens = tokens @ np.linalg.cholesky(covariance).T
    for h in range(4):
        heads = FactoredHeads(*(array[h : h + 1] for array in layer.model.heads.arrays))
        k = np.zeros((1, 128))
        deviation = logit_deviation(heads, k, np.zeros(128), covariance)[0]
        x = tokens * np.sqrt(0.3 / deviation)
        mean, Sigma = x.mean(axis=0), np.cov(x.T, bias=True)
        soft = softmax_attention(heads, k, x) - heads.V[0] @ mean
        form = x @ (heads.V[0] @ Sigma @ heads.B[0]).T
        assert np.linalg.norm(soft - form) < 0.1 * np.linalg.norm(form)


def test_report_says_what_folds_and_what_does_not():
    report = str(read_layers(llama(), n_heads=4)[0])
    assert report.startswith("llama layer 0: d = 8, 4 heads of width 2")
    assert "folded   gain of the norms, into" in report
    assert "2 repeated for 4 heads" in report
    assert "dropped  rotary embedding, base 10000" in report
    assert "dropped  causal mask" in report
    assert "dropped  division by each token's own size: 1 stands in" in report
    report = str(read_layers(encoder("dinov2"), n_heads=2)[0])
    assert "gain and centring of the norms" in report
    assert "LayerScale" in report
    assert "query bias, as k" in report
    assert "rotary" not in report
    report = str(read_layers(encoder("bert"), n_heads=2)[0])
    assert "dropped  both norms, gain and bias included" in report
    assert "folded   gain" not in report


def test_layers_make_a_stack():
    layers = read_layers(encoder("vit", 3), n_heads=HEADS)
    stack = gct.LayerStack([layer.model for layer in layers])
    assert float(stack.boundaries[-1]) == 3
    continuous = read_layers(encoder("vit", 1), n_heads=HEADS, dt=0)
    assert continuous[0].model.dt == 0


def test_inputs_are_left_alone():
    arrays = encoder("dinov2")
    before = {name: array.copy() for name, array in arrays.items()}
    read_layers(arrays, n_heads=HEADS)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


# -- files ----------------------------------------------------------------------------------------


def write_safetensors(path, arrays):
    header, buffers, position = {"__metadata__": {"format": "pt"}}, [], 0
    kinds = {"float64": "F64", "float32": "F32", "float16": "F16", "uint16": "BF16", "int64": "I64"}
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [position, position + len(raw)],
        }
        position += len(raw)
        buffers.append(raw)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(buffers))


def integer(value):
    out = bytearray()
    while True:
        out.append((value & 127) | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number, content):
    if isinstance(content, int):
        return integer(number << 3) + integer(content)
    content = content.encode() if isinstance(content, str) else content
    return integer(number << 3 | 2) + integer(len(content)) + content


def write_onnx(path, arrays, packed=False):
    """A graph whose matrices have lost their names, as exporters leave it."""
    graph = b""
    for n, (name, array) in enumerate(arrays.items()):
        stem, kind = name.rsplit(".", 1)
        if kind == "weight" and array.ndim == 2:
            name, array = f"onnx::MatMul_{n}", array.T
            node = field(1, "x") + field(1, name) + field(2, "y") + field(4, "MatMul")
            node += field(3, "/" + stem.replace(".layer.", ".layer.").replace(".", "/") + "/MatMul")
            graph += field(1, node)
        dims = b"".join(field(1, size) for size in array.shape)
        if packed:
            dims = field(1, b"".join(map(integer, array.shape)))
        data = np.ascontiguousarray(array, dtype="<f4").tobytes()
        graph += field(5, dims + field(2, 1) + field(8, name) + field(9, data))
    graph += field(5, field(1, 1) + field(2, 7) + field(8, "an integer") + field(9, bytes(8)))
    path.write_bytes(field(1, 7) + field(2, "exporter") + field(7, graph))


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_files_give_the_arrays_back(tmp_path, suffix):
    arrays = encoder("bert")
    arrays["half"] = np.arange(6, dtype=np.float16).reshape(2, 3)
    arrays["number"] = np.array(3, dtype=np.int64)
    arrays["empty"] = np.zeros((0, 3))
    path = tmp_path / f"model.{suffix}"
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        write_safetensors(path, arrays)
    read = read_tensors(path)
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    [layer, _] = read_layers(path, n_heads=HEADS)
    np.testing.assert_array_equal(layer.model.B, read_layers(arrays, n_heads=HEADS)[0].model.B)


def test_bfloat16_becomes_float32(tmp_path):
    values = np.array([[1.0, -2.5, 3.140625], [0.0, 2.0**-130, -1e30]], dtype=np.float32)
    upper = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_safetensors(tmp_path / "w.safetensors", {"x": upper})
    read = read_tensors(tmp_path / "w.safetensors")["x"]
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, values, rtol=2**-7)
    np.testing.assert_array_equal(read[0], values[0])


@pytest.mark.parametrize("packed", [False, True])
def test_onnx_matrices_get_the_names_of_their_layers(tmp_path, packed):
    arrays = encoder("vit")
    write_onnx(tmp_path / "model.onnx", arrays, packed)
    read = read_tensors(tmp_path / "model.onnx")
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array.astype(np.float32))
    assert read_layers(tmp_path / "model.onnx", n_heads=2)[1].name == "vit layer 1"


def test_configuration_beside_the_file_is_read(tmp_path):
    np.savez(tmp_path / "model.npz", **encoder("bert"))
    settings = {"num_attention_heads": 4, "layer_norm_eps": 0.5, "hidden_act": "gelu_new"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    layer = read_layers(tmp_path / "model.npz")[0]
    assert layer.model.n_heads == 4
    assert layer.raw.norms[0].epsilon == 0.5
    assert layer.feedforward.activation == "gelu_tanh"
    assert read_layers(tmp_path / "model.npz", n_heads=2)[0].model.n_heads == 2
    given = read_layers(tmp_path / "model.npz", config={"num_attention_heads": 1})
    assert given[0].model.n_heads == 1
    assert given[0].feedforward.activation == "gelu"


# -- bad input ------------------------------------------------------------------------------------


def test_missing_files_stay_what_they_are(tmp_path):
    for name in ("a.npz", "a.safetensors", "a.onnx"):
        with pytest.raises(FileNotFoundError):
            read_tensors(tmp_path / name)


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.onnx"])
@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64, b"\x07" + bytes(200)])
def test_damaged_files_are_refused_by_name(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(gct.ParameterError, match=rf"{name}: expected") as caught:
        read_tensors(path)
    assert "pickle" not in str(caught.value)
    assert not name.endswith("npz") or str(caught.value).endswith("; fetch the file again")


def test_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(gct.ParameterError, match="Python objects in it; save each array on its"):
        read_tensors(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F8", "shape": [2], "data_offsets": [0, 2]}, "x: expected one of F64"),
        ({"dtype": "F32", "shape": [2]}, "x: expected dtype, shape and data_offsets"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "x: expected 8 bytes, found off"),
        ({"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}, "offsets 0 to 32"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}, "x: expected dtype, shape and"),
        (3, "x: expected dtype, shape and data_offsets"),
    ],
)
def test_damaged_safetensors_headers(tmp_path, entry, message):
    text = json.dumps({"x": entry}).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    with pytest.raises(gct.ParameterError, match=message):
        read_tensors(path)


@pytest.mark.parametrize("shape", [[-1], [1.0], ["1"], [True], None, [[2]], 2])
def test_safetensors_shapes(tmp_path, shape):
    text = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(gct.ParameterError, match="x: expected dtype, shape and data_offsets"):
        read_tensors(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("text", "size", "message"),
    [
        ('{"x": {"dtype": "F32", "shape": [8589934592, 8589934592], "data_offsets": [0, 0]}}', 0,
         "expected 295147905179352825856 bytes"),
        ('{"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "x": 3}', 1,
         "found 'x' twice"),
        ('{"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},\
          "y": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}', 3, "in the place after"),
        ('{"x": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}', 3, "in the place after"),
        ('{"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}', 9, "2 bytes of arrays"),
        ("[" * 100_000, 0, "expected a JSON object"),
    ],
)  # fmt: skip
def test_safetensors_that_do_not_add_up(tmp_path, text, size, message):
    head = text.encode()
    data = len(head).to_bytes(8, "little") + head + bytes(size)
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(gct.ParameterError, match=message):
        read_tensors(tmp_path / "a.safetensors")


def test_archives_of_something_else(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "no array")
    with pytest.raises(gct.ParameterError, match="members that are no arrays"):
        read_tensors(path)
    np.savez(path, x=np.zeros(3, dtype="V2"))
    with pytest.raises(gct.ParameterError, match="x: expected numbers, found raw bytes"):
        read_tensors(path)
    np.savez(path, x=np.arange(1000.0))
    damaged = bytearray(path.read_bytes())
    damaged[60:90] = bytes(30)
    path.write_bytes(damaged)
    with pytest.raises(gct.ParameterError, match=r"a\.npz: expected"):
        read_tensors(path)


def onnx_of(*tensors):
    return field(7, b"".join(field(5, tensor) for tensor in tensors))


def test_onnx_values_in_other_places(tmp_path):
    values = np.array([1.0, -2.5], dtype="<f4")
    upper = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    path = tmp_path / "a.onnx"
    path.write_bytes(
        onnx_of(
            field(1, 2) + field(2, 1) + field(8, "packed") + field(4, values.tobytes()),
            field(1, 2) + field(2, 16) + field(8, "short") + field(9, upper),
            field(1, 2)
            + field(2, 11)
            + field(8, "long")
            + field(10, values.astype("<f8").tobytes()),
        )
    )
    read = read_tensors(path)
    assert set(read) == {"packed", "short", "long"}
    for array in read.values():
        np.testing.assert_array_equal(array, values)
    one = field(1, 1) + field(2, 1) + field(9, bytes(4))
    for tensors in ((one,), (one + field(8, "x"), one + field(8, "x"))):
        path.write_bytes(onnx_of(*tensors))
        with pytest.raises(gct.ParameterError, match="twice or not at all"):
            read_tensors(path)
    path.write_bytes(onnx_of(field(8, 5) + field(2, 1) + field(1, 1)))
    with pytest.raises(gct.ParameterError, match="a number where bytes belong"):
        read_tensors(path)


def test_a_folder_stands_for_the_one_file_in_it(tmp_path):
    with pytest.raises(gct.ParameterError, match=r"expected one file of weights in .*, found none"):
        read_layers(tmp_path)
    np.savez(tmp_path / "model.npz", **encoder("bert"))
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    assert read_layers(tmp_path)[0].model.n_heads == 4
    np.savez(tmp_path / "other.npz", x=np.eye(2))
    with pytest.raises(gct.ParameterError, match=r"found model\.npz, other\.npz; pass the file"):
        read_layers(tmp_path)


def test_pytorch_files_are_told_what_to_do():
    with pytest.raises(gct.ParameterError, match=r"tensor\.float\(\)\.numpy\(\)"):
        read_layers("model.pt")


def test_other_suffixes_are_refused():
    with pytest.raises(
        gct.ParameterError, match=r"path: expected a name ending in \.npz.*'a\.gguf'"
    ):
        read_tensors("a.gguf")


def test_bad_configuration(tmp_path):
    np.savez(tmp_path / "model.npz", **encoder("bert"))
    for text in ("[1, 2]", "{"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(gct.ParameterError, match=r"config\.json: expected a JSON object"):
            read_layers(tmp_path / "model.npz")


def test_unknown_names():
    with pytest.raises(gct.ParameterError, match="source: expected weights named as in glassllm"):
        read_layers({"h.0.attn.in_proj.weight": np.eye(3)})
    with pytest.raises(gct.ParameterError, match="timm, found no arrays; rename the arrays"):
        read_layers({})
    with pytest.raises(gct.ParameterError, match="source: expected names of arrays, found 3"):
        read_layers({3: np.eye(3)})
    for source in (None, [1]):
        with pytest.raises(gct.ParameterError, match="source: expected a file or arrays by name"):
            read_layers(source)
    with pytest.raises(gct.ParameterError, match="config: expected settings by name, found list"):
        read_layers(llama(), config=[1])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (llama, "model.layers.1.self_attn.q_norm.weight"),
        (llama, "model.layers.0.pre_feedforward_layernorm.weight"),
        (lambda: encoder("bert"), "encoder.layer.0.crossattention.self.query.weight"),
        (lambda: encoder("bert"), "encoder.layer.0.attention.self.distance_embedding.weight"),
        (lambda: fused("timm"), "blocks.1.attn.q_norm.weight"),
    ],
)
def test_arrays_that_are_not_read_are_refused(make, name):
    arrays = make() | {name: np.ones(2)}
    with pytest.raises(gct.ParameterError, match=rf"found also {name}; what it does"):
        read_layers(arrays, n_heads=2)
    outside = make() | {"lm_head.weight": np.ones((3, D)), "norm.weight": np.ones(D)}
    assert len(read_layers(outside, n_heads=2)) == 2


@pytest.mark.parametrize(
    "setting",
    [
        {"model_type": "gemma"},
        {"num_key_value_heads": 4},
        {"num_hidden_layers": 3},
        {"hidden_size": 9},
        {"head_dim": 4},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"partial_rotary_factor": 0.5},
        {"sliding_window": 4096},
        {"attn_logit_softcapping": 50.0},
        {"rope_theta": 0},
        {"rope_theta": -5.0},
        {"rope_theta": "1e4"},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
        {"rms_norm_eps": "abc"},
        {"rms_norm_eps": -1},
        {"rms_norm_eps": float("nan")},
        {"hidden_act": []},
        {"hidden_activation": "mish"},
        {"is_decoder": True},
    ],
)
def test_settings_that_layers_do_not_have_are_refused(setting):
    [name] = setting
    with pytest.raises(gct.ParameterError, match=rf"^{name}: expected"):
        read_layers(llama(), n_heads=4, config=setting)


def test_settings_that_say_nothing_new_are_not():
    settings = {
        "model_type": "llama",
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "hidden_size": D,
        "head_dim": 2,
        "rope_scaling": None,
        "rope_theta": None,
        "sliding_window": 4096,
        "use_sliding_window": False,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"},
    }
    layer = read_layers(llama(), n_heads=np.int64(4), config=settings)[0]
    assert layer.raw.rotary.base == 5e5
    assert layer.feedforward.activation == "gelu_tanh"


def test_heads_of_odd_width_have_no_rotary_embedding():
    arrays = {k: v for k, v in llama(1).items() if "_proj" not in k or "mlp" in k}
    for name, shape in zip("qkvo", [(9, D), (9, D), (9, D), (D, 9)], strict=True):
        arrays[f"model.layers.0.self_attn.{name}_proj.weight"] = np.ones(shape)
    with pytest.raises(gct.ShapeError, match="heads of even width for the rotary embedding"):
        read_layers(arrays, n_heads=3)


def test_layers_at_the_prompt_are_one_line():
    layer = read_layers(encoder("vit"), n_heads=2)[1]
    assert repr(layer) == "<PretrainedLayer vit layer 1: d = 8, 2 heads>"
    assert repr(layer.raw) == "<LayerWeights: d = 8, 2 heads>"
    assert repr(layer.raw.norms[0]).startswith("<Norm: layer, d = 8")
    assert layer.index == layer.refold(2.0).index == 1
    assert set(gct.tokens.mimetic_signs(layer).layer) == {1}


@pytest.mark.parametrize("head", [2, -1, 1.0, True, "0"])
def test_heads_that_are_not_there(head):
    layer = read_layers(encoder("vit"), n_heads=2)[0]
    with pytest.raises(gct.ParameterError, match="head: expected one of 2 heads"):
        layer.attention(np.zeros((4, D)), head=head)


def test_number_of_heads_has_to_be_known_and_fit():
    arrays = encoder("bert")
    with pytest.raises(gct.ParameterError, match="n_heads: expected the number of heads"):
        read_layers(arrays)
    for heads in (3, 0, -1, True, 2.0, "2"):
        with pytest.raises(gct.ParameterError, match="n_heads: expected a positive integer"):
            read_layers(arrays, n_heads=heads)
    with pytest.raises(gct.ShapeError, match=r"self_attn\.k_proj: expected a multiple of 8 rows"):
        read_layers(llama(), n_heads=1)


@pytest.mark.parametrize("divisor", [0, -1, float("inf"), float("nan"), "1", None, True])
def test_bad_divisors(divisor):
    with pytest.raises(gct.ParameterError, match="divisor: expected a positive number"):
        read_layers(encoder("vit"), n_heads=2, divisor=divisor)


def test_missing_and_damaged_weights():
    arrays = encoder("vit")
    del arrays["vit.encoder.layer.1.output.dense.weight"]
    with pytest.raises(gct.ParameterError, match=r"expected vit\.encoder\.layer\.1\.output\.dense"):
        read_layers(arrays, n_heads=2)
    arrays = encoder("vit")
    arrays["vit.encoder.layer.0.attention.attention.key.weight"][0, 0] = np.nan
    with pytest.raises(gct.ParameterError, match=r"layer\.0.*key\.weight: expected finite"):
        read_layers(arrays, n_heads=2)
    arrays = encoder("vit")
    arrays["vit.encoder.layer.0.attention.output.dense.weight"] = np.eye(D + 1)
    with pytest.raises(gct.ShapeError, match=r"attention\.output\.dense\.weight: expected 8 rows"):
        read_layers(arrays, n_heads=2)


def test_layers_must_be_complete_and_of_one_stack():
    arrays = encoder("vit")
    missing = {k: v for k, v in arrays.items() if ".layer.0." not in k}
    with pytest.raises(gct.ParameterError, match=r"expected layers 0 to 0, found \[1\]"):
        read_layers(missing, n_heads=2)
    twice = {**arrays, **{k.replace("vit.", "other."): v for k, v in arrays.items()}}
    with pytest.raises(gct.ParameterError, match="expected one stack of layers, found other"):
        read_layers(twice, n_heads=2)


def test_unknown_activation():
    with pytest.raises(gct.ParameterError, match="hidden_act: expected one of gelu"):
        read_layers(encoder("vit"), n_heads=2, config={"hidden_act": "mish"})


def test_tokens_of_another_dimension():
    layer = read_layers(encoder("vit"), n_heads=2)[0]
    with pytest.raises(gct.ShapeError, match=r"tokens: expected shape \(N, 8\)"):
        layer.raw(np.zeros((4, 7)))
    with pytest.raises(gct.ShapeError, match="expected shape"):
        layer.attention(np.zeros((4, 7)))


def test_names_of_an_architecture_with_arrays_missing_say_which():
    stem = "encoder.layer.0.attention.self."
    arrays = {f"{stem}{name}.weight": np.eye(8) for name in ("query", "key", "value")}
    with pytest.raises(
        gct.ParameterError, match=r"those of bert, found no .*output\.dense\.weight"
    ):
        read_layers(arrays, n_heads=2)
