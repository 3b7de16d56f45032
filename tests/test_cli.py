"""The command line: what it prints, what it writes, and the code it leaves with."""

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.io
from problems import attention_blow_up, cubic_factor, mimetic_clean, no_equilibrium

import gausscontrol as gct
from gausscontrol.cli import main
from gausscontrol.plots import PICTURES

DATA = Path(__file__).resolve().parents[1] / "examples" / "data"
MIMETIC, NOISY = DATA / "mimetic_head.mat", DATA / "mimetic_head_noisy.mat"

STABLE = gct.GaussianTransformer(0.5, 1, -0.25, name="scalar")
# The form has a positive eigenvalue, the linearisation is Hurwitz.
LOCAL = gct.GaussianTransformer(
    [[0.6, 1.4], [-1.4, 1.2]],
    [np.diag([1.0, 0.0]), np.diag([0.0, 1.0])],
    [-0.6 * np.diag([1.0, 0.0]), -1.2 * np.diag([0.0, 1.0])],
)
COVARIANCE_ONLY = gct.GaussianTransformer(np.eye(2), -np.eye(2), np.eye(2))
UNSTABLE = cubic_factor().model
NONE = no_equilibrium().model
NO_MEAN = gct.GaussianTransformer(
    np.eye(2), [np.eye(2), np.zeros((2, 2))], [-np.eye(2), np.eye(2)], b=[1.0, 0.0]
)

KEYS = [
    "file",
    "version",
    "model",
    "regime",
    "scope",
    "equilibrium",
    "other_equilibria",
    "no_equilibrium",
    "rate",
    "optimal_rate",
    "certificate",
    "not_certified",
    "analysis",
    "no_analysis",
    "observations",
    "plots",
    "plots_missing",
    "requirement",
]


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory):
    """Run `gausscontrol analyze` on a model or a path: code, lines out, lines on stderr.

    What runs twice with the same options runs once, unless it writes pictures.
    """
    folder, kept = tmp_path_factory.mktemp("models"), {}

    def run(model, *options):
        key = (id(model), *options)
        if key in kept and "--plots" not in options:
            return kept[key][1]
        path = model
        if isinstance(model, gct.GaussianTransformer):
            path = folder / "layer.npz"
            gct.save_model(path, model)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["analyze", str(path), *map(str, options)])
        result = code, out.getvalue(), err.getvalue().splitlines()
        kept[key] = model, result  # the model too, so that its id stays its own
        return result

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
    assert "Certificate: none" in text
    assert "Observed along trajectories, not certified: from mu = 0" in text
    assert "escapes to infinity at depth 1.163" in text
    assert [line.split(" at depth")[0] for line in err] == [
        "gausscontrol: warning: the covariance escapes to infinity"
    ]


def test_a_proof_that_there_is_none_is_told(run):
    _, out, _ = run(NONE)
    assert re.search(r"No positive definite equilibrium: .*so none exists\.", joined(out))


def test_local_certificate_says_how_far_the_global_one_fell_short(run):
    code, out, _ = run(LOCAL, "--json")
    report = json.loads(out)
    assert (code, report["regime"]) == (0, "locally stable")
    [refused] = report["not_certified"]
    assert refused["kind"] == "globally stable"
    assert refused["margin"] <= 0
    _, out, _ = run(LOCAL)
    text = joined(out)
    assert "Locally stable, certified" in text
    assert "rate none certified globally" in text
    assert f"It falls short by {-refused['margin']:.4g}" in text
    assert "from mu = mu*, Sigma = 100 Sigma*" in text


def test_scope_says_when_only_the_covariance_is_certified(run):
    _, out, _ = run(COVARIANCE_ONLY)
    assert "scope covariance; not the mean" in joined(out)


def test_unstable_point_is_not_certified(run):
    _, out, _ = run(UNSTABLE)
    text = joined(out)
    assert "No certificate of stability." in text
    assert "covariance grows at 2 per unit depth" in text
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
        (attention_blow_up().model, "escapes"),
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


def test_layers_are_followed_in_whole_layers(run, tmp_path):
    model = gct.GaussianTransformer(
        [[0.5, 0.3], [-0.3, 0.5]], np.eye(2), -0.5 * np.eye(2), [1.0, 0.0], dt=0.25
    )
    code, out, _ = run(model, "--json", "--plots", tmp_path / "p")
    report = json.loads(out)
    assert code == 0
    assert report["model"]["dt"] == 0.25
    assert report["observations"][0]["outcome"] == "approaches"
    assert report["observations"][0]["depth"] % 0.25 == 0
    assert report["not_certified"][0]["kind"] == "globally stable"
    assert len(report["plots"]) == 3


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
    run(STABLE, "--plots", tmp_path)
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in PICTURES)
    _, out, _ = run(NONE, "--plots", tmp_path)
    assert "Not drawn: spectrum.png, there is no equilibrium to linearise at" in joined(out)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"notes.txt", "moments.png", "ellipses.png"}
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_nothing_is_written_without_plots(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", str(MIMETIC)]) == 0
    assert list(tmp_path.iterdir()) == []


def test_backend_and_open_figures_are_left_alone(run, tmp_path):
    before = mpl.get_backend(), dict(mpl.rcParams), plt.get_fignums()
    run(STABLE, "--plots", tmp_path)
    assert (mpl.get_backend(), dict(mpl.rcParams), plt.get_fignums()) == before


# -- JSON -----------------------------------------------------------------------------------------


def no_constants(name):
    raise AssertionError(f"{name} is no JSON")


def test_json_is_complete_and_plain(run, tmp_path):
    code, out, err = run(MIMETIC, "--json", "--plots", tmp_path)
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
    assert report["not_certified"] == report["other_equilibria"] == []
    np.testing.assert_array_equal(report["equilibrium"]["mean"], equilibrium.mean)
    np.testing.assert_array_equal(report["equilibrium"]["covariance"], equilibrium.covariance)
    poles = np.array(report["analysis"]["poles"]) @ [1, 1j]
    np.testing.assert_allclose(poles, analysis.poles, rtol=1e-12)
    assert report["analysis"]["hinf_norm"] == pytest.approx(analysis.hinf_norm)
    assert report["plots"] == [str(tmp_path / name) for name in PICTURES]


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
        (UNSTABLE, "globally stable", "undecided"),
        (UNSTABLE, "locally stable", "undecided"),
        (gct.GaussianTransformer(-1, 1, -1), "locally stable", "undecided"),
    ],
    ids=["local", "unstable", "unstable, locally", "none"],
)
def test_unmet_requirements_leave_with_1_and_one_line(run, model, required, found):
    code, out, err = run(model, "--require", required)
    assert code == 1
    assert out
    [line] = err
    assert line.startswith(f"gausscontrol: required {required}, found {found}: ")
    assert run(model)[0] == 0


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
        ([], "required: COMMAND"),
        (["analyse", "x.mat"], "invalid choice: 'analyse'"),
        (["analyze"], "required: FILE"),
        (["analyze", "x.mat", "--require", "stable"], "invalid choice: 'stable'"),
        (["analyze", "x.mat", "--plot-all"], "unrecognized arguments: --plot-all"),
        (["analyze", "x.mat", "--plots"], "expected one argument"),
        (["analyze", "x.mat", "y.mat"], "unrecognized arguments: y.mat"),
    ],
)
def test_bad_options(refuse, arguments, says):
    line = refuse(*arguments)
    assert says in line
    assert line.endswith("--help")


def test_bad_files(refuse, tmp_path):
    assert "nothing there" in refuse("analyze", tmp_path / "missing.mat")
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
    gct.save_model(tmp_path / "stack.json", gct.LayerStack([STABLE, STABLE], [1, 2]))
    assert "found a stack of 2" in refuse("analyze", tmp_path / "stack.json")
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


# -- help, version, streams, the installed command ------------------------------------------------


def test_help_teaches(capsys):
    assert main(["--help"]) == 0
    general = capsys.readouterr().out
    assert "Sigma' = A Sigma" in general
    assert "analyze" in general
    assert main(["analyze", "--help"]) == 0
    special = capsys.readouterr().out
    for word in (
        "--plots DIR",
        "--json",
        "--require REGIME",
        "exit codes:",
        "examples:",
        *PICTURES,
    ):
        assert word in special
    assert max(len(line) for line in (general + special).splitlines()) <= 80


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


def test_interruption_is_one_line(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gausscontrol.cli.load_model", interrupt)
    assert main(["analyze", "x.mat"]) == 130
    assert capsys.readouterr().err == "gausscontrol: interrupted\n"


def test_installed_command(tmp_path):
    command = shutil.which("gausscontrol", path=str(Path(sys.executable).parent))
    assert command, "the package is not installed with its command"
    arguments = [command, "analyze", str(MIMETIC), "--require", "globally stable"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Globally stable, certified" in done.stdout


def test_clean_mimetic_layer_from_every_format(tmp_path, capsys):
    for suffix in ("mat", "npz", "json"):
        path = tmp_path / f"layer.{suffix}"
        gct.save_model(path, mimetic_clean(3).model)
        assert main(["analyze", str(path), "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        np.testing.assert_allclose(report["equilibrium"]["covariance"], mimetic_clean(3).covariance)
        assert report["rate"] == pytest.approx(2, rel=1e-6)
        assert report["optimal_rate"] == 2
