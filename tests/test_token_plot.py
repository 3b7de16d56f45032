"""The picture of tokens beside the Gaussian system."""

import io

import control as ct
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import gausscontrol as gct
from gausscontrol.errors import ParameterError, ShapeError
from gausscontrol.plots.tokens import token_plot
from gausscontrol.tokens.particles import TokenTransformer


@pytest.fixture(autouse=True)
def _figures_in_memory():
    backend = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


def response_of(A, V, dim, feedforward=None, depth=2.0, **options):
    model = gct.GaussianTransformer(A * np.eye(dim), 0.5 * np.eye(dim), V * np.eye(dim))
    tokens = np.random.default_rng(0).normal(size=(60, dim))
    return TokenTransformer(model, feedforward, **options).simulate(
        tokens, np.linspace(0, depth, 9), rtol=1e-4
    )


def test_three_pictures_of_a_response():
    response = response_of(0.3, -0.5, 2)
    plot = token_plot(response)
    assert isinstance(plot, ct.ControlPlot)
    assert plot.axes.shape == plot.lines.shape == plot.legend.shape == (3, 1)
    assert plot.legend[1, 0] is None
    dots, line = plot.lines[0, 0][:2]
    largest = np.linalg.eigvalsh(response.covariance.T).T[-1]
    np.testing.assert_allclose(dots.get_ydata(), largest)
    largest = np.linalg.eigvalsh(response.gaussian.covariance.T).T[-1]
    np.testing.assert_allclose(line.get_ydata(), largest)
    gap = plot.lines[1, 0][0].get_ydata()
    np.testing.assert_allclose(gap[1:], response.relative_gap[1:])
    np.testing.assert_array_equal(plot.lines[2, 0][0].get_ydata(), response.logit_std)
    assert plot.figure.get_suptitle() == "60 tokens, d = 2"
    plot.figure.canvas.draw()


def test_many_dimensions_show_three_eigenvalues():
    plot = token_plot(response_of(0.3, -0.5, 7, layer_norm=True, causal=True))
    names = [text.get_text() for text in plot.legend[0, 0].get_texts()]
    beside = "Gaussian system\nwithout mask and norm"
    assert names == ["largest", "median", "smallest", "tokens", beside]
    assert plot.figure.get_suptitle() == "60 tokens, d = 7, causal, layer norm"


def test_escape_is_marked_and_the_axis_is_that_of_the_tokens():
    response = response_of(0.0, 2.0, 1)
    plot = token_plot(response)
    names = [text.get_text() for text in plot.legend[0, 0].get_texts()]
    assert names[-1].startswith("Gaussian system\nescapes at")
    assert not any("escape" in text.get_text() for text in plot.legend[2, 0].get_texts())
    top = plot.axes[0, 0].get_ylim()[1]
    assert top == pytest.approx(3 * response.covariance.max())
    assert np.isnan(plot.lines[1, 0][0].get_ydata()[-1])
    plot.figure.canvas.draw()


def test_without_a_gaussian_system():
    plot = token_plot(response_of(0.3, -0.5, 2, feedforward=np.tanh))
    assert plot.lines[1, 0] == []
    assert plot.axes[1, 0].texts[0].get_text() == "no closure of this part"
    assert all("Gaussian" not in text.get_text() for text in plot.legend[0, 0].get_texts())


def test_tokens_that_are_one_point():
    model = gct.GaussianTransformer(-1, 0, 0)
    response = TokenTransformer(model).simulate(np.ones((3, 1)), [0, 1])
    plot = token_plot(response)
    plot.figure.canvas.draw()
    assert [text.get_text() for text in plot.axes[0, 0].texts] == ["tokens are one point"]
    assert [text.get_text() for text in plot.axes[1, 0].texts] == ["none"]


def test_fewer_tokens_than_dimensions_show_the_eigenvalues_there_are():
    model = gct.GaussianTransformer(np.zeros((9, 9)), np.zeros((9, 9)), np.zeros((9, 9)), dt=1.0)
    tokens = np.random.default_rng(0).normal(size=(7, 9))
    plot = token_plot(TokenTransformer(model).simulate(tokens, [0, 1]))
    names = [text.get_text() for text in plot.legend[0, 0].get_texts()]
    assert names[:3] == ["largest", "median of 6", "smallest of 6"]
    for dots in plot.lines[0, 0][::2]:
        assert np.isfinite(dots.get_ydata()).all()


def test_large_logits_are_drawn_on_an_axis_that_says_so():
    plot = token_plot(response_of(0.0, 2.0, 1, depth=3.0))
    assert [text.get_text() for text in plot.axes[2, 0].texts] == ["logarithmic above 1"]


def test_legends_stay_within_a_figure_that_is_given():
    figure = Figure(figsize=(6, 6))
    plot = token_plot(response_of(0.3, -0.5, 2), ax=figure)
    plot.figure.savefig(io.BytesIO())
    for legend in (plot.legend[0, 0], plot.legend[2, 0]):
        assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_axes_and_titles():
    response = response_of(0.3, -0.5, 2)
    figure = Figure()
    assert token_plot(response, ax=figure, title="mine").figure is figure
    assert figure.get_suptitle() == "mine"
    _, axes = plt.subplots(3, 1)
    plot = token_plot(response, ax=axes, title="above")
    assert list(plot.axes[:, 0]) == list(axes)
    assert axes[0].get_title() == "above"
    with pytest.raises(ShapeError, match="ax: expected 3 axes, found 1"):
        token_plot(response, ax=axes[0])
    with pytest.raises(ParameterError, match="token_response: expected a TokenResponse, found"):
        token_plot(response.gaussian)
    with pytest.raises(ParameterError, match="found a TokenResponse; pass it to token_plot"):
        gct.moment_plot(response)
