"""Honest clients that are alike: nobody is left out, not even one with a tenth of the others' rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import AdviceWarning

SMALL = "client-3"


@pytest.mark.parametrize("seed", [1000, 1001])
def test_a_small_client_is_not_suspected_by_an_edge_ranking(seed: int) -> None:
    clients = dict(ct.make_networks(variables=6, clients=8, samples=2400, seed=seed)[0])
    clients[SMALL] = clients[SMALL].select(np.arange(30))
    assert ct.EdgeRanking().fit(clients, progress=False).suspects == ()


def test_a_client_of_one_sequence_is_not_suspected_by_a_point_process() -> None:
    clients = dict(ct.make_events(clients=8, sequences=10, seed=1004)[0])
    clients[SMALL] = clients[SMALL].take([0])
    assert ct.FedPointProcess(process="hawkes", rounds=8).fit(clients, progress=False).suspects == ()


@pytest.mark.parametrize("seed", [1000, 1001])
def test_a_client_of_one_sequence_is_not_suspected_by_fedpp(seed: int) -> None:
    clients = dict(ct.make_events(clients=8, sequences=10, seed=seed)[0])
    clients[SMALL] = clients[SMALL].take([0])
    method = ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48)
    assert method.fit(clients, progress=False).suspects == ()


@pytest.mark.parametrize("seed", [3004, 3016])  # the first for its own networks, the second for its held-out rows
def test_a_small_client_is_not_suspected_by_pfdbnl(seed: int) -> None:
    clients = dict(ct.make_networks(variables=6, clients=8, samples=2400, seed=seed)[0])
    clients[SMALL] = clients[SMALL].select(np.arange(30))
    assert ct.PFDBNL(compare=False, rounds=15).fit(clients, seed=seed, progress=False).suspects == ()


def test_what_is_forgiven_a_small_client_hides_no_liar_from_pfdbnl() -> None:
    clients, truth = ct.make_networks(variables=6, clients=8, samples=2400, seed=3101)
    method = ct.PFDBNL(compare=False, rounds=15)

    def wrong(fitted: Any) -> float:
        return float(
            np.mean([ct.score_network(fitted[name].network, truth)["shd"] for name in clients if name != SMALL])
        )

    honest = method.fit(clients, seed=3101, progress=False)
    with pytest.warns(AdviceWarning, match="client-3 was left out of .*solve"):
        lied_to = method.fit(clients, attack=ct.Attack("sign_flip", clients=(SMALL,)), seed=3101, progress=False)
    assert lied_to.suspects == (SMALL,)
    assert wrong(lied_to) <= wrong(honest) + 1


def test_clients_whose_steps_are_of_another_size_are_not_suspected_by_moments_of_windows() -> None:
    clients = dict(ct.make_series(clients=8, length=160, features=3, seed=1011)[0])
    assert ct.FedMoments(window=12).fit(clients, progress=False).suspects == ()


def test_a_small_client_is_not_suspected_by_moments_of_windows() -> None:
    clients = dict(ct.make_series(clients=8, length=150, features=3, seed=3000)[0])
    clients[SMALL] = clients[SMALL].select(np.arange(25))
    assert ct.FedMoments(window=12).fit(clients, progress=False).suspects == ()
