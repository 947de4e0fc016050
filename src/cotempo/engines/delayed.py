"""`Delayed`: an engine whose clients take their time, in simulated seconds, and loops on that clock.

Both loops are those of real runs, `rounds` without and with a `LateReducer`, on a simulated clock.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cotempo.data import Schema
from cotempo.errors import ParameterError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Answers, Question, Reply
from cotempo.federation.late import LateReducer
from cotempo.federation.method import Memory, Method
from cotempo.federation.rng import Rng
from cotempo.federation.rounds import Buffer, LoopOptions, Participation, Step, initial_checkpoint, rounds
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
    buffer: Buffer = "auto",
    concurrency: int | None = None,
) -> Iterator[Timed]:
    """Run a method without waiting for the slowest, until it has nothing more to ask.

    In phases declared ``"accumulate"`` states before all have answered are yielded, too, and the last one is the
    synchronous one. See `cotempo.simulate_delays` for `buffer` and `concurrency`, `LateReducer` for the rest.
    """
    if concurrency is not None and concurrency < 1:
        raise ParameterError(f"concurrency must be at least 1, or None for everyone, got {concurrency}")
    slow, early = Delayed(engine, seconds), list[tuple[float, Answers]]()
    options = replace(options, participation=Participation(concurrency), buffer=buffer)
    late = LateReducer(method, options, lambda: slow.clock, lambda step, answers: early.append((slow.clock, answers)))
    options = late.loop_options
    start = initial_checkpoint(method, slow, options)
    state = start.state
    for step in rounds(method, slow, options, start=start):
        for clock, answers in early:
            rng = Rng(options.seed, "server", step.step, "absorb")
            moved, metrics = method.absorb(state, answers, options.public, rng)
            yield Timed(clock, replace(step, state=freeze(moved), metrics=metrics, answers=answers))
        early.clear()
        yield Timed(slow.clock, step)
        state = step.state


class Pending(NamedTuple):
    """A reply on its way; of two that arrive at the same time, the one asked first comes first."""

    arrival: float
    step: int
    client: str
    reply: Reply


@dataclass
class Delayed(Engine):
    """An engine around another one, whose replies arrive after simulated seconds; `clock` is the time."""

    engine: Engine
    seconds: Seconds
    clock: float = 0.0
    queue: list[Pending] = field(default_factory=list)
    busy: dict[str, float] = field(default_factory=dict)  # until when a client works, also on what no longer counts

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask what is not yet asked, and yield replies in the order they arrive."""
        wanted = {(question.client, question.step) for question in questions}
        self.queue = [pending for pending in self.queue if (pending.client, pending.step) in wanted]
        heapq.heapify(self.queue)
        known = {(pending.client, pending.step) for pending in self.queue}
        self._ask([question for question in questions if (question.client, question.step) not in known])
        while self.queue:
            pending = heapq.heappop(self.queue)
            self.clock = max(self.clock, pending.arrival)
            yield pending.reply

    def _ask(self, questions: Sequence[Question]) -> None:
        """Queue the replies to new questions; a client begins once it is done with its previous one."""
        replies: dict[str, Reply] = {}
        for reply in self.engine.exchange(questions) if questions else ():
            replies.setdefault(reply.client, reply)
        for question in questions:
            client, step = question.client, question.step
            reply = replies.get(client) or question.fail("Lost", "no answer came")
            self.busy[client] = max(self.clock, self.busy.get(client, 0.0)) + self.seconds(client, step)
            heapq.heappush(self.queue, Pending(self.busy[client], step, client, reply))

    def names(self) -> tuple[str, ...]:
        """Return who is there, as the wrapped engine."""
        return self.engine.names()

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """Return schemas, as the wrapped engine."""
        return self.engine.schemas(names)

    def declared_rows(self) -> Mapping[str, int]:
        """Return rows, as the wrapped engine."""
        return self.engine.declared_rows()

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """Return memories, as the wrapped engine."""
        return self.engine.memories(ledger)

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Restore memories, as the wrapped engine."""
        self.engine.restore(memories, ledger)
