import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cotempo.data import Events
from cotempo.errors import CotempoError, DataError, ParameterError
from cotempo.events import SigmoidCox, cox
from cotempo.events.kernels import basis

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
    cells = cox.Cells(events, exposure)
    one = torch.ones((), dtype=torch.float64)
    prior = cox.Prior(one, one / (2 * scale), mean * one)
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
    cells = cox.Cells(torch.as_tensor(rng.poisson(2, (3, 40)).astype(float)), exposure)
    one = torch.ones(3, dtype=torch.float64)
    prior = cox.Prior(one, one / 4, 0 * one)
    at = torch.linspace(0, 100, 40, dtype=torch.float64)[:, None]
    rows, residual = basis(at, at[::4], one[0] * 0, one[:1] * 2)
    together = cox.update(rows, residual, cells, cox.start(prior, 10), prior)
    for client in range(3):
        own = cox.Prior(*(part[client] for part in prior))
        alone = cox.update(rows, residual, cox.Cells(*(p[client] for p in cells)), cox.start(own, 10), own)
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


def test_several_windows_superpose():
    times = simulate(20, 1)
    halves = Events.from_arrays([times[::2], times[1::2]], WINDOW)
    one, two = SigmoidCox().fit(times, WINDOW), SigmoidCox().fit(halves)
    grid = np.linspace(1, 49, 50)
    np.testing.assert_allclose(two.intensity(grid).mean * 2, one.intensity(grid).mean, rtol=0.05)


def test_a_stretch_nobody_watched_is_uncertain():
    events = Events.from_arrays([np.linspace(1, 19, 60), np.linspace(81, 99, 60)], [(0, 20), (80, 100)])
    mean, lower, upper = SigmoidCox().fit(events).intensity([10.0, 50.0])
    assert mean[0] == pytest.approx(3, rel=0.2)
    assert upper[1] / lower[1] > 2 * upper[0] / lower[0]


def test_scores(fitted):
    score = fitted.score(simulate(21.5, 99), WINDOW)
    assert 0.15 < score["gain"] < 0.35
    assert score["gain_expected"] <= score["gain_predictive"]
    assert score["gain_predictive"] == pytest.approx(score["gain"], abs=0.01)
    assert score["count_ratio"] == pytest.approx(1, abs=0.15)


def test_a_thousand_samples_follow_the_intensity():
    model = SigmoidCox(inducing=20, steps=10).fit(simulate(1.0, 0), WINDOW)
    drawn = model.sample(*WINDOW, rng=1, count=1000)
    counts = np.array([len(times) for _, times, *_ in drawn.sequences()])
    expected = model.expected_count(*WINDOW)
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
    assert ahead.chance == pytest.approx(1, abs=1e-6)
    assert 10 < ahead.quantile(0.1) < ahead.quantile(0.5) < ahead.mean * 1.1
    drawn = fitted.sample(10.0, 12.0, rng=2, count=300)
    first = [times[0] for _, times, *_ in drawn.sequences() if len(times)]
    assert np.mean(first) == pytest.approx(ahead.mean, abs=0.01)
    quiet = SigmoidCox().fit([5.0], WINDOW).predict_next(49.0)
    assert quiet.chance < 0.5
    assert quiet.quantile(0.9) == np.inf
    with pytest.raises(ParameterError):
        fitted.predict_next(60.0)


def test_an_update_learns_on(fitted):
    more = fitted.update(simulate(21.5, 5), WINDOW)
    grid = np.linspace(1, 49, 50)
    before, after = fitted.intensity(grid), more.intensity(grid)
    assert np.mean(np.log(after.upper / after.lower)) < np.mean(np.log(before.upper / before.lower))
    beyond = fitted.update(np.linspace(50.5, 59.5, 100), (50.0, 60.0))
    assert beyond.intensity(55.0).mean == pytest.approx(10, rel=0.25)
    assert beyond.expected_count(0, 50) == pytest.approx(fitted.expected_count(0, 50), rel=0.1)


@pytest.mark.parametrize("times", [[], [25.0], [25.0] * 40, np.linspace(0, 50, 20)])
def test_few_and_tied_events_are_fine(times):
    model = SigmoidCox(steps=10).fit(times, WINDOW)
    for part in model.intensity(np.linspace(0, 50, 20)):
        assert np.isfinite(part).all()
        assert (part > 0).all()
    assert np.isfinite(list(model.score([1.0, 2.0], WINDOW).values())).all()
    assert model.expected_count(*WINDOW) < 3 * (len(times) + 1)


def test_epoch_seconds_and_a_million_events():
    rng = np.random.default_rng(0)
    times = 1.5e9 + np.sort(rng.uniform(0, 86400, 10**6))
    model = SigmoidCox(steps=5).fit(times, (1.5e9, 1.5e9 + 86400))
    assert model.intensity(1.5e9 + 40000).mean == pytest.approx(10**6 / 86400, rel=0.02)


@pytest.mark.parametrize("times", [[3.0, 1.0], [1.0, np.inf], [1.0, np.nan], [-1.0, 2.0], [49.0, 51.0], [[1.0, 2.0]]])
def test_bad_times_are_refused(times):
    with pytest.raises(DataError):
        SigmoidCox().fit(times, WINDOW)


@pytest.mark.parametrize("parameters", [{"inducing": 1}, {"cells": 0}, {"steps": 0}, {"prior_strength": 0}])
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(ParameterError):
        SigmoidCox(**parameters)


def test_bad_questions_are_refused(fitted):
    for call in (
        lambda: fitted.intensity([np.nan]), lambda: fitted.intensity([1.0], level=1.5),
        lambda: fitted.expected_count(5, 1), lambda: fitted.score(Events.from_arrays([[1.0]], (0, 2)), (0, 2)),
    ):  # fmt: skip
        with pytest.raises(CotempoError):
            call()
