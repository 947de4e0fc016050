"""Waiting for everyone against going on with a buffer: simulated time to the same held-out loss.

python benchmarks/scale/delays.py --method fedpp-paper --case stragglers --seeds 0 1 2 3 4
python benchmarks/scale/delays.py --collect FOLDER   # the table of all parts written by --parts FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tasks import TASKS, Task

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import write_results

from cotempo.engines.delayed import Delays, Timed, asynchronous_rounds, timed_rounds
from cotempo.engines.inprocess import InProcess
from cotempo.federation.rounds import LoopOptions, initial_checkpoint
from cotempo.threads import limit_threads

CLIENTS = 20
CASES = {
    "stragglers": Delays(stragglers=0.2, slowdown=10),
    "log-normal": Delays(spread=1.0, jitter=1.0),
}
BUFFERS: tuple[Any, ...] = ("auto", 16, 10, 5)
STEADY = 3
MARGIN = 0.02
PATIENCE = 0.6
Curve = list[tuple[float, float]]


def watch(task: Task, engine: InProcess, steps: Iterator[Timed], seed: int) -> Iterator[tuple[float, float]]:
    """Seconds and held-out loss, before learning begins and after every step of it."""
    ledger: dict[str, int] = {}
    first = initial_checkpoint(task.method, engine, LoopOptions(seed=seed)).state
    if task.is_learned(first):
        yield 0.0, task.loss(engine, first, {})
    for seconds, progress in steps:
        ledger |= progress.answers.versions
        if task.is_learned(progress.state):
            yield seconds, task.loss(engine, progress.state, ledger)


def reached(curve: Curve, target: float, steady: int) -> float | None:
    """When the loss comes to be at or below the target for some steps in a row."""
    below = [loss <= target for _, loss in curve]
    for index in range(len(curve) - steady + 1):
        if all(below[index : index + steady]):
            return curve[index][0]
    return None


def targets(waited: Curve) -> dict[str, float]:
    """The loss the synchronous loop ends with, and the lowest it ever had, both with a margin."""
    losses = [loss for _, loss in waited]
    found = {"end": float(np.mean(losses[-5:])), "lowest": min(losses)}
    return {name: loss + MARGIN * (losses[0] - loss) for name, loss in found.items()}


def compare(task: Task, delays: Delays, seed: int, buffers: Sequence[Any] = BUFFERS) -> list[dict[str, Any]]:
    """Run both loops, the asynchronous one with each buffer until it is there or too late."""
    seconds = delays.among(task.clients, seed)
    engine = InProcess(task.method, task.clients, seed=seed)
    waited = list(watch(task, engine, timed_rounds(task.method, engine, seconds, LoopOptions(seed=seed)), seed))
    target = targets(waited)["lowest"]
    patience = PATIENCE * (reached(waited, target, 1) or 0.0)
    longer = task.method.model_copy(update={"rounds": 100 * task.method.rounds})
    rows = []
    for buffer in buffers:
        engine = InProcess(task.method, task.clients, seed=seed)
        ahead: Curve = []
        for point in watch(
            task, engine, asynchronous_rounds(longer, engine, seconds, LoopOptions(seed=seed), buffer=buffer), seed
        ):
            ahead.append(point)
            if reached(ahead[-STEADY:], target, STEADY) is not None or point[0] > patience:
                break
        rows.append({"seed": seed, "buffer": buffer, "waited": waited, "ahead": ahead})
        print(task.name, seed, buffer, [judge(rows[-1], goal) for goal in ("end", "lowest")], flush=True)
    return rows


def judge(row: Mapping[str, Any], goal: str) -> dict[str, float | None]:
    """How long both took; the synchronous loop needs to be there once, the other one to stay."""
    target = targets(row["waited"])[goal]
    waits, goes = reached(row["waited"], target, 1), reached(row["ahead"], target, STEADY)
    assert waits is not None
    begins = row["waited"][0][0]  # before that both wait for everyone
    if goes is None or goes > PATIENCE * waits:
        return {"wait_seconds": waits, "buffer_seconds": None, "ratio": 1.0, "learning_ratio": 1.0}
    learning = (goes - begins) / (waits - begins)
    return {"wait_seconds": waits, "buffer_seconds": goes, "ratio": goes / waits, "learning_ratio": learning}


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over seeds with standard errors; the ratio of a run that was not there in time counts as 1."""
    summary: dict[str, Any] = {"seeds": len(rows), "in_time": sum(row["buffer_seconds"] is not None for row in rows)}
    for name in rows[0]:
        values = np.array([row[name] for row in rows if row[name] is not None], dtype=float)
        summary[name] = float(values.mean()) if len(values) else float("nan")
        summary[f"{name}_se"] = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")
    return summary


def collect(folder: Path) -> None:
    """Put the parts together: the table, and the curves of one seed."""
    parts = [json.loads(path.read_text()) for path in sorted(folder.rglob("delays-*.json"))]
    table: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for method, case in sorted({(part["method"], part["case"]) for part in parts}):
        rows = [row for part in parts if (part["method"], part["case"]) == (method, case) for row in part["rows"]]
        for goal, buffer in ((goal, buffer) for goal in ("end", "lowest") for buffer in BUFFERS):
            own = [judge(row, goal) for row in rows if row["buffer"] == buffer]
            if not own:
                continue
            named = {"method": method, "delays": case, "clients": CLIENTS, "goal": goal, "buffer": buffer}
            table.append({**named, **summarise(own)})
            print(table[-1])
        first = [row for row in rows if row["seed"] == 0]
        loops = {**{row["buffer"]: row["ahead"] for row in first}, 0: first[0]["waited"]}
        curves += [
            {"method": method, "delays": case, "buffer": buffer, "seconds": seconds, "loss": loss}
            for buffer, curve in loops.items()
            for seconds, loss in curve
        ]
    seeds = sorted({row["seed"] for part in parts for row in part["rows"]})
    note = (
        f"simulated seconds until the held-out loss is at most {MARGIN:.0%} of the fall above that of the synchronous "
        f"loop, at its end (mean of 5 rounds) or at its lowest; the asynchronous loop must stay there {STEADY} steps, "
        f"and counts as no faster where it needs more than {PATIENCE:g} of the synchronous loop's time"
    )
    write_results("scale/delays", table, seed=seeds, note=note)
    write_results("scale/delays-curves", curves, seed=0, note="a buffer of 0 is the synchronous loop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=TASKS)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--buffers", nargs="+", default=[str(buffer) for buffer in BUFFERS])
    parser.add_argument("--parts", type=Path, default=Path("parts"))
    parser.add_argument("--collect", type=Path)
    given = parser.parse_args()
    buffers = [buffer if buffer == "auto" else int(buffer) for buffer in given.buffers]
    if given.collect:
        collect(given.collect)
        return
    given.parts.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        with limit_threads(1):
            rows = compare(TASKS[given.method](CLIENTS, seed), CASES[given.case], seed, buffers)
        part = {"method": given.method, "case": given.case, "rows": rows}
        name = "-".join([given.method, given.case, str(seed), *given.buffers])
        (given.parts / f"delays-{name}.json").write_text(json.dumps(part))


if __name__ == "__main__":
    main()
