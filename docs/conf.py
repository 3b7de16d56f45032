"""Sphinx configuration. Build with ``sphinx-build -W docs docs/_build``."""

import re
from pathlib import Path

import gausscontrol

project = "gausscontrol"
author = "The gausscontrol developers"
copyright = "2026, the gausscontrol developers"  # noqa: A001 - Sphinx fixes this name
version = release = gausscontrol.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"gausscontrol {release}"

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections carry shapes and units, which annotations cannot
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

mathjax3_config = {
    "tex": {
        "macros": {
            "E": r"\operatorname{\mathbb{E}}",
            "R": r"\mathbb{R}",
            "rank": r"\operatorname{rank}",
            "skw": r"\operatorname{skew}",
            "sym": r"\operatorname{sym}",
            "tr": r"\operatorname{tr}",
        }
    }
}

_labels = {
    label
    for page in Path(__file__).parent.glob("theory/*.rst")
    for label in re.findall(r"^\.\. _theory-([0-9-]+):$", page.read_text("utf-8"), re.MULTILINE)
}


def _link_theory(app, what, name, obj, options, lines):
    """Turn "Theory 4.1" in a docstring into a link to that statement."""

    def link(match: re.Match) -> str:
        label = match[1].replace(".", "-")
        return f":ref:`Theory {match[1]} <theory-{label}>`" if label in _labels else match[0]

    lines[:] = [re.sub(r"\bTheory (\d+\.\d+)\b", link, line) for line in lines]


def setup(app):
    """Register the links from docstrings to the theory pages."""
    app.connect("autodoc-process-docstring", _link_theory)
