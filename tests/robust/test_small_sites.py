"""Small sites scatter more: an honest one is not left out, and whoever is left out is named."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.data import Events
from cotempo.data.clock import Clock
from cotempo.events.base_measure import expect_measure, expect_summary
from cotempo.events.processes.federated import ProcessState
from cotempo.events.records.history import WHOLE, unroll
from cotempo.events.records.record import Record, Summary
from cotempo.federation import Joining, Message
from cotempo.robust.screening import find_suspects

CELLS = 96


def count(level, rng):
    """Return what a site of so many events an hour sends of eight weeks with one smooth day."""
    course = 1 + 0.6 * np.sin(2 * np.pi * (np.arange(CELLS) / 4 - 12) / 24)
    exposure = np.full((5, CELLS), 8 * 168 / 5 / CELLS)
    events = rng.poisson(level * course * exposure).astype(float)
    own = max(events.sum(), 1.0) / (8 * 168)
    expected = events.sum() / 5
    misfit = ((events.sum(axis=1) - expected) ** 2).sum() * 5 / 4
    stretches = events.sum(axis=0)[: CELLS // 20 * 20].reshape(20, -1).sum(axis=1)
    spread = [((stretches - stretches.mean()) ** 2).sum(), stretches.sum()]
    fields = {"events": events, "exposure": own * exposure, "spread": np.array(spread)}
    return Message({**fields, "dispersion": np.array([[0.0, 0, 0], [misfit, events.sum(), 4]])})


@pytest.fixture(scope="module")
def expect():
    method = ct.FedPP(kernel="time", period=24.0, cells=CELLS)
    # The first counts, before any curve is known, are compared less and sent again.
    return expect_measure(method, replace(method.open(Roster("abcde"), None, None), step=1), "count")


class Roster:
    def __init__(self, names):
        self.names = tuple(names)


@pytest.mark.parametrize("small", [0.4, 0.1, 0.06, 0.02])
def test_honest_sites_stay_in_99_of_100_runs(expect, small):
    left_out = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        sites = {"a": 1.0, "b": 0.6, "c": 0.8, "d": 0.4, "small": small}
        left_out += bool(find_suspects({name: count(level, rng) for name, level in sites.items()}, expect))
    assert left_out <= 1


def test_a_small_site_among_equal_ones_is_no_suspect():
    told = {
        name: Message({"totals": np.array([1000.0 + 7 * k, 1000.0]), "gaps": np.zeros(240)})
        for k, name in enumerate("abcd")
    }
    told["small"] = Message({"totals": np.array([60.0, 1000.0]), "gaps": np.zeros(240)})
    assert not find_suspects(told, expect_summary("describe"))


def test_a_site_that_forges_its_counts_is_still_found(expect):
    rng = np.random.default_rng(0)
    told = {name: count(level, rng) for name, level in {"a": 1.0, "b": 0.6, "c": 0.8, "d": 0.4}.items()}
    honest = count(0.5, rng)
    events = np.array(honest["events"])
    events[:, 10:14] += 40.0
    told["liar"] = Message({**{name: honest[name] for name in honest}, "events": events})
    assert set(find_suspects(told, expect)) == {"liar"}


@pytest.mark.parametrize("forge", [lambda x: 3 * x, lambda x: x * (np.arange(CELLS) < CELLS // 2), np.zeros_like])
def test_a_site_that_forges_how_long_it_watched_is_found(expect, forge):
    rng = np.random.default_rng(0)
    told = {name: count(level, rng) for name, level in {"a": 1.0, "b": 0.6, "c": 0.8, "d": 0.4}.items()}
    honest = count(0.5, rng)
    exposure = forge(np.array(honest["exposure"]))
    told["liar"] = Message({**{name: honest[name] for name in honest}, "exposure": exposure})
    assert set(find_suspects(told, expect)) == {"liar"}


def weeks(zone, rng, closed=False):
    """Return twelve weeks of events that come by day; of a site that was closed in the sixth, two sequences."""
    clock = Clock("h", zone)
    start = clock.number(pd.Timestamp("2025-02-03", tz=zone))
    times = start + np.sort(rng.uniform(0, 12 * 168, 4000))
    times = times[rng.uniform(size=4000) < 0.5 + 0.4 * np.sin(clock.local(times) / 24 * 2 * np.pi)]
    ends = [(start, start + 12 * 168)]
    if closed:
        ends = [(start, start + 5 * 168), (start + 6 * 168, start + 12 * 168)]
    parts = [times[(first < times) & (times < last)] for first, last in ends]
    return Events.from_arrays(parts, ends, unit="h", zone=zone)


@pytest.mark.parametrize(("zone", "closed"), [("America/New_York", False), ("Europe/Berlin", True)])
@pytest.mark.parametrize("period", [None, 24.0])
def test_a_site_that_watched_at_other_times_is_no_suspect(zone, closed, period):
    rng = np.random.default_rng(1)
    clients = {name: weeks("Europe/Berlin", rng) for name in "abcd"} | {"other": weeks(zone, rng, closed)}
    method = ct.FedPP(kernel="time", cells=336, compare=False, period=period)
    assert method.fit(clients, progress=False).suspects == ()


def test_a_liar_does_not_hide_behind_times_it_did_not_watch(expect):
    rng = np.random.default_rng(0)
    told = {name: count(level, rng) for name, level in {"a": 1.0, "b": 0.6, "c": 0.8, "d": 0.4}.items()}
    honest = count(0.5, rng)
    moved = np.roll(honest["events"], 32, axis=1) * (np.arange(CELLS) < 48) * 2
    told["liar"] = Message({**{name: honest[name] for name in honest}, "events": moved})
    assert set(find_suspects(told, expect)) == {"liar"}


@pytest.mark.slow
def test_who_is_left_out_is_named_in_a_warning_and_in_advice():
    rng = np.random.default_rng(1)
    clients = {name: Events.from_arrays([np.sort(rng.uniform(0, 240, 200))], (0.0, 240.0)) for name in "abcde"}
    burst = np.sort(np.append(rng.uniform(0, 240, 50), 24 * rng.integers(0, 10, 2000) + rng.uniform(3, 4, 2000)))
    clients["odd"] = Events.from_arrays([burst], (0.0, 240.0))
    method = ct.FedPP(kernel="time", period=24.0, compare=False, cells=48)
    with pytest.warns(UserWarning, match="odd was left out of .*Robust"):
        fitted = method.fit(clients, progress=False)
    assert fitted.suspects == ("odd",)
    assert any("odd was left out" in line for line in fitted.advice())
    assert not method.fit(clients, progress=False, reducer=ct.Robust("mean")).suspects


def by_day(size, rng):
    """Return events of a thousand hours that come more often by day."""
    times = np.sort(rng.uniform(0, 1000, rng.poisson(3 * size)))
    return times[rng.uniform(size=len(times)) < 1 / 3 + 0.25 * np.sin(times / 24 * 2 * np.pi)]


OPTIONS = {"profile": {"period": 24.0}, "hawkes": {"rounds": 4}, "renewal": {"rounds": 4}}


@pytest.mark.parametrize("process", OPTIONS)
@pytest.mark.parametrize("small", [3, 13, 60])
def test_a_process_leaves_no_small_site_out(process, small):
    rng = np.random.default_rng(2)
    sizes = {"a": 1000, "b": 900, "c": 1200, "d": 1100, "small": small}
    clients = {name: Events.from_arrays([by_day(size, rng)], (0.0, 1000.0)) for name, size in sizes.items()}
    assert ct.FedPointProcess(process=process, **OPTIONS[process]).fit(clients, progress=False).suspects == ()


@pytest.mark.parametrize("process", OPTIONS)
@pytest.mark.parametrize("size", [300, 1000])
def test_a_site_that_forges_the_sums_of_a_process_is_found(process, size):
    rng = np.random.default_rng(2)
    records = {name: Record.of(Events.from_arrays([by_day(1000, rng)], (0.0, 1000.0))) for name in "abcd"}
    records["liar"] = Record.of(Events.from_arrays([by_day(size, rng)], (0.0, 1000.0)))
    method = ct.FedPointProcess(process=process, **OPTIONS[process])
    summary = Summary(5000.0, 5000.0, 0.0, 1000.0, (0.1, 0.5, 1.0, 3.0)).to_array()
    made = method.make(summary)
    state = ProcessState(0, np.array([0.0, 1000.0]), summary, made.start(), Joining())
    told = {}
    for name, record in records.items():
        sums = made.statistics(unroll(record, made.decays, WHOLE), record, made.start())
        if name == "liar":
            sums[:2] += sums[: len(sums) // (3 if process == "renewal" else 2)].sum() / 2
        told[name] = Message({"sums": sums})
    assert set(find_suspects(told, method.expects(state, "learn"))) == {"liar"}


@pytest.mark.parametrize("events", [0.0, 3.0, 1000.0])
@pytest.mark.parametrize(("times", "found"), [(1.0, set()), (5.0, set()), (1000.0, {"odd"})])
def test_a_site_that_watched_far_too_long_is_found_however_few_its_events(events, times, found):
    told = {
        name: Message({"totals": np.array([number, 1000.0]), "gaps": np.zeros(240)})
        for name, number in zip("abcd", (900.0, 1100.0, 1000.0, 1200.0), strict=True)
    }
    told["odd"] = Message({"totals": np.array([events, 1000.0 * times]), "gaps": np.zeros(240)})
    assert set(find_suspects(told, expect_summary("describe"))) == found


@pytest.mark.parametrize("levels", [(0.5, 0.5, 0.5, 0.5, 0.1), (1.2, 0.8, 0.6, 0.5, 0.05), (0.5, 0.2, 0.1, 0.02, 0.01)])
def test_a_function_of_history_leaves_no_small_site_out(levels):
    rng, hours = np.random.default_rng(3), np.arange(28 * 24)
    sites = {}
    for number, level in enumerate(levels):
        drawn = rng.poisson(level * (1 + 0.6 * np.sin(2 * np.pi * hours / 24)))
        times = np.sort(np.repeat(hours, drawn) + rng.uniform(size=drawn.sum()))
        sites[f"site {number}"] = Events.from_arrays([times], (0.0, 28 * 24.0))
    method = ct.FedPP(period=24.0, cells=96, rounds=3, base_rounds=3, inducing=12, refit_rounds=1, compare=False)
    assert not method.fit(sites, progress=False).failures


@pytest.mark.parametrize(
    ("factor", "found"),
    [([1.0, 1.0, 1.0, 3.0], set()), ([1.0, 1.0, 1.0, 1e3], {"odd"}), ([1e3, 1.0, 1.0, 1.0], {"odd"})],
)
def test_a_site_that_forges_its_level_is_found(factor, found):
    method = ct.FedPP()
    expect = method.expects(method.open(Roster("abcde"), None, None), "learn")
    told = {
        name: Message({field: np.zeros(spec.shape) if spec.shape else 0.0 for field, spec in expect.fields.items()})
        for name in "abcd"
    }
    told |= {
        name: Message({**told["a"], "level": np.array([1.0 + k / 100, k / 100, 100.0, 100 + k])})
        for k, name in enumerate("abcd")
    }
    told["odd"] = Message({**told["a"], "level": told["a"]["level"] * factor})
    assert set(find_suspects(told, expect)) == found
