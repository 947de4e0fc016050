"""`ServerTask`: this process as the ServerApp of a Flower run.

Flower would install the app it was sent and start a process for it. In its isolation mode `process` it leaves that to
others, and here the running process takes the task. Flower insists on an app, so we send an empty one.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import StartRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.interceptors.http.utils import add_headers
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import HttpGrid

from cotempo.engines.flower.patches import connect_grid, set_task_identity
from cotempo.engines.flower.superlink import HEADER
from cotempo.engines.flower.transport import translate_http_errors
from cotempo.errors import EngineError

RETRY_SECONDS = 60.0  # how long a server may be away before the run is given up, to be resumed
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


class OperatorSecret:
    """An interceptor that sends the operator's secret with every request."""

    def __init__(self, folder: Path):
        self.secret = (folder / "operator").read_text()

    def intercept(self, context: Any, call_next: Any) -> Any:
        """Add the header."""
        add_headers(context.request, {HEADER: self.secret})
        return call_next(context)


def _connect(kind: Any, address: str, folder: Path, *interceptors: Any, **options: Any) -> Any:
    """Return a Flower client of a kind, with the operator's secret."""
    shown = [RuntimeVersionHttpInterceptor(component_name="flwr CLI"), OperatorSecret(folder), *interceptors]
    return kind.from_server_address(address, False, (folder / "ca.crt").read_bytes(), shown, **options)


@contextmanager
def control(address: str, folder: Path) -> Iterator[ControlHttpClient]:
    """Open Flower's control interface as an operator."""
    with translate_http_errors(address), _connect(ControlHttpClient, address, folder) as client:
        yield client


class AcquiredTask:
    """A task of Flower's that this process holds the token of."""

    def __init__(self, address: str, folder: Path, token: str):
        self.retries = make_simple_http_retry_invoker()
        self.retries.max_time = RETRY_SECONDS
        interceptor = RuntimeTokenHttpInterceptor(token=token)
        self.client = _connect(RuntimeHttpClient, address, folder, interceptor, retry_invoker=self.retries)
        self.input = self.client.PullTaskInput(PullTaskInputRequest())

    def end(self, status: str, details: str = "") -> None:
        """Report how the task ended."""
        self.retries.max_tries = 1
        with suppress(httpx.HTTPError):  # the server is gone, and the run with it
            self.client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
        self.client.close()


class ServerTask:
    """A Flower run whose ServerApp is this process."""

    def __init__(self, address: str, folder: Path):
        token = _claim(address, folder, _start_run(address, folder))
        self.task = AcquiredTask(address, folder, token)
        self.heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(self.task.client))
        self.heartbeat.start()
        given = self.task.input
        set_task_identity(given.task_id, given.run.run_id, given.context.node_id)
        self.grid = HttpGrid(address, False, (folder / "ca.crt").read_bytes(), token=token)
        connect_grid(self.grid, self.task.client)
        self.grid.set_run(run_from_proto(given.run))

    def close(self, *, failed: bool = False) -> None:
        """End the Flower run."""
        self.heartbeat.stop()
        self.task.end(SubStatus.FAILED if failed else SubStatus.COMPLETED)


def _start_run(address: str, folder: Path) -> int:
    fab, _ = build_fab_from_files({"pyproject.toml": APP, "app.py": b"none = None\n"})
    content = fab_to_proto(Fab(hashlib.sha256(fab).hexdigest(), fab, {}))
    with control(address, folder) as client:
        return int(client.StartRun(StartRunRequest(fab=content)).run_id)


def _claim(address: str, folder: Path, run_id: int) -> str:
    """Return the token of a run's task; end tasks left over by an operator that was killed."""
    with _connect(RuntimeHttpClient, address, folder) as client:
        while True:
            taken = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
            if not taken.token:
                raise EngineError(f"the server at {address} began no task for this run; see its log")
            if taken.task.run_id == run_id:
                return str(taken.token)
            AcquiredTask(address, folder, taken.token).end(SubStatus.FAILED, "left over")
