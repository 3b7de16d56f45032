"""Slices of regions of attraction: the ellipse, the sampled basin, arguments."""

import control as ct
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.linalg
from matplotlib.collections import QuadMesh

import gausscontrol as gct
from gausscontrol.certificates.region import certify_region_of_attraction
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.plots import basin
from gausscontrol.plots.basin import CONVERGES, ESCAPES, sampled_basin
from gausscontrol.plots.region import region_plot

IDENTITY = np.eye(2)
SPIRAL = gct.GaussianTransformer([[1.0, 1.5], [-1.5, -0.5]], np.diag([1.0, -0.5]), -IDENTITY)


@pytest.fixture(autouse=True)
def _figures_in_memory(monkeypatch):
    # A picture of a few cells is as good as one of ten thousand.
    monkeypatch.setattr("gausscontrol.plots.region.GRID", 15)
    backend = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


@pytest.fixture(scope="module")
def region():
    return certify_region_of_attraction(SPIRAL, IDENTITY)


@pytest.fixture(scope="module")
def solid():
    model = gct.GaussianTransformer(np.eye(3), np.eye(3), -np.diag([0.5, 1.0, 2.0]))
    return certify_region_of_attraction(model, np.diag([2.0, 1.0, 0.5]), method="norm")


def labels(plot):
    return [text.get_text() for text in plot.legend.get_texts()]


# -- the basin ------------------------------------------------------------------------------------


def test_sampled_basin_is_the_exact_one(region):
    # X = Sigma^-1 moves to I + e^{-A^T t} (X - I) e^{-A t} and must stay positive definite.
    flows = np.stack([scipy.linalg.expm(-SPIRAL.A * t) for t in np.linspace(0, 12, 121)])
    rng = np.random.default_rng(0)
    E = rng.standard_normal((30, 2, 2))
    starts = np.stack([scipy.linalg.expm(X + X.T) for X in E])
    gaps = flows.swapaxes(1, 2) @ (np.linalg.inv(starts) - IDENTITY)[:, None] @ flows
    lowest = np.linalg.eigvalsh(IDENTITY + gaps).min(axis=(1, 2))
    clear = np.abs(lowest) > 1e-2
    expected = np.where(lowest > 0, CONVERGES, ESCAPES)
    assert {CONVERGES, ESCAPES} <= set(expected[clear])
    assert np.array_equal(sampled_basin(region, starts)[clear], expected[clear])


def test_singular_starts_do_not_converge(region):
    starts = np.stack([np.diag([1.0, 0.0]), np.diag([1.0, -1.0]), IDENTITY])
    assert list(sampled_basin(region, starts)) == [ESCAPES, ESCAPES, CONVERGES]


def test_few_steps_leave_a_start_undecided(region, monkeypatch):
    monkeypatch.setattr(basin, "STEPS", 2)
    assert list(sampled_basin(region, np.stack([2 * IDENTITY, IDENTITY]))) == [0, CONVERGES]


# -- the picture ----------------------------------------------------------------------------------


def test_region_plot_draws_the_edge(region):
    plot = region_plot(region)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape == plot.lines.shape == (1, 1)
    edge, inner, centre = plot.lines[0, 0]
    for line, level in ((edge, region.level), (inner, region.data["norm_level"])):
        for x, y in np.transpose(line.get_data()):
            assert region.lyapunov_function(np.diag([x, y])) == pytest.approx(level, rel=1e-6)
    assert np.transpose(centre.get_data()) == pytest.approx(np.ones((1, 2)))
    assert plot.axes[0, 0].get_xlabel() == "eigenvalue along (1, 0) [x]$^2$"
    assert labels(plot) == [
        "certified region",
        "by the norm bound",
        "equilibrium",
        "converges in simulation",
        "escapes in simulation",
    ]


def test_the_default_window_shows_the_region_and_what_escapes(region):
    plot = region_plot(region)
    axis = plot.axes[0, 0]
    [mesh] = [drawn for drawn in axis.collections if isinstance(drawn, QuadMesh)]
    kinds = np.asarray(mesh.get_array()).ravel()
    assert 0.02 < np.mean(kinds == 1) < 0.7
    x, y = plot.lines[0, 0][0].get_data()
    assert axis.get_xlim()[0] == axis.get_ylim()[0] == 0
    assert x.max() < axis.get_xlim()[1]
    assert y.max() < axis.get_ylim()[1]


def test_a_small_region_is_drawn_once_more(region):
    small = certify_region_of_attraction(SPIRAL, IDENTITY, method="norm")
    [inset] = region_plot(small).axes[0, 0].child_axes
    edge = inset.lines[0].get_xydata()
    for x, y in edge[::20]:
        assert small.lyapunov_function(np.diag([x, y])) == pytest.approx(small.level, rel=1e-6)
    (left, right), (low, high) = inset.get_xlim(), inset.get_ylim()
    assert np.ptp(edge[:, 0]) > 0.5 * (right - left)
    assert np.ptp(edge[:, 1]) > 0.5 * (high - low)
    assert not region_plot(region, limits=[[0, 2], [0, 2]]).axes[0, 0].child_axes


def test_where_nothing_escapes_the_window_fits_the_region():
    model = gct.GaussianTransformer(IDENTITY, IDENTITY, -IDENTITY)  # globally stable
    whole = certify_region_of_attraction(model, IDENTITY, method="norm")
    plot = region_plot(whole)
    x, _ = plot.lines[0, 0][0].get_data()
    left, right = plot.axes[0, 0].get_xlim()
    assert 0.3 < np.ptp(x) / (right - left) < 0.7
    assert labels(plot)[-1] == "no escape up to 30 times as far"


def test_wide_window_shows_what_escapes(region):
    plot = region_plot(region, limits=[[0, 6], [0, 5]])
    assert "escapes in simulation" in labels(plot)
    assert plot.axes[0, 0].get_ylim() == (0, 5)
    assert "no covariance" not in labels(plot)


def test_any_plane(region):
    plane = np.array([[[1.0, 0.0], [0.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    plot = region_plot(region, plane=plane)
    for x, y in np.transpose(plot.lines[0, 0][0].get_data()):
        S = IDENTITY + x * plane[0] + y * plane[1]
        assert region.lyapunov_function(S) == pytest.approx(region.level, rel=1e-6)
    assert "no covariance" in labels(plot)


def test_three_dimensions(solid):
    plot = region_plot(solid)
    assert "along (1, 0, 0)" in plot.axes[0, 0].get_xlabel()
    assert "along (0, 0, 1)" in plot.axes[0, 0].get_ylabel()
    edge = plot.lines[0, 0][0]
    for x, y in np.transpose(edge.get_data())[::20]:
        assert solid.lyapunov_function(np.diag([x, 1.0, y])) == pytest.approx(solid.level)
    assert len(plot.lines[0, 0]) == 2  # no second edge where the norm bound is the region
    assert "escapes in simulation" not in labels(plot)


def test_given_axes_and_title(region):
    figure, axis = plt.subplots()
    plot = region_plot(region, ax=axis, title="where it holds")
    assert plot.figure is figure
    assert axis.get_title() == "where it holds"
    plot = region_plot(region, title="on its own")
    assert plot.figure.get_suptitle() == "on its own"


# -- refusals -------------------------------------------------------------------------------------


def test_bad_input(region, solid):
    with pytest.raises(ParameterError, match="roa: expected a RegionOfAttraction, found Gaussian"):
        region_plot(SPIRAL)
    scalar = gct.GaussianTransformer(0.5, 1.0, -0.25)
    with pytest.raises(ShapeError, match=r"interval of variances 0\.00\d+ to 3\.99"):
        region_plot(certify_region_of_attraction(scalar, [[2.0]]))
    with pytest.raises(ShapeError, match="plane: expected two 3 x 3"):
        region_plot(solid, plane=np.zeros((2, 2, 2)))
    with pytest.raises(ParameterError, match="symmetric"):
        region_plot(region, plane=[[[1, 2], [0, 1]], IDENTITY])
    with pytest.raises(ParameterError, match="independent"):
        region_plot(region, plane=[IDENTITY, 2 * IDENTITY])
    with pytest.raises(ParameterError, match="limits"):
        region_plot(region, limits=[[1, 0], [0, 1]])
