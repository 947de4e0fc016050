"""A new method and a new engine are one file each: nothing else is touched.

A new kind of table is tested with the data.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import cotempo as ct
from cotempo.engines.settings import EngineSettings
from cotempo.errors import ParameterError
from cotempo.federation import registry
from cotempo.testing import check_method

METHOD = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from cotempo.federation import Ask, Expect, Message, Method, Spec, register


@dataclass(frozen=True)
class LargestState:
    largest: np.ndarray
    finished: bool = False


@register("maximum")
class ToyLargest(Method):
    phases: ClassVar = ("largest",)
    State: ClassVar = LargestState

    def open(self, roster, public, rng):
        return LargestState(np.zeros(len(roster.schema.columns)))

    def ask(self, state, cohort, rng):
        return None if state.finished else Ask("largest", cohort)

    def answer(self, question, prepared, memory, rng):
        return Message({"largest": np.round(prepared.values.max(axis=0))}), None

    def absorb(self, state, answers, public, rng):
        return LargestState(np.max([answers[name]["largest"] for name in answers.names], axis=0), True), {}

    def expects(self, state, phase):
        return Expect({"largest": Spec(state.largest.shape, description="your largest values, rounded")})
"""

ENGINE = """
from pydantic import Field
from cotempo.engines.local import LocalEngine
from cotempo.engines.settings import EngineSettings


class BackwardsSettings(EngineSettings):
    \"\"\"Clients in this process, the last one first.\"\"\"

    name: str = "toy-backwards"
    rest: float = Field(0.0, ge=0, description="Seconds to rest.")

    def open(self, method, tables, *, seed, run, shields, privacy):
        return Backwards(method, tables, seed=seed, shields=shields)


class Backwards(LocalEngine):
    def compute(self, questions):
        return (self.sites[question.client].answer(question) for question in reversed(questions))
"""


def load(path: Path, name: str, text: str) -> ModuleType:
    """Write a module and import it, as a user's own file would be."""
    (path / f"{name}.py").write_text(text)
    spec = importlib.util.spec_from_file_location(name, path / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clean() -> Iterator[None]:
    """Forget what a test registers."""
    methods, aliases, engines = dict(registry.methods()), dict(registry._ALIASES), dict(EngineSettings.engines)
    yield
    for known, before in (
        (registry._METHODS, methods),
        (registry._ALIASES, aliases),
        (EngineSettings.engines, engines),
    ):
        known.clear()  # type: ignore[attr-defined]
        known.update(before)  # type: ignore[attr-defined]


@pytest.fixture
def clients() -> dict[str, ct.Series]:
    rng = np.random.default_rng(3)
    return {name: ct.Series.from_arrays(rng.normal(5 * shift, 3, size=(9, 2))) for shift, name in enumerate("abc")}


def test_a_method_is_one_file(
    tmp_path: Path, clean: None, clients: dict[str, ct.Series], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # worker processes import it too
    method = load(tmp_path, "toy_largest", METHOD).ToyLargest()
    fitted = method.fit(clients, run=tmp_path / "run", workers=1)
    expected = np.round(np.max([table.values.max(axis=0) for table in clients.values()], axis=0))
    np.testing.assert_array_equal(fitted.state.largest, expected)
    assert ct.load(tmp_path / "run" / "result").digest == fitted.digest
    assert "rounded" in (tmp_path / "run" / "messages.jsonl").read_text()
    (tmp_path / "experiment.toml").write_text('method = "maximum"\n[data]\ngenerate = "series"\n')
    assert ct.run(tmp_path / "experiment.toml").state.finished
    check_method(method, clients)


def test_an_engine_is_one_file(tmp_path: Path, clean: None, clients: dict[str, ct.Series]) -> None:
    settings = load(tmp_path, "toy_backwards", ENGINE).BackwardsSettings
    assert "rest : float, default 0.0\n    Seconds to rest." in settings.__doc__
    expected = ct.FedMean().fit(clients).digest
    assert ct.FedMean().fit(clients, engine="toy-backwards").digest == expected
    assert ct.FedMean().fit(clients, engine=settings(rest=1.0), run=tmp_path / "run").digest == expected
    assert 'name = "toy-backwards"' in (tmp_path / "run" / "experiment.toml").read_text()
    assert ct.resume(tmp_path / "run", clients).digest == expected
    with pytest.raises(ParameterError, match="the engine toy-backwards has no option 'server', which is for flower"):
        ct.FedMean().fit(clients, engine="toy-backwards", server=tmp_path)
    with pytest.raises(ParameterError, match="options must be part of the engine's settings, got threads"):
        ct.FedMean().fit(clients, engine=settings(), threads=2)
