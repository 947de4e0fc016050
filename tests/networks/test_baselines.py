from __future__ import annotations

import numpy as np
import pytest
from networks.baselines import Alldata, Ave, Best, Local, pool

import cotempo as ct
from cotempo.errors import DataError, ParameterError
from cotempo.networks.moments import moments


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


def test_pooled_moments_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) + n for n in (5, 9, 30)]
    found, expected = pool([moments([part], 0) for part in parts]), moments([np.vstack(parts)], 0)
    assert found.rows == expected.rows
    np.testing.assert_allclose(found.scatter, expected.scatter)


def test_one_client_alone_is_all_data() -> None:
    tables, truth = ct.make_networks(variables=5, clients=1, samples=100, seed=0)
    expected = Alldata().fit(tables).within
    np.testing.assert_array_equal(Local().fit(tables)["client-0"].within, expected)
    np.testing.assert_array_equal(Best().fit(tables, truth).within, expected)


def test_bad_input_is_named_by_client() -> None:
    tables, _ = ct.make_networks(variables=3, clients=2, samples=40, seed=0)
    flat = ct.Series.from_arrays(np.ones((9, 3)), features=tables["client-0"].features)
    short = ct.Series.from_arrays(tables["client-0"].values[:2], features=tables["client-0"].features)
    with pytest.raises(DataError, match=r"client b, column x0: values must vary"):
        Local().fit({"a": tables["client-0"], "b": flat})
    with pytest.raises(DataError, match=r"client b: at least 2 stretches of 3 rows"):
        Alldata(lags=2).fit({"a": tables["client-0"], "b": short})
    with pytest.raises(ParameterError, match="lambda_within"):
        Alldata(lamda_within=1.0)
