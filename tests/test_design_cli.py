"""`gausscontrol design`: what it writes, what it refuses, and the code it leaves with."""

import json

import numpy as np
import pytest
from test_design import KEYS, SKEWED, TARGET

import gausscontrol as gct
from gausscontrol.cli import main

LAYER = gct.GaussianTransformer(SKEWED, KEYS, -0.4 * np.eye(2), k=[0.5, 0.0], name="layer")


@pytest.fixture(name="run")
def _run(tmp_path, capsys):
    """Run `design` on the layer, or another command on a file: code, out, lines on stderr."""
    gct.save_model(tmp_path / "layer.npz", LAYER)

    def run(*options, command="design", file="layer.npz"):
        code = main([command, str(tmp_path / file), *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.splitlines()

    return run


def test_a_design_is_written_and_analyze_reads_it(run, tmp_path):
    output = tmp_path / "designed.npz"
    code, out, err = run("--mean", 1, 0.5, "--covariance", 2, 0.8, 0.8, 1, "--output", output)
    assert (code, err) == (0, [])
    assert f"written {output}" in " ".join(out.split())
    assert "k of the file are not kept" in out
    assert max(map(len, out.splitlines())) <= max(80, len(str(output)) + 13)
    model = gct.load_model(output)
    np.testing.assert_array_equal(model.A, SKEWED)
    np.testing.assert_array_equal(model.B[0], KEYS)
    found = gct.find_equilibrium(model)
    np.testing.assert_allclose(found.covariance, TARGET[1], rtol=1e-8)
    np.testing.assert_allclose(found.mean, TARGET[0], rtol=1e-8)
    code, out, err = run("--require", "globally stable", command="analyze", file="designed.npz")
    assert (code, err) == (0, [])


def test_a_file_is_replaced_only_by_force(run, tmp_path):
    output = tmp_path / "designed.json"
    assert run("--target", 1, "--output", output)[0] == 0
    before = output.read_bytes()
    code, out, [line] = run("--target", 2, "--output", output)
    assert (code, out) == (2, "")
    assert "not overwritten" in line
    assert "--force" in line
    assert output.read_bytes() == before
    assert run("--target", 2, "--output", output, "--force")[0] == 0
    assert output.read_bytes() != before


@pytest.mark.parametrize("source", ["layer.npz", "target.json"])
def test_what_is_read_is_never_replaced(run, tmp_path, source):
    (tmp_path / "target.json").write_text(json.dumps({"covariance": TARGET[1].tolist()}))
    before = (tmp_path / source).read_bytes()
    options = ("--target", tmp_path / "target.json", "--output", tmp_path / source, "--force")
    code, out, [line] = run(*options)
    assert (code, out) == (2, "")
    assert "other than those that are read" in line
    assert (tmp_path / source).read_bytes() == before


def test_the_json_report(run, tmp_path):
    target = tmp_path / "target.json"
    target.write_text(json.dumps({"mean": [1, 0.5], "covariance": TARGET[1].tolist()}))
    folder = tmp_path / "out"
    options = ("--free", "AV", "--decay-rate", 0.4, "--mean-decay-rate", 0.1, "--near", "--json")
    code, out, err = run("--target", target, *options, "--plots", folder)
    report = json.loads(out)
    assert (code, err) == (0, [])
    assert report["decay_rate"] >= 0.4 * (1 - 1e-6)
    assert report["mean_decay_rate"] >= 0.1 * (1 - 1e-6)
    assert report["free"] == ["A", "V"]
    assert report["target"] == {"mean": [1, 0.5], "covariance": TARGET[1].tolist()}
    assert report["model"] == {
        "name": "layer", "dim": 2, "heads": 1, "mean_heads": 0, "dt": 0,
    }  # fmt: skip
    assert report["certificate"]["kind"] == "GlobalStability"
    assert report["certificate"]["scope"] == "covariance and mean"
    assert report["output"] is report["largest_step"] is None
    assert set(report["norms"]) == set("AVB")
    assert report["plots"] == [str(folder / "design.png")]
    assert (folder / "design.png").stat().st_size > 10_000


def test_bounds_heads_and_layers(run):
    options = ("--free", "VB", "--heads", 2, "--norm-bound", "V=6", "B=5", "--json")
    code, out, _ = run("--target", 1, *options)
    report = json.loads(out)
    assert code == 0
    assert report["model"]["heads"] - report["model"]["mean_heads"] == 2
    assert report["norms"]["V"] <= 6
    assert report["norms"]["B"] <= 5
    assert report["norm_bound"] == {"V": 6, "B": 5}
    code, out, _ = run("--target", 1, "--free", "VB", "--dt", 0.05, "--json")
    report = json.loads(out)
    assert (code, report["model"]["dt"]) == (0, 0.05)
    assert report["largest_step"] > 0.05


def test_what_is_infeasible_is_one_line_and_code_1(run, tmp_path):
    output = tmp_path / "designed.npz"
    for options, reason in (
        (("--norm-bound", 0.1), "norm"),
        (("--decay-rate", 1.5), "tr A"),
    ):
        code, out, [line] = run("--target", 1, *options, "--output", output)
        assert (code, out) == (1, "")
        assert line.startswith("gausscontrol: ")
        assert reason in line
        assert not output.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--target: expected one, or --covariance, found neither"),
        (("--target", 1, "--covariance", 1), "--covariance: expected nothing beside --target"),
        (("--target", "nowhere.json"), "nowhere.json"),
        (("--target", "nowhere.txt"), "--target: expected identity, a number or a file"),
        (("--target", -1), "--target: expected"),
        (("--covariance", 1, 2, 3), "--covariance: expected 1, 2 or 4 numbers"),
        (("--covariance", 1, 2, 3, 4), "--covariance: expected a symmetric matrix"),
        (("--target", 1, "--mean", 1), "--mean: expected a vector of 2 entries"),
        (("--target", 1, "--free", "A"), "--free"),
        (("--target", 1, "--norm-bound", "V"), "--norm-bound: expected one number, or pairs"),
        (("--target", 1, "--norm-bound", "V=x"), "--norm-bound: expected one number, or pairs"),
        (("--target", 1, "--norm-bound", "B=1"), "--norm-bound: expected bounds on V"),
        (("--target", 1, "--heads", 2), "--heads: expected nothing"),
        (("--target", 1, "--dt", -1), "--dt: expected 0 or a positive number"),
        (("--target", 1, "--output", "x.txt"), "--output: expected a name ending in"),
        (("--target", 1, "--output", "no/folder/x.npz"), "expected an existing folder"),
        (("--target", 1, "--free", "AV"), "--norm-bound: expected one, or a --decay-rate"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, options, message):
    code, out, [line] = run(*options)
    assert (code, out) == (2, "")
    assert message in line


def test_a_stack_is_refused(run, tmp_path):
    gct.save_model(tmp_path / "stack.npz", gct.LayerStack([LAYER, LAYER], [1, 1]))
    code, _, [line] = run("--target", 1, file="stack.npz")
    assert code == 2
    assert "expected a single layer, found a stack of 2" in line


def test_a_mean_replaces_that_of_the_target_file_and_help_says_so(run, tmp_path):
    target = tmp_path / "target.json"
    target.write_text(json.dumps({"mean": [1, 0.5], "covariance": TARGET[1].tolist()}))
    code, out, _ = run("--target", target, "--mean", -1, 2, "--json")
    assert code == 0
    assert json.loads(out)["target"]["mean"] == [-1, 2]
    code, out, _ = run("--help")
    words = " ".join(out.split())
    assert code == 0
    assert "target mean, d numbers [x]; replaces that of --target" in words
    assert "target covariance in place of --target" in words
