"""The parts of Flower's interfaces that operators and its own ServerApp process use, used directly.

Flower would install the app it was sent and start a process for it. In its isolation mode `process` it leaves that to
others; here the process that is already there takes the task. The app itself is an empty one, because Flower asks for
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, StartRunRequest, UnregisterNodeRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
)
from flwr.supercore.interceptors.http.utils import add_headers
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from pydantic import BaseModel

from cotempo.engines.flower.superlink import HEADER
from cotempo.engines.flower.errors import speaking
from cotempo.errors import EngineError

PATIENCE = 60.0  # seconds a server may be away before the run is given up, to be resumed
APP = b"""[project]
name = "cotempo"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "cotempo"

[tool.flwr.app.components]
serverapp = "app:none"
clientapp = "app:none"

[tool.flwr.app.config]
"""


class Node(BaseModel):
    """A site as Flower knows it."""

    node_id: int
    name: str
    status: str


class Operator:
    """Shows the operator's secret with every request."""

    def __init__(self, secret: str):
        self.secret = secret

    def intercept(self, context: Any, call_next: Any) -> Any:
        """Add the header."""
        add_headers(context.request, {HEADER: self.secret})
        return call_next(context)


def _operator(folder: Path) -> list[Any]:
    return [RuntimeVersionHttpInterceptor(component_name="flwr CLI"), Operator((folder / "operator").read_text())]


@contextmanager
def control_client(address: str, folder: Path) -> Iterator[ControlHttpClient]:
    """An operator's client."""
    with speaking(address):
        client = ControlHttpClient.from_server_address(
            address, False, (folder / "ca.crt").read_bytes(), _operator(folder)
        )
        try:
            yield client
        finally:
            client.close()


def list_nodes(client: ControlHttpClient) -> list[Node]:
    """Every site that may join."""
    nodes = client.ListNodes(ListNodesRequest()).nodes_info
    return [
        Node(node_id=node.node_id, name=node.name, status=node.status) for node in nodes if not node.unregistered_at
    ]


def register(client: ControlHttpClient, name: str, key: bytes) -> None:
    """Let a site in by its public key."""
    pem = load_ssh_public_key(key).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    client.RegisterNode(RegisterNodeRequest(public_key=pem, name=name))


def unregister(client: ControlHttpClient, node_id: int) -> None:
    """Shut a site out."""
    client.UnregisterNode(UnregisterNodeRequest(node_id=node_id))


class OperatorGrid(HttpGrid):
    """Flower's grid, for a process that shows the operator's secret."""

    def __init__(self, address: str, folder: Path, token: str):
        super().__init__(address, False, (folder / "ca.crt").read_bytes(), token=token)
        self._retry_invoker.max_time = PATIENCE
        self._folder = folder

    def _connect(self) -> None:
        shown = [*_operator(self._folder), RuntimeTokenHttpInterceptor(token=self._token)]
        self._client = RuntimeHttpClient.from_server_address(
            self._addr, False, self._cert, shown, retry_invoker=self._retry_invoker
        )


class ServerTask:
    """A Flower run whose ServerApp is this process."""

    def __init__(self, address: str, folder: Path):
        fab, _ = build_fab_from_files({"pyproject.toml": APP, "app.py": b"none = None\n"})
        with control_client(address, folder) as control:
            content = Fab(hashlib.sha256(fab).hexdigest(), fab, {})
            self.run_id = control.StartRun(StartRunRequest(fab=fab_to_proto(content))).run_id
        certificate = (folder / "ca.crt").read_bytes()
        client = RuntimeHttpClient.from_server_address(address, False, certificate, _operator(folder))
        try:
            token = self._claim(client, address, folder)
        finally:
            client.close()
        self.grid = OperatorGrid(address, folder, token)
        client = self.grid._runtime_client
        self.heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
        self.heart.start()
        given = client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id  # Flower's messages read them there
        TaskIdentity.node_id = given.context.node_id
        self.grid.set_run(run_from_proto(given.run))

    def _claim(self, client: RuntimeHttpClient, address: str, folder: Path) -> str:
        """Take our own task; one left over by an operator that was killed is ended."""
        while True:
            taken = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
            if not taken.token:
                raise EngineError(f"the server at {address} began no task for this run; see its log")
            if taken.task.run_id == self.run_id:
                return str(taken.token)
            grid = OperatorGrid(address, folder, taken.token)
            grid._runtime_client.PullTaskInput(PullTaskInputRequest())
            _finish(grid, SubStatus.FAILED, "left over")

    def close(self, *, failed: bool = False) -> None:
        """End the Flower run."""
        self.heart.stop()
        _finish(self.grid, SubStatus.FAILED if failed else SubStatus.COMPLETED, "")


def _finish(grid: HttpGrid, status: str, details: str) -> None:
    grid._retry_invoker.max_tries = 1
    with suppress(httpx.HTTPError):  # the server is gone, and the run with it
        grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
    grid.close()
