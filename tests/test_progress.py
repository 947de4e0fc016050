"""Progress: plain lines now and then where there is no terminal, and nothing that is not so."""

from __future__ import annotations

import pytest

import cotempo as ct
from cotempo import progress
from cotempo.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until a test moves it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("Walk") as say:
        say(1, 10, "quick")
        clock[0] += 30
        say(2, 10, "uphill")
        say(3, 10, "at once after it")
        clock[0] += 3600
        say(5, None, "who knows how far")
        clock[0] += 10
        say(10, 10, "there")
    assert capsys.readouterr().err.splitlines() == [
        "Walk, 20%, uphill, 30 s so far, about 2 min 0 s left",
        "Walk, who knows how far, 1 h 0 min so far",
        "Walk, 100%, there, 1 h 0 min so far",
    ]


def test_asked_for_it_begins_at_once_and_refused_it_is_silent(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("Walk", show=True) as say:
        say(1, 2)
    assert capsys.readouterr().err == "Walk, 50%, 0 s so far, about 0 s left\n"
    with Progress("Walk", show=False) as say:
        clock[0] += 1000
        say(1, 2)
    assert capsys.readouterr().err == ""


def test_work_ends_at_its_total() -> None:
    """What a method says of its work never falls and ends at the total it promised."""
    method, clients, _ = ct.DAMe.example()
    from cotempo.engines.inprocess import InProcess
    from cotempo.federation.rounds import LoopOptions, initial_checkpoint, rounds

    for compare in (False, True):
        trial = method.set_params(compare=compare)
        engine, options = InProcess(trial, clients, seed=0), LoopOptions()
        start = initial_checkpoint(trial, engine, options)
        said = [trial.work(step.state) for step in rounds(trial, engine, options, start=start)]
        done, totals = zip(*(found for found in said if found), strict=True)
        assert len({*totals}) == 1
        assert list(done) == sorted(done)
        assert done[-1] == totals[-1]


def test_ctrl_c_notes_where_it_stopped(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ct.FedMean.absorb

    def stop(self: ct.FedMean, state: object, *args: object) -> object:
        if state.rows:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return whole(self, state, *args)  # type: ignore[arg-type]

    clients, _ = ct.make_networks(variables=2, clients=2, samples=40)
    monkeypatch.setattr(ct.FedMean, "absorb", stop)
    with pytest.raises(KeyboardInterrupt) as end:
        ct.FedMean().fit(clients)
    assert end.value.__notes__ == [
        "stopped after round 1, step 1; nothing was kept; with run=FOLDER a run can be continued"
    ]
    with pytest.raises(KeyboardInterrupt) as end:
        ct.FedMean().fit(clients, run=f"{tmp_path}/run")
    assert end.value.__notes__ == [
        f"stopped after round 1, step 1; continue with: cotempo.resume('{tmp_path}/run', clients)"
    ]
