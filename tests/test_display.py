"""Reports in notebooks: well formed, escaped, and saying what print() says."""

import dataclasses
import html
import pickle
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import gausscontrol as gct
from gausscontrol.certificates.classification_report import classification_html
from gausscontrol.display import (
    LARGEST,
    Markup,
    Report,
    html_columns,
    html_matrix,
    html_table,
    latex_matrix,
    latex_text,
)

NAME = 'a<b> & "c" {d}_$^\\'
LAYER = gct.GaussianTransformer(
    [[0.5, 0.3], [-0.3, 0.5]], np.eye(2), -0.5 * np.eye(2), [1.0, 0.0], name=NAME
)
HEADS = gct.GaussianTransformer(
    np.eye(2), [np.eye(2), 1e-7 * np.eye(2)], [-np.eye(2), np.eye(2)], k=np.eye(2), dt=0.1
)
LARGE = gct.GaussianTransformer(np.eye(9), np.eye(9), -np.eye(9))
GOAL = (np.ones(2), np.diag([4.0, 1.0]))


def reports():
    equilibrium = gct.find_equilibrium(LAYER)
    design = gct.design(GOAL, A=0.5 * np.eye(2), B=np.eye(2), norm_bound=5)
    return {
        "equilibrium": equilibrium,
        "analysis": gct.analyze(LAYER, equilibrium),
        "global": gct.certify_global_stability(LAYER, equilibrium),
        "local": gct.certify_local_stability(LAYER, equilibrium),
        "region": gct.certify_region_of_attraction(LAYER, equilibrium),
        "robustness": gct.robustness_radius(LAYER, equilibrium),
        "bounded": gct.certify_boundedness(LAYER),
        "collapse": gct.certify_collapse(gct.GaussianTransformer(-1, 1, -1)),
        "blow-up": gct.certify_blow_up(gct.GaussianTransformer(0, 1, 1)),
        "classification": gct.classify(LAYER),
        "design": design,
        "plan": gct.steer((np.zeros(2), np.eye(2)), GOAL, 1),
        "response": gct.moment_response(LAYER, [0, 1], GOAL),
        "equation": gct.lyapunov(-np.eye(2), np.eye(2)),
    }


REPORTS = reports()
MODELS = {
    "layer": LAYER,
    "heads": HEADS,
    "large": LARGE,
    "stack": gct.LayerStack([LAYER] * 20, np.ones(20)),
}
SYSTEMS = {
    "system": gct.moment_system(LAYER, inputs=("b", "A")),
    "factor": gct.moment_system(HEADS, inputs=("V", "B", "k"), form="factor", outputs="Sigma"),
    "autonomous": gct.moment_system(LARGE, inputs=()),
}
ALL = REPORTS | MODELS


class Page(HTMLParser):
    """Checks that tags close in order, and gathers the text."""

    EMPTY = ("br",)

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags = [], [], set()
        self.feed(text)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def check_braces(text):
    """Braces balance and never close before they open; environments nest."""
    plain = re.sub(r"\\[{}\\]", "", text)
    depth = 0
    for character in plain:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert depth == 0
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert stack == []


@pytest.mark.parametrize("name", ALL | SYSTEMS)
def test_html_is_well_formed_and_carries_no_style_sheet(name):
    text = (ALL | SYSTEMS)[name]._repr_html_()
    assert len(text) < 12_000
    assert Page(text).tags <= {"div", "strong", "table", "tr", "th", "td", "br", "sub", "sup"}
    assert not re.search(r"color: *(#|rgb|black|white)|background:(?! none)", text)


# Its columns are those of a table, where `print` has lines.
IN_COLUMNS = ("classification",)


@pytest.mark.parametrize("name", [name for name in REPORTS if name not in IN_COLUMNS])
def test_html_says_what_print_says(name):
    printed = str(REPORTS[name])
    page = Page(REPORTS[name]._repr_html_())
    assert page.text.startswith(" ".join(printed.split()))


@pytest.mark.parametrize("name", ALL)
def test_latex_balances(name):
    check_braces(ALL[name]._repr_latex_())


@pytest.mark.parametrize("name", REPORTS)
def test_latex_has_every_line_of_the_report(name):
    text = REPORTS[name]._repr_latex_()
    for line in str(REPORTS[name]).splitlines():
        for words in re.split(r" {2,}", line.strip()):
            assert latex_text(words) in text


@pytest.mark.parametrize("name", REPORTS)
def test_a_list_of_results_is_readable(name):
    text = repr([REPORTS[name]])
    assert text.startswith("[<")
    assert text.endswith(">]")
    assert "\n" not in text
    assert len(text) < 260


def test_results_survive_pickling():
    copy = pickle.loads(pickle.dumps(REPORTS["equilibrium"]))
    assert repr(copy) == repr(REPORTS["equilibrium"])


def test_names_are_escaped():
    for thing in (LAYER, MODELS["stack"], REPORTS["analysis"], REPORTS["response"]):
        assert html.escape(NAME, quote=True) in thing._repr_html_()
        assert NAME in Page(thing._repr_html_()).text
    assert latex_text(NAME) in REPORTS["analysis"]._repr_latex_()
    assert latex_text(NAME) == (
        r"a\textless{}b\textgreater{} \& "
        r'"c" \{d\}\_\$\textasciicircum{}\textbackslash{}'
    )


def test_a_model_shows_its_system_and_its_matrices():
    page = Page(LAYER._repr_html_()).text
    assert "A [1/t] 0.5 0.3 -0.3 0.5 B [1/x^2] 1 0 0 1 V [1/t] -0.5 0 0 -0.5 b [x/t] 1 0" in page
    assert "M = A + V \N{GREEK CAPITAL LETTER SIGMA} B" in page
    formula = LAYER._repr_latex_()
    assert r"A \Sigma + \Sigma A^\top + V \Sigma B \Sigma + \Sigma B^\top \Sigma V^\top" in formula
    assert r"V = \begin{pmatrix} -0.5 & 0 \\ 0 & -0.5 \end{pmatrix}" in formula
    assert formula.startswith("$")
    assert formula.endswith("$")


def test_heads_are_summed_and_layers_are_steps():
    page, formula = Page(HEADS._repr_html_()).text, HEADS._repr_latex_()
    for part in ("B of head 1 [1/x^2] 1e-07 0 0 1e-07", "k of head 0 [1/x] 1 0", "D = I + dt M"):
        assert part in page
    for part in (
        r"B_1 = \begin{pmatrix} 1 \cdot 10^{-7} & 0",
        r"\sum_h V_h \Sigma B_h",
        r"\sum_h V_h \Sigma k_h",
        r"\Sigma^+ &= D \Sigma D^\top",
        r"\Delta t = 0.1",
    ):
        assert part in formula


def test_large_matrices_are_told_by_their_size():
    assert "9 \N{MULTIPLICATION SIGN} 9" in Page(LARGE._repr_html_()).text
    assert r"A \in \mathbb{R}^{9 \times 9}" in LARGE._repr_latex_()
    equilibrium = gct.find_equilibrium(LARGE)
    assert html_matrix(equilibrium.covariance) not in equilibrium._repr_html_()
    small = REPORTS["equilibrium"]
    assert LARGE.dim > LARGEST
    assert html_matrix(small.covariance) in small._repr_html_()


def test_a_long_stack_is_cut():
    page = Page(MODELS["stack"]._repr_html_()).text
    assert "layer 11" in page
    assert "layer 12" not in page
    assert "and 8 more" in page


def test_a_model_tells_its_norms_and_where_its_spectra_end():
    rng = np.random.default_rng(0)
    A, B, V = rng.standard_normal((3, 7, 7))
    page = Page(gct.GaussianTransformer(A, B, V)._repr_html_()).text
    sizes = [np.linalg.norm(X, 2) for X in (A, V, B)]
    norms = "|A| = {:.3g} [1/t], |V| = {:.3g} [1/t], |B| = {:.3g} [1/x^2]".format(*sizes)
    assert f"norms {norms}" in page
    ends = [np.linalg.eigvals(M).real.max() for M in (A, A + V)]
    assert "abscissae A: {:.4g} [1/t], A + V: {:.4g} [1/t]".format(*ends) in page
    layers = Page(HEADS._repr_html_()).text
    assert "norms of the largest head |A| = 1 [1/t], |V| = 1 [1/t], |B| = 1 [1/x^2]" in layers
    assert "spectral radii I + dt A: 1.1, I + dt (A + sum V): 1.1" in layers


def test_a_system_shows_its_signals_and_its_model():
    page = Page(SYSTEMS["system"]._repr_html_()).text
    assert page.startswith(f"MomentSystem {SYSTEMS['system'].name}: d = 2, continuous depth")
    for part in (
        "inputs (6) b[0], b[1]: offset of b [x/t] A[0], ..., A[3]: offset of A [1/t]",
        "states (5) mu[0], mu[1]: [x] Sigma[0], Sigma[1], Sigma[2]: [x^2]",
        "outputs (5) mu[0], mu[1]: [x] Sigma[0]",
        "form covariance",
        "M = A + V \N{GREEK CAPITAL LETTER SIGMA} B",
        "abscissae A: 0.5 [1/t]",
        "d = 2, 1 head, continuous depth, with b",
    ):
        assert part in page
    page = Page(SYSTEMS["factor"]._repr_html_()).text
    for part in (
        "layers of depth 0.1 [t]",
        "V[0], ..., V[7]: offset of V [1/t] B[0], ..., B[7]: offset of B [1/x^2]",
        "k[0], ..., k[3]: offset of k [1/x]",
        "states (6) mu[0], mu[1]: [x] L[0], ..., L[3]: [x]",
        "outputs (3) Sigma[0], Sigma[1], Sigma[2]: [x^2]",
        "L of 2 columns",
    ):
        assert part in page
    page = Page(SYSTEMS["autonomous"]._repr_html_()).text
    assert "inputs (0) none" in page
    assert "Sigma[0], ..., Sigma[44]: [x^2]" in page


def test_a_system_with_prefixes_shows_its_own_labels():
    system = gct.moment_system(LAYER, state_prefix="s_", input_prefix="in_", name="<s>")
    text = system._repr_html_()
    assert "&lt;s&gt;" in text
    assert "in_b[0], in_b[1]: offset of b [x/t]" in Page(text).text
    assert "s_mu[0], s_mu[1]: [x]" in Page(text).text


class Cells(HTMLParser):
    """Gathers the rows of all tables."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_a_classification_is_a_table_of_regimes_and_one_of_equilibria():
    found = gct.classify(gct.GaussianTransformer(-1, 1, 0.5, 0.3))
    assert found._repr_html_() == classification_html(found)
    rows = Cells(found._repr_html_()).rows
    assert rows[0] == ["regime", "certified", "scope", "margin", "statement, or why not"]
    for regime, certificate in found.certificates.items():
        margin = f"{certificate.margin:.3g}"
        assert [regime, "yes", certificate.scope, margin, certificate.statement] in rows
    assert found.refused
    for regime, error in found.refused.items():
        assert [regime, "no", "", "", str(error)] in rows
    equilibria = rows[-len(found.equilibria) :]
    for row, e in zip(equilibria, found.equilibria, strict=True):
        assert row[:3] == [
            str(e.rank),
            "stable" if e.covariance_is_stable else "not stable",
            f"{e.covariance_abscissa:.4g}",
        ]


def test_what_is_not_certified_is_a_row_too():
    estimate = gct.classify(gct.GaussianTransformer(np.diag([1.0, -1.0]), np.eye(2), -np.eye(2)))
    text = classification_html(estimate)
    assert Page(text).tags <= {"div", "strong", "table", "tr", "th", "td"}
    assert estimate.no_equilibrium is not None
    assert estimate.no_equilibrium in Page(text).text
    undecided = dataclasses.replace(
        estimate, regime="undecided", certificates={}, equilibria=[], no_equilibrium="<none>"
    )
    text = classification_html(undecided)
    assert ["undecided", "no", "", "", "no regime is certified"] in Cells(text).rows
    assert "&lt;none&gt;" in text
    many = dataclasses.replace(estimate, equilibria=estimate.equilibria[:1] * 11)
    assert "and 3 more equilibria" in Page(classification_html(many)).text


def test_lines_without_a_label_span_the_table():
    class Mixed(Report):
        def __str__(self):
            return "Head\n  label  value <1>\n  one cell\nwhole   line\n  a  b  c"

    page = Mixed()._repr_html_()
    assert '<td colspan="2"' in page
    assert Page(page).text == "Head label value <1> one cell whole line a b c"
    assert page.count("<th") == 1
    assert page.count("colspan") == 3
    assert repr(Mixed()) == "<Mixed: Head>"


def test_only_markup_is_left_as_it_is():
    columns = html_columns(("<n>",), [("<b>",), (Markup("<sub>1</sub>"),)])
    assert "&lt;n&gt;" in columns
    assert "&lt;b&gt;" in columns
    assert "<sub>1</sub>" in columns
    assert "<td>" not in html_table("", [("a", "<td>")])
    assert "<i>x</i>" in html_table("", [("a", Markup("<i>x</i>"))])
    assert html_matrix(np.array([-0.0])).count(">0<") == 1
    assert latex_matrix(np.array([1e-20, 2])) == (
        r"\begin{pmatrix} 1 \cdot 10^{-20} \\ 2 \end{pmatrix}"
    )
