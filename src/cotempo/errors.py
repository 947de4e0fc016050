"""`CotempoError` and its kinds; their texts say what must hold, what was given, and what to do about it."""

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_LINES = 20


def printable(text: str) -> str:
    """Return text safe on a terminal: control characters, which could rewrite what was shown, become question marks."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


class CotempoError(Exception):
    """The root of all errors raised on purpose."""


class ParameterError(CotempoError, ValueError):
    """A hyperparameter, an option or an experiment file is wrong."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a table: where it is and what must hold."""

    must: str
    client: str | None = None
    column: str | None = None
    row: int | None = None
    more: int = 0  # further rows with the same fault, counted and not listed

    def __str__(self) -> str:
        places = {"client": self.client, "column": self.column, "row": self.row}
        where = ", ".join(f"{word} {place}" for word, place in places.items() if place is not None)
        return f"{where}: {self.must}" if where else self.must


class DataError(CotempoError, ValueError):
    """A table breaks its rules; `problems` lists all of them at once."""

    def __init__(self, problems: Sequence[Problem] | str):
        self.problems = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        # A rule that many rows or clients break is one line, so that it does not hide the others.
        rules: dict[object, list[Problem]] = {}
        for problem in self.problems:
            must = problem.must if problem.row is None else problem.must.split(", got ")[0]
            rules.setdefault((problem.column, must, problem.row is None), []).append(problem)
        lines = [_line(problems) for problems in list(rules.values())[:MOST_LINES]]
        more = len(rules) - len(lines)
        return "\n".join([*lines, f"... and {more} more"] if more else lines)


def _line(problems: Sequence[Problem]) -> str:
    """Return the first problem, and how many more rows, or clients, have it."""
    first, *others = problems
    count = len(others) + sum(problem.more for problem in problems)
    if not count:
        return str(first)
    if first.row is None:
        same = list(dict.fromkeys(problem.client for problem in others if problem.client not in (None, first.client)))
        named = ", ".join(map(str, same[:3])) + (", ..." if len(same) > 3 else "")
        more = f"{len(same):,} more {'client' if len(same) == 1 else 'clients'}: {named}"
        return f"{first} (and {more})" if same else str(first)
    rows = ", ".join(str(problem.row) for problem in others[:3]) + (", ..." if count > 3 else "")
    clients = len({problem.client for problem in problems})
    where = f" of {clients} clients" if clients > 1 else ""
    return f"{first} (and {count:,} more {'row' if count == 1 else 'rows'}{where}{f': {rows}' if rows else ''})"


class DataWarning(UserWarning):
    """Something about data or times that people may want to know: a guess, a column left out, a time never seen."""


class AdviceWarning(DataWarning):
    """A warning that the result's `advice()` repeats; the command line and reports show the advice only."""


def warn(words: str, category: type[DataWarning] = DataWarning) -> None:
    """Warn of something about data or times; the warning bears the line outside this package that led to it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
        frame = frame.f_back
    # Without a registry every call is told, where `warnings.warn` shows the same words of a line once.
    place = (frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", ""))
    warnings.warn_explicit(words, category, *place)


class SchemaError(DataError):
    """Clients that must agree on names, units or marks do not."""


class MessageError(CotempoError):
    """A message breaks its schema: names the field and the rule."""


class MemoryLost(CotempoError):  # noqa: N818 - it says what happened
    """A client no longer has the memory a question starts from."""


class EngineError(CotempoError):
    """An engine, a server or a site is not there, cannot be reached, or refuses."""


class AwaitingApproval(EngineError):  # noqa: N818 - it says what happened
    """People at a site have not approved a run yet; it can be resumed."""


class RunError(CotempoError):
    """A run folder cannot be used as asked."""


class QuorumError(RunError):
    """Too few clients answered; the run is checkpointed and can be resumed."""


def nearest(wrong: str, right: Iterable[str], cutoff: float = 0.5) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest right word, or nothing."""
    close = difflib.get_close_matches(wrong, list(right), n=1, cutoff=cutoff)
    return f" (did you mean {close[0]!r}?)" if close else ""
