"""Moments where clients lack cells or variables, by expectation-maximisation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cotempo as ct
from cotempo.networks.completion import ColumnGaussian, complete_gram, gram_with_gaps, worth
from cotempo.networks.moments import Gram, Sums, log_densities, marginal_log_densities, pack, unpack


def correlated(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    return rng.normal(size=(rows, 4)) @ root.T + 3.0, root @ root.T


def test_nothing_is_changed_where_nothing_is_missing() -> None:
    values, _ = correlated(50, 0)
    model = ColumnGaussian(np.zeros(4), np.eye(4))
    for found, plain in zip(model.expect(values, np.ones(50)), Sums.of_rows(values), strict=True):
        np.testing.assert_allclose(found, plain)
    pairs = Sums.of_rows(values, pairwise=True).counts
    np.testing.assert_allclose(complete_gram(Sums.of_rows(values), pairs).gram, Gram.of_rows(values).gram)


def test_missing_cells_are_expected_given_the_others() -> None:
    model = ColumnGaussian(np.array([1.0, 2.0]), np.array([[4.0, 1.0], [1.0, 3.0]]))
    sums = model.expect(np.array([[3.0, np.nan]]), np.array([2.0]))
    filled, left = 2.0 + 0.25 * (3.0 - 1.0), 3.0 - 0.25
    np.testing.assert_allclose(sums.sums, [6.0, 2 * filled], rtol=1e-6)
    expected = 2 * np.array([[9.0, 3 * filled], [3 * filled, filled**2 + left]])
    np.testing.assert_allclose(unpack(sums.products, 2), expected, rtol=1e-6)


def test_sums_over_clients_are_the_sums_of_all_rows() -> None:
    values, covariance = correlated(60, 1)
    values[np.random.default_rng(1).random(values.shape) < 0.3] = np.nan
    values = values[~np.isnan(values).all(axis=1)]
    model = ColumnGaussian(np.full(4, 3.0), covariance)
    whole = model.expect(values, np.ones(len(values)))
    parts = [model.expect(part, np.ones(len(part))) for part in np.array_split(values, 3)]
    for field, total in zip(whole, Sums.stack(parts).total(), strict=True):
        np.testing.assert_allclose(field, total, atol=1e-9)


def test_the_covariance_is_found_and_is_one_that_rows_can_have() -> None:
    values, covariance = correlated(4000, 2)
    values[:1500, 0] = np.nan
    values[1500:3000, 1] = np.nan
    gram = gram_with_gaps(values, np.ones(len(values)))
    spread = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(
        gram.gram / gram.rows / np.outer(spread, spread), covariance / np.outer(spread, spread), atol=0.1
    )
    assert np.linalg.eigvalsh(gram.gram)[0] > 0
    assert 1000 < gram.rows < 4000


def test_rows_are_worth_their_rarest_pairs() -> None:
    assert worth(pack(np.full((3, 3), 10.0))) == pytest.approx(10.0)
    assert worth(np.array([100.0, 1.0, 0.0])) == pytest.approx(2 / 1.01)


def test_variables_that_are_not_held_are_integrated_out() -> None:
    rng = np.random.default_rng(3)
    network = ct.Network([[0, 0.5, 0], [0, 0, 0.4], [0, 0, 0]], 0.3 * rng.normal(size=(1, 3, 3)))
    variance, past = np.array([1.0, 0.5, 2.0]), np.cov(rng.normal(size=(40, 3)).T)
    rows = rng.normal(size=(7, 6))
    every = marginal_log_densities(rows, np.arange(3), network, variance, past)
    np.testing.assert_allclose(every, log_densities(rows, network, np.zeros(6), variance).sum(axis=1), rtol=1e-6)
    mixing = np.linalg.inv(np.eye(3) - network.within)
    effect = network.across[0] @ mixing
    now = effect.T @ past @ effect + mixing.T @ np.diag(variance) @ mixing
    joint = np.block([[now, effect.T @ past], [past @ effect, past]])
    some = [0, 2, 3, 5]
    expected = multivariate_normal(cov=joint[np.ix_(some, some)]).logpdf(rows[:, some])
    expected -= multivariate_normal(cov=past[np.ix_([0, 2], [0, 2])]).logpdf(rows[:, [3, 5]])
    found = marginal_log_densities(rows[:, some], np.array([0, 2]), network, variance, past)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
