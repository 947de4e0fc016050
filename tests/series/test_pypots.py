from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from cotempo.errors import ParameterError
from cotempo.series.baselines.pypots import train_saits

HERE = importlib.util.find_spec("pypots") is not None


@pytest.mark.skipif(HERE, reason="PyPOTS is installed")
def test_a_missing_package_is_named(table):
    with pytest.raises(ParameterError, match=r"PyPOTS must be installed.*cotempo\[baselines\]"):
        train_saits(table, epochs=1, window=8)


@pytest.mark.skipif(not HERE, reason="PyPOTS (extra baselines) is not installed")
def test_peers_fill_every_gap_and_leave_measurements_alone(table):
    filled = train_saits(table, epochs=1, window=8).impute(table)
    seen = ~np.isnan(table.values)
    assert np.isfinite(filled.values).all()
    assert np.array_equal(filled.values[seen], table.values[seen])
