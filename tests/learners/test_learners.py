"""The learners on the smallest family there is: linear regression of a series' last column on the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from cotempo import learners
from cotempo.data import Series, Table
from cotempo.federation import Roster
from cotempo.learners.sfl import relation_graph
from cotempo.learners.training import from_vector, to_vector
from cotempo.testing import drive
from cotempo.testing.engines import direct

SLOPES = {"a": (1.0, 2.0), "b": (1.0, 2.0), "c": (-3.0, 0.5)}


class Regression(learners.Learner):
    """Linear regression; the last third of the rows is for testing."""

    kind: ClassVar[str] = "series"

    def inputs(self, roster: Roster) -> int:
        return len(roster.schema.columns) - 1

    def make_model(self, inputs: int) -> nn.Module:
        return nn.Linear(inputs, 1, bias=False)

    def prepare(self, table: Table) -> Any:
        assert isinstance(table, Series)
        return table.values.astype(np.float32)

    def size(self, data: Any) -> int:
        return 2 * len(data) // 3

    def epoch_batches(self, data: Any, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        for rows in np.array_split(rng.permutation(self.size(data)), 4):
            yield torch.from_numpy(data[rows])

    def loss(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return ((model(batch[:, :-1])[:, 0] - batch[:, -1]) ** 2).mean()

    def score(self, model: nn.Module, data: Any, part: str) -> float:
        held = torch.from_numpy(data[self.size(data) :])
        with torch.no_grad():
            return float(1 / (1 + self.loss(model, held)))


def family(algorithm: type[learners.Learner]) -> type[Any]:
    return type(algorithm.__name__, (Regression, algorithm), {"__module__": __name__})


def clients() -> dict[str, Series]:
    rng = np.random.default_rng(0)
    found = {}
    for name, slope in SLOPES.items():
        inputs = rng.normal(size=(60, 2))
        found[name] = Series.from_arrays(np.column_stack([inputs, inputs @ slope + 0.01 * rng.normal(size=60)]))
    return found


def run(algorithm: type[learners.Learner], **options: Any) -> tuple[Any, dict[str, Any]]:
    method = family(algorithm)(**{"rounds": 30, "learning_rate": 0.05, "weight_decay": 0.0, **options})
    engine = direct(method, clients())
    ledger: dict[str, int] = {}
    for step in drive(method, engine, seed=0):
        ledger |= step.answers.versions
        state = step.state
    return state, dict(engine.memories(ledger))


@pytest.mark.parametrize("name", ["Local", "Ditto", "FedALA", "APPLE", "Dual"])
def test_personal_learners_find_each_clients_slopes(name: str) -> None:
    options = {"Ditto": {"proximity": 0.01}}.get(name, {})
    _, memories = run(getattr(learners, f"{name}Learner"), **options)
    for client, slope in SLOPES.items():
        np.testing.assert_allclose(memories[client].best, slope, atol=0.3)


@pytest.mark.parametrize("name", ["FedAvg", "FedProx", "PerFedAvg"])
def test_common_learners_agree_where_clients_do(name: str) -> None:
    same = clients()
    method = family(getattr(learners, f"{name}Learner"))(rounds=40, learning_rate=0.05, weight_decay=0.0)
    engine = direct(method, {"a": same["a"], "b": same["b"]})
    *_, last = drive(method, engine, seed=0)
    np.testing.assert_allclose(last.state.weights, SLOPES["a"], atol=0.2)
    kept = engine.memories(last.answers.versions)
    assert all(memory.compared[1] > 0.8 for memory in kept.values())
    assert last.state.joining.compared == 2


def test_fedavg_is_the_mean_weighted_by_rows() -> None:
    state, _ = run(learners.FedAvgLearner, rounds=1, compare=False)
    method = family(learners.FedAvgLearner)(rounds=1, learning_rate=0.05, weight_decay=0.0)
    assert state.weights.shape == (2,)
    assert method.sums
    local, memories = run(learners.LocalLearner, rounds=1, compare=False)
    mean = np.mean([memory.personal for memory in memories.values()], axis=0)
    np.testing.assert_allclose(state.weights, mean, atol=1e-6)
    np.testing.assert_array_equal(local.weights, local.first)


def test_a_strong_proximity_holds_the_model() -> None:
    free, _ = run(learners.FedAvgLearner, rounds=3, compare=False)
    held, _ = run(learners.FedProxLearner, rounds=3, compare=False, proximity=100.0)
    assert np.abs(held.weights - held.first).max() < np.abs(free.weights - free.first).max()


def test_sfl_sends_like_clients_like_models() -> None:
    state, memories = run(learners.SFLLearner, layers=1, proximity=0.0)
    graph = relation_graph(np.stack(list(state.models.values())), 1)
    np.testing.assert_allclose(graph.sum(axis=1), 1)
    assert graph[0, 1] > graph[0, 2]
    assert set(memories) == set(SLOPES)


def test_fedala_mixes_between_the_two_models() -> None:
    _, memories = run(learners.FedALALearner, rounds=4, tensors=1)
    for memory in memories.values():
        assert ((memory.mixing >= 0) & (memory.mixing <= 1)).all()


def test_apple_relates_to_all_clients() -> None:
    _, memories = run(learners.APPLELearner, rounds=4)
    assert {memory.mixing.shape for memory in memories.values()} == {(3,)}


def test_a_restarted_local_goes_nowhere() -> None:
    _, restarted = run(learners.LocalLearner, restart=True, rounds=8, compare=False)
    _, proper = run(learners.LocalLearner, rounds=8, compare=False)
    assert restarted["a"].best_score < proper["a"].best_score


def test_a_vector_goes_in_and_out_of_a_model() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    vector = np.arange(11, dtype=np.float32)
    from_vector(model, vector)
    np.testing.assert_array_equal(to_vector(model), vector)


class Logarithmic(Regression):
    """Scored in any unit: the mean log density, below zero; unknown where there are no rows of a part."""

    def score(self, model: nn.Module, data: Any, part: str) -> float | None:
        found = super().score(model, data, part)
        return None if part == self.unknown else 100 * float(np.log(found)) - 500

    unknown: ClassVar[str] = ""


@pytest.mark.parametrize("algorithm", [learners.FedAvgLearner, learners.SFLLearner])
@pytest.mark.parametrize("unknown", ["", "validation", "test"])
def test_scores_may_have_any_unit_or_be_unknown(algorithm: type[learners.Learner], unknown: str) -> None:
    cls = type("Family", (Logarithmic, algorithm), {"__module__": __name__, "unknown": unknown})
    method = cls(rounds=3, learning_rate=0.05)
    engine = direct(method, clients())
    steps = list(drive(method, engine, seed=0))
    memories = engine.memories(steps[-1].answers.versions)
    compared = {name: memory.compared for name, memory in memories.items() if memory.compared.size}
    assert set(compared) == (set() if unknown == "test" else set(SLOPES))
    assert steps[-1].state.joining.compared == len(compared)
    assert all(alone < -500 and together < -500 for alone, together, _ in compared.values())
    trained = [step.metrics for step in steps if step.phase == "train"]
    assert all(("score" in metrics) == (unknown != "validation") for metrics in trained)
    assert all(metrics.get("score", -501) < -500 for metrics in trained)


@pytest.mark.parametrize("sega", [True, False])
def test_two_aggregations_of_any_learner_group_the_clients_that_are_alike(sega: bool) -> None:
    """SEGA finds who has the same slopes and mixes among them; BOLA lets a client keep some of its own model."""
    rng, tables = np.random.default_rng(1), {}
    for name, slope in {"a": "a", "b": "a", "c": "a", "x": "c", "y": "c", "z": "c"}.items():
        inputs = rng.normal(size=(60, 2))
        tables[name] = Series.from_arrays(np.column_stack([inputs, inputs @ SLOPES[slope]]))
    method = family(learners.DualLearner)(rounds=4, learning_rate=0.05, weight_decay=0.0, compare=False, sega=sega)
    *_, last = drive(method, direct(method, tables), seed=0)
    record, models = last.state.record[-1], last.state.models
    together = {frozenset(name for name in tables if record.groups[name] == group) for group in record.groups.values()}
    assert together == ({frozenset("abc"), frozenset("xyz")} if sega else {frozenset("abcxyz")})
    assert np.linalg.norm(models["a"] - models["b"]) < 0.05
    assert (np.linalg.norm(models["a"] - models["x"]) > 0.5) == sega
    assert all(0.6 <= weight <= 1 for weight in record.weights.values())
