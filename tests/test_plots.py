"""Pictures: what is drawn where, what the axes say, and what is refused."""

import itertools
import warnings

import control as ct
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from problems import (
    attention_blow_up,
    cubic_factor,
    mimetic_clean,
    planted_problem,
    random_covariance,
    scalar_riccati,
)

import gausscontrol as gct
from gausscontrol.plots import (
    ellipse_plot,
    moment_plot,
    phase_plot,
    save_picture,
    spectrum_plot,
)
from gausscontrol.plots.ellipses import ELLIPSES, OUTGROWN
from gausscontrol.plots.figures import OKABE_ITO


@pytest.fixture(autouse=True)
def _figures_in_memory():
    backend = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


ROTATING = gct.GaussianTransformer(
    [[0.5, 3.0], [-3.0, 0.5]], np.eye(2), -0.5 * np.eye(2), [1.0, 0.0], name="rotating"
)


def respond(model, depth, start, count=41):
    return gct.moment_response(model, np.linspace(0, depth, count), start)


@pytest.fixture(scope="module")
def rotating():
    return respond(ROTATING, 6, ([2.0, 1.0], [[0.1, 0.0], [0.0, 3.0]]))


@pytest.fixture(scope="module")
def segment():
    return respond(ROTATING, 6, ([2.0, 1.0], np.ones((2, 2))))


@pytest.fixture(scope="module")
def escaping():
    model = attention_blow_up().model
    with pytest.warns(gct.BlowUpWarning):
        return respond(model, 1, ([1.0, 0.0], np.eye(2) / 2), 201)


@pytest.fixture(scope="module")
def scalar():
    return respond(gct.GaussianTransformer(0.5, 1, -0.25, 1), 9, ([3.0], [[0.1]]))


@pytest.fixture(scope="module")
def large():
    problem = mimetic_clean(40)
    return respond(problem.model, 4, (np.arange(40.0), np.eye(40)), 9), problem.model


def labels(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def is_inside(legend, axis):
    axis.figure.draw_without_rendering()
    return axis.get_window_extent().overlaps(legend.get_window_extent())


# -- moments --------------------------------------------------------------------------------------


def test_moment_plot_draws_every_mean_and_eigenvalue(rotating):
    plot = moment_plot(rotating)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape == plot.lines.shape == plot.legend.shape == (2, 1)
    assert plot.figure is plt.gcf()
    means, eigenvalues = plot.lines[:, 0]
    np.testing.assert_array_equal([line.get_ydata() for line in means], rotating.mean)
    expected = np.linalg.eigvalsh(np.moveaxis(rotating.covariance, -1, 0))[:, ::-1].T
    np.testing.assert_allclose([line.get_ydata() for line in eigenvalues], expected, rtol=1e-6)
    upper, lower = plot.axes[:, 0]
    assert upper.get_ylabel() == "mean [x]"
    assert lower.get_ylabel() == r"eigenvalues of $\Sigma$ [x]$^2$"
    assert lower.get_xlabel() == "depth t"
    assert labels(upper) == [r"$\mu$[0]", r"$\mu$[1]"]
    assert len({line.get_color() for line in means}) == 2


def test_moment_plot_marks_the_equilibrium(rotating):
    equilibrium = gct.find_equilibrium(ROTATING)
    upper, lower = moment_plot(rotating, equilibrium=equilibrium).axes[:, 0]
    for axis, values in ((upper, equilibrium.mean), (lower, [1, 1])):
        curves, marks = axis.lines[:2], axis.lines[2:4]
        np.testing.assert_allclose(
            np.concatenate([mark.get_ydata() for mark in marks]), values, rtol=1e-8
        )
        for curve, mark in zip(curves, marks, strict=True):
            assert mark.get_markeredgecolor() == curve.get_color()
    assert labels(upper)[-1] == "equilibrium"


def test_moment_plot_says_that_an_equilibrium_is_not_stable():
    model = cubic_factor().model
    response = respond(model, 1, ([0.0], [[0.5]]))
    plot = moment_plot(response, equilibrium=gct.find_equilibrium(model))
    assert "equilibrium\n(not stable)" in labels(plot.axes[0, 0])


def test_moment_plot_draws_only_what_the_rank_allows(segment):
    plot = moment_plot(segment)
    assert len(plot.lines[1, 0]) == 1
    assert labels(plot.axes[1, 0]) == [r"$\lambda$", "rank 1 of 2"]


def test_moment_plot_marks_an_escape_on_a_logarithmic_axis(escaping):
    plot = moment_plot(escaping)
    lower = plot.axes[1, 0]
    assert lower.get_yscale() == "log"
    escape = [line for line in lower.lines if line.get_label().startswith("escape")]
    assert len(escape) == 1
    assert escape[0].get_xdata()[0] == escaping.blow_up_time
    assert escape[0].get_label() == "escape at 0.70234"


def test_moment_plot_of_one_dimension(scalar):
    plot = moment_plot(scalar)
    assert [len(lines) for lines in plot.lines[:, 0]] == [1, 1]
    assert labels(plot.axes[0, 0]) == [r"$\mu$"]


@pytest.mark.parametrize("dim", [3, 8, 16])
def test_moment_plot_tells_components_apart(dim):
    model = mimetic_clean(dim).model
    response = respond(model, 4, (np.ones(dim), np.eye(dim)), 9)
    plot = moment_plot(response)
    for axis, lines, symbol in zip(
        plot.axes[:, 0], plot.lines[:, 0], (r"$\mu$", r"$\lambda$"), strict=True
    ):
        assert len({mpl.colors.to_hex(line.get_color()) for line in lines}) == dim
        assert labels(axis) == [f"{symbol}[{i}]" for i in range(dim)]
        for one, other in itertools.pairwise(lines):
            assert one.get_linestyle() != other.get_linestyle()
        assert not is_inside(axis.get_legend(), axis)
        box = axis.get_legend().get_window_extent()
        assert plot.figure.bbox.x1 >= box.x1
        assert box.y0 >= axis.get_window_extent().y0 - 5


def test_in_given_axes_the_legend_of_many_lines_is_short():
    model = mimetic_clean(8).model
    axes = plt.subplots(2, 1)[1]
    plot = moment_plot(respond(model, 4, (np.ones(8), np.eye(8)), 9), ax=axes)
    assert labels(plot.axes[0, 0]) == [r"$\mu$[0]", r"$\mu$[7]"]


def test_moment_plot_of_many_coordinates_is_a_band(large):
    response, model = large
    plot = moment_plot(response, equilibrium=gct.find_equilibrium(model))
    upper = plot.axes[0, 0]
    assert len(plot.lines[0, 0]) == 1
    assert labels(upper) == ["range of 40", "middle half", "median", "equilibrium"]
    np.testing.assert_allclose(
        plot.lines[0, 0][0].get_ydata(), np.median(response.mean, axis=0), rtol=1e-12
    )
    assert len(upper.collections) == 2


def test_moment_plot_of_no_spread_at_all():
    response = respond(ROTATING, 1, ([1.0, 0.0], np.zeros((2, 2))))
    assert r"$\Sigma = 0$" in labels(moment_plot(response).axes[1, 0])
    x, y = ellipse_plot(response).lines[0, 0][0].get_data()
    np.testing.assert_allclose([x[0], y[0]], [1, 0], atol=1e-12)
    assert np.ptp(x) == np.ptp(y) == 0


def test_collapse_leaves_no_noise_below_the_axis():
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2))
    axis = moment_plot(respond(model, 40, (np.zeros(2), np.diag([1.0, 2.0])))).axes[1, 0]
    bottom, top = axis.get_ylim()
    assert axis.get_yscale() == "log"
    assert bottom > 0
    assert top / bottom < 1e16


# -- ellipses -------------------------------------------------------------------------------------


def test_ellipses_are_level_sets_of_the_gaussian(rotating):
    plot = ellipse_plot(rotating, confidence=0.9)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape == plot.lines.shape == (1, 1)
    first = np.stack(plot.lines[0, 0][0].get_data())
    offset = first - rotating.mean[:, :1]
    level = np.sum(offset * np.linalg.solve(rotating.covariance[:, :, 0], offset), axis=0)
    np.testing.assert_allclose(level, -2 * np.log(0.1), rtol=1e-9)


def test_ellipses_tell_start_end_and_depth(rotating):
    equilibrium = gct.find_equilibrium(ROTATING)
    plot = ellipse_plot(rotating, equilibrium=equilibrium)
    axis = plot.axes[0, 0]
    assert axis.get_xlabel() == "coordinate x[0] [x]"
    assert axis.get_ylabel() == "coordinate x[1] [x]"
    assert labels(axis) == [
        "95% ellipse, start",
        "95% ellipse, last (t = 6)",
        "mean",
        "equilibrium",
    ]
    bar = [other for other in plot.figure.axes if other is not axis]
    assert [other.get_ylabel() for other in bar] == ["depth t"]
    ellipses = [line for line in plot.lines[0, 0] if line.get_linestyle() == "-"][:-1]
    assert 3 <= len(ellipses) <= ELLIPSES + 1
    assert max(line.get_linewidth() for line in ellipses) == ellipses[-1].get_linewidth()
    assert ellipses[0].get_color() != ellipses[-1].get_color()


def test_ellipses_follow_the_change_and_not_the_clock():
    # A circle grows to rest within the first quarter of the depth: equal steps of its radius.
    response = respond(ROTATING.replace(b=None), 40, (np.zeros(2), 0.01 * np.eye(2)), 801)
    circles = ellipse_plot(response).lines[0, 0][:-1]
    widths = np.array([np.ptp(line.get_xdata()) for line in circles])
    np.testing.assert_allclose(np.diff(widths)[:-1], np.ptp(widths) / 11, rtol=0.2)


def test_ellipses_of_rank_one_are_segments(segment):
    for line in ellipse_plot(segment).lines[0, 0][:-1]:
        x, y = line.get_data()
        assert np.linalg.matrix_rank(np.stack([x - x.mean(), y - y.mean()]), tol=1e-6) == 1


def test_ellipses_before_an_escape_stay_readable(escaping):
    plot = ellipse_plot(escaping)
    widths = [np.ptp(line.get_ydata()) for line in plot.lines[0, 0][:-1]]
    assert widths[-1] <= 2 * OUTGROWN * widths[0]
    assert "escape at t = 0.70234" in labels(plot.axes[0, 0])
    assert any("last drawn" in label for label in labels(plot.axes[0, 0]))


def test_ellipses_in_principal_directions(large):
    response, model = large
    plot = ellipse_plot(response)
    assert plot.axes[0, 0].get_xlabel() == "principal direction 1 of the last covariance [x]"
    assert plot.axes[0, 0].get_ylabel() == "principal direction 2 [x]"
    last = np.stack(plot.lines[0, 0][-2].get_data())
    largest = np.linalg.eigvalsh(response.covariance[:, :, -1])[-1]
    reach = np.linalg.norm(last - last.mean(axis=1, keepdims=True), axis=0).max()
    np.testing.assert_allclose(reach, np.sqrt(-2 * np.log(0.05) * largest), rtol=1e-2)
    named = ellipse_plot(response, equilibrium=gct.find_equilibrium(model))
    assert "the equilibrium" in named.axes[0, 0].get_xlabel()


def test_ellipses_in_chosen_coordinates(large):
    plot = ellipse_plot(large[0], coordinates=(7, 3))
    assert plot.axes[0, 0].get_xlabel() == "coordinate x[7] [x]"
    assert plot.axes[0, 0].get_ylabel() == "coordinate x[3] [x]"
    x, y = plot.lines[0, 0][0].get_data()
    np.testing.assert_allclose([x[:-1].mean(), y[:-1].mean()], [7, 3], rtol=1e-9)


def test_one_dimension_gives_an_interval_against_depth(scalar):
    model = gct.GaussianTransformer(0.5, 1, -0.25, 1)
    plot = ellipse_plot(scalar, equilibrium=gct.find_equilibrium(model))
    axis = plot.axes[0, 0]
    assert axis.get_xlabel() == "depth t"
    assert axis.get_ylabel() == "token x [x]"
    assert labels(axis) == ["95% interval", "mean", "equilibrium"]
    np.testing.assert_array_equal(plot.lines[0, 0][0].get_ydata(), scalar.mean[0])
    edges = axis.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(
        edges.max(), (scalar.mean[0] + 1.959963984540054 * np.sqrt(scalar.covariance[0, 0])).max()
    )


def test_one_dimension_marks_an_escape():
    with pytest.warns(gct.BlowUpWarning):
        response = respond(cubic_factor().model, 2, ([0.0], [[1.1]]))
    assert "escape at 1.1989" in labels(ellipse_plot(response).axes[0, 0])


# -- poles ----------------------------------------------------------------------------------------


def test_spectrum_plot_tells_mean_from_covariance():
    analysis = gct.analyze(ROTATING)
    plot = spectrum_plot(analysis)
    assert isinstance(plot, ct.ControlPlot)
    covariance, mean = plot.lines[0, 0]
    drawn = [
        sorted(line.get_xdata() + 1j * line.get_ydata(), key=np.imag) for line in (covariance, mean)
    ]
    np.testing.assert_allclose(drawn[0], [-1 - 6j, -1, -1 + 6j], atol=1e-8)
    np.testing.assert_allclose(drawn[1], [-0.5 - 3j, -0.5 + 3j], atol=1e-8)
    assert covariance.get_marker() != mean.get_marker()
    assert covariance.get_color() != mean.get_color()
    axis = plot.axes[0, 0]
    assert axis.get_xlabel() == "real part [1/t], per unit depth"
    assert axis.get_ylabel() == "imaginary part [1/t]"
    assert labels(axis) == [
        "covariance poles",
        "mean poles",
        "abscissa -0.5",
        r"covariance, by the form: $\leq$ -1",
    ]
    left, right = axis.get_xlim()
    assert left < -1
    assert right > 0


def test_spectrum_plot_shades_the_certified_half_plane():
    model, covariance = planted_problem(np.random.default_rng(2), 3, 1, kappa=1.0)
    analysis = gct.analyze(model, gct.find_equilibrium(model, covariance))
    certificate = gct.certify_global_stability(model, covariance)
    plot = spectrum_plot(analysis, certificate=certificate)
    axis = plot.axes[0, 0]
    assert labels(axis)[-1] == rf"covariance, certified: $\leq$ {-certificate.rate:.4g}"
    [shade] = axis.patches
    assert shade.get_x() + shade.get_width() == pytest.approx(-certificate.rate)
    assert plot.lines[0, 0][0].get_xdata().max() <= -certificate.rate
    every = analysis.poles
    assert axis.get_xlim()[0] < every.real.min()
    assert axis.get_ylim()[1] > np.abs(every.imag).max()


def test_spectrum_plot_of_an_unstable_point():
    model = cubic_factor().model
    axis = spectrum_plot(gct.analyze(model, gct.find_equilibrium(model))).axes[0, 0]
    assert labels(axis)[-1] == "abscissa 2, not stable"
    assert not axis.patches
    assert axis.get_xlim()[1] > 2


def test_spectrum_plot_of_layers_has_the_unit_circle():
    model = ROTATING.replace(A=[[0.5, 0.3], [-0.3, 0.5]], dt=0.25)
    analysis = gct.analyze(model)
    axis = spectrum_plot(analysis).axes[0, 0]
    assert axis.get_xlabel() == "real part, per layer of depth 0.25"
    radius = np.abs(analysis.poles).max()
    assert labels(axis)[-1] == f"spectral radius {radius:.4g}"
    circles = [line for line in axis.lines if len(line.get_xdata()) > 300]
    reached = [np.hypot(*line.get_data()).max() for line in circles]
    np.testing.assert_allclose(reached, [1, radius])


def test_spectrum_plot_title_names_the_model():
    figure = spectrum_plot(gct.analyze(ROTATING)).figure
    assert figure.get_suptitle() == "Poles of rotating"


# -- phase planes ---------------------------------------------------------------------------------

SCALAR = gct.GaussianTransformer(0.5, 1, -0.25, 1.0, k=[0.4])
BALANCED = gct.GaussianTransformer(
    [[1.0, 0.3], [0.3, 1.2]], np.eye(2), [[-0.5, -0.1], [-0.1, -0.8]], name="balanced"
)
DIAGONAL = gct.GaussianTransformer(np.diag([1.0, 1.5]), np.eye(2), -0.5 * np.eye(2))


@pytest.fixture(scope="module")
def scalar_phase():
    return phase_plot(SCALAR)


def circles(plot):
    """Markers as {(x, y): whether it is filled}."""
    ink = mpl.rcParams["text.color"]
    return {
        (round(float(x), 6), round(float(y), 6)): line.get_markerfacecolor() == ink
        for line in plot.lines[0, 0]
        for x, y in zip(*line.get_data(), strict=True)
    }


def test_phase_plot_of_a_scalar_model_marks_mean_and_variance(scalar_phase):
    plot = scalar_phase
    stable, zero = gct.find_equilibria(SCALAR)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape == (1, 1)
    assert circles(plot) == {
        (round(stable.mean[0], 6), 2.0): True,
        (round(zero.mean[0], 6), 0.0): False,
    }
    axis = plot.axes[0, 0]
    assert axis.get_xlabel() == r"mean $\mu$ [x]"
    assert axis.get_ylabel() == r"variance $\sigma^2$ [x]$^2$"
    assert axis.get_ylim()[0] == 0
    assert labels(axis) == [
        r"$\mu' = 0$",
        r"$(\sigma^2)' = 0$",
        "stable equilibrium",
        "equilibrium, not stable",
    ]


def test_phase_plot_shades_what_escapes(scalar_phase):
    model = gct.GaussianTransformer(-1, 1, 0.5, 0.3)
    axis = phase_plot(model).axes[0, 0]
    [band] = [patch for patch in axis.patches if patch.get_label() == "escapes to infinity"]
    # s' = 2 (-1 + s/2) s grows beyond every bound from s > 2.
    assert band.get_y() == 2
    for start, escapes in ((1.99, False), (2.01, True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gct.BlowUpWarning)
            response = respond(model, 20, ([0.0], [[start]]))
        assert (response.blow_up_time is not None) == escapes
    assert "escapes to infinity" not in labels(scalar_phase.axes[0, 0])


def test_phase_plot_nullclines_are_where_the_rates_vanish(scalar_phase):
    axis = scalar_phase.axes[0, 0]
    contours = [c for c in axis.collections if isinstance(c, ContourSet)]
    assert len(contours) == 2
    system = gct.moment_system(SCALAR)
    for i, contour in enumerate(contours):
        [path] = contour.get_paths()
        rates = np.array([system.dynamics(0, vertex, np.zeros(1)) for vertex in path.vertices])
        scale = np.abs(rates).max()
        assert np.abs(rates[:, i]).max() <= 0.02 * scale


def test_phase_plot_in_the_eigenvectors_of_the_equilibrium():
    found = gct.find_equilibria(BALANCED)
    plot = phase_plot(BALANCED, equilibria=found)
    values, vectors = np.linalg.eigh(found[0].covariance)
    axis = plot.axes[0, 0]
    x, y = np.abs(vectors[:, 1])
    assert axis.get_xlabel() == f"eigenvalue along ({x:.2g}, {y:.2g}) [x]$^2$"
    assert circles(plot)[round(values[1], 6), round(values[0], 6)]
    elsewhere = sum(e.rank == 1 for e in found)
    assert "arrows are projections" in labels(axis)
    assert f"not in this plane: {elsewhere} more" in labels(axis)
    bars = [other.get_ylabel() for other in plot.figure.axes if other is not axis]
    assert bars == ["share of speed off the plane"]
    assert plot.figure.get_suptitle() == "Phase plane of balanced"


def test_phase_plot_says_when_the_plane_is_invariant():
    plot = phase_plot(DIAGONAL)
    assert "the flow stays in this plane" in labels(plot.axes[0, 0])
    assert plot.figure.axes == [plot.axes[0, 0]]
    assert circles(plot) == {(3.0, 2.0): True, (3.0, 0.0): False, (0.0, 2.0): False, (0, 0): False}


def test_phase_plot_of_a_chosen_plane_leaves_the_cone_empty():
    plane, limits = (np.eye(2), [[0, 1], [1, 0]]), [[0, 3], [-3, 3]]
    plot = phase_plot(BALANCED, plane=plane, limits=limits, equilibria=[])
    axis = plot.axes[0, 0]
    assert "no covariance" in labels(axis)
    assert axis.get_xlim() == (0, 3)
    assert axis.get_xlabel().endswith("E1 = [[1., 0.], [0., 1.]]")
    [stream] = [c for c in axis.collections if isinstance(c, LineCollection)]
    points = np.concatenate(stream.get_segments())
    assert (np.abs(points[:, 1]) <= points[:, 0] + 0.2).all()


@pytest.mark.parametrize(
    "model",
    [
        attention_blow_up().model,
        gct.GaussianTransformer(0, 0, 0),
        gct.GaussianTransformer(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))),
        SCALAR.replace(dt=0.5),
        BALANCED.replace(dt=0.1),
    ],
    ids=[
        "blow-up",
        "at rest, d = 1",
        "at rest, d = 2",
        "layers",
        "layers, d = 2",
    ],
)
def test_phase_plot_survives(model):
    found = gct.find_equilibria(model, rank=0)
    plot = phase_plot(model, equilibria=found)
    plot.figure.draw_without_rendering()
    assert np.isfinite([*plot.axes[0, 0].get_xlim(), *plot.axes[0, 0].get_ylim()]).all()
    if model.dt:
        assert f"arrows: direction of one layer, dt = {model.dt:g}" in labels(plot.axes[0, 0])


def test_phase_plot_on_given_axes():
    figure, axes = plt.subplots()
    plot = phase_plot(gct.GaussianTransformer(0, 0, 0), equilibria=[], ax=axes, title="mine")
    assert plot.axes[0, 0] is axes
    assert plot.figure is figure
    assert axes.get_title() == "mine"


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"model": "layer.npz"}, "model: expected a GaussianTransformer"),
        ({"model": mimetic_clean(3).model}, "model: expected d = 1 or 2, found d = 3"),
        ({"model": SCALAR, "plane": (1, 2)}, "plane: expected none for d = 1"),
        ({"plane": np.eye(2)}, "plane: expected two 2 x 2 matrices"),
        ({"plane": (np.eye(2), 2 * np.eye(2))}, "plane: expected independent"),
        ({"plane": (np.eye(2), [[0, 1], [0, 0]])}, "plane: expected symmetric"),
        ({"limits": ((0, 1), (1, 1))}, "limits: expected"),
        ({"model": SCALAR, "limits": ((0, 1), (-1, 1))}, "limits: expected a variance"),
        ({"equilibria": [np.eye(2)]}, r"equilibria\[0\]: expected an Equilibrium"),
        ({"equilibria": gct.find_equilibria(SCALAR)}, r"equilibria\[0\]: expected one of this"),
        ({"ax": [1, 2]}, "ax: expected 1 axes"),
    ],
)
def test_phase_plot_refuses(keywords, says):
    with pytest.raises(gct.GausscontrolError, match=says):
        phase_plot(**{"model": DIAGONAL, "equilibria": [], **keywords})


def test_poles_at_a_singular_point_claim_no_half_plane():
    model = gct.GaussianTransformer(-np.eye(2), np.eye(2), -np.eye(2))
    axis = spectrum_plot(gct.analyze(model)).axes[0, 0]
    assert not axis.patches
    assert labels(axis)[-1] == "abscissa -2"


def test_plots_take_a_singular_equilibrium():
    model = gct.GaussianTransformer(np.diag([1.0, -1.0]), np.eye(2), -np.eye(2))
    [limit] = [e for e in gct.find_equilibria(model) if e.is_stable]
    assert limit.rank == 1
    response = respond(model, 4, (np.zeros(2), np.eye(2)))
    dashed = ellipse_plot(response, equilibrium=limit).lines[0, 0][-1]
    assert np.ptp(dashed.get_ydata()) < 1e-9 < np.ptp(dashed.get_xdata())
    # Zero has no place on the logarithmic axis of the spectrum.
    lower = moment_plot(response, equilibrium=limit).axes[1, 0]
    assert lower.get_yscale() == "log"
    marks = [line for line in lower.lines if line.get_marker() == "D"]
    assert np.concatenate([line.get_ydata() for line in marks]).tolist() == pytest.approx([1])
    zero = gct.find_equilibria(model, rank=0)[0]
    moment_plot(response, equilibrium=zero).figure.draw_without_rendering()


# -- axes, titles, styles -------------------------------------------------------------------------


def draw_all(response, analysis, **keywords):
    yield 2, lambda **more: moment_plot(response, **keywords, **more)
    yield 1, lambda **more: ellipse_plot(response, **keywords, **more)
    yield 1, lambda **more: spectrum_plot(analysis, **keywords, **more)


def test_given_axes_are_used_and_keep_their_titles(rotating):
    for rows, draw in draw_all(rotating, gct.analyze(ROTATING)):
        figure, axes = plt.subplots(rows, 1)
        figures = plt.get_fignums()
        plot = draw(ax=axes)
        assert plt.get_fignums() == figures
        assert plot.figure is figure
        assert list(plot.axes.flat) == list(np.atleast_1d(axes))
        assert plot.axes[0, 0].get_title() == figure.get_suptitle() == ""
        assert draw(ax=axes, title="mine").axes[0, 0].get_title() == "mine"


def test_own_figures_are_new_unless_the_current_one_is_empty(rotating):
    for _, draw in draw_all(rotating, gct.analyze(ROTATING)):
        empty = plt.figure(figsize=(6, 4))
        assert draw().figure is empty
        again = draw(title="mine").figure
        assert again is not empty
        assert again.get_suptitle() == "mine"


def test_a_figure_is_filled_without_pyplot(rotating):
    for rows, draw in draw_all(rotating, gct.analyze(ROTATING)):
        figure = Figure(layout="constrained")
        plot = draw(ax=figure)
        assert plot.figure is figure
        assert plot.axes.shape == (rows, 1)
    assert plt.get_fignums() == []


def test_legends_of_own_figures_hide_nothing(rotating, large):
    for response in (rotating, large[0]):
        for plot in (moment_plot(response), ellipse_plot(response)):
            for axis in plot.axes.flat:
                assert not is_inside(axis.get_legend(), axis)


def test_style_is_honoured_and_nothing_is_changed(rotating):
    before = dict(mpl.rcParams)
    with plt.style.context("dark_background"):
        plot = moment_plot(rotating)
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        assert [line.get_color() for line in plot.lines[0, 0]] == cycle[:2]
        ellipses = ellipse_plot(rotating, equilibrium=gct.find_equilibrium(ROTATING))
        assert ellipses.lines[0, 0][-1].get_color() == mpl.rcParams["text.color"] == "white"
    assert moment_plot(rotating).lines[0, 0][0].get_color() == OKABE_ITO[0]
    assert dict(mpl.rcParams) == before


def test_text_fits_a_small_picture(large):
    response, model = large
    for draw in (moment_plot, ellipse_plot):
        figure = Figure(figsize=(6, 4), layout="constrained")
        draw(response, equilibrium=gct.find_equilibrium(model), ax=figure)
        figure.draw_without_rendering()
        whole = figure.bbox
        for axis in figure.axes:
            for text in (axis.xaxis.label, axis.yaxis.label):
                if text.get_text():
                    box = text.get_window_extent()
                    assert whole.x0 <= box.x0
                    assert box.x1 <= whole.x1
                    assert whole.y0 <= box.y0
                    assert box.y1 <= whole.y1
                    assert text.get_fontsize() >= 8


def test_save_picture_writes_a_file_and_no_window(tmp_path, rotating):
    path = tmp_path / "moments.png"
    save_picture(path, lambda ax: moment_plot(rotating, ax=ax))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert plt.get_fignums() == []
    with pytest.raises(OSError, match="missing"):
        save_picture(tmp_path / "missing" / "a.png", lambda ax: moment_plot(rotating, ax=ax))


# -- bad input ------------------------------------------------------------------------------------


def test_wrong_types_are_refused_by_name(rotating):
    analysis = gct.analyze(ROTATING)
    for draw in (moment_plot, ellipse_plot):
        with pytest.raises(gct.ParameterError, match="resp: expected a MomentResponse, found"):
            draw(ct.step_response(ct.tf(1, [1, 1])))
        with pytest.raises(gct.ParameterError, match="equilibrium: expected an Equilibrium"):
            draw(rotating, equilibrium=np.eye(2))
    with pytest.raises(gct.ParameterError, match="analysis: expected an EquilibriumAnalysis"):
        spectrum_plot(rotating)
    with pytest.raises(gct.ParameterError, match="certificate: expected a GlobalStability"):
        spectrum_plot(analysis, certificate=analysis)
    assert plt.get_fignums() == []


def test_results_of_another_model_are_refused(rotating):
    other = scalar_riccati().model
    certificate = gct.certify_global_stability(mimetic_clean(2).model, mimetic_clean(2).covariance)
    with pytest.raises(gct.ParameterError, match="one of another"):
        spectrum_plot(gct.analyze(ROTATING), certificate=certificate)
    unstable = gct.find_equilibrium(cubic_factor().model)
    assert other.dim == unstable.model.dim == 1
    with pytest.raises(gct.ShapeError, match="equilibrium: expected d = 2"):
        moment_plot(rotating, equilibrium=unstable)


@pytest.mark.parametrize("bad", [(0, 0), (0, 2), (-1, 0), (0,), (0, 1, 1), 1, (0.5, 1), (True, 0)])
def test_bad_coordinates_are_refused(rotating, bad):
    with pytest.raises(gct.ParameterError, match="coordinates: expected two different numbers"):
        ellipse_plot(rotating, coordinates=bad)


def test_coordinates_of_one_dimension_are_refused(scalar):
    with pytest.raises(gct.ParameterError, match="coordinates"):
        ellipse_plot(scalar, coordinates=(0, 1))


@pytest.mark.parametrize("bad", [0, 1, -0.5, 95, np.nan])
def test_bad_confidence_is_refused(rotating, bad):
    with pytest.raises(gct.ParameterError, match="confidence: expected a probability"):
        ellipse_plot(rotating, confidence=bad)


def test_bad_axes_are_refused(rotating):
    axes = plt.subplots(3, 1)[1]
    with pytest.raises(gct.ShapeError, match="ax: expected 2 axes, found 3"):
        moment_plot(rotating, ax=axes)
    with pytest.raises(gct.ShapeError, match="ax: expected 1 axes, found 3"):
        ellipse_plot(rotating, ax=axes)
    with pytest.raises(gct.ParameterError, match="ax: expected matplotlib axes, found str"):
        ellipse_plot(rotating, ax="here")
    with pytest.raises(TypeError, match="colour"):
        moment_plot(rotating, colour="red")


def test_inputs_are_not_mutated(rotating):
    kept = rotating.mean.copy(), rotating.covariance.copy()
    moment_plot(rotating)
    ellipse_plot(rotating)
    np.testing.assert_array_equal(rotating.mean, kept[0])
    np.testing.assert_array_equal(rotating.covariance, kept[1])


def test_random_responses_always_draw():
    rng = np.random.default_rng(4)
    for dim, rank in ((2, 2), (3, 1), (5, 3), (6, 6)):
        model = mimetic_clean(dim).model
        response = respond(
            model, 2, (rng.normal(size=dim), random_covariance(rng, dim, rank=rank)), 9
        )
        assert len(moment_plot(response).lines[1, 0]) == rank
        assert ellipse_plot(response).lines[0, 0]
