"""Every use of a name that Flower does not document, each with its reason and what is lost without it.

Coordinator and sites speak Flower's wire themselves (`wire`). What is left are the types of the messages on that wire,
what the SuperLink's command serves with, and one function of the simulation. Flower is imported inside the functions: a
process loads only what it uses, and a version without a name fails where the name is needed, in words.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from queue import Queue
from typing import TYPE_CHECKING, Any

from cotempo.errors import EngineError

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

TESTED = ("1.41", "1.42")
COMMAND = "flower-superlink"
LOGGER = logging.getLogger("flwr")


@cache
def check_version() -> str:
    """Return the version of flwr; warn, once in a process, if it was not tested."""
    version = importlib.metadata.version("flwr")
    if ".".join(version.split(".")[:2]) not in TESTED:
        warnings.warn(
            f"cotempo was tested with flwr {' and '.join(TESTED)}, got {version}; it goes on, and says so where a part "
            "of Flower it needs is gone",
            stacklevel=3,
        )
    return version


def _gone(name: str, lost: str) -> EngineError:
    return EngineError(
        f"flwr must have {name}, version {check_version()} does not: {lost}; install flwr {' or '.join(TESTED)}"
    )


@cache
def wire_type(name: str) -> Any:
    """Return the type of a message on Flower's wire, whose definitions come with the installed version.

    The wire is what Flower's own processes of different machines agree on, and its most stable part; but the package of
    its definitions is not documented. Without them nothing can be said to a server: an `EngineError` says so.
    """
    check_version()
    try:
        from flwr.proto import control_pb2, fleet_pb2, runtime_pb2
        from google.protobuf.message_factory import GetMessageClass

        pools = {module.DESCRIPTOR.pool for module in (control_pb2, fleet_pb2, runtime_pb2)}
        return GetMessageClass(pools.pop().FindMessageTypeByName(f"flwr.proto.{name}"))
    except (ImportError, KeyError) as error:
        raise _gone(f"the message {name} on its wire", "neither a server nor a site can be run with it") from error


def run_superlink(wrap: Callable[[Any], Any]) -> None:
    """Run the command `flower-superlink` in this process, with its web application wrapped.

    The command leaves no place for middleware, and serves with `uvicorn.run`. A command that served otherwise would not
    ask operators for their secret: `Server.start` checks that it does, and stops it if not.
    """
    import uvicorn

    commands = [*importlib.metadata.entry_points(group="console_scripts", name=COMMAND)]
    if not commands:
        raise _gone(f"the command {COMMAND}", "no server can be run with it")
    serve = uvicorn.run

    def run(app: Any, **options: Any) -> None:
        ours = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": 1}  # polls may be held
        serve(wrap(app), **{**options, **ours})

    vars(uvicorn)["run"] = run
    command = commands[0].load()
    LOGGER.setLevel(logging.WARNING)  # else a line for every request, on a disk that may be small
    command()


def run_simulation(client_app: ClientApp, server_app: ServerApp, nodes: int, backend: dict[str, Any]) -> None:
    """Run Flower's simulation with messages dispatched in linear time.

    Without the name of the dispatching function, simulations of more than some thousand clients are slow.
    """
    check_version()
    try:
        from flwr.simulation import run_simulation
    except ImportError as error:
        raise _gone("flwr.simulation.run_simulation", "use the engine pool") from error
    try:
        from flwr.server.superlink.fleet.vce import vce_api
    except ImportError:
        vce_api = None  # type: ignore[assignment]
    if hasattr(vce_api, "add_messages_to_queue"):
        vars(vce_api)["add_messages_to_queue"] = dispatch_messages
    else:
        warnings.warn(
            f"flwr {check_version()} dispatches messages its own way: simulations of thousands of clients are slow",
            stacklevel=2,
        )
    with _without_deprecations():
        run_simulation(server_app, client_app, nodes, backend_config=backend)


@contextmanager
def _without_deprecations() -> Iterator[None]:
    """Keep from users that Flower would rather have them call its command, which cannot be called from Python."""

    def is_news(record: logging.LogRecord) -> bool:
        return "DEPRECATED FEATURE" not in record.getMessage()

    LOGGER.addFilter(is_news)
    try:
        yield
    finally:
        LOGGER.removeFilter(is_news)


def dispatch_messages(state: Any, queue: Queue[Message], nodes: object, stop: threading.Event) -> None:
    """Hand new messages to Ray; Flower's version goes through all messages once per node, O(clients^2)."""
    while not stop.wait(0.02):
        with state.lock:
            waiting = [message for message in state.message_ins_store.values() if message.metadata.delivered_at == ""]
            for message in waiting:
                message.metadata.delivered_at = datetime.now(UTC).isoformat()
        for message in waiting:
            queue.put(message)
