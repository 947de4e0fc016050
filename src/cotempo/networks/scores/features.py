"""`JointRows`: a target and the columns that may explain it, the same at every client, so that moments add up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotempo.networks.moments import lagged
from cotempo.typing import Floats, Indices


class Column(NamedTuple):
    """One column of the joint rows: "now", "lag", "square", "product" or "wave" of some variables, `lag` steps ago."""

    kind: str
    sources: tuple[int, ...]
    lag: int


@dataclass(frozen=True, eq=False)
class JointRows:
    """Recipe for joint rows: the variables now, ``x_t``, and what may explain them.

    Columns come in the order now, lags 1 to p, squares ``x_i^2`` and products ``x_i x_k`` of lag 1, then random
    Fourier features ``sqrt(2) cos(w x_i + c)`` of every variable and lag. Products come with squares. `waves`,
    `(2, features)`, are frequencies w and phases c, drawn once and sent to every client.
    """

    variables: int
    lags: int
    squares: bool = False
    products: bool = False
    waves: Floats | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The meaning of each column."""
        singles = [(source,) for source in range(self.variables)]
        found = [Column("lag" if lag else "now", one, lag) for lag in range(self.lags + 1) for one in singles]
        if self.squares or self.products:
            found += [Column("square", one, 1) for one in singles]
        if self.products:
            found += [Column("product", (int(i), int(k)), 1) for i, k in zip(*self._pairs, strict=True)]
        if self.waves is not None:
            repeats = range(self.waves.shape[1])
            found += [Column("wave", one, lag) for lag in range(1, self.lags + 1) for _ in repeats for one in singles]
        return tuple(found)

    @property
    def _pairs(self) -> tuple[Indices, Indices]:
        return np.triu_indices(self.variables, 1)

    def rows(self, piece: Floats) -> Floats:
        """Return the joint rows of one contiguous piece, `(times - lags, columns)`; NaN where a cell is missing."""
        linear = lagged(piece, self.lags)[self.lags :]
        blocks, (_, *pasts) = [linear], np.split(linear, self.lags + 1, axis=1)
        if self.squares or self.products:
            blocks.append(pasts[0] ** 2)
        if self.products:
            first, second = self._pairs
            blocks.append(pasts[0][:, first] * pasts[0][:, second])
        if self.waves is not None:
            blocks += [2**0.5 * np.cos(w * past + c) for past in pasts for w, c in self.waves.T]
        return np.hstack(blocks)


def draw_waves(count: int, rng: np.random.Generator) -> Floats:
    """Draw frequencies and phases, whose features approximate the mean of two Gaussian kernels on standardised values.

    The kernels have length 1 and 1/2: one alone misses effects that turn round within a standard deviation.

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.
    """
    frequencies = rng.normal(size=count) * (1.0 + np.arange(count) % 2)
    return np.stack([frequencies, rng.uniform(0.0, 2.0 * np.pi, size=count)])
