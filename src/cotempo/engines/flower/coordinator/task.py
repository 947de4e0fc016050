"""`ServerTask`: a Flower run whose ServerApp is this process, as the channel to the sites."""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from base64 import b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.processes import Heartbeat
from cotempo.engines.flower.protocol import Envelope
from cotempo.engines.flower.transport import Answer, Away, failure_of
from cotempo.engines.flower.wire import (
    COLLECT,
    MEETING,
    SERVER_NODE,
    ContentLost,
    Sealer,
    Wire,
    object_ids,
    pull_object,
    push_objects,
    unseal,
)
from cotempo.errors import EngineError, MessageError
from cotempo.storage.files import write_whole

HEARTBEAT_SECONDS = 20.0  # Flower gives up a task that is silent for a minute
RETRY_SECONDS = 60.0  # how long a server may be away before the run is given up, to be resumed
POLL_SECONDS = 1.0  # how long the server holds a poll for answers: as long as it takes to notice that a site is away
APP = b"""[project]
name = "cotempo"
version = "1.0.0"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "cotempo"
components = {serverapp = "app:none", clientapp = "app:none"}
"""


class ServerTask:
    """A Flower run whose ServerApp is this process.

    Flower would install the app it was sent and start a process for it. In its isolation mode `process` it leaves that
    to others, and here the running process takes the task. Flower insists on an app, so we send an empty one.
    """

    def __init__(self, server: Server, run: str):
        self._arriving: dict[str, tuple[Any, Any, dict[str, bytes]]] = {}  # answers whose content is being uploaded
        record = server.state / "runs" / run
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with server.control() as control:
            _stop_predecessor(control, record)
            self.run_id = control.call("control/start-run", fab=_empty_app()).run_id
            write_whole(record, str(self.run_id).encode())
            while True:
                taken = control.call("runtime/acquire-task", supported_task_types=["flwr-serverapp"])
                if not taken.token:
                    raise EngineError(f"the server at {server.local_address} began no task for this run; see its log")
                self._begin(server, taken.token)
                if taken.task.run_id == self.run_id:
                    break
                self._end("failed", "left over")  # by an operator that was killed
        self.heartbeat = Heartbeat(lambda: self.wire.call("runtime/send-task-heartbeat"), HEARTBEAT_SECONDS)

    def _begin(self, server: Server, token: str) -> None:
        """Begin the task that this process holds the token of."""
        self.wire = server.wire({"flwr-task-token": token}, patience=RETRY_SECONDS)
        self.task_id = self.wire.call("runtime/pull-task-input").task_id

    def _end(self, status: str, details: str = "") -> None:
        """Report how the task ended."""
        self.wire.patience = 0.0
        with suppress(httpx.HTTPError):  # the server is gone, and the run with it
            self.wire.call("runtime/push-task-output", sub_status=status, details=details)
        self.wire.close()

    def close(self, *, failed: bool = False) -> None:
        """End the Flower run."""
        self.heartbeat.stop()
        self._end("failed" if failed else "completed")

    def nodes(self) -> dict[str, int]:
        """Return the sites that are online, by the names the server gave their keys."""
        return {node.name: node.node_id for node in self.wire.call("runtime/get-nodes").nodes}

    def push(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, str]:
        """Announce all messages at once, then upload what the server does not have."""
        sealer, now = Sealer(), time.time()
        sealed = {
            node: sealer.seal(
                {
                    "run_id": self.run_id, "src_node_id": SERVER_NODE, "dst_node_id": node, "message_type": "query",
                    "created_at": now, "ttl": seconds, "src_task_id": self.task_id,
                },
                envelope,
            )
            for node, envelope in envelopes.items()
        }  # fmt: skip
        messages, trees = [one.message for one in sealed.values()], [one.tree for one in sealed.values()]
        announced = self.wire.call("runtime/push-messages", messages_list=messages, message_object_trees=trees)
        if not push_objects(self.wire, "runtime", SERVER_NODE, self.run_id, announced, sealer.objects)[0]:
            return {}  # it took so long that the server has forgotten the announcement
        return {node: key for node, key in zip(sealed, announced.message_ids, strict=True) if key}

    def pull(self, ids: Iterable[str]) -> list[tuple[str, Answer]]:
        """Return the answers that have arrived whole, with the id of what they answer."""
        if missing := [key for key in ids if key not in self._arriving]:
            wait = 0.0 if self._arriving else POLL_SECONDS
            found = self.wire.call("runtime/pull-messages", wait, message_ids=missing)
            for message, tree in zip(found.messages_list, found.message_object_trees, strict=True):
                self._arriving[message.metadata.reply_to_message_id] = (message, tree, {})
        read = [(key, self._read(*arriving)) for key, arriving in self._arriving.items()]
        arrived = [(key, answer) for key, answer in read if answer is not None]
        for key, _ in arrived:
            del self._arriving[key]
        return arrived

    def collect(self, meeting: str) -> dict[str, bytes]:
        """Return what sites answered after a meeting at the server, by the keys they show."""
        try:
            found = self.wire.post(COLLECT, b"", {MEETING: meeting}).json()
        except httpx.HTTPStatusError:  # a server without meetings
            return {}
        return {key: b64decode(answer) for key, answer in found.items()}

    def _read(self, message: Any, tree: Any, objects: dict[str, bytes]) -> Answer | None:
        """Return an answer, or `None` while its content is being uploaded."""
        message_id = message.metadata.message_id
        try:
            if not message.HasField("error"):
                for object_id in object_ids(tree):
                    if object_id not in objects:
                        content = pull_object(self.wire, "runtime", SERVER_NODE, self.run_id, object_id)
                        if content is None:
                            return None
                        objects[object_id] = content
        except ContentLost:
            return Away("the answer was not uploaded whole")
        node = {"node_id": SERVER_NODE}
        self.wire.call("runtime/confirm-message-received", node=node, run_id=self.run_id, message_object_id=message_id)
        if message.HasField("error"):
            return failure_of(message.error.code)
        try:
            return unseal(message_id, objects)
        except MessageError as error:
            return error


def _stop_predecessor(control: Wire, record: Path) -> None:
    """Stop the Flower run under which a killed coordinator began this run: sites may still be waiting for its words."""
    if record.is_file():
        with suppress(httpx.HTTPStatusError):  # it has ended
            control.call("control/stop-run", run_id=int(record.read_text()))


def _empty_app() -> dict[str, Any]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in (("pyproject.toml", APP), ("app.py", b"none = None\n")):
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return {"hash_str": hashlib.sha256(buffer.getvalue()).hexdigest(), "content": buffer.getvalue()}
