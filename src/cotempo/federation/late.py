r"""`LateReducer`: a step ends when enough answers are there; the others count when they arrive, by the method's rule.

The server keeps up to `concurrency` clients busy and absorbs as soon as `buffer` answers are there (Nguyen et al.,
Federated learning with buffered asynchronous aggregation, AISTATS 2022). What an answer to an older state is worth the
method says, phase by phase, in `staleness`:

- weighted: an answer that is a steps old counts :math:`(1 + a)^{-1/2}` of its weight;
- replace: everybody's last answer stays in the sum until the next one replaces it (Neal and Hinton, A view of the EM
  algorithm that justifies incremental, sparse, and other variants, 1998); in `most_stale` a method bounds for how many
  steps (Zhang and Kwok, Asynchronous distributed ADMM for consensus optimization, ICML 2014);
- accumulate: answers do not age; the state is provisional until all have come.

Other phases wait for everyone asked, as `rounds` does.
"""

import math
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cotempo.errors import ParameterError
from cotempo.federation.exchange import Answers, Expect, Question, Reply
from cotempo.federation.message import EMPTY, Message
from cotempo.federation.method import Method
from cotempo.federation.reducers import Exchange, gather_each, gather_sum
from cotempo.federation.rounds import EVERYONE, LoopOptions, Participation, below_quorum
from cotempo.federation.wire import question_from_bytes, question_to_bytes, reply_from_bytes, reply_to_bytes


@dataclass
class LateReducer:
    """A reducer that gathers the answers that are there in time, and keeps the other questions open.

    A client has one question at a time, and is asked again once its answer was absorbed. When the method moves on to
    another phase, open questions are forgotten: they never happened. `options.quorum` is the share of the buffer that
    must count if nobody is left to wait for, the size of `options.participation` the `concurrency`; `now` tells the
    time. `preview` is called with the step and the answers so far, before all of an ``"accumulate"`` phase are there.
    """

    method: Method
    options: LoopOptions
    now: Callable[[], float] = time.monotonic
    preview: Callable[[int, Answers], None] = lambda step, answers: None
    phase: str = ""
    open: dict[str, Question] = field(default_factory=dict)  # by client, in the order they were asked
    last: dict[str, Reply] = field(default_factory=dict)  # by client, what stays until the next one replaces it
    asked: dict[str, float] = field(default_factory=dict)  # when
    durations: dict[str, float] = field(default_factory=dict)  # seconds of each client's last answer

    def __post_init__(self) -> None:
        if not self.method.staleness:
            raise ParameterError(
                f"answers to {type(self.method).__name__} with these parameters must not come late: it declares no "
                "phase in `staleness`; run it synchronously, with a cohort and a quorum where clients are slow"
            )
        buffer = self.options.buffer
        if isinstance(buffer, int) and not 1 <= buffer <= (self.concurrency or buffer):
            raise ParameterError(f"buffer must be at least 1 and at most concurrency, got {buffer}")

    @property
    def concurrency(self) -> int | None:
        """How many clients work at a time; `None` for everyone."""
        return self.options.participation.size

    @property
    def loop_options(self) -> LoopOptions:
        """Options of a loop with this reducer, which looks after quorum and participation."""
        return replace(self.options, quorum=0.0, participation=EVERYONE, reducer=self)

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Ask idle clients, and gather what is there as soon as there is enough of it."""
        step, phase = (questions[0].step, questions[0].phase) if questions else (0, "")
        rule = self.method.staleness.get(phase)
        if phase != self.phase:
            self.phase, self.open, self.last = phase, {}, {}
        for question in self.choose(questions):
            self.open[question.client], self.asked[question.client] = question, self.now()
        collected: list[Reply] = []
        with closing(self.arriving(exchange, expect)) as arriving:
            while True:
                wanted = len(self.open)
                if rule:
                    wanted = min(self.expected(), wanted)
                collected += self.collect(arriving, wanted)
                while rule == "replace" and self.overdue(step):
                    collected += self.collect(arriving, 1)
                if sum(reply.message is not None for reply in collected) < self.options.quorum * wanted - 1e-9:
                    raise below_quorum(_gather(collected, expect), collected, self.options.quorum)
                counted = collected
                if rule == "replace":
                    counted = [*self.last.values(), *(reply for reply in collected if reply.message is None)]
                answers = _gather(counted, expect, step if rule == "weighted" else None)
                if rule != "accumulate" or not self.open:
                    return answers
                self.preview(step, answers)

    def choose(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions to idle clients, until `concurrency` are busy."""
        idle = {question.client: question for question in questions if question.client not in self.open}
        places = len(idle) if self.concurrency is None else self.concurrency - len(self.open)
        if not idle or places < 1:
            return []
        names = Participation(places).cohort(questions[0].round, list(idle), self.options.seed)
        return [idle[name] for name in names]

    def arriving(self, exchange: Exchange, expect: Expect) -> Generator[Reply]:
        """Yield replies to open questions as they arrive; those of earlier exchanges are not asked again."""
        for reply in exchange(list(self.open.values()), expect) if self.open else ():
            del self.open[reply.client]
            self.durations[reply.client] = self.now() - self.asked.pop(reply.client, self.now())
            if reply.message is not None and self.method.staleness.get(self.phase) == "replace":
                self.last[reply.client] = reply
            yield reply

    def collect(self, arriving: Iterator[Reply], wanted: int) -> list[Reply]:
        """Return replies until this many answers are there, or nobody is left to wait for; failures come along."""
        collected: list[Reply] = []
        while self.open and wanted:
            reply = next(arriving)
            collected.append(reply)
            wanted -= reply.message is not None
        return collected

    def overdue(self, step: int) -> bool:
        """Return whether someone's first answer, or one asked for too many steps ago, is still on its way."""
        most = self.method.most_stale.get(self.phase)
        if most is None:
            return False
        return any(step - question.step >= most or name not in self.last for name, question in self.open.items())

    def expected(self) -> int:
        """Return how many to wait for; "auto": whose last answer took at most twice the median, at first half."""
        if isinstance(self.options.buffer, int):
            return self.options.buffer
        if not self.durations:
            return math.ceil(len(self.open) / 2)
        limit = 2 * statistics.median(self.durations.values())
        return max(1, sum(self.durations.get(client, math.inf) <= limit for client in self.open))

    # What a checkpoint holds of it.

    def held(self) -> dict[str, Any]:
        """Return the open questions, what they have in common by step, the answers that stay, and who is slow."""
        return {
            "phase": self.phase,
            "commons": {str(question.step): question.common.to_tree() for question in self.open.values()},
            "open": tuple(_bytes(question_to_bytes(replace(one, common=EMPTY))) for one in self.open.values()),
            "last": tuple(_bytes(reply_to_bytes(reply)) for reply in self.last.values()),
            "durations": self.durations,
        }

    def restore(self, held: Mapping[str, Any]) -> None:
        """Take back what `held` returned; open questions are then asked again, which sites answer as they did."""
        self.phase, self.durations = held["phase"], dict(held["durations"])
        commons = {int(step): Message.from_tree(tree) for step, tree in held["commons"].items()}
        asked = [question_from_bytes(data.tobytes()) for data in held["open"]]
        self.open = {question.client: replace(question, common=commons[question.step]) for question in asked}
        replies = [reply_from_bytes(data.tobytes()) for data in held["last"]]
        self.last = {reply.client: reply for reply in replies}
        self.asked = dict.fromkeys(self.open, self.now())


def _bytes(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


def _gather(replies: Sequence[Reply], expect: Expect, step: int | None = None) -> Answers:
    """Gather as `rounds` does; with `step`, answers have less weight the older they are."""
    counted = []
    for reply in replies:
        if reply.message is not None:
            age = 0 if step is None else step - reply.step
            weight = reply.message.weight * (1 + age) ** -0.5
            counted.append(replace(reply, message=Message(reply.message, weight=weight)) if age else reply)
    names = sorted(reply.client for reply in counted)
    answers = gather_sum(counted, names) if expect.sums else gather_each(counted)
    failures = sorted((reply.failure for reply in replies if reply.failure), key=lambda failure: failure.client)
    return replace(answers, failures=tuple(failures))
