"""The commands about a consortium's members and runs, without a server that runs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from commands import Command

pytest.importorskip("flwr", reason="needs cotempo[flower]")

from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.settings import SiteSettings


@pytest.fixture
def server(tmp_path: Path) -> Path:
    provision(Federation(name="icu", sites=("ash", "birch", "cedar")), tmp_path / "icu", with_keys=True)
    return tmp_path / "icu" / "server"


def test_a_site_is_added_unpacked_and_enrols_with_its_table(cotempo: Command, server: Path, tmp_path: Path) -> None:
    assert cotempo("server", "add", server, "dogwood", "--json").record == {"site": "dogwood", "kit": "dogwood.zip"}
    zipfile.ZipFile("dogwood.zip").extractall(tmp_path)
    said = cotempo("client", "enrol", "dogwood", "--data", "missing.csv")
    assert said.code == 2
    assert "missing.csv is not there" in said.err
    (tmp_path / "pulse.csv").write_text("time,x\n0,1\n")
    assert cotempo("client", "enrol", "dogwood", "--data", "pulse.csv").code == 0
    assert SiteSettings.from_kit(tmp_path / "dogwood").data == str(tmp_path / "pulse.csv")


def test_several_sites_are_admitted_only_by_comparing_the_words_of_each(
    cotempo: Command, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("elm", "fir"):
        cotempo("server", "add", server, name)
        zipfile.ZipFile(f"{name}.zip").extractall()
        cotempo("client", "enrol", name)
    files = [f"{name}/{name}.enrolment.json" for name in ("elm", "fir")]
    said = cotempo("server", "admit", server, *files, "--fingerprint", "some words")
    assert said.code == 2
    assert "one file, got 2" in said.err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\nn\n"))
    said = cotempo("server", "admit", server, *files)
    assert said.code == 6
    assert "the keys of fir must not be taken unless the words agree" in said.err
    assert {path.stem for path in (server / "sites").iterdir()} == {"ash", "birch", "cedar", "elm"}


def test_the_queue_in_words_and_for_machines(cotempo: Command, server: Path, tmp_path: Path) -> None:
    assert cotempo("server", "queue", server).out == "The queue is empty.\n"
    key = cotempo("server", "key", "anna", "--json").record
    (server / "people.toml").write_text(key["line"])
    Path("means.toml").write_text('name = "means"\nmethod = "FedMean"\n')
    said = cotempo("server", "queue", server, "means.toml")
    assert said.code == 2
    assert "must be signed by anna; name the key with --key" in said.err
    said = cotempo("server", "queue", server, "means.toml", "--key", "nobody.key")
    assert said.code == 2
    assert "must be a key that cotempo server key wrote" in said.err
    assert cotempo("server", "queue", server, "--json").record == {"queue": []}
    assert "none, got 7" in cotempo("server", "cancel", server, 7).err


def test_status_says_who_is_not_joined(cotempo: Command, server: Path, tmp_path: Path) -> None:
    said = cotempo("server", "status", server)
    assert said.code == 6
    assert "start it with: cotempo server start" in said.err
    zipfile.ZipFile(server.parent / "kits" / "ash.zip").extractall()
    (tmp_path / "ash" / "site.toml").write_text((tmp_path / "ash" / "site.toml").read_text().replace('""', '"x.csv"'))
    cotempo("client", "pause", "ash")
    said = cotempo("client", "status", "ash")
    assert said.code == 6
    assert said.out.splitlines()[:5] == [
        "ash is not joined; join with: cotempo client start ash",
        "  its people have paused it; to answer again: cotempo client pause ash --off",
        "  runs: 0",
        "  left: 0 bytes in 0 messages",
        "  epsilon spent: none",
    ]
    record = cotempo("client", "status", "ash", "--json").record
    assert (record["paused"], record["epsilon"], record["budget"]) == (True, {}, None)
