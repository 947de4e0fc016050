"""Counts to come of models that look back at history: their means are those of theory."""

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.events.processes.federated import FedPointProcess, ProcessIntensity, ProcessState
from cotempo.events.records.record import Summary
from cotempo.federation import Joining

# Of a Hawkes process: its background, and how many events each event brings about.
BACKGROUND, BRANCHING = 0.5, 0.8


def hawkes(parameters=(BACKGROUND, BRANCHING)):
    summary = Summary(1000.0, 1000.0, 0.0, 1000.0, (0.1, 10.0, 20.0, 40.0)).to_array()
    state = ProcessState(0, np.zeros(2), summary, np.array(parameters), Joining())
    return ProcessIntensity(FedPointProcess(process="hawkes1"), state, None, Clock())


def branching_mean(model, length, past):
    """Integrate the mean intensity, which falls or rises exponentially to that of equilibrium."""
    background, branching = model._parameters
    decay = float(model._process.decays[0])
    rate = decay * (1 - branching)
    usual = background / (1 - branching)
    excess = background + branching * decay * np.exp(-decay * (1000.0 - past)).sum() - usual
    return usual * length + excess * (1 - np.exp(-rate * length)) / rate


@pytest.mark.parametrize("length", [4.0, 48.0, 168.0])
@pytest.mark.parametrize("events", [0, 60])
def test_the_mean_of_a_hawkes_process_is_that_of_its_branching(length, events):
    past = np.linspace(980.0, 999.5, events)
    model = hawkes()
    found = model.predict_count(1000.0, 1000.0 + length, history=past)
    assert found.mean == pytest.approx(branching_mean(model, length, past), rel=0.015)
    assert found.lower < found.mean < found.upper


@pytest.mark.parametrize("process", ["poisson", "profile", "steps"])
def test_where_history_does_not_matter_the_mean_is_the_integral(process):
    rng = np.random.default_rng(0)
    clients = {name: Events.from_arrays([np.sort(rng.uniform(0, 480, 240))], (0.0, 480.0)) for name in "abc"}
    options = {} if process == "poisson" else {"period": 24.0}
    fitted = ct.FedPointProcess(process=process, **options).fit(clients, progress=False)
    for name in clients:
        model, times = fitted[name], np.linspace(500.0, 525.0, 200_001)
        integral = 25 * model.intensity((times[1:] + times[:-1]) / 2).mean.mean()
        mean = model.predict_count(500.0, 525.0).mean
        assert mean == pytest.approx(integral, rel=1e-6 if process == "poisson" else 1e-4)
    assert fitted["a"].predict_count(500.0, 740.0).mean == pytest.approx(240 / 480 * 240, rel=0.005)


def test_counts_of_a_period_are_those_of_local_time():
    zone = "Europe/Berlin"
    start = Clock("h", zone).number("2025-03-03 00:00+01:00")
    times = start + np.arange(4.5, 24 * 21, 24)  # at 4:30, of winter
    clients = {name: Events.from_arrays([times], (start, start + 24 * 21), unit="h", zone=zone) for name in "abc"}
    model = ct.FedPointProcess(process="profile", period=24.0).fit(clients, progress=False)["a"]
    early = model.predict_count("2025-04-01 04:00+02:00", "2025-04-01 05:00+02:00").mean
    assert early > 10 * model.predict_count("2025-04-01 05:30+02:00", "2025-04-01 06:30+02:00").mean


def test_chance_does_not_err_alike_at_all_clients():
    one, other = hawkes(), hawkes()
    other.seen = (900.0, 1000.0)
    assert one.predict_count(1000.0, 1010.0).mean == one.predict_count(1000.0, 1010.0).mean
    assert one.predict_count(1000.0, 1010.0).mean != other.predict_count(1000.0, 1010.0).mean


def test_few_expected_events_are_not_taken_for_none():
    model = hawkes((0.001, 0.1))
    found = model.predict_count(1000.0, 1001.0)
    assert found.mean == pytest.approx(0.001, rel=0.05)
    assert (found.lower, found.upper) == (0.0, 1.0)


def test_a_model_of_history_says_what_it_must_be_given():
    model = hawkes()
    for wrong in (5.0, pd.Timestamp("2025-04-28"), "2025-04-28", None):
        with pytest.raises(ct.errors.ParameterError, match="history must be the sorted times"):
            model.predict_next(wrong)
    with pytest.raises(ct.errors.ParameterError, match="history must be the sorted times"):
        model.predict_count(1000.0, 1001.0, history=5.0)
    assert model.predict_next(start=999.0).quantile(0.5) == model.predict_next([], start=999.0).quantile(0.5)


def test_a_model_that_does_not_know_how_sure_it_is_has_no_band():
    band = hawkes().intensity([999.0, 1000.0], [999.5])
    assert np.isfinite(band.mean).all()
    assert np.isnan(band.lower).all()
    assert np.isnan(band.upper).all()


def test_the_same_lines_serve_a_curve_and_a_model_of_history() -> None:
    clients, _ = ct.make_events(clients=2, sequences=10, seed=0)
    history = [1.0, 2.5, 4.0]
    for method in (ct.FedPP(kernel="time", compare=False), FedPointProcess(process="hawkes", rounds=3)):
        model = method.fit(clients, progress=False)["client-0"]
        assert model.predict_count(4.0, 6.0, history=history).mean > 0
        assert model.intensity([5.0], history=history, start=0.0).mean > 0
        assert model.predict_next(history=history, until=9.0).numbers[0] == 4.0
        assert model.predict_next(history, until=9.0).numbers[0] == 4.0
        assert model.predict_next(history=[], start=3.0, until=9.0).numbers[0] == 3.0
