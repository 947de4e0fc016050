"""Direct calls and batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import Notes, Walk, make_clients

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings, engine_settings
from cotempo.errors import DataError, ParameterError, SchemaError
from cotempo.federation import Question
from cotempo.storage.tree import digest
from cotempo.testing import drive
from cotempo.testing.engines import direct

CLIENTS = make_clients(4)


class Batch(Walk):
    """Answers for all at once, and fails as a whole when one client fails."""

    def answer_all(
        self, questions: Sequence[Question], prepared: Sequence[Any], memories: Sequence[Any], rngs: Sequence[Any]
    ) -> Any:
        return super().answer_all(questions, prepared, memories, rngs)


def last(method: Walk, engine: Any) -> str:
    return digest(list(drive(method, engine))[-1].state)


def test_a_batch_is_used_where_a_method_offers_one() -> None:
    assert direct(Batch(), CLIENTS, batched=True).batched
    assert not direct(Batch(), CLIENTS, batched=False).batched
    assert not direct(Walk(), CLIENTS, batched=True).batched
    assert last(Batch(), direct(Batch(), CLIENTS, batched=True)) == last(Walk(), direct(Walk(), CLIENTS))


def test_an_exception_in_a_batch_costs_only_the_client_at_fault() -> None:
    trouble = {"victim": "c", "at": 2, "trouble": "raise"}
    steps = list(drive(Batch(**trouble), direct(Batch(**trouble), CLIENTS, batched=True)))
    (failure,) = steps[1].answers.failures
    assert (failure.client, failure.kind) == ("c", "ValueError")
    looped = list(drive(Walk(**trouble), direct(Walk(**trouble), CLIENTS)))
    assert digest(steps[-1].state) == digest(looped[-1].state)


def test_a_lost_memory_in_a_batch_costs_only_its_client() -> None:
    method, notes = Batch(), Notes()
    list(drive(method, direct(method, CLIENTS, batched=True), recorder=notes))
    start = notes.checkpoints[2]
    engine = direct(method, CLIENTS, batched=True)
    engine.restore({name: memory for name, memory in start.memories.items() if name != "a"}, start.ledger)
    step = next(drive(method, engine, start=start))
    assert [(failure.client, failure.kind) for failure in step.answers.failures] == [("a", "MemoryLost")]
    assert step.answers.names == ("b", "c", "d")


class Careless(Batch):
    """Returns a batch with a fault, at step 2."""

    fault: str

    def answer_all(self, questions: Sequence[Question], *given: Any) -> Any:
        answers = super().answer_all(questions, *given)
        if questions[0].step != 2:
            return answers
        faults = {
            "one too few": answers[:-1],
            "one too many": [*answers, answers[0]],
            "no message": [answers[0], ({"move": 1.0}, None), *answers[2:]],
            "no memory": [answers[0], (answers[1][0],), *answers[2:]],
            "nothing": None,
        }
        return faults[self.fault]


@pytest.mark.parametrize(
    ("fault", "about"),
    [
        ("one too few", "must return 4 answers, one per client, got 3"),
        ("one too many", "must return 4 answers, one per client, got 5"),
        ("no message", "a Message and a memory for client b"),
        ("no memory", "a Message and a memory for client b"),
        ("nothing", "TypeError"),
    ],
)
def test_a_batch_that_is_not_one_answer_a_client_is_asked_for_one_by_one(fault: str, about: str) -> None:
    method = Careless(fault=fault)
    with pytest.warns(UserWarning, match=rf"Careless\.answer_all failed .*{about}.*one by one"):
        found = last(method, direct(method, CLIENTS, batched=True))
    assert found == last(Walk(), direct(Walk(), CLIENTS))


class Speechless(Batch):
    """A client whose answer is no message, in a batch and by itself."""

    def answer(self, question: Question, *given: Any) -> Any:
        message, memory = super().answer(question, *given)
        return ({"move": 1.0} if (question.client, question.step) == ("b", 2) else message), memory


def test_an_answer_that_is_no_message_is_a_failure_of_its_client() -> None:
    method = Speechless()
    with pytest.warns(UserWarning, match="for client b"):
        steps = list(drive(method, direct(method, CLIENTS, batched=True)))
    assert [(f.client, f.step, f.kind) for step in steps for f in step.answers.failures] == [("b", 2, "MessageError")]


def test_data_a_method_cannot_use_are_refused_by_client_all_at_once() -> None:
    hollow = ct.Series.from_arrays(np.full((4, 2), np.nan))
    engine = direct(ct.FedMean(), {**CLIENTS, "x": hollow, "y": hollow})  # type: ignore[arg-type]
    with pytest.raises(DataError, match="at least one row must have no missing cell") as caught:
        engine.schemas(engine.names())
    assert [problem.client for problem in caught.value.problems] == ["x", "y"]


def test_tables_of_another_kind_are_refused_by_client() -> None:
    clients, _ = ct.make_events(clients=2, seed=0)
    with pytest.raises(SchemaError, match="must hold series, it holds events") as caught:
        ct.FedMean().fit(clients)
    assert [problem.client for problem in caught.value.problems] == sorted(clients)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": "inproces"}, "did you mean 'inprocess'"),
        ({"name": "inprocess", "workers": -1}, "workers: .*greater than or equal to 0, got -1"),
        ({"name": "inprocess", "deadline": 3.0}, "a deadline needs workers"),
        ({"name": "inprocess", "server": "/nowhere"}, "the engine inprocess has no option 'server', which is for flow"),
        ({"name": "inprocess", "participants": ("a",)}, "no option 'participants', which is for flower"),
        ({"name": "inprocess", "share_result": True}, "no option 'share_result', which is for flower"),
        ({"name": "inprocess", "workers": 1, "batched": True}, "batched must be left out with workers"),
        ({"name": "flower-simulation", "batched": True}, "no option 'batched', which is for inprocess"),
        ({"name": "flower-simulation", "server": "/nowhere"}, "no option 'server', which is for flower"),
        ({"name": "flower", "workers": 2}, "no option 'workers', which is for inprocess and flower-simulation"),
        ({"name": "flower", "batched": True}, "no option 'batched', which is for inprocess"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], match: str) -> None:
    name, rest = options["name"], {key: value for key, value in options.items() if key != "name"}
    with pytest.raises(ParameterError, match=match):
        engine_settings(name, **rest).open(Walk(), CLIENTS, seed=0, run="run", shields=())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"server": "/nowhere"}, "no option 'server'"),
        ({"participants": ("a",)}, "no option 'participants'"),
        ({"share_result": True}, "no option 'share_result'"),
        ({"workers": 1, "batched": True}, "batched must be left out with workers"),
        ({"engine": "flower-simulation", "batched": True}, "no option 'batched'"),
        ({"engine": "flower", "server": "/nowhere", "workers": 2}, "no option 'workers'"),
    ],
)
def test_fit_refuses_what_its_engine_does_not_have(options: dict[str, Any], match: str, tmp_path: Path) -> None:
    clients = None if options.get("engine") == "flower" else CLIENTS
    with pytest.raises(ParameterError, match=match):
        ct.fit(Walk(), clients, run=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_workers_are_asked_one_by_one_and_direct_calls_in_a_batch_unless_told_otherwise() -> None:
    assert InProcess(Batch(), CLIENTS, seed=0).batched
    assert not InProcess(Batch(), CLIENTS, InProcessSettings(batched=False), seed=0).batched
    assert ct.fit(Walk(), CLIENTS, workers=1).digest == ct.fit(Walk(), CLIENTS, batched=False).digest
