"""Results say what their edges are worth: directions that a method cannot tell, and networks of single clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataError
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
    edges = [edge for edge in fitted.network.edges() if edge[2] == 0]
    source, target = (fitted.network.variables.index(name) for name in edges[0][:2])
    for reverse, told in ((0.4, False), (0.01, True)):
        within = np.where(fitted.network.within != 0, 0.6, 0.0)
        within[target, source] = reverse
        found = Confidence(within, np.ones_like(fitted.network.across))
        monkeypatch.setattr(type(fitted), "confidence", lambda *_, found=found, **__: found)
        monkeypatch.setattr(type(fitted), "_open_ends", lambda self: np.zeros((4, 4), dtype=bool))
        table = fitted.edges()
        mine = table[(table["lag"] == 0) & (table["source"] == edges[0][0]) & (table["target"] == edges[0][1])]
        assert mine["directed"].tolist() == [told]
        assert table[table["lag"] > 0]["directed"].all()


def test_every_client_finds_its_own_network_in_tables_and_report(personal, tmp_path: Path) -> None:
    table = personal.tables()["client_networks"]
    assert list(table)[:2] == ["client", "source"]
    for name in personal.names:
        mine = table[table["client"] == name].drop(columns="client")
        assert [tuple(row) for row in mine.itertuples(index=False)] == personal[name].network.edges()
    page = personal.report(tmp_path / "page.html").read_text()
    assert all(f"The own network of {name}" in page for name in personal.names)


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
