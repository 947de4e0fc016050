"""ASGI middleware around Flower's SuperLink: a limit of size, the operator's secret, and polls that wait.

Flower serves sites and operators on one port and authenticates sites only, so operators show a secret of ours. And it
answers every poll at once, so that processes that wait for each other ask hundreds of times a second or wait in vain.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cotempo.engines.flower.wire import WAIT

SITE_PATHS = "/v1/fleet/"
MOST_BODY = 2**25  # bytes of one request; large parts are sent in chunks of 4 MB
OPERATOR = "x-cotempo-operator"
CHANGES = {  # what is polled for, and the requests that may bring it
    "/v1/fleet/pull-messages": ("/v1/runtime/push-messages",),
    "/v1/runtime/pull-messages": ("/v1/fleet/push-object", "/v1/fleet/deactivate-node"),
}
COMES_OR_GOES = ("/v1/fleet/activate-node", "/v1/fleet/deactivate-node")
LONGEST_WAIT = 20


class BodyTooLarge(Exception):  # noqa: N818 - it says what happened
    """A request sent more than it announced or may."""


@dataclass(frozen=True)
class BodyLimit:
    """ASGI middleware that refuses large requests before anybody is authenticated or anything is stored."""

    app: Any
    most: int = MOST_BODY

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        received, has_answered = 0, False

        async def counted() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.most:
                raise BodyTooLarge
            return message

        async def noted(message: Any) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        announced = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if not announced.isdigit() or int(announced) > self.most:
                raise BodyTooLarge
            await self.app(scope, counted, noted)
        except BodyTooLarge:
            if not has_answered:
                await send({"type": "http.response.start", "status": 413, "headers": []})
                await send({"type": "http.response.body", "body": b"too large"})


@dataclass(frozen=True)
class OperatorAuth:
    """ASGI middleware that demands the operator's secret on every path that is not for sites."""

    app: Any
    secret: bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and not scope["path"].startswith(SITE_PATHS):
            given = dict(scope["headers"]).get(OPERATOR.encode(), b"")
            if not hmac.compare_digest(given, self.secret):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b"operators only"})
                return
        await self.app(scope, receive, send)


@dataclass(frozen=True)
class LongPoll:
    """ASGI middleware that holds a poll which finds nothing until there is something, for as long as the poller says.

    A message is announced once, so none may be fetched for a poller that is gone: one that hung up, or whose next
    request has come by another connection.
    """

    app: Any
    changed: dict[str, asyncio.Event] = field(default_factory=lambda: {path: asyncio.Event() for path in CHANGES})
    latest: dict[bytes, object] = field(default_factory=dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and tell those who wait for it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, path = dict(scope["headers"]), scope["path"]
        poller = headers.get(b"flwr-public-key") or headers.get(b"flwr-task-token") or b""
        if path in CHANGES and WAIT.encode() in headers:
            wait = headers[WAIT.encode()]
            await self._poll(scope, receive, send, poller, min(int(wait) if wait.isdigit() else 0, LONGEST_WAIT))
            return

        async def noted(message: Any) -> None:
            if message.get("status") == 200 and path in COMES_OR_GOES:  # so it is known who it is
                self.latest[poller] = message
            await send(message)

        await self.app(scope, receive, noted)
        for polled, changes in CHANGES.items():
            if path in changes:
                event, self.changed[polled] = self.changed[polled], asyncio.Event()
                event.set()

    async def _poll(self, scope: Any, receive: Any, send: Any, poller: bytes, seconds: float) -> None:
        """Ask until the answer is not empty, the time is over or the poller is gone."""
        body, is_whole = b"", False
        while not is_whole:
            message = await receive()
            body += message.get("body", b"")
            is_whole = not message.get("more_body", False)
        gone = asyncio.ensure_future(receive())
        clock, request = asyncio.get_running_loop().time, object()
        until = clock() + seconds
        try:
            while True:
                event, answer = self.changed[scope["path"]], list[Any]()
                await self.app(scope, _replay(body), _collect(answer))
                if any(part.get("body") for part in answer) or answer[0]["status"] != 200:
                    break
                self.latest[poller] = request
                change = asyncio.ensure_future(event.wait())
                await asyncio.wait({change, gone}, timeout=until - clock(), return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if not event.is_set() or gone.done() or self.latest[poller] is not request:
                    break
            for part in answer:
                await send(part)
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


def _replay(body: bytes) -> Any:
    """Return what receives a request that was received before."""
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _collect(parts: list[Any]) -> Any:
    """Return what keeps the parts of a response."""

    async def send(part: Any) -> None:
        parts.append(part)

    return send
