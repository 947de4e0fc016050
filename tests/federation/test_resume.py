"""Runs that are killed, run out of disk or find damage end in the same bits as runs that never stopped."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import Walk, make_clients

import cotempo as ct
from cotempo.cli import main
from cotempo.data import Series
from cotempo.errors import DataError, ParameterError, QuorumError, RunError
from cotempo.networks.fitted import FittedNetwork
from cotempo.runs.folder import RunFolder, read_lines

EXPERIMENT = """
name = "killed"
method = "FDBNL"
seed = 3
cohort = {size = 2, period = 2}
[data]
generate = "networks"
options = {variables = 3, clients = 3, samples = 90, seed = 1}
[FDBNL]
rounds = ROUNDS
tolerance = 1e-12
"""
CLIENTS = make_clients(3)
NETWORKS, _ = ct.make_networks(variables=3, clients=3, samples=90, seed=1)
FIRST, SECOND, *_ = sorted(NETWORKS)


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than everything else here."""
    monkeypatch.setattr(FittedNetwork, "figures", lambda self, truth=None: {})
    monkeypatch.setattr("cotempo.report.content.plot_progress", lambda history: None)


def cotempo(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a command in this process and return its JSON object."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments), "--json"])
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert end.value.code == 0, record
    return record


def kill(jobs: list[tuple[list[str], int, str]]) -> list[int]:
    """Run commands in processes that kill themselves; return their exit codes."""
    script = Path(__file__).parent / "killer.py"
    ended = subprocess.run(
        [sys.executable, script], input=json.dumps(jobs), capture_output=True, text=True, check=True, timeout=300
    )
    codes: list[int] = json.loads(ended.stdout)
    return codes


def killed_and_resumed(
    folder: Path, rounds: int, points: list[tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "experiment.toml"
    file.write_text(EXPERIMENT.replace("ROUNDS", str(rounds)))
    whole = cotempo("run", file, "--run", folder / "whole", capsys=capsys)
    log = read_lines(folder / "whole" / "log.jsonl")
    assert len(log) >= max(step for step, _ in points)
    runs = [folder / f"{step}-{point}" for step, point in points]
    jobs = [
        (["run", str(file), "--run", str(run), "--quiet"], step, point)
        for run, (step, point) in zip(runs, points, strict=True)
    ]
    assert kill(jobs) == [-signal.SIGKILL] * len(jobs)
    for run, (step, point) in zip(runs, points, strict=True):
        assert not (run / "result").exists()
        resumed = cotempo("resume", run, capsys=capsys)
        assert resumed["digest"] == whole["digest"], f"killed {point} saving step {step}"
        assert (run / "result" / "state.safetensors").read_bytes() == (
            folder / "whole" / "result" / "state.safetensors"
        ).read_bytes()
        assert resumed["benefit"] == whole["benefit"]
        steps = [record["step"] for record in read_lines(run / "log.jsonl")]
        assert steps == list(range(1, len(log) + 1))


def test_killed_at_three_steps_a_run_resumes_to_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_and_resumed(tmp_path, 3, [(1, "before"), (4, "middle"), (7, "after")], capsys)


@pytest.mark.slow
def test_killed_at_twenty_steps_a_run_resumes_to_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [(step, ("before", "middle", "after")[step % 3]) for step in range(1, 21)]
    killed_and_resumed(tmp_path, 10, points, capsys)


# The same in one process, on a toy.


def pause(run: Path, step: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Begin a run and stop it, with Ctrl-C, once a step is saved."""
    save = RunFolder.checkpoint

    def checkpoint(self: RunFolder, checkpoint: Any) -> None:
        save(self, checkpoint)
        if checkpoint.step == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "checkpoint", checkpoint)
        with pytest.raises(KeyboardInterrupt):
            ct.fit(ct.FDBNL(rounds=3), NETWORKS, run=run, **options)


def test_a_run_in_a_folder_holds_no_records_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, held = RunFolder.checkpoint, []

    def checkpoint(self: RunFolder, checkpoint: Any) -> None:
        save(self, checkpoint)
        held.append(sum(type(one) is dict and {"time", "received"} <= one.keys() for one in gc.get_objects()))

    monkeypatch.setattr(RunFolder, "checkpoint", checkpoint)
    fitted = ct.fit(ct.FDBNL(rounds=3), NETWORKS, run=tmp_path / "run")
    assert len(fitted.history) == len(held) - 1 > 3  # one before the first step
    assert max(held) == held[0]


@pytest.fixture(scope="module")
def digest() -> str:
    """The digest of the run that never stopped."""
    found: str = ct.fit(ct.FDBNL(rounds=3), NETWORKS).digest
    return found


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: b"", lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:]],
    ids=["cut", "empty", "one bit"],
)
def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str, damage: Callable[[bytes], bytes]
) -> None:
    pause(tmp_path / "run", 4, monkeypatch)
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(UserWarning, match=r"step-000000004.safetensors is damaged; continuing from the one before it"):
        fitted = ct.resume(tmp_path / "run", NETWORKS)
    assert fitted.digest == digest


def test_with_all_checkpoints_damaged_the_run_names_them_and_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause(tmp_path / "run", 4, monkeypatch)
    paths = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))
    for path in paths:
        path.write_bytes(b"damaged")
    with pytest.raises(RunError, match=", ".join(path.name for path in paths)):
        ct.resume(tmp_path / "run", NETWORKS)
    assert [path.read_bytes() for path in paths] == [b"damaged"] * 2


def test_a_whole_checkpoint_of_another_method_is_refused_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause(tmp_path / "run", 2, monkeypatch)
    file = tmp_path / "run" / "experiment.toml"
    file.write_text('name = "run"\nmethod = "FedMean"\n')
    before = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))
    with pytest.raises(RunError, match="must be a checkpoint of FedMean as it is now"):
        ct.resume(tmp_path / "run", NETWORKS)
    assert sorted((tmp_path / "run" / "checkpoints").glob("step-*")) == before


@pytest.mark.parametrize("call", ["fsync", "open"])
def test_a_full_disk_is_said_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str, call: str
) -> None:
    """The disk is full from the fourth checkpoint on: neither files nor lines can be written."""
    run = tmp_path / "run"
    real = {"fsync": os.fsync, "open": open}
    save = RunFolder.checkpoint

    def full(*args: Any, **options: Any) -> None:
        if call == "fsync" or (len(args) > 1 and args[1] == "a"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real[call](*args, **options)  # type: ignore[operator,no-any-return]

    with monkeypatch.context() as patch:

        def checkpoint(self: RunFolder, checkpoint: Any) -> None:
            if checkpoint.step == 4:
                patch.setattr(os, "fsync", full) if call == "fsync" else patch.setattr("builtins.open", full)
            save(self, checkpoint)

        patch.setattr(RunFolder, "checkpoint", checkpoint)
        with pytest.raises(RunError, match=r"No space left on device.*resume the run"):
            ct.fit(ct.FDBNL(rounds=3), NETWORKS, run=run)
    assert not list(run.rglob("*.part"))
    assert ct.resume(run, NETWORKS).digest == digest


def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pause(tmp_path / "run", 2, monkeypatch)
    folder = RunFolder.reopen(tmp_path / "run")
    with pytest.raises(RunError, match="one process at a time"):
        ct.resume(tmp_path / "run", NETWORKS)
    assert kill([(["resume", str(tmp_path / "run"), "--quiet"], 0, "never")]) == [5]
    inherited = os.dup(folder._lock._context.lock_file_fd)  # type: ignore[arg-type] # as a forked process has it
    folder.close()
    RunFolder.reopen(tmp_path / "run").close()
    os.close(inherited)


@pytest.mark.parametrize("change", ["changed", "missing", "new"])
def test_other_data_are_refused_by_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    pause(tmp_path / "run", 2, monkeypatch)
    clients = dict(NETWORKS)
    name = SECOND
    if change == "changed":
        values = clients[name].values.copy()
        values[5, 1] = np.nextafter(values[5, 1], 9)
        clients[name] = Series.from_arrays(values, features=clients[name].features)
    elif change == "missing":
        del clients[name]
    else:
        name = "somebody new"
        clients[name] = clients[FIRST]
    with pytest.raises(DataError, match="started on") as caught:
        ct.resume(tmp_path / "run", clients)
    assert [problem.client for problem in caught.value.problems] == [name]


def test_another_public_table_is_refused(tmp_path: Path) -> None:
    public, other = CLIENTS["a"], CLIENTS["b"]
    ct.fit(ct.FedMean(), CLIENTS, public=public, run=tmp_path / "run")
    ct.resume(tmp_path / "run", CLIENTS, public=public.to_frame())
    for wrong in (None, other):
        with pytest.raises(DataError, match="public table"):
            ct.resume(tmp_path / "run", CLIENTS, public=wrong)


def test_tables_in_memory_must_be_given_again(tmp_path: Path) -> None:
    ct.fit(ct.FedMean(), CLIENTS, run=tmp_path / "run")
    with pytest.raises(ParameterError, match=r"give them again: cotempo.resume\(run, clients\)"):
        ct.resume(tmp_path / "run")


def test_a_finished_run_resumed_stays_as_it_is(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def content() -> dict[Path, bytes]:
        """All files but ``now.json``, which says when a process last worked on the run."""
        return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "now.json"}

    fitted = ct.fit(ct.FDBNL(rounds=2), NETWORKS, run=run)
    before = content()
    again = ct.resume(run, NETWORKS)
    assert again.digest == fitted.digest
    assert list(again.history) == list(fitted.history)
    assert content() == before


def test_a_log_cut_off_by_a_kill_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    run = tmp_path / "run"
    pause(run, 4, monkeypatch)
    for name in ("log.jsonl", "messages.jsonl"):
        with open(run / name, "a") as file:
            file.write(f'{{"client": "{FIRST}", "st')
    assert ct.resume(run, NETWORKS).digest == digest
    for name in ("log.jsonl", "messages.jsonl"):
        for line in (run / name).read_text().splitlines():
            json.loads(line)
    sent = [record["step"] for record in read_lines(run / "messages.jsonl") if record["client"] == FIRST]
    assert sent == list(range(1, max(sent) + 1))


def test_paused_below_quorum_a_run_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str
) -> None:
    answer = ct.FDBNL._solve
    with monkeypatch.context() as patch:

        def fail(self: Any, common: Any, prepared: Any, memories: Any) -> Any:
            if common["stage"] == "final":
                raise RuntimeError("out to lunch")
            return answer(self, common, prepared, memories)

        patch.setattr(ct.FDBNL, "_solve", fail)
        with pytest.raises(QuorumError, match="3 clients asked must answer, 0 did"):
            ct.fit(ct.FDBNL(rounds=3), NETWORKS, run=tmp_path / "run")
    assert "out to lunch" in (tmp_path / "run" / "errors.log").read_text()
    assert ct.resume(tmp_path / "run", NETWORKS).digest == digest


# Beginning a run.


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ct.fit(Walk(), CLIENTS)
    assert list(tmp_path.iterdir()) == []


def test_with_and_without_a_folder_the_bits_are_the_same(tmp_path: Path, digest: str) -> None:
    assert ct.fit(ct.FDBNL(rounds=3), NETWORKS, run=tmp_path / "run").digest == digest


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    ct.fit(Walk(rounds=7), CLIENTS, run=tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000000006.safetensors", "step-000000007.safetensors"]


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="new or empty folder"):
        ct.fit(Walk(), CLIENTS, run=tmp_path)
    with pytest.raises(RunError, match="must be a folder"):
        ct.fit(Walk(), CLIENTS, run=tmp_path / "mine.txt")
    assert os.listdir(tmp_path) == ["mine.txt"]


@pytest.mark.parametrize("mistake", [{"deadline": 1.0}, {"engine": "nowhere"}, {"clients": {"z": [[1.0]]}}])
def test_a_run_that_never_began_leaves_its_folder_free(tmp_path: Path, mistake: dict[str, Any]) -> None:
    mistake = dict(mistake)
    clients = {**CLIENTS, **{name: Series.from_arrays(rows) for name, rows in mistake.pop("clients", {}).items()}}
    with pytest.raises((ParameterError, DataError)):
        ct.fit(Walk(), clients, run=tmp_path / "run", **mistake)
    assert ct.fit(Walk(), CLIENTS, run=tmp_path / "run").rounds == 4


@pytest.mark.parametrize("name", ["experiment.toml", "clients.json"])
def test_a_damaged_description_of_a_run_is_a_run_error(tmp_path: Path, name: str) -> None:
    ct.fit(ct.FedMean(), CLIENTS, run=tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(b"\xff\x00 = [")
    with pytest.raises(RunError, match=name):
        ct.resume(tmp_path / "run", CLIENTS)


def test_what_is_no_run_is_a_run_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no experiment\.toml"):
        ct.resume(tmp_path)
    with pytest.raises(RunError):
        ct.resume(tmp_path / "nowhere")
