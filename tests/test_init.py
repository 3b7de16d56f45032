"""The package itself: names are imported when they are asked for, and are as if always there."""

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gausscontrol as gct

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
STUB = Path(gct.__file__).with_suffix(".pyi")
ROOMS = {path.parent.name for path in STUB.parent.glob("*/__init__.py")} | {"display", "errors"}
HEAVY = ("control", "cvxpy", "flint", "matplotlib", "numpy", "scipy", "slycot")

LOADED = f"""
import sys
import gausscontrol
print(sorted(set({HEAVY}) & set(sys.modules)))
print(sorted(name for name in sys.modules if name.startswith("gausscontrol.")))
print(gausscontrol.ParameterError("a"), "numpy" in sys.modules)
"""

# Each thread asks for all names in an order of its own, and all start together.
THREADS = """
import random, sys, threading
import gausscontrol as gct

start, failed = threading.Barrier(8), []

def ask(seed):
    names = list(gct.__all__)
    random.Random(seed).shuffle(names)
    start.wait()
    for name in names:
        try:
            seen.setdefault(name, set()).add(id(getattr(gct, name)))
        except Exception as error:
            failed.append((name, repr(error)))

seen = {}
threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed, max(map(len, seen.values())), len(seen) == len(gct.__all__))
"""


def fresh(program):
    """Run a program in a Python of its own and return the lines it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_importing_the_package_imports_nothing_else():
    heavy, own, error = fresh(LOADED)
    assert (heavy, own, error) == ("[]", "[]", "a False")


def stub_imports():
    return ast.parse(STUB.read_text("utf-8")).body[1:]  # after its docstring


def test_the_stub_is_plain_imports_that_export_what_they_import():
    # Type checkers take "import x as x" in a stub for an export, and no other.
    for line in stub_imports():
        assert isinstance(line, ast.ImportFrom)
        assert line.level == 0
        assert all(alias.asname == alias.name for alias in line.names)


def test_stub_and_modules_agree():
    names = [alias.name for line in stub_imports() for alias in line.names]
    assert sorted(names) == gct.__all__
    assert len(set(names)) == len(names)
    for line in stub_imports():
        for alias in line.names:
            module = importlib.import_module(line.module)
            assert getattr(gct, alias.name) is getattr(module, alias.name)
            if line.module != "gausscontrol" and not alias.name.startswith("__"):
                assert alias.name in module.__all__


def test_every_name_is_there_and_listed():
    assert dir(gct) == gct.__all__
    namespace = {}
    exec("from gausscontrol import *", namespace)
    assert {name: namespace[name] for name in gct.__all__} == dict(inspect.getmembers(gct))
    assert namespace["GaussianTransformer"] is gct.GaussianTransformer


def test_a_name_is_looked_up_once():
    asked = gct.vech
    assert vars(gct)["vech"] is asked


def test_rooms_are_attributes():
    # In the order of the alphabet, so that most are asked for before anything has imported them.
    rooms = sorted(ROOMS)
    program = f"import gausscontrol as gct\nfor room in {rooms}: print(getattr(gct, room).__name__)"
    assert fresh(program) == [f"gausscontrol.{room}" for room in rooms]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("analyse", "did you mean analyze?"),
        ("GausianTransformer", "did you mean GaussianTransformer?"),
        ("zzz", "dir(gausscontrol) lists what it has"),
        ("no.such", "dir(gausscontrol) lists what it has"),
    ],
)
def test_an_unknown_name_is_an_attribute_error_with_advice(name, advice):
    with pytest.raises(AttributeError) as caught:
        getattr(gct, name)
    assert str(caught.value) == f"module 'gausscontrol' has no attribute {name!r}; {advice}"
    assert caught.value.name == name
    assert not hasattr(gct, name)


def test_advice_is_given_once():
    done = subprocess.run(
        [sys.executable, "-c", "import gausscontrol; gausscontrol.analyse"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.lower().count("did you mean") == 1
    with pytest.raises(ImportError, match="cannot import name 'analyse'"):
        exec("from gausscontrol import analyse")


def test_an_error_inside_a_module_is_not_taken_for_a_missing_name(monkeypatch):
    def broken(module):
        raise AttributeError("numpy has no attribute 'old'")

    monkeypatch.setattr(gct, "import_module", broken)
    monkeypatch.delitem(vars(gct), "lyapunov", raising=False)
    with pytest.raises(ImportError, match=r"linalg\.equations cannot be imported: numpy has no"):
        _ = gct.lyapunov


def test_results_pickle_by_their_home():
    model = gct.GaussianTransformer(1, 1, -1)
    results = (model, gct.LayerStack([model], [1.0]), gct.ParameterError("no"))
    for result in (gct.GaussianTransformer, gct.steer, *results[:2]):
        assert pickle.loads(pickle.dumps(result)) == result
    assert str(pickle.loads(pickle.dumps(results[2]))) == "no"
    # In a process that has imported nothing yet.
    [same] = fresh(f"import pickle; print(pickle.loads({pickle.dumps(model)!r}))")
    assert same == str(model).splitlines()[0]


def test_inspection_finds_sources_and_docstrings():
    assert inspect.getmodule(gct.analyze).__name__ == "gausscontrol.analysis.linear"
    assert inspect.getsource(gct.analyze).startswith("def analyze(")
    assert inspect.getdoc(gct).startswith("Gaussian Transformer dynamics")


def test_threads_may_ask_at_the_same_time():
    assert fresh(THREADS) == ["[] 1 True"]


def test_stub_and_mark_are_part_of_the_package():
    project = tomllib.loads(PROJECT.read_text("utf-8"))
    data = project["tool"]["setuptools"]["package-data"]["gausscontrol"]
    assert {STUB.name, "py.typed"} <= set(data)
    assert all((STUB.parent / name).is_file() for name in data)
