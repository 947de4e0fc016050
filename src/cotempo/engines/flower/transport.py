"""`send`: one exchange, a question to each of several nodes and their answers, over any `Channel`."""

from __future__ import annotations

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


def send(
    channel: Channel,
    envelopes: Mapping[int, Envelope],
    deadline: float,
    check_alive: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Envelope]]:
    """Send each node its envelope, and yield nodes and answers until all have arrived or the deadline is past.

    A node that is away is asked again, for two minutes at most: answers are idempotent. `check_alive` raises if no
    answer can arrive any more.
    """
    began = time.monotonic()
    due = dict.fromkeys(envelopes, began)  # when to ask a node
    given_up: dict[int, float] = {}  # when to give up a node that is away
    waiting: dict[str, int] = {}
    polls = Backoff(*POLL_SECONDS)
    while (due or waiting) and (now := time.monotonic()) < began + deadline:
        check_alive()
        arrived: list[tuple[int, Answer]] = []
        if ready := [node for node in due if due[node] <= now]:
            pushed = channel.push({node: envelopes[node] for node in ready}, began + deadline - now)
            waiting.update({key: node for node, key in pushed.items()})
            arrived += [(node, Away("the node is away")) for node in ready if node not in pushed]
            for node in ready:
                del due[node]
        pulled = channel.pull(list(waiting)) if waiting else ()
        arrived += [(waiting.pop(key), answer) for key, answer in pulled if key in waiting]
        for node, answer in arrived:
            if isinstance(answer, Away) and now < given_up.setdefault(node, now + AWAY_SECONDS):
                due[node] = now + RETRY_SECONDS
            elif isinstance(answer, MessageError):
                yield node, lost(answer)
            else:
                yield node, answer
        if arrived:
            polls.reset()
        if due or waiting:
            polls.sleep(now, POLL_SECONDS_EACH * len(waiting))


def lost(error: MessageError) -> Envelope:
    """Return what stands for an answer that did not arrive."""
    parts: Parts = {Part.LOST: str(error).encode()}
    return Envelope.write(Verb.ANSWER, parts)
