"""The papers' baselines: DYNOTEARS without a federation.

`Local` learns at each client alone, `Ave` averages what they found, `Best` picks the one nearest to a known truth, and
`Alldata` learns on everybody's rows in one place. None of them is federated: `Alldata` needs what nobody may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotempo.data import Series
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.federation.method import explain
from cotempo.networks.admm.acyclicity import prune
from cotempo.networks.admm.dynotears import dynotears
from cotempo.networks.admm.trial_client import MINIMUM_TRANSITIONS
from cotempo.networks.metrics import score_network
from cotempo.networks.moments import Moments, centre, moments
from cotempo.networks.network import Network
from cotempo.networks.transitions import check_table

FloatArray = NDArray[np.float64]


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

    def __init__(self, **parameters: Any):
        """Store the parameters; one that is wrong or unknown raises `ParameterError`."""
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise ParameterError(explain(error, type(self).__name__, type(self).model_fields)) from None

    def _learn(self, own: Moments, count: int) -> FloatArray:
        mean = own.sums / own.rows if self.centred else np.zeros_like(own.sums)
        return dynotears(centre(own, mean), count, (self.lambda_within, self.lambda_across))

    def learn_each(self, clients: Mapping[str, Series]) -> dict[str, FloatArray]:
        """Return every client's Z = [W; A], learned alone; `fit` takes it, to learn it once for several baselines."""
        own = read_moments(clients, self.lags)
        return {name: self._learn(one, len(clients[name].features)) for name, one in own.items()}

    def _network(self, weights: FloatArray, variables: tuple[str, ...], *, acyclic: bool = True) -> Network:
        count = len(variables)
        within = weights[:count]
        within = prune(within, self.threshold) if acyclic else _cut(within, self.threshold)
        across = _cut(weights[count:], self.threshold_across).reshape(self.lags, count, count)
        return Network(within, across, variables)


class Local(Baseline):
    """Every client learns alone.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=4, clients=2, samples=200, seed=0)
    >>> sorted(Local().fit(clients))
    ['client-0', 'client-1']
    """

    def fit(self, clients: Mapping[str, Series], learned: Mapping[str, FloatArray] | None = None) -> dict[str, Network]:
        """Return one network per client."""
        found = learned or self.learn_each(clients)
        return {name: self._network(weights, clients[name].features) for name, weights in found.items()}


class Ave(Baseline):
    """The mean of the clients' weights, then the threshold; as in the papers it may have cycles."""

    def fit(self, clients: Mapping[str, Series], learned: Mapping[str, FloatArray] | None = None) -> Network:
        """Return the averaged network."""
        found = learned or self.learn_each(clients)
        names = next(iter(clients.values())).features
        return self._network(np.mean(list(found.values()), axis=0), names, acyclic=False)


class Best(Baseline):
    """The network of the client that is nearest to the truth, which must be known: a bound, not a method."""

    def fit(
        self, clients: Mapping[str, Series], truth: Network, learned: Mapping[str, FloatArray] | None = None
    ) -> Network:
        """Return the best of the clients' networks."""
        local = Local(**self.model_dump()).fit(clients, learned)
        return min(local.values(), key=lambda network: score_network(network, truth)["shd_double"])


class Alldata(Baseline):
    """DYNOTEARS on the rows of all clients, in one place."""

    def fit(self, clients: Mapping[str, Series]) -> Network:
        """Return the network of the pooled rows."""
        own = read_moments(clients, self.lags)
        names = next(iter(clients.values())).features
        return self._network(self._learn(pool(list(own.values())), len(names)), names)


def read_moments(clients: Mapping[str, Series], lags: int) -> dict[str, Moments]:
    """Sum up every client's transitions; tables that nothing can be learned from are refused by client."""
    problems, found = [], {}
    for name, table in sorted(clients.items()):
        try:
            check_table(table)
        except DataError as error:
            problems += [Problem(one.must, name, one.column, one.row) for one in error.problems]
            continue
        found[name] = moments([values for _, values in table.pieces()], lags)
        if found[name].rows < MINIMUM_TRANSITIONS:
            must = f"at least {MINIMUM_TRANSITIONS} stretches of {lags + 1} rows without a missing cell are needed"
            problems.append(Problem(f"{must}, there are {found[name].rows}", name))
    if problems:
        raise DataError(problems)
    return found


def pool(parts: list[Moments]) -> Moments:
    """Return the moments of all parts' rows together.

    Examples
    --------
    >>> parts = [moments([np.array([[1.0], [2.0]])], 0), moments([np.array([[6.0]])], 0)]
    >>> pool(parts)
    Moments(rows=3, sums=array([9.]), scatter=array([[14.]]))
    """
    rows = sum(part.rows for part in parts)
    sums = np.sum([part.sums for part in parts], axis=0)
    scatter = np.zeros_like(parts[0].scatter)
    for part in parts:
        shift = part.sums / part.rows - sums / rows
        scatter += part.scatter + part.rows * np.outer(shift, shift)
    return Moments(rows, sums, scatter)


def _cut(weights: FloatArray, threshold: float) -> FloatArray:
    return np.where(np.abs(weights) >= threshold, weights, 0.0)
