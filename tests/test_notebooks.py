"""The notebooks run as they are, and print what they show."""

import ast
import contextlib
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name != "build.py")
LARGEST = 300_000  # bytes
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w.]*\w)")
# Below this a number is rounding, which depends on the machine.
ROUNDING = 1e-6


def cells(path, kind="code"):
    notebook = json.loads(path.read_text("utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def source(cell):
    return "".join(cell["source"])


def printed(cell):
    """Return what a cell has printed, and its value as text."""
    text = value = ""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            assert output["name"] == "stdout"
            text += "".join(output["text"])
        elif output["output_type"] == "execute_result":
            value = "".join(output["data"]["text/plain"])
    return text, value


def execute(code, namespace):
    """Run the code of a cell as IPython does: what it prints, and its last value as text."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    return out.getvalue(), "" if value is None else repr(value)


def parts(text):
    """Split a text into words and numbers; how a list is broken over lines does not count."""
    plain = " ".join(text.split()).replace("[ ", "[").replace(", <", ",<")
    return NUMBER.sub("#", plain), [float(number) for number in NUMBER.findall(plain)]


@pytest.fixture(name="quiet_plots")
def _quiet_plots(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    with plt.rc_context():
        yield
    plt.close("all")
    assert list(tmp_path.iterdir()) == [], "a notebook wrote into the working directory"


def test_there_is_a_notebook_for_every_script():
    assert len(NOTEBOOKS) >= 3
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in SCRIPTS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_that_of_its_script(path):
    script = path.with_suffix(".py").read_text("utf-8")
    for cell in cells(path):
        assert f"# %%\n{source(cell)}\n" in script
    assert script.count("\n# %%\n") == len(cells(path))
    for cell in cells(path, "markdown"):
        words = "\n".join(f"# {line}".rstrip() for line in source(cell).split("\n"))
        assert f"# %% [markdown]\n{words}\n" in script


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_complete_and_has_a_figure(path):
    assert path.stat().st_size < LARGEST
    code = cells(path)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = [output["output_type"] for cell in code for output in cell["outputs"]]
    assert set(kinds) <= {"stream", "execute_result", "display_data"}
    shown = [output["data"] for cell in code for output in cell["outputs"] if "data" in output]
    assert any("image/png" in data for data in shown)
    assert any("text/html" in data for data in shown)
    assert "/home/" not in path.read_text("utf-8")
    assert "/tmp/" not in path.read_text("utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path, quiet_plots):
    if path.stem == "tokens_and_weights":
        pytest.importorskip("glassllm")
    namespace = {"__name__": "__main__"}
    for cell in cells(path):
        for found, kept in zip(execute(source(cell), namespace), printed(cell), strict=True):
            (words, numbers), (kept_words, kept_numbers) = parts(found), parts(kept)
            assert words == kept_words
            assert numbers == pytest.approx(kept_numbers, rel=1e-2, abs=ROUNDING)


def test_numbers_are_told_from_names():
    words, numbers = parts("rank 2 at -1.5e-3 of [ 0.5\n  1.] in B0, H2 norm 3")
    assert words == "rank # at # of [# #] in B0, H2 norm #"
    assert numbers == [2, -1.5e-3, 0.5, 1, 3]
