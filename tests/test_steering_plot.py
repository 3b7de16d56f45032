"""The picture of a plan: what is drawn where, and what is refused."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.plots.steering import steering_plot
from gausscontrol.synthesis.steering import steer


@pytest.fixture(autouse=True)
def _figures_in_memory():
    backend = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


START, GOAL = (np.zeros(2), np.eye(2)), (np.ones(2), np.diag([4.0, 0.25]))


@pytest.fixture(scope="module")
def plan():
    return steer(START, GOAL, 2.0)


def labels(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def test_path_above_and_norms_below(plan):
    plot = steering_plot(plan)
    upper, lower = plot.axes[:, 0]
    assert upper.get_xlabel() == "coordinate x[0] [x]"
    assert (lower.get_xlabel(), lower.get_ylabel()) == ("depth t", "spectral norm")
    assert labels(lower) == ["$|b|$ [x/t]", "$|A|$ [1/t]"]
    assert plot.figure.get_suptitle() == "Steering by feedforward, rank 2 of 2"
    b, A = plot.lines[1, 0]
    depths = A.get_xdata()
    expected = [np.linalg.norm(plan.parameters(t).A, 2) for t in depths]
    np.testing.assert_allclose(A.get_ydata(), expected, rtol=1e-12)
    np.testing.assert_allclose(b.get_ydata()[0], np.linalg.norm(plan.parameters(0).b), rtol=1e-12)


def test_layers_lie_on_top(plan):
    stack = plan.layers(4, "hold")
    plot = steering_plot(plan, layers=stack)
    assert "between 4 layers" in labels(plot.axes[0, 0])
    assert "4 held layers" in labels(plot.axes[1, 0])
    last = plot.lines[0, 0][-1]  # the outline at the goal
    x, y = last.get_data()
    radius = np.sqrt(-2 * np.log(0.05))
    np.testing.assert_allclose([np.ptp(x), np.ptp(y)], 2 * radius * np.array([2, 0.5]), rtol=1e-3)
    np.testing.assert_allclose([x.mean(), y.mean()], [1, 1], atol=0.05)
    assert "4 residual layers" in labels(steering_plot(plan, layers=4).axes[1, 0])


def test_one_dimension_and_axes_of_the_user():
    plan = steer((0.0, 1.0), (3.0, 0.2), 1.0, actuators="keys")
    figure, axes = plt.subplots(2, 1)
    plot = steering_plot(plan, layers=3, ax=axes, title="mine")
    assert plot.figure is figure
    assert axes[0].get_title() == "mine"
    assert "3 layers" in labels(axes[0])


def test_singular_plan_in_three_dimensions():
    rng = np.random.default_rng(0)
    L0, L1 = rng.standard_normal((2, 3, 1))
    plan = steer(L0 @ L0.T, L1 @ L1.T, 1.0, actuators="attention")
    figure = Figure()
    plot = steering_plot(plan, layers=2, ax=figure)
    assert plot.axes[0, 0].get_xlabel().startswith("principal direction 1")
    assert "rank 1 of 3" in figure.get_suptitle()


def test_the_words_fit_rank_and_number():
    line = steer(np.diag([1.0, 0.0]), np.diag([4.0, 0.0]), 1.0)
    plot = steering_plot(line, layers=1)
    words = labels(plot.axes[0, 0])
    assert any("95% segment" in word for word in words)
    assert not any("ellipse" in word for word in words)
    assert "between 1 layer" in words
    assert "1 residual layer" in labels(plot.axes[1, 0])
    point = steer((np.zeros(2), np.zeros((2, 2))), (np.ones(2), np.zeros((2, 2))), 1.0)
    assert any("95% point" in word for word in labels(steering_plot(point).axes[0, 0]))


def test_legends_do_not_cover_the_curves(plan):
    plot = steering_plot(plan, layers=4)
    plot.figure.canvas.draw()
    for axis in plot.axes[:, 0]:
        legend = axis.get_legend().get_window_extent()
        assert legend.y0 >= axis.get_window_extent().y1 - 1


@pytest.mark.parametrize(
    ("goal", "shape"),
    [([8.0, 1.0], (2, 1)), ([1.0, 9.0], (1, 2)), ([0.5, 0.5], (2, 1))],
)
def test_ellipses_fill_the_figure(goal, shape):
    plot = steering_plot(steer(START, (np.array(goal), np.diag([1.2, 0.5])), 2.0))
    upper, lower = plot.axes[:, 0]
    plot.figure.draw_without_rendering()
    beside = upper.get_window_extent().x1 < lower.get_window_extent().x0
    assert beside == (shape == (1, 2))
    drawn = np.concatenate([line.get_xydata() for line in plot.lines[0, 0]])
    shares = np.ptp(drawn, axis=0) / [np.ptp(upper.get_xlim()), np.ptp(upper.get_ylim())]
    assert shares.max() > 0.85
    assert shares.min() > 0.35


def test_a_figure_of_the_user_keeps_its_size(plan):
    figure = plt.figure(figsize=(5, 4))
    plot = steering_plot(plan)
    assert plot.figure is figure
    assert tuple(figure.get_size_inches()) == (5, 4)


def test_bad_arguments(plan):
    with pytest.raises(ParameterError, match="plan: expected a SteeringPlan"):
        steering_plot(plan.model)
    with pytest.raises(ParameterError, match="layers: expected a LayerStack or a number"):
        steering_plot(plan, layers="4")
    with pytest.raises(ShapeError, match="layers: expected d = 2"):
        steering_plot(plan, layers=gct.LayerStack([gct.GaussianTransformer(1, 1, 1, dt=1)]))
    with pytest.raises(ShapeError, match="ax: expected 2 axes"):
        steering_plot(plan, ax=plt.gca())
