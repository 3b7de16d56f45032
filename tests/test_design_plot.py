"""The picture of a design: what is on it, and that it can be told where to go."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_design import KEYS, SKEWED, TARGET

import gausscontrol as gct
from gausscontrol.plots.design import DEPTHS, STARTS, design_plot
from gausscontrol.synthesis.design import design


@pytest.fixture(autouse=True)
def _agg():
    with mpl.rc_context():
        plt.switch_backend("Agg")
        yield
        plt.close("all")


@pytest.fixture(name="des", scope="module")
def _des():
    return design(TARGET, A=SKEWED, B=KEYS, mean_decay_rate=0.3)


def labels(axis):
    return {line.get_label() for line in axis.get_lines()}


def test_every_path_ends_at_the_target(des):
    plot = design_plot(des, starts=5)
    axis = plot.axes[0, 0]
    assert {"starts", "on the way", "means", "target"} <= labels(axis)
    ends = [line.get_xydata()[-1] for line in axis.get_lines() if len(line.get_xdata()) == DEPTHS]
    assert len(ends) == 5
    np.testing.assert_allclose(ends, np.tile(TARGET[0], (5, 1)), atol=0.1)
    [target] = [line for line in axis.get_lines() if line.get_label() == "target"]
    points = target.get_xydata() - TARGET[0]
    radii = np.einsum("ni,ij,nj->n", points, np.linalg.inv(TARGET[1]), points)
    np.testing.assert_allclose(radii, -2 * np.log(0.32), rtol=1e-9)
    assert axis.get_xlabel() == "coordinate x[0] [x]"
    assert "5 Gaussians" in plot.figure.get_suptitle()


@pytest.mark.parametrize("starts", [1, 6, 8, 15])
def test_no_two_starts_share_a_colour(des, starts):
    axis = design_plot(des, starts=starts).axes[0, 0]
    paths = [line for line in axis.get_lines() if len(line.get_xdata()) == DEPTHS]
    assert len({mpl.colors.to_hex(line.get_color()) for line in paths}) == starts


def test_starts_can_be_given_and_axes_too(des):
    _, axis = plt.subplots()
    start = (np.array([4.0, -2.0]), 0.1 * np.eye(2))
    plot = design_plot(des, starts=[start], ax=axis, title="mine")
    assert plot.axes[0, 0] is axis
    assert axis.get_title() == "mine"
    [path] = [line for line in axis.get_lines() if len(line.get_xdata()) == DEPTHS]
    np.testing.assert_array_equal(path.get_xydata()[0], start[0])


@pytest.mark.parametrize("dim", [1, 3])
def test_other_dimensions(dim):
    des = design((np.ones(dim), np.eye(dim)), A=np.eye(dim), B=np.eye(dim))
    axis = design_plot(des, starts=3).axes[0, 0]
    expected = {1: "mean [x]", 3: "principal direction 1 of the target [x]"}[dim]
    assert axis.get_xlabel() == expected
    assert "target" in labels(axis)


def test_by_default_a_picture_holds_few_ellipses(des):
    axis = design_plot(des).axes[0, 0]
    ellipses = [line for line in axis.get_lines() if len(line.get_xdata()) == 181]
    assert len(ellipses) <= 3 * STARTS + 1
    title = axis.figure.get_suptitle()
    assert title == f"{STARTS} Gaussians, one target"
    rates = [text.get_text() for text in axis.get_legend().get_texts()][-2:]
    assert rates == [
        f"covariance decays at {des.decay_rate:.3g} [1/t]",
        f"mean decays at {des.mean_decay_rate:.3g} [1/t]",
    ]


def test_layers():
    des = design(TARGET, A=np.eye(2), B=np.linalg.inv(TARGET[1]), dt=0.1)
    axis = design_plot(des, starts=2).axes[0, 0]
    assert "target" in labels(axis)


def test_bad_arguments_are_named(des):
    with pytest.raises(gct.ParameterError, match="des: expected a Design, found int"):
        design_plot(3)
    for starts in (0, True, 1.5):
        with pytest.raises(gct.ParameterError, match="starts: expected a positive integer"):
            design_plot(des, starts=starts)
    with pytest.raises((gct.ParameterError, gct.ShapeError), match=r"starts\[0\]"):
        design_plot(des, starts=[(np.ones(3), np.eye(3))])
