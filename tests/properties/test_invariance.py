"""What must not change a result: units, the order of columns, clients and rows, names, and what says nothing.

Random draws. A client's random numbers depend on its name, by design: streams hash (seed, client, step, purpose). Where
clients are renamed, each keeps here the stream of its old name; what is left is what a method itself makes of names and
of the order of clients, and that must be nothing but rounding.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from cases import CASES, Case, Reading, View, apart, from_files, halves, make_case, make_empty, of_kind, read

from cotempo.data import Events, Posts, Series
from cotempo.errors import DataError
from cotempo.federation import Rng
from cotempo.federation.site import Site

CLOSE = 1e-6
SERIES, EVENTS, POSTS = of_kind("series"), of_kind("events"), of_kind("posts")


@cache
def base(name: str) -> tuple[Case, Reading]:
    """A case, and what its result says before anything is changed."""
    case = make_case(name)
    return case, read(case, case.fit(), case.clients)


def must_stay(
    name: str, changed: Case, view: View | None = None, but: tuple[str, ...] = (), close: float = CLOSE
) -> None:
    """Hold what the result of a changed case says beside what it said before."""
    case, before = base(name)
    after = read(changed, changed.fit(), case.clients, view)
    far = {what: gap for what, gap in apart(before, after).items() if what not in but and not gap < close}
    assert not far, f"{name} must not change, relative to what it was it did by {far}"


def must_stay_or_be_refused(name: str, changed: Case, nothing: set[str]) -> None:
    """Nothing changes, or the columns or clients that say nothing are refused by name, and they only."""
    try:
        must_stay(name, changed)
    except DataError as error:
        named = [nothing & {problem.column, problem.client} for problem in error.problems]
        if not all(named) or set().union(*named) != nothing:
            raise


# Units.

OWN_UNITS = {"x0": 100.0, "x1": 0.01, "x2": 3.0, "x3": 1e-3}
ONE_UNIT = dict.fromkeys(OWN_UNITS, 60.0)
SHIFTS = {"x0": -5.0, "x1": 7.0, "x2": 1000.0, "x3": 0.5}
# Directions inside a time step come from the sizes of noise. Where equal noise is assumed, as by these methods unless
# their columns are scaled, units are part of the model. What joining is worth must not depend on them all the same.
EQUAL_NOISE = ["FDBNL", "PFDBNL", "OneRound"]


def rescaled(scale: dict[str, float], shift: dict[str, float]) -> Any:
    def change(table: Series) -> Series:
        factors, moves = ([part[name] for name in table.features] for part in (scale, shift))
        return replace(table, values=table.values * factors + moves)

    return change


@pytest.mark.parametrize("name", SERIES)
def test_units_of_columns(name: str) -> None:
    changed = base(name)[0].change(rescaled(OWN_UNITS, SHIFTS))
    must_stay(name, changed, View(scale=OWN_UNITS, shift=SHIFTS), but=("weights",) if name in EQUAL_NOISE else ())


@pytest.mark.parametrize("name", EQUAL_NOISE)
def test_one_unit_for_all_columns(name: str) -> None:
    must_stay(name, base(name)[0].change(rescaled(ONE_UNIT, SHIFTS)), View(scale=ONE_UNIT, shift=SHIFTS))


def clocked(scale: float, shift: float) -> Any:
    def change(table: Events) -> Events:
        time, start, end = (scale * part + shift for part in (table.time, table.start, table.end))
        return replace(table, time=time, start=start, end=end)

    return change


@pytest.mark.parametrize("name", EVENTS)
def test_origin_of_time(name: str) -> None:
    must_stay(name, base(name)[0].change(clocked(1.0, 1000.0)))


@pytest.mark.parametrize("name", EVENTS)
def test_unit_of_time(name: str) -> None:
    must_stay(name, base(name)[0].change(clocked(3.0, 0.0)))


@pytest.mark.parametrize("name", POSTS)
def test_days_or_hours_and_the_first_day_of_posts(name: str) -> None:
    def change(table: Posts) -> Posts:
        return replace(table, time=24 * (table.time + 700), unit="h")

    must_stay(name, base(name)[0].change(change))


# Order and names.


@pytest.mark.parametrize("name", SERIES)
def test_order_of_columns(name: str) -> None:
    def change(table: Series) -> Series:
        return replace(table, features=table.features[::-1], values=table.values[:, ::-1])

    must_stay(name, base(name)[0].change(change))


@pytest.mark.parametrize("name", CASES)
def test_order_and_names_of_clients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = base(name)[0]
    names = {old: f"renamed-{len(case.clients) - place}" for place, old in enumerate(sorted(case.clients))}
    before = {new: old for old, new in names.items()}
    monkeypatch.setattr(Site, "rng", lambda site, step: Rng(site.seed, before[site.client], step))
    clients = {names[old]: case.clients[old] for old in sorted(case.clients, reverse=True)}
    # Networks of 32 bits carry the rounding of a sum in another order through their training.
    must_stay(name, Case(case.method, clients, case.public), View(names=names), close=1e-4)


@pytest.mark.parametrize("name", [*SERIES, *EVENTS])
def test_sequences_of_a_client_in_two_files(name: str) -> None:
    """Read one after the other, in either order, they are the same table, and so all that follows is the same."""
    for client, table in base(name)[0].clients.items():
        first, second = halves(table)
        assert from_files(first, second).fingerprint() == from_files(second, first).fingerprint(), client


@pytest.mark.parametrize("name", ["EdgeRanking", "FedMean", "OneRound, common"])
def test_what_is_made_of_sums_is_the_same_however_sequences_are_dealt_to_clients(name: str) -> None:
    case = make_case(name)
    cut = {client: halves(table) for client, table in case.clients.items()}
    whole = Case(case.method, {client: from_files(*parts) for client, parts in cut.items()})
    dealt = Case(case.method, {f"{client}-{k}": part for client, parts in cut.items() for k, part in enumerate(parts)})
    one = next(iter(whole.clients))
    before = read(whole, whole.fit(), {one: whole.clients[one]})
    after = read(dealt, dealt.fit(), {one: whole.clients[one]}, View(names={one: f"{one}-0"}))
    far = {what: gap for what, gap in apart(before, after).items() if what != "gain of joining" and not gap < CLOSE}
    assert not far, f"{name} changed by {far}"


# What says nothing.


@pytest.mark.parametrize("name", [name for name in SERIES if name != "FedTDD"])
def test_a_constant_column(name: str) -> None:
    def change(table: Series) -> Series:
        values = np.column_stack([table.values, np.full((table.rows, 2), 4.2)])
        return replace(table, features=(*table.features, "still", "again"), values=values)

    must_stay_or_be_refused(name, base(name)[0].change(change), {"still", "again"})


def test_a_constant_column_is_filled_with_its_constant() -> None:
    """FedTDD's networks have an input more for it and start from other draws; the column itself must be right."""

    def change(table: Series) -> Series:
        still = np.where(np.arange(table.rows) % 3 == 0, np.nan, 4.2)
        return replace(table, features=(*table.features, "still"), values=np.column_stack([table.values, still]))

    changed = make_case("FedTDD").change(change)
    fitted = changed.fit()
    for client, table in changed.clients.items():
        np.testing.assert_allclose(fitted[client].impute(table).values[:, -1], 4.2, rtol=1e-9)


@pytest.mark.parametrize("name", EVENTS)
def test_a_mark_that_all_events_have(name: str) -> None:
    must_stay(name, base(name)[0].change(lambda table: replace(table, marks=("same",))))


@pytest.mark.parametrize("name", POSTS)
def test_a_column_that_no_method_reads(name: str) -> None:
    must_stay(name, base(name)[0].change(lambda table: replace(table, extra={"language": ("en",) * table.rows})))


@pytest.mark.parametrize("name", CASES)
def test_a_client_with_nothing(name: str) -> None:
    case = base(name)[0]
    empty = make_empty(next(iter(case.clients.values())))
    must_stay_or_be_refused(name, Case(case.method, {**case.clients, "a-nobody": empty}, case.public), {"a-nobody"})
