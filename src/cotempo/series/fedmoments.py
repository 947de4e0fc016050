"""FedMoments: a Gaussian process for each owner of series, from one round of sums over all.

centre     clients send counts and sums, and products of steps: common units, and random walks to start from
moments    clients send sums of window moments; where cells are missing again, with gaps filled by the totals
choose     clients send errors of each prior on hidden cells
compare    each client chooses how far it follows the others, judged on hidden cells, and calibrates its intervals

Of all that is sent only totals are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Series, Table, make_series
from cotempo.data.clock import Clock
from cotempo.data.tables import make_frame
from cotempo.errors import Problem, SchemaError
from cotempo.federation import (
    NOT_COMPARED,
    Answers,
    Ask,
    Expect,
    Joining,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    benefit_error,
    expect_tally,
    register,
)
from cotempo.federation.reducers import Reducer
from cotempo.robust.per_row import diagonal_places
from cotempo.robust.reducer import SCREEN
from cotempo.series import seriesmoments
from cotempo.series.filling.calibration import Calibration
from cotempo.series.filling.limits import Limits
from cotempo.series.fitted import MOST_SHOWN, FittedOwners
from cotempo.series.moments import model_choice
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.lacked import levels_of, recentre
from cotempo.series.moments.marginals import Marginals
from cotempo.series.moments.model_choice import PRIORS, USUAL, split
from cotempo.series.moments.moments import Units, WindowMoments, find_units, sum_units
from cotempo.series.moments.personal import SHARES, PooledSums, follow
from cotempo.series.seriesmoments import (
    WINDOW,
    MomentsModel,
    learn,
    own_sums,
    own_window,
    usual_window,
    windows_of_sweeps,
)
from cotempo.series.windows import SeriesRows, Timing, excerpt, need_many, usual_step
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.privacy.settings import Privacy
    from cotempo.series.moments.private import PrivateMoments

BLOCKS = 20
METRIC = "error of filling hidden cells"
SUMS = ("centre", "moments", "choose")
PARTS = "in four fifths of your rows and in all"
MOST_TIMES = 16.0  # the step of the median client: a client that moves farther would drown the others
OCTAVES = 128
SIZES = 2.3  # screening: logarithms of usual steps of honest clients may be so far apart, ten times; of levels twice so
#: What moments of several clients tell of one that is unlike the others.
ONE_OF_A_KIND = (
    "If one site alone has a feature, or lacks one that all others have, what is said of sums over all sites tells the "
    "means and variances of that site's rows."
)
FREE = 1e200  # a field that is not screened
HARM = 1.1  # times the error alone
ODD, FEWEST_BESIDE = 0.5, 3  # difference of a correlation from most clients' that is odd, of so many that have it
COMMON_MUST = "every client must have this common feature; a column of missing values will do"


@dataclass(frozen=True)
class MomentsState:
    """The server's state: units, and sums.

    `products` and `counts` (as `WindowMoments.pack` returns them) and `pairs` and `steps` (as of `sum_units`) have two
    parts: of the rows to learn from, which are judged on the others, and of all rows. `sweep` is how often moments were
    summed, and `prior` which of `PRIORS` was chosen. `usual` is the usual step of the median client, empty unless some
    clients' are far larger: these leave the feature out of the sums. `lacked` are the features that some clients
    lack, `levels` as of `WindowMoments`, in two parts, and `means` as of `recentre`.
    """

    features: tuple[str, ...]
    phase: str
    units: Units
    pairs: Floats
    steps: Floats
    incomplete: bool = False
    sweep: int = 0
    products: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    counts: Floats = field(default_factory=lambda: np.zeros((2, 0, 0)))
    prior: int = USUAL
    joining: Joining = field(default_factory=Joining)
    usual: Floats = field(default_factory=lambda: np.zeros(0))
    lacked: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    levels: Floats = field(default_factory=lambda: np.zeros((2, 0, 0, 0)))
    means: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def moments(self) -> WindowMoments:
        """Return the sums over all rows."""
        return WindowMoments.unpack(self.products[1], self.counts[1], self.lacked, self.levels[1])


@dataclass(frozen=True)
class NamedRows:
    """A client's rows, and the names of their features."""

    rows: SeriesRows
    features: tuple[str, ...]

    @property
    def seen(self) -> NDArray[np.intp]:
        """Return which features were measured."""
        return np.flatnonzero(~np.isnan(self.rows.values).all(axis=0))

    def among(self, names: Sequence[str]) -> tuple[SeriesRows, NDArray[np.intp]]:
        """Return rows of the measured features, and their positions among `names`."""
        own = np.array([names.index(self.features[column]) for column in self.seen], dtype=np.intp)
        return self.rows.with_values(self.rows.values[:, self.seen]), own


@dataclass(frozen=True)
class MomentsMemory:
    """A client's memory: intervals, errors alone and together, what it added to the sums, and its own process.

    `marginals` are for synthetic windows, `step` is the usual number of seconds between two of its rows, and `excerpt`
    some rows with gaps, as `excerpt` returns them, for figures. `lines` is the error of linear interpolation on the
    cells that were hidden to compare, and `pooled` that of all clients' sums, NaN where none were. A client that
    follows nobody has `units` and `window` of its own. `apart` are the features it left out of the sums, as JSON.
    `sensors` has rows, the share of missing cells, and errors of filling and of the line for each feature, in its unit,
    ``(4, features)``. `limits` are the hard ends of its ranges.
    """

    calibration: Calibration
    compared: Floats = field(default_factory=lambda: NOT_COMPARED)
    sent: WindowMoments | None = None
    process: Gaussian | None = None
    marginals: Marginals | None = None
    step: float = 0.0
    excerpt: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    lines: float = float("nan")
    pooled: float = float("nan")
    units: Units | None = None
    window: int = 0
    apart: str = "[]"
    sensors: Floats = field(default_factory=lambda: np.zeros((4, 0)))
    limits: Limits | None = None


@register()
class FedMoments(Method):
    """Fill gaps of many owners' series by how all of them move together and on, from one round of sums.

    The federated `SeriesMoments`: sums of window moments add up to those of all clients' rows together. Clients may
    have different features; what two features have to do with each other is learned from the clients that have both.
    Each client follows the others as far as that does not harm the filling of cells it hides for the purpose.

    Examples
    --------
    >>> method, clients, _ = FedMoments.example()
    >>> fitted = method.fit(clients)
    >>> bool(np.isnan(fitted["client-0"].impute(clients["client-0"]).values).any())
    False
    """

    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = (*SUMS, "compare")
    State: ClassVar[type] = MomentsState
    private_units: ClassVar[tuple[str, ...]] = ("row",)
    learns_alone: ClassVar[str] = "SeriesMoments().fit(table)"
    Memory: ClassVar[type | None] = MomentsMemory
    metric: ClassVar[str] = METRIC
    higher_is_better: ClassVar[bool] = False

    window: int | None = WINDOW
    minimum_rows: int = Field(
        default=20,
        ge=1,
        description="A client with fewer rows is refused, unless it has none: sums would reveal them.",
    )

    @classmethod
    def example(cls) -> tuple[FedMoments, dict[str, Table], None]:
        """Return a very small instance: three clients, one of them with a feature less."""
        made, _ = make_series(clients=3, length=40, features=3, missing=0.2, seed=0)
        clients: dict[str, Table] = dict(made)
        last = made["client-2"]
        clients["client-2"] = replace(last, features=last.features[:-1], values=last.values[:, :-1])
        return cls(window=4), clients, None

    def private(self, privacy: Privacy) -> PrivateMoments:
        """Return the form that learns from noised moments of steps."""
        from cotempo.series.moments.private import PrivateMoments

        return PrivateMoments.of(self, privacy)

    # At a client.

    def prepare(self, table: Table) -> NamedRows:
        """Cut the pieces, and refuse a few rows."""
        assert isinstance(table, Series)  # `check` saw the schema
        rows = SeriesRows.of(table)
        need_many(rows, self.minimum_rows)
        return NamedRows(rows, table.features)

    def begin(self, prepared: NamedRows, rng: Rng) -> MomentsMemory:
        """Start without intervals."""
        return MomentsMemory(Calibration.none(len(prepared.features)))

    def answer(
        self, question: Question, prepared: NamedRows, memory: MomentsMemory, rng: Rng
    ) -> tuple[Message, MomentsMemory | None]:
        """Send sums, or how far joining helped here."""
        if question.phase == "compare":
            kept = _compare(question.common, prepared, memory, self.window)
            return Message({"joining": self.tally(kept.compared)}), kept
        message = contribute(question.phase, question.common, prepared)
        if question.phase != "moments":
            return message, None
        return message, replace(memory, sent=own_part(message, question.common, prepared))

    # Known to both sides.

    def reveals(self) -> str:
        """Tell when sums over one client's rows become known."""
        return ONE_OF_A_KIND

    # At the server.

    def check(self, roster: Roster) -> None:
        """Require the same unit of time of all clients; features may differ."""
        check_series(roster)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> MomentsState:
        """Start with the features that any client has."""
        names = tuple(dict.fromkeys(column for name in roster.names for column in roster.schemas[name].columns))
        count = len(names)
        units = Units(np.zeros(count), np.ones(count))
        return MomentsState(names, "centre", units, np.zeros((2, count, count)), np.zeros((2, count, count)))

    @property
    def equal_steps(self) -> Literal["", "advised", "required"]:
        """A window is a number of rows."""
        return "advised"

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers: a second time where scales differ, or cells are missing."""
        return {**dict.fromkeys(self.phases, 1), "centre": 2, "moments": 2}

    def ask(self, state: MomentsState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for the next sums; all are one round."""
        if state.phase == "finished":
            return None
        sent: dict[str, Any] = {"features": json.dumps(state.features)}
        sent |= {"usual": state.usual} if len(state.usual) else {}
        if state.phase != "centre":
            sent |= {"centre": state.units.centre, "step": state.units.step}
        if state.phase == "moments":
            sent |= {"pairs": state.pairs, "steps": state.steps, "window": self._windows(state)[state.sweep]}
        if state.sweep:
            sent |= {"products": state.products, "counts": state.counts}
        if len(state.lacked) and state.phase != "centre":
            sent |= {"lacked": state.lacked} | ({"levels": state.levels} if state.sweep else {})
        if state.phase == "compare":
            sent |= {"prior": state.prior, "noised": not state.pairs.any()}
        return Ask(state.phase, cohort, Message(sent), ends_round=state.phase == "compare")

    def absorb(
        self, state: MomentsState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[MomentsState, Metrics]:
        """Keep the sums, then the choice, then what joining was worth."""
        if state.phase == "compare":
            joining = Joining(answers.sum["joining"])
            return replace(state, phase="finished", joining=joining), {"gain": joining.gain}
        total = answers.sum
        if state.phase == "centre":
            usual, largest = read_votes(total["votes"])
            if not len(state.usual) and (largest > MOST_TIMES * usual).any():
                return replace(state, usual=usual), {}
            pairs, steps = total["pairs"], total["steps"]
            units = find_units(total["counts"], total["sums"], pairs[1], steps[1])
            for part in range(2):  # as clients will do: it fails here if it would fail there
                seriesmoments.first_guess(units, pairs[part], steps[part])
            having = total["having"]
            lacked = np.flatnonzero((having[0].diagonal() > 0) & (having[2].diagonal() > 0))
            incomplete = total["incomplete"] > 0 or len(lacked) > 0
            found = replace(state, units=units, pairs=pairs, steps=steps, incomplete=incomplete)
            found = replace(found, lacked=lacked, means=having[1] / np.maximum(having[0], 1.0))
            return replace(found, phase="moments"), {}
        if state.phase == "moments":
            last = state.sweep + 1 == len(self._windows(state))
            sums = {name: total[name] for name in ("products", "counts", *(["levels"] if len(state.lacked) else []))}
            _require_usable(sums, state.lacked, [*PRIORS] if last else [PRIORS[USUAL]])
            rows = float(sums["counts"][1].max(initial=0.0))
            units = state.units
            if not last and len(state.lacked):
                units = recentre(units, pooled_moments(Message({**sums, "lacked": state.lacked}), 1), state.means)
            found = replace(state, phase="choose" if last else "moments", sweep=state.sweep + 1, units=units, **sums)
            return found, {"rows": rows}
        prior = model_choice.choose(total["errors"], total["cells"])
        return replace(state, phase="compare", prior=prior), {"prior": float(prior)}

    def _windows(self, state: MomentsState) -> tuple[int, ...]:
        window = self.window or usual_window(max(int(np.count_nonzero(state.steps[1].diagonal())), 1))
        return windows_of_sweeps(window, incomplete=state.incomplete)

    def expects(self, state: MomentsState, phase: str) -> Expect:
        """Expect sums only."""
        count = len(state.features)

        def counts(shape: tuple[int, ...], about: str) -> Spec:
            return Spec(shape, low=0, high=1e12, description=about)

        if phase == "centre":
            fields = {
                "counts": counts((count,), "how many values you have of each feature"),
                "sums": Spec((count,), description="their sums"),
                "pairs": counts((2, count, count), f"how often two features moved {PARTS}"),
                "steps": Spec((2, count, count), description="sums of products of these moves"),
                "having": Spec(
                    (3, count, count), description="again for each feature, if you have it; and which you lack"
                ),
                "incomplete": Spec((), "float", 0, 1, description="whether any of your cells is missing"),
                "votes": Spec(
                    (count, OCTAVES),
                    low=0,
                    high=1,
                    description="how large the usual step of each feature is, within a factor of 2",
                ),
            }
        elif phase == "moments":
            side = count * self._windows(state)[min(state.sweep, len(self._windows(state)) - 1)]
            about = f"sums over windows of products of two features at each two distances in time, {PARTS}"
            fields = {
                "products": Spec((2, side * (side + 1) // 2), description=about),
                "counts": counts((2, count, count), f"how many windows have both of two features, {PARTS}"),
            }
            if many := len(state.lacked):
                about = f"the same of levels in the same row, for each feature some lack, if you have it, {PARTS}"
                fields["levels"] = Spec((2, many, count, count), description=about)
        elif phase == "choose":
            about = "sums of errors on measured cells hidden for the purpose, for each way of learning and kind of gap"
            fields = {
                "errors": Spec((len(PRIORS), 3), low=0, description=about),
                "cells": counts((3,), "how many cells were hidden"),
            }
        else:
            fields = {"joining": expect_tally()}
        if phase == "centre":
            return Expect(fields, sums=True, rows=_most_counted, alike=_usual_steps, scatter=_scatter_of_steps)
        if phase == "moments":
            alike = partial(_usual_windows, features=count)
            return Expect(fields, sums=True, rows=_most_counted, alike=alike, scatter=_scatter_of_windows)
        return Expect(fields, sums=True)

    def result(self, outcome: Outcome) -> FittedMoments:
        """Return one process, for all features and for those of each client."""
        return FittedMoments(outcome)


def _most_counted(message: Message) -> float:
    """Return how many rows or windows an answer is of, of the feature that has most."""
    return float(message["counts"].max())


def _usual_steps(message: Message) -> dict[str, Floats]:
    """Return the logarithm of a client's usual step, in the mean of its features, and that it says the same twice."""
    steps, pairs = (message[name][1].diagonal() for name in ("steps", "pairs"))
    moving = steps > 0
    usual = np.log(steps[moving] / np.maximum(pairs[moving], 1.0)) / 2
    again, totals, lacks = message["having"]
    has = 1.0 - np.round(lacks.diagonal())[:, None]
    wanted = has * message["counts"], has * message["sums"], np.eye(len(has)) * (1.0 - has)
    apart = [
        np.log1p(np.abs(got - want).max(initial=0.0) / (1.0 + np.abs(want).max(initial=0.0)))
        for got, want in zip((again, totals, lacks), wanted, strict=True)
    ]
    return {"step": np.array([usual.mean() if len(usual) else 0.0]), "having": np.array(apart)}


def _scatter_of_steps(message: Message) -> dict[str, Floats]:
    """Return how far counts and products of steps may be apart: gaps and sizes are the clients' own."""
    size = np.sqrt(np.maximum(np.diagonal(message["steps"], axis1=1, axis2=2), 0.0))
    rows = _most_counted(message)
    return {
        "counts": np.full(message["counts"].shape, rows), "pairs": np.full(message["pairs"].shape, rows),
        "steps": _sizes(message["steps"], size[:, :, None] * size[:, None]),
        "having": np.full(message["having"].shape, FREE),
        "sums": _sizes(message["sums"], np.zeros(message["sums"].shape)), "alike step": np.array([SIZES]),
    }  # fmt: skip


def _usual_windows(message: Message, features: int) -> dict[str, Floats]:
    """Return the logarithms of a client's usual step and level, in units that all share."""
    _, diagonal = diagonal_places(message["products"].shape[1])
    squares = message["products"][1][diagonal].reshape(-1, features)
    rows = max(_most_counted(message), 1.0)

    def usual(part: Floats) -> Floats:
        return np.array([np.log(max(float(part.mean()) / rows, 1e-30)) / 2])

    return {"step": usual(np.delete(squares, 1, axis=0)), "level": usual(squares[1])}


def _scatter_of_windows(message: Message) -> dict[str, Floats]:
    """Return how far moments may be apart: sizes of steps and levels are the clients' own."""
    products = message["products"]
    side, diagonal = diagonal_places(products.shape[1])
    rows, columns = np.triu_indices(side)
    size = np.sqrt(products[:, diagonal].clip(0))
    return {
        "products": _sizes(products, size[:, rows] * size[:, columns]),
        "counts": np.full(message["counts"].shape, _most_counted(message)),
        "alike step": np.array([SIZES]),
        "alike level": np.array([2 * SIZES]),
    } | ({"levels": _sizes_of_levels(message)} if "levels" in message else {})


def _sizes_of_levels(message: Message) -> Floats:
    """Return how far products of levels may be apart."""
    size = np.sqrt(np.diagonal(message["levels"], axis1=2, axis2=3).clip(0))
    return _sizes(message["levels"], size[..., :, None] * size[..., None, :])


def _sizes(values: Floats, sizes: Floats) -> Floats:
    """Return how far values may be apart: nothing, as of a feature that a client lacks, does no harm."""
    return np.asarray(np.where(values == 0, FREE, sizes))


class FittedMoments(FittedOwners):
    """What FedMoments found: ``fitted[client]`` fills, samples and forecasts that client's series."""

    measured_in: ClassVar[str] = " in standard deviations of each sensor"
    most_sampled: ClassVar[int] = MOST_SHOWN

    def __getitem__(self, client: str) -> MomentsModel:
        """Return one client's process with its intervals; without its memory here, that of all clients' moments."""
        super().__getitem__(client)
        schema = self.outcome.schemas[client]
        memory = self.outcome.memories.get(client) or MomentsMemory(Calibration.none(len(schema.columns)))
        return self._model(schema.columns, memory, schema.clock)

    @property
    def model(self) -> MomentsModel:
        """Return the process of all clients' moments and features."""
        return self._model(self.state.features, MomentsMemory(Calibration.none(len(self.state.features))))

    def pooled(self, client: str) -> MomentsModel:
        """Return the process of all clients' moments for one client's features, whatever the client chose."""
        schema = self.outcome.schemas[client]
        blank = Calibration.none(len(schema.columns))
        own = self.outcome.memories.get(client) or MomentsMemory(blank)
        return self._model(schema.columns, MomentsMemory(blank, step=own.step, limits=own.limits), schema.clock)

    def _model(self, names: Sequence[str], memory: MomentsMemory, clock: Clock | None = None) -> MomentsModel:
        state: MomentsState = self.state
        columns = np.array([state.features.index(name) for name in names], dtype=np.intp)
        moments = state.moments.take(columns)
        process = memory.process or Gaussian.of(moments, PRIORS[state.prior])
        timing = Timing(clock or Clock(), memory.step)
        window = memory.window or len(moments.products)
        known = (tuple(names), np.arange(len(columns)), window, memory.calibration, timing)
        units, marginals = memory.units or state.units.take(columns), memory.marginals or Marginals.of_moments(moments)
        return MomentsModel(*known, units, process, marginals, memory.limits)

    def tables(self) -> Mapping[str, Any]:
        """Return what all results have, and how well each sensor is filled, in its own unit."""
        words = ("rows", "missing, %", "error of filling", "error of a straight line")
        rows = [
            (name, feature, int(count), 100 * missing, *errors)
            for name, own in sorted(self.outcome.memories.items())
            for feature, (count, missing, *errors) in zip(
                self.outcome.schemas[name].columns, own.sensors.T.tolist(), strict=False
            )
        ]
        header = ("client", "sensor", *words)
        columns = {title: [row[place] for row in rows] for place, title in enumerate(header)}
        return {**super().tables(), **({"sensors, errors in their own units": make_frame(columns)} if rows else {})}

    @property
    def kept_own(self) -> Sequence[str]:
        """Clients that follow nobody: their model is one of their own rows."""
        return [name for name, own in self.outcome.memories.items() if own.units]

    def _odd_one(self) -> str:
        """Return in words whose sensors go together unlike everybody else's, by what is known here; "" for nobody's."""
        names, pairs = [], []
        for name, own in sorted(self.outcome.memories.items()):
            if own.marginals:
                columns = [self.state.features.index(each) for each in self.outcome.schemas[name].columns]
                related = np.full((len(self.state.features),) * 2, np.nan)
                related[np.ix_(columns, columns)] = own.marginals.lags[0]
                names.append(name)
                pairs.append(related)
        table = np.array(pairs)
        if len(table) < FEWEST_BESIDE:
            return ""
        seen = ~np.isnan(table)
        usual = np.nanmedian(np.where(seen.any(axis=0), table, 0.0), axis=0)
        apart = np.where(seen & (seen.sum(axis=0) >= FEWEST_BESIDE), np.abs(table - usual), 0.0)
        first, *others = np.argsort(-apart.max(axis=(1, 2))).tolist()
        if apart[first].max() < max(ODD, 2 * apart[others[0]].max()):
            return ""
        one, other = np.unravel_index(int(apart[first].argmax()), usual.shape)
        both = f"{self.state.features[one]!r} and {self.state.features[other]!r}"
        how = f"are correlated {table[first, one, other]:.2f} there and {usual[one, other]:.2f} at most clients"
        return f"{names[first]} is unlike the others: {both} {how}; look at its columns, or learn again without it"

    def advice(self) -> list[str]:
        """Return what all results say, who keeps its own model, and who left a feature out of the sums."""
        found, memories = super().advice(), self.outcome.memories
        kept = [name for name, own in memories.items() if own.units and own.pooled > HARM * own.compared[0]]
        if kept:
            errors = ", ".join(
                f"{name} {memories[name].pooled:.3g} instead of {memories[name].compared[0]:.3g}" for name in kept
            )
            found.append(
                f"all clients' sums would harm {', '.join(kept)} (error {errors}): each keeps a model of its own rows; "
                + (self._odd_one() or "look for tables that differ with ct.survey(clients)")
            )
        for name, own in memories.items():
            if apart := json.loads(own.apart):
                many = f"over {MOST_TIMES:g} times as far from row to row as at most clients"
                found.append(f"{name}: {', '.join(apart)} moves {many}, another unit? It was left out of the sums")
        return found


def check_series(roster: Roster, common: Sequence[str] = ()) -> None:
    """Raise `SchemaError` unless all tables hold series with the common features and the same unit of time."""
    problems = []
    for name in roster.names:
        schema = roster.schemas[name]
        if schema.kind != "series":
            problems.append(Problem(f"the table must hold series, got {schema.kind}", client=name))
            continue
        problems += [
            Problem(COMMON_MUST, client=name, column=column) for column in common if column not in schema.columns
        ]
        if schema.unit != roster.schema.unit:
            must = f"the unit of time must be {roster.schema.unit!r} as at {roster.names[0]}, got {schema.unit!r}"
            problems.append(Problem(must, client=name))
    if problems:
        raise SchemaError(problems)


def block_error(apart: Floats, cells: int) -> float:
    """Return the standard error of a mean over cells, from sums over rows or cells in their order.

    Errors of neighbours are alike: the spread is taken over blocks of them.
    """
    blocks = [float(block.sum()) for block in np.array_split(apart, min(BLOCKS, max(len(apart), 1)))]
    return len(blocks) * benefit_error(blocks) / cells


def contribute(phase: str, sent: Message, prepared: NamedRows) -> Message:
    """Return what a client adds to the totals."""
    names = json.loads(sent["features"])
    rows, own = _alike(prepared, sent)
    if phase == "centre":
        return Message(_centre(rows, own, len(names)))
    units = Units(sent["centre"], sent["step"]).take(own)
    kept, held = (units.rows(part) for part in split(rows))
    if phase == "moments":
        return Message(_sums(kept, held, sent, units, own, len(names)))
    return Message(model_choice.try_priors(pooled_moments(sent, 0).take(own), held))


def _alike(prepared: NamedRows, sent: Message) -> tuple[SeriesRows, NDArray[np.intp]]:
    """Return rows of the measured features that do not move far more than at most clients, and their positions."""
    rows, own = prepared.among(json.loads(sent["features"]))
    rows = rows.calmed()
    if "usual" not in sent:
        return rows, own
    near = find_units(**sum_units(rows)).step <= MOST_TIMES * sent["usual"][own]
    return rows.with_values(rows.values[:, near]), own[near]


def read_votes(votes: Floats) -> tuple[Floats, Floats]:
    """Return the usual step of the median client, and the largest that any may have, ``(features,)``; 1 without votes.

    `votes` says how many clients have a step of each octave, ``(features, octaves)``.
    """
    below = np.cumsum(votes, axis=1)
    middle = np.argmax(below >= below[:, -1:] / 2, axis=1)
    most = votes.shape[1] - 1 - np.argmax(votes[:, ::-1] > 0, axis=1)
    some = below[:, -1] > 0
    usual, largest = (2.0 ** (place + rest - OCTAVES // 2) for place, rest in ((middle, 0.5), (most, 1.0)))
    return np.where(some, usual, 1.0), np.where(some, largest, 1.0)


def pooled_moments(sent: Message, part: int) -> WindowMoments:
    """Return the totals that the server sent, of the rows to learn from (0) or of all (1)."""
    levels = sent["levels"][part] if "levels" in sent else None
    return WindowMoments.unpack(sent["products"][part], sent["counts"][part], sent.get("lacked"), levels)


def own_part(message: Message, sent: Message, prepared: NamedRows) -> WindowMoments:
    """Return the moments of all rows that a client sent, of the features it has measured."""
    _, own = prepared.among(json.loads(sent["features"]))
    return WindowMoments.unpack(message["products"][1], message["counts"][1]).take(own)


def _require_usable(sums: Mapping[str, Floats], lacked: NDArray[np.intp], priors: Sequence[Any]) -> None:
    """Fail at the server where clients would fail with these sums, so that whose part makes them so is found."""
    for part in range(2):
        for prior in priors:
            Gaussian.of(pooled_moments(Message({**sums, "lacked": lacked}), part), prior)


def _compare(sent: Message, prepared: NamedRows, memory: MomentsMemory, window: int | None) -> MomentsMemory:
    """Choose how far to follow the others, judged on hidden cells, and calibrate."""
    names, count = json.loads(sent["features"]), len(prepared.features)
    rows, own = prepared.among(names)
    if not len(own):
        return replace(memory, sent=None)
    rows = rows.calmed()
    units, (kept, held) = Units(sent["centre"], sent["step"]).take(own), split(rows)
    first, total = (pooled_moments(sent, part) for part in range(2))
    common = len(total.products)

    def calibrated(judge: Gaussian) -> Calibration:
        return model_choice.calibrate(judge, units, units.rows(held), common).embed(prepared.seen, count)

    if sent["noised"]:  # nobody knows its own part of the sums: all follow them
        calibration = calibrated(Gaussian.of(first.take(own), PRIORS[sent["prior"]]))
        return replace(memory, calibration=calibration, limits=Limits.of(rows.values).embed(prepared.seen, count))
    alone = window or own_window(rows)
    added = memory.sent or WindowMoments.none(common, len(own))  # nothing, where it was left out of the sums
    choice = follow(rows, units, PooledSums(total.take(own), added, sent["prior"]), alone)
    every = np.array([names.index(name) for name in prepared.features], dtype=np.intp)
    kept_own: dict[str, Any] = {"window": common}
    if len(own) < count:  # what was never measured here, others know
        choice = replace(choice, share=max(choice.share, SHARES[1]))
    if choice.share:
        trial = choice if len(kept.values) else replace(choice, share=1.0)
        calibration = calibrated(trial.process(own_sums(kept, units, common), first.take(own)))
        process = choice.process(own_sums(rows, units, common).embed(prepared.seen, count), total.take(every))
    else:
        stage, trial_process, held = learn(rows, alone)
        calibration, process = model_choice.calibrate(trial_process, stage.units, held, alone), stage.process
        kept_own = {"window": alone, "units": stage.units}
    compared, lines, pooled = NOT_COMPARED, float("nan"), float("nan")
    if cells := choice.cells:
        errors = [float(part.sum()) / cells for part in (choice.alone, choice.together)]
        compared = np.array([*errors, block_error(choice.alone - choice.together, cells)])
        lines, pooled = choice.lines / cells, choice.pooled / cells
    marginals, limits = None, Limits.of(rows.values).embed(prepared.seen, count)
    if len(own) == count:
        marginals = Marginals.of(rows, process, kept_own.get("units", units), kept_own["window"])
    clock = prepared.rows.clock
    pieces = [clock[first:end] for first, end in prepared.rows.bounds] if len(clock) else []
    gone = np.isnan(prepared.rows.values)
    sensors = np.full((4, count), np.nan)
    sensors[0], sensors[1] = len(gone), gone.mean(axis=0)
    if cells:
        sensors[2:, prepared.seen] = choice.sensors
    apart = [names[place] for place in own if place not in _alike(prepared, sent)[1]]
    return MomentsMemory(
        calibration, compared, None, process, marginals, usual_step(pieces), excerpt(prepared.rows), lines, pooled,
        apart=json.dumps(apart), sensors=sensors, limits=limits, **kept_own,
    )  # fmt: skip


def _centre(rows: SeriesRows, own: NDArray[np.intp], count: int) -> dict[str, Any]:
    """Return the sums for units and for random walks, among all features."""
    wide = SeriesRows(np.full((len(rows.values), count), np.nan), rows.lengths)
    wide.values[:, own] = rows.values
    first, whole = (sum_units(part) for part in (split(wide)[0], wide))
    both = {name: np.stack([first[name], whole[name]]) for name in ("pairs", "steps")}
    votes = np.zeros((count, OCTAVES))
    steps = np.sqrt(whole["steps"].diagonal() / np.maximum(whole["pairs"].diagonal(), 1.0))
    moving = np.flatnonzero(steps > 0)
    octave = np.floor(np.log2(steps[moving])).astype(np.intp) + OCTAVES // 2
    votes[moving, octave.clip(0, OCTAVES - 1)] = 1.0
    has = np.isin(np.arange(count), own)[:, None]
    lacks = np.eye(count) * ~has * (len(own) > 0)  # a client without rows lacks nothing
    having = np.stack([has * whole["counts"], has * whole["sums"], lacks])
    return {**whole, **both, "having": having, "incomplete": float(np.isnan(rows.values).any()), "votes": votes}


def _sums(
    kept: SeriesRows, held: SeriesRows, sent: Message, units: Units, own: NDArray[np.intp], count: int
) -> dict[str, Floats]:
    """Return moments of the rows to learn from and of all rows, gaps filled by the totals so far of either."""
    models, window = [], sent["window"]
    parts = [WindowMoments.none(window, count)] * 2
    for part in range(2 if len(own) else 0):
        if "products" in sent:
            models.append(Gaussian.of(pooled_moments(sent, part).take(own), PRIORS[USUAL]))
        else:
            sums = (sent[name][part][np.ix_(own, own)] for name in ("pairs", "steps"))
            models.append(seriesmoments.first_guess(units, *sums))
    if models:
        first = models[0].expect(kept, window)
        again = models[1].expect(kept, window) if np.isnan(kept.values).any() else first
        parts = [each.embed(own, count) for each in (first, again + models[1].expect(held, window))]
    found = {"products": np.stack([part.pack() for part in parts]), "counts": np.stack([p.counts for p in parts])}
    if "lacked" not in sent:
        return found
    both = (kept.values, np.concatenate([kept.values, held.values]))
    levels = [levels_of(part, own, sent["lacked"], values) for part, values in zip(parts, both, strict=True)]
    return {**found, "levels": np.stack(levels)}
