"""`QuestionLog`: every question a site was asked in a run, and the rules that questions must keep."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from cotempo.federation.exchange import Question
from cotempo.federation.method import Method
from cotempo.privacy.policy import Refused
from cotempo.storage.files import private


class QuestionLog:
    """The questions of one run, in a file at the site, with their sizes.

    A question is refused if the method has no such phase; if a phase comes for the first time after one that follows
    it in the method's order; if a step comes again in another phase; or if a phase was asked as often as the method
    asks it. What is refused is logged too. That an old step does not come again, `Site` sees to.
    """

    def __init__(self, path: Path, method: Method):
        self.path = path
        self.method = method
        self.steps: dict[str, set[int]] = {}
        for line in _whole_lines(path):
            entry = json.loads(line)
            if entry["refused"] is None:
                self.steps.setdefault(entry["phase"], set()).add(entry["step"])

    def admit(self, question: Question, *, is_shields_own: bool) -> None:
        """Log a question; raise `Refused` if it breaks a rule."""
        refusal = None if is_shields_own else self._refusal(question)
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "step": question.step,
            "phase": question.phase[:200], "bytes": question.common.nbytes + question.own.nbytes,
            "fields": sorted({*question.common, *question.own})[:50], "refused": refusal,
        }  # fmt: skip
        try:
            with open(self.path, "a", encoding="utf-8", opener=private) as file:
                file.write(json.dumps(entry) + "\n")
        except OSError:
            _whole_lines(self.path)
            raise
        if refusal:
            raise Refused(refusal)
        if not is_shields_own:
            self.steps.setdefault(question.phase, set()).add(question.step)

    def has_step(self, step: int) -> bool:
        """Return whether a question of this step was admitted before."""
        return any(step in steps for steps in self.steps.values())

    def _refusal(self, question: Question) -> str | None:
        name, phases, phase = type(self.method).__name__, self.method.phases, question.phase
        if phase not in phases:
            return f"{name} asks in the phases {', '.join(phases)}, and in no other"
        asked = self.steps.get(phase, set())
        if question.step in asked:
            return None
        if self.has_step(question.step):
            return f"step {question.step} was asked before, in another phase"
        if not asked and (later := [known for known in phases[phases.index(phase) + 1 :] if known in self.steps]):
            return f"phase {phase!r} must not come after {later[0]!r}: phases come in the method's order"
        if len(asked) >= (most := self.method.most_questions[phase]):
            return f"phase {phase!r} is asked at most {most} times in a run with these parameters, and it was"
        return None


def _whole_lines(path: Path) -> list[bytes]:
    """Return a file's lines, and cut off one that a full disk or a kill cut short: its question was not answered."""
    if not path.exists():
        return []
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        with open(path, "r+b", opener=private) as file:
            file.truncate(sum(len(line) + 1 for line in lines))
    return lines
