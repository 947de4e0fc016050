"""What the loop itself costs: a trivial method with 10 to 10,000 clients, beside a bare Python loop.

Run: python benchmarks/overhead.py
"""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from results import write_results

import cotempo as ct
from cotempo.data import Table
from cotempo.engines.inprocess import InProcess
from cotempo.federation import Answers, Ask, Expect, Message, Method, Question, Rng, Roster, Spec
from cotempo.runs.folder import RunFolder
from cotempo.testing import drive
from cotempo.threads import limit_threads

WIDTH = 10


@dataclass(frozen=True)
class State:
    mean: np.ndarray
    round: int = 0


@dataclass(frozen=True)
class Memory:
    last: np.ndarray


class Trivial(Method):
    """Each client moves half-way from the pooled vector to its own, and sends where it is."""

    phases: ClassVar[tuple[str, ...]] = ("move",)
    State: ClassVar[type] = State
    Memory: ClassVar[type | None] = Memory
    rounds: int = 10
    memory: bool = False
    noise: bool = False

    def prepare(self, table: Table) -> Any:
        return table.values.mean(axis=0)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> State:
        return State(np.zeros(WIDTH))

    def ask(self, state: State, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return Ask("move", cohort, Message({"mean": state.mean})) if state.round < self.rounds else None

    def answer(self, question: Question, prepared: Any, memory: Memory | None, rng: Rng) -> tuple[Message, Any]:
        moved = (question.common["mean"] + prepared) / 2
        if self.noise:
            moved = moved + rng("noise").normal(size=WIDTH)
        return Message({"mean": moved}, weight=2.0), Memory(moved) if self.memory else None

    def absorb(self, state: State, answers: Answers, public: Table | None, rng: Rng) -> tuple[State, dict[str, float]]:
        return replace(state, mean=answers.mean("mean"), round=state.round + 1), {}

    def expects(self, state: State, phase: str) -> Expect:
        return Expect({"mean": Spec((WIDTH,))}, sums=True)


def bare_loop(own: Sequence[np.ndarray], count: int) -> float:
    """The same arithmetic with nothing around it; seconds per client and round."""
    began = time.perf_counter()
    mean = np.zeros(WIDTH)
    for _ in range(count):
        total, weight = np.zeros(WIDTH), 0.0
        for vector in own:
            total += (mean + vector) / 2 * 2.0
            weight += 2.0
        mean = total / weight
    return (time.perf_counter() - began) / count / len(own)


def federated(clients: dict[str, ct.Series], method: Trivial, folder: Path | None = None) -> list[float]:
    """Seconds per client of every round but the first."""
    engine = InProcess(method, clients, seed=0)
    keeper = RunFolder.create(folder, {"name": "overhead"}, {}) if folder else None
    times, began = [], time.perf_counter()
    for _ in drive(method, engine, **({"recorder": keeper} if keeper else {})):
        now = time.perf_counter()
        times.append((now - began) / len(clients))
        began = now
    if keeper:
        keeper.close()
    return times[1:]


def memory_growth(clients: dict[str, ct.Series]) -> float:
    """Bytes that another 200 rounds add to what 20 rounds use."""
    sizes = []
    for count in (20, 220):
        tracemalloc.start()
        federated(clients, Trivial(rounds=count, memory=True))
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return sizes[1] - sizes[0]


def main() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for count in (10, 100, 1_000, 10_000):
        clients = {f"c{i:05d}": ct.Series.from_arrays(rng.normal(size=(2, WIDTH))) for i in range(count)}
        repeats = max(5, 3_000 // count)
        own = [table.values.mean(axis=0) for table in clients.values()]
        with limit_threads(1), tempfile.TemporaryDirectory() as folder:
            bare = bare_loop(own, repeats)
            plain = statistics.median(federated(clients, Trivial(rounds=repeats)))
            full = statistics.median(federated(clients, Trivial(rounds=repeats, memory=True, noise=True)))
            kept = statistics.median(
                federated(clients, Trivial(rounds=min(repeats, 20), memory=True), Path(folder) / "run")
            )
        rows.append(
            {
                "clients": count,
                "bare_ms": bare * 1e3,
                "plain_ms": plain * 1e3,
                "ours_ms": (plain - bare) * 1e3,
                "memory_and_stream_ms": full * 1e3,
                "run_folder_ms": kept * 1e3,
            }
        )
        print("  ".join(f"{key} {value:.4g}" for key, value in rows[-1].items()), flush=True)
    clients = {f"c{i:05d}": ct.Series.from_arrays(rng.normal(size=(2, WIDTH))) for i in range(100)}
    growth = memory_growth(clients)
    print(f"memory added by 200 more rounds of 100 clients: {growth / 1e3:.1f} kB")
    write_results("overhead", rows, seed=0, note=f"200 more rounds of 100 clients add {growth / 1e3:.1f} kB of memory")


if __name__ == "__main__":
    main()
