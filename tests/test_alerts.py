"""Alerts: off by default, by a command or a webhook, each once, without data and folders."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cotempo as ct
from cotempo.alerts import SILENT, Alerts, AlertSettings
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import ParameterError
from cotempo.runs.alarms import RunWatch, watched

KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + chr(10))"


def sent(path: Path) -> list[dict[str, Any]]:
    """What a command was told, once all threads that tell it have ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("Thread-") and not thread.daemon:
            thread.join()
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def to_file(tmp_path: Path) -> AlertSettings:
    return AlertSettings(command=(sys.executable, "-c", KEEP, str(tmp_path / "told")))


def test_nothing_is_sent_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alerts, "_send", lambda *_: pytest.fail("something was sent"))
    alerts = Alerts(SILENT, print)
    assert not alerts.are_on
    alerts.tell("run failed", "plants", "it failed")


def test_a_command_is_told_once_an_hour_until_it_is_over(
    to_file: AlertSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts = Alerts(to_file, pytest.fail)
    for _ in range(3):
        alerts.tell("site gone", "ash", "ash is gone\nand /more")
    assert [(one["kind"], one["about"], one["text"]) for one in sent(tmp_path / "told")] == [
        ("site gone", "ash", "ash is gone")
    ]
    alerts.over("site gone", "ash")
    alerts.tell("site gone", "ash", "again")
    assert len(sent(tmp_path / "told")) == 2
    later = time.monotonic() + 3601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    alerts.tell("site gone", "ash", "still")
    assert [one["text"] for one in sent(tmp_path / "told")][1:] == ["again", "still"]


def test_only_what_was_asked_for_is_told(to_file: AlertSettings, tmp_path: Path) -> None:
    alerts = Alerts(to_file.model_copy(update={"on": ("disk low",)}), pytest.fail)
    alerts.tell("run failed", "plants", "it failed")
    assert sent(tmp_path / "told") == []
    with pytest.raises(ParameterError, match="'disk low'"):
        AlertSettings.read({"on": ["disc low"]}, "alerts.toml")


@pytest.fixture
def hook() -> Iterator[tuple[str, list[Any]]]:
    """A webhook, and what was posted to it."""
    posted: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append((self.headers["content-type"], self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", posted
    server.shutdown()
    server.server_close()


def test_a_webhook_is_posted_to(hook: tuple[str, list[Any]], tmp_path: Path) -> None:
    address, posted = hook
    Alerts(AlertSettings(webhook=address), pytest.fail).tell("refused", "ash", "it refuses")
    sent(tmp_path / "none")
    ((kind, body),) = posted
    assert kind == "application/json"
    assert json.loads(body)["text"] == "it refuses"
    with pytest.raises(ParameterError, match="begins with https://"):
        AlertSettings(webhook="file:///etc/passwd")


def test_what_cannot_be_sent_is_noted_and_disturbs_nobody(tmp_path: Path) -> None:
    noted: list[str] = []
    Alerts(AlertSettings(command=(str(tmp_path / "missing"),)), noted.append).tell("refused", "ash", "it refuses")
    sent(tmp_path / "none")
    assert noted == ["an alert could not be sent: FileNotFoundError"]


def test_a_servers_folder_says_whom_to_tell(tmp_path: Path) -> None:
    assert FlowerSettings(server=str(tmp_path)).alerts() is SILENT
    (tmp_path / "alerts.toml").write_text('command = ["./tell"]\n')
    assert FlowerSettings(server=str(tmp_path)).alerts().command == ("./tell",)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run, as one that is at work leaves it."""
    clients, _ = ct.make_networks(variables=2, clients=2, samples=30)
    ct.FedMean().fit(clients, run=tmp_path / "plants", progress=False)
    return tmp_path / "plants"


def test_a_site_that_goes_and_one_that_refuses_are_told(run: Path, to_file: AlertSettings, tmp_path: Path) -> None:
    watch = RunWatch(run, Alerts(to_file, pytest.fail))
    watch.look()
    assert sent(tmp_path / "told") == []
    log = run / "log.jsonl"
    step = json.loads(log.read_text().splitlines()[-1])
    step["failures"] = [{"client": "client-1", "step": 2, "phase": "", "kind": "Refused", "detail": "not before May"}]
    log.write_text(log.read_text() + json.dumps({**step, "step": 2}) + "\n")
    now = json.loads((run / "now.json").read_text())
    del now["ended"]
    (run / "now.json").write_text(json.dumps({**now, "away": {"client-0": now["beat"]}}))
    watch.look()
    watch.look()
    assert {(one["kind"], one["about"]) for one in sent(tmp_path / "told")} == {
        ("site gone", "plants: client-0"), ("refused", "plants: client-1"),
    }  # fmt: skip
    assert len(sent(tmp_path / "told")) == 2


def test_a_full_disk_is_told(
    run: Path, to_file: AlertSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**8))
    RunWatch(run, Alerts(to_file, pytest.fail)).look()
    (told,) = sent(tmp_path / "told")
    assert (told["kind"], told["text"]) == ("disk low", "0.10 GB are left on the disk of plants")


def test_a_run_that_fails_is_told_by_name_without_its_folder(run: Path, to_file: AlertSettings, tmp_path: Path) -> None:
    with pytest.raises(ct.CotempoError), watched(run, to_file):
        raise ct.CotempoError(f"{run}/checkpoints must have room")
    (told,) = sent(tmp_path / "told")
    assert (told["kind"], told["about"]) == ("run failed", "plants")
    assert told["text"] == "CotempoError: checkpoints must have room"
