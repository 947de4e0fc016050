"""The contract's checks by name, and the runs they compare."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cotempo.data import Table
from cotempo.federation.engine import Engine
from cotempo.federation.method import Method
from cotempo.federation.rounds import Progress, rounds
from cotempo.storage.tree import digest
from cotempo.threads import limit_threads

Clients = Mapping[str, Table]
Check = Callable[[Method, Clients, Table | None, Path], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the contract."""
    CHECKS[function.__name__] = function
    return function


def steps_of(
    method: Method, engine: Engine, public: Table | None, most: int | None = None, **options: Any
) -> list[Progress]:
    """Run to the end, or for at most so many steps, and return every step."""
    with limit_threads(1):
        return list(itertools.islice(rounds(method, engine, public=public, seed=0, quorum=0, **options), most))


def exchanges(steps: Sequence[Progress]) -> tuple[int, int, int]:
    """The first, a middle and the last step in which clients were asked; others are the server's own work."""
    asked = [step.step for step in steps if step.sent]
    return asked[0], asked[len(asked) // 2], asked[-1]


def final(method: Method, engine: Engine, public: Table | None, **options: Any) -> str:
    """Digest of the last state."""
    return digest(steps_of(method, engine, public, **options)[-1].state)
