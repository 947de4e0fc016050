"""Flower's simulation: the same bits as in process, and what goes wrong at a client comes back by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from walking import Walking

import cotempo as ct
from cotempo.errors import EngineError

pytestmark = pytest.mark.xdist_group("deployment")  # one Ray at a time


def test_the_same_bits_as_in_process(
    tables: dict[str, ct.Series], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "spoil-ash-2").touch()
    method = Walking(rounds=3, gate=str(tmp_path / "gate"))
    there = ct.fit(method, tables, engine="flower-simulation", workers=2, seed=4, progress=False)
    here = ct.fit(method, tables, seed=4, progress=False)
    assert there.digest == here.digest
    assert there.failures == here.failures
    assert [(f["client"], f["step"], f["kind"]) for f in there.failures] == [("ash", 2, "MessageError")]


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_run_at_once(
    tables: dict[str, ct.Series], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    (tmp_path / "kill-ash-2").touch()
    with pytest.raises(EngineError, match="one died"):
        ct.fit(Walking(rounds=3, gate=str(tmp_path)), tables, engine="flower-simulation", workers=2, progress=False)
