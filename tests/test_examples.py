"""Every example runs anywhere, prints its numbers, and writes only where it is told to."""

import importlib.util
import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import gausscontrol as gct

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
DATA = EXAMPLES / "data"


def load(script):
    spec = importlib.util.spec_from_file_location(f"example_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="copy")
def _copy(tmp_path, monkeypatch):
    """A copy of the examples, run from another folder."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    plt.switch_backend("Agg")
    yield tmp_path / "examples"
    plt.close("all")
    assert list(elsewhere.iterdir()) == [], "an example wrote into the working directory"


def test_there_are_examples():
    assert {script.name for script in SCRIPTS} >= {"quickstart.py", "make_mimetic_heads.py"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs_and_prints_numbers(script, copy, capsys):
    module = load(copy / script.name)
    assert module.__doc__, f"{script.name} says nothing about itself"
    module.main()
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) >= 3
    assert re.search(r"\d\.\d", printed), "an example prints its numbers"
    assert not re.search(r"\b(nan|inf)\b", printed, re.IGNORECASE)


def test_quickstart_agrees_with_itself(copy, capsys):
    load(copy / "quickstart.py").main()
    printed = capsys.readouterr().out
    model = gct.load_model(DATA / "mimetic_head.mat")
    equilibrium = gct.find_equilibrium(model)
    slowest = max(equilibrium.covariance_abscissa, equilibrium.mean_abscissa)
    assert f"slowest pole of ct.linearize: {slowest:.4f} per unit depth" in printed
    moved, predicted = re.search(r"by ([\d.]+) \[x\], .* says ([\d.]+)", printed).groups()
    assert float(moved) == pytest.approx(float(predicted), rel=1e-3)
    [distance] = re.findall(r"at depth 40: (\S+) \[x\]\^2", printed)
    assert float(distance) < 1e-6
    assert "Certified: every Gaussian" in printed


def test_mimetic_heads_are_reproduced_byte_for_byte(copy, tmp_path, capsys):
    folder = tmp_path / "written"
    folder.mkdir()
    load(copy / "make_mimetic_heads.py").main(folder)
    printed = capsys.readouterr().out
    assert "globally stable, covariance and mean" in printed
    assert "escapes at depth" in printed
    for name in ("mimetic_head.mat", "mimetic_head_noisy.mat"):
        assert (folder / name).read_bytes() == (DATA / name).read_bytes(), name


def test_mimetic_head_is_what_its_script_says():
    model = gct.load_model(DATA / "mimetic_head.mat")
    assert (model.dim, model.n_heads, model.dt, model.name) == (8, 1, 0, "mimetic_head")
    np.testing.assert_array_equal(model.A, np.eye(8))
    np.testing.assert_allclose(np.linalg.norm(model.b), 1, rtol=1e-15)
    noise = np.stack([model.B[0] * 8 / 0.35 - 2 * np.eye(8), -model.V[0] / 0.2 - 2 * np.eye(8)])
    assert np.std(noise) == pytest.approx(8**-0.5, rel=0.15)
    assert np.abs(noise.mean()) < 4 * 8**-0.5 / np.sqrt(noise.size)
    equilibrium = gct.find_equilibrium(model)
    assert np.linalg.norm(model.drift(equilibrium.covariance)) > 1
    certificate = gct.certify_global_stability(model, equilibrium)
    assert certificate.verify()
    assert 1 < certificate.rate < certificate.optimal_rate == 2


def test_noisy_mimetic_head_is_an_honest_no():
    model = gct.load_model(DATA / "mimetic_head_noisy.mat")
    np.testing.assert_array_equal(model.A, np.eye(8))
    with pytest.raises(gct.EquilibriumNotFound, match="no positive definite equilibrium found"):
        gct.find_equilibrium(model)
    with pytest.warns(gct.BlowUpWarning):
        response = gct.moment_response(model, np.linspace(0, 4, 41), (np.zeros(8), np.eye(8)))
    assert response.blow_up_time == pytest.approx(2.0612, abs=1e-3)
    assert np.isfinite(response.covariance).all()
