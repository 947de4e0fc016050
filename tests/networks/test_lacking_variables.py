"""Clients that lack variables: edges are stated as sure only where they are, and the result says what was done."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import DataError, SchemaError

FOLDER = Path(__file__).parents[2]


def lacking(clients: dict[str, ct.Series], gone: dict[str, list[int]]) -> dict[str, ct.Series]:
    tables = {}
    for name, table in clients.items():
        kept = [place for place in range(len(table.features)) if place not in gone.get(name, [])]
        pieces = table.pieces()
        names = [table.features[place] for place in kept]
        tables[name] = ct.Series.from_arrays([v[:, kept] for _, v in pieces], [t for t, _ in pieces], names)
    return tables


def load(path: str):
    spec = importlib.util.spec_from_file_location(Path(path).stem, FOLDER / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def labs() -> tuple[ct.Network, dict[str, ct.Series]]:
    clients, truth = ct.make_networks(variables=6, clients=3, samples=600, seed=3)
    return truth, lacking(clients, {"client-1": [0], "client-2": [4]})


@pytest.fixture(scope="module")
def fitted(labs):
    with pytest.warns(UserWarning, match="2 of 6 variables are not held by all clients"):
        return ct.OneRound().fit(labs[1])


def sure(fitted, truth: ct.Network) -> tuple[int, int]:
    """Return how many edges are stated at .9 or more, loops aside, and how many of them are true."""
    edges = fitted.edges(draws=30)
    edges = edges[(edges["probability"] >= 0.9) & (edges["source"] != edges["target"])]
    true = {edge[:3] for edge in truth.edge_list()}
    return len(edges), sum(tuple(edge) in true for edge in edges[["source", "target", "lag"]].itertuples(index=False))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [101, 104])
def test_few_rows_and_other_variables_make_no_wrong_edge_sure(seed: int) -> None:
    """From repaired pairwise moments these stated 28 and 32 edges, of which 17 and 14 were true."""
    clients, truth = ct.make_networks(variables=12, clients=3, samples=210, seed=seed)
    gone = np.random.default_rng([seed, 5]).permutation(12).tolist()
    tables = lacking(clients, {"client-1": gone[:3], "client-2": gone[3:5]})
    stated, right = sure(ct.OneRound(compare=False).fit(tables), truth)
    assert right >= 3
    assert right >= 0.9 * stated


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif("COTEMPO_DATA" not in os.environ, reason="needs DREAM4 in COTEMPO_DATA")
def test_genes_that_labs_lack_make_no_wrong_edge_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """From repaired pairwise moments some 70 edges were stated here, 10 of them true."""
    monkeypatch.syspath_prepend(FOLDER / "benchmarks" / "networks")
    found = load("benchmarks/networks/lacking.py")
    measured = [found.measure(*found.dream4(4, subset), [4, subset], 30) for subset in (8, 9)]
    stated, right = (sum(one[f"lacking_{word}"] for one in measured) for word in ("sure", "right"))
    assert stated <= 6
    assert stated - right <= 1


def test_every_client_learns_whether_joining_helped(fitted) -> None:
    assert list(fitted.benefit) == ["client-0", "client-1", "client-2"]
    assert all(abs(benefit.gain) < 1.0 for benefit in fitted.benefit.values())


def test_the_result_and_its_report_say_what_was_done(fitted, tmp_path: Path) -> None:
    (note,) = [line for line in fitted.advice() if "variables" in line]
    assert note.startswith("2 of 6 variables are not held by all clients")
    page = fitted.report(tmp_path / "page.html").read_text()
    assert note.split(":")[0] in page
    assert "probability" in page


def test_shared_variables_are_advised_where_the_others_harm() -> None:
    state = ct.OneRound().fit(ct.make_networks(variables=3, clients=2, samples=200, seed=0)[0]).state
    worse = replace(state, shared=("x0", "x1"), lost=(0.5, 0.1))
    assert any("predicted better without the others" in line for line in ct.OneRound().notes(worse))
    assert not any("better" in line for line in ct.OneRound().notes(replace(worse, lost=(0.1, 0.1))))


@pytest.mark.filterwarnings("ignore")
def test_a_variable_of_a_client_that_left_is_nobodys_and_old_advice_is_gone() -> None:
    clients, _ = ct.make_networks(variables=4, clients=4, samples=800, seed=3)
    noise = np.random.default_rng(0).normal(size=(clients["client-3"].rows, 1))
    own = clients["client-3"]
    clients["client-3"] = replace(own, values=np.hstack([own.values, noise]), features=(*own.features, "own"))
    fitted = ct.OneRound(restarts=0).fit(clients, progress=False)
    fitted = fitted.method.result(replace(fitted.outcome, state=replace(fitted.state, lost=(1.0, 0.1))))
    assert any("learn from" in line for line in fitted.advice())
    left = fitted.remove({"client-3": clients["client-3"]})
    assert "nobody measured own: learn again without it" in left.advice()
    assert not any("learn from" in line for line in left.advice())
    assert fitted.benefit
    assert not left.benefit  # those of the network before
    assert any("not after `add` or `remove`" in line for line in left.advice())


def test_a_late_client_that_lacks_a_variable_joins_and_leaves(labs) -> None:
    truth, tables = labs
    method = ct.OneRound(compare=False)
    late = {"client-2": tables["client-2"]}
    before = method.fit({name: table for name, table in tables.items() if name != "client-2"})
    joined = before.add(late)
    found, wanted = (ct.score_network(one.network, truth)["within_f1"] for one in (joined, method.fit(tables)))
    assert found == pytest.approx(wanted, abs=0.15)
    left = joined.remove(late)
    np.testing.assert_allclose(left.network.within, before.network.within, atol=1e-6)
    complete = ct.make_networks(variables=6, clients=3, samples=600, seed=3)[0]
    whole = method.fit({name: complete[name] for name in ("client-0", "client-1")})
    assert whole.add(late).state.gaps
    np.testing.assert_allclose(whole.add(late).remove(late).state.sums, whole.state.sums, atol=1e-6)


@pytest.mark.parametrize("method", [ct.FDBNL(), ct.PFDBNL(), ct.EdgeRanking()])
def test_methods_that_need_the_same_variables_name_the_one_that_does_not(labs, method: ct.Method) -> None:
    needs = r"OneRound takes clients with different variables.*the 4 that all hold: table\.select\(features="
    with pytest.raises(SchemaError, match=needs):
        method.fit(labs[1])


@pytest.mark.filterwarnings("ignore")
def test_names_that_differ_in_case_are_pointed_out() -> None:
    """MYC at one lab and myc at another became two variables without a word."""
    clients, _ = ct.make_networks(variables=3, clients=2, samples=200, seed=0)
    clients["client-1"] = replace(clients["client-1"], features=("x0", "X1", "x2"))
    advice = ct.OneRound(compare=False).fit(clients).advice()
    assert any(line.startswith("x1 and X1 differ in case only") for line in advice)


def test_gaps_are_filled_at_most_25_times(monkeypatch: pytest.MonkeyPatch, labs) -> None:
    monkeypatch.setattr("cotempo.networks.oneround.TOLERANCE", 0.0)
    with pytest.warns(UserWarning, match="not held by all"):
        fitted = ct.OneRound(compare=False).fit(labs[1])
    assert sum(record["phase"] == "fill" for record in fitted.history) == 25


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("options", "value"), [({}, 12.0), ({"compare": False}, np.nan), ({"personal": True}, 12.0)])
def test_a_variable_that_says_nothing_at_one_client_is_taken_for_not_measured_there(
    options: dict, value: float
) -> None:
    clients, _ = ct.make_networks(variables=5, clients=3, samples=600, seed=1)
    values = clients["client-1"].values.copy()
    values[:, 2] = value
    still = {**clients, "client-1": replace(clients["client-1"], values=values)}
    fitted, without = (
        ct.OneRound(restarts=0, **options).fit(tables, progress=False)
        for tables in (still, lacking(clients, {"client-1": [2]}))
    )
    np.testing.assert_allclose(fitted.network.within, without.network.within, atol=1e-9)
    assert ("client-1: column 'x2' is constant" in fitted.advice()) == (value == 12.0)
    assert list(fitted.benefit) == list(without.benefit)


@pytest.mark.filterwarnings("ignore")
def test_a_variable_that_is_constant_everywhere_is_refused() -> None:
    clients, _ = ct.make_networks(variables=4, clients=2, samples=200, seed=1)
    for name, table in clients.items():
        clients[name] = replace(table, values=np.where(np.arange(4) == 2, 12.0, table.values))
    with pytest.raises(DataError, match="column x2: values must vary at some client"):
        ct.OneRound(restarts=0).fit(clients, progress=False)


@pytest.mark.filterwarnings("ignore")
def test_a_late_client_with_a_constant_variable_joins() -> None:
    clients, _ = ct.make_networks(variables=4, clients=3, samples=300, seed=1)
    late = clients.pop("client-2")
    late = replace(late, values=np.where(np.arange(4) == 2, 1.0, late.values))
    assert ct.OneRound(restarts=0).fit(clients, progress=False).add({"client-2": late}).state.gaps
