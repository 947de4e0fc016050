"""Everything fitted can be saved, and says the same in a fresh process, bit for bit."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import POSTS, SERIES, numbers_of

import cotempo as ct
from cotempo.errors import RunError
from cotempo.events.neural.federated import FedNeural
from cotempo.events.processes.federated import FedPointProcess
from cotempo.federation.registry import methods
from cotempo.storage.saved import Saved, pack
from cotempo.storage.tree import digest, encode

SMALL = {"window": 8, "width": 8, "imputer_width": 8, "imputer_steps": 2, "steps": 2}


def models() -> Iterator[Any]:
    """Fit one of every class that a verb returns."""
    events = ct.make_events(clients=3, sequences=4, length=5.0, seed=0)[0]
    one = events["client-0"]
    yield ct.SigmoidCox().fit(one)
    yield ct.SigmoidCox(kernel="deep", steps=1, inducing=5, cells=20).fit(one)
    yield ct.SigmoidCox(kernel="history", steps=1, inducing=5).fit(one)
    yield ct.FedPP(rounds=2, base="curve", compare=False).fit(events)["client-1"]
    bursts = ct.make_events(clients=3, sequences=4, length=5.0, kind="hawkes", seed=0)[0]
    yield ct.FedPP(rounds=2).fit(bursts)["client-1"]
    yield FedPointProcess(process="hawkes1", rounds=1).fit(events)["client-1"]
    yield FedNeural(rounds=1).fit(events)["client-1"]
    yield ct.SeriesMoments(window=8).fit(SERIES["client-0"])
    yield ct.SeriesDiffusion(**SMALL).fit(SERIES["client-0"])
    yield ct.EventDetector(dimension=8, buckets=64).fit(POSTS["client-0"])
    yield ct.DAMe.example()[0].fit(POSTS)["client-1"]
    networks = ct.make_networks(variables=3, clients=3, samples=90, seed=1)[0]
    yield ct.FDBNL(rounds=2).fit(networks).network
    yield ct.PFDBNL(rounds=2).fit(networks)["client-1"]
    yield ct.EdgeRanking().fit(networks).ranking


def read_elsewhere(*paths: Path) -> list[str]:
    """Return digests of what saved objects say in a fresh process."""
    command = [sys.executable, str(Path(__file__).with_name("reading.py")), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_every_class_with_a_verb_says_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    fitted = list(models())
    paths = [model.save(tmp_path / f"{number}.model") for number, model in enumerate(fitted)]
    assert read_elsewhere(*paths) == [digest(numbers_of(model)) for model in fitted]
    known = {cls for cls in subclasses(Saved) if not inspect.isabstract(cls) and cls.__module__.startswith("cotempo")}
    assert known <= {type(model) for model in fitted}


def test_every_federation_says_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    results = {}
    for name, cls in methods().items():
        if cls.__module__.startswith("cotempo") and hasattr(cls, "example"):
            method, clients, public = cls.example()
            results[name] = method.fit(clients, public=public)
    saved = [fitted.save(tmp_path / name) for name, fitted in results.items()]
    stated = [digest(ct.load(path).state) for path in saved]
    assert stated == [fitted.digest for fitted in results.values()]
    assert read_elsewhere(tmp_path / "OneRound", tmp_path / "FDBNL") == [
        digest(numbers_of(results[name])) for name in ("OneRound", "FDBNL")
    ]


def subclasses(cls: type) -> Iterator[type]:
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_a_detector_keeps_its_stream(tmp_path: Path) -> None:
    days = np.array_split(np.arange(60), 2)
    first = {name: posts.select(days[0]) for name, posts in POSTS.items()}
    fitted = ct.EventDetector(dimension=8, buckets=64, smallest=2).fit(first)
    before = len(fitted["client-0"].events())
    fitted["client-0"].partial_fit(POSTS["client-0"].select(days[1]))
    assert len(fitted["client-0"].events()) > before
    again = ct.load(fitted.save(tmp_path / "stream"))
    alone = ct.load(fitted["client-0"].save(tmp_path / "one"))
    for detector in (again["client-0"], alone):
        assert digest(numbers_of(detector)) == digest(numbers_of(fitted["client-0"]))
        detector.partial_fit(POSTS["client-1"])  # and goes on as if it had never stopped
    fitted["client-0"].partial_fit(POSTS["client-1"])
    assert digest(numbers_of(alone)) == digest(numbers_of(fitted["client-0"])) == digest(numbers_of(again["client-0"]))


def test_load_takes_a_run_a_result_and_a_file(tmp_path: Path) -> None:
    clients, _ = ct.make_networks(variables=3, clients=2, samples=60, seed=0)
    fitted = ct.FDBNL(rounds=1).fit(clients, run=tmp_path / "run")
    assert ct.load(tmp_path / "run").digest == ct.load(tmp_path / "run" / "result").digest == fitted.digest
    with pytest.raises(RunError, match="there is nothing of this name"):
        ct.load(tmp_path / "typo")
    with pytest.raises(RunError, match="must hold a saved result"):
        ct.load(tmp_path)
    for leftover in sorted((tmp_path / "run" / "result").iterdir()):
        leftover.unlink()
    (tmp_path / "run" / "result").rmdir()
    with pytest.raises(RunError, match="continue with: cotempo resume"):
        ct.load(tmp_path / "run")


@dataclass
class Mutable:
    """A class that holds more than data may do anything when it is made."""

    text: str = ""


def test_a_file_that_names_another_class_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for place in ("os:system", "subprocess:Popen", f"{__name__}:Mutable", "cotempo.federation.site:Site"):
        path.write_bytes(encode({"class": place, "fields": {}}))
        with pytest.raises(RunError, match="must be a file that save wrote"):
            ct.load(path)
    path.write_bytes(b"nothing of ours")
    with pytest.raises(RunError, match="must be a file that save wrote"):
        ct.load(path)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    network = ct.Network(np.zeros((1, 1)), np.zeros((1, 1, 1)))
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="can be written"):
        network.save(tmp_path / "file" / "below")
    assert pack(network)["class"] == "cotempo.networks.network:Network"
