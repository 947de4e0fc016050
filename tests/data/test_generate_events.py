"""Made events follow the intensity that the truth tells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from cotempo.data import make_events
from cotempo.errors import ParameterError

KINDS: list[Any] = ["poisson", "hawkes"]


@pytest.mark.parametrize("kind", KINDS)
def test_compensator_is_the_integral_of_the_intensity(kind: Any) -> None:
    clients, truth = make_events(2, 3, kind=kind, seed=5)
    _, times, *_ = next(iter(clients["client-1"].sequences()))
    times = times[:8]
    stops = np.append(0.0, np.append(times, 10.0))
    pieces = [
        quad(lambda at: truth.intensity("client-1", [at], times)[0], start, stop, limit=200)[0]
        for start, stop in pairwise(stops)
    ]
    assert truth.compensator("client-1", stops[1:], times) == pytest.approx(np.cumsum(pieces), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_time_rescaled_by_the_truth_is_a_unit_poisson_process(kind: Any) -> None:
    clients, truth = make_events(3, 60, kind=kind, seed=2)
    for name, events in clients.items():
        clock, total = [np.zeros(1)], 0.0
        for _, times, _, _, end in events.sequences():
            # Sequences are put end to end, so that no gap is cut off at the end of a window.
            clock.append(total + truth.compensator(name, times, times))
            total += truth.compensator(name, [end], times)[0]
        assert abs(events.rows - total) < 4 * np.sqrt(total)
        assert kstest(np.diff(np.concatenate(clock)), "expon").pvalue > 1e-4


def test_poisson_counts_agree_with_the_integral_in_every_stretch() -> None:
    clients, truth = make_events(2, 500, seed=3)
    edges = np.linspace(0, 10, 11)
    for name, events in clients.items():
        expected = 500 * np.diff(truth.compensator(name, edges))
        counts, _ = np.histogram(events.time, edges)
        assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all()


def test_long_run_rates() -> None:
    hawkes, truth = make_events(1, 1, 5000.0, "hawkes", excitation=0.6, seed=0)
    stationary = truth.rates["client-0"] / (1 - 0.6)
    assert hawkes["client-0"].rows / 5000 == pytest.approx(stationary, rel=0.05)


def test_clients_share_a_shape_and_have_their_own_rates() -> None:
    _, truth = make_events(3, 1)
    shapes = [truth.intensity(name, np.linspace(0, 10, 50)) / rate for name, rate in truth.rates.items()]
    assert np.allclose(shapes, shapes[0])
    assert len(set(truth.rates.values())) == 3
    assert len(set(make_events(3, 1, spread=0)[1].rates.values())) == 1


def test_marks_follow_their_probabilities() -> None:
    clients, truth = make_events(2, 100, marks=3, seed=1)
    for events in clients.values():
        assert events.marks == ("mark-0", "mark-1", "mark-2")
        chance = np.array(truth.mark_probabilities)
        share = np.bincount(events.mark, minlength=3) / events.rows
        assert (np.abs(share - chance) < 4 * np.sqrt(chance * (1 - chance) / events.rows)).all()


def test_equal_seeds_equal_events_and_more_clients_change_no_other() -> None:
    first, again, other = (make_events(2, 3, seed=seed)[0]["client-0"].fingerprint() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clients": 0}, "clients must be"),
        ({"sequences": 1.5}, "sequences must be"),
        ({"length": 0}, "length must be a number, more than 0"),
        ({"spread": float("nan")}, "spread must be"),
        ({"excitation": 1.0}, "excitation must be"),
        ({"kind": "hawks"}, "did you mean 'hawkes'"),
        ({"seed": -1}, "a seed must be"),
        ({"marks": -1}, "marks must be"),
    ],
)
def test_wrong_sizes_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make_events(**options)


def test_unknown_client() -> None:
    with pytest.raises(ParameterError, match="did you mean 'client-0'"):
        make_events(1, 1)[1].intensity("client-00", [0.0])
