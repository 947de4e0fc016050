from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from series.baselines import train_central, train_local, train_saits

from cotempo.errors import ParameterError
from cotempo.series.plots import plot_gaps, plot_samples

PYPOTS = importlib.util.find_spec("pypots") is not None


@pytest.mark.parametrize("fill", ["zero", "linear", "rough"])
def test_every_owner_gets_a_model_of_its_own(small, federation, fill):
    _, clients, _ = federation
    models = train_local(clients, small, 2, fill=fill)
    for name, table in clients.items():
        assert models[name].sample(2).features == table.features


def test_what_stands_in_gaps_is_learned_from(small, federation):
    _, clients, _ = federation
    drawn = [
        train_local(clients, small, 2, fill=fill)["client-0"].sample(2).values for fill in ("zero", "linear", "rough")
    ]
    assert not any(np.array_equal(drawn[k], drawn[k - 1]) for k in range(3))


def test_all_data_in_one_place(small, federation):
    _, clients, public = federation
    model = train_central(clients, public, small, 2)
    assert model.sample(3).features == ("x0", "x1", "x2")


def test_pictures_show_what_they_are_given(model, table):
    drawn = model.sample(6)
    assert len(plot_samples(drawn).axes) == 3
    assert len(plot_gaps(table, model.impute(table, draws=3), truth=table).axes) == 3
    assert len(model.impute(table, draws=3).plot(table).axes) == 3


@pytest.mark.skipif(PYPOTS, reason="PyPOTS is installed")
def test_a_missing_package_is_named(table):
    with pytest.raises(ParameterError, match=r"PyPOTS must be installed.*cotempo\[baselines\]"):
        train_saits(table, epochs=1, window=8)


@pytest.mark.skipif(not PYPOTS, reason="PyPOTS (extra baselines) is not installed")
def test_peers_fill_every_gap_and_leave_measurements_alone(table):
    filled = train_saits(table, epochs=1, window=8).impute(table)
    seen = ~np.isnan(table.values)
    assert np.isfinite(filled.values).all()
    assert np.array_equal(filled.values[seen], table.values[seen])
