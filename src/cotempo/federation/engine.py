"""`Engine`: what the loop needs of the place where clients run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from cotempo.data import Schema
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Memory, State


class Engine(Protocol):
    """Where clients run: this process, a pool of processes, or sites across organisations."""

    def names(self) -> tuple[str, ...]:
        """Return the clients that can be asked now, in name order.

        The loop calls this once per round: clients may come and go. It may be empty.
        """

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        """Return the schemas of these clients' tables.

        Raise `DataError` or `EngineError` if one of them cannot take part; the error names every such client.
        """

    def declared_rows(self) -> Mapping[str, int]:
        """Return how many rows clients said they have when they joined; none where they did not say."""
        return {}

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask, and yield replies as they come, in any order.

        `questions` are at least one, all of the same phase, at most one per client. An error of one client must not
        stop the others: it is a reply made by `Question.fail`. Duplicates are dropped by the loop, and a question
        without a reply counts as lost.

        A loop that does not wait for the slowest leaves an exchange early, and gives the questions that are still open
        again in the next one, with those of that step: an engine for it does not send them twice, and forgets those
        that are not given again.
        """

    def memories(self, ledger: Mapping[str, int]) -> Mapping[str, Memory]:
        """Return the memories a checkpoint must hold: those the ledger names by client and version.

        Empty if clients store their memory themselves.
        """
        return {}

    def restore(self, memories: Mapping[str, Memory], ledger: Mapping[str, int]) -> None:
        """Store what `memories` returned for this ledger, before a resumed run continues."""
        return

    def finish(self, state: State, ledger: Mapping[str, int]) -> None:
        """End a finished run: send the final state to clients that are to have it."""
        return

    def close(self) -> None:
        """Release processes and connections; called once, also after an error."""
        return
