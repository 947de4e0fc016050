"""`Survey`: compare clients' tables by sums of figures, and let each client find out what is wrong with its own.

figures   clients send some figures of their tables, and the squares of them, of which only the sums are used
find      clients are told the sums; each subtracts its own part, tries out corrections of its table, and keeps
          what it found; it sends how many findings of each kind it has
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cotempo.data import Table, detect_kind
from cotempo.data.argument_checks import check_choice
from cotempo.errors import ParameterError, Problem, SchemaError
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    register,
)
from cotempo.surveys.events import SurveyedEvents
from cotempo.surveys.fitted import FittedSurvey, SurveyMemory, SurveyState
from cotempo.surveys.others import GRID, LARGEST, Others, pack
from cotempo.surveys.posts import SurveyedPosts
from cotempo.surveys.series import SurveyedSeries
from cotempo.surveys.surveyed import Surveyed
from cotempo.surveys.trials import KINDS, counts_of
from cotempo.typing import Floats

#: Of fewer clients a sum, less one's own part, would be another client's.
FEWEST_CLIENTS = 3


class Survey(Method):
    """The two phases that surveys of all kinds of tables have in common."""

    phases: ClassVar[tuple[str, ...]] = ("figures", "find")
    State: ClassVar[type] = SurveyState
    Memory: ClassVar[type | None] = SurveyMemory
    surveyed: ClassVar[type[Surveyed]]
    figures_are: ClassVar[str]

    def check(self, roster: Roster) -> None:
        """Require three clients of one kind of table; everything else is what the survey is about."""
        problems = [
            Problem(f"the table must hold {self.kind}, it holds {schema.kind}", client=name)
            for name, schema in sorted(roster.schemas.items())
            if schema.kind != self.kind
        ]
        if len(roster.names) < FEWEST_CLIENTS:
            problems.append(Problem(f"a survey needs at least {FEWEST_CLIENTS} clients, got {len(roster.names)}"))
        if problems:
            raise SchemaError(problems)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> SurveyState:
        """Begin with the names of all columns."""
        columns = tuple(sorted({column for schema in roster.schemas.values() for column in schema.columns}))
        nothing = np.zeros(len(self.surveyed.layout(columns)))
        return SurveyState("figures", columns, nothing, nothing, nothing, 0.0, np.zeros(len(KINDS) + 1))

    def begin(self, prepared: Table, rng: Rng) -> SurveyMemory:
        """Begin with nothing sent and nothing found."""
        return SurveyMemory(False)

    def ask(self, state: SurveyState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for figures, then tell their sums."""
        if state.phase == "finished":
            return None
        told: dict[str, Any] = {"columns": json.dumps(state.columns)}
        if state.phase == "find":
            told |= {"known": state.known, "total": state.total, "squares": state.squares}
        return Ask(state.phase, cohort, Message(told), ends_round=state.phase == "find")

    def answer(
        self, question: Question, prepared: Table, memory: SurveyMemory, rng: Rng
    ) -> tuple[Message, SurveyMemory | None]:
        """Send figures; then compare them with the others' and keep what is found."""
        columns = tuple(json.loads(question.common["columns"]))
        table, layout = self.surveyed(prepared, columns), self.surveyed.layout(columns)
        own = pack(table.own, layout)
        if question.phase == "figures":
            return own, SurveyMemory(True)
        sums: dict[str, Floats] = {name: question.common[name] for name in own}
        found = table.findings(Others.of_sums(sums, layout, own if memory.sent else None))
        counts = np.array([*counts_of(found), float(len(found) > 0)])
        kept = zip(*((finding.kind, finding.subject, finding.words) for finding in found), strict=True)
        return Message({"found": counts}), SurveyMemory(memory.sent, *kept)

    def absorb(
        self, state: SurveyState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[SurveyState, Metrics]:
        """Keep the sums of figures, then the numbers of findings."""
        if state.phase == "figures":
            sums = {name: answers.sum[name] for name in ("known", "total", "squares")}
            return replace(state, phase="find", clients=answers.sum.weight, **sums), {}
        found = answers.sum["found"]
        return replace(state, phase="finished", found=found), {"findings": float(found[:-1].sum())}

    def expects(self, state: SurveyState, phase: str) -> Expect:
        """Expect sums on a grid."""
        if phase == "find":
            about = "how many findings of each kind you have, and whether you have any"
            return Expect({"found": Spec((len(KINDS) + 1,), low=0, high=1e5, grid=0, description=about)}, True, (1, 1))
        size, about = (len(state.known),), f"{self.figures_are}; rounded"
        fields = {
            "known": Spec(size, low=0, high=1, grid=0, description="which of these figures you have"),
            "total": Spec(size, low=-LARGEST, high=LARGEST, grid=-GRID, description=about),
            "squares": Spec(size, low=0, high=LARGEST**2, grid=-2 * GRID, description="the squares of these figures"),
        }
        return Expect(fields, sums=True, weight=(1, 1))

    def result(self, outcome: Outcome) -> FittedSurvey:
        """Return what was found."""
        return FittedSurvey(outcome)


@register()
class SeriesSurvey(Survey):
    """Find harmonisation faults of series: units, signs, codes, clocks, sampling, repeated rows and others.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_series(clients=5, length=300, seed=0)
    >>> clients["client-2"] = ct.Series.from_arrays(clients["client-2"].values * [1, 1000, 1, 1])
    >>> print(*SeriesSurvey().fit(clients).findings["client-2"])
    your x1 is about 918 times larger than the others': a prefix such as milli or kilo (1,000)?
    """

    kind: ClassVar[str] = "series"
    surveyed: ClassVar[type[Surveyed]] = SurveyedSeries
    figures_are: ClassVar[str] = (
        "of each column: logarithms of its usual size and spread, its sign, skewness and roughness, shares of missing, "
        "whole, repeated and largest values, waves by the hour of the day; rank correlations of columns; the usual "
        "step, span and middle of your times, and the share of repeated rows"
    )


@register()
class EventsSurvey(Survey):
    """Find harmonisation faults of events: units of time, clocks, dates, codes of marks, repeated events."""

    kind: ClassVar[str] = "events"
    surveyed: ClassVar[type[Surveyed]] = SurveyedEvents
    figures_are: ClassVar[str] = (
        "logarithms of your mean gap and window, shares of marks, of repeated events and of whole times, waves of your "
        "events by the hour of the day, span and middle of your times"
    )


@register()
class PostsSurvey(Survey):
    """Find harmonisation faults of posts: languages, encodings, clocks, dates, repeated posts."""

    kind: ClassVar[str] = "posts"
    surveyed: ClassVar[type[Surveyed]] = SurveyedPosts
    figures_are: ClassVar[str] = (
        "shares of common words of seven languages, of garbled, repeated and longest texts and of capitals, "
        "waves of your posts by the hour of the day, span and middle of your times"
    )


SURVEYS: dict[str, type[Survey]] = {"series": SeriesSurvey, "events": EventsSurvey, "posts": PostsSurvey}


def survey(clients: Any = None, *, kind: str | None = None, **options: Any) -> FittedSurvey:
    """Compare clients' tables before learning from them, and tell each client what is wrong with its own.

    Parameters
    ----------
    clients
        A table or dataframe per client, or all that a reader takes; none where sites hold theirs.
    kind
        ``"series"``, ``"events"`` or ``"posts"``; by default by the tables.
    options
        Those of `Method.fit`: engine, privacy, run and others.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_events(clients=5, marks=2, seed=0)
    >>> ct.survey(clients, progress=False).answer()
    'nothing was found in the tables of 5 clients'
    """
    if kind is None:
        if clients is None:
            raise ParameterError("kind must be given where sites hold their tables: series, events or posts")
        tables = list(clients.values()) if hasattr(clients, "values") and not hasattr(clients, "columns") else []
        kind = tables[0].kind if tables and isinstance(tables[0], Table) else detect_kind(clients)
    check_choice("kind", kind, SURVEYS)
    fitted: FittedSurvey = SURVEYS[kind]().fit(clients, **options)
    return fitted
