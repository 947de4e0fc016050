"""What an engine offers the loop: who is there, and an exchange of questions for replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from cotempo.data import Schema
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Memory, State


class Engine(Protocol):
    """Where clients run."""

    def names(self) -> tuple[str, ...]:
        """The clients that can be asked now; this may change from round to round."""

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """What these clients' tables look like."""

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask, and yield one reply per question, in any order."""

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """The memories a checkpoint must hold; none where the clients keep theirs at their own place."""

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Take back what `memories` gave."""

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:
        """The run is finished: hand the result to clients that keep theirs at their own place."""

    def close(self) -> None:
        """Let go of processes and connections."""
