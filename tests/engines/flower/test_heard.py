"""Sites that the coordinator has lost sight of; Flower itself takes a killed one for online for a minute."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from consortium import PATIENCE, Consortium, outcome

from cotempo.engines.flower.coordinator.heard import silent_sites
from cotempo.engines.flower.processes import wait_until
from cotempo.runs.lights import lights
from cotempo.runs.pulse import read_pulse
from cotempo.runs.state import RunState

pytestmark = pytest.mark.xdist_group("deployment")


def test_a_killed_site_is_shown_as_gone_within_10_seconds_while_a_run_waits_for_it(
    consortium: Consortium, tmp_path: Path
) -> None:
    run, server = tmp_path / "run", consortium.server.folder
    consortium.wait_for(*consortium.clients)
    consortium.hold("birch", 2)
    parameters = {"rounds": 3, "gate": str(consortium.gate)}
    process = consortium.coordinate("run", run, parameters=parameters, seed=0, deadline=40)
    try:
        consortium.wait_held("birch", 2)
        assert silent_sites(server, consortium.clients) == {}  # a site that computes is heard of
        state = RunState(run)

        def birch() -> str:  # the site may begin before the coordinator has written that it asked
            return {light.client: light.word for light in lights(state.refresh())}["birch"]

        assert wait_until(lambda: birch() in ("computing", "late"), PATIENCE)
        daemon = consortium.clients["birch"].pid
        assert daemon is not None
        os.kill(daemon, signal.SIGKILL)  # its node and worker end with it
        assert wait_until(lambda: "birch" in read_pulse(run)["away"], 10)
        (light,) = [light for light in lights(state.refresh()) if light.client == "birch"]
        assert light.word == "gone"
        assert light.detail.startswith("since ")
    finally:
        consortium.release()
        if consortium.clients["birch"].pid is None:
            consortium.clients["birch"].start()
        ended = outcome(process)
    assert "digest" in ended, ended
    assert wait_until(lambda: not silent_sites(server, consortium.clients), PATIENCE)


def test_of_a_server_that_notes_nothing_no_site_is_said_to_be_silent(tmp_path: Path) -> None:
    assert silent_sites(tmp_path, ["ash"]) == {}
