"""Maps of regimes: cells, hatches, boundaries, what is read, bad input."""

import sys
import warnings

import control as ct
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import PathPatch

import gausscontrol as gct
from gausscontrol.certificates.classify import REGIMES
from gausscontrol.certificates.scalar import scalar_regime
from gausscontrol.plots.regime_map import REGIME_COLORS, regime_map
from gausscontrol.sweeps.sweep import sweep
from gausscontrol.sweeps.verdict import Verdict

AXIS = np.linspace(-2.0, 2.0, 6)  # no zero
GRID = {"a": AXIS, "vb": AXIS}


@pytest.fixture(autouse=True)
def _figures_in_memory(monkeypatch):
    # The module, which is called as the function in it is.
    monkeypatch.setattr(sys.modules[regime_map.__module__], "FINE", 21)
    backend = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


def layer(a, vb):
    return gct.GaussianTransformer(a, 1.0, vb)


def exact(a, vb):
    return scalar_regime(layer(a, vb)).regime


def certified_regime(a, vb):
    return gct.classify(layer(a, vb), sdp=False)


def planar(x, y):
    return gct.GaussianTransformer([[1.0, 1.2], [-1.2, -0.4]], np.eye(2), [[x, 1.0], [0.0, y]])


@pytest.fixture(name="classified", scope="module")
def _classified():
    return sweep(certified_regime, GRID)


def labels(plot):
    return [text.get_text() for text in plot.legend.get_texts()]


def cells(plot):
    """Names of the regimes as drawn, from the lowest row upwards."""
    mesh = plot.lines[0, 0][0]
    names = [*REGIMES, ""]
    return np.array(names, dtype=object)[mesh.get_array().astype(int)]


def hatched(plot):
    """Whether the centre of each cell is hatched."""
    (patch,) = [artist for artist in plot.lines[0, 0] if isinstance(artist, PathPatch)]
    x, y = (np.linspace(-2, 2, 6) for _ in range(2))
    points = [(u * 0.999, w * 0.999) for w in y for u in x]
    return patch.get_path().contains_points(points).reshape(6, 6)


def curves(plot):
    return [
        line
        for line in plot.lines[0, 0]
        if isinstance(line, mpl.lines.Line2D) and line.get_marker() == "None"
    ]


def vertices(line):
    points = line.get_xydata()
    return points[np.isfinite(points).all(axis=1)]


# -- agreement with what is exact -----------------------------------------------------------------


def test_certified_regimes_agree_with_the_exact_ones(classified):
    for point, value in zip(classified.points, classified.values, strict=True):
        found = scalar_regime(layer(**point))
        assert not found.on_boundary
        assert value.regime == found.regime


# -- the picture ----------------------------------------------------------------------------------


def test_map_of_classifications(classified):
    plot = regime_map(classified)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape == plot.lines.shape == (1, 1)
    assert labels(plot) == [
        "globally stable", "collapse", "blow-up", "certified", "exact boundary (d = 1)",
    ]  # fmt: skip
    expected = [[exact(a, vb) for a in AXIS] for vb in AXIS]
    assert cells(plot).tolist() == expected
    assert hatched(plot).all()
    axis = plot.axes[0, 0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("a", "vb")
    assert (axis.get_xlim(), axis.get_ylim()) == ((-2.0, 2.0), (-2.0, 2.0))
    assert plot.figure.get_suptitle() == "Regimes over a and vb"
    plot.figure.canvas.draw()


def test_the_exact_boundary_is_where_the_regime_changes(classified):
    across, upwards = curves(regime_map(classified))
    np.testing.assert_allclose(vertices(across)[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(np.sort(vertices(across)[:, 0])[[0, -1]], [-2, 2])
    # a = 0 separates where vb < 0 only, and the line ends on the other one.
    np.testing.assert_allclose(vertices(upwards)[:, 0], 0, atol=1e-12)
    np.testing.assert_allclose(np.sort(vertices(upwards)[:, 1])[[0, -1]], [-2, 0], atol=1e-12)


def test_names_of_regimes_and_a_function_that_makes_models():
    result = sweep(exact, GRID)
    assert curves(regime_map(result)) == []  # nothing says what the models are
    plot = regime_map(result, model=layer)
    assert len(curves(plot)) == 2
    assert "certified" in labels(plot)


def test_what_is_not_certified_is_not_hatched():
    def regime(a, vb):
        if a > 1.5:
            return {"regime": "locally stable", "certified": False}
        if vb > 1.5:
            return {"regime": "bounded"}
        return "undecided" if a < 0 else "singular limit"

    plot = regime_map(sweep(regime, GRID))
    expected = np.zeros((6, 6), dtype=bool)
    expected[5, :5] = True
    np.testing.assert_array_equal(hatched(plot), expected)
    assert labels(plot) == [
        "locally stable", "bounded", "singular limit", "undecided", "certified",
    ]  # fmt: skip


def test_failed_items_are_crossed():
    def regime(a, vb):
        if a > 1.5 and vb > 0:
            raise ValueError
        return "undecided"

    plot = regime_map(sweep(regime, GRID))
    assert labels(plot) == ["undecided", "failed"]
    assert (cells(plot) == "").sum() == 3
    (crosses,) = [line for line in plot.lines[0, 0][1:] if line.get_marker() == "x"]
    assert {tuple(point) for point in crosses.get_xydata()} == {
        (AXIS[5], vb) for vb in AXIS if vb > 0
    }


def test_colours_are_one_for_each_regime():
    assert list(REGIME_COLORS) == list(REGIMES)
    assert len(set(REGIME_COLORS.values())) == len(REGIMES)


def test_stored_verdicts_make_the_same_map(tmp_path, classified):
    first = sweep(certified_regime, GRID, resume=tmp_path / "file")
    again = sweep(certified_regime, GRID, resume=tmp_path / "file")
    assert again.resumed == 36
    assert all(isinstance(value, Verdict) for value in again.values)
    pictures = [regime_map(result) for result in (classified, first, again)]
    for plot in pictures[1:]:
        assert cells(plot).tolist() == cells(pictures[0]).tolist()
        assert labels(plot) == labels(pictures[0])
        assert len(curves(plot)) == 2


def test_parameters_may_be_turned(classified):
    plot = regime_map(classified, parameters=("vb", "a"))
    assert plot.axes[0, 0].get_xlabel() == "vb"
    assert cells(plot).tolist() == [[exact(a, vb) for vb in AXIS] for a in AXIS]


def test_other_parameters_have_one_value():
    def regime(scale, a, vb, shift):
        return exact(scale * a, vb + shift)

    grid = {"scale": [2.0], "a": AXIS, "shift": [0.0], "vb": AXIS}
    plot = regime_map(sweep(regime, grid), boundary=lambda scale, a, vb, shift: vb + shift)
    assert cells(plot).tolist() == [[exact(a, vb) for a in AXIS] for vb in AXIS]
    (line,) = curves(plot)
    np.testing.assert_allclose(vertices(line)[:, 1], 0, atol=1e-12)


def test_logarithmic_axes():
    axis = np.geomspace(0.01, 100, 5)
    plot = regime_map(sweep(exact, {"a": axis, "vb": axis}), model=layer)
    assert plot.axes[0, 0].get_xscale() == plot.axes[0, 0].get_yscale() == "log"
    edges = plot.lines[0, 0][0].get_coordinates()[0, :, 0]
    np.testing.assert_allclose(edges, 10.0 ** np.arange(-2.5, 3, 1))
    assert curves(plot) == []  # the same on all of it


@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-9])
def test_narrow_axes_with_even_steps_are_linear(width):
    axis = np.linspace(100, 100 + width, 5)
    plot = regime_map(sweep(exact, {"a": axis, "vb": np.geomspace(1, 1.01, 5)}))
    assert plot.axes[0, 0].get_xscale() == "linear"
    assert plot.axes[0, 0].get_yscale() == "log"


def test_given_axes_and_title(classified):
    figure, axis = plt.subplots()
    plot = regime_map(classified, ax=axis, title="mine")
    assert plot.axes[0, 0] is axis
    assert plot.figure is figure
    assert axis.get_title() == "mine"
    plot = regime_map(classified, ax=mpl.figure.Figure(), title="own")
    assert plot.figure.get_suptitle() == "own"


def test_settings_are_left_alone(classified):
    before = dict(mpl.rcParams)
    with plt.style.context("dark_background"):
        regime_map(classified).figure.canvas.draw()
    assert dict(mpl.rcParams) == before


# -- boundaries -----------------------------------------------------------------------------------


def test_spectral_boundary():
    grid = {"x": np.linspace(-2, 1, 4), "y": np.linspace(-2, 1, 4)}
    plot = regime_map(sweep(lambda x, y: "undecided", grid), model=planar)
    assert labels(plot)[-2:] == ["blow-up where $v_- > 0$", "bounded where $v_+ < 0$"]
    low, high = curves(plot)
    # V + V^T = [[2x, 1], [1, 2y]] is singular where 4 x y = 1, up to the spacing of the mesh.
    for line, sign in ((low, 1), (high, -1)):
        points = vertices(line)
        assert (np.sign(points) == sign).all()
        np.testing.assert_allclose(4 * points[:, 0] * points[:, 1], 1, rtol=0.1)


def test_spectral_boundary_is_the_exact_one_for_one_dimension(classified):
    exact_lines = curves(regime_map(classified))
    spectral = curves(regime_map(classified, boundary="spectral"))
    assert len(spectral) == 4
    for line in spectral[:2]:
        np.testing.assert_allclose(vertices(line)[:, 1], 0, atol=1e-12)
    for line in spectral[2:]:
        np.testing.assert_allclose(vertices(line), vertices(exact_lines[1]), atol=1e-12)


def test_spectral_boundary_in_other_coordinates():
    R = np.array([[2.0, 1.0], [0.0, 0.5]])
    grid = {"x": np.linspace(-2, 1, 4), "y": np.linspace(-2, 1, 4)}
    result = sweep(lambda x, y: "undecided", grid)
    plain = curves(regime_map(result, model=planar))
    turned = curves(regime_map(result, model=lambda x, y: planar(x, y).transform(R)))
    for line, other in zip(plain, turned, strict=True):
        np.testing.assert_allclose(vertices(line), vertices(other), atol=1e-9)


def test_a_boundary_of_ones_own():
    result = sweep(exact, GRID)

    def both(a, vb):
        return {"circle": a**2 + vb**2 - 1, "nowhere": 1.0, "line": a - vb}

    plot = regime_map(result, boundary=both)
    circle, line = curves(plot)
    np.testing.assert_allclose(np.hypot(*vertices(circle).T), 1, atol=0.02)
    np.testing.assert_allclose(*vertices(line).T, atol=1e-12)
    assert labels(plot)[-2:] == ["circle", "line"]
    assert circle.get_linestyle() != line.get_linestyle()
    single = regime_map(result, boundary=lambda a, vb: np.float64(a))
    assert labels(single)[-1] == "boundary"


def test_no_boundary(classified):
    assert curves(regime_map(classified, boundary=None)) == []
    discrete = sweep(lambda a, vb: "undecided", GRID)

    def layers(a, vb):
        return layer(a, vb).replace(dt=0.1)

    assert curves(regime_map(discrete, model=layers)) == []
    # Two keys that are no multiples of one another.
    keys = np.stack([np.eye(2), np.diag([1.0, 2.0])])
    mixed = regime_map(
        discrete, model=lambda a, vb: gct.GaussianTransformer(a * np.eye(2), keys, vb * keys)
    )
    assert curves(mixed) == []


def test_a_hole_in_the_models_leaves_a_gap():
    def fails(a, vb):
        if a > 1 and vb > 1:
            raise ValueError
        return certified_regime(a, vb)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot = regime_map(sweep(fails, GRID))
    assert len(curves(plot)) == 2


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([(1, 2)], "expected a sweep over a grid, found one over a list of points"),
        ({"a": AXIS, "vb": [1.0]}, "expected two parameters of several values, found a;"),
        ({"a": [1.0], "vb": [1.0]}, "found none; give the others one value each"),
        ({"a": [1.0, 0.5], "vb": AXIS}, r"increasing numbers for a, found \(1.0, 0.5\); sort"),
        ({"a": [1.0, 1.0], "vb": AXIS}, "increasing numbers for a"),
        ({"a": [1.0, np.inf], "vb": AXIS}, "increasing numbers for a"),
        ({"a": ["x", "y"], "vb": AXIS}, "increasing numbers for a, found .'x', 'y'.; sort them"),
        ({"a": [False, True], "vb": AXIS}, "increasing numbers for a"),
    ],
)
def test_sweeps_that_have_no_map(grid, message):
    result = sweep(lambda a, vb: "undecided", grid)
    with pytest.raises(gct.ParameterError, match=message):
        regime_map(result)


@pytest.mark.parametrize("value", ["stable", 1.0, None, {"regime": "stable"}, {}, np.ones(2)])
def test_values_that_are_no_regimes(value):
    result = sweep(lambda a, vb: value, {"a": [0, 1], "vb": [0, 1]})
    with pytest.raises(gct.ParameterError, match="sweep_result: expected regimes, found"):
        regime_map(result)


def test_bad_options(classified):
    with pytest.raises(gct.ParameterError, match="expected a SweepResult, found dict"):
        regime_map({})
    for parameters in (("a", "b"), ("a", "a"), "a", ("a", "vb", "c"), (1, "a")):
        with pytest.raises(gct.ParameterError, match="parameters: expected 'a' and 'vb'"):
            regime_map(classified, parameters=parameters)
    with pytest.raises(gct.ParameterError, match="boundary: expected 'auto', 'scalar', 'spectral'"):
        regime_map(classified, boundary="exact")
    with pytest.raises(gct.ParameterError, match="model: expected a function of the parameters"):
        regime_map(classified, model=layer(1, 1))
    with pytest.raises(gct.ParameterError, match="returns a GaussianTransformer, found float"):
        regime_map(classified, model=lambda a, vb: a)
    names = sweep(exact, GRID)
    for kind in ("scalar", "spectral"):
        with pytest.raises(gct.ParameterError, match=f"expected models for '{kind}', found none"):
            regime_map(names, boundary=kind)
    grid = {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    flat = sweep(lambda x, y: "undecided", grid)
    with pytest.raises(gct.ParameterError, match="expected models with d = 1 and continuous"):
        regime_map(flat, boundary="scalar", model=planar)

    def antisymmetric(x, y):
        return planar(x, y).replace(B=[[0.0, 1.0], [-1.0, 0.0]])

    with pytest.raises(gct.ParameterError, match="expected models with heads that share B"):
        regime_map(flat, boundary="spectral", model=antisymmetric)


@pytest.mark.parametrize(
    "boundary",
    [lambda a, vb: "x", lambda a, vb: {"x": a} if a < 0 else {"y": a}, lambda a, vb: None],
)
def test_boundaries_that_are_no_numbers(boundary):
    result = sweep(exact, GRID)
    with pytest.raises(gct.ParameterError, match="boundary: expected a function that returns"):
        regime_map(result, boundary=boundary)
