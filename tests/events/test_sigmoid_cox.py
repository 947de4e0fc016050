import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cotempo.data import Events
from cotempo.errors import CotempoError, DataError, DataWarning, ParameterError
from cotempo.events import SigmoidCox, coverage
from cotempo.events.cox import updates as cox
from cotempo.events.cox.kernels import basis
from cotempo.events.curves.density import density
from cotempo.events.curves.piecewise import histogram

WINDOW = (0.0, 50.0)


def truth(times):
    return 2 * np.exp(-times / 15) + np.exp(-(((times - 25) / 10) ** 2))


def simulate(scale, seed, window=WINDOW):
    rng = np.random.default_rng(seed)
    top = 2.2 * scale
    times = np.sort(rng.uniform(*window, rng.poisson(top * (window[1] - window[0]))))
    return times[rng.uniform(0, top, len(times)) < scale * truth(times)]


@pytest.fixture(scope="module")
def fitted():
    return SigmoidCox().fit(simulate(21.5, 0), WINDOW)


@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0.01, 50),
    amplitude=st.floats(-2, 3),
    length=st.floats(1, 4),
    mean=st.floats(-2, 2),
)
@settings(max_examples=30, deadline=None)
def test_the_bound_never_falls_over_updates(seed, scale, amplitude, length, mean):
    rng = np.random.default_rng(seed)
    exposure = torch.as_tensor(rng.uniform(0, 2, 80) * (rng.random(80) < 0.8) + 0.01)
    events = torch.as_tensor(rng.poisson(scale * exposure.numpy() * rng.gamma(1, 1, 80)).astype(float))
    cells = cox.CellCounts(events, exposure)
    one = torch.ones((), dtype=torch.float64)
    prior = cox.CoxPrior(one, one / (2 * scale), mean * one)
    at = torch.linspace(0, 100, 80, dtype=torch.float64)[:, None]
    inducing = torch.linspace(0, 100, 15, dtype=torch.float64)[:, None]
    rows, residual = basis(at, inducing, amplitude * one, (length * one)[None])
    belief = cox.start(prior, 15)
    before = -np.inf
    for _ in range(15):
        belief = cox.update(rows, residual, cells, belief, prior)
        bound = float(cox.evidence_bound(rows, residual, cells, belief, prior))
        assert bound >= before - 1e-9 * abs(bound)
        before = bound


def test_a_batch_of_clients_is_each_of_them():
    rng = np.random.default_rng(0)
    exposure = torch.ones(3, 40, dtype=torch.float64)
    cells = cox.CellCounts(torch.as_tensor(rng.poisson(2, (3, 40)).astype(float)), exposure)
    one = torch.ones(3, dtype=torch.float64)
    prior = cox.CoxPrior(one, one / 4, 0 * one)
    at = torch.linspace(0, 100, 40, dtype=torch.float64)[:, None]
    rows, residual = basis(at, at[::4], one[0] * 0, one[:1] * 2)
    together = cox.update(rows, residual, cells, cox.start(prior, 10), prior)
    for client in range(3):
        own = cox.CoxPrior(*(part[client] for part in prior))
        alone = cox.update(rows, residual, cox.CellCounts(*(p[client] for p in cells)), cox.start(own, 10), own)
        np.testing.assert_allclose(together.mean[client], alone.mean, rtol=1e-10)


def test_the_truth_is_found(fitted):
    grid = np.linspace(0.1, 49.9, 300)
    mean, lower, upper = fitted.intensity(grid)
    true = 21.5 * truth(grid)
    assert np.sqrt(np.mean((mean - true) ** 2)) / true.mean() < 0.15
    assert np.mean((lower <= true) & (true <= upper)) > 0.8
    assert (lower <= mean).all()
    assert (mean <= upper).all()
    wide, narrow = fitted.intensity(grid, 0.99), fitted.intensity(grid, 0.5)
    assert (wide.upper - wide.lower > narrow.upper - narrow.lower).all()


SHAPES = {
    "sine": (lambda t: 1 + 0.7 * np.sin(2 * np.pi * 20 * t / 50), 0.06),
    "spike": (lambda t: 1 + 8 * np.exp(-0.5 * ((t - 31.7) / 0.5) ** 2), 0.08),
    "steps": (lambda t: np.select([t < 7.31, t < 23.77, t < 31.5], [1.0, 3.0, 0.5], 2.0), 0.06),
    "dead time": (lambda t: np.where((t > 21.3) & (t < 29.4), 0.0, truth(t)), 0.05),
}


def draw_shape(shape, events, seed):
    """Events by thinning, and the intensity."""
    rng, fine = np.random.default_rng(seed), (np.arange(10**5) + 0.5) * 50 / 10**5
    scale = events / (shape(fine).mean() * 50)
    top = 1.01 * scale * shape(fine).max()
    times = np.sort(rng.uniform(*WINDOW, rng.poisson(top * 50)))
    return times[rng.uniform(0, top, len(times)) < scale * shape(times)], lambda t: scale * shape(t)


@pytest.mark.parametrize("name", SHAPES)
def test_fast_changes_jumps_and_dead_times_are_followed(name):
    shape, most = SHAPES[name]
    times, true = draw_shape(shape, 10**4, 200)
    model, at = SigmoidCox().fit(times, WINDOW), np.linspace(0.02, 49.98, 1000)
    band = model.intensity(at)
    assert np.sqrt(np.mean((band.mean - true(at)) ** 2)) / true(at).mean() < most
    assert coverage(band, true(at)) > 0.85
    if name == "dead time":
        inside = model.intensity(np.linspace(22, 29, 20))
        assert (inside.lower == 0).all()
        assert (inside.upper < 0.01 * true(at).mean()).all()


@pytest.mark.parametrize("name", ["steps", "spike", "on and off"])
def test_no_simple_estimate_tells_clearly_more(name):
    shape = SHAPES[name][0] if name in SHAPES else lambda t: np.where(t % 6.1 < 2.2, 3.0, 0.05)
    times, true = draw_shape(shape, 3000, 201)
    model = SigmoidCox().fit(times, WINDOW)
    wanted = true(model.grid.middles)

    def loss(rate):
        surprise = wanted * np.log(np.maximum(wanted, 1e-12) / rate) - wanted + rate
        return surprise.sum() * model.grid.width / 3000

    for estimate in (histogram, density):
        assert loss(model.mean(model.grid.middles)) < loss(estimate(model.count, model.exposure)) + 0.002


def test_bursts_of_few_sequences_are_no_shape():
    rng = np.random.default_rng(0)
    table = Events.from_arrays(
        [np.sort(np.concatenate([u + rng.exponential(0.05, 12) for u in rng.uniform(0, 9, 3)])) for _ in range(20)],
        (0, 10),
    )
    model, at = SigmoidCox().fit(table), np.linspace(0.2, 8.8, 100)
    assert model.temper > 3
    assert model.intensity(at).mean.std() < 0.3 * model.seen[0] / model.seen[1]
    poisson = Events.from_arrays([np.sort(rng.uniform(0, 10, 36)) for _ in range(20)], (0, 10))
    assert SigmoidCox().fit(poisson).temper == 1


def test_units_and_origin_do_not_matter():
    times, at = simulate(4, 3), np.linspace(0.5, 49.5, 60)
    here = SigmoidCox().fit(times, WINDOW).intensity(at)
    there = SigmoidCox().fit(1.7e9 + 3600 * times, (1.7e9, 1.7e9 + 3600 * 50)).intensity(1.7e9 + 3600 * at)
    for mine, other in zip(here, there, strict=True):
        np.testing.assert_allclose(mine, 3600 * other, rtol=1e-5)


def test_several_windows_superpose():
    times = simulate(20, 1)
    halves = Events.from_arrays([times[::2], times[1::2]], WINDOW)
    one, two = SigmoidCox().fit(times, WINDOW), SigmoidCox().fit(halves)
    grid = np.linspace(1, 49, 50)
    np.testing.assert_allclose(two.intensity(grid).mean * 2, one.intensity(grid).mean, rtol=0.05)


def test_a_stretch_nobody_watched_is_uncertain():
    times = simulate(20, 4)
    parts = [times[times < 15], times[(times > 35)]]
    band = SigmoidCox().fit(Events.from_arrays(parts, [(0, 15), (35, 50)])).intensity([7.0, 25.0, 42.0])
    width = np.log(band.upper / band.lower)
    assert width[1] > 1.5 * max(width[0], width[2])
    assert band.lower[0] < 20 * truth(7.0) < band.upper[0]


def test_scores(fitted):
    score = fitted.score(simulate(21.5, 99), WINDOW)
    assert 0.15 < score["gain"] < 0.35
    assert score["count_ratio"] == pytest.approx(1, abs=0.15)


def test_a_thousand_samples_follow_the_intensity():
    model = SigmoidCox().fit(simulate(1.0, 0), WINDOW)
    drawn = model.sample(*WINDOW, seed=1, count=1000)
    counts = np.array([len(times) for _, times, *_ in drawn.sequences()])
    expected = model.predict_count(*WINDOW).mean
    assert abs(counts.mean() - expected) < 4 * np.sqrt(expected / 1000)
    assert stats.kstest(stats.poisson(expected).cdf(counts - 1) + np.random.default_rng(0).uniform(size=1000)
                        * stats.poisson(expected).pmf(counts), "uniform").pvalue > 1e-3  # fmt: skip
    waits = np.concatenate(model.rescale(drawn))
    assert stats.kstest(waits, lambda wait: -np.expm1(-wait)).statistic < 0.02


def test_a_deep_kernel_finds_the_shape():
    model = SigmoidCox(kernel="deep", inducing=20, cells=200, steps=15).fit(simulate(10.0, 0), WINDOW)
    grid = np.linspace(1, 49, 50)
    assert np.corrcoef(model.intensity(grid).mean, truth(grid))[0, 1] > 0.9


def test_the_next_event(fitted):
    ahead = fitted.predict_next(10.0)
    assert ahead.chance() == pytest.approx(1, abs=1e-6)
    assert 10 < ahead.quantile(0.1) < ahead.quantile(0.5) < ahead.mean() * 1.1
    drawn = fitted.sample(10.0, 12.0, seed=2, count=300)
    first = [times[0] for _, times, *_ in drawn.sequences() if len(times)]
    assert np.mean(first) == pytest.approx(ahead.mean(), abs=0.01)
    quiet = SigmoidCox().fit([5.0], WINDOW).predict_next(49.0, until=50.0)
    assert quiet.chance() < 0.5
    with pytest.warns(DataWarning, match="quantile is not known"):
        assert quiet.quantile(0.9) == np.inf
    with pytest.raises(ParameterError, match=r"in or near \[0, 50\].*got 101"):
        fitted.predict_next(101.0)


def test_an_update_learns_on(fitted):
    more = fitted.update(simulate(21.5, 5), WINDOW)
    grid = np.linspace(1, 49, 50)
    before, after = fitted.intensity(grid), more.intensity(grid)
    assert np.mean(np.log(after.upper / after.lower)) < np.mean(np.log(before.upper / before.lower))
    beyond = fitted.update(np.linspace(50.5, 59.5, 100), (50.0, 60.0))
    assert beyond.intensity(55.0).mean == pytest.approx(10, rel=0.25)
    assert beyond.predict_count(0, 50).mean == pytest.approx(fitted.predict_count(0, 50).mean, rel=0.1)


@pytest.mark.parametrize("times", [[], [25.0], [25.0] * 40, np.linspace(0, 50, 20)])
def test_few_and_tied_events_are_fine(times):
    model = SigmoidCox().fit(times, WINDOW)
    mean, lower, upper = model.intensity(np.linspace(0, 50, 20))
    assert (mean > 0).all()
    assert (lower <= mean).all()
    assert (mean <= upper).all()
    assert np.isfinite(upper).all()
    assert np.isfinite(list(model.score([1.0, 2.0], WINDOW).values())).all()
    assert model.predict_count(*WINDOW).mean < 3 * (len(times) + 1)


def test_epoch_seconds_and_a_million_events():
    rng = np.random.default_rng(0)
    times = 1.5e9 + np.sort(rng.uniform(0, 86400, 10**6))
    model = SigmoidCox().fit(times, (1.5e9, 1.5e9 + 86400))
    assert model.intensity(1.5e9 + 40000).mean == pytest.approx(10**6 / 86400, rel=0.02)


@pytest.mark.parametrize("times", [[3.0, 1.0], [1.0, np.inf], [1.0, np.nan], [-1.0, 2.0], [49.0, 51.0], [[1.0, 2.0]]])
def test_bad_times_are_refused(times):
    with pytest.raises(DataError):
        SigmoidCox().fit(times, WINDOW)


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "deep", "inducing": 1}, {"kernel": "deep", "cells": 0}, {"kernel": "lstm", "steps": 0},
        {"inducing": 20}, {"cells": 500}, {"steps": 10}, {"base": "hawkes"}, {"kernel": "deep", "base": "hawkes"},
        {"kernel": "deep", "marks": True},
    ],
)  # fmt: skip
def test_parameters_that_are_wrong_or_mean_nothing_are_refused(parameters):
    with pytest.raises(ParameterError):
        SigmoidCox(**parameters)


def test_bad_questions_are_refused(fitted):
    for call in (
        lambda: fitted.intensity([np.nan]), lambda: fitted.intensity([1.0], level=1.5),
        lambda: fitted.predict_count(5, 1).mean, lambda: fitted.score(Events.from_arrays([[1.0]], (0, 2)), (0, 2)),
    ):  # fmt: skip
        with pytest.raises(CotempoError):
            call()
