"""Polls are held until there is something, and nothing is fetched for a poller that is gone."""

from __future__ import annotations

import asyncio
from typing import Any

from cotempo.engines.flower.coordinator.middleware import LongPoll
from cotempo.engines.flower.wire import WAIT

PULL, PUSH = "/v1/fleet/pull-messages", "/v1/runtime/push-messages"


class Mailbox:
    """A server that hands out each message once."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.polls = asyncio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        found = b""
        if scope["path"] == PUSH:
            self.messages.append(body)
        elif self.messages and scope["path"] == PULL:
            found = self.messages.pop(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": found})
        if scope["path"] == PULL:
            self.polls.release()


class Caller:
    """One connection to it."""

    def __init__(self, app: Any, site: bytes = b"ash"):
        self.app, self.site = app, site
        self.hung_up = asyncio.Event()

    async def call(self, path: str, body: bytes = b"", wait: int | None = None) -> bytes:
        sent, received = False, b""

        async def receive() -> Any:
            nonlocal sent
            if sent:
                await self.hung_up.wait()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": body}

        async def send(part: Any) -> None:
            nonlocal received
            received += part.get("body", b"")

        headers = [
            (b"flwr-public-key", self.site),
            *([(WAIT.encode(), str(wait).encode())] if wait is not None else []),
        ]
        await self.app({"type": "http", "path": path, "headers": headers}, receive, send)
        return received


def test_a_poll_is_answered_when_a_message_comes() -> None:
    async def run() -> bytes:
        box = Mailbox()
        app = LongPoll(box)
        poll = asyncio.ensure_future(Caller(app).call(PULL, wait=20))
        await box.polls.acquire()
        assert not poll.done()
        await Caller(app, b"coordinator").call(PUSH, b"question")
        return await asyncio.wait_for(poll, 10)

    assert asyncio.run(run()) == b"question"


def test_a_poll_that_does_not_say_how_long_is_answered_at_once() -> None:
    async def run() -> list[bytes]:
        app = LongPoll(Mailbox())
        return [await asyncio.wait_for(Caller(app).call(PULL, wait=wait), 10) for wait in (None, 0)]

    assert asyncio.run(run()) == [b"", b""]


def test_no_message_is_fetched_for_who_hung_up_or_has_come_again() -> None:
    async def run() -> list[bytes]:
        box = Mailbox()
        app = LongPoll(box)
        first, second, third = Caller(app), Caller(app), Caller(app)
        polls = [asyncio.ensure_future(first.call(PULL, wait=20))]
        await box.polls.acquire()
        first.hung_up.set()
        await asyncio.wait_for(polls[0], 10)
        for caller in (second, third):  # the connection of the second is dead, but nobody knows
            polls.append(asyncio.ensure_future(caller.call(PULL, wait=20)))
            await box.polls.acquire()
        await Caller(app, b"coordinator").call(PUSH, b"question")
        return [await asyncio.wait_for(poll, 10) for poll in polls]

    assert asyncio.run(run()) == [b"", b"", b"question"]


def test_no_message_is_fetched_for_who_has_signed_off_by_another_connection() -> None:
    async def run() -> tuple[bytes, list[bytes]]:
        box = Mailbox()
        app = LongPoll(box)
        poll = asyncio.ensure_future(Caller(app).call(PULL, wait=20))
        await box.polls.acquire()
        await Caller(app).call("/v1/fleet/deactivate-node")
        await Caller(app, b"coordinator").call(PUSH, b"question")
        return await asyncio.wait_for(poll, 10), box.messages

    assert asyncio.run(run()) == (b"", [b"question"])
