"""One exchange on Flower's grid: a list of messages out, answers as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid

from cotempo.engines.flower.records import pack, unpack
from cotempo.errors import CotempoError

POLLS = (0.02, 1.0)  # seconds between two looks for answers: at first, and at most

Answer = Mapping[str, bytes]


def send(
    grid: Grid, verb: str, parts: Mapping[int, Mapping[str, bytes]], deadline: float
) -> Iterator[tuple[int, Answer]]:
    """Send each node its parts, and yield nodes and answers until all have come or the deadline is past."""
    if not parts:
        return
    messages = [FlowerMessage(pack(verb, parts[node]), node, "query", ttl=deadline) for node in parts]
    waiting = dict(zip(grid.push_messages(messages), parts, strict=True))
    until, pause = time.monotonic() + deadline, POLLS[0]
    while waiting and time.monotonic() < until:
        answers = list(grid.pull_messages(list(waiting)))
        for message in answers:
            node = waiting.pop(message.metadata.reply_to_message_id, None)
            if node is not None:
                yield node, read(message)
        pause = POLLS[0] if answers else min(1.5 * pause, POLLS[1])
        if waiting:
            time.sleep(pause)


def read(message: FlowerMessage) -> Answer:
    """The parts of an answer; the one part `lost` where something went wrong on its way."""
    if message.has_error():
        return {"lost": f"Flower's error {message.error.code}".encode()}
    try:
        return unpack(message)[1]
    except CotempoError as error:
        return {"lost": str(error).encode()}
