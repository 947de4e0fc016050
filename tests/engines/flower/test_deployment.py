"""A real deployment: a server and three sites as processes of their own, TLS, node keys."""

from __future__ import annotations

import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from consortium import Consortium, outcome
from counting import Counting
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.daemon import SiteDaemon
from cotempo.errors import EngineError, ParameterError, RunError

OFF = ct.Privacy(secure_sum=False)  # sums of masked messages round otherwise
pytestmark = pytest.mark.xdist_group("deployment")


def test_the_same_bits_as_in_process(consortium: Consortium, tables: dict[str, ct.Series]) -> None:
    for seed in (0, 1):
        method = Walking(rounds=3)
        there = ct.fit(method, engine="flower", server=consortium.server.folder, seed=seed, privacy=OFF, progress=False)
        assert there.digest == ct.fit(method, tables, seed=seed, progress=False).digest
        assert not there.failures


def test_killed_and_resumed_it_ends_in_the_same_bits(
    consortium: Consortium, tables: dict[str, ct.Series], tmp_path: Path
) -> None:
    consortium.hold("birch", 2)
    parameters = {"rounds": 4, "gate": str(consortium.gate)}
    coordinator = consortium.coordinate("run", tmp_path / "run", parameters=parameters, seed=5)
    consortium.wait_held("birch", 2)
    coordinator.send_signal(signal.SIGKILL)
    coordinator.wait()
    consortium.release()
    ended = outcome(consortium.coordinate("resume", tmp_path / "run"))
    assert ended["digest"] == ct.fit(Walking(rounds=4), tables, seed=5, progress=False).digest


def test_sites_compute_on_one_thread_also_with_what_they_load_on_being_asked(consortium: Consortium) -> None:
    there = ct.fit(Counting(), engine="flower", server=consortium.server.folder, privacy=OFF, progress=False)
    assert there.state.threads == (1, 1, 1)


@pytest.mark.parametrize("size", [1_000_000, pytest.param(25_000_000, marks=pytest.mark.slow)])  # 8 MB, 200 MB
def test_large_arrays_travel_whole(consortium: Consortium, tables: dict[str, ct.Series], size: int) -> None:
    method = Walking(rounds=1, size=size)
    there = ct.fit(method, engine="flower", server=consortium.server.folder, privacy=OFF, progress=False)
    assert there.digest == ct.fit(method, tables, progress=False).digest


def test_a_method_that_no_site_approves_is_refused(consortium: Consortium) -> None:
    with pytest.raises(EngineError, match=r"ash: Refused: this site approves Counting, FedMean, Walking, not FDBNL"):
        ct.fit(ct.FDBNL(), engine="flower", server=consortium.server.folder, privacy=OFF, progress=False)


def test_tables_cannot_be_given_and_the_server_must_be(consortium: Consortium, tables: dict[str, ct.Series]) -> None:
    with pytest.raises(ParameterError, match="sites hold their own tables"):
        ct.fit(Walking(), tables, engine="flower", server=consortium.server.folder)
    with pytest.raises(ParameterError, match="server's folder"):
        ct.fit(Walking(), engine="flower")


def test_a_run_stays_where_its_memories_are(tables: dict[str, ct.Series], tmp_path: Path) -> None:
    ct.fit(Walking(rounds=1), tables, run=tmp_path / "run", progress=False)
    with pytest.raises(RunError, match="on the engine inprocess"):
        ct.resume(tmp_path / "run", engine="flower", server=tmp_path)


def stranger(consortium: Consortium, folder: Path) -> Path:
    """A copy of a kit."""
    shutil.copytree(consortium.clients["ash"].kit, folder, ignore=shutil.ignore_patterns("home"))
    return folder


def wrongs(kit: Path) -> dict[str, str]:
    return {check.name: check.detail for check in SiteDaemon(kit).check() if not check.ok}


def test_a_key_that_was_never_let_in_is_refused(consortium: Consortium, tmp_path: Path) -> None:
    kit = stranger(consortium, tmp_path / "stranger")
    key = ec.generate_private_key(ec.SECP384R1())
    (kit / "keys" / "node.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    assert "never let in" in wrongs(kit)["key"]
    with pytest.raises(EngineError, match="cannot join"):
        SiteDaemon(kit).start()


def test_a_server_with_another_certificate_is_refused(consortium: Consortium, tmp_path: Path) -> None:
    provision(Federation(name="other", sites=("ash",)), tmp_path / "other")
    kit = stranger(consortium, tmp_path / "kit")
    shutil.copy(tmp_path / "other" / "server" / "ca.crt", kit / "ca.crt")
    found = wrongs(kit)
    assert "do not go on" in found["server"]
    with pytest.raises(EngineError, match="cannot join"):
        SiteDaemon(kit).start()


def test_a_site_that_is_well_says_so(consortium: Consortium) -> None:
    checks = list(consortium.clients["ash"].check())
    assert all(check.ok for check in checks)
    assert any("20 rows" in check.detail for check in checks)


def test_only_operators_get_past_the_sites_door(consortium: Consortium) -> None:
    context = ssl.create_default_context(cafile=str(consortium.server.folder / "ca.crt"))
    for path in ("v1/control/list-nodes", "v1/runtime/acquire-task", "docs", "openapi.json", "health"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"https://{consortium.server.local_address}/{path}", data=b"", context=context)
        assert refused.value.code == 403, path


def test_a_second_server_on_the_same_port_is_not_started(consortium: Consortium) -> None:
    with pytest.raises(EngineError, match="must not run twice"):
        consortium.server.start()


def test_the_command_line_runs_and_reports(consortium: Consortium, tmp_path: Path) -> None:
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(f'method = "FedMean"\n[engine]\nname = "flower"\nserver = "{consortium.server.folder}"\n')
    command = [
        str(Path(sys.executable).parent / "cotempo"),
        "run",
        str(experiment),
        "--run",
        str(tmp_path / "run"),
        "--json",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout
    assert (tmp_path / "run" / "report.html").is_file()
    mean = ct.load(tmp_path / "run" / "result").mean
    assert np.isfinite(mean).all()
