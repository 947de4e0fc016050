"""OneRound: the exact network of all clients' data from one sum of Gram matrices.

    centre     clients send counts and sums of their columns; only totals are used        (a common centre, for digits)
    products   clients send sums of products about it; only totals are used               (everything the search needs)
               and again of what is left without levels or trends of their own, where those may matter    (`levels`)
    fill       where cells or variables are missing: clients fill them with what is expected, and sum again; only totals
    compare    clients send whether the network of all first four fifths (personal=True: their own of these and borrowed
               ones) predicts their last better than one of their own; only totals are used, figures stay at clients
    borrow     personal=True: clients send how well networks with more or fewer borrowed rows predict; only totals
    personal   personal=True: each client learns its own network and keeps it

The search itself is `cotempo.networks.search.orders`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Schema, Series, Table
from cotempo.data.description import case_twins
from cotempo.errors import AdviceWarning, DataError, ParameterError, Problem, SchemaError, warn
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
    Reducer,
    Rng,
    Roster,
    Spec,
    Staleness,
    benefit_error,
    expect_tally,
    register,
)
from cotempo.federation.reducers import SUSPICION
from cotempo.networks.completion import MOST_STEPS, TOLERANCE, ColumnGaussian, complete_gram, gram_with_gaps, worth
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fitted import ClientNetwork
from cotempo.networks.fitted_oneround import MOST_VARIABLES, FittedOneRound
from cotempo.networks.levels import (
    LEVELS,
    NAMES,
    SUBTRACTED,
    Baseline,
    Levels,
    measure_levels,
    per_unit,
    price,
    suspicious_levels,
)
from cotempo.networks.moments import (
    METRIC,
    Gram,
    Sums,
    Transitions,
    complete,
    cut_transitions,
    lagged,
    lagged_columns,
    log_densities,
    marginal_log_densities,
    pack,
    unpack,
    varying,
    weigh_by_age,
    weight_errors,
)
from cotempo.networks.network import Network
from cotempo.networks.private import PrivateNetwork
from cotempo.networks.rhythms import say_rhythms
from cotempo.networks.search.edge_confidence import edge_confidence
from cotempo.networks.search.orders import SearchOptions, SearchResult, learn_order
from cotempo.networks.search.personal import SHARES, borrow, judge_shares, learn_personal, score_shares
from cotempo.networks.search.prior_knowledge import PriorKnowledge
from cotempo.privacy.settings import Privacy
from cotempo.robust.per_row import diagonal_places, relations
from cotempo.robust.reducer import SCREEN
from cotempo.typing import Bools, Floats, Indices

#: A client with fewer rows before the held-out ones is not compared.
LEAST_SEEN = 3
#: Variables whose correlation is closer to one are copies of each other.
COPY = 1e-6
#: Products are asked for once for every level, and again where a client is left out meanwhile.
MOST_ASKED = 3 * len(NAMES)
#: Draws for the probabilities of the edges of clients' own networks.
OWN_DRAWS = 50


@dataclass(frozen=True)
class OneRoundState:
    """State of the server: the sums, and the network learned from them.

    `counts`, `sums` and `products` have a row for what was seen before the held-out fifth and one for the rest, or a
    single row where nothing is held out. With `gaps`, they are of rows filled by the Gaussians of `means` and
    `covariances` (one for what was seen before, one for all rows), and `pairs` are how often pairs of columns were
    seen. `lost` is by how much a network of the `shared` variables, which all clients hold, predicts them better than
    that of all variables, and its standard error. Probabilities count `design` rows as one. `levels` says what clients
    subtract from their rows. While that is being chosen, it is what is asked for, `pending` what will be, `best` and
    `evidence` belong to the sums kept, and `fitted` are the numbers that each level fits. `left_out` are clients that
    differ from all others. `shown` are the variables in the order in which clients hold them.
    """

    variables: tuple[str, ...]
    phase: str
    centre: Floats
    levels: Levels = "common"
    pending: tuple[Levels, ...] = ()
    best: Levels = "common"
    evidence: float = 0.0
    rows: float = 0.0
    fitted: Floats = field(default_factory=lambda: np.zeros((len(NAMES), 0)))
    left_out: tuple[str, ...] = ()
    gaps: bool = False
    filled: int = 0
    pairs: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    means: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    covariances: Floats = field(default_factory=lambda: np.zeros((2, 0, 0)))
    shared: tuple[str, ...] = ()
    lost: tuple[float, float] = (0.0, 0.0)
    design: float = 1.0
    counts: Floats = field(default_factory=lambda: np.zeros((2, 1)))
    sums: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    products: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    within: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    across: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    variance: Floats = field(default_factory=lambda: np.zeros(0))
    undirected: Bools = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    score: float = 0.0
    share: float = 0.0
    joining: Joining = field(default_factory=Joining)
    shown: tuple[str, ...] = ()

    def as_shown(self, matrices: NDArray[Any]) -> NDArray[Any]:
        """Bring `(..., variables, variables)` from the order of the search to that in which clients hold them."""
        if not matrices.size:
            return matrices
        places = [self.variables.index(name) for name in self.shown]
        return matrices[..., places, :][..., places]

    def network(self, found: OneRoundState | OneRoundMemory) -> Network:
        """Return a network in the order in which clients hold the variables."""
        places = [self.variables.index(name) for name in self.shown]
        pooled = self.pooled()
        centre = pooled.mean if isinstance(found, OneRoundState) else found.mean
        mean, noise = (centre[: len(places)] + self.centre)[places], found.variance[places]
        scale = np.sqrt(pooled.gram.diagonal() / max(pooled.rows, 1.0))[places]
        within, across = self.as_shown(found.within), self.as_shown(found.across)
        return Network(within, across, self.shown, mean, noise, scale, self.levels)

    def fill_by(self, model: ColumnGaussian) -> OneRoundState:
        """Return the state with other Gaussians to fill gaps by."""
        return replace(self, means=model.mean, covariances=model.covariance)

    def next_filling(self) -> tuple[ColumnGaussian, float]:
        """Return what to fill gaps by next, and the largest change by it."""
        sums = Sums(self.counts, self.sums, self.products)
        parts = [(sums.part(0), self.pairs[0]), (sums.total(), self.pairs.sum(axis=0))][-len(self.sums) :]
        model = ColumnGaussian.stack([ColumnGaussian.of_sums(part, worth(pairs)) for part, pairs in parts])
        return model, ColumnGaussian(self.means, self.covariances).change(model)

    def pooled(self, *, trial: bool = False) -> Gram:
        """Return the Gram of all rows, or of those before the held-out ones."""
        sums = Sums(self.counts, self.sums, self.products)
        total = sums.part(0) if trial else sums.total()
        if not self.gaps:
            return Gram.of_sums(total)
        return complete_gram(total, self.pairs[0] if trial else self.pairs.sum(axis=0))


@dataclass(frozen=True)
class OneRoundMemory:
    """A client's own network, its noise variances and its mean about the centre of the sums, empty unless asked for.

    `sure`, ``[lag, source, target]``, are the probabilities of its edges, `error` the standard errors of their weights,
    `undirected` those without a direction, and `compared` is what joining was worth. Nothing of it ever leaves the
    client.
    """

    within: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    across: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    variance: Floats = field(default_factory=lambda: np.zeros(0))
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    sure: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    error: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    undirected: Bools = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    compared: Floats = field(default_factory=lambda: NOT_COMPARED)


class ClientTable(NamedTuple):
    """A client's table, its complete transitions, and whether a cell is missing anywhere."""

    table: Series
    transitions: Transitions
    incomplete: bool


class OwnRows(NamedTuple):
    """A client's transitions, its variables, at the places `held`, in the order of all clients'.

    `judged` are the held-out rows, the last fifth of those without a missing cell; `seen` rows come before them. A row
    shares cells with the `lags` before it: those are in neither. `worth` is how many rows each row is worth after
    numbers were fitted to them, and `shift` by how much levels lie above the centre, by all clients' variables.
    """

    rows: Transitions
    held: Indices
    seen: int
    judged: Floats
    worth: float = 1.0
    shift: Floats | float = 0.0

    @property
    def first_judged(self) -> int:
        """The first of the judged rows among all."""
        return int(np.flatnonzero(~np.isnan(self.rows.values).any(axis=1))[-len(self.judged)])

    def sum_products(self, centre: Floats, *, split: bool, pairwise: bool = False) -> Sums:
        """Return sums among the columns of all clients, `split` into before the held-out fifth and the rest."""
        values, weights = self.among(centre), self.rows.weights
        cuts = (slice(None, self.seen), slice(self.seen, None)) if split else (slice(None),)
        return self._of_worth(Sums.stack([Sums.of_rows(values[cut], weights[cut], pairwise=pairwise) for cut in cuts]))

    def _of_worth(self, sums: Sums) -> Sums:
        """Return sums of as many rows as they are worth, so that variances are not too small."""
        return sums._replace(counts=sums.counts * self.worth)

    def sum_filled(self, centre: Floats, models: ColumnGaussian) -> Sums:
        """Return the same of rows filled by each of the models: the first for rows before the held-out fifth."""
        values, weights = self.among(centre), self.rows.weights
        total = models.part(-1).expect(values, weights)
        if len(models.mean) == 1:
            return self._of_worth(Sums.stack([total]))
        before = models.part(0).expect(values[: self.seen], weights[: self.seen])
        after = Sums(*(all_of - some for all_of, some in zip(total, before, strict=True)))
        return self._of_worth(Sums.stack([before, after]))

    def among(self, centre: Floats) -> Floats:
        """Return the rows about the centre among the columns of all clients, NaN where the client holds nothing."""
        lags = self.rows.values.shape[1] // len(self.held) - 1
        own = self.rows.values - np.tile(centre[self.held], lags + 1)
        if len(self.held) == len(centre):
            return own
        values = np.full((len(own), len(centre) * (lags + 1)), np.nan)
        values[:, lagged_columns(self.held, len(centre), lags)] = own
        return values


@register()
class OneRound(Method):
    """Learn which variable drives which from all clients' rows exactly, in one round of sums.

    The directions of edges come from a search over orders of the variables, with the spread of noise variances
    learned; edges whose direction the data leave open are in `fitted.undirected`.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=4, samples=500, seed=0)
    >>> fitted = ct.OneRound().fit(clients)
    >>> ct.score_network(fitted.network, truth)["within_shd"]
    0.0
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("centre", "products", "fill", "compare", "borrow", "personal")
    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    private_units: ClassVar[tuple[str, ...]] = ("row",)
    State: ClassVar[type] = OneRoundState
    Memory: ClassVar[type | None] = OneRoundMemory
    metric: ClassVar[str] = METRIC
    compares: ClassVar[str] = "clients with enough data to hold some out, in `fit` and not after `add` or `remove`"

    lags: int = Field(default=1, ge=0, le=50, description="How many past time steps act; 0 learns a static network.")
    minimum_rows: int = Field(default=5, ge=1, description="A client with fewer rows is refused: sums reveal few rows.")
    half_life: float | None = Field(default=None, gt=0, description="The time after which the weight of a row halves.")
    personal: bool = Field(
        default=False,
        description="Give every client a network of its own, ``fitted[client].network``, learned from its rows and "
        "borrowed ones of the others. How much is borrowed is chosen by how well it predicts, summed over clients.",
    )
    forbidden: tuple[tuple[Any, ...], ...] = Field(
        default=(),
        description="Edges that must not exist: (source, target) at every lag, (source, target, lag) at one; lag 0 is "
        "within a time step.",
    )
    required: tuple[tuple[Any, ...], ...] = Field(
        default=(), description="Edges that must exist: (source, target, lag)."
    )
    tiers: tuple[tuple[str, ...], ...] = Field(
        default=(), description="Groups of variables; no edge, at whatever lag, leads to an earlier group."
    )
    evidence: Literal["auto", "penalty", "bayes"] = Field(
        default="auto", description="``auto`` takes the Bayesian evidence where rows are few, else the penalised one."
    )
    restarts: int = Field(default=1, ge=0, description="Further orders tried without gain before the search ends.")
    scaled: bool = Field(
        default=True,
        description="Divide every column by its standard deviation first, so that units do not matter. Where all "
        "columns are measured in one unit and noise is of similar size, ``False`` finds more directions.",
    )
    compare: bool = Field(
        default=True,
        description="Hold out the last fifth of every client's rows first, to measure whether joining helped: the "
        "network of everyone's rows against the one that the same search finds in the client's own.",
    )

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """Return a small case for the contract suite."""
        clients, _ = make_networks(variables=2, clients=3, samples=60, shared=0.5, seed=0)
        return cls(restarts=0, personal=True), clients, None

    # At a client.

    def prepare(self, table: Table) -> ClientTable:
        """Cut the table into transitions; too few are refused. An empty or constant column is taken for not held."""
        assert isinstance(table, Series)  # `check` saw the schema
        held = np.flatnonzero([len(np.unique(part[~np.isnan(part)])) > 1 for part in table.values.T])
        if not len(held):
            raise DataError([Problem("at least one column must vary, all are empty or constant; leave the table out")])
        table = table if len(held) == len(table.features) else table.select(features=[table.features[i] for i in held])
        partial = len(cut_transitions(table, self.lags, partial=True).values)
        if partial < self.minimum_rows:
            must = f"at least {self.minimum_rows} rows are needed, because sums over a few reveal them, got {partial}"
            raise DataError([Problem(f"{must}; leave the table out")])
        rows = cut_transitions(table, self.lags, self.half_life)
        return ClientTable(table, rows, bool(np.isnan(table.values).any()) or not len(rows.values))

    def begin(self, prepared: ClientTable, rng: Rng) -> OneRoundMemory:
        """Return an empty memory."""
        return OneRoundMemory()

    def answer(
        self, question: Question, prepared: ClientTable, memory: OneRoundMemory, rng: Rng
    ) -> tuple[Message, OneRoundMemory | None]:
        """Send sums, or how well networks predict here."""
        common, names = question.common, json.loads(question.common["variables"])
        if question.phase == "centre":
            return column_sums(prepared, names), None
        own = summed = self.own_rows(prepared, names, gaps=common["gaps"])
        if common["levels"] != "common":
            summed = self.without_levels(own, prepared.table, common)
            judging = question.phase == "compare"
            own = self.without_levels(own, prepared.table, common, judging=True) if judging else summed
        knowledge = self._knowledge(names)
        if question.phase == "compare":
            others = self._others(common, self._all_sums(common, summed).part(0)) if self.personal else None
            compared, shared = self._compare(common, own, knowledge, others)
            judged = float(len(own.judged)) if compared.size else 0.0
            tally = self.tally(compared, *self._choices)
            sent = {"rows": judged, "shared": shared, "joining": tally, "lean": self._lean(common, own)}
            return Message(sent), replace(memory, compared=compared)
        if question.phase == "products":
            sums = own.sum_products(common["centre"], split=self.compare, pairwise=common["gaps"])
            measured = np.zeros((len(NAMES), 2, len(names)))
            if common["levels"] == "common":
                weights = weigh_by_age(prepared.table.row_weights, prepared.table.time, self.half_life)
                places = [names.index(name) for name in prepared.table.features]
                measured[..., places] = measure_levels(prepared.table, weights, common["centre"][places], self.lags)
            return Message({**sums._asdict(), "levels": measured}), None
        mine = self._all_sums(common, own)
        if question.phase == "fill":
            return Message(mine._asdict()), None
        total, stream = mine.total(), Rng(common["stream"])
        others = self._others(common, total)
        if question.phase == "borrow":
            rows = complete(own.rows.values) - np.tile(common["centre"][own.held], self.lags + 1)
            theirs = others.only(lagged_columns(own.held, len(names), self.lags))
            scores = score_shares(rows, theirs, knowledge.only(own.held), stream("borrow"), scaled=self.scaled)
            return Message({"scores": scores}, weight=max(len(rows), 1)), None
        kept = self._learn_own(memory, own, Gram.of_sums(total), others, common, knowledge)
        kept = replace(kept, mean=kept.mean + np.tile(own.shift, self.lags + 1))
        return Message({"edges": float(np.count_nonzero(kept.within))}), kept

    def _all_sums(self, common: Message, own: OwnRows) -> Sums:
        """Return the client's part of the sums, gaps filled."""
        if common["gaps"]:
            return own.sum_filled(common["centre"], ColumnGaussian(common["means"], common["covariances"]))
        return own.sum_products(common["centre"], split=self.compare)

    def _others(self, common: Message, mine: Sums) -> Gram:
        """Return the Gram of the other clients' rows."""
        return Gram.of_sums(Sums(*(common[name] - part for name, part in mine._asdict().items())))

    @property
    def _choices(self) -> tuple[int, ...]:
        """How many networks are compared with learning alone, of which one is chosen afterwards."""
        return (len(SHARES),) if self.personal else ()

    def _learn_own(
        self,
        memory: OneRoundMemory,
        own: OwnRows,
        gram: Gram,
        others: Gram,
        common: Message,
        knowledge: PriorKnowledge,
    ) -> OneRoundMemory:
        """Learn the client's own network, of the variables it holds, and how sure its edges are.

        Variables that it lacks have no edge, and the variance of all clients.
        """
        count, columns = knowledge.variables, lagged_columns(own.held, knowledge.variables, self.lags)
        stream, options = Rng(common["stream"]), SearchOptions("bayes", restarts=self.restarts, scaled=self.scaled)
        share, known = common["share"], knowledge.only(own.held)
        mine, theirs = gram.only(columns), others.only(columns)
        found = learn_personal(mine, theirs, share, known, stream("personal"), options)
        errors = weight_errors(borrow(mine, theirs, share)[0], Network(found.within, found.across), found.variance)
        stacked = np.concatenate([found.within[None], found.across])
        sure = np.zeros((0, 0, 0))
        if len(own.held) <= MOST_VARIABLES:
            draws = edge_confidence(found, stream("sure"), OWN_DRAWS, filled=common["gaps"], design=common["design"])
            sure = embed(np.concatenate([draws.within[None], draws.across]), own.held, count)
        weights = embed(stacked, own.held, count)
        variance = (gram.gram.diagonal() + others.gram.diagonal())[:count] / max(gram.rows + others.rows, 1.0)
        variance[own.held] = found.variance
        undirected = embed(found.undirected, own.held, count)
        return replace(
            memory, within=weights[0], across=weights[1:], variance=variance, mean=gram.mean, sure=sure,
            error=embed(np.sqrt(common["design"]) * errors, own.held, count), undirected=undirected,
        )  # fmt: skip

    def own_rows(self, prepared: ClientTable, names: Sequence[str], *, gaps: bool) -> OwnRows:
        """Return the client's transitions: complete ones, with `gaps` also those with missing cells."""
        table, rows = prepared.table, prepared.transitions
        if gaps:
            rows = cut_transitions(table, self.lags, self.half_life, partial=True)
        held = np.array([place for place, name in enumerate(names) if name in table.features], dtype=np.intp)
        if not gaps and len(held) < len(names):
            raise DataError("every variable must be held, as by all who answered first; leave the table out")
        mine = np.array([table.features.index(names[place]) for place in held], dtype=np.intp)
        values = rows.values[:, lagged_columns(mine, len(table.features), self.lags)]
        whole = np.flatnonzero(~np.isnan(values).any(axis=1))
        judged = whole[len(whole) - len(whole) // 5 :]
        seen = max(int(judged[0]) - self.lags, 0) if len(judged) else len(values)
        return OwnRows(rows._replace(values=values), held, seen, values[judged], shift=np.zeros(len(names)))

    def without_levels(self, own: OwnRows, table: Series, common: Message, *, judging: bool = False) -> OwnRows:
        """Return rows whose levels are moved to the centre; to judge, held-out rows tell nothing of the others'."""
        names = json.loads(common["variables"])
        weights, centre = weigh_by_age(table.row_weights, table.time, self.half_life), common["centre"]
        until = int(own.rows.places[own.first_judged]) if judging and len(own.judged) else None
        level = Baseline.of(table, common["levels"], weights, until)
        above = level.values - centre[[names.index(name) for name in table.features]]
        mine = np.array([table.features.index(names[place]) for place in own.held], dtype=np.intp)
        columns = lagged_columns(mine, len(table.features), self.lags)
        moved = np.vstack([lagged(part, self.lags) for _, part in replace(table, values=above).pieces()])
        values = own.rows.values - moved[own.rows.places][:, columns]
        shift = np.zeros(len(names))
        shift[own.held] = weights @ above[:, mine] / weights.sum()
        counts = np.maximum((~np.isnan(table.values)).sum(axis=0), 1)
        worth = max(1.0 - float(np.mean(level.fitted / counts)), 1.0 / table.rows)
        judged = complete(values[own.first_judged :]) if len(own.judged) else own.judged
        return own._replace(rows=own.rows._replace(values=values), judged=judged, worth=worth, shift=shift)

    def late_sums(self, state: OneRoundState, client: str, table: Series) -> OneRoundState:
        """Return a state of the sums of a client that joins or leaves later, about the centre that was agreed on."""
        unknown = [name for name in table.features if name not in state.variables]
        if unknown:
            must = "a late client cannot bring new variables; leave it out, table.select(features=...), or fit again"
            raise DataError([Problem(must, client=client, column=unknown[0])])
        try:
            prepared = self.prepare(table)
        except DataError as error:
            raise DataError([Problem(p.must, client, p.column, p.row) for p in error.problems]) from error
        table = prepared.table
        gaps = state.gaps or prepared.incomplete or len(table.features) < len(state.variables)
        own = self.own_rows(prepared, state.variables, gaps=gaps)
        if state.levels != "common":
            told = {"variables": json.dumps(state.variables), "centre": state.centre, "levels": state.levels}
            own = self.without_levels(own, table, Message(told))
        sums = own.sum_products(state.centre, split=self.compare, pairwise=gaps)
        if not gaps:
            return replace(state, **sums._asdict())
        if not state.gaps:  # all rows so far were complete: their own moments fill the late client's
            grams = [state.pooled(trial=True), state.pooled()][-len(state.sums) :]
            filling = ColumnGaussian.stack([ColumnGaussian(gram.mean, gram.gram / gram.rows) for gram in grams])
            state = state.fill_by(filling)
        filled = own.sum_filled(state.centre, ColumnGaussian(state.means, state.covariances))
        return replace(state, gaps=True, pairs=sums.counts, **filled._asdict())

    def _compare(
        self, common: Message, own: OwnRows, knowledge: PriorKnowledge, others: Gram | None
    ) -> tuple[Floats, Floats]:
        """Judge the held-out rows, in the columns that vary before them; return `compared`, and `_judge_shared`.

        With the Gram of `others` the networks compared are the client's own, which borrow from it, one by share.
        """
        values, weights = own.rows.values[: own.seen], own.rows.weights[: own.seen]
        kept = np.flatnonzero(varying(values).reshape(self.lags + 1, -1).all(axis=0))
        if not len(own.judged) or own.seen < LEAST_SEEN or not len(kept):
            return NOT_COMPARED, np.zeros(3)
        network, variance = Network(common["within"], common["across"]), common["variance"]
        if len(own.held) == knowledge.variables:
            together = log_densities(own.judged, network, common["mean"], variance)[:, kept].sum(axis=1)
        else:
            together = self._marginal(own, own.held[kept], common, network)
        about = np.tile(common["centre"][own.held], self.lags + 1)
        columns = lagged_columns(kept, len(own.held), self.lags)
        mine = gram_with_gaps(values - about, weights).only(columns)
        stream = Rng(common["stream"])
        found = self._find(mine, knowledge.only(own.held[kept]), stream("alone"), quick=True)
        network = Network(found.within, found.across)
        alone = log_densities(own.judged[:, columns], network, mine.mean + about[columns], found.variance).sum(axis=1)
        if others is None:
            joined = together[None]
        else:
            theirs = others.only(lagged_columns(own.held[kept], knowledge.variables, self.lags))
            known = knowledge.only(own.held[kept])
            about = about[columns] + mine.mean
            joined = judge_shares(own.judged[:, columns], about, mine, theirs, known, stream("borrow"), self.scaled)
        compared = np.array([[alone.mean(), one.mean(), benefit_error(one - alone)] for one in joined])
        return compared if self.personal else compared[0], self._judge_shared(common, own, knowledge, stream)

    def _lean(self, common: Message, own: OwnRows) -> Floats:
        """Return how far errors of the common network lean one way here, and how far chance lets them, `(2, side)`.

        By the model, a variable's errors have nothing to do with the other errors nor with the past: the square of the
        sum of their products is, on average, the sum of squares. More means that the client differs from the others,
        or that its errors follow each other, as where effects are not linear. Zeros for a client that lacks variables.
        """
        count, rows = len(common["centre"]), complete(own.rows.values[: own.seen])
        if len(own.held) < count:
            return np.zeros((2, count * (self.lags + 1)))
        centred = rows - common["mean"]
        effects = np.concatenate([common["within"], common["across"].reshape(-1, count)])
        errors = (centred[:, :count] - centred @ effects) / np.sqrt(np.maximum(common["variance"], 1e-300))
        columns = np.hstack([errors, centred[:, count:]])
        sums = np.square(errors.T @ columns)
        sums[:, :count] *= ~np.eye(count, dtype=np.bool_)
        return np.stack([sums.sum(axis=0), np.square(columns).sum(axis=0)])

    def _marginal(self, own: OwnRows, some: Indices, common: Message, network: Network) -> Floats:
        """Return the log-density of the judged rows in some variables, the others integrated out."""
        count = len(common["centre"])
        mine = lagged_columns(np.searchsorted(own.held, some), len(own.held), self.lags)
        rows = own.judged[:, mine] - common["mean"][lagged_columns(some, count, self.lags)]
        past = common["covariances"][0][count:, count:]
        return marginal_log_densities(rows, some, network, common["variance"], past)

    def _judge_shared(self, common: Message, own: OwnRows, knowledge: PriorKnowledge, stream: Rng) -> Floats:
        """Return how well the variables that all clients hold are predicted, by a network of theirs and by that of all.

        Both, and their squared difference, are summed over the judged rows; zeros where all clients hold the same.
        """
        shared = np.flatnonzero(common["shared"])
        if not 0 < len(shared) < knowledge.variables or not np.isin(shared, own.held).all():
            return np.zeros(3)
        columns = lagged_columns(shared, knowledge.variables, self.lags)
        covariance = common["covariances"][0][np.ix_(columns, columns)]
        rows = float(common["shared_rows"])
        found = self._find(
            Gram(rows * covariance, rows, common["mean"][columns]), knowledge.only(shared), stream("shared"), quick=True
        )
        mine = lagged_columns(np.searchsorted(own.held, shared), len(own.held), self.lags)
        network = Network(found.within, found.across)
        alone = log_densities(own.judged[:, mine], network, common["mean"][columns], found.variance).sum(axis=1)
        whole = self._marginal(own, shared, common, Network(common["within"], common["across"]))
        return np.array([alone.sum(), whole.sum(), np.square(alone - whole).sum()])

    # At the server.

    def check(self, roster: Roster) -> None:
        """Allow different variables; each client must share some with the rest, and units must agree."""
        problems = []
        units = {schema.unit for schema in roster.schemas.values()}
        for name, schema in roster.schemas.items():
            if schema.kind != self.kind:
                problems.append(Problem(f"the table must hold {self.kind}, it holds {schema.kind}", client=name))
            elsewhere = {c for other, s in roster.schemas.items() if other != name for c in s.columns}
            if len(roster.schemas) > 1 and not elsewhere & set(schema.columns):
                problems.append(Problem("at least one variable must be shared with another client", client=name))
        if len(units) > 1:
            problems.append(Problem(f"the unit of time must be the same at all clients, it is one of {sorted(units)}"))
        if problems:
            raise SchemaError(problems)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> OneRoundState:
        """Take the variables that any client holds.

        They are searched in the order of their names, so that the order of columns does not matter; shorter ones first.
        """
        shown = tuple(dict.fromkeys(c for name in roster.names for c in roster.schemas[name].columns))
        names = tuple(sorted(shown, key=lambda name: (len(name), name)))
        self._knowledge(names)
        held = [set(schema.columns) for schema in roster.schemas.values()]
        shared = tuple(name for name in names if all(name in columns for columns in held))
        return OneRoundState(names, "centre", np.zeros(len(names)), shown=shown, shared=shared)

    def ask(self, state: OneRoundState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for one round of a few steps."""
        if state.phase == "products" and (nobody := np.flatnonzero(np.isnan(state.centre)).tolist()):
            must = "values must vary at some client, they are all the same or missing; leave it out"
            raise DataError([Problem(must, column=state.variables[place]) for place in nobody])
        if state.phase == "finished":
            return None
        cohort = [name for name in cohort if name not in state.left_out]
        common: dict[str, Any] = {"variables": json.dumps(state.variables)}
        if state.phase != "centre":
            common |= {"centre": state.centre, "gaps": state.gaps, "levels": state.levels}
        if state.gaps and state.phase != "products":
            common |= {"means": state.means, "covariances": state.covariances}
        if state.phase in ("compare", "borrow", "personal"):
            # What a search tries first must not depend on the client's name: all take the same stream.
            common["stream"] = int(rng("stream").integers(2**62))
        if state.phase == "compare":
            common |= {"within": state.within, "across": state.across, "variance": state.variance}
            common["mean"] = state.pooled(trial=True).mean + np.tile(state.centre, self.lags + 1)
            common["shared"] = np.array([name in state.shared for name in state.variables])
            common["shared_rows"] = float(state.pairs[0].max(initial=0.0))
            if self.personal:
                common |= {name: getattr(state, name)[0] for name in Sums._fields}
        if state.phase in ("borrow", "personal"):
            common |= {name: getattr(state, name).sum(axis=0) for name in Sums._fields}
            common |= {"share": state.share, "design": state.design}
        last = "personal" if self.personal else "compare" if self.compare else "products"
        return Ask(state.phase, cohort, Message(common), ends_round=state.phase == last)

    def absorb(
        self, state: OneRoundState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[OneRoundState, Metrics]:
        """Keep the sums, search, and keep what joining was worth."""
        after = "borrow" if self.personal else "finished"
        odd = tuple(failure.client for failure in answers.failures if failure.kind == SUSPICION)
        if odd and state.phase in ("centre", "products", "fill"):
            # From here on sums are without it; those that were kept are with it, and levels need both.
            state = replace(state, left_out=(*state.left_out, *odd))
            if state.levels != "common" and state.phase == "products":
                return replace(state, levels="common", pending=(), best="common"), {}
        if state.phase == "centre":
            total = answers.sum
            centre = total["sums"] / np.maximum(total["counts"], 1.0)
            if not answers.failures:  # else somebody who has a variable may answer later on
                centre[total["counts"] == 0] = np.nan
            # Not by the answers alone: who lacks a variable may have been left out of them, and answer later on.
            gaps = total["incomplete"] > 0 or len(state.shared) < len(state.variables)
            return replace(state, phase="products", centre=centre, gaps=gaps), {}
        if state.phase == "products":
            state, sums = self._choose_levels(state, answers, rng)
            if state.pending:
                return replace(state, levels=state.pending[0], **sums._asdict()), {}
            state = replace(state, levels=state.best)
        if state.phase == "products" and state.gaps:
            first = [sums.part(0), sums.total()][-len(sums.sums) :]
            model = ColumnGaussian.stack([ColumnGaussian.of_pairs(part) for part in first])
            return replace(state, phase="fill", pairs=sums.counts).fill_by(model), {}
        if state.phase in ("products", "fill"):
            if state.phase == "fill":
                sums = Sums(*(answers.sum[name] for name in Sums._fields))
            state = replace(state, **sums._asdict())
            if state.phase == "fill":
                model, change = state.next_filling()
                if change > TOLERANCE and state.filled + 1 < MOST_STEPS:
                    return replace(state, filled=state.filled + 1).fill_by(model), {"change": change}
            state = replace(state, phase="compare" if self.compare else after)
            return self.learn(state, rng, trial=self.compare)
        if state.phase == "compare":
            rows, joining = max(answers.sum["rows"], 1.0), Joining(answers.sum["joining"])
            alone, whole, square = answers.sum["shared"] / rows
            error = np.sqrt(max(square - (alone - whole) ** 2, 0.0) / rows)
            design = design_effect(answers.sum["lean"], len(state.variables))
            lost = (float(alone - whole), float(error))
            state = replace(state, phase=after, joining=joining, lost=lost, design=design)
            return self.learn(state, rng)
        if state.phase == "borrow":
            choice = int(np.argmax(answers.mean("scores")))
            joining = Joining(state.joining.sums[choice], (choice,)) if self.compare else state.joining
            share = float(SHARES[choice])
            return replace(state, phase="personal", share=share, joining=joining), {"share": share}
        return replace(state, phase="finished"), {}

    def _choose_levels(self, state: OneRoundState, answers: Answers, rng: Rng) -> tuple[OneRoundState, Sums]:
        """Return the state and the sums without the levels that have most evidence so far, and what to ask for next."""
        sums = Sums(*(answers.sum[name] for name in Sums._fields))
        if state.levels == "common":
            counts, (left, fitted) = sums.total().matrices()[0], answers.sum["levels"].swapaxes(0, 1)
            pending = suspicious_levels(left, fitted, counts.diagonal()[: len(state.variables)])
            state = replace(state, pending=tuple(pending), fitted=fitted)
            if pending:
                rows = worth(sums.total().counts) if state.gaps else float(sums.total().counts[0])
                state = replace(state, rows=rows)
                state = replace(state, evidence=self._weigh_levels(state, sums, rng))
            return state, sums
        evidence = self._weigh_levels(state, sums, rng)
        state = replace(state, pending=state.pending[1:])
        if evidence > state.evidence:
            return replace(state, best=state.levels, evidence=evidence), sums
        return state, Sums(state.counts, state.sums, state.products)

    def _weigh_levels(self, state: OneRoundState, sums: Sums, rng: Rng) -> float:
        """Return the evidence of the network of rows without the levels asked for, less the price of these."""
        total = sums.total()
        gram = Gram.of_sums(total)
        if state.gaps:
            model, rows = ColumnGaussian.of_pairs(total), worth(total.counts)
            gram = Gram(rows * model.covariance, rows, model.mean)
        gram = gram._replace(rows=state.rows)  # what is left of them is worth fewer, and evidence is of all
        score = self._find(gram, self._knowledge(state.variables), rng("levels"), quick=True).score
        return per_unit(score, gram, len(state.variables), scaled=self.scaled) - price(
            state.fitted[NAMES.index(state.levels)], gram.rows
        )

    def private(self, privacy: Privacy) -> PrivateNetwork:
        """Return the form that learns from noised moments."""
        if self.personal or self.half_life is not None:
            raise ParameterError("personal and half_life must be left out with epsilon: noised moments are of all rows")
        return PrivateNetwork.of(self, privacy)

    def learn_from(self, gram: Gram, names: Sequence[str], centre: Floats) -> OneRoundState:
        """Return the finished state for a Gram matrix of transitions that was made elsewhere."""
        state = self.open(Roster({"all": Schema(self.kind, tuple(names), "")}), None, Rng("gram"))
        places = np.array([tuple(names).index(name) for name in state.variables], dtype=np.intp)
        found = gram.only(lagged_columns(places, len(places), self.lags))
        state = replace(
            state, phase="finished", centre=centre[places], counts=np.array([[found.rows]]), sums=found.mean[None],
            products=pack(found.gram)[None],
        )  # fmt: skip
        return self.learn(state, Rng("gram"))[0]

    def search(self, state: OneRoundState, rng: Rng, *, trial: bool = False) -> SearchResult:
        """Search for the network of the pooled rows."""
        return self._find(state.pooled(trial=trial), self._knowledge(state.variables), rng("search"), quick=trial)

    def _find(self, gram: Gram, knowledge: PriorKnowledge, rng: np.random.Generator, *, quick: bool) -> SearchResult:
        # Predictions are compared, and the penalty, made to find few wrong edges, leaves out too many for that.
        evidence = "bayes" if quick and self.evidence == "auto" else self.evidence
        options = SearchOptions(evidence, self.restarts, scaled=self.scaled, quick=quick)
        return learn_order(gram.gram, gram.rows, knowledge.without(gram.unseen), rng, options)

    def learn(self, state: OneRoundState, rng: Rng, *, trial: bool = False) -> tuple[OneRoundState, Metrics]:
        """Search, and keep what was found."""
        found = self.search(state, rng, trial=trial)
        kept = {name: getattr(found, name) for name in ("within", "across", "variance", "undirected", "score")}
        return replace(state, **kept), {"score": found.score, "edges": float(np.count_nonzero(found.within))}

    def _knowledge(self, names: Sequence[str]) -> PriorKnowledge:
        return PriorKnowledge.read(tuple(names), self.lags, self.forbidden, self.required, self.tiers)

    def expects(self, state: OneRoundState, phase: str) -> Expect:
        """Expect sums only."""
        count, parts = len(state.variables), 2 if self.compare else 1
        side = count * (self.lags + 1)
        pairs = side * (side + 1) // 2
        if phase == "centre":
            fields = {
                "counts": Spec((count,), low=0, high=1e12, description="how many values you have of each variable"),
                "sums": Spec((count,), description="their sums"),
                "incomplete": Spec((), "float", low=0, high=1, description="whether any cell or variable is missing"),
            }
        elif phase == "products":
            rules, counts = ((), pairs) if state.gaps else ((semidefinite,), 1)
            fields = {
                "counts": Spec(
                    (parts, counts),
                    low=0,
                    high=1e12,
                    most=parts * pairs,
                    description="how many rows you have, for each two variables where any site lacks cells",
                ),
                "sums": Spec((parts, side), description="the sum of each variable and of its lags"),
                "products": Spec(
                    (parts, pairs), rules=rules, packed=True, description="sums of products of each two of them"
                ),
                "levels": Spec(
                    (len(NAMES), 2, count),
                    low=0,
                    description="what levels and trends of your own leave of each variable's squares, and how many "
                    "numbers they fit",
                ),
            }
        elif phase == "fill":
            fields = {
                "counts": Spec((parts, 1), low=0, high=1e12, description="how many rows you have"),
                "sums": Spec((parts, side), description="the sum of each variable and of its lags, gaps filled"),
                "products": Spec(
                    (parts, pairs), packed=True, description="sums of products of each two of them, gaps filled"
                ),
            }
        elif phase == "compare":
            fields = {
                "rows": Spec((), "float", low=0, high=1e12, description="how many rows you held out"),
                "joining": expect_tally(*self._choices),
                "lean": Spec(
                    (2, side),
                    low=0,
                    description="how far the errors of the common network lean one way in your rows, by column, and "
                    "how far chance lets them",
                ),
                "shared": Spec(
                    (3,),
                    description="how well the variables that all clients hold are predicted, without "
                    "and with the other variables",
                ),
            }
        elif phase == "borrow":
            fields = {"scores": Spec((len(SHARES),), description="how well more or fewer borrowed rows predict yours")}
        else:
            fields = {"edges": Spec((), "float", low=0, description="how many edges your network has within a step")}
        counted = {"compare": "rows"}.get(phase, "counts")
        rows = (lambda message: float(np.atleast_2d(message[counted]).sum(axis=0).max())) if counted in fields else None
        # With gaps each product is of other rows.
        is_complete = phase == "products" and not state.gaps
        alike = (lambda message: relations(message["products"] / message["counts"])) if is_complete else None
        seen = {"centre": seen_cells, "products": seen_pairs, "compare": seen_lean}.get(phase)
        seen = seen if phase != "products" or state.gaps else None
        return Expect(fields, sums=True, rows=rows, alike=alike, seen=seen)

    def misled_by(self, table: Table) -> list[str]:
        """Say which columns follow the clock."""
        return say_rhythms(table)

    @property
    def equal_steps(self) -> Literal["", "advised", "required"]:
        """A lag is a number of rows."""
        return "required" if self.lags else ""

    @property
    def most_questions(self) -> dict[str, int]:
        """Products are asked for again where levels may differ, and filled rows until they settle."""
        own = dict.fromkeys(("borrow", "personal"), int(self.personal))
        return {**super().most_questions, "products": MOST_ASKED, "fill": MOST_STEPS, **own}

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Sums about the agreed centre are added whenever they come."""
        return {"products": "accumulate"}

    def notes(self, state: OneRoundState) -> list[str]:
        """Return what was done about constant columns and about what clients lack, in words."""
        return what_was_done(state, state.pooled())

    def result(self, outcome: Outcome) -> FittedOneRound:
        """Return the network; warn of columns and pairs of columns that could not be used as they are."""
        state: OneRoundState = outcome.state
        for line in self.notes(state):
            warn(line, AdviceWarning)
        own = {
            name: ClientNetwork(
                state.network(memory), *map(state.as_shown, (memory.undirected, memory.sure, memory.error))
            )
            for name, memory in outcome.memories.items()
            if memory.within.size
        }
        fitted = FittedOneRound(outcome, state.network(state), own)
        for line in fitted.unlike():
            warn(line, AdviceWarning)
        return fitted


def design_effect(lean: Floats, variables: int) -> float:
    """Return how many rows count as one for the probabilities of edges, at least 1, from the clients' `_lean`.

    It is the square of how much further errors lean than chance lets them, on average over columns. The sums tell of
    what differs between clients only, not of what is wrong everywhere; squared, they made edges of DREAM4's networks 4
    and 5 as sure as they are.
    """
    further, chance = lean
    cells = np.where(np.arange(len(chance)) < variables, variables - 1, variables)
    seen = (chance > 0) & (cells > 0)
    return max(1.0, float(np.mean(further[seen] / (cells[seen] * chance[seen])))) ** 2 if seen.any() else 1.0


def embed(matrices: NDArray[Any], held: Indices, count: int) -> NDArray[Any]:
    """Return `(..., held, held)` as `(..., count, count)`, zero where a variable is not held."""
    found = np.zeros((*matrices.shape[:-2], count, count), matrices.dtype)
    found[..., held[:, None], held] = matrices
    return found


def column_sums(prepared: ClientTable, names: Sequence[str]) -> Message:
    """Return how many values there are of each of all clients' variables, and their sums."""
    table = prepared.table
    own = [names.index(name) for name in table.features]
    counts, sums = np.zeros(len(names)), np.zeros(len(names))
    counts[own] = (~np.isnan(table.values)).sum(axis=0)
    sums[own] = np.nansum(table.values, axis=0)
    incomplete = float(prepared.incomplete or len(own) < len(names))
    return Message({"counts": counts, "sums": sums, "incomplete": incomplete})


def seen_cells(message: Message) -> dict[str, Floats]:
    """Return how many values of each variable a client has, by what it sends of them in the phase `centre`."""
    return {"counts": message["counts"], "sums": message["counts"]}


def seen_pairs(message: Message) -> dict[str, Floats]:
    """Return how many rows each sum of the phase `products` is of, where clients miss cells or variables."""
    counts = message["counts"]
    own = counts[:, diagonal_places(counts.shape[1])[1]]
    levels = np.broadcast_to(own.sum(axis=0)[: message["levels"].shape[-1]], message["levels"].shape)
    return {"counts": counts, "sums": own, "products": counts, "levels": levels}


def seen_lean(message: Message) -> dict[str, Floats]:
    """Return the rows behind `lean` of the phase `compare`; a client that lacks variables sends zeros."""
    lean = message["lean"]
    return {"lean": np.full(lean.shape, float(message["rows"]) * bool(np.any(lean)))}


def copies(gram: Gram, variables: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of variables that are the same but for their units and rounding."""
    now = gram.gram[: len(variables), : len(variables)]
    spread = np.sqrt(np.where(now.diagonal() > 0, now.diagonal(), np.inf))
    same = np.argwhere(np.triu(np.abs(now / np.outer(spread, spread)) > 1.0 - COPY, k=1)).tolist()
    return [(variables[first], variables[second]) for first, second in same]


def what_was_done(state: OneRoundState, gram: Gram) -> list[str]:
    """Return what was done about constant columns and about what clients lack, in words."""
    count = len(state.variables)
    lines = [
        f"{state.variables[column % count]} at lag {column // count} does not vary in the rows that were summed: "
        f"no edge {'from it' if column >= count else 'of it'} was considered"
        for column in np.flatnonzero(gram.gram.diagonal() == 0).tolist()
    ]
    if gram.unseen is not None and gram.unseen.any():
        first, second = np.argwhere(np.triu(gram.unseen))[0] % count
        lines.append(
            f"{int(np.triu(gram.unseen).sum())} pairs of columns were never seen together, like "
            f"{state.variables[first]} and {state.variables[second]}: no edge between them was considered"
        )
    lines += [
        f"{' and '.join(twins)} differ in case only and are taken for different variables; rename one of them"
        for twins in case_twins(state.shown)
    ]
    if state.levels != "common":
        lines.append(
            f"{LEVELS[state.levels].description}, by more than one network explains: edges are learned from what is "
            f"left when {SUBTRACTED[state.levels]} is subtracted"
        )
    lines += [
        f"{first} and {second} are copies of each other: an edge of one may be the other's; leave one of them out"
        for first, second in copies(gram, state.variables)
    ]
    lacking = len(state.variables) - len(state.shared)
    if lacking:
        lines.append(
            f"{lacking} of {count} variables are not held by all clients: what a client lacks is filled in as "
            f"expected, and edges are as sure as {gram.rows:.0f} complete rows would make them"
        )
    seen = state.pairs.sum(axis=0)
    unseen = np.flatnonzero(seen[diagonal_places(len(seen))[1]][:count] < 0.5) if len(seen) else ()
    lines += [f"nobody measured {state.variables[place]}: learn again without it" for place in unseen]
    lost, error = state.lost
    if lost > 2 * error:
        lines.append(
            f"the {len(state.shared)} variables that all clients hold are predicted better without the others (by "
            f"{lost:.2g} nats per row, standard error {error:.1g}): learn from {', '.join(state.shared)} alone"
        )
    return lines


def semidefinite(products: Floats) -> str | None:
    """Rule: each packed matrix of products is one that real rows can have."""
    side = int((np.sqrt(8 * products.shape[1] + 1) - 1) / 2)
    for values in np.linalg.eigvalsh(unpack(products, side)):
        if values[0] < -1e-9 * max(abs(values[-1]), 1e-300):
            return f"must be positive semidefinite, its smallest eigenvalue is {values[0]:g}"
    return None
