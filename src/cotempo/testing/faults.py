"""Checks that kills, losses, duplicates and churn cost only what they must."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cotempo.data import Table
from cotempo.errors import QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Question
from cotempo.federation.method import Method
from cotempo.federation.rounds import Checkpoint
from cotempo.runs.folder import RunFolder
from cotempo.storage.tree import digest
from cotempo.testing.contract import Clients, check, drive, exchanges, final, steps_of
from cotempo.testing.engines import Bytewise, Faulty, Killed, direct


@check
def killed_anywhere_equals_never_killed(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Killed at ask, reply, exchange or save, or with a corrupt newest checkpoint, a run resumes to the same bits."""
    steps = steps_of(method, direct(method, clients), public)
    expected = digest(steps[-1].state)
    first, middle, last = exchanges(steps)
    kills = [
        (first, "ask", "direct"), (last, "ask", "bytewise"), (middle, "reply", "direct"), (first, "reply", "bytewise"),
        (last, "exchange", "direct"), (middle, "exchange", "bytewise"), (middle, "save", "direct"),
        (last, "save", "bytewise"), (last, "corrupt", "direct"), (last, "corrupt", "bytewise"),
    ]  # fmt: skip
    for number, (step, point, kind) in enumerate(kills):
        place = folder / str(number)
        _kill(method, _engine(kind, method, clients, place), public, place, step, point)
        run = RunFolder.reopen(place / "run")
        if point == "corrupt":
            newest = max((run.path / "checkpoints").glob("step-*"))
            newest.write_bytes(newest.read_bytes()[:-1])
        with warnings.catch_warnings(action="ignore"):
            start = run.latest(method)
        engine = _engine(kind, method, clients, place)
        if start:
            engine.restore(start.memories, start.ledger)
        resumed = steps_of(method, engine, public, recorder=run, start=start)
        run.close()
        state = resumed[-1].state if resumed else start and start.state
        assert digest(state) == expected, f"killed at {point} of step {step} on the {kind} engine, resumed: differs"


def _engine(kind: str, method: Method, clients: Clients, place: Path) -> Engine:
    return direct(method, clients) if kind == "direct" else Bytewise(method, clients, place / "sites")


def _kill(method: Method, engine: Engine, public: Table | None, place: Path, step: int, point: str) -> None:
    run: Any = RunFolder.create(place / "run", {"name": "contract"}, {})
    recorder: Any = DyingRecorder(run, step if point == "save" else None)
    try:
        steps_of(method, Faulty(engine, kill=(step, point)), public, recorder=recorder)
    except Killed:
        pass
    finally:
        run.close()


class DyingRecorder:
    """A run folder that dies before it has stored a step."""

    def __init__(self, run: RunFolder, step: int | None):
        self.run, self.step = run, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store, or die."""
        if checkpoint.step == self.step:
            raise Killed
        self.run.checkpoint(checkpoint)


@check
def a_lost_answer_is_a_lost_question(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """An answer that was not counted never happened, at the server and at the client."""
    victim = sorted(clients)[0]
    first, middle, _ = exchanges(steps_of(method, direct(method, clients), public))
    for step, kind in {first: "bytewise", middle: "direct"}.items():

        def is_lost(question: Question, step: int = step) -> bool:
            return (question.client, question.step) == (victim, step)

        lost = Faulty(
            _engine(kind, method, clients, folder / f"lost-{step}"),
            tamper=lambda question, reply, is_lost=is_lost: None if is_lost(question) else reply,  # type: ignore[misc]
        )
        unasked = Faulty(
            _engine(kind, method, clients, folder / f"unasked-{step}"),
            deliver=lambda question, is_lost=is_lost: not is_lost(question),  # type: ignore[misc]
        )
        assert final(method, lost, public) == final(method, unasked, public), (
            f"an answer lost at step {step} left a trace: server and client have drifted apart"
        )


@check
def duplicates_change_nothing(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Replies that come twice count once."""
    expected = final(method, direct(method, clients), public)
    assert final(method, Doubled(direct(method, clients)), public) == expected, "a duplicate answer counted"


class Doubled(Faulty):
    """Every reply comes twice."""

    def exchange(self, questions: Sequence[Question]) -> Any:
        """Repeat."""
        for reply in self.engine.exchange(questions):
            yield reply
            yield reply


@check
def churn_costs_only_the_affected(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """A late joiner, a leaver and a site whose disk was wiped do not stop the others."""
    last = sorted(clients)[-1]
    others = [name for name in clients if name != last]
    late = Faulty(direct(method, clients), present=lambda call, names: others if call < 2 else list(names))
    gone = Faulty(direct(method, clients), present=lambda call, names: list(names) if call < 2 else others)
    for engine in (late, gone):
        steps = steps_of(method, engine, public)
        assert all(set(others) <= set(step.answers.names) for step in steps if step.answers.names or step.sent)
    if method.Memory is not None:
        _wiped_site(method, clients, public, folder, last)


def _wiped_site(method: Method, clients: Clients, public: Table | None, folder: Path, victim: str) -> None:
    def wipe(question: Question) -> bool:
        if question.client == victim:
            for path in (folder / victim).glob("*"):
                path.unlink()
        return True

    engine = Faulty(Bytewise(method, clients, folder), deliver=wipe)
    steps = steps_of(method, engine, public)
    failures = {(f.client, f.kind) for step in steps for f in step.answers.failures}
    assert failures <= {(victim, "MemoryLost")}, f"a wiped site must fail as MemoryLost and alone, got {failures}"


@check
def below_quorum_stops(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """With nobody answering, the loop stops with a typed error."""
    silent = Faulty(direct(method, clients), deliver=lambda question: False)
    try:
        list(drive(method, silent, public=public, quorum=0.5))
    except QuorumError:
        return
    raise AssertionError("nobody answered and nothing was said")
