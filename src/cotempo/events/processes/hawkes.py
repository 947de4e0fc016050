"""Hawkes processes, in which events excite further events."""

from dataclasses import dataclass

import numpy as np

from cotempo.events.processes.base import PointProcess
from cotempo.events.records.history import Unrolled
from cotempo.events.records.record import Record
from cotempo.events.records.summary import Summary
from cotempo.typing import Floats

# Below 1, over-relaxed expectation-maximisation still converges (Salakhutdinov and Roweis, 2003).
RELAXATION = 0.8


@dataclass(frozen=True)
class Hawkes(PointProcess):
    r"""Self-excitation with fixed decays: :math:`\lambda(t) = \mu + \sum_k \alpha_k \beta_k R_k(t)`.

    Expectation-maximisation from sums (Veen and Schoenberg, 2008): which part of the intensity an event came from,
    and how many children a unit of each excitation would have had.
    """

    summary: Summary
    count: int = 5

    @property
    def decays(self) -> Floats:  # type: ignore[override]
        """Decays between the long and the short gaps between events."""
        if self.count == 1:
            return np.array([1 / self.summary.gaps[1]])
        return np.geomspace(0.5 / self.summary.gaps[-1], 1 / self.summary.gaps[0], self.count)

    def start(self) -> Floats:
        """Start with half the events spontaneous."""
        rate = max(self.summary.events, 0.5) / self.summary.exposure
        return np.append(0.5 * rate, np.full(self.count, 0.5 / self.count))

    def _parts(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        excited = parameters[1:] * self.decays * unrolled.recency
        return np.column_stack([np.full(len(excited), parameters[0]), excited])

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return expected origins of the events, and the masses of unit parameters, ``(2 * (decays + 1),)``."""
        parts = self._parts(unrolled, parameters)
        origins = (unrolled.count[:, None] * parts / parts.sum(axis=1, keepdims=True)).sum(axis=0)
        return np.concatenate([origins, [record.exposure], self._unit_mass(unrolled).sum(axis=0)])

    def _unit_mass(self, unrolled: Unrolled) -> Floats:
        fall = np.exp(-unrolled.lower[:, None] * self.decays) - np.exp(-unrolled.upper[:, None] * self.decays)
        return np.asarray(unrolled.origin_recency * fall)

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return origins over unit masses, and some of the way further: the plain step converges slowly."""
        half = len(sums) // 2
        origins, masses = sums[:half], sums[half:]
        floor = 1e-6 * self.start()
        plain = np.maximum(origins / np.maximum(masses, 1e-12), floor)
        return np.maximum(plain * (plain / parameters) ** RELAXATION, floor)

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return log of the sum of parts."""
        return np.asarray(np.log(self._parts(unrolled, parameters).sum(axis=1)))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Integrate in closed form."""
        return np.asarray(
            parameters[0] * (unrolled.upper - unrolled.lower) + self._unit_mass(unrolled) @ parameters[1:]
        )
