"""FedMean, the smallest complete method: a weighted mean of the clients' means. Read it to learn the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from cotempo.data import Series, Table
from cotempo.errors import DataError, Problem
from cotempo.federation.benefit import NOT_COMPARED, Joining, benefit_error, expect_tally
from cotempo.federation.exchange import Answers, Ask, Expect, Question, Spec
from cotempo.federation.fitted import Fitted, Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Method, Metrics, Roster, Staleness
from cotempo.federation.registry import register
from cotempo.federation.rng import Rng
from cotempo.typing import Floats


@dataclass(frozen=True)
class MeanState:
    """What the server keeps: the pooled mean so far, and what joining was worth."""

    variables: tuple[str, ...]
    mean: Floats
    rows: float = 0.0
    finished: bool = False
    joining: Joining = field(default_factory=Joining)


@dataclass(frozen=True)
class MeanMemory:
    """What a client keeps: its error alone and together, and the standard error of the difference."""

    compared: Floats


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
    Memory: ClassVar[type | None] = MeanMemory
    metric: ClassVar[str] = "leave-one-out squared error, in variances"
    higher_is_better: ClassVar[bool] = False

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

    def answer(
        self, question: Question, prepared: Floats, memory: MeanMemory | None, rng: Rng
    ) -> tuple[Message, MeanMemory | None]:
        """Send the mean of the own rows, or whether the pooled one is better on them."""
        if question.phase == "mean":
            return Message({"mean": prepared.mean(axis=0)}, weight=len(prepared)), None
        compared = compare_means(prepared, question.common["mean"], question.common["rows"])
        return Message({"joining": self.tally(compared)}), MeanMemory(compared)

    def absorb(self, state: MeanState, answers: Answers, public: Table | None, rng: Rng) -> tuple[MeanState, Metrics]:
        """Keep the pooled mean, then what it was worth."""
        if not state.rows:
            return replace(state, mean=answers.mean("mean"), rows=answers.sum.weight), {"rows": answers.sum.weight}
        joining = Joining(answers.sum["joining"])
        return replace(state, joining=joining, finished=True), {"gain": joining.gain}

    def expects(self, state: MeanState, phase: str) -> Expect:
        """Expect sums only."""
        if phase == "mean":
            about = "the mean of each variable over your complete rows; your number of rows is its weight"
            fields = {"mean": Spec((len(state.variables),), description=about)}
            return Expect(fields, sums=True, weight=(1, 1e12), rows=lambda message: 1.0)
        return Expect({"joining": expect_tally()}, sums=True)

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Means add up whenever they come."""
        return {"mean": "accumulate"}

    def result(self, outcome: Outcome) -> FittedMean:
        """The pooled mean."""
        return FittedMean(outcome)


def compare_means(rows: Floats, pooled: Floats, total: float) -> Floats:
    """Return the errors of the own and of the pooled mean on the rows, and the standard error of the difference."""
    varies, n = np.ptp(rows, axis=0) > 0, len(rows)
    if not varies.any():
        return NOT_COMPARED
    rows, pooled = rows[:, varies], pooled[varies]
    own, deviation = rows.mean(axis=0), rows.std(axis=0)
    # A mean over m rows without this one misses it by m / (m - 1) times the distance to the mean with it.
    together = (((rows - pooled) / deviation) ** 2 * (total / (total - 1)) ** 2).mean(axis=1)
    alone = (((rows - own) / deviation) ** 2 * (n / (n - 1)) ** 2).mean(axis=1)
    return np.array([alone.mean(), together.mean(), benefit_error(together - alone)])


class FittedMean(Fitted):
    """The result of FedMean."""

    @property
    def mean(self) -> Floats:
        """The mean of each variable over all clients' rows."""
        mean: Floats = self.state.mean
        return mean
