"""Sums of window moments, and the Gaussian process that they tell."""

from __future__ import annotations

import numpy as np
import pytest

from cotempo.series.filling.gaps import interpolate_rows
from cotempo.series.moments.gaussian import Gaussian, mean_products
from cotempo.series.moments.model_choice import PRIORS, USUAL, hidings, split
from cotempo.series.moments.moments import (
    WindowMoments,
    find_units,
    reach,
    sum_spreads,
    sum_units,
    sum_windows,
    to_steps,
)
from cotempo.series.seriesmoments import first_guess, learn
from cotempo.series.windows import SeriesRows


def walks(rows: int, features: int, seed: int = 0) -> np.ndarray:
    stream = np.random.default_rng(seed)
    common = np.cumsum(stream.normal(size=(rows, 1)), axis=0)
    return common + np.cumsum(0.3 * stream.normal(size=(rows, features)), axis=0) + stream.normal(size=(rows, features))


def scaled(values: np.ndarray, lengths: tuple[int, ...]) -> SeriesRows:
    rows = SeriesRows(values, lengths)
    return SeriesRows(find_units(**sum_units(rows)).apply(values), lengths)


def test_units_are_centre_and_usual_step():
    values = walks(200, 2)
    units = find_units(**sum_units(SeriesRows(values, (120, 80))))
    inside = np.delete(np.diff(values, axis=0), 119, axis=0)
    assert np.allclose(units.centre, values.mean(axis=0))
    assert np.allclose(units.step, np.sqrt((inside**2).mean(axis=0)))


def test_a_step_over_a_gap_counts_as_a_random_walks():
    values = np.array([[0.0], [np.nan], [2.0]])
    assert find_units(**sum_units(SeriesRows(values, (3,)))).step == pytest.approx(np.sqrt(2.0))


def test_window_moments_are_products_of_steps_and_levels():
    rows = SeriesRows(walks(9, 2), (5, 4))
    found, total = sum_windows(rows, 4), np.zeros((8, 8))
    for first, end in rows.bounds:
        for row in range(first + 1, end):
            x = [rows.values[max(row - lag, first)] for lag in range(4)]
            z = np.concatenate([x[0] - x[1], x[1], x[1] - x[2], x[2] - x[3]])
            total += np.outer(z, z)
    assert np.allclose(found.products.reshape(8, 8), total)
    assert (found.counts == 7).all()


@pytest.mark.parametrize(("first", "end"), [(1, 9), (3, 7)])
def test_spreads_are_those_of_the_windows(first: int, end: int):
    stream = np.random.default_rng(0)
    root = stream.normal(size=(18, 18))
    covariance, total = root @ root.T, np.zeros((12, 12))
    index = reach(SeriesRows(np.zeros((9, 2)), (9,)), 6)
    for row in range(first, end):
        linear = np.stack([to_steps(cell.reshape(9, 2)[index[row - 1]]).ravel() for cell in np.eye(18)], axis=1)
        total += linear @ covariance @ linear.T
    assert np.allclose(sum_spreads(covariance.reshape(9, 2, 9, 2), first, end, 6).reshape(12, 12), total)


def test_packed_moments_come_back_and_embed():
    found = sum_windows(SeriesRows(walks(30, 2), (30,)), 4)
    back = WindowMoments.unpack(found.pack(), found.counts)
    assert np.allclose(back.products, found.products)
    columns = np.array([2, 0])
    wide = found.embed(columns, 3)
    assert np.allclose(wide.take(columns).products, found.products)
    assert wide.counts[1].sum() == 0


def test_a_random_walk_fills_linearly():
    rows = scaled(np.where(np.random.default_rng(1).random((60, 3)) < 0.4, np.nan, walks(60, 3)), (40, 20))
    line = interpolate_rows(rows, np.zeros(3))
    inner = Gaussian.walk(np.full(3, 1e12), np.eye(3)).fill(rows)
    assert np.allclose(inner, line, atol=1e-6)


def test_conditional_mean_and_deviation_are_exact():
    """Against dense formulas with the covariance of the whole piece."""
    values = walks(40, 2)
    rows = scaled(values, (40,))
    model = Gaussian.of(sum_windows(rows, 6), PRIORS[3])
    gone = np.random.default_rng(3).random((24, 2)) < 0.5
    part = rows.values[:24]
    covariance = np.linalg.inv(model.precision(24))
    m, o = gone.ravel(), ~gone.ravel()
    gain = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
    left = covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)]
    filled, deviation = model.measure(SeriesRows(np.where(gone, np.nan, part), (24,)))
    assert np.allclose(filled[gone], gain @ part.ravel()[o])
    assert np.allclose(deviation[gone], np.sqrt(np.diag(left)))
    drawn = model.draw(SeriesRows(np.where(gone, np.nan, part), (24,)), 4000, np.random.default_rng(0))
    assert np.allclose(drawn.mean(axis=0)[gone], filled[gone], atol=0.1)
    assert np.allclose(drawn.std(axis=0)[gone], deviation[gone], rtol=0.1)


def test_a_known_process_is_learned():
    """A vector autoregression: the conditional mean of the truth is hardly better than what was learned."""
    stream, weights = np.random.default_rng(0), np.array([[0.6, 0.3], [0.0, 0.8]])
    values = np.zeros((6000, 2))
    for row in range(1, len(values)):
        values[row] = weights @ values[row - 1] + stream.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]])
    stage, _, _ = learn(SeriesRows(values[:4000], (4000,)), 12)
    gone = stream.random((2000, 2)) < 0.5
    test = values[4000:]
    filled = stage.units.undo(stage.process.fill(SeriesRows(stage.units.apply(np.where(gone, np.nan, test)), (2000,))))
    precision = np.zeros((4000, 4000))
    noise = np.linalg.inv([[1, 0.8], [0.8, 1]])
    for row in range(1, 2000):
        law = np.concatenate([-weights, np.eye(2)], axis=1)
        precision[2 * row - 2 : 2 * row + 2, 2 * row - 2 : 2 * row + 2] += law.T @ noise @ law
    m = gone.ravel()
    known = np.where(gone, 0.0, test).ravel()
    best = -np.linalg.solve(precision[np.ix_(m, m)] + 1e-9 * np.eye(m.sum()), (precision @ known)[m])
    ours, least = np.abs(filled - test)[gone].mean(), np.abs(best - test.ravel()[m]).mean()
    assert ours < 1.02 * least


def test_expected_moments_of_gaps_are_near_those_of_complete_rows():
    values = walks(3000, 3, seed=4)
    rows = scaled(values, (3000,))
    holes = SeriesRows(np.where(np.random.default_rng(5).random(values.shape) < 0.3, np.nan, rows.values), rows.lengths)
    truth = sum_windows(rows, 4)
    sums = sum_units(holes)
    model = first_guess(find_units(**sums), sums["pairs"], sums["steps"])
    for _ in range(4):
        found = model.expect(holes, 4)
        model = Gaussian.of(found, PRIORS[3])
    steps = found.products[0, :, 0] / found.counts
    assert np.allclose(steps, truth.products[0, :, 0] / truth.counts, atol=0.08)


def test_moments_of_different_clients_fit_together():
    """Pairs of features counted in different windows need not make a covariance; the mended ones do."""
    parts = [(walks(60, 3, seed), np.array(columns)) for seed, columns in ((0, [0, 1]), (1, [1, 2]), (2, [0, 2]))]
    total = WindowMoments.none(6, 3)
    for values, columns in parts:
        total += sum_windows(scaled(values[:, columns], (60,)), 6).embed(columns, 3)
    found = mean_products(total).reshape(18, 18)
    assert np.linalg.eigvalsh(found)[0] > 0
    for column in range(3):
        own = total.products[:, column, :, column] / total.counts[column, column]
        assert np.allclose(mean_products(total)[:, column, :, column], own, atol=0.35 * np.abs(own).max())


def test_what_is_hidden_depends_on_each_piece_only():
    values = walks(100, 3)
    values[40:70] *= 1000.0
    whole = SeriesRows(values, (40, 30, 30))
    single = SeriesRows(values[40:70] / 1000.0, (30,))
    for all_of_it, part in zip(hidings(whole), hidings(single), strict=True):
        assert (all_of_it[40:70] == part).all()
    kept, held = split(whole)
    assert len(kept.values) + len(held.values) == 100


def test_pieces_that_only_rise_are_set_apart_one_by_one():
    """Counters of equal length: about a fifth is set apart, whatever their units, order and owner."""
    stream = np.random.default_rng(1)
    pieces = stream.exponential(size=(100, 20, 2)).cumsum(axis=1)

    def held(given: np.ndarray) -> list[bool]:
        return [bool(len(split(SeriesRows(piece, (20,)))[1].values)) for piece in given]

    chosen = held(pieces)
    assert 0.1 < np.mean(chosen) < 0.3
    assert held(pieces * np.array([1e-3, 60.0]) + np.array([1e4, -7.0])) == chosen
    assert held(pieces[:, :, ::-1]) == chosen
    assert held(np.concatenate([pieces, np.full((100, 20, 1), np.nan)], axis=2)) == chosen
    whole = SeriesRows(pieces.reshape(-1, 2), (20,) * 100)
    assert np.array_equal(split(whole)[1].values, pieces[chosen].reshape(-1, 2))


def test_where_nothing_is_left_to_learn_from_the_usual_prior_stands():
    stream = np.random.default_rng(2)
    pieces = (stream.normal(size=(20, 2)).cumsum(axis=0) for _ in range(100))
    piece = next(piece for piece in pieces if not len(split(SeriesRows(piece, (20,)))[0].values))
    rows = SeriesRows(piece, (20,))
    stage, _, _ = learn(rows, 6)
    usual = Gaussian.of(sum_windows(stage.units.rows(rows), 6), PRIORS[USUAL])
    for mine, theirs in zip(stage.process.whiteners, usual.whiteners, strict=True):
        assert np.allclose(mine, theirs)
