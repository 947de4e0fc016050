"""A SuperNode that has given up ends, whatever its other threads do: its watcher can then start it anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

NODE = """
import threading
from cotempo.engines.flower.site import node
from flwr.supernode import cli

def give_up():
    threading.Thread(target=threading.Event().wait).start()
    raise OSError("the server is gone")

cli.flower_supernode = give_up
node.main()
"""

WIRE = """
import httpx
from cotempo.engines.flower.site import node
from flwr.supernode import cli, start_client_internal

def flower(**calls):
    try:
        calls["CALL"]()
    except BaseException:
        print("went on", flush=True)

def cut():
    raise ERROR("cut in the middle")

def work():
    names = ("pull_object", "confirm_message_received", "send", "push_object")
    start_client_internal.NAME(**dict.fromkeys(names, cut))

start_client_internal.NAME = flower
cli.flower_supernode = work
node.main()
"""


def test_it_ends_though_a_thread_goes_on() -> None:
    ended = subprocess.run([sys.executable, "-c", NODE], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "the server is gone" in ended.stderr


@pytest.mark.parametrize(
    ("name", "call", "error"),
    [
        ("_pull_and_store_message", "confirm_message_received", "httpx.ConnectError"),
        ("_pull_and_store_message", "pull_object", "start_client_internal.RunNotRunningException"),
        ("_push_messages", "push_object", "httpx.ConnectError"),
    ],
)
def test_it_ends_where_the_wire_or_the_run_breaks_under_a_message(name: str, call: str, error: str) -> None:
    program = WIRE.replace("NAME", name).replace("CALL", call).replace("ERROR", error)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "cut in the middle" in ended.stderr
    assert "went on" not in ended.stdout
