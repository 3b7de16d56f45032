"""The JSON Schema of what --json prints (draft 2020-12); `gausscontrol --schema` prints it.

    report = one of analyze (of a layer, of a stack), simulate, design, steer, failure

Every key is always there; what does not exist or is not finite is null. The number under "schema"
goes up when a key is renamed, removed or means something else; a reader should let new keys pass.
"""

from __future__ import annotations

from typing import Any

from gausscontrol.cli.choices import ACTUATORS, FREE, KINDS, REQUIRABLE

__all__ = ["SCHEMA", "report_schema"]

Schema = dict[str, Any]

# Goes up when a key is renamed, removed or means something else; new keys leave it as it is.
SCHEMA = 1

REGIMES = (*REQUIRABLE, "singular limit", "undecided")
SCOPES = ("covariance and mean", "covariance")
OUTCOMES = (
    "approaches", "decays", "escapes", "flattens", "grows", "moves", "not integrated", "settles",
)  # fmt: skip


def report_schema() -> Schema:
    """Return the JSON Schema of the reports.

    Returns
    -------
    dict
        Of draft 2020-12; one object on one line matches one entry of its "oneOf".

    Examples
    --------
    >>> [entry["$ref"].split("/")[-1] for entry in report_schema()["oneOf"]]
    ['analyze', 'analyze_stack', 'simulate', 'design', 'steer', 'failure']
    """
    reports = {
        "analyze": _report("analyze", file=_text("model file"), **_LAYER, **_FOUND),
        "analyze_stack": _report("analyze", file=_text("model file"), **_STACK, **_FOUND_IN_STACK),
        "simulate": _report("simulate", **_SIMULATED),
        "design": _report("design", **_DESIGNED),
        "steer": _report("steer", **_STEERED),
        "failure": _FAILURE,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Reports of gausscontrol --json, schema {SCHEMA}",
        "description": "What does not exist or is not finite is null. Units: x of a token, t of "
        "the depth.",
        "oneOf": [_ref(name) for name in reports],
        "$defs": reports | _PARTS,
    }


# -- pieces ---------------------------------------------------------------------------------------


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _of(kind: str, description: str = "", **more: Any) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **more}


def _text(description: str = "") -> Schema:
    return _of("string", description)


def _number(description: str = "") -> Schema:
    return _of("number", description)


def _count(description: str = "", least: int = 0) -> Schema:
    return _of("integer", description, minimum=least)


def _flag(description: str = "") -> Schema:
    return _of("boolean", description)


def _among(words: tuple[str, ...], description: str = "") -> Schema:
    return {"enum": list(words), **({"description": description} if description else {})}


def _or_null(schema: Schema) -> Schema:
    """The same, or null where it does not exist."""
    return {"oneOf": [schema, {"type": "null"}]}


def _list(items: Schema, description: str = "", **more: Any) -> Schema:
    return _of("array", description, items=items, **more)


def _map(values: Schema, description: str) -> Schema:
    return _of("object", description, additionalProperties=values)


def _object(**properties: Schema) -> Schema:
    return _of("object", properties=properties, required=list(properties))


def _report(command: str, **properties: Schema) -> Schema:
    return _object(
        command={"const": command},
        schema={"const": SCHEMA, "description": "number of this schema"},
        version=_text("of gausscontrol"),
        **properties,
    )


# -- parts ----------------------------------------------------------------------------------------

_PATHS = _list(_text(), "files written")
_MISSING = _map(_text(), "reason by name of each picture that was not drawn")
_OUTPUT = _or_null(_text("file written"))

_PARTS = {
    "vector": _list(_number()),
    "matrix": _list(_ref("vector"), "row by row"),
    "pole": _list(_number(), "[re, im] [1/t]", minItems=2, maxItems=2),
    "model": _object(
        name=_or_null(_text()),
        dim=_count("d", 1),
        heads=_count(least=1),
        dt=_number("0 for continuous depth, else the depth of a layer [t]"),
    ),
    "equilibrium": _object(
        mean=_or_null(_ref("vector")),
        covariance=_ref("matrix"),
        rank=_count(),
        method=_text("how it was found"),
        residual=_number("relative"),
        existence_radius=_or_null(_number("an exact one is proven within it [x^2]")),
        covariance_abscissa=_number("[1/t]"),
        mean_abscissa=_number("[1/t]"),
        covariance_is_stable=_flag(),
        mean_is_stable=_flag(),
        leaf_is_stable=_flag("among covariances of its rank"),
        transverse_abscissa=_or_null(_number("across the leaf, where rank < d [1/t]")),
        is_isolated=_or_null(_flag()),
        mean_is_unique=_flag(),
    ),
    "certificate": _object(
        kind=_among(REGIMES),
        statement=_text("what is certified"),
        scope=_among(SCOPES),
        margin=_number("by how much the deciding inequality holds"),
        method=_or_null(_text()),
        radius=_or_null(_number("an exact equilibrium lies within it, whitened")),
        rate=_or_null(_number("[1/t]")),
        level=_or_null(_number("of the set, semiglobally stable")),
        largest_step=_or_null(_number("dt up to which the set is certified [t]")),
        bound=_or_null(_number("on the limsup of tr Sigma, bounded [x^2]")),
        threshold=_or_null(_number("beyond which covariances escape, blow-up")),
    ),
    "attempt": _object(
        kind=_among(REGIMES),
        reason=_text(),
        margin=_or_null(_number("how far it fell short")),
    ),
    "analysis": _object(
        poles=_list(_ref("pole")),
        abscissa=_number("[1/t]"),
        covariance_abscissa=_number("[1/t]"),
        mean_abscissa=_number("[1/t]"),
        time_constants=_list(_or_null(_number()), "[t]; null for a pole that does not decay"),
        attention_form_margin=_or_null(_number("alpha of Theory 4.2 [1/t]")),
        optimal_form_margin=_or_null(_number("tr A / d [1/t]")),
        stability_radius=_or_null(_number("[1/t]")),
        hinf_norm=_or_null(_number()),
        h2_norm=_or_null(_number()),
        hankel_singular_values=_or_null(_ref("vector")),
        lyapunov_margin=_or_null(_number()),
        inputs=_list(_text()),
        reasons=_map(_text(), "reason by name of what is null"),
    ),
    "observation": _object(
        start=_text("in words"),
        depth=_number("[t]"),
        outcome=_among(OUTCOMES),
        text=_text("the same in words; observed, not certified"),
        escape_depth=_or_null(_number("[t]")),
    ),
    "moments": _object(depth=_number("[t]"), mean=_ref("vector"), covariance=_ref("matrix")),
    "gaussian": _object(file=_text(), mean=_ref("vector"), covariance=_ref("matrix")),
}

_LAYER = {
    "model": _ref("model"),
    "regime": _among(REGIMES, "the first that is certified"),
    "scope": _or_null(_among(SCOPES)),
    "equilibrium": _or_null(_ref("equilibrium")),
    "singular_limit": _or_null(_ref("equilibrium")),
    "other_equilibria": _list(_ref("equilibrium")),
    "no_equilibrium": _or_null(_text("why no positive definite one is reported")),
    "rate": _or_null(_number("certified decay rate of the covariance [1/t]")),
    "optimal_rate": _or_null(_number("2 tr A / d [1/t]")),
    "certificate": _or_null(_ref("certificate")),
    "certificates": _list(_ref("certificate"), "that behind the regime, and all others"),
    "not_certified": _list(_ref("attempt")),
}
_FOUND = {
    "analysis": _or_null(_ref("analysis")),
    "no_analysis": _or_null(_text("why there is none")),
    "observations": _list(_ref("observation")),
    "plots": _PATHS,
    "plots_missing": _MISSING,
    "requirement": _or_null(_object(regime=_among(REQUIRABLE), met=_flag())),
}
_STACK = {
    "stack": _object(dim=_count("d", 1), layers=_count(least=1), depth=_number("[t]")),
    "layers": _list(
        _object(
            index=_count(),
            start=_number("depth [t]"),
            stop=_number("depth [t]"),
            trace_after=_or_null(_number("observed tr Sigma [x^2]; null past an escape")),
            **_LAYER,
        )
    ),
    "regime": _among(REGIMES, "the weakest of the layers'"),
}
_FOUND_IN_STACK = {
    name: schema for name, schema in _FOUND.items() if name not in ("analysis", "no_analysis")
}
_SIMULATED = {
    "file": _text("model file"),
    "model": _object(
        name=_or_null(_text()),
        dim=_count("d", 1),
        dt=_or_null(_number("[t]; null for a stack")),
        heads=_or_null(_count("null for a stack", 1)),
        layers=_or_null(_count("of a stack", 1)),
    ),
    "initial": _ref("moments"),
    "final": _ref("moments"),
    "method": _among(("closed-form", "factor", "covariance")),
    "rank": _count(),
    "points": _count("how many depths", 2),
    "outcome": _among(OUTCOMES),
    "text": _text("the same in words"),
    "escape_depth": _or_null(_number("[t]")),
    "output": _OUTPUT,
    "plots": _PATHS,
    "plots_missing": _MISSING,
}
_NORMS = _map(_number(), "spectral norms by parameter, A and V [1/t], B [1/x^2]")
_DESIGNED = {
    "file": _text("model file"),
    "output": _OUTPUT,
    "free": _list(_among(("A", "B", "V")), f"what was designed, one of {', '.join(FREE)}"),
    "target": _object(mean=_ref("vector"), covariance=_ref("matrix")),
    "model": _object(
        name=_or_null(_text()),
        dim=_count("d", 1),
        heads=_count(least=1),
        mean_heads=_count("heads with B = 0 among them, for the mean"),
        dt=_number("[t]"),
    ),
    "decay_rate": _number("of the covariance [1/t]"),
    "optimal_rate": _or_null(_number("[1/t]")),
    "mean_decay_rate": _number("[1/t]"),
    "norms": _NORMS,
    "norm_bound": _NORMS,
    "residual": _number("relative"),
    "largest_step": _or_null(_number("dt up to which the target attracts [t]")),
    "certificate": _object(
        kind=_text("class of the certificate"),
        statement=_text(),
        scope=_among(SCOPES),
        margin=_number(),
    ),
    "status": _text("what the solver says of itself"),
    "plots": _PATHS,
}
_STEERED = {
    "start": _ref("gaussian"),
    "goal": _ref("gaussian"),
    "model": _or_null(_text("model file with the parameters that stay")),
    "duration": _number("depth [t]"),
    "actuators": _among(ACTUATORS),
    "rank": _count(),
    "energy": _number("[x^2/t]"),
    "least_energy": _number("[x^2/t]"),
    "peak_norms": _map(_number(), "largest norm along the depth by parameter"),
    "residual": _number("relative"),
    "amplification": _or_null(_number("of a deviation at the start, in open loop")),
    "kind": _among(KINDS),
    "layers": _count("how many", 1),
    "end_error": _number("of the layers, replayed, in the covariance of the goal, relative"),
    "output": _OUTPUT,
    "plots": _PATHS,
}
_FAILURE = _object(
    command=_among(("design", "steer")),
    schema={"const": SCHEMA},
    version=_text("of gausscontrol"),
    failure=_object(
        kind=_among(("InfeasibleDesign", "UnreachableError")),
        reason=_text("the line on standard error"),
    ),
)
