"""`Penalties` of the augmented Lagrangians, and the soft threshold that a sparsity penalty leads to."""

from typing import NamedTuple

import numpy as np

from cotempo.typing import Floats

LARGEST_CYCLE_PENALTY = 1e16  # beyond it, rho_1 h(W)^2 drowns everything else in rounding


class Penalties(NamedTuple):
    """alpha, rho_1 and rho_2 of the augmented Lagrangian."""

    multiplier: float = 0.0
    cycles: float = 1.0
    consensus: float = 1.0


def soft_threshold(values: Floats, threshold: float) -> Floats:
    """Shrink every value towards zero by the threshold: the minimiser of ``threshold |z| + (z - value)^2 / 2``.

    Examples
    --------
    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
