"""The schema describes every key that the commands print, and what it says is true of them."""

import contextlib
import io
import json

import numpy as np
import pytest
from problems import cubic_factor, no_equilibrium, two_attractors

import gausscontrol as gct
from gausscontrol.certificates import classify
from gausscontrol.cli import main, options
from gausscontrol.cli.jsontext import SCHEMA, plain
from gausscontrol.cli.schema import REGIMES, report_schema
from gausscontrol.model.formats import FORMATS
from gausscontrol.plots import PICTURES
from gausscontrol.synthesis.actuators import ACTUATORS
from gausscontrol.synthesis.design_request import FREE
from gausscontrol.synthesis.layers import KINDS

WHOLE = report_schema()
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
KEYWORDS = {"type", "description", "$ref", "const", "enum", "properties", "required", "items"}
KEYWORDS |= {"oneOf", "minimum", "minItems", "maxItems", "additionalProperties"}

LAYER = gct.GaussianTransformer([[0.5, 0.3], [-0.3, 0.5]], np.eye(2), -0.5 * np.eye(2), [1.0, 0])
RESIDUAL = gct.GaussianTransformer(np.eye(2), np.eye(2), -0.5 * np.eye(2), dt=0.01)
SINGULAR = gct.GaussianTransformer(np.diag([1.0, -1.0]), np.eye(2), -np.eye(2))
MODELS = {
    "stable": LAYER,
    "named": gct.GaussianTransformer(0.5, 1, -0.25, name="scalar"),
    "local": two_attractors()[0],
    "residual": RESIDUAL,
    "blow-up": cubic_factor().model,
    "none": no_equilibrium().model,
    "collapse": gct.GaussianTransformer(-1, 1, -1),
    "singular": SINGULAR,
    "stack": gct.LayerStack([LAYER, RESIDUAL], [2, 0.01]),
}


def faults(value, schema, path="report"):
    """Say where a value breaks a schema of `KEYWORDS`; a key that is not described is a fault."""
    assert set(schema) <= KEYWORDS, f"unknown keywords in {schema}"
    if "$ref" in schema:
        return faults(value, WHOLE["$defs"][schema["$ref"].removeprefix("#/$defs/")], path)
    if "oneOf" in schema:
        results = [faults(value, option, path) for option in schema["oneOf"]]
        fitting = [found for found in results if not found]
        return [] if len(fitting) == 1 else [f"{path}: {len(fitting)} fit", *min(results, key=len)]
    if "const" in schema:
        return [] if value == schema["const"] else [f"{path}: {value!r}"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{path}: {value!r}"]
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
        return [f"{path}: {value!r} is no {kind}"]
    if kind in ("integer", "number"):
        return [] if value >= schema.get("minimum", value) else [f"{path}: {value}"]
    if kind == "array":
        found = [f"{path}: {len(value)} items"] * (
            not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        )
        for i, item in enumerate(value):
            found += faults(item, schema["items"], f"{path}[{i}]")
        return found
    if kind == "object":
        known = schema.get("properties", {})
        found = [f"{path}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            inner = known.get(name, schema.get("additionalProperties"))
            found += (
                [f"{path}.{name}: not described"]
                if inner is None
                else faults(item, inner, f"{path}.{name}")
            )
        return found
    return []


def check(report, name):
    """Hold a report against the whole schema, and against the part it has to match."""
    assert faults(report, WHOLE["$defs"][name]) == []
    assert faults(report, {"oneOf": WHOLE["oneOf"]}) == []


def run(*arguments):
    """Run a command with --json: code and report."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, arguments), "--json"])
    return code, json.loads(out.getvalue(), parse_constant=pytest.fail)


@pytest.fixture(name="path")
def _path(tmp_path):
    return tmp_path / "layer.npz"


@pytest.mark.parametrize("name", MODELS)
def test_analyze_prints_what_the_schema_says(path, name):
    gct.save_model(path, MODELS[name])
    for extra in ((), ("--require", "globally stable", "--plots", path.parent / "out")):
        _, report = run("analyze", path, *extra)
        check(report, "analyze_stack" if name == "stack" else "analyze")


@pytest.mark.parametrize(
    ("model", "depth"),
    [(LAYER, 2), (gct.GaussianTransformer(0, 1, 1), 3), (MODELS["stack"], 2.01)],
    ids=["layer", "escape", "stack"],
)
def test_simulate_prints_what_the_schema_says(path, model, depth):
    gct.save_model(path, model)
    code, report = run("simulate", path, "--depth", depth, "--output", path.with_suffix(".csv"))
    check(report, "simulate")
    assert code == 0


@pytest.mark.parametrize("extra", [(), ("--free", "AV", "--decay-rate", 0.5, "--dt", 0.01)])
def test_design_prints_what_the_schema_says(path, extra):
    gct.save_model(path, gct.GaussianTransformer(0.5, 1, -0.25))
    code, report = run("design", path, "--target", 2, *extra)
    check(report, "design")
    assert code == 0


def test_steer_prints_what_the_schema_says(tmp_path):
    np.savez(tmp_path / "start.npz", covariance=np.eye(2))
    np.savez(tmp_path / "goal.npz", mean=[1.0, 0.0], covariance=np.diag([4.0, 1.0]))
    gct.save_model(tmp_path / "layer.npz", LAYER)
    files = tmp_path / "start.npz", tmp_path / "goal.npz"
    for extra in ((), ("--model", tmp_path / "layer.npz", "--actuators", "attention")):
        code, report = run("steer", *files, "--layers", 2, *extra)
        check(report, "steer")
        assert code == 0


def test_what_there_is_not_is_told_as_json_too(tmp_path):
    np.savez(tmp_path / "start.npz", covariance=np.eye(2))
    np.savez(tmp_path / "goal.npz", covariance=np.diag([1.0, 0.0]))
    code, report = run("steer", tmp_path / "start.npz", tmp_path / "goal.npz")
    check(report, "failure")
    assert (code, report["command"], report["schema"]) == (1, "steer", SCHEMA)
    assert report["failure"]["kind"] == "UnreachableError"
    assert "rank 2 cannot become rank 1" in report["failure"]["reason"]
    gct.save_model(tmp_path / "layer.npz", LAYER)
    code, report = run("design", tmp_path / "layer.npz", "--target", 1, "--decay-rate", 9)
    check(report, "failure")
    assert (code, report["failure"]["kind"]) == (1, "InfeasibleDesign")
    assert report["failure"]["reason"].startswith("--decay-rate: tr A = 1 allows")


def test_the_checker_finds_faults(path):
    gct.save_model(path, LAYER)
    report = run("simulate", path, "--depth", 1)[1]
    for change in (
        {"points": 0},
        {"points": True},
        {"outcome": "vanishes"},
        {"text": None},
        {"new": 1},
        {"plots": [1]},
        {"model": {**report["model"], "dim": 1.5}},
        {"schema": SCHEMA + 1},
    ):
        assert faults(report | change, WHOLE["$defs"]["simulate"]) != []
    assert faults({k: v for k, v in report.items() if k != "rank"}, WHOLE["$defs"]["simulate"])


def test_the_schema_is_printed(capsys):
    assert main(["--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == WHOLE


def test_references_lead_somewhere():
    text = json.dumps(WHOLE)
    names = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert names == set(WHOLE["$defs"])


def test_numbers_that_are_not_finite_are_null():
    value = {"a": np.array([np.nan, 1.0]), "b": (np.float64(-np.inf), np.int64(2)), "c": [np.inf]}
    assert plain(value) == {"a": [None, 1.0], "b": [None, 2], "c": [None]}


def test_choices_are_those_of_the_library():
    assert REGIMES == classify.REGIMES
    assert tuple("".join(names) for names in FREE) == options.FREE
    assert options.KINDS == KINDS
    assert tuple(ACTUATORS) == options.ACTUATORS
    assert tuple(FORMATS) == options.MODEL_FILES
    assert options.PICTURES == PICTURES
