"""Sphinx configuration. Build with ``sphinx-build -W docs docs/_build``."""

import re
from pathlib import Path

import gausscontrol

project = "gausscontrol"
author = "The gausscontrol developers"
copyright = "2026, the gausscontrol developers"  # noqa: A001 - Sphinx fixes this name
version = release = gausscontrol.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
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

# Pictures are drawn from the code that stands in the pages, when these are built.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 150)]

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

_NUMBER = re.compile(r"\b\d+\.\d+[a-z]?\b")
_CITATION = re.compile(r"\bTheory \d+\.\d+[a-z]?(?:(?:, | to | and )\d+\.\d+[a-z]?)*\b")
_labels = {
    label
    for page in Path(__file__).parent.glob("theory/*.rst")
    for label in re.findall(
        r"^\.\. _theory-([0-9-]+[a-z]?):$", page.read_text("utf-8"), re.MULTILINE
    )
}


def _prepare_docstring(app, what, name, obj, options, lines):
    """Link the numbers in "Theory 4.1 to 4.3, 4.7", and keep the bars of |X| from being markup."""

    def link(match: re.Match) -> str:
        label = match[0].replace(".", "-")
        return f":ref:`{match[0]} <theory-{label}>`" if label in _labels else match[0]

    def link_all(match: re.Match) -> str:
        return _NUMBER.sub(link, match[0])

    literal = None  # the indentation that a literal block has to exceed, inside one
    doctest = False
    for number, line in enumerate(lines):
        text = line.strip()
        indentation = len(line) - len(line.lstrip())
        doctest = bool(text) and (doctest or text.startswith(">>>"))
        if literal is not None and text and indentation <= literal:
            literal = None
        if literal is None and not doctest:
            escaped = re.sub(r"(?<!\\)\|", r"\|", line)
            lines[number] = _CITATION.sub(link_all, escaped)
            if text.endswith("::"):
                literal = indentation


def setup(app):
    """Register what is done to docstrings."""
    app.connect("autodoc-process-docstring", _prepare_docstring)
