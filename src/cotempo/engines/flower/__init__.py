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
from typing import TYPE_CHECKING, Any

from cotempo.errors import EngineError, ParameterError

if TYPE_CHECKING:
    from cotempo.data import Table
    from cotempo.federation.engine import Engine
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


def open_flower(
    name: str, method: Method, clients: Mapping[str, Table], seed: int, options: Mapping[str, Any]
) -> Engine:
    """Open Flower's simulation or a deployment, from the settings of an experiment."""
    need_flower()
    if name == "flower-simulation":
        from cotempo.engines.flower.simulation import FlowerSimulation

        return FlowerSimulation(
            method, clients, seed=seed, workers=options.get("workers", 0), deadline=options.get("deadline"),
            threads=options.get("threads", 1),
        )  # fmt: skip
    if options.get("server") is None:
        raise ParameterError("the engine flower must know the server's folder: [engine] server, or --server")
    from cotempo.engines.flower.coordinator.engine import Flower

    return Flower(
        method, options["server"], run=options["run"], seed=seed, clients=options.get("participants") or (),
        deadline=options.get("deadline"), share_result=options.get("share_result", False),
    )  # fmt: skip
