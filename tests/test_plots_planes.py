"""What pictures of planes and grids rest on: eigenvectors, windows, names in cells."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from problems import random_covariance

import gausscontrol as gct
from gausscontrol.plots.boundary import Mesh
from gausscontrol.plots.figures import save_picture
from gausscontrol.plots.planes import eigen_plane
from gausscontrol.plots.regime_cells import draw_cells, is_geometric, scale_axes
from gausscontrol.plots.region_slice import LEAST, region_slice


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_the_plane_of_extreme_eigenvalues_holds_the_covariance(dim):
    Sigma = random_covariance(np.random.default_rng(dim), dim)
    basis, values, names = eigen_plane(Sigma)
    spectrum = np.linalg.eigvalsh(Sigma)
    np.testing.assert_allclose(values, spectrum[[-1, 0]], rtol=1e-12)
    for E, value in zip(basis, values, strict=True):
        np.testing.assert_allclose(Sigma @ E, value * E, atol=1e-10 * spectrum[-1])
        assert np.trace(E) == pytest.approx(1)
    assert all(name.endswith("[x]$^2$") for name in names)
    assert max(map(len, names)) < 60


def test_a_multiple_of_the_identity_has_the_coordinates():
    basis, values, names = eigen_plane(3 * np.eye(3))
    np.testing.assert_array_equal(basis, [np.diag([1, 0, 0]), np.diag([0, 0, 1])])
    np.testing.assert_allclose(values, [3, 3])
    assert "along (1, 0, 0)" in names[0]


def test_the_window_of_a_slice_ends_at_the_cone():
    model = gct.GaussianTransformer(np.eye(2), np.eye(2), -np.eye(2))
    region = gct.certify_region_of_attraction(model, np.eye(2), method="norm")
    view = region_slice(region.covariance, None).view(region)
    assert not view.found
    assert view.multiple == LEAST
    np.testing.assert_allclose(view.limits[:, 0], 0, atol=1e-9)
    bounded = region_slice(
        region.covariance, np.array([np.diag([1.0, -1.0]), [[0.0, 1.0], [1.0, 0.0]]])
    )
    np.testing.assert_allclose(bounded.view(region).limits, [[-1.2, 1.2], [-1.2, 1.2]], rtol=1e-6)


def cells(regimes):
    mesh = Mesh(("a", "v"), np.arange(20.0), np.arange(20.0), {})
    axis = Figure().subplots()
    scale_axes(axis, mesh)
    drawn = draw_cells(axis, mesh, regimes, np.zeros(regimes.shape, dtype=bool))
    return axis, drawn


def test_regimes_are_written_where_there_is_room():
    regimes = np.full((20, 20), "collapse", dtype=object)
    regimes[:, 12:] = "globally stable"
    regimes[:, 19] = "blow-up"
    axis, drawn = cells(regimes)
    assert len(drawn) == 1
    where = {text.get_text(): text.get_position() for text in axis.texts}
    assert set(where) == {"collapse"}
    x, y = where["collapse"]
    assert regimes[int(y), int(x)] == "collapse"
    regimes[:, 4:] = "globally stable"
    axis, _ = cells(regimes)
    [text] = axis.texts
    assert text.get_text() == "globally stable"
    assert 4 <= text.get_position()[0] < 20


def test_failed_items_have_no_name():
    axis, drawn = cells(np.full((20, 20), "", dtype=object))
    assert not axis.texts
    assert len(drawn) == 2  # the cells, and crosses


def test_even_ratios_are_told_from_even_steps():
    assert is_geometric(np.geomspace(0.1, 10, 7))
    assert not is_geometric(np.linspace(0.1, 10, 7))
    assert not is_geometric(np.linspace(1, 1 + 1e-9, 7))


def test_a_picture_has_the_size_asked_for(tmp_path):
    sizes = []
    save_picture(tmp_path / "a.png", lambda ax: sizes.append(tuple(ax.get_size_inches())), (3, 2))
    assert sizes == [(3, 2)]
