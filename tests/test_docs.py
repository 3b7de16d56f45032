"""The documentation says what the package does: names, parameters, commands, examples."""

import ast
import dataclasses
import inspect
import re
import shutil
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest

import gausscontrol as gct

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
MAIN_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && "
    ".venv/bin/gausscontrol analyze examples/data/mimetic_head.mat --plots out"
)
TEST_COMMAND = 'python3 -m venv .venv && .venv/bin/pip install -q ".[test]" && .venv/bin/pytest'

# A subpackage of its own, whose names are read with its own prefix.
TOKENS = [f"tokens.{name}" for name in gct.tokens.__all__]
NAMES = [name for name in gct.__all__ if not name.startswith("__") and name != "tokens"] + TOKENS
SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


def own(member):
    """Whether a public object was written in this package, not inherited from another."""
    return getattr(inspect.unwrap(member), "__module__", "").startswith("gausscontrol")


def documented_callables():
    """Every public function and class, and every public method of a class, with its name."""
    for name in NAMES:
        thing = attrgetter(name)(gct)
        if not callable(thing):
            continue
        yield name, thing
        if inspect.isclass(thing):
            for member_name, member in inspect.getmembers(thing, callable):
                if not member_name.startswith("_") and not inspect.isclass(member) and own(member):
                    yield f"{name}.{member_name}", member


CALLABLES = dict(documented_callables())


def listed_names(docstring, titles):
    """Names listed in those sections of a numpydoc string that have one of the titles."""
    pieces = SECTION.split(docstring)
    names = set()
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if title in titles:
            for line in body.splitlines():
                if line and not line[0].isspace():
                    listed = line.split(" :")[0].split(",")
                    names.update(name.strip().lstrip("*") for name in listed)
    return names


def documented_parameters(thing):
    """Names that a docstring explains; a result class explains its fields as attributes."""
    titles = {"Parameters", "Other Parameters"}
    sources = [thing]
    if inspect.isclass(thing):
        titles.add("Attributes")
    if dataclasses.is_dataclass(thing):
        sources = inspect.getmro(thing)  # a base class explains its own fields
    return set().union(
        *(listed_names(inspect.cleandoc(each.__doc__ or ""), titles) for each in sources)
    )


def required_parameters(thing):
    """Names that a docstring has to explain: the public ones of the signature but **keywords."""
    if inspect.isclass(thing):
        makers = (
            base for base in inspect.getmro(thing) if {"__init__", "__new__"} & set(vars(base))
        )
        if not own(next(makers)):
            return set()  # its constructor is another package's, and documented there
    return {
        parameter.name
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
        and parameter.name not in ("self", "cls")
        and not parameter.name.startswith("_")
    }


def test_public_names_exist_and_are_listed_once():
    assert len(set(gct.__all__)) == len(gct.__all__)
    assert [name for name in gct.__all__ if not hasattr(gct, name)] == []
    assert CALLABLES, "the package exports nothing that can be called"


def test_everything_imported_at_the_top_is_public():
    imported = {
        name
        for name, value in vars(gct).items()
        if not name.startswith("_") and callable(value) and own(value)
    }
    assert imported - set(gct.__all__) == set()


def test_api_reference_lists_exactly_the_public_names():
    listed = re.findall(r"^   gausscontrol\.([\w.]+)$", (ROOT / "docs/api.rst").read_text(), re.M)
    assert sorted(listed) == sorted(NAMES)


@pytest.mark.parametrize("name", CALLABLES)
def test_docstring_has_a_short_first_line(name):
    docstring = inspect.getdoc(CALLABLES[name])
    assert docstring, f"{name} has no docstring"
    first = docstring.splitlines()[0]
    assert first.endswith("."), f"{name}: the first line must end in a full stop: {first!r}"
    assert len(first) < 64, f"{name}: the first line is too long: {first!r}"


@pytest.mark.parametrize("name", CALLABLES)
def test_docstring_explains_every_parameter(name):
    missing = required_parameters(CALLABLES[name]) - documented_parameters(CALLABLES[name])
    assert not missing, f"{name}: undocumented parameters {sorted(missing)}"


def test_readme_commands():
    indented = [line[4:] for line in README.splitlines() if line.startswith("    ")]
    assert MAIN_COMMAND in indented
    assert TEST_COMMAND in indented
    # errexit does not see a failure inside an && list
    assert f"{TEST_COMMAND} || exit 1" in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_one_version():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.M) == [gct.__version__]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"]["attr"].startswith("gausscontrol.")


def python_blocks(text):
    """Fenced Python blocks of a Markdown text."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_readme_python_runs(tmp_path, monkeypatch, capsys):
    blocks = python_blocks(README)
    assert blocks
    shutil.copytree(ROOT / "examples" / "data", tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        code = compile(ast.parse(block), str(ROOT / "README.md"), "exec")
        exec(code, {})  # the reader's own session, and nothing else, defines the names
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[-1]) < 1e-5  # the response has arrived at the equilibrium
    assert float(printed[-2]) < 0  # and the exact linearisation there is stable
