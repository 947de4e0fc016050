"""Checks that a method gives the same whatever runs it, and changes nothing it is given."""

import json
import pickle
import random
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from cotempo.engines.pool import Pool
from cotempo.engines.settings import InProcessSettings
from cotempo.federation.exchange import Question
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.storage.tree import TreeError, decode, digest, encode, is_tensor
from cotempo.testing.contract import Case, check
from cotempo.testing.engines import Faulty, direct


@check
def same_seed_same_bits(case: Case) -> None:
    """Two runs with one seed end in the same bits, whatever the global random generators do."""
    ends = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 - the generator a method must not use
        random.seed(seed)
        steps = case.steps()
        failures = [str(failure) for step in steps for failure in step.answers.failures]
        assert not failures, f"an undisturbed run has failures: {failures[0]}"
        ends.append(digest(steps[-1].state))
    assert ends[0] == ends[1], "two runs with the same seed differ: does the method draw from a global generator?"


@check
def order_of_clients_is_irrelevant(case: Case) -> None:
    """Clients named in another order, and answers that come in another order, change nothing."""
    expected = case.final()
    backwards = dict(reversed(list(case.clients.items())))
    assert case.final(direct(case.method, backwards)) == expected, "the order of clients matters"
    assert case.final(Reversed(case.engine())) == expected, "the order in which answers come matters"


class Reversed(Faulty):
    """Replies come last first."""

    def exchange(self, questions: Sequence[Question]) -> Any:
        """Reverse the replies."""
        return reversed(list(self.engine.exchange(questions)))


@check
def every_engine_gives_the_same_bits(case: Case) -> None:
    """Direct calls, a pool of processes, and a bytes-only engine end in the same bits."""
    expected = case.final()
    assert case.final(case.engine("bytewise")) == expected, "the bytes-only engine differs"
    with closing(Pool(case.method, case.clients, InProcessSettings(workers=2), seed=0)) as pool:
        assert case.final(pool) == expected, "the pool differs"


@check
def batched_equals_looped(case: Case) -> None:
    """A batched cohort agrees with the loop within rounding."""
    if case.method.batches:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            batched = case.steps(direct(case.method, case.clients, batched=True))
        # A batch that fails falls back to the loop, and would agree with it.
        failed = [str(warning.message) for warning in said if "answer_all failed" in str(warning.message)]
        assert not failed, failed[0]
        looped = case.steps()
        assert len(batched) == len(looped), "a batched run takes another number of steps"
        assert_close(batched[-1].state, looped[-1].state)


def assert_close(first: Any, second: Any, tolerance: float = 1e-8) -> None:
    """Raise `AssertionError` unless two trees have the same structure, and arrays that agree within tolerance."""
    if is_tensor(first):
        first, second = first.numpy(), second.numpy()
    if isinstance(first, np.ndarray | float):
        np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance)
    elif (parts := _parts(first)) is not None:
        others = _parts(second) or {}
        assert parts.keys() == others.keys()
        for key in parts:
            assert_close(parts[key], others[key], tolerance)
    else:
        assert first == second


@check
def state_and_memory_survive_disk(case: Case) -> None:
    """After every step, state and memories come back from bytes as they were, type for type."""
    engine, method = case.engine(), case.method
    ledger: dict[str, int] = {}
    for step in case.steps(engine):
        ledger |= step.answers.versions
        assert_same(_stored(step.state, method.State), step.state)
    for memory in engine.memories(ledger).values():
        assert_same(_stored(memory, *method.memory_types), memory)


def _stored(tree: Any, *types: type) -> Any:
    try:
        return decode(encode(tree), *types)
    except TreeError as error:
        raise AssertionError(f"states and memories must be trees that can be stored: {error}") from error


def assert_same(first: Any, second: Any) -> None:
    """Raise `AssertionError` unless two trees are equal, type for type and bit for bit."""
    assert type(first) is type(second), f"{type(first).__name__} came back for {type(second).__name__}"
    parts, others = _parts(first), _parts(second)
    if parts is None or others is None:
        assert digest(first) == digest(second), "the tree came back with other bits"
    else:
        assert list(parts) == list(others), "a mapping or a tuple came back with other keys or another length"
        for key in parts:
            assert_same(parts[key], others[key])


def _parts(tree: Any) -> Mapping[Any, Any] | None:
    """Return the parts of a mapping, a tuple or a dataclass by key, `None` for anything else."""
    if isinstance(tree, tuple):
        return dict(enumerate(tree))
    if is_dataclass(tree):
        return {field.name: getattr(tree, field.name) for field in fields(tree)}
    return tree if isinstance(tree, Mapping) else None


@check
def verbs_change_nothing_they_are_given(case: Case) -> None:
    """Every verb leaves its inputs as they were, and asking twice is asking once."""
    before = {name: table.fingerprint() for name, table in case.clients.items()}
    watched: Any = Watched(case.method)
    replace(case, method=watched).steps()
    assert not watched.faults, watched.faults[0]
    assert before == {name: table.fingerprint() for name, table in case.clients.items()}, "a client's table was changed"


class Watched:
    """A method whose verbs are watched for changed inputs, and for another result when called again."""

    def __init__(self, method: Method):
        self.method = method
        self.faults: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def _watch(self, verb: str, *inputs: Any) -> Any:
        before = [fingerprint(item) for item in inputs]
        result = getattr(self.method, verb)(*inputs)
        if [fingerprint(item) for item in inputs] != before:
            self.faults.append(f"{verb} changed something it was given")
        if verb != "absorb" and fingerprint(getattr(self.method, verb)(*inputs)) != fingerprint(result):
            self.faults.append(f"{verb} gave another result when called again: it keeps or draws what it should not")
        return result

    def ask(self, state: Any, cohort: Any, rng: Any) -> Any:
        """Ask twice, watching the state."""
        return self._watch("ask", state, cohort, rng)

    def answer(self, question: Any, prepared: Any, memory: Any, rng: Any) -> Any:
        """Answer twice, watching the question, the prepared data and the memory."""
        return self._watch("answer", question, prepared, memory, rng)

    def absorb(self, state: Any, answers: Any, public: Any, rng: Any) -> Any:
        """Absorb, watching the state and the answers."""
        return self._watch("absorb", state, answers, public, rng)


def fingerprint(value: Any) -> str:
    """Return a text that changes when anything in `value` does."""
    if isinstance(value, Message):
        return digest(value.to_tree())
    if isinstance(value, np.ndarray):
        return digest(value)
    parts = _parts(tuple(value) if isinstance(value, list) else value)
    if parts is None or hasattr(value, "fingerprint"):
        return pickle.dumps(value).hex()
    return json.dumps({str(key): fingerprint(item) for key, item in parts.items()})
