"""Worker processes: the same bits, and what a dead, stuck or failing worker costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from toys import SECRET, Notes, Walk, make_clients

import cotempo as ct
from cotempo.engines.pool import Pool
from cotempo.engines.settings import InProcessSettings
from cotempo.errors import ParameterError
from cotempo.federation.rounds import Step
from cotempo.runs.folder import read_lines
from cotempo.storage.tree import digest
from cotempo.testing import Faulty, drive
from cotempo.testing.engines import direct

CLIENTS = make_clients(4)


@contextmanager
def pool(method: Walk, workers: int = 1, deadline: float | None = None) -> Iterator[Pool]:
    engine = Pool(method, CLIENTS, InProcessSettings(workers=workers, deadline=deadline), seed=0)
    try:
        yield engine
    finally:
        engine.close()


def run(method: Walk, engine: Any, **options: Any) -> list[Step]:
    return list(drive(method, engine, **options))


def missing(method: Walk, *lost: tuple[str, int]) -> str:
    """The digest of a run of direct calls in which these questions are never asked."""

    engine = Faulty(direct(method, CLIENTS), deliver=lambda question: (question.client, question.step) not in lost)
    return digest(run(method, engine)[-1].state)


def test_two_workers_give_the_bits_of_direct_calls() -> None:
    expected = digest(run(Walk(), direct(Walk(), CLIENTS))[-1].state)
    with pool(Walk(), workers=2) as engine:
        assert len(engine.workers) == 2
        assert digest(run(Walk(), engine)[-1].state) == expected


def test_more_workers_than_clients_are_not_started() -> None:
    engine = Pool(Walk(), {"a": CLIENTS["a"]}, InProcessSettings(workers=3), seed=0)
    engine.close()
    assert len(engine.workers) == 1
    assert all(worker.process.poll() is not None for worker in engine.workers)


def test_a_worker_that_dies_or_hangs_costs_that_answer_only() -> None:
    method = Walk(more={"b 2": "die", "c 3": "block"})
    with pool(method, deadline=3.0) as engine:
        steps = run(method, engine)
    died, hung = [failure for step in steps for failure in step.answers.failures]
    assert (died.client, died.step, died.kind) == ("b", 2, "WorkerDied")
    assert (hung.client, hung.step, hung.kind) == ("c", 3, "Deadline")
    assert "within 3 s" in hung.detail
    assert digest(steps[-1].state) == missing(Walk(), ("b", 2), ("c", 3))


def test_a_failing_client_keeps_its_traceback_and_only_its_class_name_goes_round(tmp_path: Path) -> None:
    method = Walk(victim="b", at=2, trouble="raise")
    fitted = ct.fit(method, CLIENTS, run=tmp_path / "run", workers=1)
    (failure,) = fitted.failures
    assert failure == {"client": "b", "step": 2, "phase": "walk", "kind": "ValueError", "detail": ""}
    errors = (tmp_path / "run" / "errors.log").read_text()
    assert "b, step 2, phase 'walk': ValueError" in errors
    assert SECRET in errors
    assert "in _raise" in errors
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file() and path.name != "errors.log":
            assert SECRET.encode() not in path.read_bytes(), f"{path.name} quotes a client's error"
    assert read_lines(tmp_path / "run" / "log.jsonl")[1]["failures"] == [failure]
    assert fitted.digest == missing(Walk(), ("b", 2))


def test_lost_memories_with_a_single_worker_do_not_hang() -> None:
    notes = Notes()
    run(Walk(), direct(Walk(), CLIENTS), recorder=notes)
    with pool(Walk()) as engine:
        step = next(iter(drive(Walk(), engine, start=notes.checkpoints[2], quorum=0)))
    assert step.answers.names == ()
    assert [(failure.client, failure.kind) for failure in step.answers.failures] == [
        (name, "MemoryLost") for name in "abcd"
    ]


class Homeless(Walk):
    """Stands for a method that the main script defines."""


def test_a_method_of_the_main_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Homeless, "__module__", "__main__")
    with pytest.raises(ParameterError, match=r"Homeless must be importable.*Move it to a module"):
        Pool(Homeless(), CLIENTS, InProcessSettings(workers=1), seed=0)


def test_a_deadline_must_be_a_number_of_seconds() -> None:
    for deadline in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ParameterError, match="deadline"):
            ct.fit(Walk(), CLIENTS, workers=1, deadline=deadline)
