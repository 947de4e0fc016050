"""FDBNL, also published as fPTN: one dynamic Bayesian network for all clients, by ADMM.

The steps' equations stand in `cotempo.networks.admm.penalties`, the stages of a fit in `cotempo.networks.admm.trial`; this file is
the algorithm, in the paper's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cotempo.data import Series
from cotempo.federation import Answers, Message, Method, Metrics, Outcome, Spec, register
from cotempo.networks.admm.penalties import Penalties, Spectrum, client_step, decompose, dual_step, server_step
from cotempo.networks.admm.trial import StagedMethod, StagedState
from cotempo.networks.admm.trial_client import Prepared
from cotempo.networks.compare import log_densities, unbiased
from cotempo.networks.data.generate import make_networks
from cotempo.networks.fitted import FittedNetwork
from cotempo.networks.moments import centre
from cotempo.networks.stopping import residuals

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FDBNLMemory:
    """What a client keeps between rounds: its Gram's spectrum, its multipliers and its own copies of Z.

    `dual` and `local` are `(candidates, side, variables)`.
    """

    stage: str
    values: FloatArray
    vectors: FloatArray
    dual: FloatArray
    local: FloatArray
    penalty: float


@register("fPTN")
class FDBNL(StagedMethod):
    """Learn which variable drives which, now and with lags: one network for all clients.

    Parameters
    ----------
    lags
        How many past time steps can act; 0 learns a static network.
    lambda_within, lambda_across
        Sparsity of the edges within a time step and across time steps, per average squared loss. `"auto"` learns
        with five values on the first four fifths of every client's rows, in the same rounds, and takes the largest
        whose network predicts the last fifths as well as the best one does, within one standard error.
    threshold, threshold_across
        Weights below them are no edges, within a time step and across.
    weighting
        `"rows"`: a client counts as many times as it has rows. `"clients"`: every client counts once and the
        sparsity is not scaled by their number, as the papers' text has it.
    centred, scaled
        Subtract the pooled mean; divide every column by its pooled standard deviation, so that units do not matter.
        Where all columns are measured in one unit and their noise is of like size, `scaled=False` finds far more
        directions: the squared loss then prefers the right ones.
    rounds
        At most this many rounds a stage; one in which half of the clients take part counts half.
    tolerance, cycle_tolerance
        A stage ends when the residuals and h(W) are below them.
    cycle_growth, consensus_growth
        Factors of rho_1 and rho_2 each whole round, phi_1 and phi_2 of the paper.
    iterations
        Iterations of L-BFGS-B for W in one round; the next round goes on from there.
    refit
        Learn the weights of the edges found once more, without the sparsity that shrank them.
    compare
        Hold out the last fifth of every client's rows first, to tell whether joining helped: what is learned together
        against what the same method learns from the client's own rows.

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

    Memory: ClassVar[type | None] = FDBNLMemory
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {
            "lambda_within": 0.5,
            "lambda_across": 0.5,
            "threshold": 0.3,
            "threshold_across": 0.3,
            "weighting": "clients",
            "centred": False,
            "scaled": False,
            "cycle_growth": 1.6,
            "consensus_growth": 1.1,
            "refit": False,
        },
    }

    cycle_growth: float = Field(2.0, ge=1)
    consensus_growth: float = Field(1.05, ge=1)
    iterations: int = Field(10, ge=1)
    refit: bool = True

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Series], None]:
        """A small case for the contract suite."""
        clients, _ = make_networks(variables=3, clients=4, samples=160, seed=0)
        return cls(rounds=6), clients, None

    @property
    def _refits(self) -> bool:
        return self.refit

    # At a client.

    def _solve(
        self, common: Message, prepared: Sequence[Prepared], memories: Sequence[FDBNLMemory | None]
    ) -> list[tuple[Message, FDBNLMemory]]:
        """Update the multipliers for the new Z, then solve every client's own problem, equations (4) and (2)."""
        stage, shared, penalty = common["stage"], common["shared"], float(common["penalties"][0, 2])
        own = [
            memory if memory is not None and memory.stage == stage else self._enter(common, data)
            for data, memory in zip(prepared, memories, strict=True)
        ]
        values, vectors, dual, local = (
            np.stack([getattr(memory, name) for memory in own]) for name in ("values", "vectors", "dual", "local")
        )
        spectrum = Spectrum(values[:, None], vectors[:, None], shared.shape[-1])  # the same for every candidate
        dual = dual_step(dual, local, shared, np.array([memory.penalty for memory in own])[:, None, None, None])
        local = client_step(spectrum, dual, shared, penalty)
        target = local + dual / penalty
        gap = ((local - shared) ** 2).sum(axis=(2, 3))
        variance = residual_variance(spectrum, shared)
        return [
            (
                Message(
                    {"target": target[k], "gap": gap[k], "variance": variance[k]},
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
        spectrum = decompose(gram, shared.shape[-1])
        return FDBNLMemory(common["stage"], spectrum.values, spectrum.vectors, np.zeros_like(shared), shared, 0.0)

    def _judge(self, common: Message, prepared: Prepared, memory: FDBNLMemory | None) -> FloatArray:
        scale, densities = common["scale"], []
        for weights, squares in zip(common["shared"], common["variance"], strict=True):
            network = self._network(weights, scale=scale)
            variance = scale[: network.within.shape[0]] ** 2 * unbiased(squares, common["rows"], network)
            densities.append(log_densities(prepared.judged, network, common["mean"], variance))
        return np.array(densities)

    # At the server.

    def _step(self, state: StagedState, answers: Answers, share: float) -> tuple[StagedState, Metrics, bool]:
        """The server's problem (3), then the penalties of equation (4), for each candidate."""
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
        grown = [
            one.updated(measured.cycles, self.cycle_growth**share, self.consensus_growth**share)
            for one, measured in zip(penalties, found, strict=True)
        ]
        metrics = {
            "loss": float(variance.sum(axis=1).min()) / 2,
            "cycles": max(one.cycles for one in found),
            "primal": max(one.primal for one in found),
            "change": max(one.change for one in found),
        }
        if state.refitting:
            grown = penalties
        stepped = replace(state, shared=np.stack(shared), variance=variance, penalties=np.array(grown))
        return stepped, metrics, all(one.small(self.cycle_tolerance, self.tolerance) for one in found)

    def _solve_fields(self, state: StagedState) -> Mapping[str, Spec]:
        candidates, side, count = state.shared.shape
        variance = "what the shared network leaves unexplained in your rows"
        return {
            "target": Spec(
                (candidates, side, count), description="your own fit of the network plus its scaled multiplier"
            ),
            "gap": Spec((candidates,), low=0, description="how far your own fit is from the shared network"),
            "variance": Spec((candidates, count), low=0, description=variance),
        }

    def result(self, outcome: Outcome) -> FittedNetwork:
        """The network in the units of the data."""
        state: StagedState = outcome.state
        return FittedNetwork(outcome, self._network(state.shared[0], state.variables, state.scale[1]))


def residual_variance(spectrum: Spectrum, shared: FloatArray) -> FloatArray:
    """Mean square of each variable's residual under Z: the diagonal of E'GE with E = [I; 0] - Z."""
    error = -shared
    error[..., : spectrum.variables, :] += np.eye(spectrum.variables)
    rotated = np.swapaxes(spectrum.vectors, -1, -2) @ error
    variance: FloatArray = (spectrum.values[..., :, None] * rotated**2).sum(axis=-2)
    return variance
