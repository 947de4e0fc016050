"""Linear interpolation and the last value: the bars every imputer is measured against."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]


def interpolate(series: Series) -> Series:
    """Fill each feature linearly between its neighbours in time, inside contiguous pieces.

    Before the first and after the last measurement of a piece its nearest one is repeated; a feature without any in a
    piece gets its mean over the table.

    Examples
    --------
    >>> interpolate(Series.from_arrays([[0.0], [float("nan")], [1.0]])).values.ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    return _fill(series, _linear)


def carry_forward(series: Series) -> Series:
    """Fill each feature with its last measurement in the piece; before the first, with the first.

    Examples
    --------
    >>> carry_forward(Series.from_arrays([[0.0], [float("nan")], [1.0]])).values.ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    return _fill(series, _last)


def interpolate_windows(values: Tensor, seen: Tensor, otherwise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Interpolate windows along time, all at once.

    Parameters
    ----------
    values, seen
        ``(..., length, features)``; `values` must be finite everywhere and counts only where `seen`.
    otherwise
        What to put where a window has no measurement of a feature; broadcasts against `values`.

    Returns
    -------
    tuple of Tensor
        The interpolant, and the distance in steps to the measurement before and after (`length` where there is none).
    """
    import torch

    length = values.shape[-2]
    place = torch.arange(length, device=values.device)[:, None].expand(values.shape)
    before = torch.where(seen, place, -1).cummax(-2).values
    after = torch.where(seen, place, length).flip(-2).cummin(-2).values.flip(-2)
    left = values.gather(-2, torch.where(before >= 0, before, after).clamp(0, length - 1))
    right = values.gather(-2, torch.where(after < length, after, before).clamp(0, length - 1))
    back = torch.where(before >= 0, place - before, length).to(values.dtype)
    forth = torch.where(after < length, after - place, length).to(values.dtype)
    inner = (before >= 0) & (after < length) & ~seen
    share = torch.where(inner, back / (back + forth).clamp(min=1), torch.zeros_like(back))
    line = torch.where(seen, values, left + share * (right - left))
    return torch.where(seen.any(-2, keepdim=True), line, otherwise), back, forth


def _fill(series: Series, rule: object) -> Series:
    values = series.values.copy()
    with np.errstate(invalid="ignore"):
        count = (~np.isnan(values)).sum(axis=0)
        means = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), 0.0)
    start = 0
    for time, piece in series.pieces():
        for column in range(values.shape[1]):
            seen = ~np.isnan(piece[:, column])
            part = rule(time, piece[:, column], seen) if seen.any() else means[column]  # type: ignore[operator]
            values[start : start + len(time), column] = part
        start += len(time)
    return replace(series, values=values)


def _linear(time: Floats, values: Floats, seen: NDArray[np.bool_]) -> Floats:
    return np.interp(time, time[seen], values[seen])


def _last(time: Floats, values: Floats, seen: NDArray[np.bool_]) -> Floats:
    places = np.flatnonzero(seen)
    return np.asarray(values[places[np.maximum(np.searchsorted(places, np.arange(len(values)), "right") - 1, 0)]])
