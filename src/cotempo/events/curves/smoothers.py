"""Simple estimates of an intensity from counts and exposure of equal cells: a histogram and a kernel density.

Counts and exposures may be sums over sequences and over clients.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import dct, idct
from scipy.special import xlogy

from cotempo.typing import Floats


def histogram(count: Floats, exposure: Floats) -> Floats:
    """Return the rate of each cell by a histogram whose number of equal bins has the best AIC, ``(cells,)``.

    Bins hold whole cells, and are drawn to the mean rate by the weight of half an event.

    Examples
    --------
    >>> histogram(np.repeat([20.0, 60.0], 50), np.ones(100))[[0, 99]].round().tolist()
    [20.0, 60.0]
    """
    cells, mean = len(count), max(float(count.sum()), 0.5) / float(exposure.sum())
    events, watched = (np.append(0.0, np.cumsum(part)) for part in (count, exposure))
    best, edges = -np.inf, np.array([0, cells])
    for bins in bin_numbers(cells):
        cut = np.rint(np.linspace(0, cells, bins + 1)).astype(np.intp)
        score = akaike(np.diff(events[cut]), np.diff(watched[cut]), mean)
        if score > best:
            best, edges = score, cut
    rate = (np.diff(events[edges]) + 0.5) / (np.diff(watched[edges]) + 0.5 / mean)
    return np.repeat(rate, np.diff(edges))


def akaike(seen: Floats, watched: Floats, mean: float) -> float:
    """Return Akaike's criterion, halved and more being better: the highest log likelihood less the number of bins.

    An event where nothing was watched, as at a window's end on the edge of a cell, is predicted by the mean rate.
    """
    length = np.where(watched > 0, watched, seen / mean)
    return float(xlogy(seen, seen).sum() - xlogy(seen, length).sum()) - len(seen)


def bin_numbers(cells: int) -> list[int]:
    """Return all numbers of bins up to 64, then steps of 4 %, to as many as there are cells and 512 at most."""
    last = min(cells, 512)
    further = np.rint(64 * 1.04 ** np.arange(1, 60)).astype(int)
    return [*range(1, min(last, 64) + 1), *(int(number) for number in further if number <= last)]


def density(count: Floats, exposure: Floats) -> Floats:
    """Return the rate of each cell by a Gaussian kernel whose width has the best leave-one-out likelihood.

    Examples
    --------
    >>> density(np.repeat([20.0, 60.0], 50), np.ones(100))[[0, 99]].round().tolist()
    [20.0, 60.0]
    """
    return smooth(count, exposure).rate


class Smooth(NamedTuple):
    """A kernel estimate: the rate, that without an event of the cell itself, ``(cells,)``, and its likelihood."""

    width: float
    rate: Floats
    without: Floats
    score: float


def smooth(count: Floats, exposure: Floats) -> Smooth:
    """Return the kernel estimate of the best width."""
    widths = np.geomspace(0.5, 0.5 / len(count), 48)
    return max((smooth_by(count, exposure, width) for width in widths), key=lambda found: found.score)


def smooth_by(count: Floats, exposure: Floats, width: float) -> Smooth:
    """Smooth counts over smoothed exposures, reflected at both ends, by a kernel of this width in windows.

    The rate is drawn to the mean by the weight of half an event spread over the kernel. Many rows of counts, ``(...,
    cells)``, are smoothed at once.
    """
    cells = count.shape[-1]
    mean = max(float(count.sum()) * cells / count.size, 0.5) / float(exposure.sum())
    damping = np.exp(-0.5 * (np.pi * np.arange(cells) * width) ** 2)
    events, watched = (
        np.maximum(idct(dct(part, norm="ortho") * damping, norm="ortho"), 0.0) for part in (count, exposure)
    )
    # What an event adds where it stands; near an end its reflection stands there too.
    own = _self_weight(cells, width, damping)
    rate, without = ((events + part * own) / (watched + 0.5 * own / mean) for part in (0.5, -0.5))
    without = np.maximum(without, 1e-3 * mean)
    return Smooth(width, rate, without, float((count * np.log(without)).sum() - (exposure * rate).sum()))


def _self_weight(cells: int, width: float, damping: Floats) -> Floats:
    """Return the diagonal of the smoothing matrix, ``(cells,)``."""
    middles = (np.arange(cells) + 0.5) / cells
    straight = float((damping[0] + 2 * damping[1:].sum()) / (2 * cells))
    reflected = sum(np.exp(-2 * ((middles - end) / width) ** 2) for end in (0.0, 1.0))
    peak = 1 / (np.sqrt(2 * np.pi) * width * cells)
    return np.asarray(straight + peak * reflected)
