"""The papers' baselines: DYNOTEARS without a federation.

`Local` learns at each client alone, `Ave` averages what they found, `Best` picks the one nearest to a known truth, and
`Alldata` learns on everybody's rows in one place. None of them is federated: `Alldata` needs what nobody may have.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

import cotempo as ct
from cotempo.networks.admm.acyclicity import acyclicity, prune
from cotempo.networks.fdbnl import Penalties, penalty_step
from cotempo.networks.metrics import score_network
from cotempo.networks.moments import Gram, check_table, cut_transitions
from cotempo.networks.network import Network
from cotempo.networks.pfdbnl import penalised_step
from cotempo.typing import Floats

ROUNDS = 20
CYCLE_GROWTH = 10.0  # of rho_1, each round
NO_CYCLE = 1e-8  # h(W) below which the rounds end


def dynotears(gram: Floats, variables: int, sparsity: tuple[float, float] = (0.05, 0.05)) -> Floats:
    """Learn Z = [W; A] from a Gram per row: the penalty on cycles grows until none is left.

    Parameters
    ----------
    gram : ((lags + 1) variables, (lags + 1) variables)
        From `Gram.per_row`.
    sparsity : (float, float)
        lambda_W and lambda_A.

    References
    ----------
    Pamfil et al., DYNOTEARS: Structure Learning from Time-Series Data, AISTATS 2020.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cause = rng.normal(size=1000)
    >>> rows = np.column_stack([cause, 0.8 * cause + rng.normal(size=1000)])
    >>> dynotears(rows.T @ rows / 1000, variables=2).round(1).tolist()
    [[0.0, 0.8], [0.0, 0.0]]
    """
    linear = gram[:, :variables]
    found = np.zeros_like(linear)
    penalties = Penalties()
    for _ in range(ROUNDS):
        found = penalised_step(gram, linear, found, sparsity, penalties, passes=2)
        cycles, _ = acyclicity(found[:variables])
        penalties = penalty_step(penalties, cycles, CYCLE_GROWTH, consensus_growth=1.0)
        if cycles <= NO_CYCLE:
            break
    return found


class Baseline(BaseModel):
    """What the baselines have in common.

    Parameters
    ----------
    lags
        How many past time steps can act.
    lambda_within, lambda_across
        Sparsity, per average squared loss.
    threshold, threshold_across
        Weights below them are no edges, within a time step and across.
    centred
        Subtract the mean of the rows that are learned from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lags: int = Field(1, ge=0, le=50)
    lambda_within: float = Field(0.05, ge=0)
    lambda_across: float = Field(0.05, ge=0)
    threshold: float = Field(0.15, ge=0)
    threshold_across: float = Field(0.1, ge=0)
    centred: bool = True

    def _learn(self, table_rows: Floats) -> Floats:
        gram = Gram.of_rows(table_rows)
        mean = gram.mean if self.centred else np.zeros_like(gram.mean)
        count = len(mean) // (self.lags + 1)
        return dynotears(gram.per_row(mean), count, (self.lambda_within, self.lambda_across))

    def learn_each(self, clients: Mapping[str, ct.Series]) -> dict[str, Floats]:
        """Return every client's Z = [W; A], learned alone; `fit` takes it, to learn it once for several baselines."""
        return {name: self._learn(rows) for name, rows in read_rows(clients, self.lags).items()}

    def _network(self, weights: Floats, variables: tuple[str, ...], *, acyclic: bool = True) -> Network:
        count = len(variables)
        within = weights[:count]
        within = prune(within, self.threshold) if acyclic else _cut(within, self.threshold)
        across = _cut(weights[count:], self.threshold_across).reshape(self.lags, count, count)
        return Network(within, across, variables)


class Local(Baseline):
    """Every client learns alone.

    Examples
    --------
    >>> clients, truth = ct.make_networks(variables=4, clients=2, samples=200, seed=0)
    >>> sorted(Local().fit(clients))
    ['client-0', 'client-1']
    """

    def fit(self, clients: Mapping[str, ct.Series], learned: Mapping[str, Floats] | None = None) -> dict[str, Network]:
        """Return one network per client."""
        found = learned or self.learn_each(clients)
        return {name: self._network(weights, clients[name].features) for name, weights in found.items()}


class Ave(Baseline):
    """The mean of the clients' weights, then the threshold; as in the papers it may have cycles."""

    def fit(self, clients: Mapping[str, ct.Series], learned: Mapping[str, Floats] | None = None) -> Network:
        """Return the averaged network."""
        found = learned or self.learn_each(clients)
        names = next(iter(clients.values())).features
        return self._network(np.mean(list(found.values()), axis=0), names, acyclic=False)


class Best(Baseline):
    """The network of the client that is nearest to the truth, which must be known: a bound, not a method."""

    def fit(
        self, clients: Mapping[str, ct.Series], truth: Network, learned: Mapping[str, Floats] | None = None
    ) -> Network:
        """Return the best of the clients' networks."""
        local = Local(**self.model_dump()).fit(clients, learned)
        return min(local.values(), key=lambda network: score_network(network, truth)["shd_double"])


class Alldata(Baseline):
    """DYNOTEARS on the rows of all clients, in one place."""

    def fit(self, clients: Mapping[str, ct.Series]) -> Network:
        """Return the network of the pooled rows."""
        rows = np.vstack(list(read_rows(clients, self.lags).values()))
        return self._network(self._learn(rows), next(iter(clients.values())).features)


def read_rows(clients: Mapping[str, ct.Series], lags: int) -> dict[str, Floats]:
    """Return every client's complete transitions; refuse tables that nothing can be learned from."""
    for table in clients.values():
        check_table(table)
    return {name: cut_transitions(table, lags).values for name, table in sorted(clients.items())}


def _cut(weights: Floats, threshold: float) -> Floats:
    return np.where(np.abs(weights) >= threshold, weights, 0.0)
