"""OneRound: the exact network of all clients' data from one sum of Gram matrices.

    centre     clients send counts and sums of their columns; only totals are used        (a common centre, for digits)
    products   clients send sums of products about it; only totals are used               (everything the search needs)
    compare    clients send how well the network of all first four fifths predicts their last, and one of their own
    borrow     personal=True: clients send how well networks with more or fewer borrowed rows predict; only totals
    personal   personal=True: each client learns its own network and keeps it

The search itself is `cotempo.networks.search.orders`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Series, Table
from cotempo.errors import DataError, Problem, SchemaError
from cotempo.federation import (
    Answers,
    Ask,
    Benefit,
    Expect,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    Staleness,
    register,
    standard_error,
)
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fitted import FittedOneRound
from cotempo.networks.moments import (
    METRIC,
    Gram,
    Sums,
    Transitions,
    check_table,
    complete,
    cut_transitions,
    lagged_columns,
    log_densities,
    unpack,
    varying,
)
from cotempo.networks.network import Network
from cotempo.networks.search.orders import SearchOptions, SearchResult, learn_order
from cotempo.networks.search.personal import SHARES, learn_personal, score_shares
from cotempo.networks.search.prior_knowledge import PriorKnowledge
from cotempo.typing import Bools, Floats, Indices

#: A client with fewer rows before the held-out ones is not compared.
LEAST_SEEN = 3


@dataclass(frozen=True)
class OneRoundState:
    """State of the server: the sums, and the network learned from them.

    `counts`, `sums` and `products` have a row for what was seen before the held-out fifth and one for the rest, or a
    single row where nothing is held out. `shown` are the variables in the order in which clients hold them.
    """

    variables: tuple[str, ...]
    phase: str
    centre: Floats
    pairwise: bool = False
    counts: Floats = field(default_factory=lambda: np.zeros((2, 1)))
    sums: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    products: Floats = field(default_factory=lambda: np.zeros((2, 0)))
    within: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    across: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    variance: Floats = field(default_factory=lambda: np.zeros(0))
    undirected: Bools = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    score: float = 0.0
    share: float = 0.0
    comparisons: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    def as_shown(self, matrices: NDArray[Any]) -> NDArray[Any]:
        """Bring `(..., variables, variables)` from the order of the search to that in which clients hold them."""
        places = [self.variables.index(name) for name in self.shown]
        return matrices[..., places, :][..., places]

    def network(self, found: OneRoundState | OneRoundMemory) -> Network:
        """Return a network in the order in which clients hold the variables."""
        return Network(self.as_shown(found.within), self.as_shown(found.across), self.shown)

    def pooled(self, *, trial: bool = False) -> Gram:
        """Return the Gram of all rows, or of those before the held-out ones."""
        sums = Sums(self.counts, self.sums, self.products)
        return Gram.of_sums(sums.part(0) if trial else sums.total())


@dataclass(frozen=True)
class OneRoundMemory:
    """A client's own network, which never leaves it."""

    within: Floats
    across: Floats


class ClientTable(NamedTuple):
    """A client's table, its complete transitions, and whether a cell is missing anywhere."""

    table: Series
    transitions: Transitions
    incomplete: bool


class OwnRows(NamedTuple):
    """A client's transitions, its variables, at the places `held`, in the order of all clients'.

    `judged` are the held-out rows, the last fifth of those without a missing cell; `seen` rows come before them. A row
    shares cells with the `lags` before it: those are in neither.
    """

    rows: Transitions
    held: Indices
    seen: int
    judged: Floats

    def sum_products(self, centre: Floats, *, pairwise: bool, split: bool) -> Sums:
        """Return sums among the columns of all clients, `split` into before the held-out fifth and the rest."""
        values, weights = self.rows
        lags = values.shape[1] // len(self.held) - 1
        about = np.tile(centre[self.held], lags + 1)
        cuts = (slice(None, self.seen), slice(self.seen, None)) if split else (slice(None),)
        parts = [Sums.of_rows(values[cut], weights[cut], about, pairwise=pairwise) for cut in cuts]
        if pairwise:
            columns = lagged_columns(self.held, len(centre), lags)
            parts = [part.embed(columns, len(centre) * (lags + 1)) for part in parts]
        return Sums.stack(parts)


@register()
class OneRound(Method):
    """Learn the network of all clients' data exactly, from one sum of Gram matrices.

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
    phases: ClassVar[tuple[str, ...]] = ("centre", "products", "compare", "borrow", "personal")
    State: ClassVar[type] = OneRoundState
    Memory: ClassVar[type | None] = OneRoundMemory

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
        description="Edges that must not exist: (source, target) within a time step, (source, target, lag) across.",
    )
    required: tuple[tuple[Any, ...], ...] = Field(default=(), description="Edges that must exist, likewise.")
    tiers: tuple[tuple[str, ...], ...] = Field(
        default=(), description="Groups of variables; within a time step no edge leads to an earlier group."
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
        """Cut the table into transitions; too few are refused."""
        assert isinstance(table, Series)  # `check` saw the schema
        check_table(table)
        partial = len(cut_transitions(table, self.lags, partial=True).values)
        if partial < self.minimum_rows:
            must = f"at least {self.minimum_rows} rows are needed, because sums over a few reveal them, got {partial}"
            raise DataError([Problem(must)])
        rows = cut_transitions(table, self.lags, self.half_life)
        return ClientTable(table, rows, bool(np.isnan(table.values).any()) or not len(rows.values))

    def answer(
        self, question: Question, prepared: ClientTable, memory: OneRoundMemory | None, rng: Rng
    ) -> tuple[Message, OneRoundMemory | None]:
        """Send sums, or how well networks predict here."""
        common, names = question.common, json.loads(question.common["variables"])
        if question.phase == "centre":
            return column_sums(prepared, names), None
        own = self.own_rows(prepared, names, pairwise=common["pairwise"])
        knowledge = self._knowledge(names)
        if question.phase == "compare":
            return self._compare(common, own, knowledge), None
        mine = own.sum_products(common["centre"], pairwise=common["pairwise"], split=self.compare)
        if question.phase == "products":
            return Message(mine._asdict()), None
        total, stream = mine.total(), Rng(common["stream"])
        others = Gram.of_sums(Sums(*(common[name] - part for name, part in total._asdict().items())))
        if question.phase == "borrow":
            rows = complete(own.rows.values) - np.tile(common["centre"][own.held], self.lags + 1)
            theirs = others.only(lagged_columns(own.held, len(names), self.lags))
            scores = score_shares(rows, theirs, knowledge.only(own.held), stream("borrow"), scaled=self.scaled)
            return Message({"scores": scores}, weight=max(len(rows), 1)), None
        options = SearchOptions("bayes", restarts=self.restarts, scaled=self.scaled)
        found = learn_personal(Gram.of_sums(total), others, common["share"], knowledge, stream("personal"), options)
        return Message({"edges": float(np.count_nonzero(found.within))}), OneRoundMemory(found.within, found.across)

    def own_rows(self, prepared: ClientTable, names: Sequence[str], *, pairwise: bool) -> OwnRows:
        """Return the client's transitions: complete ones, with `pairwise` also those with missing cells."""
        table, rows = prepared.table, prepared.transitions
        if pairwise:
            rows = cut_transitions(table, self.lags, self.half_life, partial=True)
        held = np.array([place for place, name in enumerate(names) if name in table.features], dtype=np.intp)
        mine = np.array([table.features.index(names[place]) for place in held], dtype=np.intp)
        values = rows.values[:, lagged_columns(mine, len(table.features), self.lags)]
        whole = np.flatnonzero(~np.isnan(values).any(axis=1))
        judged = whole[len(whole) - len(whole) // 5 :]
        seen = max(int(judged[0]) - self.lags, 0) if len(judged) else len(values)
        return OwnRows(Transitions(values, rows.weights), held, seen, values[judged])

    def late_sums(self, state: OneRoundState, client: str, table: Series) -> Sums:
        """Return the sums of a client that joins or leaves later, about the centre that was agreed on."""
        unknown = [name for name in table.features if name not in state.variables]
        if unknown:
            raise DataError([Problem("a late client cannot bring new variables", client=client, column=unknown[0])])
        try:
            prepared = self.prepare(table)
        except DataError as error:
            raise DataError([Problem(p.must, client, p.column, p.row) for p in error.problems]) from error
        pairwise = state.pairwise or prepared.incomplete or len(table.features) < len(state.variables)
        own = self.own_rows(prepared, state.variables, pairwise=pairwise)
        return own.sum_products(state.centre, pairwise=pairwise, split=self.compare)

    def _compare(self, common: Message, own: OwnRows, knowledge: PriorKnowledge) -> Message:
        """Judge the held-out rows, in the columns that vary before them; a client that lacks variables has none."""
        values, weights = own.rows.values[: own.seen], own.rows.weights[: own.seen]
        kept = np.flatnonzero(varying(values).reshape(self.lags + 1, -1).all(axis=0))
        count = knowledge.variables
        if not len(own.judged) or own.seen < LEAST_SEEN or not len(kept) or len(own.held) < count:
            return Message({"alone": 0.0, "together": 0.0, "error": 0.0, "rows": 0})
        network = Network(common["within"], common["across"])
        together = log_densities(own.judged, network, common["mean"], common["variance"])[:, kept]
        about = np.tile(common["centre"], self.lags + 1)
        columns = lagged_columns(kept, count, self.lags)
        sums = Sums.of_rows(values, weights, about, pairwise=bool(np.isnan(values).any()))
        mine = Gram.of_sums(sums).only(columns)
        found = self._find(mine, knowledge.only(kept), Rng(common["stream"])("alone"), quick=True)
        network = Network(found.within, found.across)
        alone = log_densities(own.judged[:, columns], network, mine.mean + about[columns], found.variance)
        means = {name: float(part.sum(axis=1).mean()) for name, part in (("alone", alone), ("together", together))}
        error = standard_error(together.sum(axis=1) - alone.sum(axis=1))
        return Message({**means, "error": error, "rows": len(own.judged)})

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
        return OneRoundState(names, "centre", np.zeros(len(names)), shown=shown)

    def ask(self, state: OneRoundState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for one round of a few steps."""
        if state.phase == "finished":
            return None
        common: dict[str, Any] = {"variables": json.dumps(state.variables)}
        if state.phase != "centre":
            common |= {"centre": state.centre, "pairwise": state.pairwise}
        if state.phase in ("compare", "borrow", "personal"):
            # What a search tries first must not depend on the client's name: all take the same stream.
            common["stream"] = int(rng("stream").integers(2**62))
        if state.phase == "compare":
            common |= {"within": state.within, "across": state.across, "variance": state.variance}
            common["mean"] = state.pooled(trial=True).mean + np.tile(state.centre, self.lags + 1)
        if state.phase in ("borrow", "personal"):
            common |= {name: getattr(state, name).sum(axis=0) for name in Sums._fields}
            common["share"] = state.share
        last = "personal" if self.personal else "compare" if self.compare else "products"
        return Ask(state.phase, cohort, Message(common), ends_round=state.phase == last)

    def absorb(
        self, state: OneRoundState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[OneRoundState, Metrics]:
        """Keep the sums, search, and keep the clients' comparisons."""
        after = "borrow" if self.personal else "finished"
        if state.phase == "centre":
            total = answers.sum
            centre = total["sums"] / np.maximum(total["counts"], 1.0)
            return replace(state, phase="products", centre=centre, pairwise=total["incomplete"] > 0), {}
        if state.phase == "products":
            sums = {name: answers.sum[name] for name in Sums._fields}
            state = replace(state, phase="compare" if self.compare else after, **sums)
            return self.learn(state, rng, trial=self.compare)
        if state.phase == "compare":
            sent = {name: answers[name] for name in answers.names}
            fields = ("alone", "together", "error")
            comparisons = {name: tuple(m[key] for key in fields) for name, m in sent.items() if m["rows"] > 0}
            return self.learn(replace(state, phase=after, comparisons=comparisons), rng)
        if state.phase == "borrow":
            share = float(SHARES[int(np.argmax(answers.mean("scores")))])
            return replace(state, phase="personal", share=share), {"share": share}
        return replace(state, phase="finished"), {}

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
        """Expect sums only, except for a client's own comparison."""
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
            rules, counts = ((), pairs) if state.pairwise else ((semidefinite,), 1)
            fields = {
                "counts": Spec((parts, counts), low=0, high=1e12, description="how many rows you have"),
                "sums": Spec((parts, side), description="the sum of each variable and of its lags"),
                "products": Spec((parts, pairs), rules=rules, description="sums of products of each two of them"),
            }
        elif phase == "compare":
            fields = {
                "alone": Spec((), "float", description="how well a model of your own predicts your held-out rows"),
                "together": Spec((), "float", description="how well the common network predicts them"),
                "error": Spec((), "float", low=0, description="standard error of the difference"),
                "rows": Spec((), "int", low=0, high=1e12, description="how many rows you held out"),
            }
        elif phase == "borrow":
            fields = {"scores": Spec((len(SHARES),), description="how well more or fewer borrowed rows predict yours")}
        else:
            fields = {"edges": Spec((), "float", low=0, description="how many edges your network has within a step")}
        return Expect(fields, sums=phase != "compare")

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Sums about the agreed centre are added whenever they come."""
        return {"products": "accumulate"}

    def benefit(self, state: OneRoundState) -> Mapping[str, Benefit]:
        """Return the log-density of each client's held-out rows, alone and together."""
        return {
            name: Benefit(METRIC, alone, together, higher_is_better=True, error=error)
            for name, (alone, together, error) in state.comparisons.items()
        }

    def result(self, outcome: Outcome) -> FittedOneRound:
        """Return the network; warn of columns and pairs of columns that could not be used as they are."""
        state: OneRoundState = outcome.state
        for line in repairs(state, state.pooled()):
            warnings.warn(line, stacklevel=4)
        own = {name: state.network(memory) for name, memory in outcome.memories.items()}
        return FittedOneRound(outcome, state.network(state), own)


def column_sums(prepared: ClientTable, names: Sequence[str]) -> Message:
    """Return how many values there are of each of all clients' variables, and their sums."""
    table = prepared.table
    own = [names.index(name) for name in table.features]
    counts, sums = np.zeros(len(names)), np.zeros(len(names))
    counts[own] = (~np.isnan(table.values)).sum(axis=0)
    sums[own] = np.nansum(table.values, axis=0)
    incomplete = float(prepared.incomplete or len(own) < len(names))
    return Message({"counts": counts, "sums": sums, "incomplete": incomplete})


def repairs(state: OneRoundState, gram: Gram) -> list[str]:
    """Return what was done about constant columns and inconsistent pairwise moments, in words."""
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
    if gram.repaired < 0:
        lines.append(
            f"the pairwise moments did not fit together (smallest eigenvalue of their correlations "
            f"{gram.repaired:.2g}); they were moved to the nearest that do"
        )
    return lines


def semidefinite(products: Floats) -> str | None:
    """Rule: each packed matrix of products is one that real rows can have."""
    side = int((np.sqrt(8 * products.shape[1] + 1) - 1) / 2)
    for values in np.linalg.eigvalsh(unpack(products, side)):
        if values[0] < -1e-9 * max(abs(values[-1]), 1e-300):
            return f"must be positive semidefinite, its smallest eigenvalue is {values[0]:g}"
    return None
