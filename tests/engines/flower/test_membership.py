"""A consortium's sites come, pause and leave; who takes part in a run is decided when it begins."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from consortium import Consortium, outcome
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.coordinator.engine import Flower
from cotempo.engines.flower.coordinator.membership import add_site, pause_site, remove_site
from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.enrolment import enrol
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import EngineError, ParameterError
from cotempo.runs.folder import read_experiment, read_lines

deployment = pytest.mark.xdist_group("deployment")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    provision(Federation(name="icu", sites=("ash", "birch", "cedar")), tmp_path / "made", with_keys=True)
    return Server(tmp_path / "made" / "server")


def names(server: Server) -> tuple[str, ...]:
    return FlowerSettings(server=str(server.folder)).client_names({})


def test_a_site_is_added_enrols_and_is_admitted(server: Server, tmp_path: Path) -> None:
    kit = zipfile.ZipFile(io.BytesIO(add_site(server, "dogwood")))
    assert not [name for name in kit.namelist() if "/keys/" in name]
    kit.extractall(tmp_path)
    assert (tmp_path / "dogwood" / "ca.crt").read_bytes() == server.authority
    assert names(server) == ("ash", "birch", "cedar")  # a kit alone lets nobody in
    again = Server(server.folder)
    again.admit(enrol(tmp_path / "dogwood")[1], lambda entry: None)
    assert names(server) == ("ash", "birch", "cedar", "dogwood")
    with pytest.raises(ParameterError, match="dogwood is in the consortium already"):
        add_site(again, "dogwood")
    with pytest.raises(ParameterError, match="letters, digits"):
        add_site(again, "../dogwood")


def test_a_site_that_was_removed_is_out_and_may_come_back(server: Server, tmp_path: Path) -> None:
    entry = server.book.sites["cedar"]
    remove_site(server, "cedar")
    assert names(server) == tuple(Server(server.folder).book.sites) == ("ash", "birch")
    with pytest.raises(ParameterError, match="one of the consortium's, ash, birch, got cedar"):
        Server(server.folder).admit(entry, lambda entry: None)
    add_site(server, "cedar")
    server.admit(entry, lambda entry: None)
    assert names(server) == ("ash", "birch", "cedar")
    with pytest.raises(ParameterError, match="ash, birch, cedar, got elm"):
        remove_site(server, "elm")
    for name in ("ash", "birch"):
        remove_site(server, name)
    with pytest.raises(ParameterError, match="cedar is its last"):
        remove_site(server, "cedar")


def test_a_paused_site_is_left_out_of_new_runs_and_not_taken_where_it_is_named(server: Server) -> None:
    pause_site(server, "birch", paused=True)
    assert names(server) == ("ash", "cedar")
    named = FlowerSettings(server=str(server.folder), participants=("ash", "birch", "cedar"))
    with pytest.raises(EngineError, match="must not be paused, birch is"):
        Flower(Walking(), named, run="0" * 32, seed=0)
    pause_site(server, "birch", paused=False)
    assert names(server) == ("ash", "birch", "cedar")


@deployment
@pytest.mark.slow
def test_pausing_and_adding_sites_disturbs_no_run(
    consortium: Consortium, tables: dict[str, ct.Series], tmp_path: Path
) -> None:
    server = consortium.server
    parameters = {"rounds": 4, "gate": str(consortium.gate)}
    for name in ("ash", "birch", "cedar"):  # all are in the middle of the second step
        consortium.hold(name, 2)
    process = consortium.coordinate("run", tmp_path / "run", parameters=parameters, seed=3)
    consortium.wait_held("cedar", 2)
    try:
        pause_site(server, "cedar", paused=True)
        add_site(server, "dogwood")
        server.sync_sites()
        consortium.release()
        ended = outcome(process)
        asked = [[*record["sent"]] for record in read_lines(tmp_path / "run" / "log.jsonl")]
        assert asked == [["ash", "birch", "cedar"]] * 2 + [["ash", "birch"]] * 2
        assert ended["failures"] == []
        assert read_experiment(tmp_path / "run")["engine"]["participants"] == ["ash", "birch", "cedar"]
    finally:
        pause_site(server, "cedar", paused=False)
        remove_site(server, "dogwood")
