"""Every tested version of flwr, also those that are not installed; and two versions in one consortium."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from consortium import Consortium
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.patches import TESTED

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployment")]
OTHERS = [tested for tested in TESTED if not version("flwr").startswith(f"{tested}.")]
HERE = Path(__file__).parent
CHOSEN = (
    "test_patches.py",
    "test_simulation.py",
    "test_deployment.py::test_the_same_bits_as_in_process",
    "test_deployment.py::test_killed_and_resumed_it_ends_in_the_same_bits",
    "test_deployment.py::test_only_operators_get_past_the_sites_door",
)


@pytest.fixture(scope="module", params=OTHERS)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with another version; what it needs is that of the installed one."""
    folder = tmp_path_factory.mktemp("flwr")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    installed = subprocess.run([*command, f"flwr=={request.param}.*"], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"the index has no flwr {request.param}: {installed.stderr[-200:]}")
    return folder


def with_other(other: Path) -> dict[str, str]:
    path = os.pathsep.join([str(other), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def test_the_engine_holds_with_another_version(other: Path) -> None:
    code = "from importlib.metadata import version; print(version('flwr'))"
    found = subprocess.run([sys.executable, "-c", code], env=with_other(other), capture_output=True, text=True)
    assert found.stdout.strip() != version("flwr")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / test) for test in CHOSEN)]
    ended = subprocess.run([*command, "-m", "not slow"], env=with_other(other), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:]


def test_two_versions_work_together(
    tables: dict[str, ct.Series], other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server and one site are of the other version."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    made = Consortium(tmp_path / "made", tables, methods=("Walking",))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", with_other(other)["PYTHONPATH"])
            made.server.start()
            made.clients["cedar"].start()
        for name in ("ash", "birch"):
            made.clients[name].start()
        made.wait_for(*made.clients)
        options = {"engine": "flower", "server": made.server.folder, "privacy": ct.Privacy(secure_sum=False)}
        there = ct.fit(Walking(rounds=3), seed=1, progress=False, **options)
    finally:
        made.stop()
    assert there.digest == ct.fit(Walking(rounds=3), tables, seed=1, progress=False).digest
