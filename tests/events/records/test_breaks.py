"""A site that was closed for a while has two windows: what is held out lies in both, between what is learned from."""

import numpy as np
import pytest

from cotempo.data import Events
from cotempo.events import FedPP
from cotempo.events.records.record import Record

HOURS = 12 * 168.0


def site(seed: int, rate: float, closed: tuple[float, float] | None = None) -> Events:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, HOURS, rng.poisson(2 * rate * HOURS)))
    times = times[rng.uniform(size=len(times)) < (1 + 0.8 * np.cos(2 * np.pi * (times - 15) / 24)) / 2]
    if closed is None:
        return Events.from_arrays([times], (0.0, HOURS))
    parts = [times[times < closed[0]], times[times >= closed[1]]]
    return Events.from_arrays(parts, windows=[(0.0, closed[0]), (closed[1], HOURS)])


def test_a_break_does_not_make_joining_look_better():
    """A whole window was held out, which nobody alone can know: -.274 alone, .170 together."""
    clients = {"a": site(1, 4.0), "b": site(2, 1.5, (840.0, 1176.0)), "c": site(3, 1.0)}
    fitted = FedPP(kernel="time").fit(clients, progress=False)
    found = fitted.benefit["b"]
    assert found.alone > 0.1
    assert abs(found.gain) < 0.05


@pytest.mark.parametrize("windows", [2, 3, 7, 30])
def test_what_is_held_out_of_windows_that_follow_lies_in_all_parts_of_time(windows):
    edges = np.linspace(0.0, 100.0, windows + 1)
    bounds = np.column_stack([edges[:-1], edges[1:] - 0.5])
    record = Record.of(Events.from_arrays([[start + 0.1] for start in edges[:-1]], bounds))
    assert record.single
    held = record.hold_out().part(held=True)
    assert held.exposure == pytest.approx(record.exposure / 5, rel=0.15)
    assert len(np.unique(held.start // 25)) == 4
    parts = record.deal()
    assert sum(part.events for part in parts) == record.events
    assert sum(part.exposure for part in parts) == pytest.approx(record.exposure)


def test_sequences_at_the_same_time_are_held_out_whole():
    record = Record.of(Events.from_arrays([[1.0], [2.0], [3.0]], (0.0, 10.0)))
    assert not record.single
    assert len(record.hold_out().part(held=True).start) == 1
