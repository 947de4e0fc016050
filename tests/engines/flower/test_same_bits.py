"""One method of each family: the same state in process, in a pool, in Flower's simulation and in a deployment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from consortium import Consortium

import cotempo as ct
from cotempo.data import READERS

OFF = ct.Privacy(secure_sum=False)  # sums of masked messages round otherwise
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployment")]
SEEDS = (0, 1, 2)
Case = tuple[Any, dict[str, Any], Any, Consortium]


METHODS = {"networks": ct.FDBNL, "events": ct.FedPP, "series": ct.FedTDD, "social": ct.DAMe}


def make_case(family: str) -> tuple[Any, list[Any], Any]:
    """A small method of five rounds, three clients and what is public."""
    method, clients, public = METHODS[family].example()
    return METHODS[family](**{**method.model_dump(), "rounds": 5}), list(clients.values())[:3], public


@pytest.fixture(scope="module", params=list(METHODS))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    method, clients, public = make_case(request.param)
    names = ("ash", "birch", "cedar")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        tables = dict(zip(names, clients, strict=True))
        made = Consortium(tmp_path_factory.mktemp(request.param), tables, methods=(type(method).__name__,))
        reader = READERS[method.kind]
        read = {name: next(iter(reader(made.clients[name].settings.data).values())) for name in names}
        try:
            made.start()
            yield method, read, public, made
        finally:
            made.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_bits_everywhere(case: Case, seed: int) -> None:
    method, tables, public, consortium = case
    same: dict[str, Any] = {"public": public, "seed": seed, "progress": False}
    here = ct.fit(method, tables, batched=False, **same)
    pool = ct.fit(method, tables, workers=2, **same)
    simulated = ct.fit(method, tables, engine="flower-simulation", workers=2, **same)
    there = ct.fit(method, engine="flower", server=consortium.server.folder, privacy=OFF, **same)
    assert here.digest == pool.digest == simulated.digest == there.digest
    assert here.rounds == there.rounds
    assert not there.failures
