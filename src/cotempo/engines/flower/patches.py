"""Every use of a name that Flower does not document, each with its reason; a test asserts that each still exists.

Flower's own processes poll slowly, hide broken connections, and leave no place for an operator's secret. Import flwr
inside the functions: each process loads only the part that it patches.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from queue import Queue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.clientapp import ClientApp
    from flwr.server.superlink.linkstate import InMemoryLinkState
    from flwr.serverapp import ServerApp
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.superlink.grid import HttpGrid


def poll_contents_faster() -> None:
    """Poll for the content of a message every 20 to 500 ms, for up to Flower's two hours.

    Flower announces a message before its content has been uploaded, then polls with exponential backoff (1 s up to
    10 s) at each of three hops and gives up after 500 polls. We poll faster and limit by time only.
    """
    from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, pull_objects

    faster = {"initial_backoff": 0.02, "backoff_cap": 0.5, "max_tries_per_object": None}
    for function in (pull_objects, pull_and_inflate_object_from_tree):
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **faster}


def poll_messages_with(sleep: Callable[[float], None]) -> None:
    """Let the SuperNode sleep our way between two polls: its fixed 3 s and 0.5 s would be most of a run's time."""
    from flwr.supernode import start_client_internal

    vars(start_client_internal)["time"] = SimpleNamespace(sleep=sleep)  # it uses nothing else of `time`


def exit_on_broken_message() -> None:
    """End the SuperNode when a message cannot be received or sent whole, so that the site's daemon restarts it.

    Flower would go on: a reply that could not be sent is dropped, and the server waits for it until the deadline. A
    question whose receipt could not be confirmed is answered, but Flower takes that for the answer to the next
    question, and every answer from then on comes one question late. And if the run ends before a question's content
    has arrived, the worker that has taken the question waits for it for two hours.
    """
    import httpx
    from flwr.supercore.run import RunNotRunningException
    from flwr.supernode import start_client_internal

    fatal = {
        "_pull_and_store_message": (httpx.TransportError, RunNotRunningException),
        "_push_messages": (httpx.TransportError,),  # if the run has ended, nobody wants the reply
    }

    def exiting(call: Callable[..., Any], errors: tuple[type[BaseException], ...]) -> Callable[..., Any]:
        def guarded(*given: Any) -> Any:
            try:
                return call(*given)
            except errors:
                traceback.print_exc()
                os._exit(1)

        return guarded

    def guard(name: str, *calls: str) -> None:
        inner = vars(start_client_internal)[name]

        def outer(**given: Any) -> Any:
            return inner(**{**given, **{call: exiting(given[call], fatal[name]) for call in calls}})

        vars(start_client_internal)[name] = outer

    guard("_pull_and_store_message", "pull_object", "confirm_message_received")
    guard("_push_messages", "send", "push_object")


def superlink_config() -> Any:
    """Parse the SuperLink's flags as its command does; the command itself leaves no place for middleware."""
    from flwr.superlink.cli.flower_superlink import _parse_superlink_lifespan_config

    return _parse_superlink_lifespan_config()


def connect_grid(grid: HttpGrid, client: RuntimeHttpClient) -> None:
    """Let a grid use our client: its own would not send the operator's secret."""
    grid._client = client


def set_task_identity(task_id: int, run_id: int, node_id: int) -> None:
    """Say which task this process runs: Flower's messages read it from this class, which its launcher would fill."""
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = task_id, run_id, node_id


def run_simulation(client_app: ClientApp, server_app: ServerApp, nodes: int, backend: dict[str, Any]) -> None:
    """Run Flower's simulation with messages dispatched in linear time; the public function is deprecated."""
    from flwr.server.superlink.fleet.vce import vce_api
    from flwr.simulation.run_simulation import _run_simulation
    from flwr.supercore.telemetry import EventType

    vars(vce_api)["add_messages_to_queue"] = dispatch_messages
    leave = EventType.PYTHON_API_RUN_SIMULATION_LEAVE
    _run_simulation(nodes, leave, client_app, server_app, backend_config=backend)


def dispatch_messages(state: InMemoryLinkState, queue: Queue[Message], nodes: object, stop: threading.Event) -> None:
    """Hand new messages to Ray; Flower's version goes through all messages once per node, O(clients^2)."""
    from flwr.supercore.date import now

    while not stop.wait(0.02):
        with state.lock:
            waiting = [message for message in state.message_ins_store.values() if message.metadata.delivered_at == ""]
            for message in waiting:
                message.metadata.delivered_at = now().isoformat()
        for message in waiting:
            queue.put(message)
