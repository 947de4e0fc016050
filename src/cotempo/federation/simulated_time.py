r"""`asynchronous_rounds`: the loop with a `LateReducer`, which does not wait for the slowest, in simulated time.

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

import heapq
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from cotempo.errors import ParameterError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Answers, Expect, Question, Reply
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.reducers import Exchange, gather_each, gather_sum
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import (
    EVERYONE,
    LoopOptions,
    Participation,
    Step,
    below_quorum,
    initial_checkpoint,
    rounds,
)
from cotempo.storage.tree import freeze

Seconds = Callable[[str, int], float]  # how long a client takes for the question of a step


class Timed(NamedTuple):
    """A step, and the simulated seconds from the start to its end."""

    seconds: float
    step: Step


@dataclass(frozen=True)
class Delays:
    r"""How long clients take for an answer, in simulated seconds.

    A client c takes :math:`\mathrm{median}\cdot s_c \exp(\mathrm{spread}\, z_c + \mathrm{jitter}\, z_{c,k})` for its
    question of step k, with standard normal z; :math:`s_c` is `slowdown` for stragglers and 1 for the others.

    Parameters
    ----------
    median
        Seconds of the client in the middle.
    spread, jitter
        Log-normal differences between clients, and between questions to the same client.
    stragglers, slowdown
        The share of clients that are slow, rounded to whole clients, and how many times slower they are.

    Examples
    --------
    >>> seconds = Delays(stragglers=0.5).among(["a", "b"], seed=0)
    >>> sorted([seconds("a", 1), seconds("b", 1)])
    [1.0, 10.0]
    """

    median: float = 1.0
    spread: float = 0.0
    jitter: float = 0.0
    stragglers: float = 0.0
    slowdown: float = 10.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise ParameterError(f"{name} must be at least 0 and finite, got {value}")
        if self.stragglers > 1:
            raise ParameterError(f"stragglers must be a share, at most 1, got {self.stragglers}")

    def among(self, names: Iterable[str], seed: int) -> Seconds:
        """Return the delays of these clients; stragglers are drawn now, the rest when needed."""
        names = sorted(names)
        slow = set(Rng(seed, "delays")("stragglers").permutation(names)[: round(self.stragglers * len(names))])

        def seconds(client: str, step: int) -> float:
            own = self.spread * Rng(seed, "delays", client)("client").normal()
            passing = self.jitter * Rng(seed, "delays", client, step)("question").normal()
            return float(self.median * (self.slowdown if client in slow else 1.0) * math.exp(own + passing))

        return seconds


def timed_rounds(method: Method, engine: Engine, seconds: Seconds, options: LoopOptions) -> Iterator[Timed]:
    """Run the synchronous loop on the same clock: a step lasts as long as its slowest client."""
    clock = 0.0
    for step in rounds(method, engine, options, start=initial_checkpoint(method, engine, options)):
        clock += max((seconds(client, step.step) for client in step.sent), default=0.0)
        yield Timed(clock, step)


def asynchronous_rounds(
    method: Method,
    engine: Engine,
    seconds: Seconds,
    options: LoopOptions,
    *,
    buffer: int | Literal["auto"] = "auto",
    concurrency: int | None = None,
) -> Iterator[Timed]:
    """Run a method without waiting for the slowest, until it has nothing more to ask.

    A client has one question at a time, and is asked again once its answer was absorbed. When the method moves on to
    another phase, pending answers are not counted: they never happened. In phases declared ``"accumulate"`` the last
    state is the synchronous one. See `cotempo.simulate_delays` for `buffer` and `concurrency`; `options.quorum` is the
    share of `buffer` that must count if nobody is left to wait for.
    """
    late = LateReducer(method, seconds, options, buffer, concurrency)
    options = replace(options, quorum=0.0, participation=EVERYONE, reducer=late)  # `late` looks after both
    start = initial_checkpoint(method, engine, options)
    state = start.state
    for step in rounds(method, engine, options, start=start):
        for clock, answers in late.provisional:
            rng = Rng(options.seed, "server", step.step, "absorb")
            moved, metrics = method.absorb(state, answers, options.public, rng)
            yield Timed(clock, replace(step, state=freeze(moved), metrics=metrics, answers=answers))
        yield Timed(late.clock, step)
        state = step.state


class Pending(NamedTuple):
    """A reply on its way; of two that arrive at the same time, the one asked first comes first."""

    arrival: float
    step: int
    client: str
    asked: float
    reply: Reply


@dataclass
class LateReducer:
    """A reducer that gathers the answers that are there in time, and holds the others until they arrive.

    `clock` is the simulated time; `provisional` holds the times and answers before all of an ``"accumulate"`` phase
    were there.
    """

    method: Method
    seconds: Seconds
    options: LoopOptions
    buffer: int | Literal["auto"]
    concurrency: int | None
    clock: float = 0.0
    provisional: list[tuple[float, Answers]] = field(default_factory=list)
    phase: str = ""
    queue: list[Pending] = field(default_factory=list)
    last: dict[str, Reply] = field(default_factory=dict)  # of every client in this phase
    busy: dict[str, float] = field(default_factory=dict)  # until when a client works, also on what no longer counts
    durations: dict[str, float] = field(default_factory=dict)  # seconds of each client's last answer

    def __post_init__(self) -> None:
        if not self.method.staleness:
            raise ParameterError(
                f"answers to {type(self.method).__name__} with these parameters must not come late: it declares no "
                "phase in `staleness`; run it synchronously, with a cohort and a quorum where clients are slow"
            )
        if self.concurrency is not None and self.concurrency < 1:
            raise ParameterError(f"concurrency must be at least 1, or None for everyone, got {self.concurrency}")
        if self.buffer != "auto" and not 1 <= self.buffer <= (self.concurrency or self.buffer):
            raise ParameterError(f"buffer must be at least 1 and at most concurrency, got {self.buffer}")

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Ask idle clients, and gather what is there as soon as there is enough of it."""
        step, phase = (questions[0].step, questions[0].phase) if questions else (0, "")
        rule = self.method.staleness.get(phase)
        if phase != self.phase:
            self.phase, self.queue, self.last = phase, [], {}
        self.provisional = []
        self.schedule(step, exchange(self.choose(questions), expect))
        collected: list[Reply] = []
        while True:
            wanted = len(self.queue)
            if rule:
                wanted = min(self.expected() if self.buffer == "auto" else self.buffer, wanted)
            collected += self.collect(wanted)
            while rule == "replace" and self.overdue(step, collected):
                collected += self.collect(1)
            if sum(reply.message is not None for reply in collected) < self.options.quorum * wanted - 1e-9:
                raise below_quorum(_gather(collected, expect), collected, self.options.quorum)
            counted = collected
            if rule == "replace":
                self.last |= {reply.client: reply for reply in collected if reply.message is not None}
                counted = [*self.last.values(), *(reply for reply in collected if reply.message is None)]
            answers = _gather(counted, expect, step if rule == "weighted" else None)
            if rule != "accumulate" or not self.queue:
                return answers
            self.provisional.append((self.clock, answers))

    def choose(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions to idle clients, until `concurrency` are busy."""
        busy = {pending.client for pending in self.queue}
        idle = {question.client: question for question in questions if question.client not in busy}
        places = len(idle) if self.concurrency is None else self.concurrency - len(busy)
        if not idle or places < 1:
            return []
        names = Participation(places).cohort(questions[0].round, list(idle), self.options.seed)
        return [idle[name] for name in names]

    def schedule(self, step: int, replies: Iterable[Reply]) -> None:
        """Queue replies; a client begins once it is done with its previous question."""
        for reply in replies:
            client = reply.client
            self.busy[client] = max(self.clock, self.busy.get(client, 0.0)) + self.seconds(client, step)
            heapq.heappush(self.queue, Pending(self.busy[client], step, client, self.clock, reply))

    def collect(self, wanted: int) -> list[Reply]:
        """Return replies until this many answers are there, or nobody is left to wait for; failures come along."""
        collected: list[Reply] = []
        while self.queue and wanted:
            pending = heapq.heappop(self.queue)
            self.clock = max(self.clock, pending.arrival)
            self.durations[pending.client] = pending.arrival - pending.asked
            collected.append(pending.reply)
            wanted -= pending.reply.message is not None
        return collected

    def overdue(self, step: int, collected: Sequence[Reply]) -> bool:
        """Return whether someone's first answer, or one asked for too many steps ago, is still on its way."""
        most, known = self.method.most_stale.get(self.phase), {*self.last, *(reply.client for reply in collected)}
        if most is None:
            return False
        return any(step - pending.step >= most or pending.client not in known for pending in self.queue)

    def expected(self) -> int:
        """Return how many to wait for: clients whose last answer took at most twice the median; at first, half."""
        if not self.durations:
            return math.ceil(len(self.queue) / 2)
        limit = 2 * statistics.median(self.durations.values())
        return max(1, sum(self.durations.get(pending.client, math.inf) <= limit for pending in self.queue))


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
