import importlib.util
from itertools import pairwise

import numpy as np
import pytest

from cotempo.data import Events, make_events
from cotempo.errors import CotempoError
from cotempo.events import FedNeural
from cotempo.events.neural.federated import make_gaps
from cotempo.events.records.record import Record

WRAPPED = ("rmtpp", "sahp", "thp", "nhp", "attnhp", "odetpp")
HAVE = importlib.util.find_spec("easy_tpp") is not None


@pytest.fixture(scope="module")
def clients():
    return make_events(clients=2, sequences=20, kind="hawkes", excitation=0.8, seed=4)[0]


def integral(model, times, end):
    """The integral of the intensity given the history `times`, by brute force."""
    edges = np.concatenate([[0.0], times, [end]])
    share = (np.arange(400) + 0.5) / 400
    parts = [
        model.intensity(low + (high - low) * share, times).mean.mean() * (high - low) for low, high in pairwise(edges)
    ]
    return sum(parts)


def check(clients, **parameters):
    fitted = FedNeural(rounds=6, epochs=2, **parameters).fit(clients)
    model = fitted["client-0"]
    times = np.array([1.0, 1.5, 4.0])
    told = model.score(times, (0.0, 10.0))
    seen = np.log(model.intensity(times, times).mean).sum()
    known = [times for _, times, *_ in clients["client-0"].sequences()]
    learned = [part for number, part in enumerate(known) if number % 10 not in (4, 9)]
    rate = sum(map(len, learned)) / (10 * len(learned))
    by_hand = (seen - integral(model, times, 10.0) - 3 * np.log(rate) + 10 * rate) / 3
    assert told["gain"] == pytest.approx(by_hand, rel=0.05, abs=0.05)
    assert set(fitted.benefit) == set(clients)
    return model


def test_a_perceptron_learns_excitation(clients):
    model = check(clients)
    assert model.score(clients["client-0"])["gain"] > 0.05
    excited, quiet = model.intensity([5.01], [4.99, 5.0]).mean, model.intensity([5.01], [1.0]).mean
    assert excited > quiet
    assert model.predict_next([4.9], 10.0).quantile(0.5) < 6


@pytest.mark.skipif(not HAVE, reason="easy-tpp is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_models_are_scored_by_our_likelihood(clients, name):
    check(clients, model=name)


@pytest.mark.skipif(HAVE, reason="easy-tpp is installed")
@pytest.mark.parametrize("name", WRAPPED)
def test_a_missing_package_is_named(clients, name):
    with pytest.raises(CotempoError, match="baselines"):
        FedNeural(model=name, rounds=1).fit(clients)


def test_gaps_cover_windows_and_long_sequences_begin_anew():
    times = np.linspace(0.5, 99.5, 600)
    record = Record.of(Events.from_arrays([times, []], (0.0, 100.0)))
    gaps = make_gaps(record, 0.0, 100.0)
    assert gaps.length.sum() == pytest.approx(200)
    assert gaps.events.sum() == 600
    assert gaps.time.shape[1] <= 257


def test_units_and_reference_do_not_know_the_test_sequences(clients):
    """Other test and validation sequences leave what is learned, and its unit of time, as they were."""
    known = [times for _, times, *_ in clients["client-0"].sequences()]
    other = [np.linspace(0.1, 9.9, 200) if number % 10 in (4, 9) else times for number, times in enumerate(known)]
    first, second = (FedNeural().prepare(Events.from_arrays(part, (0.0, 10.0))) for part in (known, other))
    assert first.memory.unit == second.memory.unit
    assert first.memory.events == second.memory.events
    assert first.memory.exposure == second.memory.exposure
    rows = [number for number in range(20) if number % 10 not in (4, 9)]
    width = first.gaps.length.shape[1]
    np.testing.assert_array_equal(first.gaps.length[rows], second.gaps.length[rows][:, :width])


def test_benefit_is_in_nats(clients):
    fitted = FedNeural(rounds=2).fit(clients)
    model = fitted["client-0"]
    tested = [times for number, (_, times, *_) in enumerate(clients["client-0"].sequences()) if number % 10 == 9]
    by_hand = model.score(Events.from_arrays(tested, (0.0, 10.0)))["gain"]
    assert fitted.benefit["client-0"].together == pytest.approx(by_hand, abs=1e-5)
    assert FedNeural.metric == "held-out gain in nats per event"


def test_a_client_without_events_is_fine():
    clients = {"a": Events.from_arrays([[]], (0.0, 10.0)), "b": Events.from_arrays([[1.0, 2.0, 4.0]], (0.0, 10.0))}
    fitted = FedNeural(rounds=2).fit(clients)
    for name in clients:
        assert np.isfinite(list(fitted[name].score(clients["b"]).values())).all()
