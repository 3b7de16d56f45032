"""Errors of the library in the words of the command line."""

import numpy as np
import pytest

import gausscontrol as gct
from gausscontrol.cli import main
from gausscontrol.cli.wording import by_option

OPTIONS = {"n_heads": "--heads", "free": "--free", "norm_bound": "--norm-bound", "kind": "--kind"}
OPTIONS |= {"rank": "--rank", "initial": "--near", "target mean": "--mean"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("n_heads: found 2; use free=('V', 'B')", "--heads: found 2; use --free VB"),
        ("fix B and use free=('V',)", "fix B and use --free V"),
        ("norm_bound['V']: expected a positive norm", "--norm-bound V: expected a positive norm"),
        ("a lower norm_bound", "a lower --norm-bound"),
        ("use kind='residual', or more", "use --kind residual, or more"),
        ("goal: pass rank=1 or rank=2 if", "goal: pass --rank 1 or --rank 2 if"),
        ("drop it, or pass it in initial= to", "drop it, or pass it in --near to"),
        ("target mean: expected two", "--mean: expected two"),
        ("the rank is free of kind", "the rank is free of kind"),
        ("other_name: smallest_value=2", "other_name: smallest_value=2"),
    ],
)
def test_arguments_become_options(message, words):
    assert by_option(message, OPTIONS) == words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--heads 3", "--heads: expected nothing, since B says how many heads there are, found 3"),
        ("--heads 0 --free BV", "--heads: expected a positive integer, found 0; pass one"),
        ("--norm-bound V=-1", "--norm-bound V: expected a positive norm, found -1.0; pass a"),
        ("--free VA", "--norm-bound: expected one, or a --decay-rate, found neither; give"),
        ("--norm-bound 0.001", "--norm-bound: tr A = "),
        ("--dt -1", "--dt: expected 0 or a positive number"),
        ("--target 0", "--target: expected a positive definite matrix"),
        ("--mean 1 2 3", "--mean: expected a vector of 2 entries"),
    ],
    ids=lambda text: text.split()[0],
)  # fmt: skip
def test_design_speaks_of_its_options(tmp_path, capsys, options, message):
    path = tmp_path / "layer.npz"
    gct.save_model(path, gct.GaussianTransformer(0.5 * np.eye(2), np.eye(2), -np.eye(2)))
    words = options.split() if "--target" in options else ["--target", "1", *options.split()]
    assert main(["design", str(path), *words]) in (1, 2)
    assert capsys.readouterr().err.startswith(f"gausscontrol: {message}")


def test_a_singular_covariance_names_the_option_that_gave_it(tmp_path, capsys):
    path = tmp_path / "layer.npz"
    gct.save_model(path, gct.GaussianTransformer(0.5 * np.eye(2), np.eye(2), -np.eye(2)))
    assert main(["design", "--covariance", "1", "0", str(path)]) == 2
    assert "gausscontrol: --covariance: expected a positive def" in capsys.readouterr().err


def test_steer_speaks_of_its_options(tmp_path, capsys):
    model, start = tmp_path / "layer.npz", tmp_path / "start.npz"
    gct.save_model(model, gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2), dt=0.5))
    np.savez(start, covariance=np.eye(2))
    assert main(["steer", str(start), str(start), "--model", str(model)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("gausscontrol: --model: expected continuous depth, found dt = 0.5 in ")
    assert told.endswith("; save it with dt = 0, and --kind says which layers are made\n")
