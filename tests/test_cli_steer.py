"""The command `gausscontrol steer`: what it prints, writes, and leaves with."""

import json
from pathlib import Path

import numpy as np
import pytest

import gausscontrol as gct
from gausscontrol.cli import main
from gausscontrol.cli.gaussians import read_gaussian_file
from gausscontrol.cli.steer import PICTURE

START = {"mean": [1.0, 0.0], "covariance": [[2.0, 0.5], [0.5, 1.0]]}
GOAL = {"covariance": [[1.0, 0.0], [0.0, 3.0]]}
KEYS = [
    "command",
    "schema",
    "version",
    "start",
    "goal",
    "model",
    "duration",
    "actuators",
    "rank",
    "energy",
]
KEYS += ["least_energy", "peak_norms", "residual", "amplification", "kind", "layers", "end_error"]
KEYS += ["output", "plots"]


@pytest.fixture
def files(tmp_path):
    np.savez(tmp_path / "start.npz", **START)
    (tmp_path / "goal.json").write_text(json.dumps(GOAL))
    return [str(tmp_path / "start.npz"), str(tmp_path / "goal.json")]


@pytest.mark.parametrize("suffix", ["npz", "mat", "json"])
def test_layers_in_the_file_reach_the_goal(files, tmp_path, suffix, capsys):
    output = tmp_path / f"stack.{suffix}"
    assert main(["steer", *files, "--layers", "5", "--depth", "2", "--output", str(output)]) == 0
    stack = gct.load_model(output)
    assert (len(stack), stack.depth) == (5, pytest.approx(2))
    end = gct.moment_response(stack, stack.boundaries, (START["mean"], START["covariance"]))
    np.testing.assert_allclose(end.covariance[:, :, -1], GOAL["covariance"], atol=1e-12)
    np.testing.assert_allclose(end.mean[:, -1], 0, atol=1e-12)
    printed = capsys.readouterr().out
    assert "Steering plan, d = 2, rank 2, by feedforward, depth 2 [t]" in printed
    assert "5 residual layers of depth 0.4 end at the goal" in printed
    assert f"Wrote {output}" in " ".join(printed.split())


def test_json_object(files, tmp_path, capsys):
    options = ["--actuators", "attention", "--kind", "hold", "--plots", str(tmp_path / "out")]
    assert main(["steer", *files, "--json", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == KEYS
    assert report["start"]["covariance"] == START["covariance"]
    assert (report["kind"], report["layers"], report["rank"]) == ("hold", 8, 2)
    assert report["energy"] == pytest.approx(report["least_energy"])
    assert set(report["peak_norms"]) == {"b", "V"}
    assert report["end_error"] < 1e-8
    assert [path.name for path in (tmp_path / "out").iterdir()] == [PICTURE]


def test_model_file_gives_the_parameters_that_stay(files, tmp_path):
    model = gct.GaussianTransformer(0.1 * np.eye(2), np.eye(2), -np.eye(2))
    gct.save_model(tmp_path / "layer.mat", model)
    output = tmp_path / "stack.npz"
    options = ["--model", str(tmp_path / "layer.mat"), "--actuators", "keys"]
    assert main(["steer", *files, *options, "--output", str(output)]) == 0
    for layer in gct.load_model(output):
        np.testing.assert_array_equal(layer.A, model.A)
        np.testing.assert_array_equal(layer.V, model.V)


def test_unreachable_leaves_with_one(files, tmp_path, capsys):
    np.savez(tmp_path / "line.npz", covariance=np.diag([1.0, 0.0]))
    output = tmp_path / "stack.npz"
    assert main(["steer", files[0], str(tmp_path / "line.npz"), "--output", str(output)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gausscontrol: goal: rank 2 cannot become rank 1")
    assert captured.err.count("\n") == 1
    assert not output.exists()


def test_a_rank_out_of_reach_names_its_option(files, capsys):
    assert main(["steer", *files, "--rank", "1"]) == 1
    assert capsys.readouterr().err.startswith("gausscontrol: --rank: start cannot count as rank 1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--layers", "0"], "gausscontrol: --layers: expected a positive number of layers"),
        (["--depth", "-1"], "gausscontrol: --depth: expected a positive depth"),
        (["--depth", "0"], "gausscontrol: --depth: expected a positive depth"),
        (["--output", "stack.txt"], "--output: expected a name ending in"),
        (["--output", "missing/stack.npz"], "expected an existing folder"),
        (["--rank", "5"], "--rank: expected an integer from 0 to 2"),
        (["--kind", "exact"], "--kind: expected one of residual, hold, found 'exact'; see"),
        (["--model", "missing.npz"], "missing.npz"),
    ],
)
def test_bad_input_leaves_with_two(files, options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["steer", *files, *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_bad_files_leave_with_two(files, tmp_path, capsys):
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "three.json").write_text(json.dumps({"covariance": np.eye(3).tolist()}))
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "broken.json").write_text('{"covariance": [[1, 0], [0')
    (tmp_path / "broken.npz").write_text("x")
    (tmp_path / "broken.mat").write_text("x")
    np.save(tmp_path / "bare.npy", np.eye(2))
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    for name, message in (
        ("list.json", 'found a list; write {"mean": ..., "covariance": ...}'),
        ("broken.json", 'write {"mean": ..., "covariance": ...}'),
        ("broken.npz", "write it with numpy.savez(file, mean=mean, covariance=covariance)"),
        ("broken.mat", "write it with save(file, 'mean', 'covariance', '-v7')"),
        ("bare.npz", "bare array; write it with numpy.savez(file, mean=mean, covariance="),
        ("empty.json", "expected covariance (2 x 2) and, optionally, mean, found nothing"),
        ("three.json", "covariance: expected a 2 x 2 matrix"),
        ("start.txt", "expected a file ending in"),
        ("none.npz", "none.npz"),
    ):
        assert main(["steer", files[0], str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


def test_a_stack_is_no_model(files, tmp_path, capsys):
    layer = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2), dt=0.1)
    gct.save_model(tmp_path / "stack.npz", gct.LayerStack([layer]))
    assert main(["steer", *files, "--model", str(tmp_path / "stack.npz")]) == 2
    assert (
        "expected one model, found a stack of 1 layer; name a file of one layer\n"
        in capsys.readouterr().err
    )


def test_mean_of_a_file_may_be_left_out(files, tmp_path):
    mean, covariance = read_gaussian_file(Path(files[1]))
    np.testing.assert_array_equal(mean, np.zeros(2))
    np.testing.assert_array_equal(covariance, GOAL["covariance"])
