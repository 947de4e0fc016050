"""`SiteLink`: a site's connection to the server, in the place of Flower's SuperNode."""

from __future__ import annotations

import threading
import time
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cotempo.engines.flower.processes import Backoff
from cotempo.engines.flower.protocol import Envelope
from cotempo.engines.flower.site.enrolment import site_name
from cotempo.engines.flower.site.meeting import Meeting
from cotempo.engines.flower.wire import (
    FOLLOW_UP,
    MEETING,
    SEAT,
    SERVER_NODE,
    Sealer,
    Wire,
    object_ids,
    pull_object,
    push_objects,
    translate_http_errors,
    unseal,
)
from cotempo.errors import EngineError
from cotempo.privacy.keys import SiteKeys

HEARTBEAT_SECONDS = 20.0
PROMISED_SECONDS = 30.0  # the server takes a site that is silent for twice as long for offline
LEAVE_SECONDS = 2.0  # longer than a coordinator waits between two polls: it must see that the site is away
AGAIN_SECONDS = 0.5, 20.0  # until a server that is away is tried again
POLL_SECONDS = 10.0  # how long the server holds a poll for messages
CONTENT_SECONDS = 0.02, 0.5  # between two looks for the content of a message, at first and at most


class Asked(NamedTuple):
    """A message for this site, as it was announced."""

    message: Any
    tree: Any

    @property
    def run_id(self) -> int:
        """Flower's number of the run."""
        return int(self.message.metadata.run_id)


class SiteLink:
    """A site's connection to the server, signed with its node key."""

    def __init__(self, address: str, kit: Path):
        self._key = SiteKeys.load(site_name(kit), kit / "keys").node
        self._public = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self._lock = threading.Lock()
        self._node_id, self._is_joined = 0, False
        self.wire = Wire(address, (kit / "ca.crt").read_bytes(), self._sign)

    def _sign(self) -> dict[str, str]:
        """Return what shows the server who asks: the public key, and the time signed with the private one."""
        stamp = datetime.fromtimestamp(time.time(), UTC).isoformat()
        signature = self._key.sign(stamp.encode("ascii"), ec.ECDSA(SHA256()))
        return {
            "flwr-public-key": b64encode(self._public).decode(),
            "flwr-timestamp": stamp,
            "flwr-signature": b64encode(signature).decode(),
        }

    def join(self) -> int:
        """Sign on, and return the number of this site's node."""
        with self._lock:
            joined = self.wire.call("fleet/activate-node", public_key=self._public, heartbeat_interval=PROMISED_SECONDS)
            self._node_id = int(joined.node_id)
            self._is_joined = True
            return self._node_id

    def leave(self, node_id: int = 0) -> None:
        """Sign off, so that what this site was asked and did not answer is asked again."""
        with self._lock:
            self._is_joined = False
        if left := node_id or self._node_id:
            with suppress(httpx.HTTPStatusError):  # the server did not take it for online
                self.wire.call("fleet/deactivate-node", node_id=left)

    def rejoin(self) -> None:
        """Sign off and on again as soon as the server can be reached; the coordinator must notice in between."""
        pauses = Backoff(*AGAIN_SECONDS)
        while True:
            try:
                self.leave()
                time.sleep(LEAVE_SECONDS)
                self.join()
                return
            except httpx.HTTPError as error:
                if not is_passing(error):
                    raise
            time.sleep(pauses.next())

    def beat(self) -> None:
        """Tell the server that this site is there."""
        with self._lock:
            if self._is_joined:
                self.wire.call("fleet/send-node-heartbeat", node=self._node, heartbeat_interval=PROMISED_SECONDS)

    @property
    def _node(self) -> dict[str, int]:
        return {"node_id": self._node_id}

    def pull(self) -> Asked | None:
        """Return the next message, if there is one; a message is announced once."""
        found = self.wire.call("fleet/pull-messages", POLL_SECONDS, node=self._node)
        return Asked(found.messages_list[0], found.message_object_trees[0]) if found.messages_list else None

    def read(self, asked: Asked) -> Envelope:
        """Return the content of a message, which may still be on its way to the server."""
        objects: dict[str, bytes] = {}
        for object_id in object_ids(asked.tree):
            looks = Backoff(*CONTENT_SECONDS)
            while (data := pull_object(self.wire, "fleet", self._node_id, asked.run_id, object_id)) is None:
                time.sleep(looks.next())
            objects[object_id] = data
        message_id = asked.message.metadata.message_id
        self.wire.call(
            "fleet/confirm-message-received", node=self._node, run_id=asked.run_id, message_object_id=message_id
        )
        return unseal(message_id, objects)

    def reply(self, asked: Asked, envelope: Envelope, meeting: Meeting | None = None) -> httpx.Headers:
        """Send an answer; it counts as long as its question, whatever this site's clock says.

        With a `meeting` the last response may be held until all have answered; its headers, which tell, are returned.
        """
        question, sealer = asked.message.metadata, Sealer()
        sealed = sealer.seal(
            {
                "run_id": question.run_id, "src_node_id": question.dst_node_id, "dst_node_id": SERVER_NODE,
                "reply_to_message_id": question.message_id, "message_type": question.message_type,
                "created_at": question.created_at, "ttl": question.ttl, "dst_task_id": question.src_task_id,
            },
            envelope,
        )  # fmt: skip
        announced = self.wire.call(
            "fleet/push-messages", node=self._node, messages_list=[sealed.message], message_object_trees=[sealed.tree]
        )
        headers = {MEETING: meeting.header} if meeting else {}
        return push_objects(self.wire, "fleet", self._node_id, asked.run_id, announced, sealer.objects, headers)[1]

    def follow_up(self, seat: str, content: bytes) -> None:
        """Leave an answer that the coordinator did not ask for yet; it asks, if this one gets lost."""
        with suppress(httpx.HTTPStatusError):
            self.wire.post(FOLLOW_UP, content, {SEAT: seat})


def is_passing(error: httpx.HTTPError) -> bool:
    """Return whether an error is of the network or of a server in trouble, and not a refusal."""
    return not isinstance(error, httpx.HTTPStatusError) or error.response.status_code >= 500


def verify_key(address: str, kit: Path, previous: int = 0) -> int:
    """Sign on with a kit's key and off again; return the number of the site's node.

    The server takes a site that was killed for online for another minute; sign it off first by its `previous` number.
    """
    link = SiteLink(address, kit)
    with translate_http_errors(address):
        link.leave(previous)
        try:
            node_id = link.join()
        except httpx.HTTPStatusError as error:
            raise EngineError(
                f"the server at {address} must know this site's key, it refuses it ({error.response.status_code}): "
                "the key was never let in or was taken off the list, the site already runs elsewhere, or the clocks "
                "differ; ask the coordinator for: cotempo server status"
            ) from error
        link.leave()
        link.wire.close()
        return node_id
