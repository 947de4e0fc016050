"""Sites hear each other's words once all have answered, and never of one whose answer was not taken."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from cotempo.engines.flower.coordinator.meetings import LONGEST_WORD, Meetings
from cotempo.engines.flower.coordinator.middleware import OPERATOR, OperatorAuth
from cotempo.engines.flower.wire import ABSENT, COLLECT, FOLLOW_UP, MEETING, MOST_SITES, SEAT, WORDS

PUSH = "fleet/push-object"
Caller = Callable[..., Awaitable[tuple[int, dict[str, str], bytes]]]


def caller(refused: Sequence[bytes] = (), held_seconds: float = 10.0) -> Caller:
    """A server behind its meetings, which refuses the answers of some sites."""

    async def flower(scope: Any, receive: Any, send: Any) -> None:
        status = 401 if dict(scope["headers"])[b"flwr-public-key"] in refused else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"date", b"today")]})
        await send({"type": "http.response.body", "body": b"stored"})

    app = OperatorAuth(Meetings(flower, held_seconds), b"secret")

    async def call(path: str, site: str = "", body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        sent: list[Any] = []
        shown = [(f"x-cotempo-{name}".encode(), value.encode()) for name, value in headers.items()]

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(part: Any) -> None:
            sent.append(part)

        key = [(b"flwr-public-key", site.encode())] if site else []
        await app({"type": "http", "path": f"/v1/{path}", "headers": [*key, *shown]}, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], found, sent[1]["body"]

    return call


async def meet(call: Caller, *words: str, name: str = "m", count: int = 3) -> list[dict[str, str]]:
    sites = ("ash", "birch", "cedar")
    said = [call(PUSH, site, meeting=f"{name} {count} {word}") for site, word in zip(sites, words, strict=False)]
    answers = await asyncio.gather(*said)
    assert all(body == b"stored" and "date" in headers for _, headers, body in answers)  # Flower's own
    return [headers for _, headers, _ in answers]


def test_all_hear_all_and_the_operator_gets_what_they_answer() -> None:
    async def run() -> None:
        call = caller()
        heard = await meet(call, "A", "B", "C")
        assert [headers[WORDS] for headers in heard] == ["A B C"] * 3
        assert len({headers[SEAT] for headers in heard}) == 3
        collecting = asyncio.ensure_future(call(COLLECT, operator="secret", meeting="m"))
        for headers, answer in zip(heard, (b"a", b"b", b"c"), strict=True):
            assert not collecting.done()
            assert (await call(FOLLOW_UP, body=answer, seat=headers[SEAT]))[0] == 200
        found = json.loads((await asyncio.wait_for(collecting, 5))[2])
        assert {site: b64decode(answer) for site, answer in found.items()} == {
            "ash": b"a",
            "birch": b"b",
            "cedar": b"c",
        }
        assert (await call(COLLECT, operator="secret", meeting="m"))[2] == b"{}"  # it is over

    asyncio.run(run())


def test_only_an_operator_collects_and_only_who_met_answers() -> None:
    async def run() -> None:
        call = caller()
        heard = await meet(call, "A", "B", "C")
        assert (await call(COLLECT, "ash", meeting="m"))[0] == 403
        seat = heard[0][SEAT]
        assert (await call(FOLLOW_UP, body=b"a", seat=seat))[0] == 200
        for other in (seat, "0" * 32, ""):  # a seat is for one answer
            assert (await call(FOLLOW_UP, body=b"b", seat=other))[0] == 404
        assert (await call(FOLLOW_UP, body=bytes(2**20 + 1), seat=heard[1][SEAT]))[0] == 404

    assert OPERATOR == "x-cotempo-operator"
    asyncio.run(run())


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("A", "B"), ()),  # one never comes
        (("A", "B", ABSENT), ()),  # one says that it will not
        (("A", "B", "C"), (b"cedar",)),  # one is not taken for who it says
    ],
)
def test_unless_all_have_answered_nobody_hears_anything(words: tuple[str, ...], refused: tuple[bytes, ...]) -> None:
    async def run() -> None:
        call = caller(refused, held_seconds=0.1)
        heard = await meet(call, *words)
        assert not any(WORDS in headers or SEAT in headers for headers in heard)
        assert (await call(COLLECT, operator="secret", meeting="m"))[2] == b"{}"

    asyncio.run(run())


def test_one_that_comes_after_the_others_have_gone_is_not_kept_waiting() -> None:
    async def run() -> None:
        call = caller(held_seconds=0.1)
        await meet(call, "A", "B")
        _, headers, _ = await asyncio.wait_for(call(PUSH, "cedar", meeting="m 3 C"), 5)
        assert WORDS not in headers

    asyncio.run(run())


@pytest.mark.parametrize(
    "header", ["m", "m 3", f"m {MOST_SITES + 1} A", f"m 3 {'A' * (LONGEST_WORD + 1)}", f"{'m' * 65} 3 A", "m -3 A"]
)
def test_a_header_that_is_none_is_passed_over(header: str) -> None:
    async def run() -> None:
        status, headers, body = await caller()(PUSH, "ash", meeting=header)
        assert (status, WORDS in headers, body) == (200, False, b"stored")

    assert MEETING == "x-cotempo-meeting"
    asyncio.run(run())


def test_another_count_is_another_meeting() -> None:
    async def run() -> None:
        call = caller(held_seconds=0.1)
        first = asyncio.ensure_future(call(PUSH, "ash", meeting="m 2 A"))
        await asyncio.sleep(0)
        _, headers, _ = await call(PUSH, "birch", meeting="m 1 B")
        assert WORDS not in headers
        assert WORDS not in (await first)[1]

    asyncio.run(run())
