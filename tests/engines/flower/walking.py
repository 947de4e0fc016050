"""A method whose clients can be held, killed, spoiled or starved in the middle of an answer, by files in a folder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series, Table
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Message,
    Method,
    Metrics,
    Question,
    Reducer,
    Rng,
    Roster,
    Spec,
    Staleness,
    register,
)
from cotempo.robust.reducer import SCREEN


@dataclass(frozen=True)
class Place:
    mean: NDArray[np.float64]
    rounds: int = 0


@register()
class Walking(Method):
    """Each client walks at random, drawn to where all are on average; all it has seen is in its memory."""

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("walk",)
    State: ClassVar[type] = Place
    Memory: ClassVar[type | None] = Place

    rounds: int = 5
    size: int = 8
    gate: str = ""

    def prepare(self, table: Table) -> NDArray[np.float64]:
        assert isinstance(table, Series)
        return np.resize(table.values.mean(axis=0), self.size)

    def begin(self, prepared: Any, rng: Rng) -> Place:
        return Place(np.array(prepared))

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Place:
        return Place(np.zeros(self.size))

    def ask(self, state: Place, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return None if state.rounds == self.rounds else Ask("walk", cohort, Message({"mean": state.mean}))

    def answer(self, question: Question, prepared: Any, memory: Place, rng: Rng) -> tuple[Message, Place]:
        step = rng("walk").normal(size=self.size)
        here = 0.7 * memory.mean + 0.3 * question.common["mean"] + step
        if self.gate:
            here = disturb(Path(self.gate), f"{question.client}-{question.step}", here)
        return Message({"position": here}), Place(here, memory.rounds + 1)

    def absorb(self, state: Place, answers: Answers, public: Table | None, rng: Rng) -> tuple[Place, Metrics]:
        mean = answers.mean("position")
        return replace(state, mean=mean, rounds=state.rounds + 1), {"distance": float(np.abs(mean).max())}

    def expects(self, state: Place, phase: str) -> Expect:
        return Expect({"position": Spec((self.size,), "float64", description="where the client is")}, sums=True)


def disturb(gate: Path, who: str, here: NDArray[np.float64]) -> NDArray[np.float64]:
    """Do what a file in the folder says."""
    if (gate / f"hold-{who}").exists():
        (gate / f"held-{who}").write_text(str(os.getpid()))
        while (gate / f"hold-{who}").exists():
            time.sleep(0.02)
    if (gate / f"kill-{who}").exists():
        (gate / f"kill-{who}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if (gate / f"spoil-{who}").exists():
        return here * np.nan
    if (gate / f"starve-{who}").exists():
        (gate / f"starve-{who}").unlink()
        return np.empty(2**55)
    return here


@register()
class Strolling(Walking):
    """A walk whose answers may come late."""

    reducer: ClassVar[Reducer] = SCREEN  # as methods of the library have it

    @property
    def staleness(self) -> dict[str, Staleness]:
        return {"walk": "weighted"}
