"""Every command: what it prints, what it writes, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import EXPERIMENT, Command

import cotempo as ct
from cotempo.cli import main
from cotempo.errors import CotempoError, DataError, ParameterError, QuorumError, RunError, SchemaError
from cotempo.runs.folder import RunFolder


def test_there_and_back(cotempo: Command, made: Path, tmp_path: Path) -> None:
    checked = cotempo("check", "data/networks.csv", "--json")
    assert checked.code == 0
    assert checked.record
    ran = cotempo("run", made, "--json")
    assert ran.code == 0
    assert ran.record["method"] == "FedMean"
    assert ran.record["clients"] == 3
    page = tmp_path / "runs" / "first" / "report.html"
    before = page.read_bytes()
    assert cotempo("report", "runs/first", "--json").record == {"report": "runs/first/report.html"}
    assert page.read_bytes() == before
    assert cotempo("report", "runs/first", "--out", "else/where.html").code == 0
    assert (tmp_path / "else" / "where.html").read_bytes() == before
    assert cotempo("run", made, "--run", "runs/second").code == 0
    assert cotempo("report", "runs/first", "runs/second", "--json").record == {"report": "comparison.html"}
    assert "Against first" in (tmp_path / "comparison.html").read_text()
    twice = cotempo("report", "runs/first", "runs/first")
    assert twice.code == 2
    assert "must be different folders" in twice.err
    resumed = cotempo("resume", "runs/first", "--json")
    assert resumed.code == 0
    assert resumed.record["digest"] == ran.record["digest"]
    clients, _ = ct.make_networks(variables=2, clients=3, samples=40, seed=5)
    assert ct.FedMean().fit(clients).digest == ran.record["digest"]


def test_messages_show_everything_a_client_sent(cotempo: Command, made: Path, tmp_path: Path) -> None:
    cotempo("run", made, "--quiet")
    client = sorted(json.loads((tmp_path / "runs/first/clients.json").read_text())["clients"])[0]
    said = cotempo("messages", "runs/first", "--client", client)
    assert said.code == 0
    assert f"{client} sent 2 messages" in said.out
    assert "the mean of each variable over your complete rows" in said.out
    assert "only their sum over clients is used" in said.out
    record = cotempo("messages", "runs/first", "--client", client, "--json").record
    assert [message["phase"] for message in record["messages"]] == ["mean", "compare"]
    assert cotempo("messages", "runs/first", "--client", client, "--quiet").out == ""
    unknown = cotempo("messages", "runs/first", "--client", "nobody")
    assert unknown.code == 5
    assert f"client must be one of {client}" in unknown.err


def test_a_dry_run_shows_and_sends_nothing(cotempo: Command, made: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    said = cotempo("run", made, "--dry-run")
    assert said.code == 0
    assert "client-0, client-1, client-2 would each send 2 messages and 72 bytes, 216 bytes together." in said.out
    assert "Phase 'mean': 1 message of 24 bytes a client; only the sum over clients is used." in said.out
    assert "Phase 'compare': 1 message" in said.out
    assert "the mean of each variable over your complete rows" in said.out
    record = cotempo("run", made, "--dry-run", "--json").record
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    cotempo("run", made)
    for client, size in record["bytes"].items():
        sent = cotempo("messages", "runs/first", "--client", client, "--json").record["messages"]
        assert sum(message["bytes"] for message in sent) == size


def test_quiet_is_silent(cotempo: Command, made: Path) -> None:
    commands = [
        ("check", "data/networks.csv"),
        ("run", made, "--dry-run"),
        ("run", made),
        ("resume", "runs/first"),
        ("report", "runs/first"),
        ("make-data", "series", "--out", "more", "--set", "clients=2"),
    ]
    for command in commands:
        assert cotempo(*command, "--quiet") == (0, "", ""), command


def test_people_are_told_what_came_out(cotempo: Command, made: Path) -> None:
    said = cotempo("run", made)
    assert said.code == 0
    assert "FedMean: 3 clients, 1 round, " in said.out
    assert "joining " in said.out
    assert "Report: runs/first/report.html" in said.out
    assert said.err == ""


def test_brackets_in_names_are_printed_as_they_are(cotempo: Command, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("client,time,[bold]x\n[red]a,0,1\n[red]a,1,2\n")
    (tmp_path / "experiment.toml").write_text(EXPERIMENT.replace('"data/networks.csv"', '"table.csv"'))
    said = cotempo("run", "experiment.toml", "--dry-run")
    assert said.code == 0
    assert "[red]a would send" in said.out


# Exit codes.


def test_usage_and_parameters_give_2(cotempo: Command, made: Path) -> None:
    wrong = [
        ("bogus",),
        ("run",),
        ("run", made, "--bogus"),
        ("run", "nowhere.toml"),
        ("check", "data/networks.csv", "--kind", "picture"),
        ("make-data", "pictures", "--out", "x"),
        ("make-data", "networks", "--out", "x", "--set", "variables"),
        ("make-data", "networks", "--out", "x", "--set", "variable=3"),
        ("make-data", "networks", "--out", "x", "--set", "variables=0"),
        ("make-data", "networks", "--out", "x", "--seed", -1),
        ("make-data", "networks", "--out", "x", "--seed", "one"),
        ("messages", "runs/first"),
    ]
    for arguments in wrong:
        said = cotempo(*arguments)
        assert said.code == 2, arguments
        assert said.out == "", arguments
        assert said.err, arguments
        assert "Traceback" not in said.err, arguments
    made.write_text(EXPERIMENT.replace("name =", "nam ="))
    assert "did you mean 'name'" in cotempo("run", made).err


def test_bad_data_give_3(cotempo: Command, made: Path, tmp_path: Path) -> None:
    assert cotempo("check", "nowhere.csv", "--kind", "series").code == 3
    assert cotempo("check", "nowhere.csv").code == 3
    (tmp_path / "ragged.csv").write_text("client,time,x\na,0,1\na,1\n")
    said = cotempo("check", "ragged.csv")
    assert said.code == 3
    assert "row" in said.err
    made.write_text(EXPERIMENT.replace('"data/networks.csv"', '"ragged.csv"'))
    assert cotempo("run", made).code == 3
    assert not (tmp_path / "runs" / "first").exists()


def test_data_a_method_cannot_use_give_3_and_leave_the_folder_free(
    cotempo: Command, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "table.csv").write_text("client,time,x\na,0,\na,1,\nb,0,1\n")
    made.write_text(EXPERIMENT.replace('"data/networks.csv"', '"table.csv"'))
    said = cotempo("run", made)
    assert said.code == 3
    assert "client a" in said.err
    (tmp_path / "table.csv").write_text("client,time,x\na,0,2\nb,0,1\n")
    assert cotempo("run", made).code == 0


def test_below_quorum_gives_4_and_resuming_0(cotempo: Command, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("a secret of a client")

    with monkeypatch.context() as patch:
        patch.setattr(ct.FedMean, "answer", fail)
        said = cotempo("run", made)
        assert said.code == 4
        assert "3 clients asked must answer, 0 did" in said.err
        assert "RuntimeError" in said.err
        assert "secret" not in said.err
        assert cotempo("resume", "runs/first").code == 4
    assert cotempo("resume", "runs/first").code == 0


def test_a_folder_that_cannot_be_used_gives_5(cotempo: Command, made: Path, tmp_path: Path) -> None:
    assert cotempo("run", made, "--quiet").code == 0
    folder = RunFolder.reopen(tmp_path / "runs" / "first")
    wrong = [
        ("run", made),
        ("run", made, "--run", "data"),
        ("resume", "runs/first"),
        ("resume", "data"),
        ("resume", "nowhere"),
        ("report", "data"),
        ("messages", "nowhere", "--client", "a"),
        ("make-data", "series", "--out", "data"),
    ]
    for arguments in wrong:
        said = cotempo(*arguments)
        assert (said.code, said.out) == (5, ""), arguments
        assert said.err.startswith("error: "), arguments
    folder.close()


def test_changed_data_give_3_on_resume(cotempo: Command, made: Path, tmp_path: Path) -> None:
    cotempo("run", made, "--quiet")
    file = tmp_path / "data" / "networks.csv"
    file.write_text(file.read_text().replace("0.", "0.0", 1))
    said = cotempo("resume", "runs/first")
    assert said.code == 3
    assert "started on" in said.err


def test_errors_for_machines_are_one_object(cotempo: Command, made: Path) -> None:
    for arguments, kind, code in [
        (("run", "nowhere.toml"), "ParameterError", 2),
        (("check", "nowhere.csv", "--kind", "series"), "DataError", 3),
        (("resume", "data"), "RunError", 5),
    ]:
        said = cotempo(*arguments, "--json")
        assert said.code == code
        assert said.record["error"] == kind
        assert said.record["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParameterError("x"), 2), (DataError("x"), 3), (SchemaError("x"), 3), (QuorumError("x"), 4),
        (RunError("x"), 5), (CotempoError("x"), 1), (KeyboardInterrupt(), 130),
    ],
)  # fmt: skip
def test_every_kind_of_error_has_its_code(
    cotempo: Command, made: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("cotempo.runs.run.run", fail)
    assert cotempo("run", made).code == code


def test_an_unexpected_error_is_not_hidden(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("cotempo.runs.run.run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["run", str(made)])


def test_version_and_help(cotempo: Command) -> None:
    assert cotempo("--version") == (0, f"cotempo {ct.__version__}\n", "")
    said = cotempo("--help")
    assert said.code == 0
    for word in ("demo", "run", "resume", "report", "check", "make-data", "messages", "Exit codes"):
        assert word in said.out
    for command in ("run", "resume", "report", "check", "make-data", "messages", "demo"):
        assert cotempo(command, "--help").code == 0


def test_make_data_writes_what_the_generator_makes(cotempo: Command, tmp_path: Path) -> None:
    said = cotempo("make-data", "events", "--out", "made", "--seed", 3, "--set", "clients=2", "--json")
    assert said.code == 0
    assert said.record["clients"] == 2
    assert all((tmp_path / path).is_file() for path in said.record["files"])
    table = said.record["files"][0]
    found = ct.read_events(tmp_path / table)
    expected, _ = ct.make_events(clients=2, seed=3)
    assert sorted(found) == sorted(expected)
    assert {name: len(table) for name, table in found.items()} == {name: len(table) for name, table in expected.items()}


def test_the_demo_ends_with_a_page(cotempo: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cotempo.cli import demo

    def small(progress: bool | None) -> tuple[Any, Any, str]:
        clients, truth = ct.make_networks(variables=3, clients=2, samples=60, seed=1)
        return ct.FDBNL(rounds=2).fit(clients, progress=progress), truth, "networks  FDBNL: done"

    monkeypatch.setattr(demo, "FAMILIES", {"networks": small})
    said = cotempo("demo", "--out", "page")
    assert said.code == 0
    assert "networks  FDBNL: done" in said.out
    assert "against the true one" in (tmp_path / "page" / "report.html").read_text()
