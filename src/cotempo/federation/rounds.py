"""`rounds`: the one loop. Progress bars, logs and reports all listen to the steps it yields."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as np
from pydantic import Field

from cotempo.data import Table
from cotempo.errors import CotempoError, MessageError, ParameterError, QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Answers, Ask, Expect, Failure, Question, Reply
from cotempo.federation.message import EMPTY, Message
from cotempo.federation.method import Memory, Method, Metrics, Roster, State
from cotempo.federation.reducers import DEFAULT_REDUCER, SUSPICION, Holding, Reducer
from cotempo.federation.rng import Rng
from cotempo.federation.shields import Shield, Validator
from cotempo.settings import Settings
from cotempo.storage.tree import freeze

Buffer = int | Literal["auto"]

#: In how many steps a client may stand out before it is asked no more where clients are compared strictly.
MOST_SUSPICIONS = 3
#: Rows that an answer may stand for, in times those declared: weights of rows, and lags, make it a little more than 1.
MOST_CLAIMED = 2.0


class Participation(Settings):
    """Draw the cohort of a round.

    Examples
    --------
    >>> len(Participation(size=2).cohort(1, ["a", "b", "c"], seed=0))
    2
    """

    size: int | None = Field(
        default=None, ge=1, description="How many clients take part; `None`, or more than there are, for everyone."
    )
    period: int = Field(
        default=1, ge=1, description="For how many rounds a cohort stays fixed (the straggling period of FedPP)."
    )

    def __init__(self, size: int | None = None, period: int = 1):
        super().__init__(size=size, period=period)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def cohort(self, round: int, names: Sequence[str], seed: int) -> tuple[str, ...]:
        """Return the clients of a round, in name order; rounds count from 1."""
        names = sorted(names)
        if self.size is None or self.size >= len(names):
            return tuple(names)
        stream = Rng(seed, "cohort", (round - 1) // self.period)("participation")
        return tuple(sorted(stream.choice(names, self.size, replace=False).tolist()))


EVERYONE = Participation()


@dataclass(frozen=True)
class LoopOptions:
    """What the loop is given besides a method and an engine: options of `Method.fit`, and the run's identity.

    `buffer` is for a `LateReducer`.
    """

    public: Table | None = None
    seed: int = 0
    participation: Participation = EVERYONE
    quorum: float = 0.5
    buffer: Buffer | None = None
    run_id: str = "run"
    shields: tuple[Shield, ...] = ()
    reducer: Reducer = DEFAULT_REDUCER


@dataclass(frozen=True)
class Checkpoint:
    """Everything the loop needs to continue after `step` as if nothing had happened.

    Attributes
    ----------
    ledger
        Per client, the step of its last memory that counted: an answer that was not counted never happened.
    known
        The clients admitted so far, in this round's cohort or not.
    memories
        The memories the ledger names, if the engine keeps them in this process; empty otherwise.
    previous_ledger
        The ledger of the checkpoint before this one, whose memories clients must keep as well.
    suspicions
        In how many steps a client was left out because it differed from all others.
    held
        What the reducer holds between two steps: questions that are still open, where nobody waits for the slowest.
    """

    step: int
    round: int
    state: State
    ledger: Mapping[str, int]
    cohort: tuple[str, ...]
    known: tuple[str, ...]
    memories: Mapping[str, Memory] = field(default_factory=dict)
    previous_ledger: Mapping[str, int] = field(default_factory=dict)
    suspicions: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """What happened in one step: what was asked and expected, what counted, and what `absorb` returned.

    Attributes
    ----------
    step, round
        They count from 1.
    state
        The server's state after the step.
    sent, received
        Bytes by client, of questions to all asked and of replies from all that sent a message, counted or not.
    seconds
        Wall-clock time of the step.
    ends_round
        Whether the step was the last of its round.
    """

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


class RunRecorder:
    """Stores checkpoints and records what clients sent; this one drops everything, a run folder keeps it."""

    def log(self, step: Step) -> None:
        """Record a step."""

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint and keep the one before it."""

    def log_questions(self, questions: Sequence[Question]) -> None:
        """Record that clients are asked; in one step there may be several exchanges."""

    def log_message(self, question: Question, message: Message, expect: Expect) -> None:
        """Record a message that a client sent."""

    def log_failure(self, failure: Failure, cause: BaseException | None = None) -> None:
        """Record a failure, with the client's traceback if its exception is known here."""


NO_RECORDER = RunRecorder()


def initial_checkpoint(method: Method, engine: Engine, options: LoopOptions) -> Checkpoint:
    """Agree on the clients' schemas and open the method: return the checkpoint before the first step."""
    if not 0 <= options.quorum <= 1:
        raise ParameterError(f"quorum must be a share, from 0 to 1, got {options.quorum}")
    if options.seed < 0:
        raise ParameterError(f"seed must be at least 0, got {options.seed}")
    names = tuple(sorted(engine.names()))
    if not names:
        raise CotempoError("there must be at least one client, got none")
    roster = Roster(engine.schemas(names))
    method.check(roster)
    state = freeze(method.open(roster, options.public, Rng(options.seed, "server", 0, "open")))
    return Checkpoint(0, 1, state, {}, options.participation.cohort(1, names, options.seed), names)


def rounds(
    method: Method, engine: Engine, options: LoopOptions, *, start: Checkpoint, recorder: RunRecorder = NO_RECORDER
) -> Iterator[Step]:
    """Run a method on an engine, one step at a time, until it has nothing more to ask.

    Parameters
    ----------
    start
        Where to continue from: `initial_checkpoint`, or the last checkpoint of a run that was stopped.
    recorder
        Where steps, messages, failures and checkpoints go.

    Yields
    ------
    Step
        What happened; by then it has been logged and checkpointed.
    """
    seed, draw = options.seed, options.participation.cohort
    admission = Admission(method, engine, start.known, recorder)
    step, round, state, cohort = start.step, start.round, start.state, start.cohort
    ledgers = [dict(start.previous_ledger), dict(start.ledger)]  # of the kept checkpoints, oldest first
    suspicions = Counter(start.suspicions)
    holder = options.reducer if isinstance(options.reducer, Holding) else None
    if holder and start.held:
        holder.restore(start.held)
    while True:
        began = time.perf_counter()
        if not cohort:  # nobody was there when this round was drawn
            cohort = draw(round, admission.present(), seed)
        ask = method.ask(state, cohort, Rng(seed, "server", step + 1, "ask"))
        if ask is None:
            return
        if not cohort:
            raise QuorumError("at least one client must be there, all have left; resume the run once they are back")
        step += 1
        expect = method.expects(state, ask.phase)
        for shield in options.shields:
            expect = shield.before(ask, expect)
        ask = leave_out_suspects(ask, expect, suspicions)
        questions = make_questions(ask, options.run_id, step, round, ledgers)
        check = ReplyCheck(engine, step, options.shields, recorder)
        answers = options.reducer.gather(check.exchange, questions, expect)
        if len(answers.names) < options.quorum * len(questions) - 1e-9:  # 55 % of 20 is 11, not 11.000000000000002
            raise below_quorum(answers, questions, options.quorum) from check.cause
        absorber = Absorber(method, options, state, step, recorder)
        state, metrics, answers = absorber.absorb(answers, questions, check, expect)
        state = freeze(state)
        ledgers = [*ledgers[-1:], {**ledgers[-1], **answers.versions}]
        suspicions.update(failure.client for failure in answers.failures if failure.kind == SUSPICION)
        finished = Step(
            step=step, round=round, phase=ask.phase, state=state, metrics=metrics, answers=answers, expect=expect,
            sent=check.sent, received=check.received, seconds=time.perf_counter() - began, ends_round=ask.ends_round,
        )  # fmt: skip
        if ask.ends_round:
            round += 1
            cohort = draw(round, admission.present(), seed)
        # Logged first: killed in between, a resumed run finds a line too many, which it drops, not one too few.
        recorder.log(finished)
        if recorder is not NO_RECORDER:  # memories are collected for a checkpoint only
            known, memories = admission.known, engine.memories(ledgers[-1])
            held = holder.held() if holder else {}
            kept = Checkpoint(
                step, round, state, ledgers[-1], cohort, known, memories, ledgers[0], dict(suspicions), held
            )
            recorder.checkpoint(kept)
        yield finished


class Admission:
    """Decides who may take part: clients admitted before, and newcomers whose tables fit those present."""

    def __init__(self, method: Method, engine: Engine, known: Iterable[str], recorder: RunRecorder = NO_RECORDER):
        self.method = method
        self.engine = engine
        self.recorder = recorder
        self.known = tuple(sorted(known))
        self.refused: set[str] = set()

    def present(self) -> Sequence[str]:
        """Return the admitted clients there are now; a newcomer is judged once."""
        names = self.engine.names()
        if names == self.known:
            return names
        known = {*self.known}
        here = [name for name in names if name in known]
        for name in [name for name in names if name not in known and name not in self.refused] if here else ():
            try:
                self.method.check(Roster(self.engine.schemas([*here, name])))
                known.add(name)
            except CotempoError as error:
                self.refused.add(name)
                self.recorder.log_failure(Failure(name, 0, "join", type(error).__name__), error)
        self.known = tuple(sorted(known))
        return [name for name in names if name in known]


def make_questions(
    ask: Ask, run_id: str, step: int, round: int, ledgers: Sequence[Mapping[str, int]]
) -> Sequence[Question]:
    """Return one question per asked client, in name order; `ledgers` are those of the kept checkpoints."""
    names = ask.to if all(one < other for one, other in pairwise(ask.to)) else sorted(set(ask.to))
    return Questions(ask, run_id, step, round, ledgers[0], ledgers[-1], names)


@dataclass(frozen=True)
class Questions(Sequence[Question]):
    """The questions of a step, each made when it is looked at: of 100,000 clients, only those of a region exist."""

    ask: Ask
    run_id: str
    step: int
    round: int
    kept: Mapping[str, int]
    newest: Mapping[str, int]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Question: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Question]: ...

    def __getitem__(self, index: int | slice) -> Question | Sequence[Question]:
        if isinstance(index, slice):
            return replace(self, names=self.names[index])
        name, ask = self.names[index], self.ask
        return Question(
            run=self.run_id, step=self.step, round=self.round, phase=ask.phase, client=name,
            base=self.newest.get(name, 0), keep=self.kept.get(name, 0), common=ask.common,
            own=ask.each.get(name, EMPTY),
        )  # fmt: skip


def leave_out_suspects(ask: Ask, expect: Expect, suspicions: Mapping[str, int]) -> Ask:
    """Return the ask without clients that stood out again and again, where sums are compared; most must stay."""
    if not suspicions:
        return ask
    trusted = [name for name in ask.to if suspicions.get(name, 0) < MOST_SUSPICIONS]
    return replace(ask, to=trusted) if expect.sums and expect.alike and 2 * len(trusted) > len(ask.to) else ask


class ReplyCheck:
    """An engine's exchange in which every reply is checked before anything is made of it.

    `sent` and `received` count bytes of a step by client; `cause` is the first exception behind a failure, if any.
    """

    def __init__(self, engine: Engine, step: int, shields: Sequence[Shield] = (), recorder: RunRecorder = NO_RECORDER):
        self.engine = engine
        self.step = step
        self.shields = (Validator(), *shields)
        self.recorder = recorder
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.cause: BaseException | None = None

    @cached_property
    def _declared(self) -> Mapping[str, int]:
        """How many rows clients said they have, asked for once a step."""
        return self.engine.declared_rows()

    def exchange(self, questions: Sequence[Question], expect: Expect, account: str = "") -> Iterator[Reply]:
        """Yield one reply per question: the first that came, valid or turned into a failure; drop the rest.

        Bytes are counted by client, or all under the name of an `account`.
        """
        unanswered = {question.client: question for question in questions}
        for question in questions:
            if question.step == self.step:  # others are still open from an earlier step
                self.sent[account or question.client] += question.nbytes
        self.recorder.log_questions(questions)
        for reply in self.engine.exchange(questions) if questions else ():
            asked = unanswered.get(reply.client)
            if asked is None or reply.step != asked.step:
                detail = "not counted: a duplicate, a stranger's, or an answer to another step"
                self.recorder.log_failure(Failure(sanitize(reply.client), reply.step, "", "Unasked", detail))
                continue
            del unanswered[reply.client]
            if reply.message is not None:
                self.received[account or asked.client] += reply.message.nbytes
            # With the name as the loop has it: one of 100,000 that came over a wire would be kept a second time.
            yield self._validate(asked, replace(reply, client=asked.client), expect)
        for question in unanswered.values():
            yield self._reject(question, "Lost", "no answer came")

    def _validate(self, question: Question, reply: Reply, expect: Expect) -> Reply:
        message, failure = reply.message, reply.failure
        if message is None:
            # Rebuilt from the question: a client must not be able to write in another one's name.
            kind, detail = (failure.kind, failure.detail) if failure else ("MessageError", "no content")
            return self._reject(question, sanitize(kind), sanitize(detail), reply.cause)
        self.recorder.log_message(question, message, expect)
        try:
            if reply.version not in (question.base, question.step):
                raise MessageError(f"the memory's version must be {question.base} or {question.step}")
            for shield in reversed(self.shields):
                message = shield.check(message, question, expect)
            require_declared(message, expect, self._declared.get(question.client))
        except MessageError as error:
            self.cause = self.cause or error
            return self._reject(question, "MessageError", str(error))
        return reply if message is reply.message else replace(reply, message=message)

    def _reject(self, question: Question, kind: str, detail: str, cause: BaseException | None = None) -> Reply:
        self.cause = self.cause or cause
        failed = question.fail(kind, detail)
        assert failed.failure is not None
        self.recorder.log_failure(failed.failure, cause)
        return failed


@dataclass(frozen=True)
class Absorber:
    """Lets a method absorb answers; if one of them makes it fail, leaves out its sender."""

    method: Method
    options: LoopOptions
    state: State
    step: int
    recorder: RunRecorder

    def absorb(
        self, answers: Answers, questions: Sequence[Question], check: ReplyCheck, expect: Expect
    ) -> tuple[State, Metrics, Answers]:
        """Return the new state, what the method measured, and the answers that counted.

        If the method fails, it is tried without each client in turn. A secure sum cannot be: two sums that differ by
        one client would tell its addend.
        """
        try:
            return *self._absorb(answers), answers
        except Exception as error:
            for fewer in self._leave_one_out(answers, questions, check, expect, type(error).__name__):
                if len(fewer.names) < self.options.quorum * len(questions) - 1e-9:
                    break
                try:
                    found = *self._absorb(fewer), fewer
                except Exception:
                    continue
                self.recorder.log_failure(fewer.failures[-1], error)
                return found
            raise

    def _absorb(self, answers: Answers) -> tuple[State, Metrics]:
        stream = Rng(self.options.seed, "server", self.step, "absorb")
        return self.method.absorb(self.state, answers, self.options.public, stream)

    def _leave_one_out(
        self, answers: Answers, questions: Sequence[Question], check: ReplyCheck, expect: Expect, kind: str
    ) -> Iterator[Answers]:
        if answers.total is not None and not getattr(self.options.reducer, "sees_single", False):
            return
        phase = questions[0].phase if questions else ""
        if answers.total is None:
            single = dict(answers.each or {})
        else:
            asked = [question for question in questions if question.client in answers.names]
            replies = check.exchange(asked, expect)
            single = {reply.client: reply.message for reply in replies if reply.message is not None}
        for name in _oddest_first(single, answers.names):
            failure = Failure(name, self.step, phase, kind, "with its answer this step fails, without it it does not")
            counted = {*answers.names} - {name}
            if answers.total is None:
                each = {other: message for other, message in (answers.each or {}).items() if other in counted}
                versions = {other: version for other, version in answers.versions.items() if other in counted}
                fewer = replace(answers, names=tuple(sorted(counted)), each=each, versions=versions)
            else:
                left = [question for question in questions if question.client in counted]
                fewer = replace(self.options.reducer.gather(check.exchange, left, expect), failures=answers.failures)
            yield replace(fewer, failures=(*answers.failures, failure))


def _oddest_first(messages: Mapping[str, Message], names: Sequence[str]) -> list[str]:
    """Return clients by how much larger the largest number of some field of theirs is than the median client's."""
    first = next(iter(messages.values()), Message({}))
    fields = [name for name, value in first.items() if isinstance(value, np.ndarray) and value.dtype.kind in "fiu"]
    largest = np.array([[np.abs(one[field]).max(initial=0.0) for field in fields] for one in messages.values()])
    if not largest.size:
        return list(names)
    ratio = (largest / np.maximum(np.median(largest, axis=0), 1e-300)).max(axis=1)
    size = dict(zip(messages, ratio.tolist(), strict=True))
    return sorted(names, key=lambda name: -size.get(name, 0.0))


def require_declared(message: Message, expect: Expect, declared: int | None) -> None:
    """Raise `MessageError` for an answer that claims far more rows than its sender said it has when it joined."""
    if declared is None or not expect.sums or declared * MOST_CLAIMED >= (size := expect.size_of(message)) - 1:
        return
    raise MessageError(f"it must stand for at most {MOST_CLAIMED:g} times the {declared} rows declared, got {size:g}")


def sanitize(text: str) -> str:
    """Return text from elsewhere as one short line, safe in a log, on a terminal and on a page."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:300])


def below_quorum(answers: Answers, asked: Sequence[object], quorum: float) -> QuorumError:
    """Return the error that names the missing clients and says that nothing is lost."""
    listed = "\n".join(f"  {failure}" for failure in answers.failures[:10])
    return QuorumError(
        f"at least {quorum:.0%} of the {len(asked)} clients asked must answer, {len(answers.names)} did:\n"
        f"{listed}\n"
        "The state is as it was before this step; with a run folder, resume the run once the clients are back."
    )
