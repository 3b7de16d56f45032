"""The command line: what it prints, what it writes, and the code it leaves with."""

import contextlib
import dataclasses
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.io
from problems import cubic_factor, mimetic_clean, no_equilibrium, two_attractors

import gausscontrol as gct
from gausscontrol.cli import main
from gausscontrol.cli.findings import investigate
from gausscontrol.cli.outputs import write_file
from gausscontrol.cli.stacks import investigate_stack
from gausscontrol.plots import PICTURES

DATA = Path(__file__).resolve().parents[1] / "examples" / "data"
MIMETIC, NOISY = DATA / "mimetic_head.mat", DATA / "mimetic_head_noisy.mat"

STABLE = gct.GaussianTransformer(0.5, 1, -0.25, name="scalar")
# q <= 0 and L(I) Hurwitz, yet diag(2, 1/2) is an equilibrium too (Theory 4.7).
LOCAL, _ = two_attractors()
COVARIANCE_ONLY = gct.GaussianTransformer(np.eye(2), -np.eye(2), np.eye(2))
UNSTABLE = cubic_factor().model
NONE = no_equilibrium().model
LAYERS = gct.GaussianTransformer(
    [[0.5, 0.3], [-0.3, 0.5]], np.eye(2), -0.5 * np.eye(2), [1.0, 0.0], dt=0.25
)
# q has a kernel, and (G, A) is observable.
RICCATI = gct.GaussianTransformer([[1, 1], [-1, 1]], np.diag([1.0, 0.0]), -np.eye(2))
SINGULAR = gct.GaussianTransformer(np.diag([1.0, 1.0, -1.0]), np.eye(3), -np.eye(3))
STACK = gct.LayerStack(
    [gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2)), NONE, LAYERS], [3, 0.1, 0.25]
)
NO_MEAN = gct.GaussianTransformer(
    np.eye(2), [np.eye(2), np.zeros((2, 2))], [-np.eye(2), np.eye(2)], b=[1.0, 0.0]
)

KEYS = [
    "command",
    "schema",
    "version",
    "file",
    "model",
    "regime",
    "scope",
    "equilibrium",
    "singular_limit",
    "other_equilibria",
    "no_equilibrium",
    "rate",
    "optimal_rate",
    "certificate",
    "certificates",
    "not_certified",
    "analysis",
    "no_analysis",
    "observations",
    "plots",
    "plots_missing",
    "requirement",
]


@pytest.fixture(scope="module")
def _findings():
    """Investigate every model once, whatever options it is reported with."""
    kept = {}

    def once(investigate):
        def find(file, model, **how):
            key = file, model, *how.values()
            if key not in kept:
                kept[key] = investigate(file, model, **how)
            return dataclasses.replace(kept[key], plots=[], plots_missing={})

        return find

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gausscontrol.cli.analyze.investigate", once(investigate))
        patch.setattr("gausscontrol.cli.analyze.investigate_stack", once(investigate_stack))
        yield


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory, _findings):
    """Run a command, `analyze` by default, on a model or a path: code, out, lines on stderr."""
    folder = tmp_path_factory.mktemp("models")

    def run(model, *options, command="analyze"):
        path = model
        if isinstance(model, (gct.GaussianTransformer, gct.LayerStack)):
            path = folder / "layer.npz"
            gct.save_model(path, model)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([command, str(path), *map(str, options)])
        return code, out.getvalue(), err.getvalue().splitlines()

    return run


def joined(text):
    """The report with its line breaks undone."""
    return " ".join(text.split())


# -- the report -----------------------------------------------------------------------------------


def test_main_job(run, tmp_path):
    folder = tmp_path / "new" / "out"
    code, out, err = run(MIMETIC, "--plots", folder)
    assert (code, err) == (0, [])
    model = gct.load_model(MIMETIC)
    equilibrium = gct.find_equilibria(model)[0]
    certificate = gct.certify_global_stability(model, equilibrium)
    text = joined(out)
    assert out.startswith("mimetic_head: d = 8, 1 head, continuous depth")
    assert f"covariance abscissa {equilibrium.covariance_abscissa:.6g} per unit depth" in text
    assert f"rate {certificate.rate:.6g} per unit depth, optimum 2 (2 tr A/d)" in text
    assert "Globally stable, certified: every Gaussian with Sigma_0 > 0" in text
    assert "scope covariance and mean" in text
    assert "residual" in text
    assert "proven to exist within" in text
    assert "Linear analysis of mimetic_head" in text
    assert "Observed along trajectories, not certified:" in text
    assert "approaches the equilibrium" in text
    assert sorted(path.name for path in folder.iterdir()) == sorted(PICTURES)
    for name in PICTURES:
        assert f"Wrote {folder / name}" in text
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "model",
    [MIMETIC, STABLE, LOCAL, COVARIANCE_ONLY, NO_MEAN, UNSTABLE, NONE],
    ids=["mimetic", "stable", "local", "covariance only", "no mean", "unstable", "none"],
)
def test_reports_fit_a_terminal(run, model):
    code, out, _ = run(model)
    assert code == 0
    words = [line for line in out.splitlines() if ".npz" not in line and ".mat" not in line]
    assert max(map(len, words)) <= 80
    assert not re.search(r"\b(nan|None)\b", out)


def test_noisy_head_is_an_honest_no(run):
    code, out, err = run(NOISY)
    text = joined(out)
    assert code == 0
    assert "No positive definite equilibrium found: tried the closed forms" in text
    assert "No certificate." in text
    assert "Not certified as blow-up: no growth is verified" in text
    assert "Not certified as bounded: the best P found misses" in text
    assert "Observed along trajectories, not certified: from mu = 0" in text
    # Told once, in the report.
    assert text.count("escapes to infinity at depth 1.163") == 1
    assert err == []


def test_a_proof_that_there_is_none_is_told(run):
    _, out, _ = run(NONE)
    assert re.search(r"No positive definite equilibrium: .*so none exists\.", joined(out))


def test_local_certificate_says_how_far_the_global_one_fell_short(run):
    code, out, _ = run(LOCAL, "--json")
    report = json.loads(out)
    assert (code, report["regime"]) == (0, "locally stable")
    refused = report["not_certified"][0]
    assert refused["kind"] == "globally stable"
    assert refused["margin"] <= 0
    _, out, _ = run(LOCAL)
    text = joined(out)
    assert "Locally stable, certified" in text
    assert "rate none certified globally" in text
    assert f"Not certified as globally stable: {refused['reason']}" in text
    assert "from mu = mu*, Sigma = 100 Sigma*" in text


def test_scope_says_when_only_the_covariance_is_certified(run):
    _, out, _ = run(COVARIANCE_ONLY)
    assert "scope covariance; not the mean" in joined(out)


def test_unstable_point_is_not_certified(run):
    _, out, _ = run(UNSTABLE)
    text = joined(out)
    assert "Blow-up, certified: " in text
    assert "covariance abscissa 2 per unit depth, not stable" in text
    assert "Sigma = 100 Sigma*: escapes to infinity" in text


def test_every_equilibrium_is_reported(run):
    # Two decoupled coordinates whose product with a coupling head has two equilibria.
    model = gct.GaussianTransformer(
        np.eye(2), [np.eye(2), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]
    )
    _, out, _ = run(model, "--json")
    report = json.loads(out)
    found = gct.find_equilibria(model)
    assert len(report["other_equilibria"]) == len(found) - 1
    np.testing.assert_array_equal(report["equilibrium"]["covariance"], found[0].covariance)


@pytest.mark.parametrize(
    ("model", "outcome"),
    [
        (gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2)), "decays"),
        (gct.GaussianTransformer(np.eye(2), np.zeros((2, 2)), np.eye(2)), "grows"),
        (gct.GaussianTransformer(1, 1, 1), "escapes"),
        (gct.GaussianTransformer([[0, 1], [-1, 0]], np.zeros((2, 2)), np.eye(2)), "settles"),
        (gct.GaussianTransformer(np.diag([0, -1]), np.zeros((2, 2)), np.eye(2)), "flattens"),
        (gct.GaussianTransformer([[0, 1], [0, 0]], np.zeros((2, 2)), np.eye(2)), "moves"),
    ],
    ids=["decays", "grows", "escapes", "settles", "flattens", "moves"],
)
def test_observations_say_what_a_trajectory_did(run, model, outcome):
    report = json.loads(run(model, "--json")[1])
    seen = report["observations"][0]
    assert seen["outcome"] == outcome
    assert outcome[:4] in seen["text"] or outcome in ("flattens", "moves")
    assert (seen["escape_depth"] is not None) == (outcome == "escapes")


def test_layers_are_followed_in_whole_layers(run):
    code, out, _ = run(LAYERS, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["model"]["dt"] == 0.25
    assert report["observations"][0]["outcome"] == "approaches"
    assert report["observations"][0]["depth"] % 0.25 == 0
    assert report["not_certified"][0]["kind"] == "globally stable"
    assert report["optimal_rate"] is report["rate"] is None


def test_layers_get_a_set_where_they_are_balanced(run):
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2), dt=0.01)
    report = json.loads(run(model, "--json", "--require", "semiglobally stable")[1])
    expected = gct.certify_semiglobal_stability(model, 2 * np.eye(2), 8 * np.eye(2))
    assert report["requirement"]["met"]
    assert report["regime"] == "semiglobally stable"
    assert [entry["kind"] for entry in report["certificates"]] == [
        "semiglobally stable",
        "locally stable",
    ]
    assert report["certificate"]["level"] == pytest.approx(expected.level)
    assert report["certificate"]["largest_step"] == pytest.approx(expected.largest_step)
    text = joined(run(model)[1])
    assert f"set W <= {expected.level:.6g}, which holds 4 Sigma*" in text
    assert f"every dt below {expected.largest_step:.6g} serves this set" in text
    assert "Not certified as globally stable: no equilibrium attracts globally" in text


def test_layers_say_why_there_is_no_set(run):
    code, out, err = run(LAYERS, "--require", "semiglobally stable")
    text = joined(out)
    assert code == len(err) == 1
    assert "Locally stable, certified" in text
    assert "Not certified as semiglobally stable from 4 Sigma*: expected a balanced one" in text
    assert "required semiglobally stable, found locally stable: expected a balanced" in err[0]
    assert run(LAYERS, "--require", "locally stable")[0] == 0


def test_riccati_criterion_has_no_optimum(run):
    report = json.loads(run(RICCATI, "--json")[1])
    assert report["certificate"]["method"] == "riccati"
    assert report["rate"] == pytest.approx(2)
    assert report["optimal_rate"] is None
    text = joined(run(RICCATI)[1])
    assert "method riccati" in text
    assert re.search(r"rate 2 per unit depth scope", text)


# -- equilibria of lower rank ---------------------------------------------------------------------


def test_singular_limit_is_told_and_not_certified(run, tmp_path):
    code, out, err = run(SINGULAR, "--plots", tmp_path, "--require", "locally stable")
    text = joined(out)
    assert code == len(err) == 1
    assert "No positive definite equilibrium found" in text
    assert "Singular limit: rank 2, attracts every covariance near it by the" in text
    assert "not certified" in text
    assert "approaches the equilibrium of rank 2" in text
    assert "attention form margin none: the covariance is singular" in text
    assert len(list(tmp_path.iterdir())) == 3
    report = json.loads(run(SINGULAR, "--json")[1])
    assert report["equilibrium"] is None
    assert (report["singular_limit"]["rank"], report["regime"]) == (2, "bounded")
    np.testing.assert_allclose(
        report["singular_limit"]["covariance"], np.diag([1.0, 1.0, 0.0]), atol=1e-9
    )


def test_a_layer_that_forgets_tends_to_zero(run):
    text = joined(run(gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2)))[1])
    assert "Singular limit: rank 0, Sigma = 0, attracts every covariance near it" in text


def test_other_equilibria_take_a_line_each(run):
    _, out, _ = run(SINGULAR)
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("Other equilibria"))
    others = gct.find_equilibria(SINGULAR)[1:]
    assert others
    rows = lines[head + 2 : head + 2 + len(others)]
    assert [int(row.split()[0]) for row in rows] == [e.rank for e in others]
    assert [row.endswith("continuum") for row in rows] == [e.is_isolated is False for e in others]
    assert lines[head + 2 + len(others)] == ""
    _, out, _ = run(NONE)
    assert "Equilibria of lower rank" in out


def test_a_stable_zero_beside_a_threshold_is_listed(run):
    report = json.loads(run(UNSTABLE, "--json")[1])
    assert report["equilibrium"]["rank"] == 1
    assert report["singular_limit"] is None
    [zero] = report["other_equilibria"]
    assert (zero["rank"], zero["covariance_is_stable"]) == (0, True)


# -- stacks ---------------------------------------------------------------------------------------

STACK_KEYS = [
    "command",
    "schema",
    "version",
    "file",
    "stack",
    "layers",
    "regime",
    "observations",
    "plots",
    "plots_missing",
    "requirement",
]


def test_stack_report_has_a_row_for_each_layer(run, tmp_path):
    code, out, _ = run(STACK, "--plots", tmp_path)
    text = joined(out)
    assert code == 0
    assert out.startswith("layer: stack of 3 layers, d = 2, depth 3.35")
    rows = [line.split() for line in out.splitlines() if re.match(r"  \d ", line)]
    assert [row[:5] for row in rows] == [
        ["0", "0", "to", "3", "flow"],
        ["1", "3", "to", "3.1", "flow"],
        ["2", "3.1", "to", "3.35", "layer"],
    ]
    assert ["globally" in row for row in rows] == [True, False, False]
    assert "blow-up" in rows[1]
    assert "locally" in rows[2]
    assert "Layer 1 not globally stable: no positive definite equilibrium: " in text
    assert "Layer 2 not globally stable: no equilibrium attracts globally" in text
    assert "Observed along trajectories, not certified: from mu = mu*" in text
    assert "Not drawn: spectrum.png, a stack acts once" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ellipses.png", "moments.png"]
    assert max(len(line) for line in out.splitlines() if str(tmp_path.parent) not in line) <= 80


def test_stack_json(run):
    report = json.loads(run(STACK, "--json")[1], parse_constant=no_constants)
    assert list(report) == STACK_KEYS
    assert report["stack"] == {"dim": 2, "layers": 3, "depth": pytest.approx(3.35)}
    assert report["regime"] == "blow-up"
    first, second, _ = report["layers"]
    assert first["rate"] == pytest.approx(2)
    assert second["no_equilibrium"]
    # The trajectory is that of the library.
    seen = report["observations"][0]
    Sigma = gct.find_equilibrium(STACK[0]).covariance
    start = np.sqrt(np.diag(Sigma)), np.sqrt(np.linalg.det(Sigma)) / 4 * np.eye(2)
    response = gct.moment_response(STACK, STACK.boundaries, start)
    traces = np.trace(response.covariance)[1:]
    np.testing.assert_allclose([layer["trace_after"] for layer in report["layers"]], traces, 1e-6)
    assert seen["depth"] == STACK.depth


def test_stack_requirement_holds_for_every_layer(run):
    code, _, err = run(STACK, "--require", "locally stable")
    assert code == 1
    assert err[-1].startswith(
        "gausscontrol: required locally stable, found blow-up: layer 1: no positive definite"
    )
    assert run(STACK, "--require", "globally stable")[2][-1].count("layer 1 (and 1 more): ") == 1
    assert run(gct.LayerStack([STABLE, STABLE], [1, 2]), "--require", "globally stable")[0] == 0


def test_stack_that_escapes(run):
    stack = gct.LayerStack([STABLE, gct.GaussianTransformer(1, 1, 1)], [1, 9])
    report = json.loads(run(stack, "--json")[1])
    assert report["observations"][0]["outcome"] == "escapes"
    assert 1 < report["observations"][0]["escape_depth"] < 10
    assert report["layers"][1]["trace_after"] is None


# -- simulate -------------------------------------------------------------------------------------


def test_simulate_writes_the_trajectory_of_the_library(run, tmp_path):
    start = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    np.savez(tmp_path / "start.npz", mean=start[0], covariance=start[1])
    options = ["--depth", 3, "--points", 7, "--initial", tmp_path / "start.npz"]
    expected = gct.moment_response(LOCAL, np.linspace(0, 3, 7), start)
    for name in ("run.npz", "run.json", "run.mat", "run.csv"):
        path = tmp_path / name
        code, out, err = run(LOCAL, *options, "--output", path, command="simulate")
        assert (code, err) == (0, [])
        assert f"Wrote {path}" in " ".join(out.split())
        assert max(len(line) for line in out.splitlines() if name not in line) <= 80
    archive = np.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(archive["t"], expected.t)
    np.testing.assert_array_equal(archive["mean"], expected.mean)
    np.testing.assert_array_equal(archive["covariance"], expected.covariance)
    plain = json.loads((tmp_path / "run.json").read_text())
    np.testing.assert_array_equal(plain["covariance"], expected.covariance)
    np.testing.assert_array_equal(
        scipy.io.loadmat(tmp_path / "run.mat")["covariance"], expected.covariance
    )
    header, *rows = (tmp_path / "run.csv").read_text().splitlines()
    assert header == 't,mu[0],mu[1],"Sigma[0,0]","Sigma[1,0]","Sigma[1,1]"'
    columns = np.array([row.split(",") for row in rows], dtype=float)
    np.testing.assert_array_equal(columns[:, [1, 2]].T, expected.mean)
    np.testing.assert_array_equal(columns[:, 4], expected.covariance[1, 0])


def test_simulate_json_and_starts(run):
    for start, scale in (("identity", 1.0), ("0.25", 0.25), ("0", 0.0)):
        options = "--depth", 2, "--initial", start, "--json"
        report = json.loads(run(STABLE, *options, command="simulate")[1])
        assert report["initial"]["covariance"] == [[scale]]
        response = gct.moment_response(STABLE, np.linspace(0, 2, 201), ([0.0], [[scale]]))
        assert report["final"]["covariance"] == response.covariance[:, :, -1].tolist()
        assert report["points"] == 201
        assert report["escape_depth"] is report["output"] is None


@pytest.mark.parametrize("dt", [0, 0.1])
@pytest.mark.parametrize("stacked", [False, True])
def test_simulate_tells_an_escape_once(run, dt, stacked):
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2), dt=dt)
    if stacked:
        model = gct.LayerStack([model] * 30, np.full(30, dt or 0.1))
    code, out, err = run(model, "--depth", 3, command="simulate")
    assert (code, err) == (0, [])
    assert joined(out).count("escapes to infinity at depth") == 1


def test_simulate_ends_before_an_escape(run, tmp_path):
    model = gct.GaussianTransformer(0, 1, 1)
    output = tmp_path / "run.npz"
    code, out, err = run(model, "--depth", 3, "--output", output, command="simulate")
    assert (code, err) == (0, [])
    assert "escapes to infinity at depth 0.5" in out
    archive = np.load(output)
    assert archive["blow_up_time"] == pytest.approx(0.5)
    assert np.isfinite(archive["covariance"]).all()


def test_simulate_passes_through_stacks_and_layers(run, tmp_path):
    code, out, _ = run(STACK, "--plots", tmp_path, command="simulate")
    assert code == 0
    assert "stack of 3 layers" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ellipses.png", "moments.png"]
    _, out, _ = run(LAYERS, "--depth", 1, "--json", command="simulate")
    assert json.loads(out)["points"] == 5
    _, out, _ = run(STACK, "--depth", 3.05, "--json", command="simulate")
    assert json.loads(out)["final"]["depth"] == pytest.approx(3.05)


def test_simulate_takes_what_it_wrote_as_a_start(run, tmp_path):
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    run(STABLE, "--depth", 1, "--output", first, command="simulate")
    _, out, _ = run(
        *(STABLE, "--depth", 1, "--initial", first, "--output", second, "--json"),
        command="simulate",
    )
    with np.load(first) as trajectory:
        assert json.loads(out)["initial"]["covariance"] == trajectory["covariance"][..., -1]
        assert json.loads(out)["initial"]["mean"] == trajectory["mean"][..., -1]


def test_a_gaussian_may_be_called_mu_and_sigma(run, refuse, tmp_path):
    start = tmp_path / "start.mat"
    scipy.io.savemat(start, {"Sigma": 2 * np.eye(2), "mu": [1.0, 3.0]})
    _, out, _ = run(LOCAL, "--depth", 1, "--initial", start, "--json", command="simulate")
    assert json.loads(out)["initial"]["covariance"] == [[2.0, 0.0], [0.0, 2.0]]
    assert json.loads(out)["initial"]["mean"] == [1.0, 3.0]
    path, twice = tmp_path / "layer.npz", tmp_path / "twice.npz"
    gct.save_model(path, LOCAL)
    np.savez(twice, Sigma=np.eye(2), covariance=np.eye(2))
    line = refuse("simulate", path, "--depth", 1, "--initial", twice)
    assert "covariance: expected one value, found" in line


def test_the_table_of_a_trajectory_says_what_it_leaves_out(run):
    stack = gct.LayerStack([LAYERS] * 7)
    _, out, _ = run(stack, command="simulate")
    rows = [line.split()[0] for line in out.splitlines() if line.endswith(tuple("0123456789"))]
    assert [float(row) for row in rows if row[0].isdigit()][-8:] == list(0.25 * np.arange(8))
    assert "..." not in out
    _, out, _ = run(LOCAL, "--depth", 1, "--points", 50, command="simulate")
    assert "  ... and 44 depths between these; --output writes all" in out


def test_the_name_of_a_stack_is_not_said_twice(run, tmp_path):
    path = tmp_path / "stack.npz"
    gct.save_model(path, STACK)
    _, out, _ = run(path)
    assert out.startswith("stack: 3 layers, d = 2, depth 3.35")


def test_a_quick_look_certifies_less_and_follows_nothing(run, tmp_path):
    code, out, _ = run(LOCAL, "--quick", "--json")
    report = json.loads(out)
    assert (code, report["observations"]) == (0, [])
    assert report["regime"] == gct.classify(LOCAL, sdp=False).regime
    assert list(report) == KEYS
    _, out, _ = run(LOCAL, "--quick")
    assert "Observed" not in out
    assert "A quick look: without --quick more is tried." in out
    run(LOCAL, "--quick", "--plots", tmp_path)
    assert (tmp_path / "moments.png").exists()
    code, _, _ = run(STACK, "--quick", "--require", "bounded")
    assert code == 1


def test_a_quick_look_leaves_out_a_large_linear_analysis(run):
    wide = gct.GaussianTransformer(np.eye(26), np.eye(26), -0.5 * np.eye(26))
    _, out, _ = run(wide, "--quick")
    assert "Linear analysis: none, the linearisation has 377 states, more than 350 with" in out


def test_the_report_says_where_dt_comes_from(run):
    _, out, _ = run(LAYERS, "--quick")
    assert "layers of depth dt = 0.25, from the file" in joined(out)


def test_simulate_refuses_what_makes_no_sense(refuse, tmp_path):
    path, stack = tmp_path / "layer.json", tmp_path / "stack.json"
    gct.save_model(path, LAYERS)
    gct.save_model(stack, STACK)
    assert "--depth: expected how deep a single layer acts, found none; add" in refuse(
        "simulate", path
    )
    assert "expected whole layers of depth 0.25, found 1.1; try 1" in refuse(
        "simulate", path, "--depth", 1.1
    )
    assert "--depth: expected a positive" in refuse("simulate", path, "--depth", -1)
    assert "--points: expected at least 2" in refuse("simulate", path, "--depth", 1, "--points", 1)
    assert "the depth of the stack" in refuse("simulate", stack, "--depth", 9)
    assert "inside residual layer 2; try 3.35" in refuse("simulate", stack, "--depth", 3.2)
    full = ["simulate", path, "--depth", 1]
    assert "--initial: expected identity" in refuse(*full, "--initial", "round")
    assert "--initial: expected a scale" in refuse(*full, "--initial", "nan")
    assert "nothing.npz" in refuse(*full, "--initial", tmp_path / "nothing.npz")
    np.savez(tmp_path / "wrong.npz", covariance=np.eye(3))
    assert "wrong.npz: covariance: expected" in refuse(*full, "--initial", tmp_path / "wrong.npz")
    np.savez(tmp_path / "empty.npz", mean=np.zeros(2))
    assert "expected covariance (2 x 2)" in refuse(*full, "--initial", tmp_path / "empty.npz")
    assert "--output: expected a name ending" in refuse(*full, "--output", tmp_path / "run.txt")
    assert "no/run.csv" not in refuse(*full, "--output", tmp_path / "no" / "run.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "found a folder" in refuse(*full, "--output", tmp_path / "folder.csv")


def test_without_a_mean_there_is_no_linear_analysis(run, tmp_path):
    code, out, _ = run(NO_MEAN, "--plots", tmp_path)
    text = joined(out)
    assert code == 0
    assert "mean none" in text
    assert "Linear analysis: none, the mean equation has no solution" in text
    assert "Not drawn: spectrum.png, the mean equation has no solution" in text
    assert not (tmp_path / "spectrum.png").exists()


# -- pictures -------------------------------------------------------------------------------------


def test_plots_replace_their_own_files_only(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for name in PICTURES:
        (tmp_path / name).write_text("old")
    before = mpl.get_backend(), dict(mpl.rcParams), plt.get_fignums()
    report = json.loads(run(STABLE, "--json", "--plots", tmp_path)[1])
    assert report["plots"] == [str(tmp_path / name) for name in PICTURES]
    # Neither the backend nor a setting nor anybody's figures were touched.
    assert (mpl.get_backend(), dict(mpl.rcParams), plt.get_fignums()) == before
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in PICTURES)
    _, out, _ = run(NONE, "--plots", tmp_path)
    assert "Not drawn: spectrum.png, there is no equilibrium to linearise at" in joined(out)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"notes.txt", "moments.png", "ellipses.png"}
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_nothing_is_written_without_plots(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(MIMETIC)[0] == 0
    assert list(tmp_path.iterdir()) == []


# -- JSON -----------------------------------------------------------------------------------------


def no_constants(name):
    raise AssertionError(f"{name} is no JSON")


def test_json_is_complete_and_plain(run):
    code, out, err = run(MIMETIC, "--json")
    assert (code, err, out.count("\n")) == (0, [], 1)
    report = json.loads(out, parse_constant=no_constants)
    assert list(report) == KEYS
    model = gct.load_model(MIMETIC)
    equilibrium = gct.find_equilibria(model)[0]
    analysis = gct.analyze(model, equilibrium)
    assert report["version"] == gct.__version__
    assert report["model"] == {"name": "mimetic_head", "dim": 8, "heads": 1, "dt": 0}
    assert report["regime"] == report["certificate"]["kind"] == "globally stable"
    assert report["scope"] == "covariance and mean"
    assert report["requirement"] is report["no_equilibrium"] is report["no_analysis"] is None
    assert report["not_certified"] == []
    assert report["certificates"] == [report["certificate"]]
    assert report["singular_limit"] is None
    assert [other["rank"] for other in report["other_equilibria"]] == [1, 1, 0]
    np.testing.assert_array_equal(report["equilibrium"]["mean"], equilibrium.mean)
    np.testing.assert_array_equal(report["equilibrium"]["covariance"], equilibrium.covariance)
    poles = np.array(report["analysis"]["poles"]) @ [1, 1j]
    np.testing.assert_allclose(poles, analysis.poles, rtol=1e-12)
    assert report["analysis"]["hinf_norm"] == pytest.approx(analysis.hinf_norm)


@pytest.mark.parametrize("model", [NO_MEAN, UNSTABLE, NONE], ids=["no mean", "unstable", "none"])
def test_json_keeps_its_keys_whatever_is_found(run, model):
    code, out, _ = run(model, "--json")
    report = json.loads(out, parse_constant=no_constants)
    assert (code, list(report), report["plots"]) == (0, KEYS, [])
    assert (report["equilibrium"] is None) == (report["no_equilibrium"] is not None)
    assert report["analysis"] is None or report["analysis"]["reasons"]


def test_json_states_the_requirement(run):
    _, out, _ = run(STABLE, "--json", "--require", "locally stable")
    assert json.loads(out)["requirement"] == {"regime": "locally stable", "met": True}
    code, out, err = run(UNSTABLE, "--json", "--require", "locally stable")
    assert (code, json.loads(out)["requirement"]["met"], len(err)) == (1, False, 1)


# -- requirements and exit codes ------------------------------------------------------------------


@pytest.mark.parametrize("required", ["globally stable", "locally stable"])
@pytest.mark.parametrize(
    "model", [MIMETIC, STABLE, COVARIANCE_ONLY], ids=["mimetic", "stable", "covariance only"]
)
def test_globally_stable_meets_both_requirements(run, model, required):
    code, out, err = run(model, "--require", required)
    assert (code, err) == (0, [])
    assert "Globally stable, certified" in out


@pytest.mark.parametrize(
    ("model", "required", "found"),
    [
        (LOCAL, "globally stable", "locally stable"),
        (UNSTABLE, "globally stable", "blow-up"),
        (UNSTABLE, "locally stable", "blow-up"),
        (gct.GaussianTransformer(-1, 1, -1), "locally stable", "collapse"),
        (STABLE, "blow-up", "globally stable"),
        (STABLE, "collapse", "globally stable"),
        (NOISY, "bounded", "undecided"),
    ],
    ids=["local", "unstable", "unstable, locally", "none", "blow-up", "collapse", "noisy"],
)
def test_unmet_requirements_leave_with_1_and_one_line(run, model, required, found):
    code, out, err = run(model, "--require", required)
    assert code == 1
    assert out
    [line] = [line for line in err if "warning" not in line]
    assert line.startswith(f"gausscontrol: required {required}, found {found}: ")
    assert run(model)[0] == 0


@pytest.mark.parametrize(
    ("model", "required"),
    [
        (STABLE, "bounded"),
        (UNSTABLE, "blow-up"),
        (gct.GaussianTransformer(-1, 1, -1), "collapse"),
        (gct.GaussianTransformer(-1, 1, -1), "bounded"),
        (SINGULAR, "bounded"),
    ],
    ids=["stable", "blow-up", "collapse", "collapse, bounded", "singular"],
)
def test_behaviour_meets_its_requirement(run, model, required):
    assert run(model, "--require", required)[0] == 0


def test_locally_stable_meets_its_requirement(run):
    assert run(LOCAL, "--require", "locally stable")[::2] == (0, [])


# -- bad input ------------------------------------------------------------------------------------


@pytest.fixture(name="refuse")
def _refuse(capsys):
    """Run with arguments that must be refused and return the one line that says why."""

    def refuse(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert (code, printed.out) == (2, "")
        [line] = printed.err.splitlines()
        assert line.startswith("gausscontrol: ")
        assert "Traceback" not in line
        return line

    return refuse


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "COMMAND: expected one of analyze, simulate, design, steer, found none"),
        (["analyse", "x.mat"], "found 'analyse'; did you mean analyze?"),
        (["analyze"], "expected FILE, found none"),
        (["steer", "x.mat"], "expected START GOAL, found no GOAL"),
        (["analyze", "x.mat", "--require", "stable"], "'bounded', found 'stable'"),
        (["analyze", "x.mat", "--plot-all"], "unknown option --plot-all"),
        (["analyze", "x.mat", "--plots"], "--plots: expected a value, found none"),
        (["analyze", "x.mat", "y.mat"], "expected FILE, found also 'y.mat'"),
    ],
)
def test_bad_options(refuse, arguments, says):
    line = refuse(*arguments)
    assert says in line
    assert line.endswith("--help")


def test_bad_files(refuse, tmp_path):
    assert "none at this path" in refuse("analyze", tmp_path / "missing.mat")
    (tmp_path / "folder.mat").mkdir()
    assert "folder.mat" in refuse("analyze", tmp_path / "folder.mat")
    (tmp_path / "text.mat").write_text("these are not matrices")
    assert "text.mat" in refuse("analyze", tmp_path / "text.mat")
    (tmp_path / "new.mat").write_bytes(
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n"
    )
    assert "7.3" in refuse("analyze", tmp_path / "new.mat")
    scipy.io.savemat(tmp_path / "keys.mat", {"A": np.eye(2), "B": np.eye(2)})
    assert "V" in refuse("analyze", tmp_path / "keys.mat", "--json")
    scipy.io.savemat(tmp_path / "shape.mat", {"A": np.eye(2), "B": np.eye(3), "V": np.eye(2)})
    assert "B: expected" in refuse("analyze", tmp_path / "shape.mat")
    scipy.io.savemat(tmp_path / "nan.mat", {"A": np.nan, "B": 1.0, "V": 1.0})
    assert "A" in refuse("analyze", tmp_path / "nan.mat")
    assert ".csv" in refuse("analyze", tmp_path / "layer.csv")


def test_bad_folders(refuse, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    assert "expected a folder for --plots" in refuse("analyze", MIMETIC, "--plots", taken)
    refuse("analyze", MIMETIC, "--plots", taken / "below")
    assert taken.read_text() == "a file"
    (tmp_path / "out" / "moments.png").mkdir(parents=True)
    assert "moments.png" in refuse("analyze", MIMETIC, "--plots", tmp_path / "out")


def test_loader_warnings_are_one_line(tmp_path, capsys):
    path = tmp_path / "case.mat"
    scipy.io.savemat(path, {"A": 0.5, "B": 1.0, "V": -0.25, "DT": 0.1})
    assert main(["analyze", str(path)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("gausscontrol: warning: ")
    assert "DT" in line


# -- version, streams, the installed command ------------------------------------------------------


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gausscontrol {gct.__version__}\n"


def test_a_reader_that_stops_early_is_no_error(tmp_path, monkeypatch):
    path = tmp_path / "layer.json"
    gct.save_model(path, STABLE)
    with (tmp_path / "stdout").open("w") as target:

        class Closed(io.StringIO):
            def flush(self):
                raise BrokenPipeError

            def fileno(self):
                return target.fileno()

        monkeypatch.setattr(sys, "stdout", Closed())
        assert main(["analyze", str(path)]) == 0


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_interruption_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("gausscontrol.cli.analyze.load_model", interrupt)
    assert main(["analyze", "x.mat"]) == 130
    assert capsys.readouterr().err == "gausscontrol: interrupted; nothing was written\n"


def test_interruption_says_what_is_kept(monkeypatch, capsys, tmp_path):
    model, output, folder = tmp_path / "layer.json", tmp_path / "run.csv", tmp_path / "out"
    gct.save_model(model, STABLE)
    monkeypatch.setattr("gausscontrol.plots.ellipse_plot", interrupt)
    options = ["--depth", "1", "--output", output, "--plots", folder]
    assert main(["simulate", *map(str, [model, *options])]) == 130
    out, err = capsys.readouterr()
    moments = folder / "moments.png"
    assert (out, err) == (
        "", f"gausscontrol: interrupted; kept {output}, {moments}; the report was not printed\n"
    )  # fmt: skip
    assert len(output.read_text().splitlines()) == 202
    assert [path.name for path in folder.iterdir()] == ["moments.png"]
    # The next command forgets them.
    monkeypatch.setattr("gausscontrol.cli.analyze.load_model", interrupt)
    assert main(["analyze", str(model)]) == 130
    assert capsys.readouterr().err == "gausscontrol: interrupted; nothing was written\n"


@pytest.mark.parametrize("force", [False, True])
def test_an_interrupted_file_is_not_there(monkeypatch, tmp_path, force):
    path = tmp_path / "run.csv"
    monkeypatch.setattr("pathlib.Path.open", lambda *_: Interrupted(path, "xb"))
    monkeypatch.setattr("os.fdopen", lambda handle, mode: Interrupted(handle, mode))
    with pytest.raises(KeyboardInterrupt):
        write_file(path, b"t", force)
    assert list(tmp_path.iterdir()) == []


class Interrupted(io.FileIO):
    def write(self, content):
        super().write(content[:1])
        raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_ctrl_c_leaves_with_130_and_no_traceback(tmp_path):
    # The command reads its model from a pipe, and waits there when the signal comes.
    pipe = tmp_path / "layer.json"
    os.mkfifo(pipe)
    program = "import sys; from gausscontrol.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "analyze", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        writer = None
        while writer is None and child.poll() is None:
            with contextlib.suppress(OSError):  # Nobody reads yet.
                writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    os.close(writer)
    assert child.returncode == 130
    assert (out, err) == (b"", b"gausscontrol: interrupted; nothing was written\n")


def test_installed_command(tmp_path):
    command = shutil.which("gausscontrol", path=str(Path(sys.executable).parent))
    assert command, "the package is not installed with its command"
    path = tmp_path / "layer.json"
    gct.save_model(path, STABLE)
    arguments = [command, "analyze", str(path), "--require", "globally stable"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Globally stable, certified" in done.stdout


def test_clean_mimetic_layer_from_every_format(tmp_path, capsys):
    for suffix in ("mat", "npz", "json"):
        path = tmp_path / f"layer.{suffix}"
        gct.save_model(path, mimetic_clean(2).model)
        assert main(["analyze", str(path), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        np.testing.assert_allclose(report["equilibrium"]["covariance"], mimetic_clean(2).covariance)
        assert report["rate"] == pytest.approx(2, rel=1e-6)
        assert report["optimal_rate"] == 2
