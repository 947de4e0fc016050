"""One consortium of three sites for all tests; it costs some seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

pytest.importorskip("flwr", reason="needs cotempo[flower]")

from consortium import Consortium

import cotempo as ct

# For other processes, or imported by tests.
collect_ignore = [
    "walking.py", "counting.py", "coordinate.py", "consortium.py", "replaying.py", "paper_consortium.py",
    "paper_channel.py",
]  # fmt: skip
SITES = ("ash", "birch", "cedar")


def make_tables(seed: int = 0) -> dict[str, ct.Series]:
    rng = np.random.default_rng(seed)
    return {name: ct.Series.from_arrays(rng.normal(size=(20, 2)).round(3)) for name in SITES}


@pytest.fixture(scope="session")
def tables() -> dict[str, ct.Series]:
    return make_tables()


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, ct.Series]) -> Iterator[Consortium]:
    patch = pytest.MonkeyPatch()
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    patch.setenv("PYTHONPATH", path)
    patch.setenv("OMP_NUM_THREADS", "2")  # sites know better
    made = Consortium(tmp_path_factory.mktemp("consortium"), tables, methods=("Walking", "Counting", "FedMean"))
    try:
        made.start()
        yield made
    finally:
        made.stop()
        patch.undo()
