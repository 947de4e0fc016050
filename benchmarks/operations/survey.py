"""How many planted faults a survey finds, and how many alarms it raises on clean federations.

python benchmarks/operations/survey.py --jobs 16            clean federations, planted faults, clocks shifted by hours
python benchmarks/operations/survey.py --seeds 0 1 --show   the seeds on which thresholds were chosen, with words
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from federations import CLEAN, events_of_wards, posts_of_towns, series_of_wards
from numpy.random import Generator

sys.path.insert(0, str(Path(__file__).parents[1]))
from parts import FOLDER, about, do_part, read_parts
from results import write_results

import cotempo as ct
from cotempo.data import Events, Posts, Series
from cotempo.surveys.calendar import DAY, HOUR, in_summer, swap_days_and_months

Change = Callable[[Any, Generator], Any]
PARTS = FOLDER / "survey"


def column(name: str, change: Callable[[np.ndarray, Generator], np.ndarray]) -> Change:
    """A fault of one column."""

    def spoil(table: Series, rng: Generator) -> Series:
        values, place = table.values.copy(), table.features.index(name)
        values[:, place] = change(values[:, place], rng)
        return replace(table, values=values)

    return spoil


def at_times(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A fault of all times of a table; rows are then sorted again."""

    def spoil(table: Any, rng: Generator) -> Any:
        if isinstance(table, Events):
            time = change(table.time)
            start, end = np.full(len(table.names), time.min()), np.full(len(table.names), time.max())
            order = np.lexsort((time, table.sequence))
            return replace(
                table, time=time[order], sequence=table.sequence[order], mark=table.mark[order], start=start, end=end
            )
        time = change(table.time)
        order = np.lexsort((time, table.sequence)) if isinstance(table, Series) else np.argsort(time, kind="stable")
        return replace(table, time=time).select(order) if isinstance(table, Posts) else _sorted(table, time, order)

    return spoil


def _sorted(table: Series, time: np.ndarray, order: np.ndarray) -> Series:
    time = time[order]
    kept = np.concatenate([[True], (np.diff(time) > 0) | (table.sequence[order][1:] != table.sequence[order][:-1])])
    return replace(table, time=time[kept], values=table.values[order][kept], sequence=table.sequence[order][kept])


def swap(one: str, two: str) -> Change:
    """Two columns exchanged."""

    def spoil(table: Series, rng: Generator) -> Series:
        values, places = table.values.copy(), [table.features.index(name) for name in (one, two)]
        values[:, places] = values[:, places[::-1]]
        return replace(table, values=values)

    return spoil


def repeat_rows(table: Any, rng: Generator) -> Any:
    """A third of the rows twice; of a series, a second time as a further sequence."""
    twice = np.sort(rng.choice(table.rows, table.rows // 3, replace=False))
    if isinstance(table, Series):
        part = table.select(twice)
        names = np.concatenate([table.sequence, np.char.add(part.sequence, "-again")])
        order = np.argsort(names, kind="stable")
        return replace(
            table,
            sequence=names[order],
            time=np.concatenate([table.time, part.time])[order],
            values=np.concatenate([table.values, part.values])[order],
        )
    return table.select(np.sort(np.concatenate([np.arange(table.rows), twice])))


def thin(table: Series, rng: Generator) -> Series:
    """Every fourth row only."""
    return table.select(np.arange(table.rows) % 4 == 0)


def delay(values: np.ndarray, rng: Generator) -> np.ndarray:
    return np.concatenate([np.full(3, np.nan), values[:-3]])


def mark_missing(code: float) -> Callable[[np.ndarray, Generator], np.ndarray]:
    return lambda values, rng: np.where(rng.random(len(values)) < 0.08, code, values)


def texts(change: Callable[[str], str]) -> Change:
    return lambda table, rng: replace(table, text=tuple(map(change, table.text)))


def in_german(table: Posts, rng: Generator) -> Posts:
    """Posts of a town where another language is spoken."""
    other = posts_of_towns(int(rng.integers(1 << 30)), clients=1, language="German")["town-0"].text
    return replace(table, text=tuple(other[row % len(other)] for row in range(table.rows)))


def utc(seconds: np.ndarray) -> np.ndarray:
    """Local times of Berlin as UTC."""
    return seconds - HOUR - HOUR * in_summer(seconds)


# By fault: the kind of table, what happens to one client, and the kinds of findings that name it.
FAULTS: dict[str, tuple[str, Change, set[str]]] = {
    "mg/dL against mmol/L": ("series", column("glucose", lambda x, rng: x / 18.016), {"unit"}),
    "Celsius against Fahrenheit": ("series", column("temperature", lambda x, rng: 1.8 * x + 32), {"unit"}),
    "scale of 1000": ("series", column("glucose", lambda x, rng: x * 1000), {"unit"}),
    "percent against fraction": ("series", column("saturation", lambda x, rng: x / 100), {"unit"}),
    "flipped sign": ("series", column("balance", lambda x, rng: -x), {"sign"}),
    "swapped columns": ("series", swap("systolic", "diastolic"), {"columns"}),
    "other coding of a category": ("series", column("sex", lambda x, rng: x + 1), {"coding"}),
    "other sampling rate": ("series", thin, {"sampling"}),
    "duplicated rows": ("series", repeat_rows, {"repeats"}),
    "constant column": ("series", column("pulse", lambda x, rng: np.full(len(x), 80.0)), {"constant"}),
    "saturated values": (
        "series", column("glucose", lambda x, rng: np.minimum(x, np.nanquantile(x, 0.85))), {"limits"},
    ),
    "rounded to integers": ("series", column("temperature", lambda x, rng: np.round(x)), {"rounding"}),
    "missing coded as -999": ("series", column("pulse", mark_missing(-999.0)), {"missing"}),
    "missing coded as 0": ("series", column("systolic", mark_missing(0.0)), {"missing"}),
    "cumulated": ("series", column("intake", lambda x, rng: np.nancumsum(x)), {"cumulated"}),
    "delayed column": ("series", column("diastolic", delay), {"lag"}),
    "shifted time zone": ("series", at_times(lambda t: t + 6 * HOUR), {"zone"}),
    "clock two hours behind": ("series", at_times(lambda t: t - 2 * HOUR), {"zone"}),
    "UTC against local with summer time": ("series", at_times(utc), {"zone"}),
    "shifted clock": ("series", at_times(lambda t: t + 420.0), {"clock"}),
    "day and month swapped": ("events", at_times(swap_days_and_months), {"dates"}),
    "other names of marks": (
        "events", lambda table, rng: replace(table, marks=("fall", "fever", "Schmerz")), {"coding"},
    ),
    "exchanged codes of marks": (
        "events", lambda table, rng: replace(table, mark=np.array([1, 0, 2])[table.mark]), {"coding"},
    ),
    "shifted time zone, events": ("events", at_times(lambda t: t - 5 * HOUR), {"zone"}),
    "duplicated events": ("events", repeat_rows, {"repeats"}),
    "clock years off": ("events", at_times(lambda t: t - 30 * 365 * DAY), {"clock"}),
    "shifted time zone, posts": ("posts", at_times(lambda t: t + 8 * HOUR), {"zone"}),
    "other language": ("posts", in_german, {"texts"}),
    "other encoding": ("posts", texts(lambda text: text.encode().decode("latin-1")), {"texts"}),
    "duplicated posts": ("posts", repeat_rows, {"repeats"}),
    "texts cut off": ("posts", texts(lambda text: text[:40]), {"texts"}),
}  # fmt: skip
SHIFTED = range(200, 203)
HOURS = (-1, 1, -2, 2, -3, 3, -5, 5)
MAKERS = {"series": series_of_wards, "events": events_of_wards, "posts": posts_of_towns}


def plant(fault: str, seed: int, show: bool) -> dict[str, Any]:
    """Spoil one client of a federation, survey it, and say whether this client was told, and anybody else."""
    kind, change, kinds = FAULTS[fault]
    clients = MAKERS[kind](seed)
    rng = np.random.default_rng([seed, len(fault)])
    victim = sorted(clients)[int(rng.integers(len(clients)))]
    clients[victim] = change(clients[victim], rng)
    fitted = ct.survey(clients, progress=False)
    told = fitted.findings[victim]
    row = {
        "federation": fault, "kind": kind, "seed": seed, "planted": 1,
        "found": int(any(finding.kind in kinds for finding in told)),
        "also_told": sum(finding.kind not in kinds for finding in told),
        "others_told": sum(len(own) for client, own in fitted.findings.items() if client != victim),
    }  # fmt: skip
    if show and (not row["found"] or row["also_told"] or row["others_told"]):
        print(f"{fault}, seed {seed}, at {victim}:", *fitted.lines(), sep="\n    ")
    return row


def shift(kind: str, hours: int, seed: int) -> dict[str, Any]:
    """Shift the clock of every client in turn, and count who is told of it, and who else is told anything."""
    whole = MAKERS[kind](seed)
    told = others = 0
    for victim in whole:
        moved = at_times(lambda t: t + hours * HOUR)(whole[victim], None)
        findings = ct.survey({**whole, victim: moved}, progress=False).findings
        told += any(finding.kind == "zone" for finding in findings[victim])
        others += sum(len(own) for client, own in findings.items() if client != victim)
    return {"clients": len(whole), "told": told, "others_told": others}


def watch(name: str, seed: int, show: bool) -> dict[str, Any] | None:
    """Survey a clean federation and count its alarms; None where its data are not there."""
    clients = CLEAN[name](seed)
    if clients is None:
        return None
    fitted = ct.survey(clients, progress=False)
    alarms = sum(map(len, fitted.findings.values()))
    if show and alarms:
        print(f"{name}, seed {seed}:", *fitted.lines(), sep="\n    ")
    kind = next(iter(clients.values())).kind
    return {
        "federation": name,
        "kind": kind,
        "seed": seed,
        "planted": 0,
        "found": 0,
        "also_told": alarms,
        "others_told": 0,
    }


def measure(task: tuple[str, bool, int], show: bool = False) -> None:
    """One federation, clean or spoiled, as a part; nothing where its data are not there."""
    name, is_planted, seed = task
    key = {"federation": name, "seed": seed, "planted": int(is_planted)}
    if show:
        (plant if is_planted else watch)(name, seed, True)
    elif is_planted or CLEAN[name](seed) is not None:
        do_part(PARTS, key, lambda: plant(name, seed, False) if is_planted else watch(name, seed, False) or {})


def measure_shift(task: tuple[str, int, int]) -> None:
    """One kind of table, one shift and one seed, as a part."""
    kind, hours, seed = task
    do_part(PARTS.with_name("survey-hours"), {"kind": kind, "hours": hours, "seed": seed}, lambda: shift(*task))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(200, 210)])
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    kinds = [*((name, False) for name in CLEAN), *((fault, True) for fault in FAULTS)]
    tasks = [(name, is_planted, seed) for seed in given.seeds for name, is_planted in kinds]
    if given.show:
        for task in tasks:
            measure(task, show=True)
        return
    with ProcessPoolExecutor(given.jobs) as pool:
        list(pool.map(measure, tasks))
        list(pool.map(measure_shift, [(kind, hours, seed) for seed in SHIFTED for kind in MAKERS for hours in HOURS]))
    rows = [row for row in read_parts(PARTS) if row["seed"] in given.seeds]
    rows.sort(key=lambda row: (row["seed"], row["planted"], row["federation"]))
    note = f"thresholds were chosen on seeds 0, 1 and 300 to 305; {about(rows)}"
    write_results("operations-survey", rows, seed=given.seeds, note=note)
    shifts = [part for part in read_parts(PARTS.with_name("survey-hours")) if part["seed"] in SHIFTED]
    write_results("operations-survey-hours", by_hours(shifts), seed=[*SHIFTED], note=f"{note}; {about(shifts)}")
    summary = [summarise([row for row in rows if row["seed"] == seed]) for seed in given.seeds]
    write_results("operations-survey-seeds", summary, seed=given.seeds, note=note)
    for row in summary:
        print(row)


def by_hours(shifts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the share of shifted clocks that are told, by kind of table and hours."""
    found = []
    for kind in MAKERS:
        for hours in HOURS:
            rows = [part for part in shifts if (part["kind"], part["hours"]) == (kind, hours)]
            clients, told, others = (sum(row[name] for row in rows) for name in ("clients", "told", "others_told"))
            row = {"kind": kind, "hours": hours, "shifted": clients, "told": told, "others_told": others}
            found.append({**row, "percent": round(100 * told / clients)})
    return found


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count faults found and false alarms of one seed."""
    planted, clean = ([row for row in rows if bool(row["planted"]) == wanted] for wanted in (True, False))
    return {
        "seed": rows[0]["seed"], "faults": len(planted), "found": sum(row["found"] for row in planted),
        "told_beside_faults": sum(row["also_told"] + row["others_told"] for row in planted),
        "clean_federations": len(clean), "alarms": sum(row["also_told"] for row in clean),
        "federations_with_alarms": sum(row["also_told"] > 0 for row in clean),
    }  # fmt: skip


if __name__ == "__main__":
    main()
