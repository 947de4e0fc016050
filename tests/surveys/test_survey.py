"""Surveys: planted faults are told to the client that has them, in words, and honest clients are told nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Events, Posts, Series
from cotempo.errors import ParameterError, SchemaError
from cotempo.surveys.calendar import DAY, HOUR, in_summer, swap_days_and_months, time_figures
from cotempo.surveys.others import PRIOR, TYPICAL, Others, pack

START = 1_672_531_200.0  # 2023-01-01


def plants(seed: int = 0, clients: int = 6, rows: int = 24 * 60) -> dict[str, Series]:
    """Hourly temperature, flow and load of plants that differ a little, warmer and busier by day."""
    found = {}
    for number in range(clients):
        rng = np.random.default_rng([seed, number])
        wave = np.cos(2 * np.pi * (np.arange(rows) % 24 - 15) / 24)
        common = rng.normal(size=rows)
        size = np.exp(0.08 * rng.normal(size=3))
        temperature = 21 * size[0] + 3 * wave + rng.normal(size=rows)
        flow = 140 * size[1] * np.exp(0.2 * common + 0.05 * wave + 0.1 * rng.normal(size=rows))
        load = 40 * size[2] * (common + 0.3 * rng.normal(size=rows))
        valve = (rng.random(rows) < 0.3 + 0.05 * rng.normal()).astype(float)
        values = np.column_stack([temperature, flow, load, valve])
        names = ["temperature", "flow", "load", "valve"]
        found[f"plant-{number}"] = Series.from_arrays(values, START + HOUR * np.arange(rows), names, unit="s")
    return found


def change(column: int, how: Callable[[np.ndarray], np.ndarray]) -> Callable[[Series], Series]:
    def spoil(table: Series) -> Series:
        values = table.values.copy()
        values[:, column] = how(values[:, column])
        return replace(table, values=values)

    return spoil


FAULTS: dict[str, tuple[Callable[[Series], Series], str, str]] = {
    "fahrenheit": (change(0, lambda x: 1.8 * x + 32), "unit", "degrees Fahrenheit against Celsius"),
    "milli": (change(1, lambda x: 1000 * x), "unit", "a prefix such as milli or kilo (1,000)"),
    "glucose": (change(1, lambda x: x / 18.016), "unit", "mg/dL against mmol/L of glucose (18)"),
    "sign": (change(2, lambda x: -x), "sign", "your load has the opposite sign"),
    "swapped": (lambda t: replace(t, values=t.values[:, [1, 0, 2, 3]]), "columns", "exchanged columns"),
    "coding": (change(3, lambda x: x + 1), "coding", "1 larger"),
    "missing": (change(0, lambda x: np.where(np.arange(len(x)) % 12 == 5, -999.0, x)), "missing", "value -999"),
    "constant": (change(1, lambda x: np.full(len(x), 140.0)), "constant", "flow never changes"),
    "limit": (change(1, lambda x: np.minimum(x, np.quantile(x, 0.8))), "limits", "cut off"),
    "rounded": (change(0, np.round), "rounding", "whole numbers"),
    "cumulated": (change(1, np.cumsum), "cumulated", "take differences"),
    "delayed": (change(2, lambda x: np.roll(x, 3)), "lag", "3 rows too"),
    "zone": (lambda t: replace(t, time=t.time + 6 * HOUR), "zone", "6 h ahead of"),
    "minutes": (lambda t: replace(t, time=t.time + 420), "clock", "7 minutes ahead of"),
    "hours apart": (lambda t: t.select(np.arange(t.rows) % 4 == 0), "sampling", "longer"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_to_the_client_that_has_it_and_to_nobody_else(fault: str) -> None:
    spoil, kind, words = FAULTS[fault]
    clients = plants()
    clients["plant-2"] = spoil(clients["plant-2"])
    fitted = ct.survey(clients, progress=False)
    told = [finding.words for finding in fitted["plant-2"] if finding.kind == kind]
    assert len(told) == 1, fitted.lines()
    assert words in told[0]
    assert not any(own for client, own in fitted.findings.items() if client != "plant-2")
    assert fitted.counts[kind] == 1
    assert fitted.state.found[-1] == 1


def pumps(clients: int, rows: int = 1200) -> dict[str, Series]:
    """Flow and pressure of pumps that are all alike, busier by day."""
    found = {}
    for number in range(clients):
        rng = np.random.default_rng([3, number])
        drift = np.zeros(rows)
        for row in range(1, rows):
            drift[row] = 0.9 * drift[row - 1] + 0.3 * rng.normal()
        load = np.sin((np.arange(rows) % 24 - 9) * np.pi / 12) + drift
        flow = 120 + 25 * load + 2 * rng.normal(size=rows)
        pressure = 6 + 0.9 * load - 0.02 * (flow - 120) + 0.08 * rng.normal(size=rows)
        values = np.column_stack([flow, pressure])
        found[f"pump-{number}"] = Series.from_arrays(values, START + HOUR * np.arange(rows), ["flow", "pressure"])
    return found


@pytest.mark.parametrize("clients", [3, 4, 5, 6, 8])
@pytest.mark.parametrize(
    ("column", "factor", "units"),
    [(1, 14.5038, "psi against bar (14.5)"), (1, 100, "kPa against bar"), (0, 4.403, "US gallons per minute")],
)
def test_units_of_processes_are_named_with_the_measured_ratio_by_few_sites_and_many(
    clients: int, column: int, factor: float, units: str
) -> None:
    tables = pumps(clients)
    tables["pump-1"] = change(column, lambda x: factor * x)(tables["pump-1"])
    (finding,) = ct.survey(tables, progress=False)["pump-1"]
    assert finding.kind == "unit"
    assert units in finding.words
    measured = re.search(r"is about ([\d.]+) times larger", finding.words)
    assert measured is not None
    assert float(measured[1]) == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize("factor", [5.2, 12.4, 500.0, 1 / 12.4])
def test_a_ratio_that_no_units_explain_is_told_and_is_no_logarithm(factor: float) -> None:
    tables = pumps(8)
    tables["pump-1"] = change(1, lambda x: factor * x)(tables["pump-1"])
    (finding,) = ct.survey(tables, progress=False)["pump-1"]
    assert finding.words.endswith("the others': another unit?")
    assert finding.kind == "unit"


@pytest.mark.parametrize(("back", "base"), [(np.exp2, "2"), (lambda x: 10**x, "10")])
def test_a_logarithm_is_still_told_where_no_multiplication_explains_it(
    back: Callable[[np.ndarray], np.ndarray], base: str
) -> None:
    tables = {name: change(1, lambda x: np.log2(np.maximum(x, 1)) / np.log2(float(base)))(table)
              for name, table in pumps(5).items()}  # fmt: skip
    tables["pump-1"] = change(1, back)(tables["pump-1"])
    (finding,) = ct.survey(tables, progress=False)["pump-1"]
    assert finding.kind == "logarithm"
    assert f"to base {base}" in finding.words


def test_a_site_whose_zone_is_known_is_not_told_to_give_one() -> None:
    clients = {name: replace(table, zone="Europe/London") for name, table in plants().items()}
    clients["plant-2"] = replace(clients["plant-2"], time=clients["plant-2"].time + 6 * HOUR)
    (finding,) = ct.survey(clients, progress=False)["plant-2"]
    assert "6 h ahead of" in finding.words
    assert "Your dates have the zone Europe/London: if it is right, your day differs" in finding.words
    assert "zone=" not in finding.words


def rooms(shift: float) -> dict[str, Series]:
    """Nine columns that are a little higher by day, in six rooms; the clock of the third is shifted."""
    found, rows = {}, 24 * 60
    for number in range(6):
        rng = np.random.default_rng([0, number])
        wave = np.cos(2 * np.pi * (np.arange(rows) % 24 - 15) / 24)
        values = 0.35 * np.outer(wave, np.exp(0.1 * rng.normal(size=9))) + rng.normal(size=(rows, 9))
        time = START + HOUR * (np.arange(rows) + shift * (number == 2))
        found[f"room-{number}"] = Series.from_arrays(values, time, [f"x{column}" for column in range(9)], unit="s")
    return found


@pytest.mark.parametrize(("shift", "words"), [(-2, "2 h behind"), (2, "2 h ahead of")])
def test_two_hours_are_told_where_every_column_tells_them_a_little(shift: float, words: str) -> None:
    fitted = ct.survey(rooms(shift), progress=False)
    assert {client for client, own in fitted.findings.items() if own} == {"room-2"}
    (finding,) = fitted["room-2"]
    assert finding.kind == "zone"
    assert words in finding.words
    assert ct.survey(rooms(0), progress=False).counts == {}


def test_utc_at_one_site_and_local_time_at_the_others() -> None:
    clients = plants(rows=24 * 300)
    table = clients["plant-4"]
    utc = table.time - HOUR - HOUR * in_summer(table.time)
    once = np.concatenate([[True], np.diff(utc) > 0])  # an hour comes twice where summer begins
    clients["plant-4"] = replace(table.select(once), time=utc[once])
    (finding,) = ct.survey(clients, progress=False)["plant-4"]
    assert "in winter" in finding.words
    assert "1 h behind" in finding.words
    assert "2 h behind" in finding.words


@pytest.mark.parametrize("seed", [1, 2])
def test_plants_that_differ_honestly_are_told_nothing(seed: int) -> None:
    fitted = ct.survey(plants(seed), progress=False)
    assert fitted.counts == {}
    assert fitted.answer() == "nothing was found in the tables of 6 clients"


def test_where_populations_differ_as_much_as_a_unit_nothing_is_told() -> None:
    clients = {
        name: change(1, lambda x, factor=factor: factor * x)(table)
        for factor, (name, table) in zip((1.0, 4.0, 20.0, 80.0, 300.0, 18.016), plants().items(), strict=True)
    }
    assert ct.survey(clients, progress=False).counts == {}


def test_what_could_not_be_compared_is_said_and_what_few_sites_can_tell() -> None:
    tables = pumps(4)
    short = {name: table.select(np.arange(table.rows) < 40) for name, table in tables.items()}
    fitted = ct.survey({**tables, "pump-3": short["pump-3"]}, progress=False)
    assert fitted.answer() == "nothing was found in the tables of 4 clients"
    assert {*fitted.limits} == {"flow", "pressure"}
    assert "compared at 3 of 4 sites: the rest has fewer than 50 rows" in fitted.limits["flow"]
    measured = re.search(r"off by ([\d.]+) times or more", fitted.limits["pressure"])
    assert measured is not None
    assert 2 < float(measured[1]) < 4
    assert any("pressure: compared" in line for line in fitted.lines())
    two = ct.survey({**short, "pump-0": tables["pump-0"], "pump-1": tables["pump-1"]}, progress=False)
    assert two.lines() == [
        "nothing could be compared in the tables of 4 clients",
        "flow, pressure: not compared: fewer than 3 sites with 50 rows",
    ]
    assert ct.survey(pumps(12), progress=False).limits == {}


def wards(clients: int = 6) -> dict[str, Events]:
    found = {}
    for number in range(clients):
        rng = np.random.default_rng([7, number])
        time = rng.uniform(START, START + 90 * DAY, 3000)
        time = np.sort(time[rng.random(3000) < 0.5 + 0.45 * np.cos(2 * np.pi * (time / HOUR % 24 - 14) / 24)])
        marks = rng.choice(["F", "M"], len(time), p=[0.8, 0.2])
        found[f"ward-{number}"] = Events.from_arrays([time], (START, START + 90 * DAY), [marks], unit="s")
    return found


def test_events_with_other_codes_dates_clocks_and_rows_twice() -> None:
    clients = wards()
    swapped = swap_days_and_months(clients["ward-1"].time)
    order, twice = np.argsort(swapped), np.sort(np.r_[0 : clients["ward-3"].rows, 0:400])
    clients["ward-0"] = replace(clients["ward-0"], marks=("w", "m"))
    clients["ward-1"] = replace(
        clients["ward-1"], time=swapped[order], mark=clients["ward-1"].mark[order], end=[swapped.max()]
    )
    clients["ward-2"] = replace(clients["ward-2"], time=clients["ward-2"].time - 5 * HOUR, start=[START - 5 * HOUR])
    clients["ward-3"] = clients["ward-3"].select(twice)
    fitted = ct.survey(clients, progress=False)
    kinds = {client: [finding.kind for finding in own] for client, own in fitted.findings.items()}
    expected = {"ward-0": ["coding"], "ward-1": ["dates"], "ward-2": ["zone"], "ward-3": ["repeats"]}
    assert kinds == {**{key: [] for key in clients}, **expected}, fitted.lines()
    assert "called m, w where the others' are F, M" in fitted["ward-0"][0].words


def test_posts_in_another_language_and_in_another_encoding() -> None:
    rng = np.random.default_rng(3)
    english, german = (
        "the storm is over and trees are down in this street",
        "der Sturm ist vorbei und die Straße ist nicht frei",
    )
    clients = {
        f"town-{number}": Posts(
            time=np.sort(rng.uniform(0, 30, 200)),
            text=tuple(
                " ".join(rng.permutation(english.split())) + " café" * int(rng.random() < 0.3) for _ in range(200)
            ),
        )
        for number in range(6)
    }
    clients["town-1"] = replace(
        clients["town-1"], text=tuple(" ".join(rng.permutation(german.split())) for _ in range(200))
    )
    clients["town-5"] = replace(
        clients["town-5"], text=tuple(text.encode().decode("latin-1") for text in clients["town-5"].text)
    )
    fitted = ct.survey(clients, progress=False)
    assert next(finding.words for finding in fitted["town-1"]).startswith("your texts are German")
    assert "garbled" in fitted["town-5"][0].words
    assert {client for client, own in fitted.findings.items() if own} == {"town-1", "town-5"}


def test_powers_of_all_columns_are_one_finding() -> None:
    def lab(number: int) -> Series:
        rng, names = np.random.default_rng([5, number]), ("TP53", "MDM2", "MYC", "RB1", "ATM", "BAX")
        values = np.zeros((200, 6))
        for row in range(1, 200):
            values[row] = 0.4 * values[row - 1] + rng.normal(size=6)
        return Series.from_arrays(values + 8 + rng.normal(size=6) * 0.3, features=names)

    clients = {f"lab-{number}": lab(number) for number in range(4)}
    clients["lab-2"] = replace(clients["lab-2"], values=2 ** (clients["lab-2"].values - 3))
    fitted = ct.survey(clients, progress=False)
    (finding,) = fitted["lab-2"]
    assert finding.words.endswith("all look like powers of the others': take their logarithm")
    assert not any(own for name, own in fitted.findings.items() if name != "lab-2")


def test_capitals_are_no_garbled_letters() -> None:
    rng = np.random.default_rng(4)
    words = ["chuva", "rua", "dia", "casa", "ponte", "rio"]
    clients = {}
    for number in range(6):
        texts = (" ".join(rng.permutation(words)) + " NÃO HÁ" * (number == 2 and row % 10 == 0) for row in range(200))
        clients[f"town-{number}"] = Posts(time=np.sort(rng.uniform(0, 30, 200)), text=tuple(texts))
    assert not [finding.words for finding in ct.survey(clients, progress=False)["town-2"]]


def test_others_are_the_sums_less_the_own_part() -> None:
    layout = [("x", "size"), ("x", "sign")]
    figures = [{layout[0]: value} for value in (1.0, 1.5, 2.0, 9.0)]
    parts = [pack(own, layout) for own in figures]
    sums = {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}
    others = Others.of_sums(sums, layout, parts[3])
    assert others.found == {layout[0]: (3.0, 1.5, pytest.approx(np.std([1.0, 1.5, 2.0], ddof=1)))}
    distance, freedom = others.distance(layout[0], 9.0)
    scale = math.sqrt((2 * 0.25 + PRIOR * TYPICAL["size"] ** 2) / (2 + PRIOR) * (4 / 3))
    assert (distance, freedom) == (pytest.approx(7.5 / scale), 4.0)


def test_days_and_months_exchanged_twice_are_as_before() -> None:
    times = START + np.arange(0, 400 * DAY, 5000.0)
    np.testing.assert_array_equal(swap_days_and_months(swap_days_and_months(times)), times)
    assert time_figures(swap_days_and_months(times[times < START + 60 * DAY]))["", "span"] > math.log(300)


def test_two_clients_and_noise_are_refused_in_words() -> None:
    clients = plants(clients=3, rows=100)
    with pytest.raises(SchemaError, match="at least 3 clients, got 2"):
        ct.survey({name: clients[name] for name in list(clients)[:2]}, progress=False)
    with pytest.raises(ParameterError, match="no differentially private form"):
        ct.survey(clients, privacy=ct.Privacy(epsilon=1), progress=False)


def test_with_the_secure_sum_the_same_is_found(tmp_path: Path) -> None:
    clients = plants(rows=24 * 30)
    clients["plant-2"] = FAULTS["milli"][0](clients["plant-2"])
    plain, secure = (ct.survey(clients, privacy=ct.Privacy(secure_sum=on), progress=False) for on in (False, True))
    assert secure.lines() == plain.lines()
    np.testing.assert_array_equal(secure.state.total, plain.state.total)
    secure.save(tmp_path / "result")
    assert (tmp_path / "result" / "findings.txt").read_text().splitlines() == plain.lines()
    assert ct.load(tmp_path / "result").findings == plain.findings


def test_a_column_that_nobody_else_has_was_not_exchanged() -> None:
    tables = plants()
    odd = tables["plant-2"]
    extra = np.column_stack([odd.values, odd.values[:, 1]])
    extra[:, 1] = np.random.default_rng(0).normal(size=odd.rows)
    tables["plant-2"] = replace(odd, values=extra, features=(*odd.features, "own"))
    assert not any("exchanged" in line for line in ct.survey(tables, progress=False).lines())
