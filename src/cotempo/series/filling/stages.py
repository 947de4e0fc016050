"""Filling missing cells in stages: interpolation first, then each stage as far as its gate lets it in.

A stage is anything with `names` and `fill`, as `Stage` has them; to add one, put it into `Filler.stages`. Its gates are
chosen with those of all others by `cotempo.series.filling.gates.choose_gates`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cotempo.series.filling.gaps import KINDS, kinds_of
from cotempo.series.filling.interpolation import interpolate_rows
from cotempo.series.scale import Scale
from cotempo.series.filling.factor_models import Ties
from cotempo.series.windows import Cover, Rows

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.series.season import Season
    from cotempo.series.settings import Sizes
    from cotempo.series.nn.losses import Teacher

Floats = NDArray[np.float64]
MOST_WINDOWS = 512


class Stage(Protocol):
    """Something that fills, once or in several ways."""

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each of its fillings."""

    def fill(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill scaled rows, ``(names, rows, features)``; only missing cells are looked at."""


@dataclass(frozen=True)
class Filler:
    r"""What fills an owner's gaps.

    .. math:: f_0 = g_0, \qquad f_k = (1 - a_k) f_{k - 1} + a_k g_k

    with the interpolant :math:`g_0`, the fillings :math:`g_k` of the stages in their order, and gates :math:`a_k` in
    [0, 1].

    Attributes
    ----------
    scale
        Of all features, the common ones first.
    gates
        :math:`a` for each feature, kind of gap and filling, ``(features, kinds, fillings)``.
    common
        How many features are common: gates of common features are chosen together, and those of the others.
    season
        What is taken off before anything else, and put on again, if anything is.
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
        """A filler that trusts none of its fillings yet but the one that is named: interpolation, if none is."""
        features, names = len(scale.low), [name for stage in stages for name in stage.names]
        gates = np.zeros((features, KINDS, len(names))) + np.array([name == trusted for name in names])
        return cls(scale, stages, gates, features if common is None else common)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fillings after interpolation."""
        return tuple(name for stage in self.stages for name in stage.names)

    def rows(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill rows, in the units of the data."""
        if not np.isnan(rows.values).any():
            return rows.values
        filled = self.scale.undo(self.scaled(self.inner(rows), sizes))
        level = 0.0 if self.season is None else self.season.at(rows.clock)
        return np.where(np.isnan(rows.values), filled + level, rows.values)

    def inner(self, rows: Rows) -> Rows:
        """Rows as stages see them: without the season, and scaled."""
        calm = rows if self.season is None else self.season.remove(rows)
        return calm.with_values(self.scale.apply(calm.values))

    def scaled(self, rows: Rows, sizes: Sizes) -> Floats:
        """Fill rows that are as stages see them."""
        return self.mix(*self.fillings(rows, sizes))

    def mix(self, fillings: Floats, kinds: NDArray[np.intp]) -> Floats:
        """Let in `fillings` as far as gates say, ``(rows, features)``."""
        return blend(fillings, self.gates[np.arange(kinds.shape[1]), kinds])

    def fillings(self, rows: Rows, sizes: Sizes) -> tuple[Floats, NDArray[np.intp]]:
        """All fillings of scaled rows, interpolation first, ``(1 + fillings, rows, features)``, and `kinds_of` them."""
        lines = interpolate_rows(rows, self.scale.centre)[None]
        found = np.concatenate([lines, *(stage.fill(rows, sizes) for stage in self.stages)])
        return np.where(np.isnan(rows.values), found, lines), kinds_of(rows, sizes.reach)


def blend(fillings: Floats, gates: Floats) -> Floats:
    """Fillings ``(1 + n, ...)`` let in one after the other by gates ``(..., n)``."""
    found = fillings[0]
    for place, filling in enumerate(fillings[1:]):
        found = found + gates[..., place] * (filling - found)
    return np.asarray(found)


def in_windows(rows: Rows, sizes: Sizes, fill: Callable[[Floats], Floats]) -> Floats:
    """Fill rows by what fills windows ``(windows, reach, features)``, which overlap by three quarters."""
    cover = Cover(rows, sizes.reach, max(1, sizes.reach // 4))
    windows = cover.windows(rows.values)
    parts = [fill(windows[k : k + MOST_WINDOWS]) for k in range(0, len(windows), MOST_WINDOWS)]
    return np.stack([cover.blend(filling) for filling in np.concatenate(parts, axis=1)])


@dataclass(frozen=True)
class Tied:
    """Ties alone: what the features measured in the same row say."""

    ties: Ties
    names: tuple[str, ...] = ("ties",)

    def fill(self, rows: Rows, sizes: Sizes) -> Floats:
        """Relate features in windows."""
        return in_windows(rows, sizes, lambda windows: _fillings(windows, self.ties, None, None, sizes))


@dataclass(frozen=True)
class Taught:
    """The teacher at rest: its weights, scale and ties of the common features, and its imputer of tokens, if any."""

    weights: NDArray[Any]
    scale: Scale
    ties: Ties
    tokens: NDArray[Any] | None = None


@dataclass(frozen=True)
class Networks:
    """Imputers, each a correction of the one before, the first of ties.

    The teacher corrects the common features, which it knows by name; its second imputer, of tokens, any feature; and so
    does the owner's own. Without a teacher there is only the last, and without that the last stands for what it would
    have corrected.
    """

    ties: Ties
    teacher: Taught | None
    own: NDArray[Any] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the imputers."""
        return ("own",) if self.teacher is None else ("teacher", "tokens", "own")

    def fill(self, rows: Rows, sizes: Sizes) -> Floats:
        """Correct windows one imputer after the other."""
        found = in_windows(rows, sizes, lambda windows: _fillings(windows, self.ties, self.teacher, self.own, sizes))
        return found[-len(self.names) :]


def make_teacher(taught: Taught, sizes: Sizes) -> Teacher:
    """The teacher, ready to fill."""
    import torch

    from cotempo.devices import find_device
    from cotempo.series.nn.parameters import views
    from cotempo.series.nn.losses import Teacher
    from cotempo.series.nn.training import load_ties

    imputer, place, common = sizes.imputer(), find_device(sizes.device), len(taught.ties.centre)
    flat = torch.tensor(taught.weights[None], device=place)
    weights, ties = views(flat, imputer.leaves(common)), load_ties([taught.ties], common, place, flat.dtype)
    if taught.tokens is None:
        return Teacher(imputer, weights, ties)
    tokens = sizes.token_imputer()
    flat = torch.tensor(taught.tokens[None], device=place)
    return Teacher(imputer, weights, ties, tokens, views(flat, tokens.leaves(common)))


def _fillings(windows: Floats, ties: Ties, taught: Taught | None, own: NDArray[Any] | None, sizes: Sizes) -> Floats:
    """Fillings of scaled windows by ties, by the teacher twice, and by the own imputer, those that there are."""
    import torch

    from cotempo.devices import find_device
    from cotempo.series.nn.parameters import views
    from cotempo.series.nn.losses import first_guess, relate
    from cotempo.series.nn.training import load_ties

    place, dtype = find_device(sizes.device), getattr(torch, sizes.precision)
    seen = torch.tensor(~np.isnan(windows), device=place)[None]
    values = torch.tensor(np.nan_to_num(windows), device=place, dtype=dtype)[None]
    loaded = load_ties([ties], windows.shape[2], place, dtype)
    with torch.no_grad():
        given = relate(first_guess(values, seen, loaded["centre"]), loaded)
        found: list[Tensor] = [given.guess]
        if taught is not None:
            teacher = make_teacher(taught, sizes)
            found += teacher.fillings(given, loaded["spread"])
            given = teacher.join(given, *found[1:])
        if own is not None:
            imputer = sizes.imputer()
            flat = torch.tensor(own, device=place)[None]
            found.append(imputer(views(flat, imputer.leaves(windows.shape[2])), given, loaded["spread"]))
        elif taught is not None:
            found.append(found[-1])
    return np.asarray(torch.stack(found)[:, 0].double().cpu().numpy())
