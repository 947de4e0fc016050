from __future__ import annotations

import numpy as np
from networks.baselines import Alldata, Ave, Best, Local, dynotears

import cotempo as ct
from cotempo.networks.admm.acyclicity import acyclicity
from cotempo.networks.moments import Gram, transitions


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


def test_dynotears_finds_the_truth_from_a_gram() -> None:
    tables, truth = ct.make_networks(variables=20, clients=1, samples=512, seed=0)
    own = Gram.of_rows(transitions(tables["client-0"].values, 1))
    found = dynotears(own.per_row(own.mean), 20)
    assert acyclicity(found[:20])[0] <= 1e-8
    assert np.count_nonzero((np.abs(found[:20]) > 0.15) != (truth.within != 0)) <= 4
