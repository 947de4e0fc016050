"""`QuestionLog`: every question a site was asked in a run, and the rules that questions must keep."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from cotempo.federation.exchange import Question
from cotempo.federation.method import Method
from cotempo.privacy.policy import Refused
from cotempo.privacy.private_form import PrivateForm
from cotempo.storage.files import private


class QuestionLog:
    """The questions of one run, in a file at the site, with their sizes.

    A question is refused if the method has no such phase; if a phase comes for the first time after one that follows
    it in the method's order; if a step comes again in another phase; or if a phase was asked as often as the method
    asks it. In a private run no step comes again with another content, answered or not: from which contents a client
    fails, values could be told without noise. What is refused is logged too. That an old step does not come again,
    `Site` sees to.
    """

    def __init__(self, path: Path, method: Method):
        self.path = path
        self.method = method
        self.steps: dict[str, set[int]] = {}
        self.contents: dict[int, str] = {}  # in a private run
        for line in _whole_lines(path):
            entry = json.loads(line)
            if entry["refused"] is None and entry["phase"] in method.phases:  # not what a shield answered
                self._keep(entry["phase"], entry["step"], entry.get("content", ""))

    def admit(self, question: Question, *, is_shields_own: bool) -> None:
        """Log a question; raise `Refused` if it breaks a rule."""
        content = _digest(question)
        refusal = None if is_shields_own else self._refusal(question, content)
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "step": question.step,
            "phase": question.phase[:200], "bytes": question.common.nbytes + question.own.nbytes,
            "fields": sorted({*question.common, *question.own})[:50], "content": content, "refused": refusal,
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
            self._keep(question.phase, question.step, content)

    def _keep(self, phase: str, step: int, content: str) -> None:
        self.steps.setdefault(phase, set()).add(step)
        if isinstance(self.method, PrivateForm):
            self.contents.setdefault(step, content)

    def has_step(self, step: int) -> bool:
        """Return whether a question of this step was admitted before."""
        return any(step in steps for steps in self.steps.values())

    def _refusal(self, question: Question, content: str) -> str | None:
        name, phases, phase = type(self.method).__name__, self.method.phases, question.phase
        if phase not in phases:
            return f"{name} asks in the phases {', '.join(phases)}, and in no other"
        asked = self.steps.get(phase, set())
        if question.step in asked:
            if isinstance(self.method, PrivateForm) and self.contents[question.step] not in ("", content):
                return f"step {question.step} was asked before with another content"
            return None
        if self.has_step(question.step):
            return f"step {question.step} was asked before, in another phase"
        if not asked and (later := [known for known in phases[phases.index(phase) + 1 :] if known in self.steps]):
            return f"phase {phase!r} must not come after {later[0]!r}: phases come in the method's order"
        if len(asked) >= (most := self.method.most_questions[phase]):
            return f"phase {phase!r} is asked at most {most} times in a run with these parameters, and it was"
        return None


def _digest(question: Question) -> str:
    return hashlib.sha256(question.common.to_bytes() + question.own.to_bytes()).hexdigest()


def _whole_lines(path: Path) -> list[bytes]:
    """Return a file's lines, and cut off one that a full disk or a kill cut short: its question was not answered."""
    if not path.exists():
        return []
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        with open(path, "r+b", opener=private) as file:
            file.truncate(sum(len(line) + 1 for line in lines))
    return lines
