from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from cotempo.errors import ParameterError
from cotempo.series.baselines.pypots import train_peer

HERE = importlib.util.find_spec("pypots") is not None


@pytest.mark.skipif(HERE, reason="PyPOTS is installed")
def test_a_missing_package_is_named(table):
    with pytest.raises(ParameterError, match=r"saits must be installed.*cotempo\[baselines\]"):
        train_peer("saits", table, epochs=1, window=8)


def test_an_unknown_peer_is_refused(table):
    with pytest.raises(ParameterError, match="'saits' or 'csdi'"):
        train_peer("brits", table, epochs=1)


@pytest.mark.skipif(not HERE, reason="PyPOTS (extra baselines) is not installed")
@pytest.mark.parametrize("name", ["saits", "csdi"])
def test_peers_fill_every_gap_and_leave_measurements_alone(name, table):
    filled = train_peer(name, table, epochs=1, window=8).impute(table)
    seen = ~np.isnan(table.values)
    assert np.isfinite(filled.values).all()
    assert np.array_equal(filled.values[seen], table.values[seen])
