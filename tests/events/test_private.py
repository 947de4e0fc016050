"""Private curves of time: what one event or sequence moves is what the noise is sized for, and rates stay close."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotempo as ct
from cotempo.errors import DataError, DataWarning, MessageError, ParameterError
from cotempo.events import FedPP
from cotempo.events.private import PrivateCurve, choose_cells, own_level
from cotempo.federation import Message, Rng
from cotempo.testing import check_method
from cotempo.testing.sensitivity import question_of, sensitivity_used

WINDOW = (0.0, 10.0)
LISTED = pd.DataFrame({"time": [1.0, 2.0, 7.0]})
times = st.lists(st.floats(0, 10, allow_nan=False).map(lambda t: round(t, 3)), max_size=40).map(sorted)


def form(**privacy: Any) -> PrivateCurve:
    method = FedPP(kernel="time", window=WINDOW, cells=48, compare=False)
    private = method.private(ct.Privacy(**{"epsilon": 1, "seeded": True, **privacy}))
    assert isinstance(private, PrivateCurve)
    return private


def table(*sequences: list[float]) -> ct.Events:
    return ct.Events.from_arrays([np.array(one) for one in sequences], WINDOW)


def moved(private: PrivateCurve, first: ct.Events, second: ct.Events) -> tuple[float, float]:
    """How much of the claims for the total and for the counts two tables use."""
    cells = Message({"cells": 48})
    return (
        sensitivity_used(private, "total", (first, second)),
        sensitivity_used(private, "counts", (first, second), cells),
    )


@settings(max_examples=60, deadline=None)
@given(first=times, second=times.filter(len), place=st.integers(0, 100))
def test_an_event_moves_the_counts_by_one(first: list[float], second: list[float], place: int) -> None:
    without = [t for i, t in enumerate(second) if i != place % len(second)]
    assert max(moved(form(), table(first, second), table(first, without))) <= 1 + 1e-6


@settings(max_examples=60, deadline=None)
@given(first=times, second=times, clip=st.sampled_from([None, 1.0, 9.0]))
def test_a_sequence_moves_counts_and_exposure_by_what_is_claimed(
    first: list[float], second: list[float], clip: float | None
) -> None:
    private = form(unit="sequence", clip=clip)
    assert max(moved(private, table(first, second), table(first))) <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(hours=st.lists(st.integers(0, 240), min_size=12, max_size=40), added=st.integers(0, 14400))
def test_an_event_of_times_cut_down_to_hours_moves_the_counts_by_one(hours: list[int], added: int) -> None:
    def dated(minutes: list[int]) -> ct.Events:
        times = np.sort(np.array(minutes)) / 1440
        return ct.Events.from_arrays([times], WINDOW, unit="D", zone="Europe/Berlin")

    known = [60 * hour for hour in hours]
    assert max(moved(form(), dated([*known, added]), dated(known))) <= 1 + 1e-6


def test_times_cut_down_to_hours_are_counted_all_over_them() -> None:
    hours = np.repeat(np.arange(1, 10), 3) / 24
    window = (0.0, 0.5)
    method = FedPP(kernel="time", window=window, cells=48, compare=False)
    private = method.private(ct.Privacy(epsilon=1, seeded=True))
    prepared = private.prepare(ct.Events.from_arrays([hours], window, unit="D", zone="Europe/Berlin"))
    message, _ = private.answer(question_of("counts", Message({"cells": 48})), prepared, None, Rng(0, "client", 1))
    np.testing.assert_allclose(message["events"], np.repeat([0, *9 * [0.75], 0, 0], 4), atol=1e-9)


def test_a_sequence_more_does_not_move_the_others_events() -> None:
    private = form(unit="sequence", clip=1.0)
    first, second = [0.0] * 6, [0.0, 0.0, 0.0, 1.0]  # together they look cut down to whole numbers
    assert max(moved(private, table(first, second), table(first))) <= 1 + 1e-9


def test_the_claim_for_a_sequence_is_tight() -> None:
    burst = [5.0 + 1e-3 * k for k in range(60)]
    private = form(unit="sequence", clip=4.0)
    assert moved(private, table([1.0], burst), table([1.0])) == pytest.approx((1.0, 1.0))


def test_a_curve_is_learned_from_noised_counts() -> None:
    clients, _ = ct.make_events(clients=10, sequences=20, length=50.0, seed=1)
    method = FedPP(kernel="time", window=(0.0, 50.0), compare=False)
    exact = method.fit(clients)
    private = method.fit(clients, privacy=ct.Privacy(epsilon=3, secure_sum=True, seeded=True))
    at = np.linspace(1, 49, 40)
    rates = [fitted["client-0"].intensity(at).mean for fitted in (exact, private)]
    assert np.sqrt(np.mean((rates[1] / rates[0] - 1) ** 2)) < 0.15
    gains = [fitted["client-1"].score(clients["client-1"])["gain"] for fitted in (exact, private)]
    assert gains[1] > 0.7 * gains[0]
    assert private.privacy["unit"] == "row"


def test_there_are_as_many_cells_as_the_noise_allows() -> None:
    assert choose_cells(1e6, 1.0, 1008) == 1008
    assert 12 < choose_cells(5_000, 3.0, 1008) < 100
    assert choose_cells(0.0, 3.0, 1008) == choose_cells(-50.0, 3.0, 1008) == 12


def test_a_client_has_a_level_of_its_own_where_its_events_say_so() -> None:
    assert own_level(110, 100, 1.0) == own_level(90, 100, 1.0) == 1.0
    assert own_level(130, 100, 1.0) > 1.2
    assert own_level(130, 100, 9.0) == 1.0  # counts that vary so much say nothing
    assert own_level(0, 0, 1.0) == 1.0
    rng = np.random.default_rng(0)

    def client(rate: float) -> ct.Events:
        return table(*[sorted(rng.uniform(0, 10, rng.poisson(10 * rate)).tolist()) for _ in range(20)])

    clients = {f"client-{number}": client(1.0) for number in range(6)} | {"many": client(4.0)}
    fitted = FedPP(kernel="time", window=WINDOW, compare=False).fit(
        clients, privacy=ct.Privacy(epsilon=3, seeded=True, secure_sum=True)
    )
    assert fitted["many"].intensity([5.0]).mean[0] == pytest.approx(4.0, rel=0.2)
    assert fitted["client-0"].intensity([5.0]).mean[0] == pytest.approx(1.0, rel=0.2)


def test_without_an_agreed_window_it_is_refused() -> None:
    with pytest.raises(ParameterError, match="kernel='time' and a window"):
        FedPP(kernel="time").private(ct.Privacy(epsilon=1))
    with pytest.raises(ParameterError, match="kernel='time' and a window"):
        FedPP(window=WINDOW).private(ct.Privacy(epsilon=1))
    with pytest.raises(ParameterError, match="got share='kernel'"):
        FedPP(preset="paper").private(ct.Privacy(epsilon=1))
    with pytest.raises(ParameterError, match="period must be left out"):
        FedPP(kernel="time", window=WINDOW, period=2.0).private(ct.Privacy(epsilon=1, unit="sequence"))
    with pytest.raises(ParameterError, match="unit must be 'row' or 'sequence'"):
        form(unit="client")


@pytest.mark.slow
def test_the_private_form_keeps_the_contract() -> None:
    clients, _ = ct.make_events(clients=3, sequences=4, length=10.0, seed=0)
    check_method(form(), dict(clients))


def test_windows_that_events_begin_and_end_are_refused_where_single_events_are_protected() -> None:
    """Exposure has no noise there: it told the times of the first and the last event."""
    for events in (ct.Events.from_arrays([[1.0, 2.0, 7.0]]), next(iter(ct.read_events({"a": LISTED}).values()))):
        with pytest.raises(DataError, match="windows must be given"):
            form().prepare(events)
        form(unit="sequence").prepare(events)  # it protects windows, too
    ends = LISTED.assign(start=0.0, end=9.0)
    form().prepare(ct.read_events({"a": ends})["a"])
    with pytest.raises(DataError, match="windows must be given"):
        form().prepare(ct.read_events({"a": ends.assign(end=[9.0, 9.0, np.nan], sequence=["p", "p", "q"])})["a"])


def test_an_event_in_the_hour_that_clocks_repeat_neither_moves_another_nor_has_the_table_refused() -> None:
    """Read by local clocks it came before the start of its window, and the table was refused."""
    start, early, later = (
        pd.Timestamp(f"2025-10-{day}T{time}").timestamp() / 86400
        for day, time in (("26", "02:30+02:00"), ("26", "02:10+01:00"), ("27", "12:00+01:00"))
    )
    midnight = np.floor(start)
    method = FedPP(kernel="time", window=(midnight - 1, midnight + 6), cells=48, period=1.0, compare=False)
    private = method.private(ct.Privacy(epsilon=1, seeded=True))

    def dated(*times: float) -> ct.Events:
        return ct.Events.from_arrays([times], [[start, start + 3]], unit="D", zone="Europe/Berlin")

    assert max(moved(private, dated(start, early, later), dated(start, later))) <= 1 + 1e-6
    assert max(moved(private, dated(early, later), dated(later))) <= 1 + 1e-6


@pytest.mark.parametrize("cells", [0, -1, 49, 4.5, np.full(3, 48.0)])
def test_no_number_of_cells_of_the_servers_choice_tells_of_events_by_an_error(cells: Any) -> None:
    private = form()
    for events in (table([]), table([1.0, 2.0, 3.0])):
        with pytest.raises(MessageError, match="cells must be"):
            private.answer(question_of("counts", Message({"cells": cells})), private.prepare(events), None, Rng(0))


def test_marks_that_occur_are_not_told() -> None:
    events = ct.Events.from_arrays([[1.0, 2.0]], WINDOW, marks=[["flu", "rare"]])
    assert form().public_schema(events.schema) == table([1.0]).schema


def test_no_window_of_a_sequence_decides_whether_a_table_is_refused() -> None:
    windows = [WINDOW, (2.0, 12.0)]
    both = ct.Events.from_arrays([[1.0], [3.0, 11.0]], windows)
    with pytest.warns(DataWarning, match="are left out, 1 are"):
        assert max(moved(form(unit="sequence"), both, both.take([0]))) <= 1 + 1e-9
