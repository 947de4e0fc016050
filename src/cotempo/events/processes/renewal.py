"""Renewal processes, in which only the time since the last event matters."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp

from cotempo.events.processes.base import PointProcess
from cotempo.events.records.history import Unrolled
from cotempo.events.records.record import Record
from cotempo.events.records.summary import Summary
from cotempo.typing import Floats


@dataclass(frozen=True)
class Renewal(PointProcess):
    """Gaps between events are independent draws of a mixture of log-normals.

    Expectation-maximisation from sums; a gap that the window's end cuts off counts with its expected logarithm.
    Parameters are log weights, means and log deviations of the logarithm, ``(3 * components,)``.
    """

    summary: Summary

    def start(self) -> Floats:
        """Return one component around each known quantile of the gaps."""
        centres = np.log(self.summary.gaps)
        width = max((centres[-1] - centres[0]) / len(centres), 0.3)
        size = len(centres)
        return np.concatenate([np.full(size, -np.log(size)), centres, np.full(size, np.log(width))])

    def _standard(self, elapsed: Floats, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        weight, mean, log_deviation = parameters.reshape(3, -1)
        with np.errstate(divide="ignore"):
            log_elapsed = np.log(np.maximum(elapsed, 0.0))[:, None]
        return (log_elapsed - mean) / np.exp(log_deviation), weight, log_deviation

    def _log_density(self, elapsed: Floats, parameters: Floats) -> Floats:
        score, weight, log_deviation = self._standard(np.maximum(elapsed, 1e-12), parameters)
        jacobian = np.log(np.maximum(elapsed, 1e-12))[:, None]
        return np.asarray(weight - log_deviation - 0.5 * score**2 - 0.5 * np.log(2 * np.pi) - jacobian)

    def _log_survival(self, elapsed: Floats, parameters: Floats) -> Floats:
        score, weight, _ = self._standard(elapsed, parameters)
        return np.asarray(weight + log_ndtr(-score))

    def statistics(self, unrolled: Unrolled, record: Record, parameters: Floats) -> Floats:
        """Return per component: expected number of gaps, and sums of their logarithm and its square."""
        counted = (unrolled.count > 0) & (unrolled.elapsed > 0)
        joint = self._log_density(unrolled.elapsed[counted], parameters)
        share = unrolled.count[counted, None] * np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        logs = np.log(unrolled.elapsed[counted])[:, None]
        sums = np.stack([share.sum(axis=0), (share * logs).sum(axis=0), (share * logs**2).sum(axis=0)])
        waiting = unrolled.open[unrolled.open > 0]
        score, weight, log_deviation = self._standard(waiting, parameters)
        mean, deviation = parameters.reshape(3, -1)[1], np.exp(log_deviation)
        joint = weight + log_ndtr(-score)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        hazard = np.exp(-0.5 * score**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-score))
        first = mean + deviation * hazard
        second = mean**2 + 2 * mean * deviation * hazard + deviation**2 * (1 + score * hazard)
        waited = np.stack([share.sum(axis=0), (share * first).sum(axis=0), (share * second).sum(axis=0)])
        return np.asarray((sums + waited).ravel())

    def update(self, parameters: Floats, sums: Floats) -> Floats:
        """Return weighted moments; two pseudo-gaps per component hold it where it was."""
        number, first, second = sums.reshape(3, -1)
        _, old_mean, old_log_deviation = parameters.reshape(3, -1)
        total = number + 2
        mean = (first + 2 * old_mean) / total
        square = (second + 2 * (np.exp(2 * old_log_deviation) + old_mean**2)) / total
        # Tied and rounded gaps would make a component collapse onto one value.
        deviation = np.sqrt(np.maximum(square - mean**2, 0.02**2))
        return np.concatenate([np.log(total / total.sum()), mean, np.log(deviation)])

    def log_rate(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return log of density over survival."""
        density = logsumexp(self._log_density(unrolled.elapsed, parameters), axis=1)
        return np.asarray(density - self._cumulative(unrolled.elapsed, parameters))

    def _cumulative(self, elapsed: Floats, parameters: Floats) -> Floats:
        return np.asarray(logsumexp(self._log_survival(elapsed, parameters), axis=1))

    def mass(self, unrolled: Unrolled, parameters: Floats) -> Floats:
        """Return differences of the cumulative hazard."""
        gone = self._cumulative(unrolled.lower, parameters) - self._cumulative(unrolled.upper, parameters)
        return np.maximum(gone, 0.0)
