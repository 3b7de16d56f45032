"""Reports in notebooks: HTML and LaTeX made from the text that `print` gives, so that they agree.

    "  label   value"  ->  a row of a table;    a small matrix  ->  its entries between brackets

Any other line spans the table and keeps its spacing. Text is escaped, colours and fonts are those
of the page, and there is neither style sheet nor script, so that a report reads the same in light
and dark and in a file sent by mail. Notebooks prefer HTML where there is both; LaTeX is for what is
made of a notebook on paper.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "LARGEST",
    "Markup",
    "Report",
    "html_columns",
    "html_matrix",
    "html_table",
    "html_text",
    "latex_matrix",
    "latex_table",
    "latex_text",
]

# Rows of the largest matrix that is written out.
LARGEST = 6

# Two spaces of indentation, a label, two or more spaces, a value.
ROW = re.compile(r"  (\S(?: ?\S)*) {2,}(\S(?: ?\S)*)")
# Pages without a doctype would give tables a colour and a size of their own.
OWN = "color: inherit; font-size: inherit"
LEFT = "text-align: left; vertical-align: top; padding: 0.1em 1em 0.1em 0"
BRACKETS = (
    f"{OWN}; border-collapse: collapse; display: inline-table; margin: 0; "
    "border: solid currentColor; border-width: 0 1px; border-radius: 4px"
)
HEAD = f"{LEFT}; border-bottom: 1px solid currentColor"
ENTRY = "text-align: right; padding: 0 0.4em; background: none; border: 0"
LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


class Markup(str):
    """HTML or LaTeX, not to be escaped; any other string is words."""

    __slots__ = ()


class Report:
    """Something that prints as a short report and shows as one in a notebook.

    The first line of `str()` is the heading; it is also the `repr`, so that a list of results stays
    readable. A class may name attributes that hold matrices, to be shown where they are small.
    """

    # What to call a matrix, and the attribute that holds it.
    _matrices: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the class a short `repr` of its own, which a dataclass then leaves alone."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            cls.__repr__ = Report.__repr__

    def __repr__(self) -> str:
        heading = str(self).partition("\n")[0]
        name = type(self).__name__
        return f"<{heading}>" if heading.startswith(name) else f"<{name}: {heading}>"

    def _repr_html_(self) -> str:
        heading, rows = _rows(str(self))
        rows += [(label, html_matrix(matrix)) for label, matrix in self._small()]
        return html_table(heading, rows)

    def _repr_latex_(self) -> str:
        heading, rows = _rows(str(self))
        rows += [(label, Markup(f"${latex_matrix(matrix)}$")) for label, matrix in self._small()]
        return latex_table(heading, rows)

    def _small(self) -> list[tuple[str, np.ndarray]]:
        matrices = ((label, getattr(self, name)) for label, name in self._matrices)
        return [(label, M) for label, M in matrices if M is not None and len(M) <= LARGEST]


def _rows(text: str) -> tuple[str, list[tuple[str | None, str]]]:
    """Heading of a report, and its rows: a label, or None where there is one cell, and words."""
    heading, *lines = text.split("\n")
    rows: list[tuple[str | None, str]] = []
    for line in lines:
        row = ROW.fullmatch(line)
        rows.append((row[1], row[2]) if row else (None, line.rstrip()))
    return heading, [row for row in rows if row[1]]


# -- HTML -----------------------------------------------------------------------------------------


def html_table(heading: str, rows: Iterable[tuple[str | None, str]]) -> str:
    """Return a heading and a table of labels and values.

    Parameters
    ----------
    heading : str
        Words.
    rows : iterable of (str or None, str)
        Words of the label, None for a cell that spans the table, and the value: words, or `Markup`.

    Returns
    -------
    str

    Examples
    --------
    >>> print(html_table("A < B", [("rank", "<b>2</b>")]))
    <div><strong>A &lt; B</strong><table style="...">
    <tr><th style="...">rank</th><td style="...">&lt;b&gt;2&lt;/b&gt;</td></tr>
    </table></div>
    """
    lines = []
    for label, value in rows:
        cell = html_text(value)
        if label is None:
            pre = f"{LEFT}; white-space: pre-wrap"
            lines.append(f'<tr><td colspan="2" style="{pre}">{cell}</td></tr>')
        else:
            name = html_text(label)
            lines.append(f'<tr><th style="{LEFT}">{name}</th><td style="{LEFT}">{cell}</td></tr>')
    table = "\n".join([f'<table style="{OWN}">', *lines, "</table>"]) if lines else ""
    return f"<div><strong>{html_text(heading)}</strong>{table}</div>"


def html_columns(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table whose columns have names.

    Parameters
    ----------
    names : sequence of str
        Words.
    rows : iterable of sequences of str
        A cell for each column: words, or `Markup`.

    Returns
    -------
    Markup

    Examples
    --------
    >>> print(html_columns(("rank", "word"), [("2", "a < b")]))
    <table style="...">
    <tr><th style="...">rank</th><th style="...">word</th></tr>
    <tr><td style="...">2</td><td style="...">a &lt; b</td></tr>
    </table>
    """
    lines = ["".join(f'<th style="{HEAD}">{html_text(name)}</th>' for name in names)]
    lines += ["".join(f'<td style="{LEFT}">{html_text(cell)}</td>' for cell in row) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return Markup(f'<table style="{OWN}">\n{body}\n</table>')


def html_text(words: str) -> Markup:
    """Return words escaped for HTML, and `Markup` as it is.

    Parameters
    ----------
    words : str

    Returns
    -------
    Markup
    """
    return words if isinstance(words, Markup) else Markup(html.escape(words))


def html_matrix(matrix: np.ndarray) -> Markup:
    """Return the entries of a matrix, or of a vector as a column, between brackets.

    Parameters
    ----------
    matrix : (m, n) or (m,) ndarray

    Returns
    -------
    Markup
    """
    lines = []
    for row in _entries(matrix):
        cells = "".join(f'<td style="{ENTRY}">{entry}</td>' for entry in row)
        lines.append(f'<tr style="background: none">{cells}</tr>')
    return Markup(f'<table style="{BRACKETS}">{"".join(lines)}</table>')


# -- LaTeX ----------------------------------------------------------------------------------------


def latex_text(text: str) -> str:
    r"""Return words with what is special in LaTeX escaped.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> print(latex_text("Sigma_0 > 0, 100 %"))
    Sigma\_0 \textgreater{} 0, 100 \%
    """
    return "".join(LATEX.get(character, character) for character in text)


def latex_table(heading: str, rows: Iterable[tuple[str | None, str]]) -> str:
    """Return a heading and a table of labels and values.

    Parameters
    ----------
    heading : str
        Words.
    rows : iterable of (str or None, str)
        As in `html_table`.

    Returns
    -------
    str
    """
    lines = [rf"\multicolumn{{2}}{{l}}{{\textbf{{{latex_text(heading)}}}}} \\"]
    for label, value in rows:
        cell = value if isinstance(value, Markup) else latex_text(value.strip())
        if label is None:
            lines.append(rf"\multicolumn{{2}}{{l}}{{{cell}}} \\")
        else:
            lines.append(rf"{latex_text(label)} & {cell} \\")
    return "\n".join([r"\begin{tabular}{ll}", *lines, r"\end{tabular}"])


def latex_matrix(matrix: np.ndarray) -> Markup:
    r"""Return a matrix, or a vector as a column, for a formula.

    Parameters
    ----------
    matrix : (m, n) or (m,) ndarray

    Returns
    -------
    Markup

    Examples
    --------
    >>> import numpy as np
    >>> print(latex_matrix(np.array([[1.0, -0.5], [0.0, 1e-7]])))
    \begin{pmatrix} 1 & -0.5 \\ 0 & 1 \cdot 10^{-7} \end{pmatrix}
    """
    rows = (" & ".join(_power(entry) for entry in row) for row in _entries(matrix))
    inner = r" \\ ".join(rows)
    return Markup(rf"\begin{{pmatrix}} {inner} \end{{pmatrix}}")


def _power(entry: str) -> str:
    digits, e, exponent = entry.partition("e")
    return rf"{digits} \cdot 10^{{{int(exponent)}}}" if e else digits


def _entries(matrix: np.ndarray) -> Sequence[Sequence[str]]:
    """Entries in four digits; minus zero is zero."""
    table = np.asarray(matrix)
    table = table[:, None] if table.ndim == 1 else table
    return [[f"{value + 0.0:.4g}" for value in row] for row in table]
