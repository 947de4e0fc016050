r"""Timeline: one curve of time for all clients, from sums of their counts and exposures in cells.

The intensity of client c is :math:`m_c\, r(t)\, e^{g_c(t)}`. With levels :math:`m_c` known, the curve :math:`r` depends
on the clients only through :math:`N_j = \sum_c n_{cj}` and :math:`E_j = \sum_c m_c e_{cj}`, events and weighted
exposure of cell j. Clients send both for each of a few folds, so the server can choose by cross-validated likelihood
summed over clients: which estimate, and how strongly bursts beyond Poisson's are tempered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotempo.events.change_points import level as steps
from cotempo.events.record import Floats
from cotempo.events.smoothers import density, histogram

PARTS = 48
# Powers of the dispersion that counts and exposures are divided by.
POWERS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Timeline:
    """What the server knows of the curve.

    Parameters
    ----------
    sums
        Events and weighted exposure of each fold and cell, ``(2, folds, cells)``.
    curves
        The curve without each fold, then of everything, ``(folds + 1, cells)``.
    smoother, temper
        The chosen estimate, and what counts and exposures are divided by for it.
    own
        What clients make of the curve, as `cotempo.events.levels.Own`.
    effect
        The design effect of sequences: how much their counts vary beyond Poisson's.
    """

    sums: Floats
    curves: Floats
    smoother: str
    temper: float
    own: Floats
    effect: float


def flat(events: Floats, exposure: Floats) -> Floats:
    """Return one rate for all cells."""
    return np.full(len(events), max(float(events.sum()), 0.5) / float(exposure.sum()))


def profile(events: Floats, exposure: Floats) -> Floats:
    """Return the rates of 48 equal parts, drawn to the mean rate by two pseudo-events, ``(cells,)``."""
    place = np.arange(len(events)) * PARTS // len(events)
    seen, watched = np.bincount(place, events), np.bincount(place, exposure)
    return np.asarray(((seen + 2) / (watched + 2 / flat(events, exposure)[0]))[place])


SMOOTHERS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "flat": flat, "profile": profile, "histogram": histogram, "density": density, "steps": steps,
}  # fmt: skip


def fit_curve(smoother: str, temper: float, events: Floats, exposure: Floats) -> Floats:
    """Return the rate of each cell, ``(cells,)``, by an estimate that believes one in `temper` events."""
    return SMOOTHERS[smoother](events / temper, exposure / temper)


def choose_curve(
    events: Floats, exposure: Floats, dispersion: float
) -> tuple[str, float, Floats, dict[str, float]]:
    """Choose estimate and tempering by cross-validated log-likelihood, given ``(folds, cells)`` each.

    Returns the two; the curve without each fold and the one of all, ``(folds + 1, cells)``; and the best
    log-likelihood of each estimate less that of one rate.

    Examples
    --------
    >>> seen = np.random.default_rng(0).poisson(np.repeat([2.0, 8.0], 48), (5, 96)).astype(float)
    >>> choose_curve(seen, np.ones((5, 96)), 1.0)[0]
    'steps'
    """
    tempers = sorted({max(dispersion, 1.0) ** power for power in POWERS})
    total = (events.sum(axis=0), exposure.sum(axis=0))
    parts = [(total[0] - out, total[1] - hidden) for out, hidden in zip(events, exposure, strict=True)]
    curves, scores = {}, {}
    for name in SMOOTHERS:
        for temper in tempers if name != "flat" else [1.0]:
            without = np.stack([fit_curve(name, temper, *part) for part in parts])
            curves[name, temper] = without
            scores[name, temper] = float((events * np.log(without) - exposure * without).sum())
    best = max(scores, key=lambda each: scores[each])
    told = {name: max(scores[key] for key in scores if key[0] == name) - scores["flat", 1.0] for name in SMOOTHERS}
    return *best, np.vstack([curves[best], fit_curve(*best, *total)]), told
