"""What must not change a result or its benefit: units, the order of columns and clients, names, copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import cotempo as ct

METHODS = {
    "FDBNL": ct.FDBNL(),
    "PFDBNL": ct.PFDBNL(coupling=0.3),
    "OneRound": ct.OneRound(restarts=0),
    "OneRound, personal": ct.OneRound(personal=True, restarts=0, compare=False),
}
COMPARED = {name: method for name, method in METHODS.items() if method.compare}
each = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
each_compared = pytest.mark.parametrize("method", COMPARED.values(), ids=COMPARED)
Tables = Mapping[str, ct.Series]


def tables(**changes: object) -> dict[str, ct.Series]:
    data = {"variables": 3, "clients": 2, "samples": 120, "noise": "unequal", "seed": 5, **changes}
    return ct.make_networks(**data)[0]


def mapped(clients: Tables, change: Callable[[np.ndarray], np.ndarray], features=None) -> dict[str, ct.Series]:
    return {
        name: ct.Series.from_arrays(change(table.values), features=features or table.features)
        for name, table in clients.items()
    }


def networks(fitted) -> list[ct.Network]:
    return [fitted.network, *(fitted[name].network for name in fitted.names)]


@each
def test_units_change_nothing(method: ct.Method) -> None:
    clients = tables()
    factor = np.array([1.0, 1e4, 1e-2])
    shift = factor * np.array([0.0, 300.0, -40.0])
    plain, other = (method.fit(one) for one in (clients, mapped(clients, lambda values: values * factor + shift)))
    for one, two in zip(networks(plain), networks(other), strict=True):
        np.testing.assert_allclose(two.within * factor[:, None] / factor, one.within, atol=1e-6)
        np.testing.assert_allclose(two.across * factor[:, None] / factor, one.across, atol=1e-6)
    assert plain.benefit.keys() == other.benefit.keys() == (clients.keys() if method.compare else set())
    for name, said in plain.benefit.items():
        assert other.benefit[name].gain == pytest.approx(said.gain, abs=1e-6)
        assert other.benefit[name].alone + np.log(factor).sum() == pytest.approx(said.alone, abs=1e-6)


@each
def test_order_of_columns_changes_nothing(method: ct.Method) -> None:
    clients = tables()
    order = [2, 0, 1]
    turned = mapped(clients, lambda values: values[:, order], [f"x{index}" for index in order])
    plain, other = method.fit(clients), method.fit(turned)
    assert other.network.variables == ("x2", "x0", "x1")
    for one, two in zip(networks(plain), networks(other), strict=True):
        np.testing.assert_allclose(two.within, one.within[np.ix_(order, order)], atol=1e-6)
        np.testing.assert_allclose(two.across[0], one.across[0][np.ix_(order, order)], atol=1e-6)
    for name, said in plain.benefit.items():
        assert other.benefit[name].gain == pytest.approx(said.gain, abs=1e-6)


@each
def test_names_and_order_of_clients_change_nothing(method: ct.Method) -> None:
    clients = tables()
    named = dict(zip(["zoo", "bank"], clients.values(), strict=True))
    plain, other = method.fit(clients), method.fit(named)
    for old, new in zip(clients, named, strict=True):
        np.testing.assert_allclose(other[new].network.within, plain[old].network.within, atol=1e-6)
        if method.compare:
            assert other.benefit[new].gain == pytest.approx(plain.benefit[old].gain, abs=1e-6)


@each_compared
def test_alone_is_the_same_method_on_the_own_rows(method: ct.Method) -> None:
    """As the only client, together is alone."""
    fitted = method.fit({"only": tables(clients=1, samples=80)["client-0"]})
    choice = method.joining(fitted.state).choice
    alone, together, _ = fitted.outcome.memories["only"].compared[choice]
    assert together == pytest.approx(alone, abs=1e-6)


@each_compared
def test_a_copy_of_oneself_helps_nobody(method: ct.Method) -> None:
    gains = []
    for seed in range(4):
        own = tables(clients=1, samples=120, seed=seed)["client-0"]
        gains += [said.gain for said in method.fit({"one": own, "two": own}).benefit.values()]
    assert abs(np.mean(gains)) < 0.1
