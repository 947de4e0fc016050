r"""The loop that waits for nobody in particular, in simulated time.

The server keeps up to `concurrency` clients busy and absorbs as soon as `buffer` answers are there (Nguyen et al.,
Federated learning with buffered asynchronous aggregation, AISTATS 2022). What an answer to an older state is worth the
method says, phase by phase, in `late`:

- weighted: an answer that is a steps old counts :math:`(1 + a)^{-1/2}` of its weight;
- kept: everybody's last answer stays in the sum until the next one replaces it (Neal and Hinton, A view of the EM
  algorithm that justifies incremental, sparse, and other variants, 1998);
- added: answers do not age; the state is provisional until all have come.

Other phases wait for everyone asked, as `rounds` does.
"""

from __future__ import annotations

import heapq
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from cotempo.data import Table
from cotempo.errors import ParameterError, QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Answers, Ask, Expect, Reply
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.participation import Participation
from cotempo.federation.reducers import gather_each, gather_sum
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import Door, Inbox, Progress, below_quorum, opening, pose, rounds
from cotempo.storage.tree import freeze

Seconds = Callable[[str, int], float]
"""How long a client takes for the question of a step."""


class Timed(NamedTuple):
    """A step, and the simulated seconds from the start to its end."""

    seconds: float
    progress: Progress


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
        """Decide who straggles; the rest is drawn when it is needed."""
        names = sorted(names)
        slow = set(Rng(seed, "delays")("stragglers").permutation(names)[: round(self.stragglers * len(names))])

        def seconds(client: str, step: int) -> float:
            own = self.spread * Rng(seed, "delays", client)("client").normal()
            passing = self.jitter * Rng(seed, "delays", client, step)("question").normal()
            return float(self.median * (self.slowdown if client in slow else 1.0) * math.exp(own + passing))

        return seconds


def timed_rounds(method: Method, engine: Engine, seconds: Seconds, **options: Any) -> Iterator[Timed]:
    """The synchronous loop on the same clock: a step lasts as long as its slowest client; options as of `rounds`."""
    clock = 0.0
    for progress in rounds(method, engine, **options):
        clock += max((seconds(client, progress.step) for client in progress.sent), default=0.0)
        yield Timed(clock, progress)


def asynchronous_rounds(
    method: Method,
    engine: Engine,
    seconds: Seconds,
    *,
    buffer: int | Literal["auto"] = "auto",
    concurrency: int | None = None,
    public: Table | None = None,
    seed: int = 0,
    quorum: float = 0.5,
) -> Iterator[Timed]:
    """Run a method without waiting for the slowest, until it has nothing more to ask.

    A client has one question at a time, and is asked again once its answer was absorbed. When the method goes on to
    another phase, answers still on their way are not counted: they never happened. In phases declared ``"added"`` the
    last state is the synchronous one.

    Parameters
    ----------
    seconds
        How long a client takes for the question of a step.
    buffer
        How many answers make a step; `"auto"`: as many as are expected in time (see `Flights.expected`).
    concurrency
        How many clients are at work at a time; `None` for everyone.
    quorum
        The share of `buffer` that must count where nobody is left to wait for.
    """
    _refuse(method, buffer, concurrency)
    first = opening(method, engine, public=public, seed=seed, participation=Participation(concurrency))
    state, door, flights = first.state, Door(method, engine, first.known, None), Flights(seconds)
    ledgers: list[dict[str, int]] = [{}, {}]
    step, round = 0, 1
    while True:
        began, present = time.perf_counter(), door.present()
        ask = method.ask(state, present, Rng(seed, "server", step + 1, "ask"))
        if ask is None:
            return
        if not present:
            raise QuorumError("at least one client must be there, all have left")
        step, late, expect = step + 1, method.late.get(ask.phase), method.expects(state, ask.phase)
        chosen = _choose(ask, flights, concurrency, round, seed)
        questions = pose(replace(ask, to=chosen), "run", step, round, ledgers)
        inbox = Inbox(questions, expect, None)
        flights.take_off(step, inbox.check(engine.exchange(questions) if questions else ()))
        sent = {question.client: question.common.nbytes + question.own.nbytes for question in questions}
        landed: list[Reply] = []
        while True:
            wanted = len(flights.queue)
            if late:
                wanted = min(flights.expected() if buffer == "auto" else buffer, wanted)
            landed += flights.land(wanted)
            if sum(reply.message is not None for reply in landed) < quorum * wanted - 1e-9:
                raise below_quorum(_gather(landed, expect), landed, quorum) from inbox.cause
            answers = _gather(flights.keep(landed) if late == "kept" else landed, expect, step * (late == "weighted"))
            moved, metrics = method.absorb(state, answers, public, Rng(seed, "server", step, "absorb"))
            moved, spent = freeze(moved), time.perf_counter() - began
            received = {reply.client: reply.message.nbytes for reply in landed if reply.message is not None}
            progress = Progress(
                step, round, ask.phase, moved, metrics, answers, expect, sent, received, spent, ask.ends_round
            )
            yield Timed(flights.clock, progress)
            if late != "added" or not flights.queue:
                break
        state = moved
        ledgers = [ledgers[-1], {**ledgers[-1], **answers.versions}]
        round += ask.ends_round


class Flights:
    """Answers on their way, by the time they arrive, and the last answer of everyone."""

    def __init__(self, seconds: Seconds):
        self.seconds = seconds
        self.clock = 0.0
        self.phase = ""
        self.queue: list[tuple[float, int, str, Reply]] = []  # of two at the same time, the one asked first
        self.kept: dict[str, Reply] = {}
        self.busy: dict[str, float] = {}  # until when a client works, also on what no longer counts
        self.asked: dict[str, float] = {}
        self.took: dict[str, float] = {}  # how long a client took for the last answer that came

    def clients(self, phase: str) -> set[str]:
        """Who is at work on a question of this phase; answers to another phase are dropped."""
        if phase != self.phase:
            self.phase, self.queue, self.kept = phase, [], {}
        return {client for _, _, client, _ in self.queue}

    def take_off(self, step: int, replies: Iterable[Reply]) -> None:
        """Send replies on their way; a client begins once it is done with what it was asked before."""
        for reply in replies:
            self.asked[reply.client] = self.clock
            begins = max(self.clock, self.busy.get(reply.client, 0.0))
            self.busy[reply.client] = begins + self.seconds(reply.client, step)
            heapq.heappush(self.queue, (self.busy[reply.client], step, reply.client, reply))

    def land(self, wanted: int) -> list[Reply]:
        """Wait until this many answers are there, or nobody is left to wait for; failures come along."""
        landed: list[Reply] = []
        while self.queue and wanted:
            arrival, _, client, reply = heapq.heappop(self.queue)
            self.clock = max(self.clock, arrival)
            self.took[client] = arrival - self.asked[client]
            landed.append(reply)
            wanted -= reply.message is not None
        return landed

    def expected(self) -> int:
        """How many of those at work answer in time, by their last answers: in twice the median; at first, half."""
        if not self.took:
            return math.ceil(len(self.queue) / 2)
        limit = 2 * statistics.median(self.took.values())
        return max(1, sum(self.took.get(client, math.inf) <= limit for _, _, client, _ in self.queue))

    def keep(self, landed: Sequence[Reply]) -> list[Reply]:
        """The last answer of everyone in this phase, and the failures of now."""
        self.kept |= {reply.client: reply for reply in landed if reply.message is not None}
        return [*self.kept.values(), *(reply for reply in landed if reply.message is None)]


def _choose(ask: Ask, flights: Flights, concurrency: int | None, round: int, seed: int) -> tuple[str, ...]:
    """Idle clients to ask, until `concurrency` are busy."""
    busy = flights.clients(ask.phase)
    idle = [name for name in ask.to if name not in busy]
    places = len(idle) if concurrency is None else concurrency - len(busy)
    return Participation(places).cohort(round, idle, seed) if places > 0 else ()


def _gather(replies: Sequence[Reply], expect: Expect, step: int = 0) -> Answers:
    """Gather as `rounds` does; seen from a step, old answers have less weight."""
    counted = [_aged(reply, step) for reply in replies if reply.message is not None]
    names = sorted(reply.client for reply in counted)
    answers = gather_sum(counted, names) if expect.sums else gather_each(counted)
    failures = sorted((reply.failure for reply in replies if reply.failure), key=lambda failure: failure.client)
    return replace(answers, failures=tuple(failures))


def _aged(reply: Reply, step: int) -> Reply:
    age = step - reply.step
    if age <= 0 or reply.message is None:
        return reply
    return replace(reply, message=Message(reply.message, weight=reply.message.weight * (1 + age) ** -0.5))


def _refuse(method: Method, buffer: int | Literal["auto"], concurrency: int | None) -> None:
    """Say what does not fit before anything is asked."""
    if not method.late:
        raise ParameterError(
            f"answers to {type(method).__name__} with these parameters must not come late: it declares no phase in "
            "`late`; run it synchronously, with a cohort and a quorum where clients are slow"
        )
    if concurrency is not None and concurrency < 1:
        raise ParameterError(f"concurrency must be at least 1, or None for everyone, got {concurrency}")
    if buffer != "auto" and not 1 <= buffer <= (buffer if concurrency is None else concurrency):
        raise ParameterError(f"buffer must be at least 1 and at most concurrency, got {buffer}")
