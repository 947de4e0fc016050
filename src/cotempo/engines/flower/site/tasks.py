"""`Tasks`, the messages that a SuperNode holds for its worker, and `verify_key`, a site's key shown to the server.

Flower would start a process for each message; in its isolation mode `process` it leaves that to others, and here the
running worker takes the task. What only operators need stays out: a site starts in half the time without it.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Context, Message
from flwr.common.constant import SubStatus
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from cotempo.engines.flower.transport import translate_http_errors
from cotempo.errors import EngineError


class SiteTask:
    """One message that the SuperNode holds for the worker."""

    def __init__(self, address: str, token: str):
        self.client = RuntimeHttpClient.from_server_address(
            address, True, None,
            [RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"), RuntimeTokenHttpInterceptor(token)],
            retry_invoker=make_simple_http_retry_invoker(),
        )  # fmt: skip
        self.heart = HeartbeatSender(make_task_heartbeat_fn_http(self.client))
        self.heart.start()
        self.message: Message
        self.context: Context
        self.message, self.context, _, _ = pull_task_input(self.client)

    def reply(self, content: Any) -> None:
        """Send the answer and end the task."""
        push_message(self.client, Message(content, reply_to=self.message), self.context)
        push_task_output(self.client, self.context, SubStatus.COMPLETED, "")
        self.heart.stop()
        self.client.close()


class Tasks:
    """The tasks of the SuperNode on this machine."""

    def __init__(self, address: str, secret: bytes):
        self.address = address
        self.client = RuntimeHttpClient.from_server_address(
            address, True, None,
            [
                RuntimeVersionHttpInterceptor(component_name="SuperExec"),
                SuperExecAuthHttpInterceptor(
                    master_secret=secret, protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"})
                ),
            ],
        )  # fmt: skip

    def take(self) -> SiteTask | None:
        """Return the oldest waiting message, if any."""
        taken = self.client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
        return SiteTask(self.address, taken.token) if taken.token else None


def verify_key(address: str, authority: Path, key: Path, previous: int | None = None) -> int:
    """Authenticate once and disconnect; return the id of the site's node.

    The server takes a site that was killed for online for another minute; sign it off first by its `previous` id.
    """
    private = load_ssh_private_key(key.read_bytes(), None)
    if not isinstance(private, EllipticCurvePrivateKey):
        raise EngineError(f"{key} must be the key of a kit, got another kind")
    public = private.public_key()
    interceptors: list[Any] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(private, public),
    ]
    with (
        translate_http_errors(address),
        FleetHttpClient.from_server_address(address, False, authority.read_bytes(), interceptors) as client,
    ):
        if previous is not None:
            with suppress(httpx.HTTPStatusError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=previous))
        try:
            found = client.ActivateNode(
                ActivateNodeRequest(public_key=public_key_to_bytes(public), heartbeat_interval=30)
            )
        except httpx.HTTPStatusError as error:
            raise EngineError(
                f"the server at {address} must know this site's key, it refuses it ({error.response.status_code}): "
                "the key was never let in or was taken off the list, the site already runs elsewhere, or the clocks "
                "differ; ask the coordinator for: cotempo server status"
            ) from error
        client.DeactivateNode(DeactivateNodeRequest(node_id=found.node_id))
        return int(found.node_id)
