"""A site's desk: what it allows, what it keeps, what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import walking

import cotempo as ct
from cotempo.data import write_clients
from cotempo.engines.flower.desk import Desk, SiteSettings, from_json, schema_from, to_json
from cotempo.errors import MessageError, ParameterError
from cotempo.federation import EMPTY, Message, Question
from cotempo.federation.site import question_to_bytes, reply_from_bytes

RUN = "0123456789abcdef" * 2
INVITATION: dict[str, Any] = {
    "run": RUN, "seed": 3, "method": "Walking", "clients": 3, "privacy": {},
    "parameters": walking.Walking().model_dump(mode="json"),
}  # fmt: skip


def make_desk(folder: Path, **settings: Any) -> Desk:
    table = ct.Series.from_arrays(np.arange(40.0).reshape(20, 2))
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "data.csv").exists():
        write_clients({"ash": table}, folder / "data.csv")
    known = {"name": "ash", "server": "h:1", "data": str(folder / "data.csv"), "methods": ("Walking",), **settings}
    return Desk(SiteSettings(**known), folder / "home")


def ask(desk: Desk, step: int = 1, mean: float = 0.0, base: int = 0) -> dict[str, bytes]:
    question = Question(RUN, step, step, "walk", "ash", base, 0, EMPTY, EMPTY)
    common = Message({"mean": np.full(8, mean)}).to_bytes()
    return desk.handle("ask", {"question": question_to_bytes(question), "common": common})


def join(desk: Desk, **changes: Any) -> dict[str, bytes]:
    return desk.handle("join", {"invitation": to_json({**INVITATION, **changes})})


def why(parts: dict[str, bytes]) -> str:
    return str(from_json(parts["refused"])["why"])


def test_it_says_what_its_table_looks_like(tmp_path: Path) -> None:
    schema = schema_from(from_json(join(make_desk(tmp_path))["joined"])["schema"])
    assert schema == ct.Series.from_arrays(np.zeros((2, 2))).schema


def test_a_method_that_is_not_approved_is_refused(tmp_path: Path) -> None:
    assert why(join(make_desk(tmp_path, methods=("FDBNL",)))) == "this site approves FDBNL, not Walking"
    assert "no method" in why(join(make_desk(tmp_path, methods=())))


@pytest.mark.parametrize(
    ("floor", "promised", "must"),
    [
        ({"minimum_rows": 21}, {}, "once its table has 21 rows"),
        ({"minimum_clients": 4}, {}, "at least 4 clients, there are 3"),
        ({"epsilon": 3.0}, {}, "at most 3, none is promised"),
        ({"epsilon": 3.0}, {"epsilon": 8.0}, "at most 3, 8 is promised"),
    ],
)
def test_the_privacy_floor_holds(tmp_path: Path, floor: dict[str, Any], promised: dict[str, Any], must: str) -> None:
    assert must in why(join(make_desk(tmp_path, privacy=floor), privacy=promised))
    assert not (tmp_path / "home" / "runs").exists()


def test_a_floor_that_is_met_lets_in(tmp_path: Path) -> None:
    desk = make_desk(tmp_path, privacy={"minimum_rows": 20, "minimum_clients": 3, "epsilon": 3.0})
    assert "joined" in join(desk, privacy={"epsilon": 3.0})


def test_a_run_it_was_not_invited_to_gets_nothing(tmp_path: Path) -> None:
    assert "not invited" in why(ask(make_desk(tmp_path)))


def test_the_same_question_gets_the_stored_answer_also_after_a_restart(tmp_path: Path) -> None:
    desk = make_desk(tmp_path)
    join(desk)
    first = ask(desk)["reply"]
    assert ask(desk)["reply"] == first
    again = make_desk(tmp_path)
    assert ask(again)["reply"] == first
    other = reply_from_bytes(ask(again, mean=1.0)["reply"])
    assert other.failure is not None
    assert "another content" in other.failure.detail


def test_memory_is_found_again_after_a_restart(tmp_path: Path) -> None:
    straight, broken = make_desk(tmp_path / "a"), make_desk(tmp_path / "b")
    for desk in (straight, broken):
        join(desk)
        ask(desk)
    wanted = reply_from_bytes(ask(straight, step=2, base=1)["reply"]).message
    found = reply_from_bytes(ask(make_desk(tmp_path / "b"), step=2, base=1)["reply"]).message
    assert found is not None
    assert found == wanted


def test_a_table_that_changed_is_refused(tmp_path: Path) -> None:
    join(make_desk(tmp_path))
    write_clients({"ash": ct.Series.from_arrays(np.ones((20, 2)))}, tmp_path / "data.csv")
    assert "has changed" in why(join(make_desk(tmp_path)))


@pytest.mark.parametrize(
    "change", [{"seed": 4}, {"parameters": {"rounds": 9}}, {"method": "FedMean", "parameters": {}}]
)
def test_a_run_cannot_change_its_mind(tmp_path: Path, change: dict[str, Any]) -> None:
    desk = make_desk(tmp_path, methods=("Walking", "FedMean"))
    join(desk)
    assert "begun with" in why(join(desk, **change))
    assert "joined" in join(desk)


def test_a_site_may_hold_a_table_of_each_kind(tmp_path: Path) -> None:
    make_desk(tmp_path)  # writes the table
    sources = {"series": str(tmp_path / "data.csv")}
    desk = make_desk(tmp_path, data=sources, methods=("Walking", "FedPP"))
    assert "joined" in join(desk)
    events = {"run": "f" * 32, "method": "FedPP", "parameters": {}}
    assert why(join(desk, **events)) == "this site has no table of events"


def test_windows_beside_the_events_are_read(tmp_path: Path) -> None:
    clients, _ = ct.make_events(clients=1, sequences=3, seed=2)
    (table,) = clients.values()
    write_clients({"ash": table}, tmp_path / "stays.csv")
    desk = make_desk(tmp_path, data={"events": str(tmp_path / "stays.csv")})
    assert desk.read_table("events").fingerprint() == table.fingerprint()


def test_errors_leave_by_class_name_only(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("time,x\n0,secret-4711\n1,2\n")
    parts = join(make_desk(tmp_path))
    assert parts.keys() == {"failed"}
    assert from_json(parts["failed"]) == {"kind": "DataError"}
    assert "DataError" in (tmp_path / "home" / "site.log").read_text()


@pytest.mark.parametrize(
    ("verb", "parts"),
    [
        ("shell", {}),
        ("join", {}),
        ("join", {"invitation": b"[]"}),
        ("join", {"invitation": b"\xff"}),
        ("join", {"invitation": to_json({**INVITATION, "run": "../../etc"})}),
        ("join", {"invitation": to_json({**INVITATION, "method": "NoSuch"})}),
        ("join", {"invitation": to_json({**INVITATION, "parameters": {"rounds": "many"}})}),
        ("ask", {"question": b"", "common": b""}),
        ("result", {"about": to_json({"run": RUN, "version": 0}), "state": b"junk"}),
    ],
)
def test_nonsense_is_answered_and_costs_nothing(tmp_path: Path, verb: str, parts: dict[str, bytes]) -> None:
    answer = make_desk(tmp_path).handle(verb, parts)
    assert answer.keys() <= {"failed", "refused"}
    assert not (tmp_path / "home" / "runs").exists()


def test_what_left_is_written_down(tmp_path: Path) -> None:
    desk = make_desk(tmp_path)
    join(desk)
    ask(desk)
    lines = (tmp_path / "home" / "runs" / RUN / "messages.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    assert (record["client"], record["step"], record["phase"]) == ("ash", 1, "walk")
    assert record["fields"]["position"]["shape"] == [8]


def test_a_site_may_have_a_secret_seed(tmp_path: Path) -> None:
    own, shared = make_desk(tmp_path / "a", random={"seed": 99}), make_desk(tmp_path / "b")
    for desk in (own, shared):
        join(desk)
    assert ask(own)["reply"] != ask(shared)["reply"]


@pytest.mark.parametrize(
    ("text", "must"),
    [
        ('name = "a"', "server"),
        ('name="a"\nserver="h:1"\ndata="d"\nmethods=[]\nmetods=1', "did you mean 'methods'"),
        ('name="a"\nserver="h:1"\ndata="d"\nmethods=[]\n[privacy]\nminimum_row=1', "did you mean 'minimum_rows'"),
        ('name="a"\nserver="h:1"\ndata="d"\nmethods=[]\n[privacy]\nminimum_rows=-1', "greater than or equal to 0"),
    ],
)
def test_a_wrong_site_file_is_refused_in_plain_words(tmp_path: Path, text: str, must: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ParameterError, match=must):
        SiteSettings.read(tmp_path)


def test_a_schema_from_elsewhere_is_checked() -> None:
    with pytest.raises(MessageError):
        schema_from({"kind": "series", "columns": [1], "unit": ""})
    with pytest.raises(MessageError):
        schema_from({})


def test_a_gpu_is_used_only_where_the_site_allows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = {**INVITATION["parameters"], "device": "cuda"}
    assert why(join(make_desk(tmp_path), parameters=parameters)) == "this site computes on cpu, not on cuda"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    allowed = make_desk(tmp_path, devices=("cpu", "cuda"))
    assert "has no GPU" in why(join(allowed, parameters=parameters))
