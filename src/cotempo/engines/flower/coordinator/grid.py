"""One exchange on Flower's grid: a list of messages out, answers as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from flwr.app import Message as FlowerMessage
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from cotempo.engines.flower.processes import Patience
from cotempo.engines.flower.protocol import pack, unpack
from cotempo.errors import CotempoError

LOOKS = 0.05, 1.0  # seconds between two looks for answers: at first, and at most
LOOK = 1e-4  # seconds to wait, at least, for each answer a look is for: looks for many take their time
AGAIN, AWAY = 0.5, 120.0  # seconds until a node that is away is asked again, and until it is given up
AWAY_CODES = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)

Answer = Mapping[str, bytes]


def send(
    grid: Grid,
    verb: str,
    parts: Mapping[int, Mapping[str, bytes]],
    deadline: float,
    demand: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Answer]]:
    """Send each node its parts, and yield nodes and answers until all have come or the deadline is past.

    A node that is away is asked again, for two minutes at most: the same question gets the same answer. `demand` raises
    where there is nothing to wait for any more.
    """
    began = time.monotonic()
    due = dict.fromkeys(parts, began)  # when a node is to be asked
    given_up: dict[int, float] = {}  # when a node that is away is given up
    waiting: dict[str, int] = {}
    looks = Patience(*LOOKS)
    while (due or waiting) and (now := time.monotonic()) < began + deadline:
        demand()
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
            if is_away and now < given_up.setdefault(node, now + AWAY):
                due[node] = now + AGAIN
            else:
                yield node, read(message)
        if answers:
            looks.reset()
        if due or waiting:
            time.sleep(max(looks.next(), LOOK * len(waiting)))


def read(message: FlowerMessage) -> Answer:
    """The parts of an answer; the one part `lost` where something went wrong on its way."""
    if message.has_error():
        return {"lost": f"Flower's error {message.error.code}".encode()}
    try:
        return unpack(message)[1]
    except CotempoError as error:
        return {"lost": str(error).encode()}
