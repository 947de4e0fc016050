"""`TrialThenFit`: the stages around the rounds of FDBNL and PFDBNL, whose algorithms stand in their own files.

    centre    clients send counts and column sums; only totals are used
    spread    clients send sums of squares about the common centre; only totals are used
    trial     learn on the first four fifths of every client's rows, one network for each candidate sparsity
    compare   clients send how well these predict their last fifth, and whether better than what they learn in a trial
              of their own; only totals are used, every client keeps its own figures
    final     learn on all rows, with the sparsity that predicted best

So nobody needs the truth to choose the sparsity, and every client knows whether joining helped it. All candidates are
learned in the same rounds: arrays have a leading axis of candidates, of length one where the sparsity is given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cotempo.data import Schema, Series, Table
from cotempo.errors import DataError, MessageError, Problem
from cotempo.federation import (
    NOT_COMPARED,
    Answers,
    Ask,
    Expect,
    Joining,
    Message,
    Method,
    Metrics,
    Question,
    Reducer,
    Rng,
    Roster,
    Spec,
    benefit_error,
    expect_tally,
)
from cotempo.networks.admm.acyclicity import prune
from cotempo.networks.levels import compare_levels, say_sequence_levels
from cotempo.networks.moments import (
    METRIC,
    Gram,
    check_table,
    cut_transitions,
    log_densities,
    unbiased,
    varying,
)
from cotempo.networks.network import Network
from cotempo.networks.rhythms import say_rhythms
from cotempo.robust.per_row import about_own_median
from cotempo.robust.reducer import SCREEN
from cotempo.typing import Bools, Floats, Indices

STAGES = ("trial", "final")
MINIMUM_TRANSITIONS = 2
CYCLE_TOLERANCE = 1e-5  # of h(W), when a stage ends
SPARSITIES = (0.2, 0.28, 0.4, 0.56, 0.7)
TELLING_OFFSETS = 50.0  # of an F; rows that follow each other make it 20 without any offset
TIE = 1e-7  # nats a row: candidates that lead to the same network differ by rounding only
# What says nothing against a client: weights that differ by no more, and so much of sums over few held-out rows.
ALIKE_WEIGHTS, MOST_CHANCE = 0.05, 0.2
Sparsity = Annotated[float, Field(ge=0)] | Literal["auto"]
#: What both methods' preset `paper` sets, as in the papers' text.
PAPER: Mapping[str, Any] = {
    "threshold": 0.3,
    "threshold_across": 0.3,
    "weighting": "clients",
    "centred": False,
    "scaled": False,
    "partial_rounds": False,
    "cycle_growth": 1.6,
}


@dataclass(frozen=True)
class SplitRows:
    """A client's transitions, `seen` of them before the `held_out` ones at the end, and their Gram in each stage."""

    rows: Floats
    seen: int
    held_out: int
    grams: Mapping[str, Gram]
    variables: int

    @property
    def judged(self) -> Floats:
        """The held-out transitions."""
        return self.rows[len(self.rows) - self.held_out :]

    @property
    def sums(self) -> Floats:
        """Column sums in each stage, `(2, side)`."""
        return np.stack([gram.rows * gram.mean for gram in self.grams.values()])

    @property
    def varying(self) -> Bools:
        """Whether each variable varies in the rows before the held-out ones; one that does not is not judged."""
        return varying(self.rows[: self.seen, : self.variables])

    def only(self, kept: Indices) -> SplitRows:
        """Return the same of some variables."""
        if len(kept) == self.variables:
            return self
        columns = np.concatenate([kept + start for start in range(0, self.rows.shape[1], self.variables)])
        grams = {stage: gram.only(columns) for stage, gram in self.grams.items()}
        return SplitRows(self.rows.take(columns, axis=1), self.seen, self.held_out, grams, len(kept))


@dataclass(frozen=True)
class TrialState:
    """State of the server.

    `candidates` are `(candidates, 2 or 3)`, lambda_W, lambda_A and PFDBNL's coupling; `shared` is their Z = [W; A],
    `(candidates, side, variables)`; `variance` the pooled residual variance, `(candidates, variables)`; `penalties` is
    `(candidates, 3)`. `mean` and `scale` are `(2, side)` and `rows` is `(2,)`, one row a stage. `apart` is how far the
    clients' means differ at most, in times of what chance lets independent rows (an F).
    """

    clients: tuple[str, ...]
    variables: tuple[str, ...]
    stage: str
    candidates: Floats
    shared: Floats
    mean: Floats
    scale: Floats
    rows: Floats
    variance: Floats
    penalties: Floats
    refitting: bool = False
    round: float = 0.0
    joining: Joining = field(default_factory=Joining)
    apart: float = 0.0

    def begin(self, stage: str, candidates: Floats) -> TrialState:
        """Return the state at the beginning of a stage: Z and the multiplier at zero, for each candidate."""
        _, side, count = self.shared.shape
        return replace(
            self, stage=stage, candidates=candidates, shared=np.zeros((len(candidates), side, count)), round=0.0,
            penalties=np.tile([0.0, 1.0, 1.0], (len(candidates), 1)), variance=np.ones((len(candidates), count)),
        )  # fmt: skip


@dataclass(frozen=True)
class TrialMemory:
    """A client's memory: the stage it is of, and how well its own and each candidate's network predict, `(.., 3)`."""

    stage: str = ""
    compared: Floats = field(default_factory=lambda: NOT_COMPARED)


class TrialThenFit(Method):
    """The parts that FDBNL and PFDBNL have in common: everything but their rounds."""

    kind: ClassVar[str] = "series"
    for_other_columns: ClassVar[str] = "OneRound takes clients with different variables"
    phases: ClassVar[tuple[str, ...]] = ("centre", "spread", "solve", "compare")
    State: ClassVar[type] = TrialState
    Memory: ClassVar[type[TrialMemory]]
    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    metric: ClassVar[str] = METRIC
    #: Parameters that can be chosen automatically, in the order of the columns of `TrialState.candidates`.
    tuned: ClassVar[tuple[str, ...]] = ("lambda_within", "lambda_across")
    #: Shares of the noise level that are tried for lambda_W and lambda_A, sparsest last.
    sparsities: ClassVar[tuple[tuple[float, float], ...]] = tuple((share, share) for share in SPARSITIES)

    lags: int = Field(default=1, ge=0, le=50, description="How many past time steps act; 0 learns a static network.")
    lambda_within: Sparsity = Field(
        default="auto",
        description="Sparsity of the edges within a time step, per average squared loss. ``auto`` learns with several "
        "values on the first four fifths of every client's rows, in the same rounds, and takes the sparsest that "
        "predicts the last fifths as well as the best one does, within one standard error.",
    )
    lambda_across: Sparsity = Field(default="auto", description="Sparsity of the edges across time steps, likewise.")
    threshold: float = Field(default=0.15, ge=0, description="Weights below it are no edges within a time step.")
    threshold_across: float = Field(default=0.1, ge=0, description="Weights below it are no edges across time steps.")
    weighting: Literal["rows", "clients"] = Field(
        default="rows",
        description="``rows``: a client counts as many times as it has rows. ``clients``: every client counts once, "
        "and FDBNL's sparsity is not scaled by their number, as in the papers' text.",
    )
    centred: bool = Field(default=True, description="Subtract the pooled mean; in PFDBNL each client its own.")
    scaled: bool = Field(
        default=True,
        description="Divide every column by its pooled standard deviation, so that units do not matter. Where all "
        "columns are measured in one unit and their noise is of similar size, ``False`` finds far more directions: the "
        "squared loss then prefers the right ones.",
    )
    rounds: int = Field(default=100, ge=1, description="Limit on the rounds of a stage.")
    partial_rounds: bool = Field(default=True, description="Count a round of half of the clients as half a round.")
    tolerance: float = Field(default=0.01, gt=0, description="A stage ends with residuals below it and h below 1e-5.")
    cycle_growth: float = Field(default=2.0, ge=1, description="Factor of rho_1 each round, phi_1 of the paper.")
    iterations: int = Field(default=10, ge=1, description="Iterations of L-BFGS-B a round; the next continues there.")
    compare: bool = Field(
        default=True,
        description="Hold out the last fifth of every client's rows first, to measure whether joining helped: what is "
        "learned together against what the same method learns from the client's own rows.",
    )

    # Written by the two methods.

    @abstractmethod
    def _solve(
        self, common: Message, prepared: Sequence[SplitRows], memories: Sequence[Any]
    ) -> list[tuple[Message, Any]]:
        """At a client: take a step of ADMM."""

    @abstractmethod
    def _held_out_density(self, common: Message, prepared: SplitRows, memory: Any) -> Floats | None:
        """At a client: log-densities of its held-out rows under each candidate, `(candidates, rows, variables)`."""

    @abstractmethod
    def _step(self, state: TrialState, answers: Answers, share: float) -> tuple[TrialState, Metrics, bool]:
        """At the server: take a step of ADMM that counts as `share` of a round; return whether it was the last."""

    @abstractmethod
    def _solve_fields(self, state: TrialState) -> Mapping[str, Spec]:
        """Return the fields a client sends in a step of ADMM."""

    def _alone(self, candidates: Floats) -> Floats:
        """Return the candidates that differ for a client alone; by default all do."""
        return candidates

    def _centre(self, gram: Gram, pooled: Floats) -> Floats:
        """At a client: return what its rows are centred by; by default the pooled mean."""
        return pooled

    # At a client.

    def prepare(self, table: Table) -> SplitRows:
        """Cut the table into transitions, the last fifth held out; too few are refused."""
        assert isinstance(table, Series)  # `check` saw the schema
        check_table(table)
        (rows, weights, _), lags = cut_transitions(table, self.lags), self.lags
        if len(rows) < MINIMUM_TRANSITIONS:
            must = (
                f"at least {MINIMUM_TRANSITIONS} stretches of {lags + 1} rows in a row without a missing cell are "
                f"needed, there are {len(rows)}; give the client more rows or learn fewer lags"
            )
            raise DataError([Problem(must)])
        # A transition shares cells with the `lags` before it: those are in neither part.
        seen = len(rows) - max(1, len(rows) // 5) - lags
        held_out = max(1, len(rows) // 5) if seen >= 3 else 0
        seen = seen if held_out else len(rows)
        grams = {"trial": Gram.of_rows(rows[:seen], weights[:seen]), "final": Gram.of_rows(rows, weights)}
        return SplitRows(rows, seen, held_out, grams, len(table.features))

    def begin(self, prepared: SplitRows, rng: Rng) -> Any:
        """Return the memory of no stage."""
        return self.Memory()

    def answer(self, question: Question, prepared: SplitRows, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """Send moments, a step of ADMM, or how well networks predict the held-out rows."""
        common, grams = question.common, prepared.grams.values()
        if question.phase == "centre":
            return Message({"rows": grams_rows(prepared), "sums": prepared.sums}), None
        if question.phase == "spread":
            squares = [
                gram.gram.diagonal() + gram.rows * (gram.mean - self._centre(gram, mean)) ** 2
                for gram, mean in zip(grams, common["mean"], strict=True)
            ]
            own = prepared.grams["final"].gram.diagonal()[: prepared.variables]
            return Message({"squares": np.stack(squares), "own": own, "rows": grams_rows(prepared)}), None
        self._refuse_many(common["shared"])
        if question.phase == "solve":
            return self._solve(common, [prepared], [memory])[0]
        return self._compare(common, prepared, memory)

    def _refuse_many(self, shared: Floats) -> None:
        """Refuse more networks than there are candidates: answers about many enough determine the rows they are of."""
        most = len(self._candidates(1.0, 1.0, 1))
        if len(shared) > most:
            raise MessageError(f"at most {most} candidates are answered with these parameters, got {len(shared)}")

    def answer_all(
        self, questions: Sequence[Question], prepared: Sequence[SplitRows], memories: Sequence[Any], rngs: Sequence[Rng]
    ) -> list[tuple[Message, Any]]:
        """Take all clients' steps at once."""
        if questions[0].phase == "solve":
            self._refuse_many(questions[0].common["shared"])
            return self._solve(questions[0].common, prepared, memories)
        return super().answer_all(questions, prepared, memories, rngs)

    def _compare(self, common: Message, prepared: SplitRows, memory: Any) -> tuple[Message, Any]:
        judged, count = prepared.held_out > 0 and bool(prepared.varying.any()), len(common["variance"])
        densities = self._held_out_density(common, prepared, memory) if judged else None
        if densities is None:
            none = {"rows": 0.0, "densities": np.zeros(count), "products": np.zeros((count, count))}
            return Message({**none, "joining": self.tally(NOT_COMPARED, count)}), None
        together = densities[:, :, prepared.varying]
        compared = NOT_COMPARED
        if self.compare:
            alone = self._learn_alone(prepared)
            mine = alone[choose_candidate(**sum_densities(alone))].sum(axis=1)
            each = together.sum(axis=2)
            compared = np.array([[mine.mean(), one.mean(), benefit_error(one - mine)] for one in each])
        message = Message({**sum_densities(together), "joining": self.tally(compared, count)})
        return message, replace(memory, compared=compared)

    def _learn_alone(self, prepared: SplitRows) -> Floats:
        """Go through the trial as the only client; return log-densities of held-out rows under each candidate."""
        own, rng = prepared.only(np.flatnonzero(prepared.varying)), Rng("alone")
        memory = self.begin(own, rng)
        names = tuple(str(index) for index in range(own.variables))
        state = self.open(Roster({"alone": Schema(self.kind, names, "")}), None, rng)
        while state.stage in ("centre", "spread", "trial"):
            asked = self.ask(state, ("alone",), rng)
            assert asked is not None  # it is not finished
            question = Question("", 0, 0, asked.phase, "alone", 0, 0, asked.common, Message())
            sent, changed = self.answer(question, own, memory, rng)
            memory = changed or memory
            total = Message({name: sent.weight * sent[name] for name in sent}, weight=sent.weight)
            before, (state, _) = state, self.absorb(state, Answers(("alone",), total), None, rng)
            if before.stage == "spread":
                state = state.begin("trial", self._alone(state.candidates))
        densities = self._held_out_density(Message(self._common(state)), own, memory)
        assert densities is not None  # it took part in the trial
        return densities

    def _densities(
        self, judged: Floats, found: Iterable[tuple[Floats, Floats]], mean: Floats, scale: Floats,
        rows: float,
    ) -> Floats:  # fmt: skip
        """Return log-densities of rows under each candidate's Z and mean squared residuals, both of scaled data."""
        densities = []
        for weights, squares in found:
            network = self._network(weights, scale=scale)
            variance = scale[: len(squares)] ** 2 * unbiased(squares, rows, network)
            densities.append(log_densities(judged, network, mean, variance))
        return np.array(densities)

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> TrialState:
        """Start with Z at zero."""
        names = roster.schema.columns
        count, side = len(names), (self.lags + 1) * len(names)
        return TrialState(
            roster.names, names, "centre", np.zeros((1, 2)), np.zeros((1, side, count)), np.zeros((2, side)),
            np.ones((2, side)), np.ones(2), np.ones((1, count)), np.zeros((1, 3)),
        )  # fmt: skip

    def misled_by(self, table: Table) -> list[str]:
        """Say which columns follow the clock, and whether sequences have levels of their own."""
        return [*say_rhythms(table), *say_sequence_levels(table, self.lags)]

    @property
    def equal_steps(self) -> Literal["", "advised", "required"]:
        """A lag is a number of rows."""
        return "required" if self.lags else ""

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers: a trial and the final fit, each with a refit, have rounds."""
        return {**dict.fromkeys(self.phases, 1), "solve": 4 * self.rounds}

    def ask(self, state: TrialState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for moments once; then for rounds of ADMM on each stage, with the comparison in between.

        Only the rounds of ADMM are a cohort's: moments and comparisons are one message each, from everyone.
        """
        if state.stage == "finished":
            return None
        if state.stage in STAGES:
            return Ask("solve", cohort, Message(self._common(state)))
        everyone = sorted({*state.clients, *cohort})  # moments and the choice must not rest on one round's cohort
        if state.stage == "centre":
            return Ask("centre", everyone, ends_round=False)
        common = {"mean": state.mean} if state.stage == "spread" else self._common(state)
        return Ask(state.stage, everyone, Message(common), ends_round=False)

    def _common(self, state: TrialState) -> dict[str, Any]:
        index = STAGES.index(state.stage) if state.stage in STAGES else 0
        common = {"shared": state.shared, "mean": state.mean[index], "scale": state.scale[index]}
        if state.stage in STAGES:
            return {**common, "stage": state.stage, "penalties": state.penalties, "candidates": state.candidates}
        return {**common, "variance": state.variance, "rows": state.rows[0]}

    def absorb(self, state: TrialState, answers: Answers, public: Table | None, rng: Rng) -> tuple[TrialState, Metrics]:
        """Pool the moments, take the server's step, or choose the candidate that predicted best."""
        if state.stage == "centre":
            rows, sums = answers.sum["rows"], answers.sum["sums"]
            mean = sums / rows[:, None] if self.centred else np.zeros_like(sums)
            return replace(state, stage="spread", rows=rows, mean=mean), {}
        if state.stage == "spread":
            squares, own, clients = answers.sum["squares"], answers.sum["own"], len(answers.names)
            more, free = np.full(len(own), clients - 1.0), np.full(len(own), max(state.rows[1] - clients, 1.0))
            apart = compare_levels(squares[1, : len(own)], own, more, free)
            return self._pool(replace(state, apart=float(apart.max())), squares, clients), {}
        if state.stage == "compare":
            return self._choose(state, answers)
        share = min(1.0, len(answers.names) / len(state.clients)) if self.partial_rounds else 1.0
        stepped, metrics, last = self._step(state, answers, share)
        stepped = replace(stepped, round=state.round + share)
        if not last and stepped.round < self.rounds:
            return stepped, metrics
        if getattr(self, "refit", False) and not state.refitting:
            return self._begin_refit(stepped), metrics
        following = {"trial": "compare", "final": "finished"}[state.stage]
        return replace(stepped, stage=following, refitting=False, round=0.0), metrics

    def _begin_refit(self, state: TrialState) -> TrialState:
        """Keep the edges found; learn their weights again, without the sparsity that shrank them."""
        shared = np.stack([self._network(weights).stacked.reshape(weights.shape) for weights in state.shared])
        penalties = np.tile([0.0, 0.0, 1.0], (len(shared), 1))
        return replace(state, refitting=True, shared=shared, penalties=penalties, round=0.0)

    def _pool(self, state: TrialState, squares: Floats, clients: int) -> TrialState:
        spread = np.sqrt(squares / state.rows[:, None])
        spread = np.where(spread > 0, spread, 1.0)
        # With unscaled data, divide all columns by one number, so that automatic values do not depend on the unit, yet
        # the columns' variances still carry information about the order of the variables.
        automatic = "auto" in (getattr(self, name) for name in self.tuned) and not self.scaled
        unit = float((spread[1, : len(state.variables)] ** 2).mean()) if automatic else 1.0
        state = replace(state, scale=spread if self.scaled else np.full_like(spread, sqrt(unit)))
        # Sampling noise makes an effect of about this size where there is none.
        noise_level = sqrt(log(max(spread.shape[1], 2)) / state.rows[1])
        candidates = self._candidates(noise_level, unit, clients)
        return state.begin("trial" if len(candidates) > 1 or self.compare else "final", candidates)

    def _candidates(self, noise_level: float, unit: float, clients: float) -> Floats:
        """Return pairs of lambda_W and lambda_A, sparsest last; automatic ones are shares of the noise level."""
        given = (self.lambda_within, self.lambda_across)
        tried = self.sparsities if "auto" in given else self.sparsities[:1]
        pairs = [zip(given, shares, strict=True) for shares in tried]
        return np.array(
            [[noise_level * share if one == "auto" else one / unit for one, share in pair] for pair in pairs]
        )

    def _choose(self, state: TrialState, answers: Answers) -> tuple[TrialState, Metrics]:
        judged = {name: answers.sum[name] for name in ("rows", "densities", "products")}
        best = choose_candidate(**judged) if judged["rows"] > 0 else len(state.candidates) // 2
        unit = 1.0 if self.scaled else state.scale[1, 0] ** 2
        metrics = dict(zip(self.tuned, (unit * state.candidates[best]).tolist(), strict=True))
        if self.compare:
            state = replace(state, joining=Joining(answers.sum["joining"][best], (best,)))
            metrics = {"gain": state.joining.gain, **metrics}
        # From zero again: started from the trial's graph, the search would keep that graph's mistakes.
        return state.begin("final", state.candidates[best : best + 1]), metrics

    def expects(self, state: TrialState, phase: str) -> Expect:
        """Expect sums only."""
        candidates, side, _ = state.shared.shape
        if phase == "centre":
            about = "how many complete rows you have, for the trial and in all"
            rows = Spec((2,), low=0, high=1e12, description=about)
            sums = Spec((2, side), description="the sum of each column over those rows")
            return Expect({"rows": rows, "sums": sums}, sums=True, rows=count_rows)
        if phase == "spread":
            about = "the sum of squares of each column about the common mean"
            rows = Spec((2,), low=0, high=1e12, description="how many rows these are sums of")
            squares = Spec((2, side), low=0, description=about)
            own = Spec((len(state.variables),), low=0, description="the same of each variable about your own mean")
            fields = {"squares": squares, "own": own, "rows": rows}
            return Expect(fields, sums=True, rows=count_rows, alike=lambda one: {"own": about_own_median(one["own"])})
        if phase == "solve":
            solving = self._solve_fields(state)
            about_fit: dict[str, Any] = {"rows": lambda message: 1.0, "alike": _fit_of, "scatter": _scatter_of_fit}
            return Expect(solving, sums=True, weight=(1, 1e12), **about_fit)
        fields = {
            "rows": Spec((), "float", low=0, high=1e12, description="how many rows you held out"),
            "densities": Spec((candidates,), description="how well the networks learned together predict them, summed"),
            "products": Spec((candidates, candidates), description="sums of products of these numbers over rows"),
            "joining": expect_tally(candidates),
        }
        return Expect(fields, sums=True, rows=count_rows, scatter=_scatter_of_densities)

    def notes(self, state: TrialState) -> list[str]:
        """Return whether clients' levels differ, and what the directions found are worth."""
        levels = [
            "clients' means differ far more than chance lets them: where that is a matter of baselines or equipment, "
            "false edges come of it; subtract each client's mean first (each sequence's, "
            "where replicates or batches differ), or take OneRound, which finds out"
        ]
        levels = levels if self.centred and state.apart > TELLING_OFFSETS else []
        if not self.scaled or not self._network(state.shared[0]).within.any():
            return levels
        return [
            *levels,
            f"directions within a time step (lag 0) may be wrong, however many rows there are: {type(self).__name__} "
            "cannot tell them in standardised columns; OneRound says which are known, and how probable every edge is",
        ]

    def _in_units(
        self, state: TrialState, weights: Floats, mean: Floats, squares: Floats | None = None, rows: float = 1.0
    ) -> Network:
        """Return Z of the final stage as a network of the data; its noise from mean squares of scaled residuals."""
        count, scale = len(state.variables), state.scale[1]
        network = self._network(weights, state.variables, scale)
        noise = None if squares is None else scale[:count] ** 2 * unbiased(squares, rows, network)
        return replace(network, mean=mean[:count], noise=noise, scale=scale[:count])

    def _network(self, weights: Floats, variables: Sequence[str] = (), scale: Floats | None = None) -> Network:
        """Return Z as a network in the data's units: drop small weights, then whatever still closes a cycle."""
        count = weights.shape[1]
        within = prune(weights[:count], self.threshold)
        across = np.where(np.abs(weights[count:]) >= self.threshold_across, weights[count:], 0.0)
        if scale is not None:
            units = scale[None, :count] / scale[:, None]
            within, across = within * units[:count], across * units[count:]
        return Network(within, across.reshape(self.lags, count, count), tuple(variables))


def grams_rows(prepared: SplitRows) -> Floats:
    """Return how many rows a client has for the trial and in all."""
    return np.array([gram.rows for gram in prepared.grams.values()])


def count_rows(message: Message) -> float:
    """Return how many rows an answer sums over."""
    return float(np.max(message["rows"]))


def sum_densities(densities: Floats) -> dict[str, Any]:
    """Return how many rows there are, and sums over them of the candidates' log-densities and of their products."""
    density = densities.sum(axis=2)
    return {"rows": float(density.shape[1]), "densities": density.sum(axis=1), "products": density @ density.T}


def choose_candidate(rows: float, densities: Floats, products: Floats) -> int:
    """Return the last candidate (the sparsest) within one standard error of the best.

    It is the standard error of the difference to the best over held-out rows: rows that are hard for all candidates
    do not show which is better. The arguments are what `sum_densities` returns, summed over clients.
    """
    mean, squares = densities / rows, products / rows
    best = int(np.argmax(mean))
    squares = squares.diagonal() - 2 * squares[best] + squares[best, best]
    spread = np.sqrt(np.maximum(squares - (mean - mean[best]) ** 2, 0.0) / rows)
    return int(np.flatnonzero(mean >= mean[best] - spread - TIE)[-1])


def _fit_of(message: Message) -> dict[str, Floats]:
    """Return a client's network, and which variables the common one explains better and worse in its rows."""
    # Candidates differ little in this: their mean.
    unexplained = {"variance": about_own_median(message["variance"].mean(axis=0))} if "variance" in message else {}
    return {"target": message["target"], **unexplained}


def _scatter_of_fit(message: Message) -> dict[str, Floats]:
    """Return how far weights of honest clients may be apart, however well all others agree."""
    return {"alike target": np.full(message["target"].shape, ALIKE_WEIGHTS)}


def _scatter_of_densities(message: Message) -> dict[str, Floats]:
    """Return how much sums of densities vary by chance: a few held-out rows may be hard for all networks."""
    share = min(1.0 / sqrt(max(message["rows"], 1.0)), MOST_CHANCE)
    return {name: share * np.abs(message[name]) for name in ("densities", "products")}
