"""Holes that were found by attacking: memory bombs, links, modes, floods of logs and bodies."""

from __future__ import annotations

import asyncio
import gzip
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.engines.flower.coordinator.middleware import BodyLimit
from cotempo.engines.flower.protocol import Part, Verb
from cotempo.errors import DataError, MessageError, RunError
from cotempo.federation import EMPTY, Message, Question
from cotempo.federation.wire import question_from_bytes, question_to_bytes
from cotempo.runs.folder import RunFolder
from cotempo.storage.files import write_whole


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_an_array_that_is_referenced_often_is_refused_before_it_is_copied(kind: str) -> None:
    fields = {f"f{number}": {kind: "0"} for number in range(2000)}
    skeleton = {"dict": {"fields": {"dict": fields}, "weight": 1.0}}
    metadata = {"cotempo": json.dumps([1, skeleton])}
    bomb = safetensors.numpy.save({"0": np.zeros(140_000)}, metadata=metadata)
    with pytest.raises(MessageError, match="not a valid cotempo tree"):
        Message.from_bytes(bomb)


def test_a_small_file_that_expands_to_gigabytes_is_refused_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"time,x\n")
        for _ in range(70):
            file.write(b"1,1\n" * 2**18)
    assert path.stat().st_size < 2**19
    with pytest.raises(DataError, match=r"must not expand beyond 67,108,864 bytes.*decompress it first"):
        ct.read_series(path)


ESCAPE = "\x1b[2Jplant\x07"


def test_control_characters_reach_no_terminal_and_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cotempo.cli.main import main

    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("client,time," + ESCAPE + "\n" + "".join(f"a,{k},{k % 7}\n" for k in range(60)))
    fields = {ESCAPE: {"value": ESCAPE, "description": ""}}
    message = {"client": "a", "step": 1, "phase": ESCAPE, "bytes": 8, "weight": 1.0, "summed": False, "fields": fields}
    Path("run").mkdir()
    Path("run/messages.jsonl").write_text(json.dumps(message) + "\n")
    for words in (["check", "data.csv"], ["messages", "run", "--client", "a"], ["check", f"{ESCAPE}.csv"]):
        with pytest.raises(SystemExit):
            main(words)
        said = "".join(capsys.readouterr())
        assert "plant" in said
        assert not {"\x1b", "\x07"} & {*said}
    ash = PaperConsortium(tmp_path / "sites", ["ash"]).service("ash", ct.read_series("data.csv")["a"], methods=())
    ash.log(f"asked by {ESCAPE}\nand more")
    assert (ash.home / "site.log").read_text().endswith("asked by ?[2Jplant?\n  and more\n")


def test_a_name_is_no_formula_in_plots_and_reports(tmp_path: Path) -> None:
    tables, _ = ct.make_networks(variables=3, clients=3, samples=80, seed=0)
    names = (r"$\badcommand$", "$x", r"\frac{1}$")
    tables = {name: ct.Series.from_arrays(table.values, features=names) for name, table in tables.items()}
    fitted = ct.OneRound().fit(tables, progress=False)
    fitted.report(tmp_path / "page.html")
    assert "badcommand" in (tmp_path / "page.html").read_text()
    fitted.plot().savefig(tmp_path / "plot.png")


def test_names_and_texts_have_a_limit() -> None:
    with pytest.raises(MessageError, match="at most 256 letters, got 20000000"):
        Message({"x" * 20_000_000: 1.0})
    with pytest.raises(MessageError, match="phase must have at most 1000 letters"):
        question_from_bytes(question_to_bytes(Question(RUN, 1, 1, "x" * 2000, "ash", 0, 0, EMPTY, EMPTY)))


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    RunFolder.create(tmp_path / "run", {"name": "run", "method": "FedMean"}, {}).close()
    (tmp_path / "run" / "lock").unlink(missing_ok=True)
    (tmp_path / "run" / "lock").symlink_to(victim)
    with pytest.raises(RunError, match="it is a link"):
        RunFolder.reopen(tmp_path / "run")
    (tmp_path / "file").symlink_to(victim)
    write_whole(tmp_path / "file", b"other")
    assert victim.read_text() == "precious"


def test_runs_are_for_their_owner_only(tmp_path: Path) -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=60)
    ct.fit(ct.FedMean(), clients, run=tmp_path / "run", progress=False)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_site_keeps_is_for_its_owner_only_and_logs_are_short(tmp_path: Path) -> None:
    consortium = PaperConsortium(tmp_path, ("ash", "birch", "cedar"))
    table = ct.Series.from_arrays(np.random.default_rng(0).normal(size=(60, 2)))
    open_policy = {"secure_sum": False, "megabytes": 1e-5}
    service = consortium.service("ash", table, methods=("FedMean",), privacy=open_policy)
    parts = consortium.invite(method="FedMean", parameters={})
    assert Part.SCHEMA in service.handle(Verb.JOIN, parts)
    service.handle(Verb.AGREE, {Part.CONSENTS: consortium.sign(parts[Part.CONTRACT])})
    question = question_to_bytes(Question(RUN, 1, 1, "mean", "ash", 0, 0, EMPTY, EMPTY))
    answer = service.handle(Verb.ASK, {Part.QUESTION: question, Part.COMMON: EMPTY.to_bytes()})
    assert "sends at most 1e-05 megabytes" in answer[Part.REFUSED].decode()
    service.log("x" * 10**6)
    assert (service.home / "site.log").stat().st_size < 20_000
    for path in service.home.rglob("*"):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize(("announced", "sent"), [(b"2000", 1), (b"10", 200), (None, 200), (b"nonsense", 1)])
def test_a_large_body_is_refused_before_anything_is_stored(announced: bytes | None, sent: int) -> None:
    """Chunks of 10 bytes against a limit of 1,000, announced or not."""
    stored = 0
    answers: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal stored
        while (message := await receive()).get("more_body"):
            stored += len(message["body"])
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> dict[str, Any]:
        return {"body": b"x" * 10, "more_body": stored < 10 * sent}

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    headers = [] if announced is None else [(b"content-length", announced)]
    asyncio.run(BodyLimit(app, most=1000)({"type": "http", "headers": headers}, receive, send))
    assert answers[0]["status"] == 413
    assert stored <= 1000
