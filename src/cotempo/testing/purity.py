"""`Watched`: a method whose verbs are watched for changed inputs, and the comparison of trees."""

import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.storage.tree import digest, is_tensor


class Watched:
    """A method whose verbs are watched for changed inputs."""

    def __init__(self, method: Method):
        self.method = method
        self.faults: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def _watch(self, verb: str, inputs: Iterable[Any], call: Callable[[], Any]) -> Any:
        inputs = list(inputs)
        before = [fingerprint(item) for item in inputs]
        result = call()
        if [fingerprint(item) for item in inputs] != before:
            self.faults.append(f"{verb} changed something it was given")
        return result

    def ask(self, state: Any, cohort: Any, rng: Any) -> Any:
        """Ask twice."""
        first = self._watch("ask", [state], lambda: self.method.ask(state, cohort, rng))
        again = self.method.ask(state, cohort, rng)
        if (first is None) != (again is None) or (first and fingerprint(first) != fingerprint(again)):
            self.faults.append("ask gave another question when asked again")
        return first

    def answer(self, question: Any, prepared: Any, memory: Any, rng: Any) -> Any:
        """Watch the question, the prepared data and the memory."""
        given = [question, prepared, memory]
        result = self._watch("answer", given, lambda: self.method.answer(question, prepared, memory, rng))
        again = self.method.answer(question, prepared, memory, rng)
        if fingerprint(result) != fingerprint(again):
            self.faults.append("answer gave another answer when asked again: it keeps or draws something it should not")
        return result

    def absorb(self, state: Any, answers: Any, public: Any, rng: Any) -> Any:
        """Watch the state and the answers."""
        return self._watch(
            "absorb", [state, answers.total, answers.each], lambda: self.method.absorb(state, answers, public, rng)
        )


def fingerprint(value: Any) -> str:
    """Return a text that changes when anything in `value` does."""
    if isinstance(value, Message):
        return digest(value.to_tree())
    if isinstance(value, Mapping):
        return json.dumps({str(key): fingerprint(item) for key, item in value.items()})
    if isinstance(value, tuple | list):
        return json.dumps([fingerprint(item) for item in value])
    if hasattr(value, "__dataclass_fields__") and not hasattr(value, "fingerprint"):
        return json.dumps({name: fingerprint(getattr(value, name)) for name in value.__dataclass_fields__})
    if isinstance(value, np.ndarray):
        return digest(value)
    return pickle.dumps(value).hex()


def assert_same(first: Any, second: Any) -> None:
    """Two trees are equal, type for type and bit for bit."""
    assert type(first) is type(second), f"{type(first).__name__} came back for {type(second).__name__}"
    if isinstance(first, Mapping):
        assert list(first) == list(second), "a mapping came back with other keys"
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, tuple):
        assert len(first) == len(second), "a tuple came back with another length"
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif hasattr(first, "__dataclass_fields__"):
        for name in first.__dataclass_fields__:
            assert_same(getattr(first, name), getattr(second, name))
    else:
        assert digest(first) == digest(second), "the tree came back with other bits"


def assert_close(first: Any, second: Any, tolerance: float = 1e-8) -> None:
    """Two trees have the same structure, and arrays that agree within tolerance."""
    if is_tensor(first):
        first, second = first.numpy(), second.numpy()
    if isinstance(first, np.ndarray | float):
        np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance)
    elif isinstance(first, Mapping):
        assert first.keys() == second.keys()
        for key in first:
            assert_close(first[key], second[key], tolerance)
    elif isinstance(first, tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_close(one, other, tolerance)
    elif hasattr(first, "__dataclass_fields__"):
        for name in first.__dataclass_fields__:
            assert_close(getattr(first, name), getattr(second, name), tolerance)
    else:
        assert first == second
