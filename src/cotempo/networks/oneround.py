"""OneRound: the exact network of all clients' data from one sum of Gram matrices.

    centre     clients send counts and sums of their columns; only totals are used        (a common centre, for digits)
    products   clients send sums of products about it; only totals are used               (everything the search needs)
    compare    clients say how well the network of all first four fifths predicts their last, and one of their own
    borrow     personal=True: clients say how well networks with more or fewer borrowed rows predict; only totals
    personal   personal=True: each client learns its own network and keeps it

The search itself is `cotempo.networks.search.orders`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

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
    Late,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    register,
)
from cotempo.networks.compare import log_densities, varying
from cotempo.networks.data.generate import make_networks
from cotempo.networks.gram import Gram, Sums, assemble, sum_products
from cotempo.networks.network import Network
from cotempo.networks.oneround_client import Own, Prepared, column_sums, own_rows, prepare, product_sums
from cotempo.networks.oneround_fitted import FittedOneRound
from cotempo.networks.oneround_state import OneRoundMemory, OneRoundState, expected, mended, pooled_sums
from cotempo.networks.search.orders import learn_order
from cotempo.networks.search.personal import SHARES, learn_personal, score_shares
from cotempo.networks.search.search_result import Found
from cotempo.networks.search.wishes import Wishes
from cotempo.networks.transitions import Rows, check_table

FloatArray = NDArray[np.float64]

#: A client with fewer rows before the held-out ones is not compared.
LEAST_SEEN = 3


@register()
class OneRound(Method):
    """Learn the network of all clients' data exactly, from one sum of Gram matrices.

    The directions of edges come from a search over orders of the variables, with the spread of noise variances
    learned; edges whose direction the data cannot tell are in `fitted.undirected`.

    Parameters
    ----------
    lags
        How many past time steps can act; 0 learns a static network.
    minimum_rows
        A client with fewer rows is refused: a Gram of a few rows tells the rows.
    half_life
        The time after which a row counts half, for structure that drifts; in the unit of the table's time.
    personal
        Give every client a network of its own, learned from its rows and borrowed ones of the others;
        `fitted[client].network`. How much is borrowed is chosen by how well it predicts, summed over clients.
    forbidden, required
        Edges that must not or must be there: `(source, target)` within a time step, `(source, target, lag)` across.
    tiers
        Groups of variables; within a time step no edge leads from a later group to an earlier one.
    evidence
        `"auto"` takes the Bayesian evidence where rows are few, the penalised one where they are many.
    gamma
        Strength of the penalty.
    restarts
        Further orders tried without gain before the search ends.
    scaled
        Divide every column by its standard deviation first, so that units do not matter. Where all columns are
        measured in one unit and noise is of like size, `False` finds more directions: variances then tell them.
    compare
        Hold out the last fifth of every client's rows first, to tell whether joining helped: the network of everyone's
        rows against the one that the same search finds in the client's own.

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

    lags: int = Field(1, ge=0, le=50)
    minimum_rows: int = Field(5, ge=1)
    half_life: float | None = Field(None, gt=0)
    personal: bool = False
    forbidden: tuple[tuple[Any, ...], ...] = ()
    required: tuple[tuple[Any, ...], ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    evidence: str = Field("auto", pattern="^(auto|penalty|bayes)$")
    gamma: float = Field(1.0, ge=0)
    restarts: int = Field(1, ge=0)
    scaled: bool = True
    compare: bool = True

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """A small case for the contract suite."""
        clients, _ = make_networks(variables=2, clients=3, samples=60, shared=0.5, seed=0)
        return cls(restarts=0, personal=True), clients, None

    # At a client.

    def prepare(self, table: Table) -> Prepared:
        """Cut the table into transitions; too few are refused."""
        assert isinstance(table, Series)  # `check` saw the schema
        check_table(table)
        return prepare(table, self.lags, self.half_life, self.minimum_rows)

    def answer(
        self, question: Question, prepared: Prepared, memory: OneRoundMemory | None, rng: Rng
    ) -> tuple[Message, OneRoundMemory | None]:
        """Send sums, or what the network is worth here."""
        common, names = question.common, json.loads(question.common["variables"])
        if question.phase == "centre":
            return Message(column_sums(prepared, names)), None
        own = own_rows(prepared, names, self.lags, self.half_life, pairwise=common["pairwise"])
        if question.phase == "products":
            return Message(self._sums(own, common)), None
        # What a search tries first must not depend on the client's name: all take the stream that the server names.
        stream = Rng(common["stream"])
        if question.phase == "compare":
            return self._compare(common, own, names, stream), None
        mine = self._sums(own, common)
        total = Sums(*(mine[name].sum(axis=0) for name in Sums._fields))
        others = assemble(Sums(*(common[name] - getattr(total, name) for name in Sums._fields)))
        wishes = self._wishes(names)
        if question.phase == "borrow":
            rows = own.rows.values[~np.isnan(own.rows.values).any(axis=1)]
            rows = rows - np.tile(common["centre"][own.held], self.lags + 1)
            theirs = others.only(own.columns(len(names)))
            scores = score_shares(rows, theirs, wishes.only(own.held), stream("borrow"), scaled=self.scaled)
            return Message({"scores": scores}, weight=max(len(rows), 1)), None
        found = learn_personal(
            assemble(total), others, common["share"], wishes, stream("personal"), restarts=self.restarts,
            scaled=self.scaled,
        )  # fmt: skip
        return Message({"edges": float(np.count_nonzero(found.within))}), OneRoundMemory(found.within, found.across)

    def _sums(self, own: Own, common: Mapping[str, Any]) -> dict[str, FloatArray]:
        return product_sums(own, common["centre"], pairwise=common["pairwise"], split=self.compare)

    def late_sums(self, state: OneRoundState, client: str, table: Series) -> dict[str, FloatArray]:
        """The sums of a client that joins or leaves later, about the centre that was agreed on."""
        unknown = [name for name in table.features if name not in state.variables]
        if unknown:
            raise DataError([Problem("a late client cannot bring new variables", client=client, column=unknown[0])])
        try:
            prepared = self.prepare(table)
        except DataError as error:
            raise DataError([Problem(p.must, client, p.column, p.row) for p in error.problems]) from error
        pairwise = state.pairwise or prepared.incomplete or len(table.features) < len(state.variables)
        own = own_rows(prepared, state.variables, self.lags, self.half_life, pairwise=pairwise)
        return self._sums(own, {"centre": state.centre, "pairwise": pairwise})

    def _compare(self, common: Message, own: Own, names: Sequence[str], stream: Rng) -> Message:
        """Judge the held-out rows, in the columns that vary before them; a client that lacks variables has none."""
        seen = Rows(own.rows.values[: own.seen], own.rows.weights[: own.seen])
        kept = np.flatnonzero(varying(seen.values).reshape(self.lags + 1, -1).all(axis=0))
        if not len(own.judged) or own.seen < LEAST_SEEN or not len(kept) or len(own.held) < len(names):
            return Message({"alone": 0.0, "together": 0.0, "rows": 0})
        network = Network(common["within"], common["across"])
        together = log_densities(own.judged, network, common["mean"], common["variance"])[:, kept]
        about = np.tile(common["centre"], self.lags + 1)
        columns = np.concatenate([kept + lag * len(names) for lag in range(self.lags + 1)])
        mine = assemble(sum_products(seen, about, pairwise=bool(np.isnan(seen.values).any()))).only(columns)
        found = self._find(mine, self._wishes(names).only(kept), stream("alone"), quick=True)
        network = Network(found.within, found.across)
        alone = log_densities(own.judged[:, columns], network, mine.mean + about[columns], found.variance)
        return Message(
            {
                "alone": float(alone.sum(axis=1).mean()),
                "together": float(together.sum(axis=1).mean()),
                "rows": len(own.judged),
            }
        )

    # At the server.

    def check(self, roster: Roster) -> None:
        """Clients may hold different variables; each must share some with the rest, and units must agree."""
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
        """The variables are those any client holds.

        They are searched in the order of their names, so that the order of columns does not matter; shorter ones first.
        """
        shown = tuple(dict.fromkeys(c for name in roster.names for c in roster.schemas[name].columns))
        names = tuple(sorted(shown, key=lambda name: (len(name), name)))
        self._wishes(names)
        return OneRoundState(names, "centre", np.zeros(len(names)), shown=shown)

    def ask(self, state: OneRoundState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """One round of a few steps."""
        if state.phase == "finished":
            return None
        common: dict[str, Any] = {"variables": json.dumps(state.variables)}
        if state.phase != "centre":
            common |= {"centre": state.centre, "pairwise": state.pairwise}
        if state.phase in ("compare", "borrow", "personal"):
            common["stream"] = int(rng("stream").integers(2**62))
        if state.phase == "compare":
            common |= {"within": state.within, "across": state.across, "variance": state.variance}
            common["mean"] = self._mean(state)
        if state.phase in ("borrow", "personal"):
            common |= {name: getattr(state, name).sum(axis=0) for name in Sums._fields}
            common["share"] = state.share
        last = "personal" if self.personal else "compare" if self.compare else "products"
        return Ask(state.phase, cohort, Message(common), ends_round=state.phase == last)

    def absorb(
        self, state: OneRoundState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[OneRoundState, Metrics]:
        """Keep the sums, search, and note what the clients said."""
        if state.phase == "centre":
            total = answers.sum
            centre = total["sums"] / np.maximum(total["counts"], 1.0)
            return replace(state, phase="products", centre=centre, pairwise=total["incomplete"] > 0), {}
        if state.phase == "products":
            sums = {name: answers.sum[name] for name in Sums._fields}
            state = replace(state, phase="compare" if self.compare else self._after_compare(), **sums)
            return self.learn(state, rng, trial=self.compare)
        if state.phase == "compare":
            said = {name: answers[name] for name in answers.names}
            comparisons = {name: (m["alone"], m["together"]) for name, m in said.items() if m["rows"] > 0}
            state = replace(state, phase=self._after_compare(), comparisons=comparisons)
            return self.learn(state, rng, trial=False)
        if state.phase == "borrow":
            scores = answers.mean("scores")
            share = float(SHARES[int(np.argmax(scores))])
            return replace(state, phase="personal", share=share), {"share": share}
        return replace(state, phase="finished"), {}

    def _after_compare(self) -> str:
        return "borrow" if self.personal else "finished"

    def search(self, state: OneRoundState, rng: Rng, *, trial: bool = False) -> Found:
        """Search for the network that the sums tell."""
        gram = assemble(pooled_sums(state, trial=trial))
        return self._find(gram, self._wishes(state.variables), rng("search"), quick=trial)

    def _find(self, gram: Gram, wishes: Wishes, rng: np.random.Generator, *, quick: bool) -> Found:
        # Predictions are compared, and the penalty, made to find few wrong edges, leaves out too many for that.
        evidence = "bayes" if quick and self.evidence == "auto" else self.evidence
        return learn_order(
            gram.gram, gram.rows, len(gram.gram) // (self.lags + 1), self.lags, rng, gamma=self.gamma,
            restarts=self.restarts, evidence=evidence, scaled=self.scaled, quick=quick,
            **wishes.without(gram.unseen).arguments,
        )  # fmt: skip

    def learn(self, state: OneRoundState, rng: Rng, *, trial: bool = False) -> tuple[OneRoundState, Metrics]:
        """Search, and keep what was found."""
        found = self.search(state, rng, trial=trial)
        learned = replace(
            state, within=found.within, across=found.across, variance=found.variance, undirected=found.undirected,
            score=found.score,
        )  # fmt: skip
        return learned, {"score": found.score, "edges": float(np.count_nonzero(found.within))}

    def _mean(self, state: OneRoundState) -> FloatArray:
        mean: FloatArray = assemble(pooled_sums(state, trial=True)).mean + np.tile(state.centre, self.lags + 1)
        return mean

    def _wishes(self, names: Sequence[str]) -> Wishes:
        return Wishes.read(tuple(names), self.lags, self.forbidden, self.required, self.tiers)

    def expects(self, state: OneRoundState, phase: str) -> Expect:
        """Everything but what a client says of its own gain is needed only as a sum."""
        return expected(state, phase, self.lags, 2 if self.compare else 1)

    @property
    def late(self) -> Mapping[str, Late]:
        """Sums about the agreed centre are added whenever they come."""
        return {"products": "added"}

    def benefit(self, state: OneRoundState) -> Mapping[str, Benefit]:
        """Log-density of the held-out rows, alone and together."""
        metric = "log-density of held-out rows, nats per row"
        return {name: Benefit(metric, *said, higher_is_better=True) for name, said in state.comparisons.items()}

    def result(self, outcome: Outcome) -> FittedOneRound:
        """The network, with what had to be mended said once."""
        state: OneRoundState = outcome.state
        gram = assemble(pooled_sums(state))
        for line in mended(state, gram):
            warnings.warn(line, stacklevel=4)
        own = {
            name: Network(state.as_shown(memory.within), state.as_shown(memory.across), state.shown)
            for name, memory in outcome.memories.items()
        }
        network = Network(state.as_shown(state.within), state.as_shown(state.across), state.shown)
        return FittedOneRound(outcome, network, own)
