"""Methods of every family with and without the secure sum: the same results on every engine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.federation import Message, Question, Reply
from cotempo.privacy.secure_sum import client as client_module
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.testing import Faulty, drive, example
from cotempo.testing.engines import Killed

ON = ct.Privacy(secure_sum=True)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and array of a state."""
    if dataclasses.is_dataclass(tree):
        for field in dataclasses.fields(tree):
            yield from leaves(getattr(tree, field.name), f"{path}.{field.name}")
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(tree, tuple | list):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{path}[{index}]")
    elif tree is not None and not isinstance(tree, str):
        yield path, tree.numpy() if hasattr(tree, "numpy") else np.asarray(tree)


def difference(one: Any, other: Any) -> float:
    """The largest difference of two states, relative to the largest value of each array."""
    found, wanted = dict(leaves(one)), dict(leaves(other))
    assert found.keys() == wanted.keys()
    worst = 0.0
    for path, value in wanted.items():
        assert value.shape == found[path].shape, path
        if value.size:
            one, other = found[path].astype(float), value.astype(float)
            finite = np.isfinite(other)
            scale = max(1.0, float(np.abs(other[finite]).max(initial=0.0)))
            gap = np.abs(one[finite] - other[finite])
            worst = max(worst, float(gap.max(initial=0.0)) / scale)
    return worst


def case(method: type[Any], **options: Any) -> tuple[Any, dict[str, Any], Any]:
    made, clients, public = example(method)
    return method(**{**made.model_dump(), **options}), clients, public


@pytest.mark.parametrize(
    ("method", "options", "limit"),
    [
        (ct.OneRound, {}, 1e-9),
        (ct.FDBNL, {"rounds": 5}, 1e-9),
        (ct.FedPP, {"rounds": 3}, 1e-9),
        (ct.EventDetector, {}, 1e-9),  # counts, which single precision holds exactly
    ],
)
def test_the_same_with_and_without(method: type[Any], options: dict[str, Any], limit: float) -> None:
    made, clients, public = case(method, **options)
    plain = ct.fit(made, clients, public=public, progress=False)
    secure = ct.fit(made, clients, public=public, privacy=ON, progress=False)
    assert (plain.privacy, secure.privacy) == ({"secure_sum": False}, {"secure_sum": True})
    assert not secure.failures
    found = difference(secure.state, plain.state)
    print(f"{method.__name__}: {found:.2g}")
    assert found <= limit


def test_the_same_bits_in_a_pool() -> None:
    made, clients, public = case(ct.FDBNL, rounds=2)
    here = ct.fit(made, clients, public=public, batched=False, privacy=ON, progress=False)
    pool = ct.fit(made, clients, public=public, workers=2, privacy=ON, progress=False)
    assert here.digest == pool.digest


@pytest.mark.slow
def test_the_same_bits_in_flowers_simulation() -> None:
    pytest.importorskip("flwr", reason="needs cotempo[flower]")
    made, clients, public = case(ct.FDBNL, rounds=2)
    here = ct.fit(made, clients, public=public, batched=False, privacy=ON, progress=False)
    there = ct.fit(made, clients, public=public, engine="flower-simulation", workers=2, privacy=ON, progress=False)
    assert here.digest == there.digest


def test_in_simulated_time_everyone_is_waited_for() -> None:
    made, clients, _ = case(ct.FDBNL, rounds=1)
    steps = ct.simulate_delays(made, clients, delays=ct.Delays(), privacy=ON)
    assert len(steps) > 1
    with pytest.raises(ct.CotempoError, match="buffer must be None with secure_sum"):
        ct.simulate_delays(made, clients, delays=ct.Delays(), privacy=ON, buffer=2)


def test_two_clients_are_refused_before_anything_is_asked() -> None:
    made, clients, _ = case(ct.FedMean)
    two = dict(list(clients.items())[:2])
    with pytest.raises(ct.CotempoError, match=r"at least 3 clients in every step.*got 2"):
        ct.fit(made, two, privacy=ON, progress=False)


def test_a_reducer_beside_it_is_refused() -> None:
    made, clients, _ = case(ct.FedMean)
    with pytest.raises(ct.CotempoError, match="reducer must be left out"):
        ct.fit(made, clients, privacy=ON, reducer=SecureSum(), progress=False)


def test_an_experiment_file_turns_it_on(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    text = 'method = "FedMean"\n[data]\ngenerate = "series"\n[data.options]\nclients = 3\n[privacy]\n'
    path.write_text(text + "secure_sum = true\n")
    fitted = ct.run(path, run=tmp_path / "run", progress=False)
    assert fitted.privacy == {"secure_sum": True}
    assert ct.load(tmp_path / "run" / "result").privacy == {"secure_sum": True}
    path.write_text(text + "secure_summ = true\n")
    with pytest.raises(ct.CotempoError, match="did you mean 'secure_sum'"):
        ct.run(path)


def test_records_of_a_run_hold_sizes_only(tmp_path: Path) -> None:
    made, clients, public = case(ct.FDBNL, rounds=1, compare=False)
    ct.fit(made, clients, public=public, privacy=ON, run=tmp_path / "run", progress=False)
    records = [json.loads(line) for line in (tmp_path / "run" / "messages.jsonl").read_text().splitlines()]
    assert any("masked" in record["fields"] for record in records)
    for record in records:
        if record["phase"].startswith("secure_sum/") or not record["fields"]:
            assert all(set(field) <= {"description", "shape", "dtype", "bytes"} for field in record["fields"].values())


PHASES = ("keys", "shares", "masked", "echo", "unmask")


@pytest.mark.parametrize("phase", [*PHASES, "method"])
def test_killed_in_any_phase_and_resumed_it_ends_in_the_same_bits(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of a phase of every kind of step: the resumed run ends as if it had never been killed."""
    made, clients, public = case(ct.FDBNL, rounds=2)
    whole = ct.fit(made, clients, public=public, privacy=ON, batched=False, progress=False)
    used: list[bytes] = []
    plain = client_module.add_mask

    def add_mask(vector: Any, key: bytes, *, subtract: bool = False) -> None:
        used.append(key)
        plain(vector, key, subtract=subtract)

    monkeypatch.setattr(client_module, "add_mask", add_mask)
    victim = sorted(clients)[2]
    deadly = 1 if phase in ("keys", "shares") else 3
    if phase == "echo":  # which is asked only if somebody did not sign with what it masked
        masked = client_module.SumClient.masked

        def unsigned(self: Any, question: Any, own: Any) -> Any:
            return Message({**masked(self, question, own), "signature": np.zeros(64, np.uint8)})

        monkeypatch.setattr(client_module.SumClient, "masked", unsigned)

    from cotempo.federation import site

    answer = site.Site.answer

    def die(self: Any, question: Question) -> Reply:
        is_method = "secure_sum" not in question.phase
        is_deadly = question.phase == f"secure_sum/{phase}" or (phase == "method" and is_method)
        if is_deadly and question.client == victim and question.step == deadly:
            raise Killed
        return answer(self, question)

    with monkeypatch.context() as deadly_patch:
        deadly_patch.setattr(site.Site, "answer", die)
        with pytest.raises(Killed):
            ct.fit(made, clients, public=public, privacy=ON, batched=False, run=tmp_path / "run", progress=False)
    resumed = ct.resume(tmp_path / "run", clients, public=public, progress=False)
    assert resumed.digest == whole.digest
    assert resumed.privacy == {"secure_sum": True}
    assert max(used.count(key) for key in set(used)) <= 2  # by the two ends of a pair


def test_nothing_that_reaches_the_server_is_an_addend(tmp_path: Path) -> None:
    """Every reply the engine yields, and every line the recorder writes, beside what the clients answered."""
    made, clients, public = case(ct.OneRound)
    answered: list[Any] = []
    crossed: list[tuple[Question, Any]] = []
    shield = SecureSumShield.local(sorted(clients))
    protect = shield.protect

    def listen(message: Any, question: Question, rng: Any) -> Any:
        sent = protect(message, question, rng)
        if sent is not message:
            answered.append(message)
        return sent

    shield.protect = listen  # type: ignore[method-assign]
    from cotempo.engines.inprocess import InProcess

    def spy(question: Question, reply: Reply) -> Reply:
        crossed.append((question, reply.message))
        return reply

    engine = Faulty(InProcess(made, clients, seed=0, shields=[shield]), tamper=spy)
    for _ in drive(made, engine, public=public, reducer=SecureSum(), shields=(shield,)):
        pass
    addends = {
        value
        for message in answered
        for field in message.values()
        for value in np.asarray(field, float).ravel().tolist()
        if abs(value) > 1.5  # zeros and ones are anywhere
    }
    assert len(addends) > 50
    for question, message in crossed:
        if question.phase == "compare":
            continue  # single scores, which this method compares; no sum
        for value in (message or {}).values():
            seen = np.asarray(value)
            assert seen.dtype.kind == "u"
            if seen.dtype == np.uint64:
                assert not addends & {*seen.view(np.float64).tolist(), *seen.astype(float).tolist()}
