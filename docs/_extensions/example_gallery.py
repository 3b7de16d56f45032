"""The gallery: every program of examples/ is run when the pages are built, and shown.

A program becomes a page with its docstring, the figures it drew, what it printed and its source.
Figures come from the program itself, by its own option ``--plots``, or from a function ``draw`` in
gallery/figures/NAME.py, which gets the names that the program left behind. A program that fails
fails the build. What ran is kept beside the pages and runs again only when it, the package or its
data changed; ``-D gallery_keep=1`` shows what ran last, whatever changed.
"""

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import runpy
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

from docutils import nodes
from docutils.statemachine import StringList
from pages_from_text import first_sentence, link_citations, to_rst
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from theory_links import LABELS

DOCS = Path(__file__).resolve().parents[1]
EXAMPLES = DOCS.parent / "examples"
PACKAGE = DOCS.parent / "gausscontrol"
PAGES = DOCS / "gallery"
logger = logging.getLogger(__name__)


def run_program(path: str, arguments: list[str], folder: str) -> str:
    """Run a program, save its figures into a folder, and return what it printed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    target = Path(folder)
    drawn_by = PAGES / "figures" / Path(path).name
    printed, complaints = io.StringIO(), io.StringIO()
    before = sys.argv, list(sys.path), Path.cwd()
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(EXAMPLES))
    names = {}
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(complaints),  # progress, mostly
        ):
            os.chdir(scratch)
            try:
                names = runpy.run_path(path, run_name="__main__")
            except SystemExit as stop:
                if stop.code:
                    said = complaints.getvalue()[-2000:]
                    raise RuntimeError(f"ended with {stop.code!r}: {said}") from stop
            finally:
                os.chdir(before[2])
        if drawn_by.exists():
            names = names or runpy.run_path(path)
            draw = runpy.run_path(str(drawn_by))["draw"]
            figure = draw(SimpleNamespace(**names))
            figure.savefig(target / f"{target.name}.png", dpi=150)
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        plt.close("all")
    return printed.getvalue()


def options_of(source: str) -> list[str]:
    """Return those of the options a gallery uses that a program has."""
    return [option for option in ("--quick", "--plots") if f'"{option}"' in source]


def fingerprint(program: Path) -> str:
    """Return a digest of all that a program's figures and text depend on."""
    digest = hashlib.sha256(sys.version.encode())
    files = [program, PAGES / "figures" / program.name, Path(__file__)]
    files += sorted(PACKAGE.rglob("*.py")) + sorted((EXAMPLES / "data").iterdir())
    for file in files:
        if file.is_file():
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def produce(app) -> None:
    """Run what changed, two programs at a time, and write the pages."""
    programs = sorted(EXAMPLES.glob("*.py"))
    made = {}
    for program in programs:
        folder = PAGES / "made" / program.stem
        record = folder / "record.json"
        key = fingerprint(program)
        known = json.loads(record.read_text("utf-8"))["key"] if record.exists() else None
        if known is None or (known != key and not app.config.gallery_keep):
            made[program] = key
    context = get_context("spawn")
    # One thread for each of two workers is quicker than two for each.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        waiting = {program: pool.submit(*job(app, program)) for program in made}
        for program, future in waiting.items():
            try:
                keep(program, made[program], future.result())
            except Exception as error:
                raise ExtensionError(f"examples/{program.name}: {error}") from error
            logger.info("ran examples/%s", program.name)
    for program in programs:
        write_page(program)
    for page in PAGES.glob("*.rst"):  # of programs that are no more
        if page.stem != "index" and page.stem not in {program.stem for program in programs}:
            page.unlink()


def job(app, program: Path) -> tuple:
    """Return the call that runs a program into an empty folder."""
    folder = PAGES / "made" / program.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options = options_of(program.read_text("utf-8"))
    arguments = [*options, str(folder)] if "--plots" in options else options
    arguments += app.config.gallery_arguments.get(program.stem, [])
    return run_program, str(program), arguments, str(folder)


def keep(program: Path, key: str, printed: str) -> None:
    """Store what a program printed and under which key; paths of this machine are left out."""
    folder = PAGES / "made" / program.stem
    text = printed.replace(f"{folder}{os.sep}", "").replace(str(folder), "DIR")
    (folder / "printed.txt").write_text(text.rstrip() + "\n", "utf-8")
    (folder / "record.json").write_text(json.dumps({"key": key}), "utf-8")


def figures_of(program: Path) -> list[Path]:
    """Return the figures of a program, the one that bears its name first."""
    found = sorted((PAGES / "made" / program.stem).glob("*.png"))
    return sorted(found, key=lambda figure: figure.stem != program.stem)


def docstring_of(program: Path) -> str:
    """Return the docstring of a program without running it."""
    return ast.get_docstring(ast.parse(program.read_text("utf-8"))) or program.stem


def write_page(program: Path) -> None:
    """Write the page of a program: what it says, draws, prints, and how it is written."""
    name = program.stem
    title, _, rest = docstring_of(program).partition("\n\n")
    heading = first_sentence(title)
    source = program.read_text("utf-8")
    given = options_of(source)
    shown = " ".join([*given, "DIR"] if "--plots" in given else given)
    # One that the index does not name yet has a page of its own all the same.
    named = re.search(rf"^   {name}$", (PAGES / "index.rst").read_text("utf-8"), re.MULTILINE)
    lines = [] if named else [":orphan:", ""]
    lines += [f".. _gallery-{name}:", "", heading, "=" * len(heading), ""]
    lines += [to_rst(rest, lambda text: link_citations(text, LABELS)), ""]
    for figure in figures_of(program):
        lines += [
            f".. image:: made/{name}/{figure.name}",
            f"   :alt: Figure of examples/{program.name}: {heading}",
            "   :class: gallery-figure",
            "",
        ]
    lines += ["What it prints", "--------------", ""]
    lines += [f"From ``python examples/{program.name} {shown}".rstrip() + "``:", ""]
    lines += [f".. literalinclude:: made/{name}/printed.txt", "   :language: none", ""]
    lines += ["The program", "-----------", ""]
    lines += [f":download:`{program.name} <../../examples/{program.name}>`", ""]
    lines += [f".. literalinclude:: ../../examples/{program.name}", "   :language: python", ""]
    page = PAGES / f"{name}.rst"
    text = "\n".join(lines)
    if not page.exists() or page.read_text("utf-8") != text:
        page.write_text(text, "utf-8")


class Gallery(SphinxDirective):
    """A grid of cards, one for each program named, and the contents that the pages hang on."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the grid and a hidden table of contents."""
        names = [line.strip() for line in self.content if line.strip()]
        lines = [".. grid:: 1 2 3 3", "   :gutter: 3", ""]
        for name in names:
            program = EXAMPLES / f"{name}.py"
            if not program.exists():
                raise self.error(f"no program examples/{name}.py")
            figures = figures_of(program)
            lines += ["   .. grid-item-card::", f"      :link: gallery-{name}"]
            lines += ["      :link-type: ref", "      :class-card: gallery-card"]
            if figures:
                lines += [f"      :img-top: made/{name}/{figures[0].name}"]
                lines += [f"      :img-alt: {name}"]
            summary = first_sentence(docstring_of(program).partition("\n\n")[0])
            lines += ["", f"      {summary}", "", f"      ``{name}.py``", ""]
        lines += [".. toctree::", "   :hidden:", ""] + [f"   {name}.py <{name}>" for name in names]
        container = nodes.Element()
        container.document = self.state.document
        source = self.get_source_info()[0]
        self.state.nested_parse(StringList(lines, source), self.content_offset, container)
        return container.children


def setup(app) -> dict:
    """Register the directive and the run before the build."""
    app.add_config_value("gallery_arguments", {}, "env", types=frozenset({dict}))
    app.add_config_value("gallery_keep", False, "", types=frozenset({bool}))
    app.add_directive("gallery", Gallery)
    app.connect("builder-inited", produce)
    return {"parallel_read_safe": True}
