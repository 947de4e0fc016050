"""`Wire`: Flower's interface for its own processes, protobuf over HTTPS; `Sealer` and `unseal`: messages on it.

Flower stores a message as objects, each under the SHA-256 of its bytes: the message itself and, below it, chunks of its
large parts. A message is announced with the tree of its objects, then the server asks for those it does not have; so
what all clients are sent is uploaded once.

No version of flwr is announced: servers refuse those of another version than theirs, though they speak the same wire.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx

from cotempo.engines.flower.patches import wire_type
from cotempo.engines.flower.processes import Backoff
from cotempo.engines.flower.protocol import Envelope, Part, Verb
from cotempo.errors import EngineError, MessageError

CALLS = {  # what is asked and what comes back, by path
    "control/list-nodes": ("ListNodesRequest", "ListNodesResponse"),
    "control/register-node": ("RegisterNodeRequest", "RegisterNodeResponse"),
    "control/unregister-node": ("UnregisterNodeRequest", "UnregisterNodeResponse"),
    "control/start-run": ("StartRunRequest", "StartRunResponse"),
    "control/stop-run": ("StopRunRequest", "StopRunResponse"),
    "runtime/acquire-task": ("AcquireTaskRequest", "AcquireTaskResponse"),
    "runtime/pull-task-input": ("PullTaskInputRequest", "PullTaskInputResponse"),
    "runtime/push-task-output": ("PushTaskOutputRequest", "PushTaskOutputResponse"),
    "runtime/send-task-heartbeat": ("SendTaskHeartbeatRequest", "SendTaskHeartbeatResponse"),
    "runtime/get-nodes": ("GetNodesRequest", "GetNodesResponse"),
    "runtime/push-messages": ("PushAppMessagesRequest", "PushAppMessagesResponse"),
    "runtime/pull-messages": ("PullAppMessagesRequest", "PullAppMessagesResponse"),
    "fleet/activate-node": ("ActivateNodeRequest", "ActivateNodeResponse"),
    "fleet/deactivate-node": ("DeactivateNodeRequest", "DeactivateNodeResponse"),
    "fleet/send-node-heartbeat": ("SendNodeHeartbeatRequest", "SendNodeHeartbeatResponse"),
    "fleet/push-messages": ("PushMessagesRequest", "PushMessagesResponse"),
    "fleet/pull-messages": ("PullMessagesRequest", "PullMessagesResponse"),
    **{
        f"{side}/{call}": (f"{name}Request", f"{name}Response")
        for side in ("runtime", "fleet")
        for call, name in (
            ("push-object", "PushObject"),
            ("pull-object", "PullObject"),
            ("confirm-message-received", "ConfirmMessageReceived"),
        )
    },
}
SERVER_NODE = 1  # Flower's number of the server among the nodes
SMALL, CHUNK = 2**16, 2**22  # bytes of the largest part that travels inside the message, and of a piece of others
CALL_SECONDS = 30.0
BUSY = (502, 503, 504)
RECORD = "cotempo"
CONTENT = {"content-type": "application/protobuf", "accept": "application/protobuf"}
WAIT = "x-cotempo-wait"  # the seconds a poll may be held
# What `coordinator.meetings` is told, and tells: a meeting with a word; all words, and where to leave an answer.
MEETING, WORDS, SEAT = "x-cotempo-meeting", "x-cotempo-words", "x-cotempo-seat"
FOLLOW_UP, COLLECT = "fleet/follow-up", "runtime/meeting"  # paths of ours, beside Flower's
ABSENT = "-"  # the word of a site that will not answer
MOST_SITES = 64  # whose words fit into the headers of a response


class Wire:
    """A connection to the server, with what `headers` returns on every request.

    Requests that do not get through are repeated for `patience` seconds.
    """

    def __init__(
        self, address: str, authority: bytes, headers: Callable[[], Mapping[str, str]], *, patience: float = 0.0
    ):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.decode("ascii"))
        self.address, self.patience = address, patience
        self._headers = headers
        self._client = httpx.Client(base_url=f"https://{address}", verify=context, timeout=CALL_SECONDS)

    def call(self, path: str, /, wait: float = 0.0, **fields: Any) -> Any:
        """Make a request of Flower's; raise `httpx.HTTPError` if it is refused or does not get through.

        Polls may be held by the server for `wait` seconds if there is nothing yet.
        """
        return self.call_with(path, {WAIT: f"{wait:.0f}"} if wait else {}, **fields)[0]

    def call_with(self, path: str, headers: Mapping[str, str], /, **fields: Any) -> tuple[Any, httpx.Headers]:
        """Make a request of Flower's with more headers; return also those of the response."""
        asked, answered = CALLS[path]
        response = self.post(path, wire_type(asked)(**fields).SerializeToString(), headers)
        return wire_type(answered).FromString(response.content), response.headers

    def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Make a request with more headers; raise as `call` does."""
        until, pauses = time.monotonic() + self.patience, Backoff(0.2, 5.0)
        while True:
            shown = {**CONTENT, **headers, **self._headers()}
            try:
                response = self._client.post(f"/v1/{path}", content=content, headers=shown)
                # The stream it came by holds it in turn: each request would stay in memory until a full collection.
                response.stream = httpx.ByteStream(response.content)
                if response.status_code not in BUSY or time.monotonic() > until:
                    break
            except httpx.TransportError:
                if time.monotonic() > until:
                    raise
            time.sleep(pauses.next())
        response.raise_for_status()
        return response

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Sealed(NamedTuple):
    """A message that can be announced."""

    id: str
    message: Any
    tree: Any


class Sealer:
    """Seal messages that are announced together; `objects` are the bytes of all their objects."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self._cut: dict[int, list[str]] = {}  # the chunks of a part, by the identity of its bytes

    def seal(self, metadata: Mapping[str, Any], envelope: Envelope) -> Sealed:
        """Seal a message."""
        small = {str(name): {"bytes": data} for name, data in envelope.parts.items() if len(data) <= SMALL}
        chunks = {name: self._chunks(data) for name, data in envelope.parts.items() if len(data) > SMALL}
        large = {str(name): {"string_list": {"vals": ids}} for name, ids in chunks.items()}
        header = {name: {"sint64": number} for name, number in envelope.numbers.items()}
        values = {"verb": {"string": str(envelope.verb)}, **header, **small, **large}
        record = {"items": [{"key": key, "value": value} for key, value in values.items()]}
        content = {"items": [{"key": RECORD, "config_record": record}]}
        children = list(dict.fromkeys(object_id for ids in chunks.values() for object_id in ids))
        body = wire_type("Message")(metadata=metadata, content=content).SerializeToString(deterministic=True)
        root = self._add("Message", children, body)
        announced = wire_type("Message")(metadata={**metadata, "message_id": root})
        announced.content.SetInParent()
        tree = {"object_id": root, "children": [{"object_id": child} for child in children]}
        return Sealed(root, announced, wire_type("ObjectTree")(**tree))

    def _chunks(self, data: bytes) -> list[str]:
        if id(data) not in self._cut:
            view = memoryview(data)
            self._cut[id(data)] = [
                self._add("ArrayChunk", [], view[start : start + CHUNK]) for start in range(0, len(data), CHUNK)
            ]
        return self._cut[id(data)]

    def _add(self, kind: str, children: Sequence[str], body: bytes | memoryview) -> str:
        content = b"".join([f"{kind} {','.join(children)} {len(body)}".encode(), b"\0", body])
        object_id = hashlib.sha256(content).hexdigest()
        self.objects[object_id] = content
        return object_id


def unseal(message_id: str, objects: Mapping[str, bytes]) -> Envelope:
    """Read a sealed message; raise `MessageError` for anything else."""
    try:
        message = wire_type("Message").FromString(_body(objects[message_id]))
        (record,) = [item.config_record for item in message.content.items if item.key == RECORD]
        values = {item.key: item.value for item in record.items}
        kinds = {key: value.WhichOneof("value") for key, value in values.items()}
        parts = {Part(key): value.bytes for key, value in values.items() if kinds[key] == "bytes"}
        for key, value in values.items():
            if kinds[key] == "string_list":
                parts[Part(key)] = b"".join(_body(objects[child]) for child in value.string_list.vals)
        numbers = {key: value.sint64 for key, value in values.items() if kinds[key] == "sint64"}
        return Envelope.read(Verb(values["verb"].string), parts, numbers)
    except Exception as error:  # protobuf has errors of its own
        raise MessageError(
            f"a message must be one of this protocol, it is not ({type(error).__name__}): cotempo on the other side is "
            "too old or too new"
        ) from error


def _body(content: bytes) -> bytes:
    return content[content.index(b"\0") + 1 :]


class ContentLost(Exception):  # noqa: N818 - it says what happened
    """An object of a message will not arrive."""


def pull_object(wire: Wire, side: str, node: int, run: int, object_id: str) -> bytes | None:
    """Return an object, or `None` if it is not there yet; raise `ContentLost` if it will not come."""
    found = wire.call(f"{side}/pull-object", node={"node_id": node}, run_id=run, object_id=object_id)
    if not found.object_found:
        raise ContentLost
    if not found.object_available:
        return None
    content: bytes = found.object_content
    return content


def push_objects(
    wire: Wire, side: str, node: int, run: int, announced: Any, objects: Mapping[str, bytes],
    headers: Mapping[str, str] = MappingProxyType({}),
) -> tuple[bool, httpx.Headers]:  # fmt: skip
    """Upload the objects that the server does not have, the last of them with more `headers`.

    Return whether it took all, and the headers of the last response.
    """
    shown = httpx.Headers()
    for number, object_id in enumerate(announced.objects_to_push, 1):
        pushed, shown = wire.call_with(
            f"{side}/push-object", headers if number == len(announced.objects_to_push) else {},
            node={"node_id": node}, run_id=run, session_id=announced.session_id, object_id=object_id,
            object_content=objects[object_id],
        )  # fmt: skip
        if not pushed.stored:
            return False, shown
    return True, shown


def object_ids(tree: Any) -> list[str]:
    """Return the ids of a tree's objects."""
    return [tree.object_id, *(object_id for child in tree.children for object_id in object_ids(child))]


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
