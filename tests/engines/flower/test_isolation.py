"""Nothing calls out: a deployment on a machine whose only network is its loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployment")]

# A new network namespace has a loopback that is down; 0x8914 is SIOCSIFFLAGS, 0x49 is up, loopback and running.
UP = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    fcntl.ioctl(probe, 0x8914, struct.pack("16sh14x", b"lo", 0x49))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_a_deployment_needs_nothing_but_the_loopback() -> None:
    alone = ["unshare", "--map-root-user", "--net", sys.executable, "-c", UP]
    if subprocess.run([*alone, "-c", "pass"], capture_output=True).returncode:
        pytest.skip("network namespaces are refused here")
    target = f"{Path(__file__).parent / 'test_deployment.py'}::test_the_same_bits_as_in_process"
    command = [*alone, "-m", "pytest", "-q", "-p", "no:cacheprovider", target]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:]
