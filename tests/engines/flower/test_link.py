"""A site's worker against a server that breaks, refuses and forgets: it comes back, and is asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from paper_consortium import PaperConsortium

import cotempo as ct
from cotempo.engines.flower import protocol
from cotempo.engines.flower.patches import wire_type
from cotempo.engines.flower.protocol import Envelope, Part, Verb
from cotempo.engines.flower.site import link as link_module
from cotempo.engines.flower.site import worker
from cotempo.engines.flower.site.link import Asked, SiteLink
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.wire import CALLS, MEETING, SEAT, WORDS, Sealer, Wire, unseal

QUESTION = {"run_id": 5, "src_node_id": 1, "dst_node_id": 7, "message_type": "query", "created_at": 9.0, "ttl": 60.0}


class FakeServer:
    """Flower's fleet interface, with one question."""

    def __init__(self, envelope: Envelope):
        self.sealer = Sealer()
        self.sealed = self.sealer.seal(QUESTION, envelope)
        self.calls: list[str] = []
        self.answers: list[Any] = []
        self.received: dict[str, bytes] = {}
        self.upload_after = 0  # looks for an object that find nothing
        self.failing: dict[str, Callable[[], None]] = {}
        self.shown: dict[str, str] = {}  # headers of the last request of an answer, and of its response
        self.heard = httpx.Headers()
        self.left: list[tuple[str, bytes]] = []  # with the seat, after a meeting

    def call(self, path: str, wait: float = 0.0, **fields: Any) -> Any:
        self.calls.append(path)
        if path in self.failing:
            self.failing.pop(path)()
        made = wire_type(CALLS[path][1])()
        if path == "fleet/activate-node":
            made.node_id = 7
        elif path == "fleet/pull-messages":
            made.messages_list.append(wire_type("Message")(metadata={**QUESTION, "message_id": self.sealed.id}))
            made.message_object_trees.append(self.sealed.tree)
        elif path == "fleet/pull-object":
            made.object_found, made.object_available = True, self.upload_after == 0
            made.object_content = self.sealer.objects[fields["object_id"]] if self.upload_after == 0 else b""
            self.upload_after = max(0, self.upload_after - 1)
        elif path == "fleet/push-messages":
            self.answers += fields["messages_list"]
            made.objects_to_push.append(fields["message_object_trees"][0].object_id)
        elif path == "fleet/push-object":
            self.received[fields["object_id"]] = fields["object_content"]
            made.stored = True
        return made

    def call_with(self, path: str, headers: Mapping[str, str], /, **fields: Any) -> tuple[Any, httpx.Headers]:
        self.shown.update(headers)
        return self.call(path, **fields), self.heard

    def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> httpx.Response:
        self.calls.append(path)
        self.left.append((headers[SEAT], content))
        return httpx.Response(200)


def refuse(status: int) -> Callable[[], None]:
    def fail() -> None:
        request = httpx.Request("POST", "https://server")
        raise httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request))

    return fail


def cut() -> None:
    raise httpx.ConnectError("cut")


@pytest.fixture
def service(tmp_path: Path, tables: dict[str, ct.Series]) -> SiteService:
    table = tables["ash"]
    return PaperConsortium(tmp_path, ("ash", "birch")).service("ash", table, methods=("FedMean",))


def join(service: SiteService, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> SiteLink:
    (service.home.parent / "site.toml").write_text('name = "ash"\n')
    (service.home.parent / "ca.crt").write_text("")
    monkeypatch.setattr(link_module, "Wire", lambda *_: server)
    monkeypatch.setattr(link_module.time, "sleep", lambda seconds: None)
    link = SiteLink("server:1", service.home.parent)
    link.join()
    return link


def ask(service: SiteService, server: FakeServer, link: SiteLink) -> Envelope | None:
    asked = link.pull()
    assert isinstance(asked, Asked)
    worker.answer_message(service, link, asked)
    if not server.answers:
        return None
    (answer,) = server.answers
    assert answer.metadata.reply_to_message_id == server.sealed.id
    assert (answer.metadata.created_at, answer.metadata.ttl) == (QUESTION["created_at"], QUESTION["ttl"])
    return unseal(answer.metadata.message_id, server.received)


def test_a_question_is_answered_once_its_content_has_arrived(
    service: SiteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(Envelope.write(Verb.AGREE, {}))
    server.upload_after = 3
    answer = ask(service, server, join(service, server, monkeypatch))
    assert answer is not None
    assert answer.verb == Verb.ANSWER
    assert Part.FAILED in answer.parts  # it has no parts, but it was read
    assert server.calls.count("fleet/pull-object") == 4


@pytest.mark.parametrize("has_met", [True, False])
def test_a_site_says_its_word_with_its_answer_and_answers_those_it_hears(
    service: SiteService, monkeypatch: pytest.MonkeyPatch, has_met: bool
) -> None:
    server = FakeServer(Envelope.write(Verb.AGREE, {}))
    server.heard = httpx.Headers({SEAT: "here", WORDS: "A B"} if has_met else {})

    def answer(service: SiteService, asked: Envelope) -> Envelope:
        vars(service)["meeting"] = SimpleNamespace(header="m 2 A")
        return Envelope.write(Verb.ANSWER, {})

    monkeypatch.setattr(worker, "answer", answer)
    monkeypatch.setattr(service, "answer_met", lambda meeting, words: f"{meeting.header}: {words}".encode())
    assert ask(service, server, join(service, server, monkeypatch)) is not None
    assert server.shown == {MEETING: "m 2 A"}
    assert server.left == ([("here", b"m 2 A: ['A', 'B']")] if has_met else [])


@pytest.mark.parametrize("path", ["fleet/pull-object", "fleet/confirm-message-received", "fleet/push-messages"])
def test_a_run_that_is_over_is_forgotten(service: SiteService, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    server = FakeServer(Envelope.write(Verb.AGREE, {}))
    link = join(service, server, monkeypatch)
    server.failing[path] = refuse(403)
    assert ask(service, server, link) is None
    assert ask(service, server, link) is not None


@pytest.mark.parametrize("path", ["fleet/pull-object", "fleet/confirm-message-received", "fleet/push-object"])
@pytest.mark.parametrize("fail", [cut, refuse(500)])
def test_a_connection_that_breaks_under_a_message_makes_the_site_sign_off_and_on(
    service: SiteService, monkeypatch: pytest.MonkeyPatch, path: str, fail: Callable[[], None]
) -> None:
    """The server must notice, or it would wait for an answer that got lost."""
    server = FakeServer(Envelope.write(Verb.AGREE, {}))
    link = join(service, server, monkeypatch)
    server.failing[path] = fail
    with pytest.raises(httpx.HTTPError) as broken:
        worker.serve(service, link)
    assert link_module.is_passing(broken.value)
    server.failing["fleet/deactivate-node"] = cut
    link.rejoin()
    assert server.calls[-3:] == ["fleet/deactivate-node", "fleet/deactivate-node", "fleet/activate-node"]


def test_no_heartbeat_says_that_a_site_is_there_while_it_signs_off(
    service: SiteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(Envelope.write(Verb.AGREE, {}))
    link = join(service, server, monkeypatch)
    link.beat()
    link.leave()
    link.beat()
    assert server.calls.count("fleet/send-node-heartbeat") == 1


def test_a_key_that_is_taken_off_the_list_ends_the_worker(
    service: SiteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(Envelope.write(Verb.AGREE, {}))
    link = join(service, server, monkeypatch)
    server.failing["fleet/activate-node"] = refuse(401)
    with pytest.raises(httpx.HTTPStatusError):
        link.rejoin()


@pytest.mark.parametrize(("theirs", "words"), [((5, 6), "upgrade cotempo here"), ((1, 2), "at the coordinator")])
def test_a_coordinator_too_new_or_too_old_is_told_so(
    service: SiteService, monkeypatch: pytest.MonkeyPatch, theirs: tuple[int, int], words: str
) -> None:
    monkeypatch.setattr(protocol, "SPEAKS", (3, 4))
    server = FakeServer(Envelope(Verb.JOIN, {}, theirs[0], theirs))
    answer = ask(service, server, join(service, server, monkeypatch))
    assert answer is not None
    assert words in answer.parts[Part.REFUSED].decode()


def test_an_answer_is_in_the_version_of_its_question(service: SiteService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "SPEAKS", (3, 4))
    server = FakeServer(Envelope(Verb.AGREE, {}, 3, (2, 3)))
    answer = ask(service, server, join(service, server, monkeypatch))
    assert answer is not None
    assert (answer.version, answer.speaks) == (3, (3, 4))


def test_a_request_is_repeated_until_the_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from cotempo.engines.flower import wire as wire_module

    clock, tries = [0.0], []

    def post(*_: Any, **__: Any) -> httpx.Response:
        tries.append(clock[0])
        request = httpx.Request("POST", "https://server")
        if len(tries) == 1:
            raise httpx.ConnectError("away")
        return httpx.Response(503, request=request)

    monkeypatch.setattr(wire_module.ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
    monkeypatch.setattr(wire_module.httpx, "Client", lambda **_: SimpleNamespace(post=post))
    sleep = SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr(wire_module, "time", sleep)
    with pytest.raises(httpx.HTTPStatusError):
        Wire("server:1", b"", dict, patience=10.0).call("runtime/get-nodes")
    assert len(tries) > 3
    assert 10.0 < tries[-1] < 16.0
