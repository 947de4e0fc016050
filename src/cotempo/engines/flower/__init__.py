"""Clients at their own places, on Flower.

Flower carries the bytes: TLS, node keys, queues, retries. What is said stays cotempo's: the one loop runs in the
process that a person started (Flower calls it a ServerApp), and one worker a site answers (Flower's ClientApp). Both
take their tasks from Flower's runtime interface themselves, so no process is started per message, and no code that
came over the wire is ever run.

Only this package imports flwr; it is the extra ``cotempo[flower]``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cotempo.errors import EngineError

if TYPE_CHECKING:
    from cotempo.data import Table
    from cotempo.engines.flower.engine import Flower
    from cotempo.engines.flower.simulation import FlowerSimulation
    from cotempo.engines.settings import FlowerSettings, SimulationSettings
    from cotempo.federation.method import Method

SILENCE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def need_flower() -> None:
    """Switch off everything in Flower and Ray that calls out, and say what is missing where they are not installed."""
    os.environ.update(SILENCE)
    try:
        from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, pull_objects
    except ImportError as error:
        raise EngineError(f"flwr must be installed for this engine ({error}); pip install 'cotempo[flower]'") from error
    # A message is told of before its content is there. Flower then waits a second, two, four, up to ten, at each of the
    # three stations, and gives up after 500 looks. Here looks are more, and time alone, two hours, ends them.
    for function in (pull_objects, pull_and_inflate_object_from_tree):
        patience = {"initial_backoff": 0.02, "backoff_cap": 0.5, "max_tries_per_object": None}
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **patience}


def open_simulation(
    method: Method, tables: Mapping[str, Table], settings: SimulationSettings, *, seed: int
) -> FlowerSimulation:
    """Open Flower's simulation."""
    need_flower()
    from cotempo.engines.flower.simulation import FlowerSimulation

    return FlowerSimulation(method, tables, settings, seed=seed)


def open_flower(method: Method, settings: FlowerSettings, *, seed: int, run: str) -> Flower:
    """Open a deployment."""
    need_flower()
    from cotempo.engines.flower.engine import Flower

    return Flower(method, settings, run=run, seed=seed)
