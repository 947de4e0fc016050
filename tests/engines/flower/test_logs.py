"""The policy of logs: what a run writes for log collectors holds no data, no names of columns, no paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_channel import PaperDeployment, Release
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.coordinator import engine
from cotempo.engines.flower.coordinator.membership import pause_site
from cotempo.errors import EngineError
from cotempo.privacy.orders import make_key
from cotempo.runs.folder import read_lines

HERE = Release("1.0.0", (4, 4))
COLUMNS = ("glucose", "lactate")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperDeployment:
    """Three sites that log JSON, with values around 4711."""
    values = 4711 + np.random.default_rng(0).normal(size=(3, 20, 2)).round(3)
    tables = {
        name: ct.Series.from_arrays(part, features=COLUMNS)
        for name, part in zip(("ash", "birch", "cedar"), values, strict=True)
    }
    made = PaperDeployment(tmp_path / "made", tables, dict.fromkeys(tables, HERE))
    for name in tables:
        path = made.consortium.clients[name].kit / "site.toml"
        path.write_text(path.read_text().replace('log = "text"', 'log = "json"'))
        made.restart(name, HERE)
    monkeypatch.setattr(engine, "ServerTask", lambda server, run: made.channel)
    return made


def fit(made: PaperDeployment, run: Path, method: Any = None, **options: Any) -> Any:
    method = method or Walking(rounds=3, gate=str(made.consortium.gate))
    with HERE.running():
        return ct.fit(
            method, engine="flower", server=made.consortium.server.folder, run=run, seed=7,
            privacy=ct.Privacy(secure_sum=False), progress=False, **options,
        )  # fmt: skip


def home(made: PaperDeployment, name: str) -> Path:
    return made.consortium.clients[name].kit / "home"


def test_logs_say_what_happened_without_data_columns_and_paths(made: PaperDeployment, tmp_path: Path) -> None:
    (made.consortium.gate / "starve-birch-2").touch()
    fit(made, tmp_path / "run")  # birch runs out of memory in its second step
    with pytest.raises(EngineError, match=r"approves .*Walking"):
        fit(made, tmp_path / "other", ct.FedMean())
    table = made.consortium.clients["cedar"].kit / "data.csv"
    table.write_text(f"time,{','.join(COLUMNS)}\n0,secret-4711,1\n1,2,3\n")
    with pytest.raises(EngineError, match="cedar: DataError"):
        fit(made, tmp_path / "third")
    logs = {name: (home(made, name) / "site.log").read_text() for name in made.channel.services}
    events = {name: [json.loads(line)["event"] for line in log.splitlines()] for name, log in logs.items()}
    assert events["ash"] == ["joined", "ended", "refused", "joined"]
    assert events["birch"] == ["joined", "failed", "ended", "refused", "joined"]
    assert events["cedar"] == ["joined", "ended", "refused", "failed"]
    written = "".join([*logs.values(), (tmp_path / "run" / "errors.log").read_text()])
    for secret in ("4711", "4710", "4712", *COLUMNS, str(tmp_path), str(Path.home())):
        assert secret not in written
    assert "secret-4711" in (home(made, "cedar") / "errors.log").read_text()  # for the site's own people


def test_a_paused_site_is_not_asked_and_its_run_goes_on(made: PaperDeployment, tmp_path: Path) -> None:
    handle, server = made.channel.push, made.consortium.server

    def push(envelopes: Any, seconds: float) -> Any:
        if len(made.channel.spoken) == 3 and read_lines(tmp_path / "run" / "log.jsonl"):  # from the second step on
            pause_site(server, "cedar", paused=True)
        return handle(envelopes, seconds)

    made.channel.push = push  # type: ignore[method-assign]
    fit(made, tmp_path / "run")
    asked = [[*record["sent"]] for record in read_lines(tmp_path / "run" / "log.jsonl")]
    assert asked == [["ash", "birch", "cedar"], ["ash", "birch", "cedar"], ["ash", "birch"]]


def test_where_people_are_listed_nobody_else_starts_a_run(made: PaperDeployment, tmp_path: Path) -> None:
    people = made.consortium.server.folder / "people.toml"
    people.write_text(f'anna = "{make_key("anna", tmp_path / "anna.key")}"\n')
    with pytest.raises(EngineError, match="started by anna only; sign yours"):
        fit(made, tmp_path / "run")
    assert not (home(made, "ash") / "site.log").exists()  # no site was asked
