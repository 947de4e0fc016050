"""Filler: imputation in stages, interpolation first, then each `Stage` as far as its gate lets it in.

To add a stage, put it into `Filler.stages`; `cotempo.series.filling.gates.choose_gates` chooses its gates, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.filling.gaps import KINDS, interpolate_rows, kinds_of
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, Scale, SeriesRows
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.season import Season

MOST_WINDOWS = 512


class Stage(Protocol):
    """Anything that fills rows, in one or several ways."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return a name for each of its fillings."""

    def fill(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill scaled rows, ``(names, rows, features)``; only missing cells are looked at."""


class Fills(ABC):
    """Anything that fills rows in the units of the data."""

    @abstractmethod
    def rows(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill rows, in the units of the data."""

    def deviation(self, rows: SeriesRows, filled: Floats) -> Floats | None:
        """Return how far rows as filled may lie from the truth, in the units of the data; none if nothing says it."""
        return None

    def seeded(self, seed: int) -> Fills:
        """Return the same with another seed, where fillings are drawn."""
        return self


@dataclass(frozen=True)
class Filler(Fills):
    r"""An imputer of an owner's rows, in stages.

    .. math:: f_0 = g_0, \qquad f_k = (1 - a_k) f_{k - 1} + a_k g_k

    with the interpolant :math:`g_0`, the fillings :math:`g_k` of the stages in their order, and gates :math:`a_k` in
    [0, 1].

    `gates` has :math:`a`, ``(features, kinds, fillings)``; those of the first `common` features are chosen together,
    and so are the others. `season` is removed first and added back last.
    """

    scale: Scale
    stages: tuple[Stage, ...]
    gates: Floats
    common: int
    season: Season | None = None

    @classmethod
    def closed(
        cls, scale: Scale, stages: tuple[Stage, ...] = (), common: int | None = None, trusted: str | None = None
    ) -> Filler:
        """Make a filler with all gates closed, but for the filling named `trusted`: it interpolates, if none is."""
        features, names = len(scale.low), [name for stage in stages for name in stage.names]
        gates = np.zeros((features, KINDS, len(names))) + np.array([name == trusted for name in names])
        return cls(scale, stages, gates, features if common is None else common)

    def followed_by(self, *stages: Stage) -> Filler:
        """Return a filler of `stages` whose first fillings are those of this one; gates of the others are closed."""
        more = replace(self, stages=stages)
        closed = [(0, 0), (0, 0), (0, len(more.names) - len(self.names))]
        return replace(more, gates=np.pad(self.gates, closed))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the fillings after interpolation."""
        return tuple(name for stage in self.stages for name in stage.names)

    def rows(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill rows, in the units of the data."""
        if not np.isnan(rows.values).any():
            return rows.values
        filled = self.scale.undo(self.scaled(self.inner(rows), settings))
        level = 0.0 if self.season is None else self.season.at(rows.clock)
        return np.where(np.isnan(rows.values), filled + level, rows.values)

    def deviation(self, rows: SeriesRows, filled: Floats) -> Floats | None:
        """Return how far rows as filled may lie from the truth, by the process of a stage that knows it.

        Where the process has another mean than the filling, that counts as an error, too.
        """
        for stage in self.stages:
            if hasattr(stage, "measure"):
                mean, spread = stage.measure(self.inner(rows))
                apart = self.inner(rows.with_values(filled)).values - mean
                return np.asarray(np.sqrt(spread**2 + apart**2) * (self.scale.high - self.scale.low) / 2)
        return None

    def inner(self, rows: SeriesRows) -> SeriesRows:
        """Return rows as stages see them: without the season, and scaled."""
        bare = rows if self.season is None else self.season.remove(rows)
        return self.scale.rows(bare)

    def scaled(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill rows that are as stages see them."""
        return self.mix(*self.fillings(rows, settings))

    def mix(self, fillings: Floats, kinds: NDArray[np.intp]) -> Floats:
        """Blend `fillings` by the gates, ``(rows, features)``."""
        return blend(fillings, self.gates[np.arange(kinds.shape[1]), kinds])

    def fillings(self, rows: SeriesRows, settings: SeriesSettings) -> tuple[Floats, NDArray[np.intp]]:
        """Return all fillings of scaled rows, ``(1 + fillings, rows, features)``, and `kinds_of` the rows."""
        lines = interpolate_rows(rows, self.scale.centre)[None]
        found = np.concatenate([lines, *(stage.fill(rows, settings) for stage in self.stages)])
        return np.where(np.isnan(rows.values), found, lines), kinds_of(rows, settings.reach)


def blend(fillings: Floats, gates: Floats) -> Floats:
    """Blend fillings ``(1 + n, ...)`` one after the other by gates ``(..., n)``."""
    found = fillings[0]
    for place, filling in enumerate(fillings[1:]):
        found = found + gates[..., place] * (filling - found)
    return np.asarray(found)


def in_windows(rows: SeriesRows, settings: SeriesSettings, fill: Callable[[Floats], Floats]) -> Floats:
    """Fill rows by what fills windows ``(windows, reach, features)``, which overlap by three quarters."""
    cover = Cover(rows, settings.reach, max(1, settings.reach // 4))
    windows = cover.windows(rows.values)
    parts = [fill(windows[k : k + MOST_WINDOWS]) for k in range(0, len(windows), MOST_WINDOWS)]
    return np.stack([cover.blend(filling) for filling in np.concatenate(parts, axis=1)])


@dataclass(frozen=True)
class TeacherWeights:
    """The teacher at rest: its weights, scale and factor models of the common features, and its token imputer."""

    weights: NDArray[Any]
    scale: Scale
    factors: FactorModels
    tokens: NDArray[Any] | None = None


@dataclass(frozen=True)
class NetworkStage:
    """A stage: imputers, each a correction of the one before, the first a correction of factor models.

    The teacher corrects the common features, which it knows by name; its token imputer corrects any feature, and so
    does the owner's corrector `own`. Without `own`, its filling is that of the stage before it; without a teacher,
    too, the stage fills by factor models of the features measured in the same row.
    """

    factors: FactorModels
    teacher: TeacherWeights | None = None
    own: NDArray[Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return a name for each imputer."""
        if self.teacher is not None:
            return ("teacher", "tokens", "own")
        return ("factors",) if self.own is None else ("own",)

    def fill(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Correct windows by one imputer after the other."""
        from cotempo.series.nn.imputer import fill_windows

        given = (self.factors, self.teacher, self.own)
        found = in_windows(rows, settings, lambda windows: fill_windows(settings, windows, *given))
        return found[-len(self.names) :]
