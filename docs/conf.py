"""Sphinx configuration. Build with ``sphinx-build -W docs docs/_build``."""

import sys
from pathlib import Path

import gausscontrol

sys.path.insert(0, str(Path(__file__).resolve().parent / "_extensions"))

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
    "sphinx-mathjax-offline",  # formulas are set without a network
    "sphinx_copybutton",
    "sphinx_design",
    "example_gallery",
    "listed_attributes",
    "short_tables",
    "theory_links",
]
exclude_patterns = ["_build", "_extensions", "gallery/figures", "gallery/made"]
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"gausscontrol {release}"
html_static_path = ["_static"]
html_css_files = ["gausscontrol.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": f"gausscontrol {release}"},
    "header_links_before_dropdown": 7,
    "navigation_depth": 3,
    "show_nav_level": 2,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_sidebars = {
    page: []
    for page in (
        "index",
        "installation",
        "tutorial",
        "trust",
        "comparison",
        "benchmarks",
        "references",
    )
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Every reference of ours has to resolve. Types in numpydoc sections, "(d, d) ndarray", are prose.
nitpicky = True
nitpick_ignore_regex = [(r"py:class", r"(?!gausscontrol).*")]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections carry shapes and units, which annotations cannot
autodoc_member_order = "bysource"

# Pictures are drawn from the code that stands in the pages, when these are built.
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 150)]
plot_working_directory = str(Path(__file__).resolve().parents[1])

# A program that writes files gets a folder to write to.
gallery_arguments = {"make_mimetic_heads": ["."]}

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
