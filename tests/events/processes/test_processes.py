from itertools import pairwise

import numpy as np
import pytest

from cotempo.data import Events, make_events
from cotempo.errors import ParameterError
from cotempo.events import FedPointProcess, rescaling_test
from cotempo.events.processes.models import PROCESSES, make_process
from cotempo.events.records.history import look_back, unroll
from cotempo.events.records.record import Record, Summary, gap_histogram, gap_quantiles


def summary_of(record, window=(0.0, 10.0)):
    return Summary(
        record.events,
        record.exposure,
        *window,
        gap_quantiles(gap_histogram(record, np.array(window)), 1.0, np.array(window)),
    )


@pytest.fixture(scope="module")
def record():
    clients, _ = make_events(clients=1, sequences=15, kind="hawkes", seed=3)
    return Record.of(clients["client-0"])


def fit(process, record, steps=15):
    parameters = process.start()
    unrolled = unroll(record, process.decays)
    told = []
    for _ in range(steps):
        parameters = process.update(parameters, process.statistics(unrolled, record, parameters))
        log_rate = (unrolled.count * process.log_rate(unrolled, parameters))[unrolled.count > 0]
        told.append(float(log_rate.sum() - process.mass(unrolled, parameters).sum()))
    return parameters, told


@pytest.mark.parametrize("name", PROCESSES)
def test_mass_is_the_integral_of_the_rate(name, record):
    process = make_process(name, summary_of(record), 10.0)
    parameters, _ = fit(process, record, 3)
    times = np.array([1.0, 2.5, 2.6, 7.0])
    one = Record.of(Events.from_arrays([times], (0.0, 10.0)))

    def rate(at):
        return np.exp(process.log_rate(look_back(at, times, 0.0, process.decays), parameters))

    stretches = pairwise([0.0, *times, 10.0])
    share = (np.arange(4000) + 0.5) / 4000
    expected = sum(rate(a + (b - a) * share).mean() * (b - a) for a, b in stretches)
    assert process.mass(unroll(one, process.decays), parameters).sum() == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("name", ["hawkes", "hawkes1", "renewal"])
def test_steps_do_not_lower_the_likelihood(name, record):
    _, told = fit(make_process(name, summary_of(record)), record)
    assert told[-1] > told[0]
    assert (np.diff(told)[2:] > -0.05).all()


def test_expected_counts_match_where_they_must(record):
    for name in ("poisson", "hawkes"):
        process = make_process(name, summary_of(record))
        parameters, _ = fit(process, record, 40)
        assert process.mass(unroll(record, process.decays), parameters).sum() == pytest.approx(record.events, rel=0.02)


def test_sums_over_clients_are_the_pooled_fit():
    clients, _ = make_events(clients=3, sequences=8, kind="hawkes", seed=1)
    fitted = FedPointProcess(process="poisson", level="pooled").fit(clients)
    events = sum(table.rows for table in clients.values())
    assert fitted.state.parameters[0] == pytest.approx(events / (3 * 8 * 10))


def test_hawkes_beats_poisson_on_hawkes_and_passes_rescaling():
    clients, _ = make_events(clients=3, sequences=30, kind="hawkes", spread=0.0, excitation=0.8, seed=5)
    new, _ = make_events(clients=3, sequences=30, kind="hawkes", spread=0.0, excitation=0.8, seed=6)
    hawkes, flat = (FedPointProcess(process=name).fit(clients) for name in ("hawkes", "poisson"))
    name = "client-0"
    assert hawkes[name].score(new[name])["gain"] > flat[name].score(new[name])["gain"] + 0.05
    assert hawkes[name].score(new[name])["count_ratio"] == pytest.approx(1, abs=0.2)
    right, wrong = (rescaling_test(model[name].rescale(new[name])) for model in (hawkes, flat))
    assert right.p_value > 1e-3 > wrong.p_value


def test_a_profile_knows_its_period():
    day = np.concatenate([np.arange(10) + phase for phase in np.linspace(0.2, 0.4, 9)])
    clients = {"a": Events.from_arrays([np.sort(day)], (0.0, 10.0))}
    fitted = FedPointProcess(process="profile", period=1.0).fit(clients)["a"]
    high, low = fitted.intensity([12.3, 12.8]).mean
    assert high > 5 * low


def test_a_client_without_events_is_fine():
    clients = {"a": Events.from_arrays([[]], (0.0, 10.0)), "b": Events.from_arrays([[1.0, 2.0, 4.0]], (0.0, 10.0))}
    for name in PROCESSES:
        fitted = FedPointProcess(process=name).fit(clients)
        for client in clients:
            assert np.isfinite(list(fitted[client].score(clients["b"]).values())).all()


def test_joining_helps_where_the_others_know_more():
    many, _ = make_events(clients=3, sequences=20, kind="hawkes", excitation=0.8, seed=5)
    few, _ = make_events(clients=1, sequences=5, length=4.0, kind="hawkes", excitation=0.8, seed=8)
    clients = {**many, "few": few["client-0"]}
    fitted = FedPointProcess(process="hawkes", compare=True).fit(clients)
    assert set(fitted.benefit) == set(clients)
    assert fitted.benefit["few"].helped
    gaps = [abs(one.together - one.alone) for name, one in fitted.benefit.items() if name != "few"]
    assert max(gaps) < 0.1
    assert not FedPointProcess(process="hawkes", rounds=1).fit(clients).benefit


@pytest.mark.parametrize("process", ["histogram", "steps", "hawkes", "renewal"])
def test_the_unit_and_the_origin_of_time_do_not_matter(process):
    """In another unit and from another origin, both of which round the span alike."""
    clients, _ = make_events(clients=2, sequences=6, kind="hawkes", length=10.0, seed=2)
    moved = {
        name: Events.from_arrays([30.0 * t + 600.0 for _, t, *_ in table.sequences()], (600.0, 900.0))
        for name, table in clients.items()
    }
    few = {"rounds": 5} if process in ("hawkes", "renewal") else {}
    plain, other = (FedPointProcess(process=process, **few).fit(tables) for tables in (clients, moved))
    for name in clients:
        scores = [fitted[name].score(tables[name])["gain"] for fitted, tables in ((plain, clients), (other, moved))]
        assert scores[0] == pytest.approx(scores[1], abs=1e-9)


def test_what_lies_beyond_the_span_goes_on_with_its_end():
    early = np.sort(np.random.default_rng(0).uniform(0, 10, 400) ** 0.5 * 10**0.5)
    fitted = FedPointProcess(process="profile").fit({"a": Events.from_arrays([early], (0.0, 10.0))})["a"]
    assert fitted.intensity([12.0]).mean[0] == fitted.intensity([9.99]).mean[0]
    late = fitted.score(np.array([10.5, 11.0]), (10.0, 12.0))
    assert late["count_ratio"] == pytest.approx(fitted.intensity([9.99]).mean[0])


def test_an_unknown_process_is_refused(record):
    with pytest.raises(ParameterError, match="did you mean 'hawkes'"):
        make_process("hawks", summary_of(record))


@pytest.mark.parametrize(
    "parameters",
    [
        {"process": "poisson", "rounds": 3},
        {"process": "steps", "rounds": 3},
        {"process": "hawkes", "period": 24.0},
        {"process": "poisson", "period": 24.0},
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters):
    with pytest.raises(ParameterError, match=list(parameters)[-1]):
        FedPointProcess(**parameters)


def test_a_site_without_events_is_not_compared():
    clients, _ = make_events(clients=3, kind="hawkes", seed=0)
    clients["empty"] = Events.from_arrays([[]], (0.0, 10.0))
    fitted = FedPointProcess(process="hawkes1", rounds=2, compare=True).fit(clients, progress=False)
    assert set(fitted.benefit) == {"client-0", "client-1", "client-2"}
