"""Results say what their edges are worth: directions that a method cannot tell, and networks of single clients."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import AdviceWarning, DataError
from cotempo.networks.search.edge_confidence import Confidence


@pytest.fixture(scope="module")
def clients() -> dict[str, ct.Series]:
    return ct.make_networks(variables=4, clients=3, samples=240, shared=0.8, seed=2)[0]


@pytest.fixture(scope="module")
def personal(clients: dict[str, ct.Series]):
    return ct.PFDBNL(lambda_within=0.1, lambda_across=0.1, coupling=0.1, compare=False).fit(clients)


@pytest.mark.parametrize("method", [ct.FDBNL, ct.PFDBNL])
def test_directions_within_a_step_are_not_claimed(
    method: type[ct.Method], clients: dict[str, ct.Series], tmp_path: Path
) -> None:
    """p53 -> myc was reversed at lag 0, and neither result, report nor table said a word."""
    given = {"lambda_within": 0.05, "lambda_across": 0.05, "compare": False}
    given |= {"coupling": 0.5} if method is ct.PFDBNL else {}
    fitted = method(**given).fit(clients)
    edges = fitted.tables()["network"]
    assert (edges["lag"] == 0).any()
    assert (edges["directed"] == (edges["lag"] > 0)).all()
    (line,) = [line for line in fitted.advice() if "directions within a time step" in line]
    assert "OneRound" in line
    assert "directions within a time step" in fitted.report(tmp_path / "page.html").read_text()
    known = method(scaled=False, **given).fit(clients)  # one unit, equal noise: the loss tells directions
    assert known.tables()["network"]["directed"].all()
    assert not any("directions" in line for line in known.advice())


def test_a_direction_is_told_only_where_the_reverse_is_improbable(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were `directed`, also those that a third of the draws turned round."""
    clients, _ = ct.make_networks(variables=4, clients=2, samples=400, noise="unequal", seed=1)
    fitted = ct.OneRound(compare=False).fit(clients)
    edges = [edge for edge in fitted.network.edge_list() if edge[2] == 0]
    source, target = (fitted.network.variables.index(name) for name in edges[0][:2])
    for reverse, told in ((0.4, False), (0.01, True)):
        within = np.where(fitted.network.within != 0, 0.6, 0.0)
        within[target, source] = reverse
        found = Confidence(within, np.ones_like(fitted.network.across))
        monkeypatch.setattr(type(fitted), "confidence", lambda *_, found=found, **__: found)
        monkeypatch.setattr(type(fitted), "_open_ends", lambda self: np.zeros((4, 4), dtype=bool))
        vars(fitted).pop("_probable", None)
        table = fitted.edges()
        mine = table[(table["lag"] == 0) & (table["source"] == edges[0][0]) & (table["target"] == edges[0][1])]
        assert mine["directed"].tolist() == [told]
        pd.testing.assert_frame_equal(fitted["client-0"].edges(), table)
        untold = {frozenset(pair) for pair in fitted.undirected}
        assert (frozenset(edges[0][:2]) not in untold) == told
        assert table[table["lag"] > 0]["directed"].all()


def test_every_client_finds_its_own_network_in_tables_and_report(personal, tmp_path: Path) -> None:
    table = personal.tables()["client_networks"]
    assert list(table)[:2] == ["client", "source"]
    for name in personal.names:
        mine = table[table["client"] == name].drop(columns="client").reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, personal[name].edges())
        assert (mine["directed"] == (mine["lag"] > 0)).all()
    page = personal.report(tmp_path / "page.html").read_text()
    assert all(f"The own network of {name}" in page for name in personal.names)


@pytest.fixture(scope="module")
def own_networks():
    """Four genes at three labs, the third of which measures three, with a network of its own for each."""
    clients, truth = ct.make_networks(variables=4, clients=3, samples=600, shared=0.8, seed=2)
    clients["client-2"] = ct.Series.from_arrays(clients["client-2"].values[:, :3], features=["x0", "x1", "x2"])
    with warnings.catch_warnings(action="ignore"):
        return ct.OneRound(personal=True, compare=False, restarts=0).fit(clients), truth


def test_own_networks_say_how_sure_their_edges_are(own_networks, tmp_path: Path) -> None:
    """They had neither `probability` nor `directed`, and no `edges()`."""
    fitted, truth = own_networks
    table = fitted.tables()["client_networks"]
    assert list(table) == ["client", "source", "target", "lag", "weight", "error", "probability", "directed"]
    assert table["probability"].between(0.0, 1.0).all()
    edges = fitted["client-0"].edges()
    assert edges["probability"].is_monotonic_decreasing
    true = {edge[:2] for edge in truth["client-0"].edge_list()}
    sure = edges[edges["probability"] >= 0.9]
    right = [(row.source, row.target) in true or (row.target, row.source) in true for row in sure.itertuples()]
    assert len(right) >= 4
    assert np.mean(right) >= 0.8
    fitted["client-0"].save(tmp_path / "own.model")
    pd.testing.assert_frame_equal(ct.load(tmp_path / "own.model").edges(), edges)


def test_an_own_network_has_no_edge_of_what_the_client_never_measured(own_networks) -> None:
    """A third of a lab's edges touched genes that it does not measure."""
    fitted, _ = own_networks
    edges = fitted["client-2"].edges()
    assert len(edges)
    assert "x3" not in {*edges["source"], *edges["target"]}
    assert "x3" in {*fitted.edges()["source"], *fitted.edges()["target"]}
    assert (fitted["client-2"].network.noise > 0).all()


def test_report_and_edges_state_the_same_probabilities(tmp_path: Path) -> None:
    """The report drew 30 times and `edges()` 100 times: 100 % in one was 90 % in the other."""
    clients, _ = ct.make_networks(variables=4, clients=2, samples=120, seed=1)
    fitted = ct.OneRound(compare=False).fit(clients)
    pd.testing.assert_frame_equal(fitted.tables()["network"], fitted.edges())
    first = fitted.edges().query("source != target").iloc[0]
    said = f"{first['probability']:.0%}" if first["probability"] <= 0.99 else "more than 99 %"
    assert fitted.answer().endswith(f"{said}.")
    assert said in fitted.report(tmp_path / "page.html").read_text()


def test_edges_is_a_dataframe_of_every_result(clients: dict[str, ct.Series], personal) -> None:
    """Of OneRound a dataframe, of a network a list, of FDBNL and PFDBNL an AttributeError."""
    pd.testing.assert_frame_equal(personal.edges(), personal.tables()["network"])
    assert list(personal.edges()) == ["source", "target", "lag", "weight", "directed"]
    assert list(personal.network.edges()) == ["source", "target", "lag", "weight"]
    assert personal.network.edges("polars").rows() == personal.network.edge_list()
    common = ct.OneRound(compare=False).fit(clients)
    pd.testing.assert_frame_equal(common["client-0"].edges(), common.edges())


def test_a_common_network_is_for_newcomers_and_own_ones_are_not(clients, personal) -> None:
    assert personal.for_newcomer() is None
    common = ct.OneRound(compare=False).fit(clients)
    assert common.for_newcomer().network is common.network


def test_late_clients_may_be_dataframes(clients: dict[str, ct.Series]) -> None:
    late = clients["client-2"]
    first = ct.OneRound(compare=False).fit({name: clients[name] for name in ("client-0", "client-1")})
    frame = late.to_frame()
    assert isinstance(frame, pd.DataFrame)
    found, wanted = first.add({"late": frame}), first.add({"late": late})
    np.testing.assert_allclose(found.network.within, wanted.network.within)
    with pytest.raises(DataError, match="client late"):
        first.add({"late": frame.assign(other=1.0)})
    left = found.remove({"late": frame})
    np.testing.assert_allclose(left.state.sums, first.state.sums, atol=1e-8)


def test_a_client_alone_joins_nobody(clients: dict[str, ct.Series]) -> None:
    fitted = ct.OneRound().fit({"client-0": clients["client-0"]})
    assert fitted.advice() == ["client-0 is the only client: nobody joined, so that nothing is compared"]


def test_rows_that_lean_away_from_the_model_make_edges_less_sure() -> None:
    """On short, curved series .9 meant .57, and neither result nor report said a word."""
    clients, _ = ct.make_networks(variables=4, clients=3, samples=300, seed=5)
    plain = ct.OneRound(restarts=0).fit(clients)
    assert plain.state.design == pytest.approx(1.0, abs=0.2)
    assert not any("lean" in line for line in plain.advice())
    rng, differing = np.random.default_rng(0), {}
    for name, effect in (("a", 1.0), ("b", 0.5), ("c", -0.5)):
        values = rng.normal(size=(120, 3))
        values[1:, 1] += effect * values[:-1, 0]
        differing[name] = ct.Series.from_arrays(values)
    leaning = ct.OneRound(restarts=0).fit(differing)
    assert leaning.state.design > 2.0
    assert any("times as far as chance lets them" in line for line in leaning.advice())
    lower = replace(plain.state, design=8.0)
    for_less = type(plain)(replace(plain.outcome, state=lower), plain.network, {})
    assert for_less.edges()["probability"].mean() < plain.edges()["probability"].mean()


def test_warnings_point_at_the_line_of_the_caller(clients: dict[str, ct.Series]) -> None:
    lacking = {**clients, "client-2": clients["client-2"].select(features=["x0", "x1", "x2"])}
    with pytest.warns(AdviceWarning, match="not held by all") as caught:
        fitted = ct.OneRound(compare=False, restarts=0).fit(lacking)
    assert {one.filename for one in caught} == {__file__}
    ahead = fitted.network.forecast(lacking["client-2"], steps=2).to_frame()
    assert ahead.groupby("variable")["measured"].all().to_dict() == {"x0": True, "x1": True, "x2": True, "x3": False}
    assert "measured" not in fitted.network.forecast(lacking["client-0"], steps=2).to_frame()


def test_weights_have_standard_errors_that_hold_where_all_edges_of_a_variable_are_right() -> None:
    far: list[float] = []
    for seed in range(8):
        clients, truth = ct.make_networks(variables=5, clients=3, samples=600, seed=seed)
        fitted = ct.OneRound(restarts=0, compare=False).fit(clients, progress=False)
        edges, found, true = fitted.edges(draws=2), fitted.network, truth.stacked
        assert (edges["error"] > 0).all()
        right = ((found.stacked != 0) == (true != 0)).all(axis=(0, 1))
        for row in edges.itertuples():
            source, target = (found.variables.index(name) for name in (row.source, row.target))
            if right[target]:
                far.append(abs(row.weight - true[row.lag, source, target]) / row.error)
    assert len(far) > 60
    assert 0.9 <= np.mean(np.array(far) < 2.0) <= 1.0
    assert 0.55 <= np.mean(np.array(far) < 1.0) <= 0.8


def test_panels_of_a_network_leave_no_row_mostly_empty() -> None:
    clients, _ = ct.make_networks(variables=4, clients=2, samples=200, lags=2, seed=1)
    figure = ct.OneRound(lags=2, restarts=0, compare=False).fit(clients, progress=False).plot()
    places = [axes.get_subplotspec() for axes in figure.axes]
    assert len(places) == 4
    assert {place.rowspan.start for place in places} == {place.colspan.start for place in places} == {0, 1}


def test_the_answer_counts_effects_of_variables_on_themselves_beside_the_edges() -> None:
    values = np.random.default_rng(0).normal(size=(2, 500, 3))
    for row in range(1, 500):
        values[:, row] += 0.7 * values[:, row - 1]
        values[:, row, 1] += 0.8 * values[:, row - 1, 0]
    clients = {f"client-{number}": Series.from_arrays(table) for number, table in enumerate(values)}
    for method in (ct.OneRound(restarts=0, compare=False), ct.FDBNL(rounds=30)):
        fitted = method.fit(clients, progress=False)
        edges = fitted.tables()["network"]
        own = int((edges["source"] == edges["target"]).sum())
        assert own
        assert f"Found {len(edges) - own} edge" in fitted.answer()
        assert f"between 3 variables (and {own} effect" in fitted.answer()
