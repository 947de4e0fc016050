"""Clients that lack variables or cells are compared by what they have, and liars among them are still found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.federation import Expect, Message, Spec
from cotempo.robust.screening import find_suspects

pytestmark = pytest.mark.filterwarnings("ignore")
Labs = dict[str, ct.Series]


def make(clients: int) -> Labs:
    return dict(ct.make_networks(variables=6, clients=clients, samples=300 * clients, seed=3000)[0])


def without(labs: Labs, name: str, *columns: int) -> None:
    features = labs[name].features
    labs[name] = labs[name].select(features=[one for place, one in enumerate(features) if place not in columns])


def emptied(labs: Labs, name: str, column: int, share: float) -> None:
    values = labs[name].values.copy()
    values[: int(share * len(values)), column] = np.nan
    labs[name] = replace(labs[name], values=values)


def half_lack_one() -> Labs:
    labs = make(8)
    for name in list(labs)[:4]:
        without(labs, name, 5)
    return labs


def five_labs() -> Labs:
    labs = make(5)
    without(labs, "client-1", 0, 4)
    emptied(labs, "client-2", 3, 0.2)
    return labs


def one_of_five() -> Labs:
    labs = dict(ct.make_networks(variables=6, clients=5, samples=300, seed=0)[0])
    without(labs, "client-0", 5)
    return labs


LABS = [half_lack_one, five_labs, one_of_five]


@pytest.mark.parametrize("labs", LABS)
@pytest.mark.parametrize("compare", [True, False])
def test_labs_that_lack_genes_are_no_suspects(labs: Callable[[], Labs], compare: bool) -> None:
    fitted = ct.OneRound(compare=compare, restarts=0).fit(labs(), progress=False)
    assert not fitted.failures
    assert not np.isnan(fitted.network.within).any()


@pytest.mark.parametrize("labs", LABS[:2])
@pytest.mark.parametrize("kind", ["sign_flip", "scaling", "inner_product", "backdoor"])
def test_a_liar_among_labs_that_lack_genes_is_found(labs: Callable[[], Labs], kind: str) -> None:
    tables = labs()
    liar = list(tables)[-1]
    fitted = ct.OneRound(compare=False, restarts=0).fit(tables, progress=False, attack=ct.Attack(kind, clients=(liar,)))
    assert {failure["client"] for failure in fitted.failures} == {liar}


def test_who_lacks_a_gene_and_is_left_out_stops_nobody() -> None:
    labs = one_of_five()
    labs["client-0"] = replace(labs["client-0"], values=labs["client-0"].values + 1e6)
    fitted = ct.OneRound(restarts=0).fit(labs, progress=False)
    assert fitted.suspects == ("client-0",)
    assert list(fitted.benefit) == ["client-1", "client-2", "client-3", "client-4"]


def test_emptied_cells_are_no_reason_to_suspect_in_a_ranking() -> None:
    labs = make(8)
    emptied(labs, "client-2", 1, 0.5)
    method, screen = ct.EdgeRanking(score="granger", lags=1, copula=True), ct.Robust("screen", cap=None)
    assert not method.fit(labs, reducer=screen, progress=False).failures


def told(counts: list[float], mean: float) -> Message:
    return Message({"counts": np.array(counts), "sums": np.array(counts) * mean})


EXPECT = Expect(
    {"counts": Spec((3,), low=0), "sums": Spec((3,))},
    sums=True,
    rows=lambda one: float(one["counts"].max()),
    seen=lambda one: dict.fromkeys(("counts", "sums"), one["counts"]),
)


def test_sums_are_compared_by_the_rows_that_have_them() -> None:
    honest = {name: told([50, 50, 50], mean) for name, mean in zip("abcd", [1.0, 1.1, 0.9, 1.2], strict=True)}
    assert not find_suspects({**honest, "e": told([50, 0, 5], 1.0)}, EXPECT)
    assert set(find_suspects({**honest, "e": told([50, 0, 5], 40.0)}, EXPECT)) == {"e"}


def test_sums_of_no_rows_are_found() -> None:
    honest = {name: told([50, 50, 50], mean) for name, mean in zip("abcd", [1.0, 1.1, 0.9, 1.2], strict=True)}
    lie = Message({"counts": np.array([50.0, 50, 0]), "sums": np.array([50.0, 50, 1e4])})
    found = find_suspects({**honest, "e": lie}, EXPECT)
    assert found == {"e": "it is of no rows, and yet its 'sums' is not zero"}


def test_columns_that_nobody_has_say_nothing() -> None:
    honest = {name: told([50, 50, 0], mean) for name, mean in zip("abcde", [1.0, 1.1, 0.9, 1.2, 1.3], strict=True)}
    assert not find_suspects(honest, EXPECT)
