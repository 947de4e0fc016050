"""Flower's SuperNode, looking more often: python -m cotempo.engines.flower.node [flags of flower-supernode].

Flower's own waits three seconds between two looks for a message, and half a second for an answer. Methods that
exchange many small messages would spend nearly all their time on that.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

from cotempo.engines.flower import need_flower

LOOK = 0.1


def main() -> None:
    """Serve until stopped."""
    need_flower()
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    # That module uses nothing but `sleep` of `time`.
    vars(start_client_internal)["time"] = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, LOOK)))
    flower_supernode()


if __name__ == "__main__":
    main()
