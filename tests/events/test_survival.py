"""Survival times: censored and late entries, against hazards that are known."""

import numpy as np
import pytest

from cotempo.data import Events
from cotempo.errors import DataError, ParameterError
from cotempo.events import FedPointProcess, FedPP

SHAPE, SCALE = 1.6, 2.0


def weibull_survival(times):
    return np.exp(-((np.asarray(times) / SCALE) ** SHAPE))


def hospitals(seed=1, clients=3, subjects=250, longest=3.0):
    """Weibull times, censored at random, about half of them, and never watched beyond `longest`."""
    rng, found = np.random.default_rng(seed), {}
    for number in range(clients):
        times = SCALE * rng.weibull(SHAPE, subjects)
        watched = np.minimum(rng.uniform(0.2, 4.0, subjects), longest)
        found[f"client-{number}"] = np.minimum(times, watched), times <= watched
    return found


def kaplan_meier(times, came, at):
    order = np.argsort(times)
    chance = np.cumprod(1 - came[order] / (len(times) - np.arange(len(times))))
    return chance[np.searchsorted(times[order], at, side="right") - 1]


def test_a_censored_hazard_is_found_where_the_naive_one_is_not():
    known, at = hospitals(), np.array([0.7, 1.5, 2.5])
    truth, events = weibull_survival(at), np.concatenate([times[came] for times, came in known.values()])
    assert 0.35 < len(events) / 750 < 0.65
    tables = {name: Events.from_durations(*pair) for name, pair in known.items()}
    fitted = FedPP(kernel="time", compare=False, cells=60).fit(tables, progress=False)
    found = {name: fitted[name].survival(at, after=0.0) for name in tables}
    for name, band in found.items():
        np.testing.assert_allclose(band.mean, kaplan_meier(*known[name], at), atol=0.06)
        assert (band.lower < band.mean).all()
        assert (band.mean < band.upper).all()
    np.testing.assert_allclose(np.mean([band.mean for band in found.values()], axis=0), truth, atol=0.04)
    assert np.mean([(band.lower <= truth) & (truth <= band.upper) for band in found.values()]) >= 0.8
    naive = (events[:, None] > at).mean(axis=0)
    assert (truth - naive > 0.15).any()
    median = SCALE * np.log(2) ** (1 / SHAPE)
    assert fitted["client-0"].predict_next(0.0, until=3.0).quantile(0.5) == pytest.approx(median, abs=0.2)
    assert fitted["client-0"].survival([1.0], after=1.0).mean[0] == 1
    with pytest.raises(ParameterError, match="before"):
        fitted["client-0"].survival([0.5], after=1.0)


def test_a_constant_hazard_is_events_over_time_watched_also_of_late_entries():
    rng = np.random.default_rng(1)
    times, entered = rng.exponential(2.0, 400), rng.uniform(0, 1.5, 400)
    seen = times > entered
    times, entered = times[seen], entered[seen]
    watched = np.minimum(times, entered + 2.0)
    table = Events.from_durations(watched, times <= watched, entered)
    fitted = FedPointProcess(process="poisson").fit({"a": table, "b": table}, progress=False)
    by_hand = (times <= watched).sum() / (watched - entered).sum()
    found = float(fitted["a"].intensity([1.0]).mean[0])
    assert found == pytest.approx(by_hand, rel=0.02)
    assert by_hand == pytest.approx(0.5, abs=0.08)


def test_what_is_no_survival_time_is_refused():
    with pytest.raises(DataError, match="above 0"):
        Events.from_durations([1.0, 0.0])
    with pytest.raises(DataError, match="entered at 2"):
        Events.from_durations([1.0, 1.0], entered=[0.0, 2.0])
    with pytest.raises(DataError, match="True or False"):
        Events.from_durations([1.0, 2.0], observed=[1, 2])
