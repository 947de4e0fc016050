"""Made series follow the law that the truth tells, and its best guess is the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cotempo.data import Series, hide, make_series
from cotempo.errors import ParameterError


def test_conditional_mean_agrees_with_a_precision_matrix() -> None:
    clients, truth = make_series(1, 1, 6, 3, missing=0.3, seed=4)
    series = clients["client-0"]
    # An independent way: the covariance built cell by cell, the guess from the inverse of the whole matrix.
    cells = [(row, feature) for row in range(6) for feature in range(3)]
    shared = truth.loadings @ truth.loadings.T
    covariance = np.zeros((18, 18))
    for first, (row, feature) in enumerate(cells):
        for second, (other_row, other) in enumerate(cells):
            own = truth.noise**2 if first == second else 0.0
            covariance[first, second] = truth.persistence ** abs(row - other_row) * shared[feature, other] + own
    precision = np.linalg.inv(covariance)
    flat = series.values.ravel()
    hidden = np.isnan(flat)
    guess = -np.linalg.solve(precision[np.ix_(hidden, hidden)], precision[np.ix_(hidden, ~hidden)] @ flat[~hidden])
    found = truth.conditional_mean(series).ravel()
    assert found[hidden] == pytest.approx(guess, rel=1e-9)
    assert np.array_equal(found[~hidden], flat[~hidden])


def test_best_guess_beats_others_and_has_the_error_it_should() -> None:
    clients, truth = make_series(4, 1, 300, missing=0.3, seed=1)
    errors, wider = [], []
    for name, series in clients.items():
        hidden = np.isnan(series.values)
        errors += (truth.conditional_mean(series) - truth.complete[name].values)[hidden].tolist()
        wider += truth.complete[name].values[hidden].tolist()
        assert truth.noise**2 < np.var(errors) < 0.3 * np.var(wider)


def test_windows_use_less_and_guess_worse() -> None:
    clients, truth = make_series(1, 2, 200, missing=0.5, seed=2)
    series, whole = clients["client-0"], truth.complete["client-0"].values
    hidden = np.isnan(series.values)
    full, narrow = (np.mean((truth.conditional_mean(series, window=size) - whole)[hidden] ** 2) for size in (None, 1))
    assert full < narrow
    first = series.select(np.arange(10))
    assert np.allclose(truth.conditional_mean(first), truth.conditional_mean(series, window=10)[:10])


def test_rows_that_are_left_out_are_not_taken_for_neighbours() -> None:
    clients, truth = make_series(1, 1, 9, 1, factors=1, seed=0)
    sparse = clients["client-0"].select([0, 8])
    blank, _ = hide(sparse, np.array([[False], [True]]))
    shared = float(truth.loadings[0, 0] ** 2)
    weight = truth.persistence**8 * shared / (shared + truth.noise**2)
    assert truth.conditional_mean(blank)[1, 0] == pytest.approx(weight * blank.values[0, 0])


def test_series_have_the_told_covariance() -> None:
    clients, truth = make_series(1, 400, 12, 3, seed=3)
    cells = clients["client-0"].values.reshape(400, 36)
    expected = truth.covariance(np.arange(12.0))
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 400)
    assert (np.abs(np.cov(cells.T) - expected) < 5 * error).all()


def test_share_of_missing_cells_and_seeds() -> None:
    clients, truth = make_series(2, 3, 50, missing=0.25, seed=7)
    for name, series in clients.items():
        assert np.isnan(series.values).mean() == 0.25
        assert isinstance(truth.complete[name], Series)
        assert series.fingerprint() == make_series(2, 3, 50, missing=0.25, seed=7)[0][name].fingerprint()
    assert clients["client-0"].fingerprint() != make_series(2, 3, 50, missing=0.25, seed=8)[0]["client-0"].fingerprint()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 0}, "length must be"),
        ({"features": True}, "features must be"),
        ({"noise": 0}, "noise must be"),
        ({"missing": 1.0}, "missing must be"),
    ],
)
def test_wrong_sizes_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make_series(**options)


def test_large_windows_are_refused() -> None:
    clients, truth = make_series(1, 1, 2000, missing=0.1)
    with pytest.raises(ParameterError, match="at most 5000 cells, got 2000 rows; pass window="):
        truth.conditional_mean(clients["client-0"])
    assert np.isfinite(truth.conditional_mean(clients["client-0"], window=50)).all()
