"""What a run in process ends in: the whole one, and one that misses the answers another run missed."""

from __future__ import annotations

from pathlib import Path

from walking import Walking

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.runs.folder import read_lines
from cotempo.storage.tree import digest
from cotempo.testing import drive
from cotempo.testing.engines import Faulty

ROUNDS = 4


def whole(tables: dict[str, ct.Series], seed: int) -> str:
    """The digest of the run to which nothing happened."""
    digest: str = ct.fit(Walking(rounds=ROUNDS), tables, seed=seed, progress=False).digest
    return digest


def replay(tables: dict[str, ct.Series], seed: int, run: Path, rounds: int = ROUNDS) -> str:
    """The digest of a run in process that misses the answers this run missed."""
    received = {record["step"]: set(record["received"]) for record in read_lines(run / "log.jsonl")}
    failed = {(f["client"], f["step"]) for record in read_lines(run / "log.jsonl") for f in record["failures"]}
    method = Walking(rounds=rounds)
    engine = Faulty(
        InProcess(method, tables, InProcessSettings(batched=False), seed=seed),
        deliver=lambda question: (
            question.client in received[question.step] and (question.client, question.step) not in failed
        ),
    )
    *_, last = drive(method, engine, seed=seed, quorum=0.0)
    return digest(last.state)


def failures(run: Path) -> list[tuple[str, int, str]]:
    return [(f["client"], f["step"], f["kind"]) for record in read_lines(run / "log.jsonl") for f in record["failures"]]
