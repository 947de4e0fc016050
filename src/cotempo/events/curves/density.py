"""Kernel density of an intensity, from counts and exposures of equal cells (`smooth`)."""

from typing import NamedTuple

import numpy as np
from scipy.fft import dct, idct, irfft, rfft

from cotempo.typing import Floats


def density(count: Floats, exposure: Floats, closed: bool = False) -> Floats:
    """Return the rate of each cell by a Gaussian kernel whose width has the best leave-one-out likelihood."""
    return smooth(count, exposure, closed).rate


class Smooth(NamedTuple):
    """A kernel estimate: the rate, that without an event of the cell itself, ``(cells,)``, and its likelihood."""

    width: float
    rate: Floats
    without: Floats
    score: float
    closed: bool


def smooth(count: Floats, exposure: Floats, closed: bool = False) -> Smooth:
    """Return the kernel estimate of the best width."""
    widths = np.geomspace(0.5, 0.5 / len(count), 48)
    return max((smooth_by(count, exposure, width, closed) for width in widths), key=lambda found: found.score)


def smooth_by(count: Floats, exposure: Floats, width: float, closed: bool = False) -> Smooth:
    """Smooth counts over smoothed exposures by a kernel of this width in windows.

    At both ends it is reflected; where the window is `closed`, one period, it goes on at the other end. The rate is
    drawn to the mean by the weight of half an event spread over the kernel. Many rows of counts, ``(..., cells)``, are
    smoothed at once.
    """
    cells = count.shape[-1]
    mean = max(float(count.sum()) * cells / count.size, 0.5) / float(exposure.sum())
    damping = np.exp(-0.5 * ((2 if closed else 1) * np.pi * np.arange(cells) * width) ** 2)
    # `own` is what an event adds where it stands, the diagonal of the smoothing matrix.
    if closed:
        half = damping[: cells // 2 + 1]
        events, watched = (np.maximum(irfft(rfft(part) * half, cells), 0.0) for part in (count, exposure))
        own = np.full(cells, float(irfft(half, cells)[0]))
    else:
        events, watched = (
            np.maximum(idct(dct(part, norm="ortho") * damping, norm="ortho"), 0.0) for part in (count, exposure)
        )
        # Near an end its reflection adds to it.
        middles = (np.arange(cells) + 0.5) / cells
        straight = float((damping[0] + 2 * damping[1:].sum()) / (2 * cells))
        reflected = sum(np.exp(-2 * ((middles - end) / width) ** 2) for end in (0.0, 1.0))
        own = straight + 1 / (np.sqrt(2 * np.pi) * width * cells) * reflected
    rate, without = ((events + part * own) / (watched + 0.5 * own / mean) for part in (0.5, -0.5))
    without = np.maximum(without, 1e-3 * mean)
    return Smooth(width, rate, without, float((count * np.log(without)).sum() - (exposure * rate).sum()), closed)
