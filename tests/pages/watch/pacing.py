"""A method whose clients answer when a test lets them, and a process that runs it; for tests of the live page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import cotempo as ct
from cotempo.federation import Answers, Ask, Expect, Message, Method, Metrics, Question, Rng, Roster, Spec, register

ROUNDS = 6


@dataclass(frozen=True)
class Count:
    rounds: int = 0


@register()
class Paced(Method):
    """Each client sends a loss that falls; with a `gate`, a client of round n waits until the gate's `open` is n."""

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("walk",)
    State: ClassVar[type] = Count

    rounds: int = ROUNDS
    gate: str = ""

    def open(self, roster: Roster, public: Any, rng: Rng) -> Count:
        return Count()

    def ask(self, state: Count, cohort: Sequence[str], rng: Rng) -> Ask | None:
        return None if state.rounds == self.rounds else Ask("walk", cohort)

    def expects(self, state: Count, phase: str) -> Expect:
        return Expect({"loss": Spec((), "float", description="how far you are")}, sums=True)

    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, Any]:
        if self.gate:
            wait_at(Path(self.gate), question.client, question.round)
        return Message({"loss": len(question.client) + 1 / question.round}), None

    def absorb(self, state: Count, answers: Answers, public: Any, rng: Rng) -> tuple[Count, Metrics]:
        return Count(state.rounds + 1), {"loss": float(answers.mean("loss"))}

    def work(self, state: Count) -> tuple[float, float]:
        return state.rounds, self.rounds


def wait_at(gate: Path, client: str, round: int) -> None:
    """Leave this process's number, and wait until the gate is open for a round."""
    (gate / f"at-{client.split()[0]}-{round}").write_text(str(os.getpid()))
    while True:
        try:
            if int((gate / "open").read_text() or 0) >= round:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.02)


def make_clients(names: Sequence[str]) -> dict[str, ct.Series]:
    return {name: ct.Series.from_arrays(np.arange(20.0).reshape(10, 2)) for name in names}


def start(run: Path, gate: Path, names: Sequence[str], verb: str = "fit") -> subprocess.Popen[bytes]:
    """Begin or resume a run in another process, with a worker process for each client."""
    gate.mkdir(exist_ok=True)
    words = json.dumps([verb, str(run), str(gate), list(names)])
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import pacing; pacing.main(sys.argv[1])"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", code, words], **silent)


def main(words: str) -> None:
    verb, run, gate, names = json.loads(words)
    clients = make_clients(names)
    if verb == "resume":
        ct.resume(run, clients, progress=False)
    else:
        Paced(gate=gate).fit(clients, run=run, workers=len(names), quorum=0.3, progress=False)


def open_gate(gate: Path, round: int) -> None:
    """Let all clients answer the questions of rounds up to this one."""
    (gate / ".open").write_text(str(round))
    (gate / ".open").rename(gate / "open")


def pretend(run: Path, **pulse: Any) -> None:
    """Let the folder of a finished run say that it is at work, in a step that was begun 50 seconds ago."""
    now, names = time.time(), ["ash", "birch", "cedar"]
    at_work = {
        "began": now - 60, "clients": names, "away": {}, "step": 2, "round": 2, "phase": "walk", "asked_at": now - 50,
        "asked": names, "answered": {}, "failed": {}, "work": [1, 6], "beat": now + 3600,
    }  # fmt: skip
    (run / "now.json").write_text(json.dumps({**at_work, **pulse}))
