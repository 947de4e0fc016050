"""FDBNL, also published as fPTN: one dynamic Bayesian network for all clients, by ADMM.

With Z = [W; A] the shared weights, Z_k = [B_k; D_k] a client's own, ``l_k(Z_k) = |X - [X, Y] Z_k|^2 / (2 n_k)`` and
client weights w_k (their total is 1 when a client counts ``n_k / n``, and K when each counts once, as in the paper),
the problem and its augmented Lagrangian are

    min  sum_k w_k l_k(Z_k) + lambda_W |W|_1 + lambda_A |A|_1     subject to  h(W) = 0,  Z_k = Z

    sum_k w_k { l_k(Z_k) + <dual_k, Z_k - Z> + rho_2/2 |Z_k - Z|^2 }
        + lambda_W |W|_1 + lambda_A |A|_1 + alpha h(W) + rho_1/2 h(W)^2

where ``dual_k`` stacks ``beta_k`` on ``gamma_k``. The weight stands before all of a client's brace, penalty and dual
included: the constraint ``Z_k = Z`` is the same whatever multiplies it, and this choice lets w_k cancel from the
client's own step and from its dual's. The server's step is left with

    sum_k w_k rho_2/2 |Z - (Z_k + dual_k / rho_2)|^2 = total rho_2/2 |Z - mean|^2 + constant,

so it needs only the weighted mean of ``Z_k + dual_k / rho_2`` and the total weight: clients send that array with
their weight beside it, and a sum that hides the single clients is enough.

This file is Algorithm 1 in the paper's order; the stages around its rounds are in
`cotempo.networks.admm.trial_then_fit`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from scipy.optimize import Bounds, minimize

from cotempo.data import Schema, Series
from cotempo.federation import Answers, Message, Method, Metrics, Outcome, Rng, Roster, Spec, Staleness, register
from cotempo.networks.admm.acyclicity import acyclicity
from cotempo.networks.admm.trial_then_fit import (
    CYCLE_TOLERANCE,
    PAPER,
    STAGES,
    SplitRows,
    TrialMemory,
    TrialState,
    TrialThenFit,
)
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fitted import FittedNetwork
from cotempo.networks.moments import Gram, unbiased
from cotempo.networks.private import PrivateNetwork
from cotempo.privacy.settings import Privacy
from cotempo.typing import Floats

# Steps of the server without a slow client's answer; the more, the further its multiplier is behind.
MOST_STALE = 3
LARGEST_CYCLE_PENALTY = 1e16  # beyond it, rho_1 h(W)^2 drowns everything else in rounding


class Penalties(NamedTuple):
    """alpha, rho_1 and rho_2 of the augmented Lagrangian."""

    multiplier: float = 0.0
    cycles: float = 1.0
    consensus: float = 1.0


@dataclass(frozen=True)
class FDBNLMemory(TrialMemory):
    """A client's memory between rounds: the spectrum of its Gram, its multipliers, its own Z_k and its last rho_2.

    `dual` and `local` are `(candidates, side, variables)`.
    """

    values: Floats = field(default_factory=lambda: np.zeros(0))
    vectors: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    dual: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    local: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    penalty: float = 0.0


@register("fPTN")
class FDBNL(TrialThenFit):
    """Learn which variable drives which, now and with lags: one network for all clients.

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

    private_units: ClassVar[tuple[str, ...]] = ("row",)
    Memory: ClassVar[type[TrialMemory]] = FDBNLMemory
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {**PAPER, "lambda_within": 0.5, "lambda_across": 0.5, "consensus_growth": 1.1, "refit": False},
    }

    consensus_growth: float = Field(default=1.05, ge=1, description="Factor of rho_2 each round, phi_2 of the paper.")
    refit: bool = Field(default=True, description="Learn the weights of the edges once more, without the sparsity.")

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Let a slow client's last answer stand for its next one: asynchronous ADMM."""
        return {"solve": "replace"}

    @property
    def most_stale(self) -> Mapping[str, int]:
        """Bound the delay, which asynchronous ADMM needs to converge."""
        return {"solve": MOST_STALE}

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """Return a small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=160, seed=0)
        return cls(rounds=6), clients, None

    # At a client.

    def _solve(
        self, common: Message, prepared: Sequence[SplitRows], memories: Sequence[FDBNLMemory]
    ) -> list[tuple[Message, FDBNLMemory]]:
        """Update the multipliers for the new Z, then solve every client's problem: lines 7 and 2 of Algorithm 1."""
        stage, shared, penalty = common["stage"], common["shared"], float(common["penalties"][0, 2])
        own = [
            memory if memory.stage == stage else self._enter(common, data, memory)
            for data, memory in zip(prepared, memories, strict=True)
        ]
        values, vectors, dual, local = (
            np.stack([getattr(memory, name) for memory in own]) for name in ("values", "vectors", "dual", "local")
        )
        spectrum = Spectrum(values[:, None], vectors[:, None], shared.shape[-1])  # the same for every candidate
        dual = dual_step(dual, local, shared, np.array([memory.penalty for memory in own])[:, None, None, None])
        local = client_step(spectrum, dual, shared, penalty)
        sent = {
            "target": local + dual / penalty,
            "gap": ((local - shared) ** 2).sum(axis=(2, 3)),
            "variance": residual_variance(spectrum, shared),
        }
        return [
            (
                Message(
                    {name: array[k] for name, array in sent.items()},
                    weight=prepared[k].grams[stage].rows if self.weighting == "rows" else 1.0,
                ),
                replace(memory, dual=dual[k], local=local[k], penalty=penalty),
            )
            for k, memory in enumerate(own)
        ]

    def _enter(self, common: Message, prepared: SplitRows, memory: FDBNLMemory) -> FDBNLMemory:
        """Return the memory a client enters a stage with: its spectrum, and a multiplier of zero."""
        stage, shared = common["stage"], common["shared"]
        gram = prepared.grams[stage].per_row(common["mean"], common["scale"])
        spectrum = decompose(gram, shared.shape[-1])
        return replace(
            memory, stage=stage, values=spectrum.values, vectors=spectrum.vectors, dual=np.zeros_like(shared),
            local=shared, penalty=0.0,
        )  # fmt: skip

    def _held_out_density(self, common: Message, prepared: SplitRows, memory: FDBNLMemory) -> Floats:
        found = zip(common["shared"], common["variance"], strict=True)
        return self._densities(prepared.judged, found, common["mean"], common["scale"], common["rows"])

    # At the server.

    def _step(self, state: TrialState, answers: Answers, share: float) -> tuple[TrialState, Metrics, bool]:
        """Solve the server's problem and update the penalties, for each candidate: lines 4 and 6 of Algorithm 1."""
        weight = 1.0 if self.weighting == "rows" else answers.sum.weight
        target, gap, variance = answers.mean("target"), answers.mean("gap"), answers.mean("variance")
        penalties = [Penalties(*one) for one in state.penalties.tolist()]
        shared = [
            np.where(state.shared[i] != 0, target[i], 0.0)
            if state.refitting
            else server_step(target[i], state.shared[i], penalties[i], weight, tuple(pair), self.iterations)
            for i, pair in enumerate(state.candidates.tolist())
        ]
        found = [residuals(new, old, one) for new, old, one in zip(shared, state.shared, gap.tolist(), strict=True)]
        if not state.refitting:
            growth = self.cycle_growth**share, self.consensus_growth**share
            penalties = [penalty_step(old, new.cycles, *growth) for old, new in zip(penalties, found, strict=True)]
        metrics = {
            "loss": float(variance.sum(axis=1).min()) / 2,
            "cycles": max(one.cycles for one in found),
            "primal": max(one.primal for one in found),
            "change": max(one.change for one in found),
        }
        stepped = replace(state, shared=np.stack(shared), variance=variance, penalties=np.array(penalties))
        return stepped, metrics, all(one.small(self.tolerance) for one in found)

    def _solve_fields(self, state: TrialState) -> Mapping[str, Spec]:
        candidates, side, count = state.shared.shape
        target = "your own fit of the network plus its scaled multiplier"
        variance = "what the shared network leaves unexplained in your rows"
        return {
            "target": Spec((candidates, side, count), description=target),
            "gap": Spec(
                (candidates,), low=0, reported=True, description="how far your own fit is from the shared network"
            ),
            "variance": Spec((candidates, count), low=0, description=variance),
        }

    def private(self, privacy: Privacy) -> PrivateNetwork:
        """Return the form that learns from noised moments, where the server takes the clients' steps as well."""
        return PrivateNetwork.of(self, privacy)

    def learn_from(self, gram: Gram, names: Sequence[str], centre: Floats) -> TrialState:
        """Return the finished state for a Gram matrix of transitions that was made elsewhere.

        One client, whose Gram this is, goes through a trial; no row is left to predict, so that the Bayesian
        information criterion chooses the sparsity.
        """
        state = self.open(Roster({"all": Schema(self.kind, tuple(names), "")}), None, Rng("gram"))
        mean = np.tile(centre, self.lags + 1) if self.centred else np.zeros(len(gram.gram))
        squares = gram.gram.diagonal()
        state = replace(state, rows=np.full(2, gram.rows), mean=np.tile(mean, (2, 1)))
        state = self._pool(state, np.tile(squares, (2, 1)), 1)
        state = state.begin("trial", state.candidates)
        own = SplitRows(np.zeros((0, len(squares))), 0, 0, dict.fromkeys(STAGES, gram._replace(mean=mean)), len(names))
        memory = FDBNLMemory()
        while state.stage == "trial":
            (sent, memory), *_ = self._solve(Message(self._common(state)), [own], [memory])
            total = Message({name: sent.weight * sent[name] for name in sent}, weight=sent.weight)
            state, _ = self.absorb(state, Answers(("all",), total), None, Rng("gram"))
        networks = [self._network(weights) for weights in state.shared]
        fits = [
            gram.rows * float(np.log(unbiased(squares, gram.rows, network)).sum())
            + math.log(gram.rows) * np.count_nonzero(network.stacked)
            for network, squares in zip(networks, state.variance, strict=True)
        ]
        best = int(np.argmin(fits))
        kept = {
            name: getattr(state, name)[best : best + 1] for name in ("candidates", "shared", "variance", "penalties")
        }
        return replace(state, stage="finished", **kept)

    def result(self, outcome: Outcome) -> FittedNetwork:
        """Return the network in the units of the data."""
        state: TrialState = outcome.state
        network = self._in_units(state, state.shared[0], state.mean[1], state.variance[0], state.rows[1])
        return FittedNetwork(outcome, network)


# Problem (2), at a client.


class Spectrum(NamedTuple):
    """A client's joint Gram per row, ``G = [S M; M' N] = V diag(values) V'``, decomposed once for all rounds.

    Like every client's array here it may have a leading axis of clients: then all of them step at once.
    """

    values: Floats
    vectors: Floats
    variables: int


def decompose(gram: Floats, variables: int) -> Spectrum:
    """Decompose the joint Gram, of side ``(lags + 1) variables``, that `Gram.per_row` returns."""
    values, vectors = np.linalg.eigh(gram)
    return Spectrum(np.maximum(values, 0.0), vectors, variables)


def client_step(spectrum: Spectrum, dual: Floats, shared: Floats, penalty: float) -> Floats:
    """Solve a client's problem (2) in closed form.

    The paper's two formulas for B_k and D_k are the two blocks of one solution,

        Z_k = (G + rho_2 I)^-1 ([S; M'] - dual_k + rho_2 Z),

    and with ``G = V diag(values) V'`` a new rho_2 costs two products instead of a new inverse.
    """
    values, vectors = spectrum.values[..., :, None], spectrum.vectors
    rotation = np.swapaxes(vectors, -1, -2)
    explained = values * rotation[..., : spectrum.variables]
    return vectors @ ((explained + rotation @ (penalty * shared - dual)) / (values + penalty))


def residual_variance(spectrum: Spectrum, shared: Floats) -> Floats:
    """Return the mean square of each variable's residual under Z: the diagonal of E'GE with E = [I; 0] - Z."""
    error = -shared
    error[..., : spectrum.variables, :] += np.eye(spectrum.variables)
    rotated = np.swapaxes(spectrum.vectors, -1, -2) @ error
    return np.asarray((spectrum.values[..., :, None] * rotated**2).sum(axis=-2))


# Problem (3), at the server.


def server_step(
    mean: Floats,
    previous: Floats,
    penalties: Penalties,
    total_weight: float,
    sparsity: tuple[float, float],
    iterations: int = 10,
) -> Floats:
    """Solve the server's problem (3).

    h touches W only, so the two parts separate: A is a soft threshold at ``lambda_A / (total rho_2)``, exactly,
    and W is `within_step`. `mean` is the weighted mean over clients of ``Z_k + dual_k / rho_2``, `previous` the last Z,
    where W's search starts, `sparsity` lambda_W and lambda_A. After so many `iterations` of L-BFGS-B the search stops;
    the next round continues from there.
    """
    variables = mean.shape[1]
    penalty = total_weight * penalties.consensus
    shared = soft_threshold(mean, sparsity[1] / penalty)
    shared[:variables] = within_step(
        mean[:variables], previous[:variables], sparsity[0], penalty, penalties, iterations
    )
    return shared


def within_step(
    mean: Floats, start: Floats, sparsity: float, penalty: float, cycle: Penalties, iterations: int = 10
) -> Floats:
    """Minimise ``alpha h(W) + rho_1/2 h(W)^2 + lambda |W|_1 + penalty/2 |W - mean|^2`` over W with a zero diagonal.

    The paper writes W = W+ - W- and hands twice d^2 bounded numbers to L-BFGS. Half of them are known
    beforehand: h grows with every ``|W_ij|`` and ignores signs, so at the minimum W_ij has the sign of mean_ij
    and lies between 0 and ``reach = soft_threshold(mean, lambda / penalty)``. On that box

        lambda |W_ij| + penalty/2 (W_ij - mean_ij)^2 = penalty/2 (|W_ij| - |reach_ij|)^2 + constant,

    a smooth problem in the few magnitudes with a reach above zero: the same minimum, in a fifth of the time.

    Here `penalty` is the total weight times rho_2, and `cycle` holds alpha and rho_1.
    """
    reach = soft_threshold(mean, sparsity / penalty)
    np.fill_diagonal(reach, 0.0)
    active = np.flatnonzero(reach)
    if len(active) == 0:
        return reach
    ceiling, signs = np.abs(reach.ravel()[active]), np.sign(reach.ravel()[active])
    magnitudes = np.zeros_like(reach)

    def objective(candidate: Floats) -> tuple[float, Floats]:
        magnitudes.ravel()[active] = candidate
        cycles, gradient = acyclicity(magnitudes)
        gap = candidate - ceiling
        value = (cycle.multiplier + 0.5 * cycle.cycles * cycles) * cycles + 0.5 * penalty * float(gap @ gap)
        return value, (cycle.multiplier + cycle.cycles * cycles) * gradient.ravel()[active] + penalty * gap

    found = minimize(
        objective,
        np.clip(start.ravel()[active] * signs, 0.0, ceiling),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(np.zeros_like(ceiling), ceiling),
        options={"maxiter": iterations, "ftol": 1e-10, "gtol": 1e-6},
    )
    within = np.zeros_like(reach)
    within.ravel()[active] = signs * found.x
    return within


def soft_threshold(values: Floats, threshold: float) -> Floats:
    """Shrink every value towards zero: the minimiser of ``threshold |z| + (z - value)^2 / 2``."""
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)


# Equation (4).


def dual_step(dual: Floats, local: Floats, shared: Floats, penalty: float | Floats) -> Floats:
    """Return ``dual_k + rho_2 (Z_k - Z)``, the client's multiplier after the server's new Z, equation (4)."""
    return dual + penalty * (local - shared)


def penalty_step(penalties: Penalties, cycles: float, cycle_growth: float, consensus_growth: float) -> Penalties:
    """Return ``alpha + rho_1 h(W)``, ``phi_1 rho_1`` and ``phi_2 rho_2``, equation (4)."""
    return Penalties(
        multiplier=penalties.multiplier + penalties.cycles * cycles,
        cycles=min(penalties.cycles * cycle_growth, LARGEST_CYCLE_PENALTY),
        consensus=penalties.consensus * consensus_growth,
    )


# When to stop.


class Residuals(NamedTuple):
    """How far a round is from a solution: h(W), and two residuals over ``max(1, |Z|)``.

    `primal` is the root of the weighted mean of ``|Z_k - Z|^2``; `change`, ``|Z_new - Z_old|``, is the dual residual
    without its factor rho_2.
    """

    cycles: float
    primal: float
    change: float

    def small(self, tolerance: float = 0.01) -> bool:
        """Return whether to stop. Small h alone is not enough: an all-zero W has no cycles either."""
        return self.cycles <= CYCLE_TOLERANCE and max(self.primal, self.change) <= tolerance


def residuals(shared: Floats, previous: Floats, mean_square_gap: float) -> Residuals:
    """Measure a round at the server, from the new and the last Z and the weighted mean of ``|Z_k - previous|^2``.

    A client measures its gap against the Z it was sent, because it sees the new one only a round later; gap and
    change together bound its distance to the new one.
    """
    size = max(1.0, float(np.linalg.norm(shared)))
    return Residuals(
        cycles=acyclicity(shared[: shared.shape[1]])[0],
        primal=mean_square_gap**0.5 / size,
        change=float(np.linalg.norm(shared - previous)) / size,
    )
