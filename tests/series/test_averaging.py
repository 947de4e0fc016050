from __future__ import annotations

import numpy as np

from cotempo.data import Series, hide, make_series
from cotempo.series import interpolate
from cotempo.series.baselines.averaging import average_imputers
from cotempo.series.settings import Sizes


def test_clients_with_other_features_share_one_imputer():
    made, _ = make_series(clients=3, length=240, features=3, factors=1, noise=0.2, seed=5)
    few = made["client-1"]
    made["client-1"] = Series(few.features[1:], few.sequence, few.time, few.values[:, 1:])
    stream = np.random.default_rng(0)
    holes = {name: hide(table, stream.random(table.values.shape) < 0.3)[0] for name, table in made.items()}
    sizes = Sizes(window=12, imputer_width=16, imputer_layers=1, batch=32)
    fillers = average_imputers(holes, sizes, 120, rounds=3)
    weights = [filler.filler.stages[1].own for filler in fillers.values()]
    assert all(np.array_equal(weights[0], other) for other in weights)
    errors = np.zeros(2)
    for name, series in holes.items():
        gone = np.isnan(series.values)
        filled = fillers[name].impute(series)
        assert filled.features == series.features
        assert np.array_equal(filled.values[~gone], series.values[~gone])
        errors += [np.abs(part.values - made[name].values)[gone].sum() for part in (filled, interpolate(series))]
    assert errors[0] < 0.95 * errors[1]
