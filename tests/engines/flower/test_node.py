"""A SuperNode that has given up ends, whatever its other threads do: its watcher can then start it anew."""

from __future__ import annotations

import subprocess
import sys

NODE = """
import threading
from cotempo.engines.flower import need_flower, node
need_flower()
from flwr.supernode import cli

def give_up():
    threading.Thread(target=threading.Event().wait).start()
    raise OSError("the server is gone")

cli.flower_supernode = give_up
node.main()
"""


def test_it_ends_though_a_thread_goes_on() -> None:
    ended = subprocess.run([sys.executable, "-c", NODE], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "the server is gone" in ended.stderr
