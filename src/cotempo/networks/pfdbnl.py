"""PFDBNL, also published as cfPTN: a dynamic Bayesian network for every client, tied to a common one, by ADMM.

With Z = [W; A] the common weights, Z_k a client's own and T_k (the paper's W~_k, A~_k) the copy that ties them,

    min  sum_k l_k(Z_k) + mu |Z_k - T_k|^2 + lambda_W |W_k|_1 + lambda_A |A_k|_1   subject to  h(W_k) = 0,  T_k = Z.

A client's own Z_k stays in its memory; what it sends is needed only as a sum. The stages of a fit stand in
`cotempo.networks.admm.trial`; this file is the algorithm, in the paper's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Series
from cotempo.federation import Answers, Message, Method, Metrics, Outcome, Spec, register
from cotempo.networks.admm.acyclicity import acyclicity
from cotempo.networks.admm.dynotears import penalised_step
from cotempo.networks.admm.penalties import Penalties, dual_step
from cotempo.networks.admm.trial import StagedMethod, StagedState
from cotempo.networks.admm.trial_client import STAGES, Prepared
from cotempo.networks.compare import log_densities, unbiased
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fitted import FittedPersonal
from cotempo.networks.moments import Moments, centre
from cotempo.networks.network import Network

FloatArray = NDArray[np.float64]
COUPLINGS = (0.0125, 0.05, 0.2, 0.8, 3.2)
#: Shares of chance for lambda_W and lambda_A. A DAG leaves out half of the slice's pairs, so W needs less.
SPARSITIES = ((0.1, 0.35), (0.35, 0.7))


@dataclass(frozen=True)
class PFDBNLMemory:
    """What a client keeps between rounds: its own Z_k, its copy T_k and their multiplier.

    All are `(candidates, side, variables)`. `penalty` is the rho_2 of the client's last round.
    """

    stage: str
    own: FloatArray
    tied: FloatArray
    dual: FloatArray
    penalty: float


@register("cfPTN")
class PFDBNL(StagedMethod):
    """Learn a network for every client, `fitted[client].network`, that borrows strength from the others'.

    The common network is `fitted.network`. With `fit(..., cohort=j)` only j clients take part in a round; the memory
    of the others stays as it is.

    Parameters
    ----------
    lags
        How many past time steps can act; 0 learns static networks.
    coupling
        mu of the paper: how strongly a client's own weights are pulled to the common ones, per average squared loss.
    lambda_within, lambda_across
        Sparsity of the edges within a time step and across time steps, per average squared loss. `"auto"` chooses
        coupling and sparsity as `FDBNL` does: by how well the clients' own networks predict their held-out rows.
    threshold, threshold_across
        Weights below them are no edges, within a time step and across.
    weighting
        `"rows"`: a client counts in the common network as many times as it has rows; `"clients"`: once.
    centred, scaled
        Give every client an intercept of its own; divide every column by its pooled standard deviation about them, so
        that units do not matter. `FDBNL` says when not to.
    rounds
        At most this many rounds a stage; one in which half of the clients take part counts half.
    tolerance, cycle_tolerance
        A stage ends when what moves and the mean of h(W_k) are below them.
    cycle_growth, consensus_growth
        Factors of rho_1 and rho_2 each whole round, phi_1 and phi_2 of the paper.
    iterations, passes
        Iterations of L-BFGS-B in one pass over a client's own problem, and passes, in one round; the next round goes on
        from there.
    compare
        Hold out the last fifth of every client's rows first, to tell whether joining helped: what is learned together
        against what the same method learns from the client's own rows.

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

    Memory: ClassVar[type | None] = PFDBNLMemory
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {
            "coupling": 0.1,
            "lambda_within": 0.1,
            "lambda_across": 0.1,
            "threshold": 0.3,
            "threshold_across": 0.3,
            "weighting": "clients",
            "centred": False,
            "scaled": False,
            "cycle_growth": 1.6,
            "iterations": 100,
            "passes": 20,
        },
    }

    coupling: Annotated[float, Field(gt=0)] | Literal["auto"] = "auto"
    tolerance: float = Field(0.02, gt=0)
    cycle_growth: float = Field(2.0, ge=1)
    consensus_growth: float = Field(1.1, ge=1)
    iterations: int = Field(10, ge=1)
    passes: int = Field(1, ge=1)

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """A small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=160, shared=0.8, seed=0)
        return cls(rounds=4), clients, None

    # At a client.

    def _solve(
        self, common: Message, prepared: Sequence[Prepared], memories: Sequence[PFDBNLMemory | None]
    ) -> list[tuple[Message, PFDBNLMemory]]:
        return [self._solve_one(common, data, memory) for data, memory in zip(prepared, memories, strict=True)]

    def _solve_one(
        self, common: Message, prepared: Prepared, memory: PFDBNLMemory | None
    ) -> tuple[Message, PFDBNLMemory]:
        """Update the multiplier for the new Z, equation (13), then solve (10) and (11)."""
        stage, shared = common["stage"], common["shared"]
        if memory is None or memory.stage != stage:
            memory = PFDBNLMemory(stage, shared, shared, np.zeros_like(shared), 0.0)
        moments = prepared.moments[stage]
        penalties = [Penalties(*one) for one in common["penalties"].tolist()]
        consensus = penalties[0].consensus  # the same for every candidate
        dual = dual_step(memory.dual, memory.tied, shared, memory.penalty)
        gram = self._gram(moments, common["scale"])
        own = np.stack(
            [
                own_step(gram, tied, start, mu, (within, across), one, self.iterations, self.passes)
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
            weight=moments.rows if self.weighting == "rows" else 1.0,
        )
        return message, PFDBNLMemory(stage, own, tied, dual, consensus)

    def _alone(self, candidates: FloatArray) -> FloatArray:
        """A client by itself is tied to nobody: how strongly does not matter."""
        once: FloatArray = candidates[candidates[:, 2] == candidates[0, 2]]
        return once

    def _centre(self, mean: FloatArray, prepared: Prepared) -> FloatArray:
        parts = (prepared.moments[stage] for stage in STAGES)
        return np.stack([part.sums / part.rows for part in parts]) if self.centred else mean

    def _gram(self, own: Moments, scale: FloatArray) -> FloatArray:
        """The Gram per row; about the client's own mean, because its network is its own as well."""
        return centre(own, own.sums / own.rows if self.centred else np.zeros_like(own.sums), scale)

    def _judge(self, common: Message, prepared: Prepared, memory: PFDBNLMemory | None) -> FloatArray | None:
        if memory is None or memory.stage != "trial":
            return None
        scale, moments = common["scale"], prepared.moments["trial"]
        mean = moments.sums / moments.rows if self.centred else np.zeros_like(moments.sums)
        gram = self._gram(moments, scale)
        densities = []
        for weights in memory.own:
            squares = residual_squares(gram, self._network(weights))
            network = self._network(weights, scale=scale)
            variance = scale[: len(squares)] ** 2 * unbiased(squares, moments.rows, network)
            densities.append(log_densities(prepared.judged, network, mean, variance))
        return np.array(densities)

    # At the server.

    def _given(self) -> tuple[float | str, ...]:
        return self.lambda_within, self.lambda_across, self.coupling

    def _candidates(self, chance: float, unit: float, clients: int) -> FloatArray:
        """Triples of lambda_W, lambda_A and coupling, weakest coupling first.

        A client's network rests on more rows than its own and fewer than all: chance is taken between both.
        """
        given = (self.lambda_within, self.lambda_across)
        chance *= clients**0.25
        shares = SPARSITIES if "auto" in given else SPARSITIES[:1]
        couplings = COUPLINGS if self.coupling == "auto" else (self.coupling / unit,)
        return np.array(
            [
                [*(chance * share if one == "auto" else one / unit for one, share in pairs), coupling]
                for coupling in couplings
                for pairs in (tuple(zip(given, both, strict=True)) for both in shares)
            ]
        )

    def _step(self, state: StagedState, answers: Answers, share: float) -> tuple[StagedState, Metrics, bool]:
        """The server's problem (12), whose solution is a mean, then the penalties of equation (13)."""
        shared, cycles = answers.mean("target"), answers.mean("cycles")
        size = np.maximum(1.0, np.linalg.norm(shared, axis=(1, 2)))
        moving = {
            "primal": float((np.sqrt(answers.mean("gap")) / size).max()),
            "change": float((np.linalg.norm(shared - state.shared, axis=(1, 2)) / size).max()),
            "moved": float((np.sqrt(answers.mean("moved")) / size).max()),
        }
        grown = [
            Penalties(*one).updated(h, self.cycle_growth**share, self.consensus_growth**share)
            for one, h in zip(state.penalties.tolist(), cycles.tolist(), strict=True)
        ]
        last = bool(cycles.max() <= self.cycle_tolerance and max(moving.values()) <= self.tolerance)
        return (
            replace(state, shared=shared, penalties=np.array(grown)),
            {"cycles": float(cycles.max()), **moving},
            last,
        )

    def _solve_fields(self, state: StagedState) -> Mapping[str, Spec]:
        candidates, side, count = state.shared.shape
        return {
            "target": Spec(
                (candidates, side, count), description="your copy of the common network plus its multiplier"
            ),
            "cycles": Spec((candidates,), low=0, description="how far your own network is from having no cycles"),
            "gap": Spec((candidates,), low=0, description="how far your copy is from the common network"),
            "moved": Spec((candidates,), low=0, description="how far your own network moved in this round"),
        }

    def result(self, outcome: Outcome) -> FittedPersonal:
        """Every client's own network, out of its memory, beside the common one."""
        state: StagedState = outcome.state
        scale = state.scale[1]
        own = {
            name: self._network(memory.own[0], state.variables, scale)
            for name, memory in outcome.memories.items()
            if memory.stage == "final"
        }
        return FittedPersonal(outcome, self._network(state.shared[0], state.variables, scale), own)


def own_step(
    gram: FloatArray,
    tied: FloatArray,
    start: FloatArray,
    coupling: float,
    sparsity: tuple[float, float],
    penalties: Penalties,
    iterations: int = 100,
    passes: int = 20,
) -> FloatArray:
    """Solve a client's problem (10): its squared loss, ``mu |Z_k - T_k|^2``, sparsity and its own acyclicity.

    The pull to T_k only adds ``2 mu`` to the Gram's diagonal and ``2 mu T_k`` to what it is matched with.

    Examples
    --------
    >>> import numpy as np
    >>> gram = np.array([[1.0, 0.5], [0.5, 1.25]])
    >>> own_step(gram, np.zeros((2, 2)), np.zeros((2, 2)), 0.5, (0.1, 0.1), Penalties(1e6)).round(1).tolist()
    [[0.0, 0.2], [0.0, 0.0]]
    """
    pull = 2.0 * coupling
    quadratic = gram + pull * np.eye(len(gram))
    linear = gram[:, : tied.shape[1]] + pull * tied
    return penalised_step(quadratic, linear, start, sparsity, penalties, iterations, passes)


def tied_step(
    own: FloatArray, shared: FloatArray, dual: FloatArray, coupling: float | FloatArray, consensus: float
) -> FloatArray:
    """Solve a client's problem (11): ``T_k = (2 mu Z_k + rho_2 Z - dual_k) / (2 mu + rho_2)``."""
    return (2.0 * coupling * own + consensus * shared - dual) / (2.0 * coupling + consensus)


def residual_squares(gram: FloatArray, network: Network) -> FloatArray:
    """Mean square of each variable's residual, from the Gram per row."""
    count = len(network.variables)
    weights = np.vstack([network.within, network.across.reshape(-1, count)])
    error = np.vstack([np.eye(count), np.zeros((len(weights) - count, count))]) - weights
    squares: FloatArray = np.maximum(np.einsum("ij,ik,kj->j", error, gram, error), 0.0)
    return squares
