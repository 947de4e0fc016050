"""Parts share nothing, lose nothing, and follow each other in time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.data import (
    Events,
    Posts,
    Series,
    make_events,
    make_posts,
    make_series,
    partition,
    split_by_sequence,
    split_by_time,
)
from cotempo.errors import DataError, ParameterError

SHARES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda parts: [part / sum(parts) for part in parts])


@settings(max_examples=40, deadline=None)
@given(shares=SHARES, seed=st.integers(0, 99))
def test_windows_abut_and_events_go_to_one_part(shares: list[float], seed: int) -> None:
    events = make_events(1, 4, marks=2, seed=seed)[0]["client-0"]
    parts = split_by_time(events, shares)
    assert sum(part.rows for part in parts) == events.rows
    assert sorted(np.concatenate([part.time for part in parts])) == sorted(events.time)
    assert np.array_equal(parts[0].start, events.start)
    assert np.array_equal(parts[-1].end, events.end)
    for early, late in pairwise(parts):
        assert np.array_equal(early.end, late.start)
        for (_, before, *_), (_, after, *_) in zip(early.sequences(), late.sequences(), strict=True):
            assert not len(before) or not len(after) or before.max() < after.min()


def test_an_event_at_the_cut_belongs_to_the_later_part() -> None:
    early, late = split_by_time(Events.from_arrays([[1.0, 5.0, 10.0]], (0, 10)), (0.5, 0.5))
    assert early.time.tolist() == [1.0]
    assert late.time.tolist() == [5.0, 10.0]


@settings(max_examples=40, deadline=None)
@given(shares=SHARES, sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_rows_of_series_follow_each_other(shares: list[float], sizes: list[int]) -> None:
    series = Series.from_arrays([np.arange(float(size))[:, None] for size in sizes])
    parts = split_by_time(series, shares)
    assert sum(part.rows for part in parts) == series.rows
    for name, time, _ in series.sequences():
        own = [part.time[part.sequence == name] for part in parts]
        assert np.array_equal(np.concatenate(own), time)


def test_posts_at_one_time_stay_together() -> None:
    posts = Posts(time=[0, 1, 1, 1, 2, 3], text=tuple("abcdef"))
    early, late = split_by_time(posts, (0.5, 0.5))
    assert early.text == ("a",)
    assert late.text == tuple("bcdef")
    with pytest.raises(DataError, match="must have a time"):
        split_by_time(Posts(time=[np.nan], text=("a",)), (1.0,))


def test_clients_are_split_each_for_itself() -> None:
    clients = make_series(3, length=10)[0]
    training, checking, testing = split_by_time(clients)
    assert [len(part["client-1"]) for part in (training, checking, testing)] == [6, 2, 2]
    assert training["client-1"].fingerprint() == split_by_time(clients["client-1"])[0].fingerprint()


@pytest.mark.parametrize("table", [make_events(1, 10)[0]["client-0"], make_series(1, 10, 5)[0]["client-0"]])
def test_sequences_are_dealt_whole(table: Any) -> None:
    parts = split_by_sequence(table, rng=3)
    names = [{name for name, *_ in part.sequences()} for part in parts]
    assert [len(part) for part in names] == [6, 2, 2]
    assert len(set.union(*names)) == 10
    again = split_by_sequence(table, rng=np.random.default_rng(3))
    assert [part.fingerprint() for part in parts] == [part.fingerprint() for part in again]
    other = split_by_sequence({"a": table}, rng=4)
    assert parts[0].fingerprint() != other[0]["a"].fingerprint()


@pytest.mark.parametrize("fractions", [(), (0.5, 0.4), (1.2, -0.2), (1.0, 0.0)])
def test_fractions_must_sum_to_one(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError, match="fractions must be positive and sum to 1"):
        split_by_time(Series.from_arrays([[1.0]]), fractions)


def test_what_cannot_be_split() -> None:
    with pytest.raises(ParameterError, match="split posts by time"):
        split_by_sequence(make_posts(1, 9, 3)[0]["client-0"])
    with pytest.raises(ParameterError, match="must be a table"):
        split_by_time([1, 2])  # type: ignore[type-var]
    with pytest.raises(ParameterError, match="a seed must be"):
        split_by_sequence(Series.from_arrays([[1.0]]), rng=-1)


HOW = ("equal", "mark", "dirichlet")


@settings(max_examples=40, deadline=None)
@given(clients=st.integers(1, 4), how=st.sampled_from(HOW), alpha=st.floats(0.05, 50), seed=st.integers(0, 99))
def test_partitions_lose_nothing(clients: int, how: Any, alpha: float, seed: int) -> None:
    posts = make_posts(1, 40, 8)[0]["client-0"]
    dealt = partition(posts, clients, how, alpha=alpha, rng=seed)
    assert len(dealt) == clients
    assert all(len(own) for own in dealt.values())
    assert sorted(text for own in dealt.values() for text in own.text) == sorted(posts.text)
    if how == "mark":
        labels = [set(own.event) for own in dealt.values()]
        assert sum(len(own) for own in labels) == len(set(posts.event))
    if how == "equal":
        sizes = [len(own) for own in dealt.values()]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("how", HOW)
def test_events_are_dealt_by_sequence(how: Any) -> None:
    times, marks = [[1.0, 2.0]] * 12, [["a", "a"]] * 6 + [["b", "b"]] * 6
    events = Events.from_arrays(times, (0, 3), marks)
    dealt = partition(events, 2, how, rng=1)
    assert sum(len(own.names) for own in dealt.values()) == 12
    assert all(own.marks == ("a", "b") for own in dealt.values())
    if how == "mark":
        assert all(len(set(own.mark.tolist())) == 1 for own in dealt.values())


def test_alpha_says_how_uneven() -> None:
    posts = make_posts(1, 2000, 10)[0]["client-0"]

    def unevenness(alpha: float) -> float:
        dealt = partition(posts, 4, "dirichlet", alpha=alpha, rng=0)
        shares = [
            np.mean([label == name for label in own.event]) for own in dealt.values() for name in set(posts.event)
        ]
        return float(np.std(shares))

    assert unevenness(0.1) > 2 * unevenness(100)


def test_one_long_sequence_is_cut_by_time() -> None:
    dealt = partition(Series.from_arrays(np.zeros((10, 1))), 3)
    assert [len(own) for own in dealt.values()] == [3, 4, 3]
    assert list(dealt) == ["client-0", "client-1", "client-2"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clients": 0}, "clients must be a whole number of at least 1"),
        ({"clients": 2, "how": "equals"}, "did you mean 'equal'"),
        ({"clients": 2, "alpha": 0}, "alpha must be a number, more than 0"),
        ({"clients": 2, "how": "mark"}, "must be given marked events or posts"),
        ({"clients": 9, "how": "dirichlet"}, "clients must be at most 4"),
    ],
)
def test_wrong_partitions_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        partition(make_events(1, 4)[0]["client-0"], **options)
