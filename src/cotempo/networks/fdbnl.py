"""FDBNL, also published as fPTN: one dynamic Bayesian network for all clients, by ADMM.

The steps' equations stand in `cotempo.networks.admm`; this file is the algorithm, in the paper's order.

A fit goes through stages. First the pooled mean is agreed on. Then the network is learned on the first four fifths of
every client's rows, and each client says how well it predicts the last fifth, beside a model of its own: so every
client knows whether joining helped it. Then the network is learned on all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Series, Table
from cotempo.errors import DataError, Problem
from cotempo.federation.exchange import Answers, Ask, Expect, Question, Spec
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Benefit, Method, Metrics, Roster
from cotempo.federation.registry import register
from cotempo.federation.rng import Rng
from cotempo.networks.acyclicity import prune
from cotempo.networks.admm import Penalties, Spectrum, client_step, decompose, dual_step, server_step
from cotempo.networks.compare import compare_alone
from cotempo.networks.fitted import FittedNetwork
from cotempo.networks.generate import make_networks
from cotempo.networks.moments import Moments, centre, moments, transitions
from cotempo.networks.network import Network
from cotempo.networks.stopping import residuals

FloatArray = NDArray[np.float64]
STAGES = ("trial", "final")


@dataclass(frozen=True)
class FDBNLState:
    """What the server keeps.

    `mean` and `scale` are `(2, side)`, one row a stage; `shared` is Z = [W; A] of shape `(side, variables)`;
    `variance` is the pooled residual variance of each variable.
    """

    variables: tuple[str, ...]
    stage: str
    shared: FloatArray
    mean: FloatArray
    scale: FloatArray
    variance: FloatArray
    penalties: tuple[float, float, float] = (0.0, 1.0, 1.0)
    round: int = 0
    comparisons: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class FDBNLMemory:
    """What a client keeps between rounds: its Gram's spectrum, its multiplier and its own copy of Z."""

    stage: str
    values: FloatArray
    vectors: FloatArray
    dual: FloatArray
    local: FloatArray
    penalty: float


@dataclass(frozen=True)
class Prepared:
    """A client's transitions, and their moments for each stage."""

    rows: FloatArray
    held_out: int
    moments: Mapping[str, Moments]


@register("fPTN")
class FDBNL(Method):
    """Learn which variable drives which, now and with lags: one network for all clients.

    Parameters
    ----------
    lags
        How many past time steps can act; 0 learns a static network.
    lambda_within, lambda_across
        Sparsity of the edges within a time step and across time steps, per average squared loss.
    threshold
        Weights below it are no edges.
    weighting
        `"rows"`: a client counts as many times as it has rows. `"clients"`: every client counts once and the
        sparsity is not scaled by their number, as the papers' text has it.
    centred, scaled
        Subtract the pooled mean; divide by the pooled standard deviation.
    rounds
        At most this many rounds a stage.
    tolerance, cycle_tolerance
        A stage ends when the residuals and h(W) are below them.
    compare
        Hold out the last fifth of every client's rows first, to tell whether joining helped.

    References
    ----------
    Federated Learning of Dynamic Bayesian Network via Continuous Optimization from Time Series Data: Algorithm 1.
    Federated Probability Temporal Networks: the same method under the name fPTN.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=4, samples=400, seed=0)
    >>> fitted = ct.FDBNL(lags=1).fit(clients)
    >>> fitted.network.within.shape, fitted.network.across.shape
    ((5, 5), (1, 5, 5))
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("moments", "solve", "compare")
    State: ClassVar[type] = FDBNLState
    Memory: ClassVar[type | None] = FDBNLMemory
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {
            "lambda_within": 0.5,
            "lambda_across": 0.5,
            "threshold": 0.3,
            "weighting": "clients",
            "centred": False,
            "cycle_growth": 1.6,
            "consensus_growth": 1.1,
        },
    }

    lags: int = Field(1, ge=0, le=50)
    lambda_within: float = Field(0.05, ge=0)
    lambda_across: float = Field(0.05, ge=0)
    threshold: float = Field(0.15, ge=0)
    weighting: Literal["rows", "clients"] = "rows"
    centred: bool = True
    scaled: bool = False
    rounds: int = Field(100, ge=1)
    cycle_growth: float = Field(2.0, ge=1)
    consensus_growth: float = Field(1.05, ge=1)
    iterations: int = Field(10, ge=1)
    tolerance: float = Field(0.01, gt=0)
    cycle_tolerance: float = Field(1e-5, gt=0)
    compare: bool = True

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """A small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=160, seed=0)
        return cls(rounds=6), clients, None

    # At a client.

    def prepare(self, table: Table) -> Prepared:
        """Cut the table into transitions and sum them up, for both stages."""
        assert isinstance(table, Series)  # `check` saw the schema
        check_table(table, self.lags)
        rows = np.vstack([transitions(values, self.lags) for _, values in table.pieces()])
        if not len(rows):
            raise DataError([Problem(f"at least {self.lags + 1} rows without a gap or missing cell are needed")])
        # A transition shares cells with the `lags` before it: those are in neither part.
        held_out = len(rows) // 5
        trial = rows[: max(1, len(rows) - held_out - self.lags)]
        return Prepared(rows, held_out, {"trial": summed(trial), "final": summed(rows)})

    def answer(
        self, question: Question, prepared: Prepared, memory: FDBNLMemory | None, rng: Rng
    ) -> tuple[Message, FDBNLMemory | None]:
        """Send moments, a step of ADMM, or how well the shared network predicts the held-out rows."""
        if question.phase == "moments":
            return self._send_moments(prepared), None
        if question.phase == "solve":
            return self._solve(question.common, [prepared], [memory])[0]
        return self._compare(question.common, prepared), None

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[Prepared],
        memories: Sequence[FDBNLMemory | None],
        rngs: Sequence[Rng],
    ) -> list[tuple[Message, FDBNLMemory | None]]:
        """Take all clients' steps at once."""
        if questions[0].phase == "solve":
            return [*self._solve(questions[0].common, prepared, memories)]
        return super().answer_all(questions, prepared, memories, rngs)

    def _send_moments(self, prepared: Prepared) -> Message:
        own = [prepared.moments[stage] for stage in STAGES]
        return Message(
            {
                "rows": np.array([float(part.rows) for part in own]),
                "sums": np.stack([part.sums for part in own]),
                "squares": np.stack([part.gram.diagonal() for part in own]),
            }
        )

    def _solve(
        self, common: Message, prepared: Sequence[Prepared], memories: Sequence[FDBNLMemory | None]
    ) -> list[tuple[Message, FDBNLMemory]]:
        """Update the multipliers for the new Z, then solve every client's own problem, equations (4) and (2)."""
        stage, shared, penalty = common["stage"], common["shared"], common["penalty"]
        own = [
            memory if memory is not None and memory.stage == stage else self._enter(common, data)
            for data, memory in zip(prepared, memories, strict=True)
        ]
        values, vectors, dual, local = (
            np.stack([getattr(memory, name) for memory in own]) for name in ("values", "vectors", "dual", "local")
        )
        spectrum = Spectrum(values, vectors, shared.shape[1])
        dual = dual_step(dual, local, shared, np.array([memory.penalty for memory in own])[:, None, None])
        local = client_step(spectrum, dual, shared, penalty)
        target = local + dual / penalty
        gap = ((local - shared) ** 2).sum(axis=(1, 2))
        variance = residual_variance(spectrum, shared)
        return [
            (
                Message(
                    {"target": target[k], "gap": float(gap[k]), "variance": variance[k]},
                    weight=prepared[k].moments[stage].rows if self.weighting == "rows" else 1.0,
                ),
                FDBNLMemory(stage, memory.values, memory.vectors, dual[k], local[k], penalty),
            )
            for k, memory in enumerate(own)
        ]

    def _enter(self, common: Message, prepared: Prepared) -> FDBNLMemory:
        """The memory a client enters a stage with: its spectrum, and a multiplier of zero."""
        shared = common["shared"]
        gram = centre(prepared.moments[common["stage"]], common["mean"], common["scale"])
        spectrum = decompose(gram, shared.shape[1])
        return FDBNLMemory(common["stage"], spectrum.values, spectrum.vectors, np.zeros_like(shared), shared, 0.0)

    def _compare(self, common: Message, prepared: Prepared) -> Message:
        network = self._network(common["shared"])
        alone, together = compare_alone(
            prepared.rows, prepared.held_out, self.lags, network, common["mean"], common["scale"], common["variance"]
        )
        return Message({"alone": alone, "together": together, "rows": prepared.held_out})

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> FDBNLState:
        """Z starts at zero."""
        names = roster.schema.columns
        side = (self.lags + 1) * len(names)
        return FDBNLState(
            names, "moments", np.zeros((side, len(names))), np.zeros((2, side)), np.ones((2, side)), np.ones(len(names))
        )

    def ask(self, state: FDBNLState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Moments once; then rounds of ADMM on each stage, with the comparison in between."""
        if state.stage == "finished":
            return None
        if state.stage == "moments":
            return Ask("moments", cohort, ends_round=False)
        common = {"shared": state.shared, "mean": state.mean[0], "scale": state.scale[0]}
        if state.stage == "compare":
            return Ask("compare", cohort, Message({**common, "variance": state.variance}), ends_round=False)
        index = STAGES.index(state.stage)
        common = {"shared": state.shared, "mean": state.mean[index], "scale": state.scale[index]}
        return Ask("solve", cohort, Message({**common, "stage": state.stage, "penalty": state.penalties[2]}))

    def absorb(self, state: FDBNLState, answers: Answers, public: Table | None, rng: Rng) -> tuple[FDBNLState, Metrics]:
        """Pool the moments, take the server's step, or note what the clients said."""
        if state.stage == "moments":
            return self._pool(state, answers.sum), {}
        if state.stage == "compare":
            said = {name: answers[name] for name in answers.names}
            comparisons = {name: (m["alone"], m["together"]) for name, m in said.items() if m["rows"] > 0}
            gain = float(np.mean([together - alone for alone, together in comparisons.values()] or [0.0]))
            # From zero again: started from the trial's graph, the search would keep that graph's mistakes.
            fresh = np.zeros_like(state.shared)
            return replace(state, stage="final", shared=fresh, comparisons=comparisons), {"gain": gain}
        return self._step(state, answers)

    def _pool(self, state: FDBNLState, total: Message) -> FDBNLState:
        rows = total["rows"][:, None]
        mean = total["sums"] / rows if self.centred else np.zeros_like(total["sums"])
        spread = np.sqrt(np.maximum(total["squares"] / rows - mean**2, 0.0))
        scale = np.where(spread > 0, spread, 1.0) if self.scaled else np.ones_like(spread)
        return replace(state, stage="trial" if self.compare else "final", mean=mean, scale=scale)

    def _step(self, state: FDBNLState, answers: Answers) -> tuple[FDBNLState, Metrics]:
        """The server's problem (3), then the penalties of equation (4)."""
        penalties = Penalties(*state.penalties)
        weight = 1.0 if self.weighting == "rows" else answers.sum.weight
        shared = server_step(
            answers.mean("target"), state.shared, penalties, weight, (self.lambda_within, self.lambda_across),
            self.iterations,
        )  # fmt: skip
        found = residuals(shared, state.shared, answers.mean("gap"))
        variance = answers.mean("variance")
        metrics = {
            "loss": float(variance.sum()) / 2, "cycles": found.cycles, "primal": found.primal, "change": found.change
        }  # fmt: skip
        stepped = replace(
            state,
            shared=shared,
            variance=variance,
            penalties=penalties.updated(found.cycles, self.cycle_growth, self.consensus_growth),
            round=state.round + 1,
        )
        if found.small(self.cycle_tolerance, self.tolerance) or stepped.round >= self.rounds:
            following = {"trial": "compare", "final": "finished"}[state.stage]
            stepped = replace(stepped, stage=following, penalties=(0.0, 1.0, 1.0), round=0)
        return stepped, metrics

    def expects(self, state: FDBNLState, phase: str) -> Expect:
        """Only sums are needed, except for what a client says of its own gain."""
        side, variables = state.shared.shape
        if phase == "moments":
            fields = {
                "rows": Spec((2,), low=1, high=1e12, about="how many complete rows you have, for the trial and in all"),
                "sums": Spec((2, side), about="the sum of each column over those rows"),
                "squares": Spec((2, side), low=0, about="the sum of squares of each column over those rows"),
            }
            return Expect(fields, sums=True)
        if phase == "solve":
            fields = {
                "target": Spec((side, variables), about="your own fit of the network plus its scaled multiplier"),
                "gap": Spec((), "float", low=0, about="how far your own fit is from the shared network"),
                "variance": Spec((variables,), low=0, about="what the shared network leaves unexplained in your rows"),
            }
            return Expect(fields, sums=True, weight=(1, 1e12))
        fields = {
            "alone": Spec((), "float", about="how well a model of your own predicts your held-out rows"),
            "together": Spec((), "float", about="how well the shared network predicts them"),
            "rows": Spec((), "int", low=0, high=1e12, about="how many rows you held out"),
        }
        return Expect(fields)

    def benefit(self, state: FDBNLState) -> Mapping[str, Benefit]:
        """Log-density of the held-out rows, alone and together."""
        metric = "log-density of held-out rows, nats per row"
        return {name: Benefit(metric, *said, higher_is_better=True) for name, said in state.comparisons.items()}

    def _network(self, shared: FloatArray, variables: Sequence[str] | None = None) -> Network:
        """Z as a network: small weights dropped, then whatever still closes a cycle."""
        count = shared.shape[1]
        across = np.where(np.abs(shared[count:]) >= self.threshold, shared[count:], 0.0)
        names = tuple(variables) if variables else tuple(f"x{i}" for i in range(count))
        return Network(prune(shared[:count], self.threshold), across.reshape(self.lags, count, count), names)

    def result(self, outcome: Outcome) -> FittedNetwork:
        """The network in the units of the data."""
        state: FDBNLState = outcome.state
        scale = state.scale[1]
        network = self._network(state.shared, state.variables)
        count = len(state.variables)
        units = scale[None, :count] / scale[:, None]
        within = network.within * units[:count]
        across = network.across * units[count:].reshape(self.lags, count, count)
        return FittedNetwork(outcome, Network(within, across, state.variables))


def check_table(table: Series, lags: int) -> None:
    """Refuse what no network can be learned from."""
    problems = []
    for index, name in enumerate(table.features):
        seen = table.values[~np.isnan(table.values[:, index]), index]
        if not len(seen):
            problems.append(Problem("at least one value must not be missing, all are", column=name))
    if problems:
        raise DataError(problems)


def summed(rows: FloatArray) -> Moments:
    """Moments of transitions that are already cut."""
    return moments([rows], 0)


def residual_variance(spectrum: Spectrum, shared: FloatArray) -> FloatArray:
    """Mean square of each variable's residual under Z: the diagonal of E'GE with E = [I; 0] - Z."""
    error = -shared
    error[: spectrum.variables] += np.eye(spectrum.variables)
    rotated = np.swapaxes(spectrum.vectors, -1, -2) @ error
    variance: FloatArray = (spectrum.values[..., :, None] * rotated**2).sum(axis=-2)
    return variance
