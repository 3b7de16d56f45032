"""Plain text of this project's docstrings as reStructuredText."""

import re
from collections.abc import Callable

# A chapter, a statement, or a part of one: 3, 4.1, 6a, 7.1b.
NUMBER = re.compile(r"\b\d+(?:\.\d+)?[a-z]?\b")
CITATION = re.compile(rf"\bTheory {NUMBER.pattern}(?:(?:, | to | and ){NUMBER.pattern})*")
# The same in brackets, where the word is left out: "form" (4.1), "riccati" (4.7, 3.2).
BRACKETS = re.compile(r"\(\d+\.\d+[a-z]?(?:(?:, | to | and )\d+\.\d+[a-z]?)*[,;)]")


def link_citations(text: str, labels: set[str]) -> str:
    """Return a text in which the numbers of "Theory 4.1 to 4.3, 4.7" are links."""

    def link(match: re.Match) -> str:
        label = match[0].replace(".", "-")
        return f":ref:`{match[0]} <theory-{label}>`" if label in labels else match[0]

    def link_all(match: re.Match) -> str:
        return NUMBER.sub(link, match[0])

    return BRACKETS.sub(link_all, CITATION.sub(link_all, text))


def first_sentence(text: str) -> str:
    """Return the first line of a docstring as a title: without its full stop and its numbers."""
    line = " ".join(text.split()).rstrip(".")
    return escape(re.sub(r"\s*\(Theory [^)]*\)", "", line))


def escape(text: str) -> str:
    """Return a text in which nothing but `code` is markup."""
    pieces = re.split(r"`([^`]+)`", text)
    plain = [re.sub(r"([\\*_|`])", r"\\\1", piece) for piece in pieces[::2]]
    code = [f"``{piece}``" for piece in pieces[1::2]] + [""]
    return "".join(a + b for a, b in zip(plain, code, strict=True))


def to_rst(text: str, link: Callable[[str], str] = str) -> str:
    """Return a docstring in which indented lines and tables stand as they are."""
    lines = []
    for paragraph in re.split(r"\n{2,}", text.strip("\n")):
        rows = paragraph.split("\n")
        prose = not any(row.startswith("  ") or re.search(r"\S {3,}\S", row) for row in rows)
        numbered = re.match(r"\d+\.  ", paragraph)
        if numbered:
            lines += [escape(row) for row in rows] + [""]
        elif prose:
            lines += [link(escape(row)) for row in rows] + [""]
        else:
            kept = next(k for k, row in enumerate(rows) if re.search(r"^  |\S {3,}\S", row))
            lines += [link(escape(row)) for row in rows[:kept]] + ["", ".. code-block:: none", ""]
            margin = min(len(row) - len(row.lstrip()) for row in rows[kept:])
            lines += [f"   {row[margin:]}" for row in rows[kept:]] + [""]
    return "\n".join(lines)
