"""Contracts over TLS: what a coordinator asks beyond what was agreed is refused at the sites, in words."""

from __future__ import annotations

import pytest
from consortium import Consortium
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.coordinator.engine import Flower
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import EngineError
from cotempo.privacy.secure_sum.identity import Identity

pytestmark = pytest.mark.xdist_group("deployment")
SITES = ("ash", "birch", "cedar")


def test_what_was_not_agreed_is_refused_at_every_site(consortium: Consortium) -> None:
    settings = FlowerSettings(server=str(consortium.server.folder))
    engine = Flower(Walking(rounds=1), settings, run="1" * 32, seed=0)
    try:
        honest = engine.contract
        stranger = Identity.create("birch").public.hex()
        forgeries = {
            "at least 1 and at most 500, got 501": {"parameters": Walking(rounds=501).model_dump(mode="json")},
            "birch has another; compare fingerprints": {"participants": {**honest.participants, "birch": stranger}},
            "must name cedar with its own key": {
                "participants": {name: honest.participants[name] for name in ("ash", "birch")}
            },
            "settings that this version of cotempo can keep": {"privacy": {"epsilon": "NaN"}},
            "the same release of cotempo or consecutive ones": {"version": "0"},
        }
        for words, change in forgeries.items():
            engine.contract = honest.model_copy(update=change)
            with pytest.raises(EngineError, match=words):
                engine.schemas(SITES)
        engine.contract = honest
        assert {*engine.schemas(SITES)} == {*SITES}
        engine.contract = honest.model_copy(update={"seed": 1})
        engine._schemas.clear()
        with pytest.raises(EngineError, match="under the contract it was begun with"):
            engine.schemas(SITES)
    finally:
        engine.close()


def test_a_coordinator_with_another_key_is_refused(consortium: Consortium) -> None:
    path = consortium.server.folder / "coordinator.key"
    before = path.read_bytes()
    path.write_bytes(b"11" * 32)
    try:
        with pytest.raises(EngineError, match="signed with the coordinator's key that this site has pinned"):
            ct.fit(Walking(rounds=1), engine="flower", server=consortium.server.folder, progress=False)
    finally:
        path.write_bytes(before)
