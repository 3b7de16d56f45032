"""The pages are complete: what they promise is there, what they show runs, what they link exists.

Addresses outside are checked for their form only, since there is no network to ask. That every
reference inside resolves is checked by the build (``sphinx-build -W``, nitpicky); here the same is
done for pages, labels and programs without building.
"""

import ast
import inspect
import re
import sys
from operator import attrgetter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from test_docs import CALLABLES, SECTION

import gausscontrol as gct
from gausscontrol.cli.options import parser

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EXAMPLES = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
FIGURES = DOCS / "gallery" / "figures"
# Made when the pages are built.
MADE = {"_build", "generated", "made"}
PAGES = {
    page.relative_to(DOCS): page.read_text("utf-8")
    for page in sorted(DOCS.rglob("*.rst"))
    if not MADE & set(page.parts)
    and "_templates" not in page.parts
    and (page.parent.name != "gallery" or page.stem == "index")
}
BLOCK = re.compile(
    r"^(?P<indent> *)\.\. (?P<kind>code-block|plot):: ?(?P<argument>.*)\n"
    r"(?P<body>(?:(?P=indent) +.*\n|\n)+)",
    re.MULTILINE,
)
NAMES = [str(page) for page in PAGES]

sys.path.insert(0, str(DOCS / "_extensions"))
import pages_from_text  # noqa: E402
import theory_links  # noqa: E402


def blocks(text, kind, argument=None):
    """Yield options and text of the directives of one kind."""
    for match in BLOCK.finditer(text):
        if match["kind"] == kind and argument in (None, match["argument"]):
            yield match["argument"], inspect.cleandoc("\n" + match["body"])


# -- docstrings -----------------------------------------------------------------------------------

FUNCTIONS = {
    name: thing
    for name, thing in CALLABLES.items()
    if inspect.isfunction(thing) and thing.__qualname__ == thing.__name__  # no methods
}


def sections(thing):
    """Return the titles of the sections of a docstring."""
    return SECTION.split(inspect.cleandoc(thing.__doc__ or ""))[1::2]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_returns_and_shows_it(name):
    needed = {"Examples"}
    if inspect.signature(FUNCTIONS[name]).return_annotation not in (None, "None"):
        needed.add("Returns")
    missing = needed - set(sections(FUNCTIONS[name]))
    assert not missing, f"{name}: no section {sorted(missing)}"


@pytest.mark.parametrize("name", CALLABLES)
def test_public_properties_are_described(name):
    if not inspect.isclass(CALLABLES[name]):
        return
    silent = [
        member
        for base in inspect.getmro(CALLABLES[name])
        if base.__module__.startswith("gausscontrol")
        for member, value in vars(base).items()
        if isinstance(value, property) and not member.startswith("_") and not value.__doc__
    ]
    assert silent == []


# -- pages ----------------------------------------------------------------------------------------


def code_blocks():
    """Yield every block of Python on a page with the page's name."""
    for page, text in PAGES.items():
        for _, body in blocks(text, "code-block", "python"):
            yield page, body


def test_python_blocks_run_or_say_why_not(tmp_path, monkeypatch):
    seen = 0
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for page, body in code_blocks():
        marked = re.match(r":class: not-run (needs-[\w-]+)\n", body)
        if not marked:
            exec(compile(ast.parse(body), str(page), "exec"), {})
            seen += 1
    assert seen


@pytest.mark.parametrize("page", NAMES)
def test_other_python_is_doctested(page):
    # ">>>" outside a comment is collected by pytest --doctest-glob; nothing turns it off.
    assert not re.search(r"doctest: *\+SKIP", PAGES[Path(page)])


def test_pictures_are_described():
    bare = [
        str(page)
        for page, text in PAGES.items()
        for _, body in blocks(text, "plot")
        if ":nofigs:" not in body and ":alt:" not in body
    ]
    assert bare == []


def test_pictures_are_drawn_and_not_stored():
    # Times cannot be measured anew by every build: python -m benchmarks writes that picture.
    stored = [
        path.relative_to(DOCS)
        for kind in ("png", "svg", "jpg", "jpeg", "gif", "pdf")
        for path in DOCS.rglob(f"*.{kind}")
        if not MADE & set(path.parts) and not path.name.startswith("benchmarks")
    ]
    assert stored == []


def console_lines():
    """Yield the commands on pages, with continuation lines joined."""
    for page, text in PAGES.items():
        for _, body in blocks(text, "code-block", "console"):
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                yield str(page), " ".join(command.split())


COMMANDS = sorted(set(console_lines()))


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_commands_exist(page, command):
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]
    words[0] = words[0].removeprefix(".venv/bin/")
    if words[0] == "gausscontrol":
        if not re.search(r"[\[{]|\.\.\.", command):
            options = parser().parse_args(words[1:])
            assert options.command == words[1]
            return
        texts = {name: sub.format_help() for name, sub in subparsers().items()}
        unknown = [o for o in re.findall(r"--[\w-]+", command) if o not in texts[words[1]]]
        assert unknown == []
    elif words[0] in ("python", "pytest"):
        files = [word for word in words if word.endswith(".py")]
        assert files
        assert [file for file in files if not (ROOT / file).exists()] == []
    else:
        assert words[0] in ("python3", "pip")


def subparsers():
    """Return the parser of each command."""
    [action] = (
        a for a in parser()._actions if getattr(a, "choices", None) and not a.option_strings
    )
    return action.choices


# -- links ----------------------------------------------------------------------------------------

LABELS = {
    label
    for text in PAGES.values()
    for label in re.findall(r"^\.\. _([\w-]+):$", text, re.MULTILINE)
}
ROLE = re.compile(r":(doc|ref|download|func|class|meth|exc):`(?:[^`<]*<([^`>]+)>|~?([^`<>]+))`")


@pytest.mark.parametrize("page", NAMES)
def test_links_inside_resolve(page):
    folder = (DOCS / page).parent
    for role, shown, bare in ROLE.findall(PAGES[Path(page)]):
        target = (shown or bare).lstrip("~")
        if role == "doc":
            assert (folder / f"{target}.rst").exists(), f"{page}: no page {target}"
        elif role == "download":
            assert (folder / target).exists(), f"{page}: no file {target}"
        elif role == "ref":
            program = target.removeprefix("gallery-")
            known = target in LABELS or (target != program and program in EXAMPLES)
            assert known, f"{page}: no label {target}"
        else:
            attrgetter(target.removeprefix("gausscontrol."))(gct)


SHOWN = re.compile(r"^ *\.\. (?:plot|image|literalinclude|figure|include):: +(\S+\.\w+)$", re.M)
NAMED = re.compile(r"(?:``|`|\s)((?:examples|tests|benchmarks|docs)/[\w./-]*\w)")


@pytest.mark.parametrize("page", NAMES)
def test_files_shown_exist(page):
    missing = [
        file
        for file in SHOWN.findall(PAGES[Path(page)])
        if not any((folder / file).exists() for folder in ((DOCS / page).parent, DOCS))
    ]
    assert missing == []


def test_files_named_exist():
    texts = {page: PAGES[page] for page in PAGES}
    texts |= {path.relative_to(ROOT): path.read_text("utf-8") for path in ROOT.glob("*.md")}
    named = {
        (file, str(page))
        for page, text in texts.items()
        for file in NAMED.findall(text)
        if not file.startswith("docs/_build")
    }
    assert len(named) > 10
    assert [pair for pair in named if not (ROOT / pair[0]).exists()] == []


@pytest.mark.parametrize("page", [name for name in NAMES if name.startswith(("guide", "howto"))])
def test_programs_are_linked(page):
    assert re.findall(r"``examples/\w+\.py``", PAGES[Path(page)]) == []


def addresses():
    """Yield every address of the web in pages, docstrings and the README, with where it stands."""
    sources = [*(DOCS / page for page in PAGES), ROOT / "README.md", ROOT / "CITATION.cff"]
    sources += [*Path(gct.__file__).parent.rglob("*.py"), *EXAMPLES.values()]
    for source in sources:
        for address in re.findall(r"\bhttps?://[^\s<>\"'`)\]]+", source.read_text("utf-8")):
            yield source.name, address.rstrip(".,;")


def test_links_outside_are_well_formed():
    found = list(addresses())
    assert found
    for source, address in found:
        parts = urlsplit(address)
        assert parts.scheme == "https", f"{source}: {address}"
        assert re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc), f"{source}: {address}"
        assert parts.path.isascii(), f"{source}: {address}"
        assert "//" not in parts.path, f"{source}: {address}"


# -- gallery --------------------------------------------------------------------------------------


def listed_programs():
    """Return the programs that the gallery names, in its order."""
    index = PAGES[Path("gallery/index.rst")]
    return re.findall(r"^   ([a-z_0-9]+)$", index, re.MULTILINE)


def test_the_gallery_shows_every_program_once():
    assert len(listed_programs()) == len(set(listed_programs()))
    assert set(listed_programs()) == set(EXAMPLES)


def test_the_gallery_has_at_least_twelve_figures():
    drawing = {name for name, path in EXAMPLES.items() if '"--plots"' in path.read_text("utf-8")}
    drawn_here = {path.stem for path in FIGURES.glob("*.py")}
    assert drawn_here <= set(EXAMPLES)
    assert drawn_here & drawing == set(), "a program that draws needs no second hand"
    assert len(drawing | drawn_here) >= 12


@pytest.mark.parametrize("name", sorted(path.stem for path in FIGURES.glob("*.py")))
def test_a_figure_uses_its_program(name):
    source = (FIGURES / f"{name}.py").read_text("utf-8")
    used = set(re.findall(r"\bexample\.(\w+)", source))
    defined = {
        target
        for node in ast.parse(EXAMPLES[name].read_text("utf-8")).body
        for target in defined_names(node)
    }
    assert used
    assert used - defined == set()


def defined_names(node):
    """Yield the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


# -- theory ---------------------------------------------------------------------------------------


def test_statements_lead_back_to_what_rests_on_them():
    source = [PAGES[Path("theory/stability.rst")]]
    theory_links.add_users(None, "theory/stability", source)
    below = source[0].split(".. _theory-4-1:")[1].split(".. _theory-4-2:")[0]
    assert "Used by" in below
    assert ":func:`~gausscontrol.certify_global_stability`" in below
    untouched = [PAGES[Path("index.rst")]]
    theory_links.add_users(None, "index", untouched)
    assert untouched == [PAGES[Path("index.rst")]]


def headings():
    """Yield page, label and heading of every numbered statement, in the order of the pages."""
    order = re.findall(r"^   ([a-z]+)$", PAGES[Path("theory/index.rst")], re.MULTILINE)
    for page in order:
        text = PAGES[Path(f"theory/{page}.rst")]
        for match in theory_links.LABEL.finditer(text):
            yield page, match["label"], match["heading"].split("\n")[0]


def test_headings_repeat_the_numbers_of_their_labels():
    found = list(headings())
    assert len(found) == len(theory_links.LABELS)  # no number twice, no page left out
    for page, label, heading in found:
        number = label.replace("-", ".")
        assert re.match(rf"{re.escape(number)}[. ]", heading), f"{page}: {label}"


def test_numbers_ascend_through_the_pages():
    def place(label):
        # 6 comes before its parts 6a, 6b, and these before 6.1; 7.1 before 7.1a.
        pieces = re.fullmatch(r"(\d+)([a-z]?)(?:-(\d+)([a-z]?))?", label).groups()
        return int(pieces[0]), int(pieces[2] or 0), pieces[1], pieces[3] or ""

    labels = [label for _, label, _ in headings()]
    assert labels == sorted(labels, key=place)
    assert [label for label in labels if label.isdigit()] == [str(k) for k in range(1, 10)]


def test_every_statement_stands_under_its_own_number():
    for page in {page for page, _, _ in headings()}:
        text = PAGES[Path(f"theory/{page}.rst")]
        unnumbered = re.sub(theory_links.LABEL, "", text)
        assert re.findall(r"^.+\n([=-])\1{3,}$", unnumbered, re.MULTILINE) == [], page
        for stated in re.finditer(r"^\*\*(Theorem|Proposition|Lemma)", text, re.MULTILINE):
            above = [m["label"] for m in theory_links.LABEL.finditer(text[: stated.start()])]
            assert not above[-1].isdigit(), f"{page}: a statement of chapter {above[-1]} itself"


def test_every_statement_has_a_function_that_rests_on_it():
    unused = {label for label in theory_links.LABELS if not label.isdigit()}
    assert unused - set(theory_links.used_by()) == set()


def test_every_number_that_is_cited_is_a_heading():
    folders = (Path(gct.__file__).parent, *(ROOT / name for name in ("tests", "examples", "docs")))
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    sources += [*(DOCS / page for page in PAGES), *ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.py")]
    sources.remove(Path(__file__).resolve())  # where numbers are made up
    cited = {
        label: source
        for source in sources
        for label in theory_links.cited(re.sub(r"\s+#?\s*", " ", source.read_text("utf-8")))
    }
    assert len(cited) > 30
    unknown = {label: str(cited[label]) for label in set(cited) - theory_links.LABELS}
    assert unknown == {}


def test_every_name_that_cites_a_statement_is_named_there():
    for name, thing in theory_links.public_things().items():
        for label in theory_links.cited(" ".join(theory_links.texts_of(thing).split())):
            assert theory_links.role_of(name, thing) in theory_links.used_by()[label]


def test_a_citation_stands_on_one_line():
    # Docstrings are linked line by line.
    for name, thing in theory_links.public_things().items():
        text = theory_links.texts_of(thing)
        whole = list(theory_links.cited(" ".join(text.split())))
        by_line = [label for line in text.split("\n") for label in theory_links.cited(line)]
        assert by_line == whole, name


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Theory 4.1 to 4.3, 7.1c", {"4-1", "4-2", "4-3", "7-1c"}),
        ("Theory 6a to 6d, 3 and 2.4; 4.1", {"6a", "6b", "6c", "6d", "3", "2-4"}),
        ("(Theory 7.1a to 7.1c)", {"7-1a", "7-1b", "7-1c"}),
        ("Theory 3 to 5. Then 9.9", {"3", "4", "5"}),
        ("Theory 4.10.", {"4-10"}),
    ],
)
def test_citations_are_read_whole(text, labels):
    assert set(theory_links.cited(text)) == labels


def test_citations_become_links():
    linked = pages_from_text.link_citations("Theory 4.1, 9.9; (4.7) and 4.2", {"4-1", "4-7", "4-2"})
    assert linked == ("Theory :ref:`4.1 <theory-4-1>`, 9.9; (:ref:`4.7 <theory-4-7>`) and 4.2")


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("One\ntwo.", "One\ntwo.\n"),
        ("|x| * `code`", "\\|x\\| \\* ``code``\n"),
        (
            "As follows\n\n    a = b\n\nso.",
            "As follows\n\n.. code-block:: none\n\n   a = b\n\nso.\n",
        ),
        (
            "name     meaning\nother    too",
            ".. code-block:: none\n\n   name     meaning\n   other    too\n",
        ),
    ],
)
def test_docstrings_become_pages(text, page):
    assert re.sub(r"\n{2,}", "\n\n", pages_from_text.to_rst(text)).lstrip("\n") == page


def test_what_can_be_proved_is_said():
    table = PAGES[Path("trust.rst")].split("Which results are what")[1].split("The policy")[0]
    rows = re.split(r"^   \* - ", table, flags=re.MULTILINE)
    makers = {
        "GlobalStability": "certify_global_stability",
        "LocalStability": "certify_local_stability",
        "SemiglobalStability": "certify_semiglobal_stability",
        "RegionOfAttraction": "certify_region_of_attraction",
        "Robustness": "robustness_radius",
        "Boundedness": "certify_boundedness",
        "Collapse": "certify_collapse",
        "BlowUp": "certify_blow_up",
    }
    kinds = {
        name
        for name, thing in CALLABLES.items()
        if inspect.isclass(thing) and issubclass(thing, gct.Certificate)
    }
    assert set(makers) | {"Certificate"} == kinds
    for name, maker in makers.items():
        [row] = (row for row in rows if f"gausscontrol.{maker}`" in row)
        provable = getattr(gct, name)._prove is not gct.Certificate._prove
        assert ("proved on request" in row) is provable, maker


def test_docstrings_are_read_as_plain_text():
    lines = ["|x| and a_- of Theory 4.1::", "", "    |x|", "", ">>> a_ = 1"]
    theory_links.prepare_docstring(None, "function", "gausscontrol.none", None, None, lines)
    assert lines == [
        r"\|x\| and a\_- of Theory :ref:`4.1 <theory-4-1>`::",
        "",
        "    |x|",
        "",
        ">>> a_ = 1",
    ]
