from __future__ import annotations

import numpy as np
from networks.baselines import Alldata, Ave, Best, Local

import cotempo as ct


def test_baselines_rank_as_they_should() -> None:
    tables, truth = ct.make_networks(variables=6, clients=3, samples=150, seed=1)
    distance = {
        "all": ct.score_network(Alldata().fit(tables), truth)["shd_double"],
        "average": ct.score_network(Ave().fit(tables), truth)["shd_double"],
        "best": ct.score_network(Best().fit(tables, truth), truth)["shd_double"],
    }
    local = Local().fit(tables)
    assert sorted(local) == sorted(tables)
    each = [ct.score_network(network, truth)["shd_double"] for network in local.values()]
    assert distance["best"] == min(each)
    assert distance["all"] < np.mean(each)
    assert distance["all"] <= distance["average"]


def test_one_client_alone_is_all_data() -> None:
    tables, truth = ct.make_networks(variables=5, clients=1, samples=100, seed=0)
    expected = Alldata().fit(tables).within
    np.testing.assert_array_equal(Local().fit(tables)["client-0"].within, expected)
    np.testing.assert_array_equal(Best().fit(tables, truth).within, expected)
