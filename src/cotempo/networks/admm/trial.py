"""The stages that a fit of FDBNL or PFDBNL goes through; the algorithms stand in their own files.

    centre    clients send counts and sums; only totals are used
    spread    clients send sums of squares about the common centre; only totals are used
    trial     networks are learned on the first four fifths of every client's rows, one for each candidate sparsity
    compare   each client says how well they predict its last fifth, beside what it learns in a trial by itself
    final     one network (or one a client) is learned on all rows, with the sparsity that predicted best

So nobody needs the truth to choose the sparsity, and every client knows whether joining helped it. All candidates are
learned in the same rounds: arrays have a leading axis of candidates, of length one where the sparsity is given.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Schema, Series, Table
from cotempo.federation import Answers, Ask, Benefit, Expect, Message, Method, Metrics, Question, Rng, Roster, Spec
from cotempo.networks.admm.acyclicity import prune
from cotempo.networks.admm.trial_client import STAGES, Prepared, prepare, send_squares, send_sums
from cotempo.networks.network import Network

FloatArray = NDArray[np.float64]
SPARSITIES = (0.2, 0.28, 0.4, 0.56, 0.7)
TIE = 1e-7  # nats a row: candidates that lead to the same network differ by rounding only
Sparsity = Annotated[float, Field(ge=0)] | Literal["auto"]


@dataclass(frozen=True)
class StagedState:
    """What the server keeps.

    `candidates` is `(candidates, 2 or 3)`, lambda_W, lambda_A and PFDBNL's coupling of each; `shared` is their
    Z = [W; A], `(candidates, side, variables)`; `variance` the pooled residual variance of each variable, `(candidates,
    variables)`; `penalties` is `(candidates, 3)`. `mean` and `scale` are `(2, side)` and `rows` is `(2,)`, one row a
    stage.
    """

    clients: tuple[str, ...]
    variables: tuple[str, ...]
    stage: str
    candidates: FloatArray
    shared: FloatArray
    mean: FloatArray
    scale: FloatArray
    rows: FloatArray
    variance: FloatArray
    penalties: FloatArray
    refitting: bool = False
    round: float = 0.0
    comparisons: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class StagedMethod(Method):
    """What FDBNL and PFDBNL have in common: everything but their rounds."""

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("centre", "spread", "solve", "compare")
    State: ClassVar[type] = StagedState

    lags: int = Field(1, ge=0, le=50)
    lambda_within: Sparsity = "auto"
    lambda_across: Sparsity = "auto"
    threshold: float = Field(0.15, ge=0)
    threshold_across: float = Field(0.1, ge=0)
    weighting: Literal["rows", "clients"] = "rows"
    centred: bool = True
    scaled: bool = True
    rounds: int = Field(100, ge=1)
    tolerance: float = Field(0.01, gt=0)
    cycle_tolerance: float = Field(1e-5, gt=0)
    compare: bool = True

    # What the two write.

    @abstractmethod
    def _solve(
        self, common: Message, prepared: Sequence[Prepared], memories: Sequence[Any]
    ) -> list[tuple[Message, Any]]:
        """At a client: take a step of ADMM."""

    @abstractmethod
    def _judge(self, common: Message, prepared: Prepared, memory: Any) -> FloatArray | None:
        """At a client: log-densities of its held-out rows under each candidate, `(candidates, rows, variables)`."""

    @abstractmethod
    def _step(self, state: StagedState, answers: Answers, share: float) -> tuple[StagedState, Metrics, bool]:
        """At the server: take a step of ADMM that counts as so much of a round, and say whether it was the last."""

    @abstractmethod
    def _solve_fields(self, state: StagedState) -> Mapping[str, Spec]:
        """What a client sends in a step of ADMM."""

    def _alone(self, candidates: FloatArray) -> FloatArray:
        """The candidates that differ for a client by itself; by default all do."""
        return candidates

    def _centre(self, mean: FloatArray, prepared: Prepared) -> FloatArray:
        """At a client: what its rows are centred by, for both stages; by default the pooled mean."""
        return mean

    @property
    def _refits(self) -> bool:
        """Whether the weights of the edges found are learned once more without sparsity, by further steps."""
        return False

    # At a client.

    def prepare(self, table: Table) -> Prepared:
        """Cut the table into transitions and sum them up."""
        assert isinstance(table, Series)  # `check` saw the schema
        return prepare(table, self.lags)

    def answer(self, question: Question, prepared: Prepared, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """Send moments, a step of ADMM, or how well networks predict the held-out rows."""
        common = question.common
        if question.phase == "centre":
            return send_sums(prepared), None
        if question.phase == "spread":
            return send_squares(prepared, self._centre(common["mean"], prepared)), None
        if question.phase == "solve":
            return self._solve(common, [prepared], [memory])[0]
        return self._compare(common, prepared, memory), None

    def answer_all(
        self, questions: Sequence[Question], prepared: Sequence[Prepared], memories: Sequence[Any], rngs: Sequence[Rng]
    ) -> list[tuple[Message, Any]]:
        """Take all clients' steps at once."""
        if questions[0].phase == "solve":
            return self._solve(questions[0].common, prepared, memories)
        return super().answer_all(questions, prepared, memories, rngs)

    def _compare(self, common: Message, prepared: Prepared, memory: Any) -> Message:
        judged = prepared.held_out > 0 and bool(prepared.varying.any())
        densities = self._judge(common, prepared, memory) if judged else None
        if densities is None:
            empty = np.zeros(len(common["variance"]))
            return Message({"alone": 0.0, "together": empty, "products": np.outer(empty, empty), "rows": 0})
        together = judgement(densities[:, :, prepared.varying])
        alone = self._learn_alone(prepared) if self.compare else together
        best = choose_candidate([alone])
        return Message({**together, "alone": float(alone["together"][best])})

    def _learn_alone(self, prepared: Prepared) -> dict[str, Any]:
        """Go through the trial as the only client; return how well each candidate predicts the held-out rows."""
        own, rng, memory = prepared.only(np.flatnonzero(prepared.varying)), Rng("alone"), None
        names = tuple(str(index) for index in range(own.variables))
        state = self.open(Roster({"alone": Schema(self.kind, names, "")}), None, rng)
        while state.stage in ("centre", "spread", "trial"):
            asked = self.ask(state, ("alone",), rng)
            assert asked is not None  # it is not finished
            question = Question("", 0, 0, asked.phase, "alone", 0, 0, asked.common, Message())
            said, memory = self.answer(question, own, memory, rng)
            total = Message({name: said.weight * said[name] for name in said}, weight=said.weight)
            before, (state, _) = state, self.absorb(state, Answers(("alone",), total), None, rng)
            if before.stage == "spread":
                state = _begin(state, "trial", self._alone(state.candidates))
        densities = self._judge(Message(self._common(state)), own, memory)
        assert densities is not None  # it took part in the trial
        return judgement(densities)

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> StagedState:
        """Z starts at zero, one for each candidate."""
        names = roster.schema.columns
        count, side = len(names), (self.lags + 1) * len(names)
        return StagedState(
            roster.names, names, "centre", np.zeros((1, 2)), np.zeros((1, side, count)), np.zeros((2, side)),
            np.ones((2, side)), np.ones(2), np.ones((1, count)), np.zeros((1, 3)),
        )  # fmt: skip

    def ask(self, state: StagedState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Moments once; then rounds of ADMM on each stage, with the comparison in between.

        Only the rounds of ADMM are a cohort's: moments and comparisons are one message each, from everyone.
        """
        if state.stage == "finished":
            return None
        if state.stage in STAGES:
            return Ask("solve", cohort, Message(self._common(state)))
        everyone = sorted({*state.clients, *cohort})  # moments and the choice must not rest on one round's cohort
        common: dict[str, Any] = {
            "centre": {},
            "spread": {"mean": state.mean},
            "compare": self._common(state),
        }[state.stage]
        return Ask(state.stage, everyone, Message(common), ends_round=False)

    def _common(self, state: StagedState) -> dict[str, Any]:
        index = STAGES.index(state.stage) if state.stage in STAGES else 0
        common = {"shared": state.shared, "mean": state.mean[index], "scale": state.scale[index]}
        if state.stage in STAGES:
            return {**common, "stage": state.stage, "penalties": state.penalties, "candidates": state.candidates}
        return {**common, "variance": state.variance, "rows": state.rows[0]}

    def absorb(
        self, state: StagedState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[StagedState, Metrics]:
        """Pool the moments, take the server's step, or choose the candidate that predicted best."""
        if state.stage == "centre":
            rows, sums = answers.sum["rows"], answers.sum["sums"]
            mean = sums / rows[:, None] if self.centred else np.zeros_like(sums)
            return replace(state, stage="spread", rows=rows, mean=mean), {}
        if state.stage == "spread":
            return self._pool(state, answers.sum["squares"], len(answers.names)), {}
        if state.stage == "compare":
            return self._choose(state, answers)
        share = self._share(state, answers)
        stepped, metrics, last = self._step(state, answers, share)
        stepped = replace(stepped, round=state.round + share)
        if not last and stepped.round < self.rounds:
            return stepped, metrics
        if self._refits and not state.refitting:
            return self._begin_refit(stepped), metrics
        following = {"trial": "compare", "final": "finished"}[state.stage]
        return replace(stepped, stage=following, refitting=False, round=0.0), metrics

    def _share(self, state: StagedState, answers: Answers) -> float:
        """What a round counts: the share of clients that took part, so that each has seen as many when time is up."""
        return 1.0 if self.preset == "paper" else min(1.0, len(answers.names) / len(state.clients))

    def _begin_refit(self, state: StagedState) -> StagedState:
        """Keep the edges found; their weights are learned again, without the sparsity that shrank them."""
        count = len(state.variables)
        kept = [self._network(weights) for weights in state.shared]
        shared = np.stack([np.vstack([one.within, one.across.reshape(-1, count)]) for one in kept])
        penalties = np.tile([0.0, 0.0, 1.0], (len(shared), 1))
        return replace(state, refitting=True, shared=shared, penalties=penalties, round=0.0)

    def _pool(self, state: StagedState, squares: FloatArray, clients: int) -> StagedState:
        spread = np.sqrt(squares / state.rows[:, None])
        spread = np.where(spread > 0, spread, 1.0)
        unit = self._unit(spread[1, : len(state.variables)])
        scale = spread if self.scaled else np.full_like(spread, sqrt(unit))
        chance = sqrt(log(max(spread.shape[1], 2)) / state.rows[1])
        candidates = self._candidates(chance, unit, clients)
        state = replace(state, scale=scale)
        return _begin(state, "trial" if len(candidates) > 1 or self.compare else "final", candidates)

    def _unit(self, spread: FloatArray) -> float:
        """The variance that counts as one; what is chosen automatically must not depend on the data's units.

        All columns are divided by the same number, because their variances tell about the order of the variables.
        """
        return float((spread**2).mean()) if "auto" in self._given() and not self.scaled else 1.0

    def _given(self) -> tuple[float | str, ...]:
        return self.lambda_within, self.lambda_across

    def _candidates(self, chance: float, unit: float, clients: int) -> FloatArray:
        """Pairs of lambda_W and lambda_A, sparsest last; the automatic ones are multiples of what chance brings.

        Chance makes an effect of about ``sqrt(log(side) / rows)`` where there is none.
        """
        given = (self.lambda_within, self.lambda_across)
        shares = SPARSITIES if "auto" in given else SPARSITIES[:1]
        return np.array([[chance * share if one == "auto" else one / unit for one in given] for share in shares])

    def _choose(self, state: StagedState, answers: Answers) -> tuple[StagedState, Metrics]:
        said = {name: answers[name] for name in answers.names if answers[name]["rows"] > 0}
        best = choose_candidate(list(said.values())) if said else len(state.candidates) // 2
        comparisons = {name: (message["alone"], float(message["together"][best])) for name, message in said.items()}
        gain = float(np.mean([together - alone for alone, together in comparisons.values()] or [0.0]))
        names = ("lambda_within", "lambda_across", "coupling")
        unit = 1.0 if self.scaled else state.scale[1, 0] ** 2
        metrics = dict(zip(names, (unit * state.candidates[best]).tolist(), strict=False))
        if self.compare:
            state, metrics = replace(state, comparisons=comparisons), {"gain": gain, **metrics}
        # From zero again: started from the trial's graph, the search would keep that graph's mistakes.
        return _begin(state, "final", state.candidates[best : best + 1]), metrics

    def expects(self, state: StagedState, phase: str) -> Expect:
        """Only sums are needed, except for what a client says of its own gain."""
        side = state.shared.shape[1]
        if phase == "centre":
            fields = {
                "rows": Spec(
                    (2,), low=1, high=1e12, description="how many complete rows you have, for the trial and in all"
                ),
                "sums": Spec((2, side), description="the sum of each column over those rows"),
            }
            return Expect(fields, sums=True)
        if phase == "spread":
            about = "the sum of squares of each column about the common mean"
            return Expect({"squares": Spec((2, side), low=0, description=about)}, sums=True)
        if phase == "solve":
            return Expect(self._solve_fields(state), sums=True, weight=(1, 1e12))
        fields = {
            "alone": Spec((), "float", description="how well the network you learn alone predicts your held-out rows"),
            "together": Spec((len(state.shared),), description="how well the networks learned together predict them"),
            "products": Spec((len(state.shared),) * 2, description="mean products of these numbers over rows"),
            "rows": Spec((), "int", low=0, high=1e12, description="how many rows you held out"),
        }
        return Expect(fields)

    def benefit(self, state: StagedState) -> Mapping[str, Benefit]:
        """Log-density of the held-out rows, alone and together."""
        metric = "log-density of held-out rows, nats per row"
        return {name: Benefit(metric, *said, higher_is_better=True) for name, said in state.comparisons.items()}

    def _network(self, weights: FloatArray, variables: Sequence[str] = (), scale: FloatArray | None = None) -> Network:
        """Z as a network: small weights dropped, then whatever still closes a cycle; in the data's units."""
        count = weights.shape[1]
        within = prune(weights[:count], self.threshold)
        across = np.where(np.abs(weights[count:]) >= self.threshold_across, weights[count:], 0.0)
        if scale is not None:
            units = scale[None, :count] / scale[:, None]
            within, across = within * units[:count], across * units[count:]
        return Network(within, across.reshape(self.lags, count, count), tuple(variables))


def judgement(densities: FloatArray) -> dict[str, Any]:
    """What `choose_candidate` needs of a client, from `(candidates, rows, variables)` log-densities."""
    density = densities.sum(axis=2)
    rows = density.shape[1]
    return {"together": density.mean(axis=1), "products": density @ density.T / rows, "rows": rows}


def choose_candidate(said: Sequence[Mapping[str, Any]]) -> int:
    """Return the last candidate (the sparsest) that is within one standard error of the best.

    What matters is the standard error of the difference to the best, over held-out rows: rows that are hard for all
    candidates tell nothing about which is better.

    Parameters
    ----------
    said
        Of each client, `rows`, `together`, the mean log-density of its held-out rows under each candidate, and
        `products`, the mean of ``density_i density_j``.
    """
    rows = sum(one["rows"] for one in said)
    mean = sum(one["rows"] * one["together"] for one in said) / rows
    products = sum(one["rows"] * one["products"] for one in said) / rows
    best = int(np.argmax(mean))
    squares = products.diagonal() - 2 * products[best] + products[best, best]
    spread = np.sqrt(np.maximum(squares - (mean - mean[best]) ** 2, 0.0) / rows)
    return int(np.flatnonzero(mean >= mean[best] - spread - TIE)[-1])


def _begin(state: StagedState, stage: str, candidates: FloatArray) -> StagedState:
    """Enter a stage with Z and the multiplier at zero, for each candidate."""
    _, side, count = state.shared.shape
    shared = np.zeros((len(candidates), side, count))
    penalties = np.tile([0.0, 1.0, 1.0], (len(candidates), 1))
    variance = np.ones((len(candidates), count))
    return replace(
        state, stage=stage, candidates=candidates, shared=shared, penalties=penalties, variance=variance, round=0.0
    )
