"""When FDBNL's rounds have done their work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.admm.acyclicity import acyclicity

FloatArray = NDArray[np.float64]


class Residuals(NamedTuple):
    """How far a round is from a solution, free of the number of variables.

    Attributes
    ----------
    cycles : float
        h(W).
    primal : float
        Root of the weighted mean of ``|Z_k - Z|^2``, Z being what the client was sent, over ``max(1, |Z|)``.
    change : float
        ``|Z_new - Z_old|`` over ``max(1, |Z|)``: the dual residual without its factor rho_2.
    """

    cycles: float
    primal: float
    change: float

    def small(self, cycle_tolerance: float = 1e-5, tolerance: float = 0.01) -> bool:
        """Say whether to stop. Small h alone is not enough: an all-zero W has no cycles either."""
        return self.cycles <= cycle_tolerance and max(self.primal, self.change) <= tolerance


def residuals(shared: FloatArray, previous: FloatArray, mean_square_gap: float) -> Residuals:
    """Measure a round from what the server holds.

    A client measures its gap against the Z it was sent, because it sees the new one only a round later; gap and
    change together bound its distance to the new one.

    Parameters
    ----------
    shared, previous : ((lags + 1) variables, variables)
        The new and the last Z.
    mean_square_gap : float
        Weighted mean over clients of ``|Z_k - previous|^2``.

    Examples
    --------
    >>> import numpy as np
    >>> empty = np.zeros((2, 2))
    >>> residuals(empty, empty, mean_square_gap=0.25), residuals(empty, empty, 0.25).small()
    (Residuals(cycles=0.0, primal=0.5, change=0.0), False)
    """
    size = max(1.0, float(np.linalg.norm(shared)))
    return Residuals(
        cycles=acyclicity(shared[: shared.shape[1]])[0],
        primal=mean_square_gap**0.5 / size,
        change=float(np.linalg.norm(shared - previous)) / size,
    )
