"""The one loop. Progress bars, logs, reports and live pages all listen to what it yields."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cotempo.data import Table
from cotempo.errors import CotempoError, MessageError, QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Answers, Ask, Expect, Failure, Question, Reply
from cotempo.federation.message import EMPTY, Message
from cotempo.federation.method import Memory, Method, Metrics, Roster, State
from cotempo.federation.participation import Participation
from cotempo.federation.reducers import gather_each, gather_sum
from cotempo.federation.rng import Rng
from cotempo.federation.shields import validate
from cotempo.storage.tree import freeze


@dataclass(frozen=True)
class Checkpoint:
    """Everything the loop needs to go on after `step` as if nothing had happened.

    `ledger` names, per client, the step of its last memory that counted: an answer that was not counted never
    happened. `known` are the clients let in so far, in this round's cohort or not. `earlier` is the ledger of the
    checkpoint before this one, whose memories clients must keep as well. `memories` holds those memories where the
    engine keeps them in this process.
    """

    step: int
    round: int
    state: State
    ledger: Mapping[str, int]
    cohort: tuple[str, ...]
    known: tuple[str, ...]
    memories: Mapping[str, Memory] = field(default_factory=dict)
    earlier: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """What happened in one step."""

    step: int
    round: int
    phase: str
    state: State
    metrics: Metrics
    answers: Answers
    expect: Expect
    sent: Mapping[str, int]
    received: Mapping[str, int]
    seconds: float
    ends_round: bool


class Keeper(Protocol):
    """Something that keeps checkpoints and the record of what clients sent; a run folder is one."""

    def log(self, progress: Progress) -> None:
        """Note what happened in a step."""

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint; two are kept."""

    def record(self, question: Question, message: Message, expect: Expect) -> None:
        """Note a message that a client sent."""

    def trouble(self, failure: Failure, cause: BaseException | None) -> None:
        """Note a failure, with the client's own traceback where it is at hand."""


def rounds(
    method: Method,
    engine: Engine,
    *,
    public: Table | None = None,
    seed: int = 0,
    participation: Participation | None = None,
    quorum: float = 0.5,
    run: str = "run",
    keeper: Keeper | None = None,
    start: Checkpoint | None = None,
) -> Iterator[Progress]:
    """Run a method on an engine, one step at a time, until it has nothing more to ask.

    Parameters
    ----------
    quorum
        The share of the asked clients whose answers must count; below it the loop stops with `QuorumError`, and can
        be resumed from its last checkpoint.
    start
        Where to go on from; without it, clients' schemas are agreed and the method opens.
    """
    participation = participation or Participation()
    if start is None:
        start = opening(method, engine, public=public, seed=seed, participation=participation)
        if keeper:
            keeper.checkpoint(start)
    door = Door(method, engine, start.known, keeper)
    step, round, state, cohort = start.step, start.round, start.state, start.cohort
    ledgers = [dict(start.earlier), dict(start.ledger)]  # of the kept checkpoints, oldest first
    while True:
        began = time.perf_counter()
        if not cohort:  # nobody was there when this round was drawn
            cohort = participation.cohort(round, door.present(), seed)
        ask = method.ask(state, cohort, Rng(seed, "server", step + 1, "ask"))
        if ask is None:
            return
        if not cohort:
            raise QuorumError("at least one client must be there, all have left; resume the run once they are back")
        step += 1
        questions = pose(ask, run, step, round, ledgers)
        expect = method.expects(state, ask.phase)
        inbox = Inbox(questions, expect, keeper)
        replies = inbox.check(engine.exchange(questions) if questions else ())
        asked = [question.client for question in questions]
        answers = gather_sum(replies, asked) if expect.sums else gather_each(replies)
        if len(answers.names) < quorum * len(asked) - 1e-9:  # 55 % of 20 is 11, not 11.000000000000002
            raise below_quorum(answers, questions, quorum) from inbox.cause
        state, metrics = method.absorb(state, answers, public, Rng(seed, "server", step, "absorb"))
        state = freeze(state)
        ledgers = [*ledgers[-1:], {**ledgers[-1], **answers.versions}]
        finished = round
        if ask.ends_round:
            round += 1
            cohort = participation.cohort(round, door.present(), seed)
        seconds = time.perf_counter() - began
        sent = {question.client: question.common.nbytes + question.own.nbytes for question in questions}
        progress = Progress(
            step, finished, ask.phase, state, metrics, answers, expect, sent, inbox.received, seconds, ask.ends_round
        )
        if keeper:
            ledger = ledgers[-1]
            # Logged first: killed in between, a resumed run finds a line too many, which it drops, not one too few.
            keeper.log(progress)
            known, memories = tuple(sorted(door.known)), engine.memories(ledger)
            keeper.checkpoint(Checkpoint(step, round, state, ledger, cohort, known, memories, ledgers[0]))
        yield progress


def opening(
    method: Method, engine: Engine, *, public: Table | None, seed: int, participation: Participation
) -> Checkpoint:
    """Agree on the clients' schemas and open the method: the checkpoint before the first step."""
    roster = Roster(engine.schemas(engine.names()))
    if not roster.names:
        raise CotempoError("there must be at least one client, there is none")
    method.check(roster)
    state = freeze(method.open(roster, public, Rng(seed, "server", 0, "open")))
    return Checkpoint(0, 1, state, {}, participation.cohort(1, roster.names, seed), roster.names)


class Door:
    """Who may take part: those let in before, and newcomers whose tables fit those of the ones here now."""

    def __init__(self, method: Method, engine: Engine, known: Iterable[str], keeper: Keeper | None):
        self.method = method
        self.engine = engine
        self.keeper = keeper
        self.known = {*known}
        self.refused: set[str] = set()

    def present(self) -> list[str]:
        """The clients there now; a newcomer is judged once."""
        names = self.engine.names()
        here = [name for name in names if name in self.known]
        for name in [name for name in names if name not in self.known and name not in self.refused] if here else ():
            try:
                self.method.check(Roster(self.engine.schemas([*here, name])))
                self.known.add(name)
            except CotempoError as error:
                self.refused.add(name)
                if self.keeper:
                    self.keeper.trouble(Failure(name, 0, "join", type(error).__name__), error)
        return [name for name in names if name in self.known]


def pose(ask: Ask, run: str, step: int, round: int, ledgers: Sequence[Mapping[str, int]]) -> list[Question]:
    """Turn an ask into one question per client, in name order."""
    kept, newest = ledgers[0], ledgers[-1]
    return [
        Question(
            run, step, round, ask.phase, name, newest.get(name, 0), kept.get(name, 0), ask.common,
            ask.each.get(name, EMPTY),
        )
        for name in sorted(set(ask.to))
    ]  # fmt: skip


class Inbox:
    """Replies on their way in: each is checked before anything is made of it; a bad one becomes a failure."""

    def __init__(self, questions: Sequence[Question], expect: Expect, keeper: Keeper | None):
        self.open = {question.client: question for question in questions}
        self.expect = expect
        self.keeper = keeper
        self.received: dict[str, int] = {}
        self.cause: BaseException | None = None

    def check(self, replies: Iterable[Reply]) -> Iterator[Reply]:
        """Yield one reply per question: the first that came, valid or turned into a failure; the rest are dropped."""
        for reply in replies:
            question = self.open.get(reply.client)
            if question is None or reply.step != question.step:
                self._note_unasked(reply)
                continue
            del self.open[reply.client]
            yield self._judge(question, reply)
        for question in self.open.values():
            yield self._leave_out(question, "Lost", "no answer came")

    def _note_unasked(self, reply: Reply) -> None:
        if self.keeper:
            about = "not counted: a duplicate, a stranger's, or an answer to another step"
            self.keeper.trouble(Failure(printable(reply.client), reply.step, "", "Unasked", about), None)

    def _judge(self, question: Question, reply: Reply) -> Reply:
        if reply.message is None:
            # Built anew: a client must not be able to write in another one's name.
            kind, about = (reply.failure.kind, reply.failure.about) if reply.failure else ("MessageError", "no content")
            return self._leave_out(question, printable(kind), printable(about), reply.cause)
        self.received[reply.client] = reply.message.nbytes
        if self.keeper:
            self.keeper.record(question, reply.message, self.expect)
        try:
            if reply.version not in (question.base, question.step):
                raise MessageError(f"the memory's version must be {question.base} or {question.step}")
            validate(reply.message, self.expect)
        except MessageError as error:
            self.cause = self.cause or error
            return self._leave_out(question, "MessageError", str(error))
        return reply

    def _leave_out(self, question: Question, kind: str, about: str, cause: BaseException | None = None) -> Reply:
        failure = Failure(question.client, question.step, question.phase, kind, about)
        self.cause = self.cause or cause
        if self.keeper:
            self.keeper.trouble(failure, cause)
        return Reply(question.client, question.step, question.base, None, failure)


def printable(text: str) -> str:
    """Text from elsewhere as one short line, safe in a log, on a terminal and on a page."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:300])


def below_quorum(answers: Answers, asked: Sequence[object], quorum: float) -> QuorumError:
    """Say who is missing and that nothing is lost."""
    listed = "\n".join(f"  {failure}" for failure in answers.failures[:10])
    return QuorumError(
        f"at least {quorum:.0%} of the {len(asked)} clients asked must answer, {len(answers.names)} did:\n"
        f"{listed}\n"
        "The state is as it was before this step; with a run folder, resume the run once the clients are back."
    )
