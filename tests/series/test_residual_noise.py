from __future__ import annotations

import numpy as np

from cotempo.series.filling.calibration import add_imputation_errors, imputation_errors
from cotempo.series.filling.stages import Filler
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Scale, SeriesRows


def test_features_err_together_and_measurements_stay():
    stream = np.random.default_rng(0)
    errors = np.repeat(stream.normal(size=(300, 1)), 2, axis=1)
    missing = stream.random((4000, 1)) < 0.5
    rough = add_imputation_errors(np.zeros((4000, 2)), np.repeat(missing, 2, axis=1), errors, stream)
    assert (rough[:, 0] == rough[:, 1]).all()
    assert (rough[~missing[:, 0]] == 0).all()
    assert np.isclose(rough[missing[:, 0], 0].std(), errors[:, 0].std(), rtol=0.1)


def test_without_errors_nothing_changes():
    filled = np.ones((3, 2))
    assert add_imputation_errors(filled, filled > 0, np.zeros((0, 2)), np.random.default_rng(0)) is filled


def test_errors_are_those_of_hidden_rows():
    """Interpolation of a straight line errs nowhere, that of noise by about its size."""
    stream = np.random.default_rng(0)
    values = np.column_stack([np.arange(400.0), 50 * stream.normal(size=400)])
    values[::7, 0] = np.nan
    filler = Filler.closed(Scale.of(values))
    errors = imputation_errors(filler, SeriesRows(values, (400,)), SeriesSettings(window=8), stream)
    inner = errors[:, 0][~np.isnan(errors[:, 0])]
    assert np.median(np.abs(inner)) < 1e-9
    assert 40 < np.nanstd(errors[:, 1]) < 90
