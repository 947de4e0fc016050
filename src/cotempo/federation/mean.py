"""FedMean, the smallest complete method: a weighted mean of the clients' means. Read it to learn the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from cotempo.data import Series, Table
from cotempo.errors import DataError, Problem
from cotempo.federation.exchange import Answers, Ask, Expect, Question, Spec
from cotempo.federation.fitted import Fitted, Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Benefit, Method, Metrics, Roster, Staleness, standard_error
from cotempo.federation.registry import register
from cotempo.federation.rng import Rng
from cotempo.typing import Floats


@dataclass(frozen=True)
class MeanState:
    """What the server keeps: the pooled mean so far, and what clients said of it."""

    variables: tuple[str, ...]
    mean: Floats
    rows: float = 0.0
    finished: bool = False
    errors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@register()
class FedMean(Method):
    """The mean of every variable over all clients' rows.

    One exchange gathers the means, weighted by rows; a second asks each client how well the pooled mean and its own
    predict its rows, each row left out of the mean that predicts it. Errors are in units of the client's own variance:
    neither units nor variables that never change decide who was helped.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients = {"a": ct.Series.from_arrays(np.array([[1.0], [3.0]])),
    ...            "b": ct.Series.from_arrays(np.array([[5.0]]))}
    >>> ct.FedMean().fit(clients).mean
    array([3.])
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("mean", "compare")
    State: ClassVar[type] = MeanState

    def prepare(self, table: Table) -> Floats:
        """Keep the rows in which nothing is missing."""
        assert isinstance(table, Series)  # `check` saw the schema
        rows = table.values[~np.isnan(table.values).any(axis=1)]
        if not len(rows):
            raise DataError([Problem("at least one row must have no missing cell")])
        return rows

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> MeanState:
        """Nothing is known yet."""
        return MeanState(roster.schema.columns, np.zeros(len(roster.schema.columns)))

    def ask(self, state: MeanState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """First the means, then what they are worth."""
        if state.finished:
            return None
        if not state.rows:
            return Ask("mean", cohort, ends_round=False)
        return Ask("compare", cohort, Message({"mean": state.mean, "rows": state.rows}))

    def answer(self, question: Question, prepared: Floats, memory: None, rng: Rng) -> tuple[Message, None]:
        """Send the mean of the own rows, or the errors of both means on them."""
        rows, n = prepared, len(prepared)
        own = rows.mean(axis=0)
        if question.phase == "mean":
            return Message({"mean": own}, weight=n), None
        varies = np.ptp(rows, axis=0) > 0
        if not varies.any():
            return Message({"alone": -1.0, "together": -1.0, "error": 0.0}), None
        rows, own, pooled = rows[:, varies], own[varies], question.common["mean"][varies]
        total, deviation = question.common["rows"], rows.std(axis=0)
        # A mean over m rows without this one misses it by m / (m - 1) times the distance to the mean with it.
        together = (((rows - pooled) / deviation) ** 2 * (total / (total - 1)) ** 2).mean(axis=1)
        alone = (((rows - own) / deviation) ** 2 * (n / (n - 1)) ** 2).mean(axis=1)
        error = standard_error(together - alone)
        return Message({"alone": float(alone.mean()), "together": float(together.mean()), "error": error}), None

    def absorb(self, state: MeanState, answers: Answers, public: Table | None, rng: Rng) -> tuple[MeanState, Metrics]:
        """Keep the pooled mean, then what each client made of it."""
        if not state.rows:
            return replace(state, mean=answers.mean("mean"), rows=answers.sum.weight), {"rows": answers.sum.weight}
        sent = {name: tuple(answers[name][key] for key in ("alone", "together", "error")) for name in answers.names}
        errors = {name: found for name, found in sent.items() if min(found) >= 0}
        gain = float(np.mean([alone - together for alone, together, _ in errors.values()] or [0.0]))
        return replace(state, errors=errors, finished=True), {"gain": gain}

    def expects(self, state: MeanState, phase: str) -> Expect:
        """Means cross only as a sum; errors are three numbers a client."""
        if phase == "mean":
            about = "the mean of each variable over your complete rows; your number of rows is its weight"
            return Expect({"mean": Spec((len(state.variables),), description=about)}, sums=True, weight=(1, 1e12))
        about = "mean squared error of {} on your rows, in units of your variance; -1 where nothing varies"
        own = Spec((), "float", low=-1, description=about.format("your own mean"))
        pooled = Spec((), "float", low=-1, description=about.format("the pooled mean"))
        error = Spec((), "float", low=0, description="standard error of their difference")
        return Expect({"alone": own, "together": pooled, "error": error})

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Means add up whenever they come."""
        return {"mean": "accumulate"}

    def benefit(self, state: MeanState) -> Mapping[str, Benefit]:
        """Leave-one-out squared error in units of the client's variance, alone and together."""
        return {
            name: Benefit("leave-one-out squared error, in variances", alone, together, False, error)
            for name, (alone, together, error) in state.errors.items()
        }

    def result(self, outcome: Outcome) -> FittedMean:
        """The pooled mean."""
        return FittedMean(outcome)


class FittedMean(Fitted):
    """The result of FedMean."""

    @property
    def mean(self) -> Floats:
        """The mean of each variable over all clients' rows."""
        mean: Floats = self.state.mean
        return mean
