"""`Outbox`: questions to nodes and their answers, over any `Channel`; `send`: one exchange, waited for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from cotempo.engines.flower.processes import Backoff
from cotempo.engines.flower.protocol import Envelope, Part, Parts, Verb
from cotempo.errors import MessageError

POLL_SECONDS = 0.02, 1.0  # between two polls for answers, at first and at most
POLL_SECONDS_EACH = 1e-4  # minimum sleep per outstanding answer: polling cost grows with their number
RETRY_SECONDS, AWAY_SECONDS = 0.5, 120.0  # until an unreachable node is asked again, and until it is given up
AWAY_CODES = (3, 4, 5)  # Flower's: the message, its answer or the node is gone

Answer = Envelope | MessageError


class Away(MessageError):  # noqa: N818 - it says what happened
    """The node is away, or its answer got lost with the connection: it can be asked again."""


class Channel(Protocol):
    """A way to nodes and back."""

    def push(self, envelopes: Mapping[int, Envelope], seconds: float) -> Mapping[int, str]:
        """Send each node its envelope, which counts for some seconds; return ids, without those of nodes away."""
        ...

    def pull(self, ids: Iterable[str]) -> Iterable[tuple[str, Answer]]:
        """Return the answers that have arrived, with the id of what they answer."""
        ...


def failure_of(code: int) -> MessageError:
    """Return the error that Flower reports in place of an answer."""
    return (Away if code in AWAY_CODES else MessageError)(f"Flower's error {code}")


class Outbox:
    """Questions that are out, one per node, and their answers as they arrive.

    A node that is away is asked again, for two minutes at most: answers are idempotent. One that is there and does not
    answer is asked again after some seconds, and then ever more rarely, if its answers are stored: it may have been
    killed with the question, and back before anybody noticed. `check_alive` raises if no answer can arrive any more.
    """

    def __init__(
        self, channel: Channel, check_alive: Callable[[], None] = lambda: None, *, ask_again: float = math.inf
    ):
        self.channel = channel
        self.check_alive = check_alive
        self.ask_again = ask_again
        self.out: dict[int, tuple[Envelope, float]] = {}  # by node, what it was sent and when that no longer counts
        self.due: dict[int, float] = {}  # when to ask a node
        self.pauses: dict[int, tuple[float, float]] = {}  # when to ask it again, and how long after that once more
        self.repeated: set[int] = set()  # nodes that were asked more than once, and may answer as often
        self.given_up: dict[int, float] = {}  # when to give up a node that is away
        self.waiting: dict[str, int] = {}
        self.arrived: dict[int, Envelope | None] = {}  # and not yet taken; None for what did not arrive in time

    def add(self, envelopes: Mapping[int, Envelope], deadline: float) -> None:
        """Send each node its envelope, in place of what it was sent before; it counts for some seconds."""
        now = time.monotonic()
        self.drop(envelopes)
        self.out.update({node: (envelope, now + deadline) for node, envelope in envelopes.items()})
        self.due.update(dict.fromkeys(envelopes, now))
        self.pauses.update(dict.fromkeys(envelopes, (now + self.ask_again, 2 * self.ask_again)))

    def drop(self, nodes: Iterable[int]) -> None:
        """Forget what nodes were sent, and their answers, should they arrive."""
        dropped = {*nodes}
        for node in dropped:
            self._forget(node)
        self.waiting = {key: node for key, node in self.waiting.items() if node not in dropped}
        self.repeated -= dropped

    def _forget(self, node: int) -> None:
        for known in (self.out, self.due, self.pauses, self.given_up, self.arrived):
            known.pop(node, None)

    def arriving(self) -> Iterator[tuple[int, Envelope | None]]:
        """Yield nodes and answers, `None` past the deadline, until there is one of each node.

        Left early, it goes on where it was when it is called again.
        """
        polls = Backoff(*POLL_SECONDS)
        while self.out or self.arrived:
            self.check_alive()
            now = time.monotonic()
            if not self.arrived:
                self._poll(now)
            if self.arrived:
                polls.reset()
            for node, answer in list(self.arrived.items()):
                self._forget(node)
                if node in self.repeated:
                    self.drop([node])
                yield node, answer
            if self.out:
                polls.sleep(now, POLL_SECONDS_EACH * len(self.waiting))

    def _poll(self, now: float) -> None:
        """Ask who is to be asked now, and note what has arrived, or can no longer."""
        arrived: list[tuple[int, Answer]] = []
        for node in [node for node, (_, until) in self.out.items() if until <= now]:
            self.drop([node])
            self.arrived[node] = None
        for node, (when, pause) in self.pauses.items():
            if when <= now and node in self.out and node not in self.arrived:
                self.due.setdefault(node, now)
                self.repeated.add(node)
                self.pauses[node] = (now + pause, 2 * pause)
        if ready := [node for node in self.due if self.due[node] <= now]:
            seconds = max(self.out[node][1] for node in ready) - now
            pushed = self.channel.push({node: self.out[node][0] for node in ready}, seconds)
            self.waiting.update({key: node for node, key in pushed.items()})
            arrived += [(node, Away("the node is away")) for node in ready if node not in pushed]
            for node in ready:
                del self.due[node]
        pulled = self.channel.pull(list(self.waiting)) if self.waiting else ()
        arrived += [(self.waiting.pop(key), answer) for key, answer in pulled if key in self.waiting]
        for node, answer in arrived:
            if isinstance(answer, Away) and now < self.given_up.setdefault(node, now + AWAY_SECONDS):
                self.due[node] = now + RETRY_SECONDS
            else:
                self.arrived[node] = lost(answer) if isinstance(answer, MessageError) else answer


def send(
    channel: Channel,
    envelopes: Mapping[int, Envelope],
    deadline: float,
    check_alive: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Envelope]]:
    """Send each node its envelope, and yield nodes and answers until all have arrived or the deadline is past."""
    outbox = Outbox(channel, check_alive)
    outbox.add(envelopes, deadline)
    return ((node, answer) for node, answer in outbox.arriving() if answer is not None)


def lost(error: MessageError) -> Envelope:
    """Return what stands for an answer that did not arrive."""
    parts: Parts = {Part.LOST: str(error).encode()}
    return Envelope.write(Verb.ANSWER, parts)
