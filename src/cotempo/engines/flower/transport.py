"""`send`: one exchange on Flower's grid; `pack` and `unpack`: a verb and its parts as the content of a Flower message.

Small parts travel in one record, because Flower fetches every object of a message by its own request, at each of three
hops. Large parts travel as Flower arrays, which are cut into chunks and stored by content: what all clients share is
uploaded once, and hundreds of megabytes pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode

from cotempo.engines.flower.patches import poll_contents_faster
from cotempo.engines.flower.processes import Backoff
from cotempo.engines.flower.protocol import Part, Parts, Verb
from cotempo.errors import EngineError, MessageError

if TYPE_CHECKING:
    from flwr.serverapp import Grid

VERSION = 3
SMALL = 2**16
POLL_SECONDS = 0.05, 1.0  # between two polls for answers, at first and at most
POLL_SECONDS_EACH = 1e-4  # minimum sleep per outstanding answer: polling cost grows with their number
RETRY_SECONDS, AWAY_SECONDS = 0.5, 120.0  # until an unreachable node is asked again, and until it is given up
AWAY_CODES = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)

poll_contents_faster()


def pack(verb: Verb, parts: Parts) -> RecordDict:
    """Return the content of a Flower message."""
    small = {str(name): data for name, data in parts.items() if len(data) <= SMALL}
    large = {str(name): data for name, data in parts.items() if len(data) > SMALL}
    records = RecordDict({"small": ConfigRecord({"verb": str(verb), "version": VERSION, **small})})
    if large:
        arrays = {name: Array("uint8", (len(data),), "cotempo", data) for name, data in large.items()}
        records["large"] = ArrayRecord(arrays)
    return records


def unpack(message: Message) -> tuple[Verb, Parts]:
    """Read what `pack` made; raise `MessageError` for anything else, also for a message that failed on its way."""
    if message.has_error():
        raise MessageError(f"Flower's error {message.error.code}")
    try:
        small = message.content["small"]
        version, verb = small["version"], Verb(str(small["verb"]))
        parts = {Part(name): part for name, part in small.items() if isinstance(part, bytes)}
        large = message.content.get("large", ArrayRecord())
        parts |= {Part(name): array.data for name, array in large.items() if isinstance(array, Array)}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MessageError(f"a message must have a verb, a version and parts: {type(error).__name__}") from error
    if version != VERSION:
        raise MessageError(f"the protocol's version must be {VERSION}, got {version!r}; install the same cotempo")
    return verb, parts


def send(
    grid: Grid, verb: Verb, parts: Mapping[int, Parts], deadline: float, check_alive: Callable[[], None] = lambda: None
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
        if ready := [node for node in due if due[node] <= now]:
            left = began + deadline - now
            messages = [Message(pack(verb, parts[node]), node, "query", ttl=left) for node in ready]
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
                yield node, _parts_or_lost(message)
        if answers:
            polls.reset()
        if due or waiting:
            time.sleep(max(polls.next(), POLL_SECONDS_EACH * len(waiting)))


def _parts_or_lost(message: Message) -> Parts:
    try:
        return unpack(message)[1]
    except MessageError as error:
        return {Part.LOST: str(error).encode()}


@contextmanager
def translate_http_errors(address: str) -> Iterator[None]:
    """Raise `EngineError` in place of any error of a request to the server."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        why = "the operator's secret is not this server's" if code == 403 else error.response.text[:300]
        raise EngineError(f"the server at {address} refuses ({code}): {why}") from error
    except httpx.HTTPError as error:
        raise EngineError(
            f"the server at {address} must be running and reachable, it is not: {error}; see cotempo server status, "
            "and resume the run once it is back"
        ) from error
