"""Links between the numbered statements and the functions that rest on them, both ways.

A docstring cites statements as "Theory 4.1 to 4.3"; each number becomes a link. The other way, the
heading of a statement is followed by the public names whose docstrings cite it, and the entry of a
public name ends with the programs of the gallery that use it. Nothing of this is written by hand.
"""

import inspect
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from pages_from_text import CITATION, NUMBER, link_citations

import gausscontrol

DOCS = Path(__file__).resolve().parents[1]
LABEL = re.compile(r"^\.\. _theory-(?P<label>[0-9-]+[a-z]?):\n\n(?P<heading>.+\n[=-]+\n)", re.M)
LABELS = {
    match["label"]
    for page in DOCS.glob("theory/*.rst")
    for match in LABEL.finditer(page.read_text("utf-8"))
}


def public_things() -> dict:
    """Return public names with what they name, those of tokens with their prefix."""
    names = {n: getattr(gausscontrol, n) for n in gausscontrol.__all__ if not n.startswith("__")}
    tokens = names.pop("tokens")
    names |= {f"tokens.{name}": getattr(tokens, name) for name in tokens.__all__}
    return names


def role_of(name: str, thing) -> str:
    """Return the reference to a public name."""
    kind = "func"
    if inspect.isclass(thing):
        kind = "exc" if issubclass(thing, BaseException) else "class"
    return f":{kind}:`~gausscontrol.{name}`"


def texts_of(thing) -> str:
    """Return the docstring of a thing with those of its own public members."""
    texts = [inspect.getdoc(thing) or ""]
    if inspect.isclass(thing):
        for name, member in vars(thing).items():
            if not name.startswith("_"):
                texts.append(inspect.getdoc(member) or "")
    return "\n".join(texts)


@cache
def used_by() -> dict[str, list[str]]:
    """Return, for each statement's label, references to what cites it."""
    found = defaultdict(list)
    for name, thing in public_things().items():
        text = " ".join(texts_of(thing).split())
        for label in dict.fromkeys(cited(text)):
            found[label].append(role_of(name, thing))
    return found


def cited(text: str):
    """Yield labels of the statements that a text cites; a range stands for all it spans."""
    for citation in CITATION.findall(text):
        numbers = NUMBER.findall(citation)
        yield from (number.replace(".", "-") for number in numbers)
        for first, last in re.findall(r"([\w.]+) to ([\w.]+)", citation):
            yield from (number.replace(".", "-") for number in between(first, last))


def between(first: str, last: str) -> list[str]:
    """Return the numbers after the first of a range and before its last: 4.1 to 4.3, 6a to 6d."""
    alike = re.fullmatch(r"(.*?)(\d+|[a-z]) to \1(\d+|[a-z])", f"{first} to {last}")
    stem, low, high = alike.groups()
    if low.isdigit():
        return [f"{stem}{k}" for k in range(int(low) + 1, int(high))]
    return [f"{stem}{chr(k)}" for k in range(ord(low) + 1, ord(high))]


def add_users(app, docname: str, source: list[str]) -> None:
    """Say below the heading of a statement which functions rest on it."""
    if not docname.startswith("theory/"):
        return

    def extended(match: re.Match) -> str:
        users = used_by().get(match["label"], [])
        line = f"\n.. rst-class:: used-by\n\nUsed by {', '.join(users)}.\n" if users else ""
        return match[0] + line

    source[0] = LABEL.sub(extended, source[0])


@cache
def programs_with(name: str) -> tuple[str, ...]:
    """Return the programs of the gallery that use a public name."""
    call = re.compile(rf"\bgct\.{re.escape(name)}\b")
    bare = re.compile(rf"^from gausscontrol\.tokens import .*\b{name.rpartition('.')[2]}\b", re.M)
    found = []
    for program in sorted((DOCS.parent / "examples").glob("*.py")):
        text = program.read_text("utf-8")
        if call.search(text) or (name.startswith("tokens.") and bare.search(text)):
            found.append(program.stem)
    return tuple(found)


def prepare_docstring(app, what, name, obj, options, lines) -> None:
    """Link citations, keep the bars of |X| and v_ from being markup, and end with the programs."""
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
            escaped = re.sub(r"(?<![\w`])([a-zA-Z]\w*)_(?![\w`])", r"\1\_", escaped)
            lines[number] = link_citations(escaped, LABELS)
            if text.endswith("::"):
                literal = indentation
    short = name.removeprefix("gausscontrol.")
    programs = programs_with(short) if short in public_things() else ()
    if programs:
        shown = ", ".join(f":ref:`{program}.py <gallery-{program}>`" for program in programs)
        lines += ["", ".. rst-class:: in-gallery", "", f"In the gallery: {shown}", ""]


def setup(app) -> dict:
    """Register what is done to docstrings and to the pages of the theory."""
    app.connect("autodoc-process-docstring", prepare_docstring)
    app.connect("source-read", add_users)
    return {"parallel_read_safe": True}
