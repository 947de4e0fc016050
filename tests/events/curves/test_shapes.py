"""The models an intensity over time is averaged from, against what can be computed otherwise."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.fft import dct, idct
from scipy.integrate import quad
from scipy.special import expit, gammaln, logsumexp

from cotempo.events.curves import piecewise, shapes, timeline, waves
from cotempo.events.curves.density import smooth_by
from cotempo.events.curves.piecewise import find_dead_times

COUNT, EXPOSURE = np.array([3.0, 2, 9, 0, 0, 1]), np.array([1.0, 1, 1, 2, 1, 1])


def every_segmentation(expected):
    """The log weight and the edges of all ways to cut six cells, by the definition of the model."""
    cells, rate = len(COUNT), COUNT.sum() / EXPOSURE.sum()
    chance = -np.expm1(-expected / cells)
    for number in range(cells):
        for inner in combinations(range(1, cells), number):
            edges = [0, *inner, cells]
            weight = number * np.log(chance) + (cells - 1 - number) * np.log1p(-chance)
            for first, last in pairwise(edges):
                n, e = COUNT[first:last].sum(), EXPOSURE[first:last].sum()
                alive = np.log(0.95) + gammaln(1 + n) - np.log(rate) - (1 + n) * np.log(1 / rate + e)
                weight += alive if n else np.logaddexp(alive, np.log(0.05))
            yield weight, edges


def test_change_points_are_exact():
    found = piecewise.segment(COUNT, EXPOSURE)
    ways = list(every_segmentation(found.expected))
    weights = np.array([weight for weight, _ in ways])
    assert found.evidence + np.log(len(piecewise.EXPECTED)) == pytest.approx(logsumexp(weights), abs=1e-9)
    jumps = np.zeros(5)
    for share, (_, edges) in zip(np.exp(weights - logsumexp(weights)), ways, strict=True):
        jumps[np.array(edges[1:-1], dtype=int) - 1] += share
    np.testing.assert_allclose(found.chance.sum(axis=1)[1:-1], jumps, atol=1e-9)
    drawn = found.draw(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), found.mean(), rtol=0.03)
    np.testing.assert_allclose((1 / drawn[:, :3]).mean(axis=0), found.inverse()[:3], rtol=0.03)


def test_a_jump_is_found_to_the_cell():
    count = np.random.default_rng(0).poisson(np.repeat([1.0, 6.0], [3337, 6743])).astype(float)
    rate = piecewise.level(count, np.ones(10_080))
    assert abs(int(np.argmax(np.abs(np.diff(rate)))) + 1 - 3337) <= 2


def test_bins_have_the_evidence_of_their_counts():
    found = piecewise.learn_bins(COUNT, EXPOSURE)[1]
    rate = COUNT.sum() / EXPOSURE.sum()

    def likelihood(n, e):
        return quad(lambda x: x**n * np.exp(-e * x) * np.exp(-x / rate) / rate, 0, 100)[0]

    exact = np.log(0.95 * likelihood(14, 3)) + np.log(0.95 * likelihood(1, 4))
    assert found.evidence + np.log(6) == pytest.approx(exact, abs=1e-8)


def test_leaving_one_out_is_what_it_says():
    count = np.random.default_rng(0).poisson(2.0, 40).astype(float)
    matrix = idct(dct(np.eye(40), norm="ortho", axis=0) * np.exp(-0.5 * (np.pi * np.arange(40) * 0.05) ** 2)[:, None],
                  norm="ortho", axis=0)  # fmt: skip
    found = smooth_by(count, np.ones(40), 0.05)
    own, mean = np.diag(matrix), count.mean()
    for cell in np.flatnonzero(count):
        less = count - (np.arange(40) == cell)
        wanted = (matrix @ less + 0.5 * own)[cell] / (matrix.sum(axis=1) + 0.5 * own / mean)[cell]
        assert found.without[cell] == pytest.approx(wanted, rel=1e-9)


def test_a_smooth_curve_is_at_the_mode_and_its_information_right():
    rng = np.random.default_rng(0)
    place = (np.arange(100) + 0.5) / 100
    cells = waves.ClockCells(rng.poisson(5 + 3 * np.sin(6 * place)).astype(float), np.ones(100), place)
    basis = waves.make_basis(place, waves.LENGTHS[8], 0.0)
    wave = waves.fit_wave(cells, (8, 4), 20.0, basis, np.zeros(100), 0.0)
    variance = waves.AMPLITUDES[4] ** 2 * basis.variance
    variance[0] += waves.LEVEL_SPREAD**2
    share = expit(wave.eta)
    slope = basis.waves @ ((cells.events - 20 * share) * (1 - share)) - wave.weights / variance
    assert np.abs(slope).max() < 0.05 * np.sqrt(cells.events.sum())
    information = (basis.waves * 20 * share * (1 - share) ** 2) @ basis.waves.T + np.diag(1 / variance)
    np.testing.assert_allclose(wave.root @ wave.root.T, information, rtol=0.02, atol=0.02 * information.max())
    mean, inverse = wave.moments()
    drawn = wave.draw(20_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, rtol=0.01)
    np.testing.assert_allclose((1 / drawn).mean(axis=0), inverse, rtol=0.01)


def test_a_period_is_found_and_noise_has_none():
    rng, exposure = np.random.default_rng(0), np.full(1008, 50 / 1008)
    place = (np.arange(1008) + 0.5) / 1008
    wave = rng.poisson(1 + 0.7 * np.sin(2 * np.pi * 17.3 * place)).astype(float)
    assert waves.find_frequency(wave, exposure) == pytest.approx(17.3, abs=0.2)
    assert waves.find_frequency(rng.poisson(1.0, 1008).astype(float), exposure) == 0


def test_only_stretches_with_busy_neighbours_are_dead():
    count = np.repeat([3.0, 0.0, 3.0, 0.0], [30, 20, 40, 10])
    assert find_dead_times(count, np.ones(100)).tolist() == [[30, 50], [90, 100]]
    unwatched = np.where(count > 0, 1.0, 0.0)
    assert not len(find_dead_times(count, unwatched))
    assert not len(find_dead_times(np.where(np.arange(100) % 9 == 0, 1.0, 0.0), np.ones(100)))


def test_weights_are_shares_and_draws_follow_the_mean():
    count = np.random.default_rng(0).poisson(np.linspace(0.01, 0.1, 10_080)).astype(float)
    found = shapes.learn_shapes(count, np.full(10_080, 0.001), 1008)
    assert sum(shape.weight for shape in found) == pytest.approx(1)
    assert sum(len(shape.drawn) for shape in found) == shapes.DRAWS
    at = np.linspace(0.1, 0.9, 9)
    mean = sum(shape.weight * shape.model.at(at, shape.mean) for shape in found)
    drawn = np.concatenate([shape.model.at(at, shape.drawn) for shape in found])
    np.testing.assert_allclose(drawn.mean(axis=0), mean, rtol=0.05)


def test_an_event_where_nothing_was_watched_does_not_decide_the_number_of_bins():
    """A window that ends with an event on the edge of a cell: the event is counted in the next one."""
    count, exposure = np.repeat([3.0, 0.0], 48), np.repeat([1.0, 0.0], 48)
    count[48] = 1.0
    assert np.isfinite([bins.fit() for bins in piecewise.learn_bins(count, exposure)]).all()
    assert piecewise.histogram(count, exposure)[:48] == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("events", [1e3, 1e9])
def test_rates_beside_very_many_events_are_above_zero(events):
    rng = np.random.default_rng(0)
    for quiet in (0.0, 1e-9):
        count = rng.poisson(np.repeat([quiet, 1.0, quiet], 84) * events / 100).astype(float)
        assert (piecewise.level(count, np.ones(252)) > 0).all()


def test_the_curve_is_the_estimate_that_predicts_the_folds():
    seen = np.random.default_rng(0).poisson(np.repeat([2.0, 8.0], 48), (5, 96)).astype(float)
    _, _, curves, scores = timeline.choose_curve(seen, np.ones((5, 96)), 1.0)
    assert curves[-1, [0, 95]].round().tolist() == [2.0, 8.0]
    assert scores["steps"] > scores["profile"] > 100
