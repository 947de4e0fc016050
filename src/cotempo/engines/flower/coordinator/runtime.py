"""`ServerTask`: this process as the ServerApp of a Flower run, and `control`, the interface of an operator.

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
from cotempo.engines.flower.transport import translate_http_errors
from cotempo.errors import EngineError

HEADER = "x-cotempo-operator"  # of the operator's secret
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


class ServerTask:
    """A Flower run whose ServerApp is this process."""

    def __init__(self, address: str, folder: Path):
        fab, _ = build_fab_from_files({"pyproject.toml": APP, "app.py": b"none = None\n"})
        app = fab_to_proto(Fab(hashlib.sha256(fab).hexdigest(), fab, {}))
        with control(address, folder) as client:
            run_id = client.StartRun(StartRunRequest(fab=app)).run_id
        with _connect(RuntimeHttpClient, address, folder) as client:
            while True:
                taken = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
                if not taken.token:
                    raise EngineError(f"the server at {address} began no task for this run; see its log")
                self._begin(address, folder, taken.token)
                if taken.task.run_id == run_id:
                    break
                self._end(SubStatus.FAILED, "left over")  # by an operator that was killed
        self.heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(self.client))
        self.heartbeat.start()
        set_task_identity(self.input.task_id, self.input.run.run_id, self.input.context.node_id)
        self.grid = HttpGrid(address, False, (folder / "ca.crt").read_bytes(), token=taken.token)
        connect_grid(self.grid, self.client)
        self.grid.set_run(run_from_proto(self.input.run))

    def _begin(self, address: str, folder: Path, token: str) -> None:
        """Begin the task that this process holds the token of."""
        self.retries = make_simple_http_retry_invoker()
        self.retries.max_time = RETRY_SECONDS
        interceptor = RuntimeTokenHttpInterceptor(token=token)
        self.client = _connect(RuntimeHttpClient, address, folder, interceptor, retry_invoker=self.retries)
        self.input = self.client.PullTaskInput(PullTaskInputRequest())

    def _end(self, status: str, details: str = "") -> None:
        """Report how the task ended."""
        self.retries.max_tries = 1
        with suppress(httpx.HTTPError):  # the server is gone, and the run with it
            self.client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
        self.client.close()

    def close(self, *, failed: bool = False) -> None:
        """End the Flower run."""
        self.heartbeat.stop()
        self._end(SubStatus.FAILED if failed else SubStatus.COMPLETED)
