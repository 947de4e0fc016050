"""A coordinator in a process of its own: begin or resume a run and print its digest, or its error."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import walking

import cotempo as ct
from cotempo.engines.flower.coordinator import task
from cotempo.engines.flower.coordinator.engine import Flower
from cotempo.federation import Question, Reply
from cotempo.runs import folder as run


def fill_disk(step: int) -> None:
    """From the checkpoint of a step on there is no room left."""
    write = run.write_hashed

    def write_hashed(path: Path, data: bytes) -> None:
        if path.name == f"step-{step:09d}.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    run.write_hashed = write_hashed


def ask_twice() -> None:
    """Every question is sent twice, so that every answer comes twice."""
    exchange = Flower.exchange

    def doubled(self: Flower, questions: Sequence[Question]) -> Iterator[Reply]:
        yield from list(exchange(self, questions))
        yield from list(exchange(self, questions))

    Flower.exchange = doubled  # type: ignore[method-assign]


def die_after_announcing(step: int) -> None:
    """At a step, announce the questions and die before their contents are uploaded."""
    exchange, push_objects = Flower.exchange, task.push_objects

    def announced(self: Flower, questions: Sequence[Question]) -> Iterator[Reply]:
        dies = questions[0].step == step
        vars(task)["push_objects"] = (lambda *_: os._exit(1)) if dies else push_objects
        yield from exchange(self, questions)

    Flower.exchange = announced  # type: ignore[method-assign]


def main() -> None:
    words = json.loads(sys.argv[1])
    if "full_at" in words:
        fill_disk(words["full_at"])
    if words.get("twice"):
        ask_twice()
    if "announces" in words:
        die_after_announcing(words["announces"])
    try:
        if words["verb"] == "resume":
            fitted = ct.resume(words["run"], progress=False)
        else:
            method = walking.Walking(**words["parameters"])
            fitted = ct.fit(
                method, engine="flower", server=words["server"], run=words["run"], seed=words["seed"],
                deadline=words.get("deadline"), quorum=words.get("quorum", 0.5), cohort=words.get("cohort"),
                privacy=ct.Privacy(secure_sum=words.get("secure_sum", False)), progress=False,
            )  # fmt: skip
        print(json.dumps({"digest": fitted.digest, "failures": fitted.failures, "names": fitted.names}))
    except ct.CotempoError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}))


main()
