"""PFDBNL, also published as cfPTN: a dynamic Bayesian network for every client, tied to a common one, by ADMM.

With Z = [W; A] the common weights, Z_k a client's own and T_k (the paper's W~_k, A~_k) the copy that ties them,

    min  sum_k l_k(Z_k) + mu |Z_k - T_k|^2 + lambda_W |W_k|_1 + lambda_A |A_k|_1   subject to  h(W_k) = 0,  T_k = Z.

A client's own Z_k stays in its memory; what it sends is needed only as a sum. This file is Algorithm 2 in the paper's
order; the stages around its rounds stand in `cotempo.networks.admm.trial_then_fit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import Bounds, minimize

from cotempo.data import Series
from cotempo.federation import Answers, Message, Method, Metrics, Outcome, Spec, register
from cotempo.networks.admm.acyclicity import acyclicity
from cotempo.networks.admm.trial_then_fit import (
    CYCLE_TOLERANCE,
    PAPER,
    SplitRows,
    TrialMemory,
    TrialState,
    TrialThenFit,
    choose_candidate,
    sum_densities,
)
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fdbnl import FDBNL, Penalties, dual_step, penalty_step
from cotempo.networks.fitted import ClientNetwork, FittedPersonal
from cotempo.networks.moments import Gram
from cotempo.networks.network import Network
from cotempo.networks.private import PrivatePersonalNetworks
from cotempo.privacy.settings import Privacy
from cotempo.typing import Floats, Indices

COUPLINGS = (0.0125, 0.05, 0.2, 0.8, 3.2)


@dataclass(frozen=True)
class PFDBNLMemory(TrialMemory):
    """A client's memory between rounds: its own Z_k, its copy T_k and their multiplier.

    All are `(candidates, side, variables)`. `penalty` is the rho_2 of the client's last round. `mean`, `(side,)`, is
    what its rows were centred by; `squares`, `(variables,)`, are mean squared residuals of its `rows` rows, once there
    is one candidate.
    """

    own: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    tied: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    dual: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    penalty: float = 0.0
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    squares: Floats = field(default_factory=lambda: np.zeros(0))
    rows: float = 0.0


@register("cfPTN")
class PFDBNL(TrialThenFit):
    """Learn a network for every client, `fitted[client].network`, that borrows strength from the others'.

    The common network is `fitted.network`. With `fit(..., cohort=j)` only j clients take part in a round; the memory
    of the others stays as it is.

    References
    ----------
    Federated Learning of Dynamic Bayesian Network via Continuous Optimization from Time Series Data: Algorithm 2.
    Federated Probability Temporal Networks: the same method under the name cfPTN.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=4, clients=3, samples=300, shared=0.8, seed=0)
    >>> fitted = ct.PFDBNL().fit(clients)
    >>> fitted["client-1"].network.within.shape, fitted.network.across.shape
    ((4, 4), (1, 4, 4))
    """

    Memory: ClassVar[type[TrialMemory]] = PFDBNLMemory
    private_units: ClassVar[tuple[str, ...]] = ("row",)
    tuned: ClassVar[tuple[str, ...]] = ("lambda_within", "lambda_across", "coupling")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {**PAPER, **dict.fromkeys(tuned, 0.1), "iterations": 100, "passes": 20},
    }
    #: A DAG leaves out half of the slice's pairs, so W needs less.
    sparsities: ClassVar[tuple[tuple[float, float], ...]] = ((0.1, 0.35), (0.35, 0.7))

    coupling: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        default="auto",
        description="How strongly a client's own weights are pulled to the common ones, mu of the paper, per average "
        "squared loss. ``auto`` chooses it with the sparsity, by how well clients' own networks predict.",
    )
    tolerance: float = Field(default=0.02, gt=0, description="A stage ends with changes below it and h below 1e-5.")
    consensus_growth: float = Field(default=1.1, ge=1, description="Factor of rho_2 each round, phi_2 of the paper.")
    passes: int = Field(default=1, ge=1, description="Passes of L-BFGS-B over a client's own problem in one round.")

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """Return a small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=160, shared=0.8, seed=0)
        return cls(rounds=4), clients, None

    # At a client.

    def _solve(
        self, common: Message, prepared: Sequence[SplitRows], memories: Sequence[PFDBNLMemory]
    ) -> list[tuple[Message, PFDBNLMemory]]:
        return [self._solve_one(common, data, memory) for data, memory in zip(prepared, memories, strict=True)]

    def _solve_one(self, common: Message, prepared: SplitRows, memory: PFDBNLMemory) -> tuple[Message, PFDBNLMemory]:
        """Update the multiplier for the new Z, equation (13), then solve (10) and (11)."""
        stage, shared = common["stage"], common["shared"]
        if memory.stage != stage:
            memory = replace(memory, stage=stage, own=shared, tied=shared, dual=np.zeros_like(shared), penalty=0.0)
        gram = prepared.grams[stage]
        mean = self._centre(gram, common["mean"])
        penalties = [Penalties(*one) for one in common["penalties"].tolist()]
        consensus = penalties[0].consensus  # the same for every candidate
        dual = dual_step(memory.dual, memory.tied, shared, memory.penalty)
        per_row = gram.per_row(mean, common["scale"])
        own = np.stack(
            [
                own_step(per_row, tied, start, mu, (within, across), one, self.iterations, self.passes)
                for tied, start, (within, across, mu), one in zip(
                    memory.tied, memory.own, common["candidates"].tolist(), penalties, strict=True
                )
            ]
        )
        tied = tied_step(own, shared, dual, common["candidates"][:, 2, None, None], consensus)
        count = shared.shape[-1]
        message = Message(
            {
                "target": tied + dual / consensus,
                "cycles": np.array([acyclicity(one[:count])[0] for one in own]),
                "gap": ((tied - shared) ** 2).sum(axis=(1, 2)),
                "moved": ((own - memory.own) ** 2).sum(axis=(1, 2)),
            },
            weight=gram.rows if self.weighting == "rows" else 1.0,
        )
        squares = residual_squares(per_row, self._network(own[0])) if len(own) == 1 else np.zeros(0)
        return message, replace(
            memory, own=own, tied=tied, dual=dual, penalty=consensus, mean=mean, squares=squares, rows=gram.rows
        )

    def _alone(self, candidates: Floats) -> Floats:
        """Return one coupling: a client alone has nobody to be tied to."""
        return np.asarray(candidates[candidates[:, 2] == candidates[0, 2]])

    def _centre(self, gram: Gram, pooled: Floats) -> Floats:
        """Return the client's own mean, because its network is its own as well."""
        return gram.mean if self.centred else pooled

    def _held_out_density(self, common: Message, prepared: SplitRows, memory: PFDBNLMemory) -> Floats | None:
        if memory.stage != "trial":
            return None
        scale, gram = common["scale"], prepared.grams["trial"]
        mean = self._centre(gram, common["mean"])
        per_row = gram.per_row(mean, scale)
        found = [(weights, residual_squares(per_row, self._network(weights))) for weights in memory.own]
        return self._densities(prepared.judged, found, mean, scale, gram.rows)

    # At the server.

    def _candidates(self, noise_level: float, unit: float, clients: float) -> Floats:
        """Return triples of lambda_W, lambda_A and coupling, weakest coupling first.

        A client's network rests on more rows than its own and fewer than all: the noise level is taken in between.
        """
        pairs = super()._candidates(noise_level * clients**0.25, unit, clients)
        couplings = COUPLINGS if self.coupling == "auto" else (self.coupling / unit,)
        return np.array([[*pair, coupling] for coupling in couplings for pair in pairs])

    def _step(self, state: TrialState, answers: Answers, share: float) -> tuple[TrialState, Metrics, bool]:
        """Solve the server's problem (12), whose solution is a mean, then update the penalties by equation (13)."""
        shared, cycles = answers.mean("target"), answers.mean("cycles")
        size = np.maximum(1.0, np.linalg.norm(shared, axis=(1, 2)))
        moving = {
            "primal": float((np.sqrt(answers.mean("gap")) / size).max()),
            "change": float((np.linalg.norm(shared - state.shared, axis=(1, 2)) / size).max()),
            "moved": float((np.sqrt(answers.mean("moved")) / size).max()),
        }
        grown = [
            penalty_step(Penalties(*one), h, self.cycle_growth**share, self.consensus_growth**share)
            for one, h in zip(state.penalties.tolist(), cycles.tolist(), strict=True)
        ]
        last = bool(cycles.max() <= CYCLE_TOLERANCE and max(moving.values()) <= self.tolerance)
        stepped = replace(state, shared=shared, penalties=np.array(grown))
        return stepped, {"cycles": float(cycles.max()), **moving}, last

    def _solve_fields(self, state: TrialState) -> Mapping[str, Spec]:
        candidates, side, count = state.shared.shape
        target = "your copy of the common network plus its multiplier"
        return {
            "target": Spec((candidates, side, count), description=target),
            "cycles": Spec((candidates,), low=0, description="how far your own network is from having no cycles"),
            "gap": Spec(
                (candidates,), low=0, reported=True, description="how far your copy is from the common network"
            ),
            "moved": Spec(
                (candidates,), low=0, reported=True, description="how far your own network moved in this round"
            ),
        }

    # With noise: the common network from noised moments, a client's own at the client.

    def private(self, privacy: Privacy) -> PrivatePersonalNetworks:
        """Return the form whose common network is learned from noised moments."""
        return PrivatePersonalNetworks.of(self, privacy)

    def learn_from(self, gram: Gram, names: Sequence[str], centre: Floats) -> TrialState:
        """Return the finished state for a Gram matrix of all transitions: the common network is FDBNL's."""
        alike = {name: getattr(self, name) for name in TrialThenFit.model_fields if name != "preset"}
        return FDBNL(**alike).learn_from(gram, names, centre)

    def learn_own(self, common: Message, prepared: SplitRows) -> PFDBNLMemory:
        """Solve (10) with T_k at the common Z, for the sparsity and coupling that predict the held-out rows best."""
        scale, rows = common["scale"], common["rows"]
        unit = 1.0 if self.scaled else float(scale[0]) ** 2
        noise_level = sqrt(log(max(len(scale), 2)) / rows)
        candidates = self._candidates(noise_level, unit, max(rows / prepared.grams["final"].rows, 1.0))
        best = len(candidates) // 2
        if prepared.held_out and prepared.varying.any():
            trial = self._own(common, prepared.grams["trial"], candidates)
            memory = PFDBNLMemory("trial", own=trial, tied=trial, dual=np.zeros_like(trial))
            densities = self._held_out_density(common, prepared, memory)
            assert densities is not None  # it is of the trial
            best = choose_candidate(**sum_densities(densities[:, :, prepared.varying]))
        gram = prepared.grams["final"]
        own, mean = self._own(common, gram, candidates[best : best + 1]), self._centre(gram, common["mean"])
        squares = residual_squares(gram.per_row(mean, scale), self._network(own[0]))
        return PFDBNLMemory(
            "final", own=own, tied=own, dual=np.zeros_like(own), mean=mean, squares=squares, rows=gram.rows
        )

    def _own(self, common: Message, gram: Gram, candidates: Floats) -> Floats:
        """Return a client's own weights for each candidate, without cycles."""
        shared = common["shared"]
        count, per_row, found = shared.shape[1], gram.per_row(self._centre(gram, common["mean"]), common["scale"]), []
        for within, across, coupling in candidates.tolist():
            own, penalties = shared, Penalties(0.0, 1.0, 1.0)
            for _ in range(self.rounds):
                pair, before = (within, across), own
                own = own_step(per_row, shared, before, coupling, pair, penalties, self.iterations, self.passes)
                cycles, moved = acyclicity(own[:count])[0], float(np.linalg.norm(own - before))
                if cycles <= CYCLE_TOLERANCE and moved <= self.tolerance * max(1.0, float(np.linalg.norm(own))):
                    break
                penalties = penalty_step(penalties, cycles, self.cycle_growth, 1.0)
            found.append(own)
        return np.stack(found)

    def result(self, outcome: Outcome) -> FittedPersonal:
        """Return every client's own network, from its memory, beside the common one."""
        state: TrialState = outcome.state
        open_ends = np.full((len(state.variables),) * 2, self.scaled, dtype=np.bool_)
        own = {
            name: ClientNetwork(
                self._in_units(state, memory.own[0], memory.mean, memory.squares, memory.rows), open_ends
            )
            for name, memory in outcome.memories.items()
            if memory.stage == "final"
        }
        # Its noise is not known: no client says how well the common network predicts its rows.
        return FittedPersonal(outcome, self._in_units(state, state.shared[0], state.mean[1]), own)


def own_step(
    gram: Floats,
    tied: Floats,
    start: Floats,
    coupling: float,
    sparsity: tuple[float, float],
    penalties: Penalties,
    iterations: int = 100,
    passes: int = 20,
) -> Floats:
    """Solve a client's problem (10): its squared loss, ``mu |Z_k - T_k|^2``, sparsity and its own acyclicity.

    The pull to T_k only adds ``2 mu`` to the Gram's diagonal and ``2 mu T_k`` to what it is matched with.
    """
    pull = 2.0 * coupling
    quadratic = gram + pull * np.eye(len(gram))
    linear = gram[:, : tied.shape[1]] + pull * tied
    return penalised_step(quadratic, linear, start, sparsity, penalties, iterations, passes)


def penalised_step(
    quadratic: Floats,
    linear: Floats,
    start: Floats,
    sparsity: tuple[float, float],
    penalties: Penalties,
    iterations: int = 100,
    passes: int = 20,
) -> Floats:
    """Minimise a quadratic with sparsity and a penalty on cycles over Z = [W; A] with a zero diagonal of W.

        1/2 <Z, H Z> - <b, Z> + lambda_W |W|_1 + lambda_A |A|_1 + alpha h(W) + rho_1/2 h(W)^2

    H, `quadratic`, is positive semidefinite; b is `linear`. Nothing grows with the number of rows.

    The papers write Z = Z+ - Z- and hand twice as many bounded numbers to L-BFGS. Most of them stay at zero. Here a
    pass fixes the signs: those of the nonzero weights, and for weights at zero the one in which the objective falls,
    if it does; the other weights rest. On that orthant the objective is smooth, and L-BFGS-B works on the few
    magnitudes that move. Passes end when no resting weight wants to move: the same stationary points, in less time.
    """
    variables = linear.shape[1]
    price = np.full_like(linear, sparsity[1])
    price[:variables] = sparsity[0]
    may_move = np.ones(linear.shape, dtype=np.bool_)
    np.fill_diagonal(may_move[:variables], False)

    def spread_out(magnitudes: Floats, active: Indices, signs: Floats) -> Floats:
        weights = np.zeros_like(linear)
        weights.ravel()[active] = signs * magnitudes
        return weights

    def objective(magnitudes: Floats, active: Indices, signs: Floats) -> tuple[float, Floats]:
        weights, prices = spread_out(magnitudes, active, signs), price.ravel()[active]
        cycles, cycle_slope = acyclicity(weights[:variables])
        image = quadratic @ weights - linear
        value = 0.5 * float((weights * (image - linear)).sum()) + float(prices @ magnitudes)
        value += (penalties.multiplier + 0.5 * penalties.cycles * cycles) * cycles
        image[:variables] += (penalties.multiplier + penalties.cycles * cycles) * cycle_slope
        return value, signs * image.ravel()[active] + prices

    found, value = np.where(may_move, start, 0.0), np.inf
    for _ in range(passes):
        slope = quadratic @ found - linear  # h adds nothing to it where W is zero
        signs = np.where(found != 0, np.sign(found), np.where(np.abs(slope) > price, -np.sign(slope), 0.0)) * may_move
        active = np.flatnonzero(signs)
        moving = active, signs.ravel()[active]
        solved = minimize(
            objective,
            np.abs(found.ravel()[active]),
            args=moving,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(np.zeros(len(active)), np.inf),
            options={"maxiter": iterations, "ftol": 1e-10, "gtol": 1e-6},
        )
        found, reached = spread_out(solved.x, *moving), float(solved.fun)
        if value - reached <= 1e-9 * max(1.0, abs(reached)):
            break
        value = reached
    return found


def tied_step(own: Floats, shared: Floats, dual: Floats, coupling: float | Floats, consensus: float) -> Floats:
    """Solve a client's problem (11): ``T_k = (2 mu Z_k + rho_2 Z - dual_k) / (2 mu + rho_2)``."""
    return (2.0 * coupling * own + consensus * shared - dual) / (2.0 * coupling + consensus)


def residual_squares(gram: Floats, network: Network) -> Floats:
    """Return the mean square of each variable's residual, from the Gram per row."""
    weights = network.stacked.reshape(-1, len(network.variables))
    error = np.eye(*weights.shape) - weights
    return np.asarray(np.maximum(np.einsum("ij,ik,kj->j", error, gram, error), 0.0))
