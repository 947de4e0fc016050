"""Checks that kills, losses, duplicates and churn cost only what they must."""

import warnings
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from cotempo.errors import QuorumError
from cotempo.federation.exchange import Question
from cotempo.federation.rounds import Checkpoint
from cotempo.runs.folder import RunFolder
from cotempo.storage.tree import digest
from cotempo.testing.contract import Case, check, drive
from cotempo.testing.engines import Faulty, Killed


@check
def killed_anywhere_equals_never_killed(case: Case) -> None:
    """Killed at ask, reply, exchange or save, or with a corrupt newest checkpoint, a run resumes to the same bits."""
    expected = case.final()
    first, middle, last = case.exchanges()
    kills = [
        (first, "ask", "direct"), (last, "ask", "bytewise"), (middle, "reply", "direct"), (first, "reply", "bytewise"),
        (last, "exchange", "direct"), (middle, "exchange", "bytewise"), (middle, "save", "direct"),
        (last, "save", "bytewise"), (last, "corrupt", "direct"), (last, "corrupt", "bytewise"),
    ]  # fmt: skip
    for number, (step, point, kind) in enumerate(kills):
        place, sites = case.folder / str(number), f"{number}/sites"
        recorder = DyingRecorder.create(place / "run", {"name": "contract"}, {})
        recorder.dies_at = step if point == "save" else None
        with closing(recorder), suppress(Killed):
            case.steps(Faulty(case.engine(kind, sites), kill=(step, point)), recorder=recorder)
        with closing(RunFolder.reopen(place / "run")) as run:
            if point == "corrupt" and len(run.checkpoints) > 1:
                newest = run.checkpoints[-1]
                newest.write_bytes(newest.read_bytes()[:-1])
            with warnings.catch_warnings(action="ignore"):
                start = run.latest(case.method)
            engine = case.engine(kind, sites)
            if start:
                engine.restore(start.memories, start.ledger)
            resumed = case.steps(engine, recorder=run, start=start)
        state = resumed[-1].state if resumed else start and start.state
        assert digest(state) == expected, f"killed at {point} of step {step} on the {kind} engine, resumed: differs"


class DyingRecorder(RunFolder):
    """A run folder that dies before it has stored a step."""

    dies_at: int | None = None

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store, or die."""
        if checkpoint.step == self.dies_at:
            raise Killed
        super().checkpoint(checkpoint)


@check
def a_lost_answer_is_a_lost_question(case: Case) -> None:
    """An answer that was not counted never happened, at the server and at the client."""
    victim = min(case.clients)
    first, middle, _ = case.exchanges()
    for step, kind in {first: "bytewise", middle: "direct"}.items():

        def is_lost(question: Question, step: int = step) -> bool:
            return (question.client, question.step) == (victim, step)

        lost = Faulty(
            case.engine(kind, f"lost-{step}"),
            tamper=lambda question, reply, is_lost=is_lost: None if is_lost(question) else reply,  # type: ignore[misc]
        )
        unasked = Faulty(
            case.engine(kind, f"unasked-{step}"),
            deliver=lambda question, is_lost=is_lost: not is_lost(question),  # type: ignore[misc]
        )
        assert case.final(lost) == case.final(unasked), (
            f"an answer lost at step {step} left a trace: server and client have drifted apart"
        )


@check
def duplicates_change_nothing(case: Case) -> None:
    """Replies that come twice count once."""
    assert case.final(Doubled(case.engine())) == case.final(), "a duplicate answer counted"


class Doubled(Faulty):
    """Every reply comes twice."""

    def exchange(self, questions: Sequence[Question]) -> Any:
        """Repeat."""
        for reply in self.engine.exchange(questions):
            yield reply
            yield reply


@check
def churn_costs_only_the_affected(case: Case) -> None:
    """A late joiner, a leaver and a site whose disk was wiped do not stop the others."""
    last = max(case.clients)
    others = [name for name in case.clients if name != last]
    late = Faulty(case.engine(), present=lambda call, names: others if call < 2 else list(names))
    gone = Faulty(case.engine(), present=lambda call, names: list(names) if call < 2 else others)
    for engine in (late, gone):
        steps = case.steps(engine)
        assert all(set(others) <= set(step.answers.names) for step in steps if step.answers.names or step.sent)

    def wipe(question: Question) -> bool:
        if question.client == last:
            for path in (case.folder / "wiped" / last).glob("*"):
                path.unlink()
        return True

    if case.method.Memory is not None:
        steps = case.steps(Faulty(case.engine("bytewise", "wiped"), deliver=wipe))
        failures = {(failure.client, failure.kind) for step in steps for failure in step.answers.failures}
        assert failures <= {(last, "MemoryLost")}, f"a wiped site must fail as MemoryLost and alone, got {failures}"


@check
def below_quorum_stops(case: Case) -> None:
    """With nobody answering, the loop stops with a typed error."""
    silent = Faulty(case.engine(), deliver=lambda question: False)
    try:
        list(drive(case.method, silent, public=case.public, quorum=0.5))
    except QuorumError:
        return
    raise AssertionError("nobody answered and nothing was said")
