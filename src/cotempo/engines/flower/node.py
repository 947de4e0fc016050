"""Flower's SuperNode, looking more often: python -m cotempo.engines.flower.node [flags of flower-supernode].

Flower's own waits three seconds between two looks for a message, and half a second for an answer. Methods that
exchange many small messages would spend nearly all their time on that; so it looks often while a run is going on, and
ever more seldom, up to Flower's three seconds, while nothing happens.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import SimpleNamespace

from cotempo.engines.flower import need_flower
from cotempo.engines.flower.daemon import Patience, follow

IDLE = 3.0


def end(arguments: threading.ExceptHookArgs) -> None:
    """A SuperNode whose heart has stopped is thought to be away for ever; better to end, and be started anew."""
    sys.__excepthook__(arguments.exc_type, arguments.exc_value or arguments.exc_type(), arguments.exc_traceback)
    os._exit(1)


def main() -> None:
    """Serve until stopped."""
    follow()
    need_flower()
    threading.excepthook = end
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    idle, busy = Patience(0.1, IDLE), 0.05

    def sleep(seconds: float) -> None:
        """Between two looks for a message, Flower asks for three seconds; between two for an answer, for less."""
        if seconds >= IDLE:
            time.sleep(idle.next())
        else:
            idle.reset()
            time.sleep(busy)

    # That module uses nothing but `sleep` of `time`.
    vars(start_client_internal)["time"] = SimpleNamespace(sleep=sleep)
    flower_supernode()


if __name__ == "__main__":
    main()
