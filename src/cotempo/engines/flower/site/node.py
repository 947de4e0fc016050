"""Flower's SuperNode, looking more often: python -m cotempo.engines.flower.site.node [flags of flower-supernode].

Flower's own waits three seconds between two looks for a message, and half a second for an answer. Methods that
exchange many small messages would spend nearly all their time on that; so it looks often while a run is going on, and
ever more seldom, up to Flower's three seconds, while nothing happens.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cotempo.engines.flower import need_flower
from cotempo.engines.flower.processes import Patience, follow

IDLE = 3.0


def end(arguments: threading.ExceptHookArgs) -> None:
    """A SuperNode whose heart has stopped is thought to be away for ever; better to end, and be started anew."""
    sys.__excepthook__(arguments.exc_type, arguments.exc_value or arguments.exc_type(), arguments.exc_traceback)
    os._exit(1)


def or_end(call: Callable[..., Any], trouble: type[Exception]) -> Callable[..., Any]:
    """End where the wire breaks under a message: Flower would go on, and the server wait until its deadline.

    An answer that could not be sent is dropped. A question that could not be confirmed is still answered, but Flower
    takes that for the answer to the next one, and every answer from then on waits for one more question.
    """

    def bring(*given: Any) -> Any:
        try:
            return call(*given)
        except trouble:
            traceback.print_exc()
            os._exit(1)

    return bring


def main() -> None:
    """Serve until stopped."""
    follow()
    need_flower()
    threading.excepthook = end
    import httpx
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    idle, busy = Patience(0.05, IDLE), 0.02

    def sleep(seconds: float) -> None:
        """Between two looks for a message, Flower asks for three seconds; between two for an answer, for less."""
        if seconds >= IDLE:
            time.sleep(idle.next())
        else:
            idle.reset()
            time.sleep(busy)

    def guard(name: str, *calls: str) -> None:
        inner = vars(start_client_internal)[name]

        def guarded(**given: Any) -> Any:
            return inner(**{**given, **{call: or_end(given[call], httpx.TransportError) for call in calls}})

        vars(start_client_internal)[name] = guarded

    guard("_pull_and_store_message", "pull_object", "confirm_message_received")
    guard("_push_messages", "send", "push_object")
    # That module uses nothing but `sleep` of `time`.
    vars(start_client_internal)["time"] = SimpleNamespace(sleep=sleep)
    try:
        flower_supernode()
    except Exception:
        traceback.print_exc()
    os._exit(1)  # the thread that serves the worker would keep a node alive that no longer speaks with the server


if __name__ == "__main__":
    main()
