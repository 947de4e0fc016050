"""`send`: one exchange on Flower's grid, a list of messages out and answers as they arrive."""

import time
from collections.abc import Callable, Iterator, Mapping

from flwr.app import Message as FlowerMessage
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from cotempo.engines.flower.processes import Backoff
from cotempo.engines.flower.protocol import Part, Parts, Verb
from cotempo.engines.flower.transport import pack, unpack
from cotempo.errors import CotempoError

POLL_SECONDS = 0.05, 1.0  # between two polls for answers, at first and at most
POLL_SECONDS_EACH = 1e-4  # minimum sleep per outstanding answer: polling cost grows with their number
RETRY_SECONDS, AWAY_SECONDS = 0.5, 120.0  # until an unreachable node is asked again, and until it is given up
AWAY_CODES = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)


def send(
    grid: Grid,
    verb: Verb,
    parts: Mapping[int, Parts],
    deadline: float,
    check_alive: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Parts]]:
    """Send each node its parts, and yield nodes and answers until all have arrived or the deadline is past.

    A node that is away is asked again, for two minutes at most: answers are idempotent. `check_alive` raises if no
    answer can arrive any more.
    """
    began = time.monotonic()
    due = dict.fromkeys(parts, began)  # when to ask a node
    given_up: dict[int, float] = {}  # when to give up a node that is away
    waiting: dict[str, int] = {}
    polls = Backoff(*POLL_SECONDS)
    while (due or waiting) and (now := time.monotonic()) < began + deadline:
        check_alive()
        ready = [node for node in due if due[node] <= now]
        if ready:
            left = began + deadline - now
            messages = [FlowerMessage(pack(verb, parts[node]), node, "query", ttl=left) for node in ready]
            waiting.update(zip(grid.push_messages(messages), ready, strict=True))
            for node in ready:
                del due[node]
        answers = list(grid.pull_messages(list(waiting))) if waiting else []
        for message in answers:
            if (key := message.metadata.reply_to_message_id) not in waiting:
                continue
            node = waiting.pop(key)
            is_away = message.has_error() and message.error.code in AWAY_CODES
            if is_away and now < given_up.setdefault(node, now + AWAY_SECONDS):
                due[node] = now + RETRY_SECONDS
            else:
                yield node, _read(message)
        if answers:
            polls.reset()
        if due or waiting:
            time.sleep(max(polls.next(), POLL_SECONDS_EACH * len(waiting)))


def _read(message: FlowerMessage) -> Parts:
    """Return the parts of an answer; the one part `lost` if it failed on its way."""
    if message.has_error():
        return {Part.LOST: f"Flower's error {message.error.code}".encode()}
    try:
        return unpack(message)[1]
    except CotempoError as error:
        return {Part.LOST: str(error).encode()}
