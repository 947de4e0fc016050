"""A deployment in which one site asks a person: runs wait for the decision, and coordinators hear of it in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from consortium import PATIENCE, Consortium, outcome
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.processes import wait_until
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import AwaitingApproval
from cotempo.privacy.approval import Request, RequestInbox

pytestmark = [pytest.mark.xdist_group("deployment"), pytest.mark.slow]
CLEAR = ct.Privacy(secure_sum=False)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, ct.Series]) -> Iterator[Consortium]:
    patch = pytest.MonkeyPatch()
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    patch.setenv("PYTHONPATH", path)
    made = Consortium(tmp_path_factory.mktemp("asking"), tables, methods=("Walking",))
    settings = made.clients["ash"].kit / "site.toml"
    settings.write_text(settings.read_text().replace("ask = false", "ask = true"))
    try:
        made.start()
        yield made
    finally:
        made.stop()
        patch.undo()


def wait_for_request(inbox: RequestInbox) -> Request:
    assert wait_until(lambda: len(inbox.pending) == 1, PATIENCE)
    return inbox.pending[0]


def test_a_run_waits_until_it_is_approved_and_then_ends_as_ever(
    asking: Consortium, tables: dict[str, ct.Series], tmp_path: Path
) -> None:
    inbox = RequestInbox(asking.clients["ash"].home)
    process = asking.coordinate("run", tmp_path / "run", parameters={"rounds": 2}, seed=1)
    request = wait_for_request(inbox)
    assert process.poll() is None
    assert not (asking.clients["ash"].home / "ledger.jsonl").exists()
    inbox.approve(request)
    ended = outcome(process)
    assert ended["digest"] == Walking(rounds=2).fit(tables, seed=1, progress=False).digest
    assert ended["failures"] == []
    assert inbox.ended(request.agreed.run)  # the result is not shared, and the site hears of the end all the same


def test_a_refusal_reaches_the_coordinator_in_words(asking: Consortium, tmp_path: Path) -> None:
    inbox = RequestInbox(asking.clients["ash"].home)
    process = asking.coordinate("run", tmp_path / "run", parameters={"rounds": 2}, seed=2)
    inbox.refuse(wait_for_request(inbox), "the board meets in May")
    ended = outcome(process)
    assert ended["error"] == "EngineError"
    assert "ash: Refused: a person at this site refused it: the board meets in May" in ended["text"]


def test_a_coordinator_without_patience_comes_back_later(
    asking: Consortium, tables: dict[str, ct.Series], tmp_path: Path
) -> None:
    inbox, folder = RequestInbox(asking.clients["ash"].home), tmp_path / "run"
    settings = FlowerSettings(server=str(asking.server.folder), patience=0.0, purpose="Walk on.")
    with pytest.raises(AwaitingApproval, match="ash: Waiting: this site asks a person, who has not decided yet"):
        Walking(rounds=2).fit(engine=settings, run=folder, seed=3, privacy=CLEAR, progress=False)
    request = wait_for_request(inbox)
    assert request.agreed.purpose == "Walk on."
    inbox.approve(request)
    inbox.pause(True)
    with pytest.raises(AwaitingApproval, match="ash: Waiting: the people at this site have paused it"):
        ct.resume(folder, progress=False)
    inbox.pause(False)
    resumed = ct.resume(folder, progress=False)
    assert resumed.digest == Walking(rounds=2).fit(tables, seed=3, progress=False).digest
