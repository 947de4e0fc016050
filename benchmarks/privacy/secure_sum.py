"""What the secure sum costs, in seconds and bytes, and how near methods with it come to those without.

Run: python benchmarks/privacy/secure_sum.py [cost] [methods]
"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))

from results import write_results

import cotempo as ct
from cotempo.federation import EMPTY, Expect, Message, Question, Reply, Rng, Spec
from cotempo.privacy.secure_sum.fixed_point import Layout
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import MASKED, SecureSumShield

SEED = 0
RUN = "0" * 32
METHODS = (
    ("OneRound", ct.OneRound, {}),
    ("FDBNL", ct.FDBNL, {"rounds": 20}),
    ("FedPP", ct.FedPP, {"rounds": 10}),
    ("EventDetector", ct.EventDetector, {}),
)


class Wire:
    """Clients in this process; processor time is counted apart for each of them and for the server."""

    def __init__(self, count: int, entries: int, dropped: float):
        stream = np.random.default_rng(SEED)
        self.names = [f"c{number:04d}" for number in range(count)]
        # One array for all: a thousand of them would not tell more, and need 800 MB.
        self.message = Message({"x": stream.normal(size=entries)}, weight=2.0)
        self.away = {*stream.choice(self.names, int(dropped * count), replace=False)}
        self.shield = SecureSumShield.local(self.names)
        self.seconds: dict[str, float] = defaultdict(float)
        self.up: dict[str, int] = defaultdict(int)
        self.down: dict[str, int] = defaultdict(int)

    def exchange(self, questions: Sequence[Question], expect: Expect) -> Iterator[Reply]:
        for question in questions:
            name = question.client
            self.down[name] += question.nbytes
            began = time.process_time()
            if question.phase in self.shield.phases:
                message = self.shield.answer(question)
            else:
                message = self.shield.protect(self.message, question, Rng(0))
                if question.then is not None:
                    message = self.shield.answer(question.then)
            self.seconds[name] += time.process_time() - began
            is_masked = (question.then or question).phase == MASKED
            if is_masked and name in self.away and len(message["masked"]) >= self.message["x"].size:
                yield question.fail("Lost")  # it left after its work, at the worst moment: with its mask key to rebuild
                continue
            self.up[name] += message.nbytes
            yield question.reply(message)


def cost(count: int, entries: int, dropped: float, steps: Sequence[int] = (1, 2)) -> list[dict[str, Any]]:
    """Step 1 exchanges keys and agrees on scales; step 2 is a later one. Alone it exchanges keys, scales are known."""
    wire, reducer, rows = Wire(count, entries, dropped), SecureSum(), []
    expect = Expect({"x": Spec((entries,))}, sums=True)
    if 1 not in steps:
        layout = Layout.of("range", count, expect)
        reducer.scales.store(0, "answer", layout, {field.name: (40, 1) for field in layout.fields})
    for step in steps:
        for counter in (wire.seconds, wire.up, wire.down):
            counter.clear()
        began = time.process_time()
        questions = [Question(RUN, step, step, "answer", name, 0, 0, EMPTY, EMPTY) for name in wire.names]
        found = reducer.gather(wire.exchange, questions, expect)
        server = time.process_time() - began - sum(wire.seconds.values())
        assert len(found.names) == count - len(wire.away)
        error = np.abs(found.sum["x"] - 2 * len(found.names) * wire.message["x"]).max()
        rows.append(
            {
                "clients": count, "entries": entries, "dropped": len(wire.away), "step": step,
                "client_seconds": float(np.mean(list(wire.seconds.values()))), "server_seconds": server,
                "bytes_up_ratio": float(np.mean([wire.up[name] for name in found.names])) / wire.message.nbytes,
                "bytes_both_ratio": float(np.mean([wire.up[name] + wire.down[name] for name in found.names]))
                / wire.message.nbytes,
                "error": float(error), "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def numbers(tree: Any) -> Iterator[np.ndarray]:
    if dataclasses.is_dataclass(tree):
        for field in dataclasses.fields(tree):
            yield from numbers(getattr(tree, field.name))
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from numbers(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from numbers(value)
    elif tree is not None and not isinstance(tree, str):
        yield np.asarray(tree, float)


def difference(one: Any, other: Any) -> float:
    gaps = [0.0]
    for found, wanted in zip(numbers(one), numbers(other), strict=True):
        is_finite = np.isfinite(wanted)
        gap, size = np.abs(found[is_finite] - wanted[is_finite]), np.abs(wanted[is_finite])
        gaps.append(float(gap.max(initial=0.0)) / max(1.0, float(size.max(initial=0.0))))
    return max(gaps)


def compare(name: str, method: Any, clients: Any, public: Any) -> dict[str, Any]:
    """A method with and without, on one process."""
    runs, seconds, received = [], [], []
    ct.fit(method, clients, public=public, seed=SEED, progress=False)  # so that everything is loaded
    for is_on in (False, True):
        began = time.process_time()
        fitted = ct.fit(method, clients, public=public, seed=SEED, privacy=ct.Privacy(secure_sum=is_on), progress=False)
        seconds.append(time.process_time() - began)
        received.append(sum(sum(record["received"].values()) for record in fitted.history))
        runs.append(fitted)
    row = {
        "method": name, "clients": len(clients), "steps": len(runs[0].history),
        "largest_difference": difference(runs[1].state, runs[0].state), "seconds_without": seconds[0],
        "seconds_with": seconds[1],
        "milliseconds_per_client_and_step": 1e3 * (seconds[1] - seconds[0]) / len(clients) / len(runs[0].history),
        "bytes_up_ratio": received[1] / received[0],
    }  # fmt: skip
    print(row, flush=True)
    return row


def main() -> None:
    wanted = sys.argv[1:] or ["cost", "methods"]
    if "cost" in wanted:
        rows = [*cost(20, 100_000, 0.0), *cost(20, 100_000, 0.3), *cost(1000, 100_000, 0.1, steps=(2,))]
        note = (
            "processor seconds; step 1 exchanges keys and agrees on scales, step 2 is any later one; dropped clients "
            "leave with their masked message; ratios to the bytes of the plain message up, entries are float64"
        )
        write_results("privacy-secure-sum-cost", rows, seed=SEED, note=note)
    if "methods" in wanted:
        rows = []
        for name, kind, options in METHODS:
            method, clients, public = ct.testing.example(kind)
            rows.append(compare(name, kind(**{**method.model_dump(), **options}), clients, public))
        posts, _ = ct.make_posts(clients=4, seed=SEED)
        unlabelled = {name: dataclasses.replace(table, event=(), present=None) for name, table in posts.items()}
        rows.append(compare("EventDetector without labels", ct.EventDetector(), unlabelled, None))
        note = "largest difference of any number of the state, relative to the largest of its array or to 1"
        write_results("privacy-secure-sum-methods", rows, seed=SEED, note=note)


if __name__ == "__main__":
    main()
