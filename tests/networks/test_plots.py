from __future__ import annotations

import io
import sys
from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.drawing.svg import read_data
from cotempo.errors import DataError, ParameterError
from cotempo.networks.data.generate import Recipe, draw_network
from cotempo.networks.network import Network
from cotempo.networks.plots import STATUSES, edge_status, plot_networks, plot_slices

TRUTH = Network([[0, 0.5, 0.4], [0, 0, 0.3], [0, 0, 0]], [[[0.5, 0, 0], [0, 0, 0], [0, 0.4, 0]]])
FOUND = Network([[0, 0.5, 0], [0, 0, 0], [0, 0.3, 0]], [[[0.5, 0, 0], [0, 0, 0.2], [0, 0, 0]]])


def random_network(variables: int, lags: int, seed: int = 0) -> Network:
    return draw_network(Recipe(variables, lags, 3.0, 1.0, 1.5), np.random.default_rng(seed))


def test_every_edge_has_its_status() -> None:
    status = edge_status(FOUND, TRUTH)
    assert status[0].tolist() == [["", "correct", "missing"], ["", "", ""], ["", "reversed", ""]]
    assert status[1].tolist() == [["correct", "", ""], ["", "", "extra"], ["", "missing", ""]]


def test_networks_of_other_variables_are_refused() -> None:
    with pytest.raises(DataError, match="it lacks rain"):
        plot_networks(Network([[0.0]], [[[0.0]]], ("rain",)), FOUND)


def test_slices_draw_one_arrow_per_edge_in_the_colour_of_its_status() -> None:
    ax = plot_slices(FOUND, truth=TRUTH)
    colours = sorted(patch.get_edgecolor()[:3] for patch in ax.patches)
    status = edge_status(FOUND, TRUTH)
    assert len(colours) == np.count_nonzero(status != "")
    assert len(set(colours)) == len(STATUSES)
    assert len(TRUTH.plot().patches) == len(TRUTH.edge_list())


@pytest.mark.parametrize(("variables", "lags"), [(2, 0), (5, 1), (20, 3), (50, 1)])
def test_pages_render_at_every_size(variables: int, lags: int) -> None:
    found, truth = random_network(variables, lags), random_network(variables, lags, seed=1)
    figure = plot_networks(found, truth)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=50)
    assert target.getbuffer().nbytes > 5000
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert "within a step" in titles
    assert len(titles) == lags + 2
    assert len(figure.legends) == 1


def test_the_marks_of_a_matrix_are_its_edges() -> None:
    found = Network([[0, 0.5, 0], [0, 0, 0], [0, -0.3, 0]], FOUND.across)
    header, rows = read_data(plot_networks(found))
    marks = set()
    for drawn in (dict(zip(header, row, strict=True)) for row in rows):
        if "step" in drawn["panel"]:
            lag = int("back" in drawn["panel"])
            marks |= {(sign, drawn[sign], drawn["x"], lag) for sign in ("positive", "negative") if drawn[sign]}
    assert marks == {
        ("positive" if weight > 0 else "negative", source, target, lag)
        for source, target, lag, weight in found.edge_list()
    }


def test_of_many_variables_those_with_the_strongest_edges_are_drawn() -> None:
    across = np.diag(np.full(40, 5.0))  # of itself a variable is no reason to be drawn
    across[30, 35] = 2.0
    figure = plot_networks(Network(np.zeros((40, 40)), across[None]))
    assert len(figure.axes) == 3
    assert len(figure.axes[0].patches) == 15 + 1  # there were no arrows of more than 15 variables
    assert {"x30", "x35"} <= {text.get_text() for text in figure.axes[0].texts}
    names = [label.get_text() for label in figure.axes[2].get_yticklabels()]
    assert len(names) == 24
    assert {"x30", "x35"} <= {*names}
    assert figure.get_suptitle() == "the 24 of 40 variables with the strongest edges"


def test_edges_below_a_probability_can_be_left_out() -> None:
    """Edges of 100 % and of 17 % were drawn alike, and only one's own drawing could leave some out."""
    clients, _ = ct.make_networks(variables=4, clients=2, samples=60, seed=1)
    fitted = ct.OneRound(compare=False).fit(clients)
    edges = fitted.edges()
    least = float(edges["probability"].median())
    arrows = fitted.plot(least=least).axes[0].patches
    assert len(arrows) == (edges["probability"] >= least).sum() < len(edges)
    assert len(fitted.plot().axes[0].patches) == len(edges)
    with pytest.raises(ParameterError, match="least needs probabilities"):
        ct.FDBNL(compare=False, lambda_within=0.1, lambda_across=0.1).fit(clients).plot(least=0.9)


def test_a_cyclic_network_can_be_drawn() -> None:
    assert len(plot_slices(Network([[0.0, 1.0], [1.0, 0.0]], np.zeros((0, 2, 2)))).patches) == 2


def test_pictures_leave_pyplot_alone() -> None:
    plot_networks(FOUND, TRUTH)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_of_many_edges_the_strongest_are_drawn_and_the_others_counted() -> None:
    rng = np.random.default_rng(0)
    across = np.round(rng.normal(size=(1, 16, 16)), 3)
    ax = plot_slices(Network(np.zeros((16, 16)), across))
    assert len(ax.patches) == 24 + 16  # a variable's effect on itself is drawn besides
    assert "216 weaker edges are not drawn" in [text.get_text() for text in ax.texts]


def test_units_do_not_change_the_picture() -> None:
    """Widths and order of arrows were by raw weights: an effect of litres on millimetres hid all others."""
    found = replace(FOUND, scale=np.array([1.0, 1.0, 1.0]))
    units = np.array([1e3, 1.0, 1e-2])
    ratio = units / units[:, None]
    other = Network(FOUND.within * ratio, FOUND.across * ratio, FOUND.variables, scale=units)
    truth = Network(TRUTH.within * ratio, TRUTH.across * ratio, TRUTH.variables)
    widths = [sorted(p.get_linewidth() for p in plot_slices(one).patches) for one in (found, other)]
    np.testing.assert_allclose(*widths)
    pages = [plot_networks(found, TRUTH), plot_networks(other, truth)]
    images = [[image.get_array() for ax in page.axes for image in ax.images] for page in pages]
    assert len(images[0]) == len(images[1])
    for one, two in zip(*images, strict=True):
        np.testing.assert_allclose(one, two)
    np.testing.assert_allclose(found.strength(), other.strength())


@pytest.mark.parametrize("method", [ct.FDBNL(compare=False), ct.PFDBNL(compare=False), ct.OneRound(compare=False)])
def test_fitted_networks_know_their_scale(method: ct.Method) -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=150, seed=1)
    units = np.array([1e4, 1.0, 1e-3])
    small = {name: ct.Series.from_arrays(table.values * units) for name, table in clients.items()}
    one, other = (method.fit(tables) for tables in (clients, small))
    np.testing.assert_allclose(one.network.strength(), other.network.strength(), atol=1e-8)
    np.testing.assert_allclose(one["client-1"].network.strength(), other["client-1"].network.strength(), atol=1e-8)
    pooled = np.vstack([table.values for table in small.values()]).std(axis=0)
    np.testing.assert_allclose(other.network.scale, pooled, rtol=0.1)
