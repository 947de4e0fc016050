"""`Meetings`: at the server, sites that answer the same exchange hear each other's words and answer once more, unasked.

The secure sum asks twice in a step: for masked messages, then, once all have come, for shares. The second question says
nothing but which sites signed that all survive, and the server sees these signatures before the coordinator does. So a
site shows its signature, its *word*, with the last request of its answer. Flower authenticates and stores that answer
as ever; then the response is held until the words of all have come, and tells them. With them the site can answer the
second question, which it leaves here for the coordinator. That saves an exchange through Flower, its database and the
coordinator.

Nobody needs to trust this place: a site checks the words it hears as it checks those of the coordinator, and goes by
the same rules. What is lost here, in a restart of the server or because somebody is late, is asked for as ever. All
stays in memory, for a minute at most.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cotempo.engines.flower.coordinator.heard import KEY
from cotempo.engines.flower.wire import ABSENT, COLLECT, FOLLOW_UP, MEETING, MOST_SITES, SEAT, WORDS

HELD_SECONDS = 5.0  # for a site that takes longer an exchange more is a small part of its step
KEPT_SECONDS = 60.0
LONGEST_WORD = 1024
MOST_ANSWER = 2**20


@dataclass
class _Meeting:
    """Those who answer one exchange: what each said, and what each answered once it had heard all."""

    count: int
    until: float
    words: dict[bytes, str] = field(default_factory=dict)
    seats: dict[str, bytes] = field(default_factory=dict)
    answers: dict[bytes, bytes] = field(default_factory=dict)
    has_met: asyncio.Event = field(default_factory=asyncio.Event)
    has_answered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_complete(self) -> bool:
        return len(self.words) == self.count and ABSENT not in self.words.values()

    def say(self, site: bytes, word: str) -> str:
        """Note a site's word, and return its seat."""
        self.words[site] = word
        if word == ABSENT or len(self.words) == self.count:
            self.has_met.set()
        seat = secrets.token_hex(16)
        self.seats[seat] = site
        return seat

    def answer(self, seat: str, content: bytes) -> None:
        self.answers[self.seats.pop(seat)] = content
        if len(self.answers) == self.count:
            self.has_answered.set()


class Meetings:
    """ASGI middleware; inside of what authenticates operators, outside of what wakes held polls."""

    def __init__(self, app: Any, held_seconds: float = HELD_SECONDS):
        self.app = app
        self.held_seconds = held_seconds
        self._meetings: dict[str, _Meeting] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer one of a meeting."""
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"] == f"/v1/{COLLECT}":
            await _respond(send, 200, await self._collect(_text(headers, MEETING)))
        elif scope["path"] == f"/v1/{FOLLOW_UP}":
            await _respond(send, 200 if await self._follow_up(_text(headers, SEAT), receive) else 404)
        elif said := _read(_text(headers, MEETING)):
            await self._meet(scope, receive, send, said)
        else:
            await self.app(scope, receive, send)

    async def _meet(self, scope: Any, receive: Any, send: Any, said: tuple[str, int, str]) -> None:
        """Let Flower take an answer; if it does, hold the response until all have said their word, and add these."""
        parts: list[Any] = []

        async def keep(part: Any) -> None:
            parts.append(part)

        await self.app(scope, receive, keep)
        site = dict(scope["headers"]).get(KEY, b"")
        if parts and parts[0].get("status") == 200 and site and (meeting := self._find(said[0], said[1])):
            seat = meeting.say(site, said[2])
            try:
                await asyncio.wait_for(meeting.has_met.wait(), self.held_seconds)
            except TimeoutError:
                meeting.say(site, ABSENT)  # it does not wait any longer, so that nobody needs to wait for it
            if meeting.is_complete:
                heard = [(SEAT.encode(), seat.encode()), (WORDS.encode(), " ".join(meeting.words.values()).encode())]
                parts[0] = {**parts[0], "headers": [*parts[0].get("headers", ()), *heard]}
        for part in parts:
            await send(part)

    async def _follow_up(self, seat: str, receive: Any) -> bool:
        """Keep what a site answers after a meeting; return whether its seat is known and the answer not too large."""
        meeting = next((meeting for meeting in self._meetings.values() if seat in meeting.seats), None)
        content, is_whole = b"", meeting is None  # of a stranger nothing is read
        while not is_whole and len(content) <= MOST_ANSWER:
            message = await receive()
            content += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        if meeting is None or len(content) > MOST_ANSWER or seat not in meeting.seats:
            return False
        meeting.answer(seat, content)
        return True

    async def _collect(self, name: str) -> bytes:
        """Return, for the coordinator, what sites answered after a meeting, by their keys; wait for all if they met."""
        meeting = self._meetings.get(name)
        if meeting is None:
            return b"{}"
        if meeting.is_complete:
            with suppress(TimeoutError):
                await asyncio.wait_for(meeting.has_answered.wait(), self.held_seconds)
        self._meetings.pop(name, None)
        found = {site.decode("ascii"): b64encode(answer).decode() for site, answer in meeting.answers.items()}
        return json.dumps(found).encode()

    def _find(self, name: str, count: int) -> _Meeting | None:
        """Return a meeting, a new one if there is none; drop those that nobody collected."""
        now = asyncio.get_running_loop().time()
        self._meetings = {key: meeting for key, meeting in self._meetings.items() if meeting.until > now}
        meeting = self._meetings.setdefault(name, _Meeting(count, now + KEPT_SECONDS))
        return meeting if meeting.count == count else None


def _text(headers: dict[bytes, bytes], name: str) -> str:
    return headers.get(name.encode(), b"").decode("ascii", "replace")


def _read(header: str) -> tuple[str, int, str] | None:
    """Return the name of a meeting, of how many sites it is, and the word of one."""
    name, _, rest = header.partition(" ")
    count, _, word = rest.partition(" ")
    if not (0 < len(name) <= 64 and count.isdigit() and 0 < len(word) <= LONGEST_WORD and int(count) <= MOST_SITES):
        return None
    return name, int(count), word


async def _respond(send: Any, status: int, body: bytes = b"") -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
