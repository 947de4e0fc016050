"""Diagnostics of a fitted intensity: time rescaling and coverage."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from cotempo.errors import DataError
from cotempo.events.intensities.base import Band
from cotempo.typing import Floats


class Rescaling(NamedTuple):
    """Kolmogorov-Smirnov test of waiting times on the model's clock against unit exponentials."""

    statistic: float
    p_value: float
    waits: Floats


def rescaling_test(waits: Sequence[ArrayLike]) -> Rescaling:
    """Test the waiting times that `rescale` gave, all sequences together.

    On events the model was fitted to, the p-value is too large: it holds for new events.

    Examples
    --------
    >>> waits = np.random.default_rng(0).exponential(size=(5, 100))
    >>> rescaling_test(list(waits)).p_value > 0.01
    True
    """
    joined = np.sort(np.concatenate([np.zeros(0), *(np.asarray(part, dtype=np.float64) for part in waits)]))
    if not len(joined):
        raise DataError("there must be at least one event to test, there is none")
    test = stats.kstest(joined, "expon")
    return Rescaling(float(test.statistic), float(test.pvalue), joined)


def coverage(band: Band, truth: ArrayLike) -> float:
    """Return the share of true values inside a band.

    Examples
    --------
    >>> coverage(Band(np.ones(2), np.zeros(2), np.full(2, 2.0)), [1.0, 3.0])
    0.5
    """
    true = np.asarray(truth, dtype=np.float64)
    return float(np.mean((band.lower <= true) & (true <= band.upper)))
