r"""`asynchronous_rounds`: the loop that does not wait for the slowest clients, in simulated time.

The server keeps up to `concurrency` clients busy and absorbs as soon as `buffer` answers are there (Nguyen et al.,
Federated learning with buffered asynchronous aggregation, AISTATS 2022). What an answer to an older state is worth the
method says, phase by phase, in `staleness`:

- weighted: an answer that is a steps old counts :math:`(1 + a)^{-1/2}` of its weight;
- replace: everybody's last answer stays in the sum until the next one replaces it (Neal and Hinton, A view of the EM
  algorithm that justifies incremental, sparse, and other variants, 1998);
- accumulate: answers do not age; the state is provisional until all have come.

Other phases wait for everyone asked, as `rounds` does.
"""

import heapq
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from cotempo.errors import ParameterError, QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Answers, Ask, Expect, Reply
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.reducers import gather_each, gather_sum
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import (
    Admission,
    LoopOptions,
    Participation,
    ReplyCheck,
    Step,
    below_quorum,
    initial_checkpoint,
    make_questions,
    rounds,
)
from cotempo.storage.tree import freeze

Seconds = Callable[[str, int], float]
"""How long a client takes for the question of a step."""


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
    state is the synchronous one.

    Parameters
    ----------
    seconds
        How long a client takes for the question of a step.
    options
        As of `rounds`; the quorum is the share of `buffer` that must count if nobody is left to wait for.
    buffer
        How many answers make a step; `"auto"`: as many as are expected in time (see `PendingReplies.expected`).
    concurrency
        How many clients work at a time; `None` for everyone.
    """
    _refuse(method, buffer, concurrency)
    seed, public = options.seed, options.public
    first = initial_checkpoint(method, engine, replace(options, participation=Participation(concurrency)))
    state, admission, pending = first.state, Admission(method, engine, first.known, None), PendingReplies(seconds)
    ledgers: list[dict[str, int]] = [{}, {}]
    step, round = 0, 1
    while True:
        began, present = time.perf_counter(), admission.present()
        ask = method.ask(state, present, Rng(seed, "server", step + 1, "ask"))
        if ask is None:
            return
        if not present:
            raise QuorumError("at least one client must be there, all have left")
        step, rule, expect = step + 1, method.staleness.get(ask.phase), method.expects(state, ask.phase)
        chosen = _choose(ask, pending, concurrency, round, seed)
        check = ReplyCheck(engine, options.shields)
        questions = make_questions(replace(ask, to=chosen), options.run_id, step, round, ledgers)
        pending.schedule(step, check.exchange(questions, expect))
        collected: list[Reply] = []
        while True:
            wanted = len(pending.queue)
            if rule:
                wanted = min(pending.expected() if buffer == "auto" else buffer, wanted)
            collected += pending.collect(wanted)
            if sum(reply.message is not None for reply in collected) < options.quorum * wanted - 1e-9:
                raise below_quorum(_gather(collected, expect), collected, options.quorum) from check.cause
            counted = pending.replace(collected) if rule == "replace" else collected
            answers = _gather(counted, expect, step if rule == "weighted" else None)
            moved, metrics = method.absorb(state, answers, public, Rng(seed, "server", step, "absorb"))
            moved = freeze(moved)
            received = {reply.client: reply.message.nbytes for reply in collected if reply.message is not None}
            finished = Step(
                step=step, round=round, phase=ask.phase, state=moved, metrics=metrics, answers=answers, expect=expect,
                sent=check.sent, received=received, seconds=time.perf_counter() - began, ends_round=ask.ends_round,
            )  # fmt: skip
            yield Timed(pending.clock, finished)
            if rule != "accumulate" or not pending.queue:
                break
        state = moved
        ledgers = [ledgers[-1], {**ledgers[-1], **answers.versions}]
        round += ask.ends_round


class PendingReplies:
    """Replies by the simulated time they arrive, and the last one of every client."""

    def __init__(self, seconds: Seconds):
        self.seconds = seconds
        self.clock = 0.0
        self.phase = ""
        self.queue: list[tuple[float, int, str, Reply]] = []  # of two at the same time, the one asked first
        self.last: dict[str, Reply] = {}
        self.busy: dict[str, float] = {}  # until when a client works, also on what no longer counts
        self.asked: dict[str, float] = {}
        self.durations: dict[str, float] = {}  # seconds of each client's last answer

    def clients(self, phase: str) -> set[str]:
        """Return who works on a question of this phase; drop replies to another phase."""
        if phase != self.phase:
            self.phase, self.queue, self.last = phase, [], {}
        return {client for _, _, client, _ in self.queue}

    def schedule(self, step: int, replies: Iterable[Reply]) -> None:
        """Queue replies; a client begins once it is done with its previous question."""
        for reply in replies:
            self.asked[reply.client] = self.clock
            begins = max(self.clock, self.busy.get(reply.client, 0.0))
            self.busy[reply.client] = begins + self.seconds(reply.client, step)
            heapq.heappush(self.queue, (self.busy[reply.client], step, reply.client, reply))

    def collect(self, wanted: int) -> list[Reply]:
        """Return replies until this many answers are there, or nobody is left to wait for; failures come along."""
        collected: list[Reply] = []
        while self.queue and wanted:
            arrival, _, client, reply = heapq.heappop(self.queue)
            self.clock = max(self.clock, arrival)
            self.durations[client] = arrival - self.asked[client]
            collected.append(reply)
            wanted -= reply.message is not None
        return collected

    def expected(self) -> int:
        """Return how many to wait for: clients whose last answer took at most twice the median; at first, half."""
        if not self.durations:
            return math.ceil(len(self.queue) / 2)
        limit = 2 * statistics.median(self.durations.values())
        return max(1, sum(self.durations.get(client, math.inf) <= limit for _, _, client, _ in self.queue))

    def replace(self, collected: Sequence[Reply]) -> list[Reply]:
        """Return the last answer of every client in this phase, and the new failures."""
        self.last |= {reply.client: reply for reply in collected if reply.message is not None}
        return [*self.last.values(), *(reply for reply in collected if reply.message is None)]


def _choose(ask: Ask, pending: PendingReplies, concurrency: int | None, round: int, seed: int) -> tuple[str, ...]:
    """Return idle clients to ask, until `concurrency` are busy."""
    busy = pending.clients(ask.phase)
    idle = [name for name in ask.to if name not in busy]
    places = len(idle) if concurrency is None else concurrency - len(busy)
    return Participation(places).cohort(round, idle, seed) if places > 0 else ()


def _gather(replies: Sequence[Reply], expect: Expect, step: int | None = None) -> Answers:
    """Gather as `rounds` does; with `step`, answers have less weight the older they are."""
    counted = [reply if step is None else _aged(reply, step) for reply in replies if reply.message is not None]
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
    """Raise `ParameterError` if the options do not fit, before anything is asked."""
    if not method.staleness:
        raise ParameterError(
            f"answers to {type(method).__name__} with these parameters must not come late: it declares no phase in "
            "`staleness`; run it synchronously, with a cohort and a quorum where clients are slow"
        )
    if concurrency is not None and concurrency < 1:
        raise ParameterError(f"concurrency must be at least 1, or None for everyone, got {concurrency}")
    if buffer != "auto" and not 1 <= buffer <= (buffer if concurrency is None else concurrency):
        raise ParameterError(f"buffer must be at least 1 and at most concurrency, got {buffer}")
