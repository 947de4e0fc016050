"""The SuperNode, Flower's link to the server: python -m cotempo.engines.flower.site.node [flags of flower-supernode].

Flower polls for messages every three seconds and for replies every half second; methods that exchange many small
messages would spend nearly all their time on that. `main` polls fast while a run is going on, and backs off to three
seconds while nothing happens.
"""

import os
import sys
import threading
import time
import traceback

from cotempo.engines.flower.patches import exit_on_broken_connection, poll_contents_faster, poll_messages_with
from cotempo.engines.flower.processes import Backoff, exit_with_parent

FLOWERS_PAUSE = 3.0
BUSY_PAUSE = 0.02


def exit_on_thread_error(arguments: threading.ExceptHookArgs) -> None:
    """Exit when a thread dies: without heartbeats the server marks this node offline permanently."""
    sys.__excepthook__(arguments.exc_type, arguments.exc_value or arguments.exc_type(), arguments.exc_traceback)
    os._exit(1)


def main() -> None:
    """Serve until stopped."""
    exit_with_parent()
    threading.excepthook = exit_on_thread_error
    from flwr.supernode.cli import flower_supernode

    idle = Backoff(0.05, FLOWERS_PAUSE)

    def sleep(seconds: float) -> None:
        """Flower asks for three seconds between two polls for a message, and for less between two for a reply."""
        if seconds >= FLOWERS_PAUSE:
            time.sleep(idle.next())
        else:
            idle.reset()
            time.sleep(BUSY_PAUSE)

    poll_contents_faster()
    poll_messages_with(sleep)
    exit_on_broken_connection()
    try:
        flower_supernode()
    except Exception:
        traceback.print_exc()
    os._exit(1)  # the thread that serves the worker would keep a node alive that has lost the server


if __name__ == "__main__":
    main()
