"""What one command writes another reads, and no file is replaced unasked."""

import json

import numpy as np
import pytest

import gausscontrol as gct
from gausscontrol.cli import main

START = np.array([1.0, 0.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
GOAL = np.array([0.0, -1.0]), np.diag([1.0, 3.0])
LAYER = gct.GaussianTransformer(0.5 * np.eye(2), np.eye(2), -np.eye(2))


@pytest.fixture(name="run")
def _run(tmp_path, monkeypatch, capsys):
    """Run in a folder with a layer, a start and a goal: code, out, lines on stderr."""
    monkeypatch.chdir(tmp_path)
    gct.save_model("layer.npz", LAYER)
    np.savez("start.npz", mean=START[0], covariance=START[1])
    np.savez("goal.npz", mean=GOAL[0], covariance=GOAL[1])

    def run(*arguments):
        code = main([*map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.splitlines()

    return run


@pytest.mark.parametrize("suffix", ["npz", "mat", "json"])
def test_a_design_is_globally_stable_where_it_should_be(run, suffix):
    output = f"designed.{suffix}"
    target = ("--mean", 0, 1, "--covariance", 2, 1)
    assert run("design", "layer.npz", *target, "--output", output)[0] == 0
    code, out, err = run("analyze", output, "--require", "globally stable", "--json")
    found = json.loads(out)["equilibrium"]
    assert (code, err) == (0, [])
    np.testing.assert_allclose(found["mean"], [0, 1], atol=1e-9)
    np.testing.assert_allclose(found["covariance"], np.diag([2, 1]), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["residual", "hold"])
def test_steered_layers_take_the_start_to_the_goal(run, kind):
    steer = ("steer", "start.npz", "goal.npz", "--layers", 5, "--kind", kind)
    assert run(*steer, "--output", "stack.npz")[0] == 0
    code, out, err = run("simulate", "stack.npz", "--initial", "start.npz", "--json")
    final = json.loads(out)["final"]
    assert (code, err) == (0, [])
    assert final["depth"] == pytest.approx(1)
    np.testing.assert_allclose(final["mean"], GOAL[0], atol=1e-7)
    np.testing.assert_allclose(final["covariance"], GOAL[1], atol=1e-6)


def test_analyze_says_what_to_do_with_a_steered_stack(run):
    run("steer", "start.npz", "goal.npz", "--layers", 40, "--output", "stack.npz")
    code, out, err = run("analyze", "stack.npz")
    text = " ".join(out.split())
    assert (code, err) == (0, [])
    assert "gausscontrol simulate stack.npz --initial START" in text
    # Layers that have the same to say share a row and a reason.
    assert " 0 to 39 0 to 1 layer none" in text
    assert "Layers 0 to 39 not globally stable: no positive definite equilibrium" in text
    assert "2.0" in text
    assert ", ..., " in text
    assert len(out.splitlines()) < 20


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("steer", "start.npz", "goal.npz", "--layers", 2), "stack.npz"),
        (("design", "layer.npz", "--target", 1), "repaired.npz"),
        (("simulate", "layer.npz", "--depth", 1), "run.npz"),
        (("simulate", "layer.npz", "--depth", 1), "run.csv"),
    ],
    ids=["steer", "design", "simulate", "simulate, csv"],
)
def test_a_file_is_replaced_only_by_force(run, tmp_path, command, output):
    if not (tmp_path / output).exists():
        (tmp_path / output).write_text("mine")
    before = (tmp_path / output).read_bytes()
    code, out, [line] = run(*command, "--output", output)
    assert (code, out) == (2, "")
    assert line == (
        f"gausscontrol: {output}: it exists and is not overwritten; name another, or add --force"
    )
    assert (tmp_path / output).read_bytes() == before
    assert run(*command, "--output", output, "--force")[0] == 0
    assert (tmp_path / output).read_bytes() != before


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (("simulate", "layer.npz", "--depth", 1), "layer.npz"),
        (("simulate", "layer.npz", "--depth", 1, "--initial", "start.npz"), "start.npz"),
        (("steer", "start.npz", "goal.npz"), "goal.npz"),
    ],
    ids=["simulate", "its start", "steer"],
)
def test_what_is_read_is_not_replaced_even_by_force(run, tmp_path, command, output):
    before = (tmp_path / output).read_bytes()
    code, out, [line] = run(*command, "--output", output, "--force")
    assert (code, out) == (2, "")
    assert "expected a file other than those that are read" in line
    assert (tmp_path / output).read_bytes() == before


def test_a_failed_replacement_leaves_the_old_file(run, tmp_path, monkeypatch):
    def refuse(self, target):
        raise OSError(28, "no space left", str(target))

    (tmp_path / "run.npz").write_text("mine")
    monkeypatch.setattr(type(tmp_path), "replace", refuse)
    assert run("simulate", "layer.npz", "--depth", 1, "--output", "run.npz", "--force")[0] == 2
    assert (tmp_path / "run.npz").read_text() == "mine"
    assert not list(tmp_path.glob(".run.npz*"))


def test_a_start_file_is_advised_as_one(run, tmp_path):
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "broken.npz").write_text("x")
    for name, advice in (
        ("list.json", 'found a list; write {"mean": ..., "covariance": ...}'),
        ("broken.npz", "write it with numpy.savez(file, mean=mean, covariance=covariance)"),
        ("layer.npz", "found A, B, V, b, k, dt; write it with numpy.savez(file, mean=mean"),
    ):
        for command in (
            ("simulate", "layer.npz", "--depth", 1, "--initial", name),
            ("design", "layer.npz", "--target", name),
            ("steer", "start.npz", name),
        ):
            code, out, [line] = run(*command)
            assert (code, out) == (2, "")
            assert advice in line
