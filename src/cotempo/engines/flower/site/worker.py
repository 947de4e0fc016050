"""The worker, which answers the SuperNode's tasks: python -m cotempo.engines.flower.site.worker KIT ADDRESS.

Flower would start a process for each message; in its isolation mode `process` it leaves that to others, and here the
running worker takes the task. It lives as long as the site is joined, so the table, its preprocessing and the methods
stay in memory.
"""

import sys
import time
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from cotempo.engines.flower.processes import Backoff, exit_with_parent
from cotempo.engines.flower.protocol import Verb
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.engines.flower.transport import pack, unpack
from cotempo.errors import MessageError
from cotempo.threads import set_threads


def _connect(address: str, component: str, interceptor: Any, **options: Any) -> RuntimeHttpClient:
    interceptors = [RuntimeVersionHttpInterceptor(component_name=component), interceptor]
    return RuntimeHttpClient.from_server_address(address, True, None, interceptors, **options)


def answer_task(service: SiteService, address: str, token: str) -> None:
    """Answer the one message that the SuperNode holds under a token."""
    retries = make_simple_http_retry_invoker()
    client = _connect(address, "flwr-clientapp", RuntimeTokenHttpInterceptor(token), retry_invoker=retries)
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    message, context, _, _ = pull_task_input(client)
    try:
        answer = service.handle(*unpack(message))
    except MessageError as error:
        answer = service.fail(error)
    push_message(client, Message(pack(Verb.ANSWER, answer), reply_to=message), context)
    push_task_output(client, context, SubStatus.COMPLETED, "")
    heartbeat.stop()
    client.close()


def main() -> None:
    """Take one task after the other until the parent is gone."""
    kit, address = Path(sys.argv[1]), sys.argv[2]
    set_threads(1)
    exit_with_parent()
    service = SiteService(SiteSettings.from_kit(kit), kit / "home")
    secret, protected = (kit / "home" / "secret").read_bytes(), frozenset({"/flwr.proto.Runtime/AcquireTask"})
    authentication = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=protected)
    client = _connect(address, "SuperExec", authentication)
    idle = Backoff(0.02, 0.5)
    while True:
        try:
            token = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])).token
        except httpx.TransportError:
            token = ""  # the SuperNode is starting
        if token:
            idle.reset()
            answer_task(service, address, token)
        else:
            time.sleep(idle.next())


if __name__ == "__main__":
    main()
