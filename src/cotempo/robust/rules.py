"""Robust rules: a centre of clients' vectors that a minority of liars cannot move far.

Every rule takes vectors ``(clients, length)``, their weights ``(clients,)`` and the number of liars it must withstand,
and returns a vector. With equal weights each is the rule of its paper.

References
----------
Yin et al., Byzantine-robust distributed learning: towards optimal statistical rates, ICML 2018 (median, trimmed mean).
Blanchard et al., Machine learning with adversaries: Byzantine tolerant gradient descent, NeurIPS 2017 (multi-Krum).
Pillutla et al., Robust aggregation for federated learning, IEEE TSP 2022 (geometric median).
Karimireddy et al., Learning from history for Byzantine robust optimization, ICML 2021 (centred clipping).
Allouah et al., Fixing by mixing: a recipe for optimal Byzantine ML under heterogeneity, AISTATS 2023 (mixing).
Sun et al., Can you really backdoor federated learning?, 2019 (norm bound).
"""

from collections.abc import Callable

import numpy as np

from cotempo.typing import Floats, Indices

Rule = Callable[[Floats, Floats, int], Floats]
_TINY = 1e-300


def mean(vectors: Floats, weights: Floats, liars: int = 0) -> Floats:
    """Return the weighted mean, which one liar can move anywhere."""
    return np.asarray(weights @ vectors / weights.sum())


def median(vectors: Floats, weights: Floats, liars: int = 0) -> Floats:
    """Return the weighted median of each coordinate; the middle of the two where half of the weight is on each side.

    Examples
    --------
    >>> median(np.array([[0.0], [1.0], [9.0]]), np.ones(3))
    array([1.])
    """
    values, cumulated = _sorted(vectors, weights)
    half = weights.sum() / 2
    slack = 1e-12 * half
    low = np.argmax(cumulated >= half - slack, axis=0)
    high = np.argmax(cumulated > half + slack, axis=0)
    column = np.arange(vectors.shape[1])
    return np.asarray((values[low, column] + values[high, column]) / 2)


def trimmed_mean(vectors: Floats, weights: Floats, liars: int) -> Floats:
    """Return the mean of each coordinate without its smallest and its largest values.

    On each side goes the weight of the `liars` heaviest clients, so that so many are outweighed whoever they are; where
    that would leave nothing, the median.
    """
    cut = float(np.sort(weights)[len(weights) - liars :].sum())
    total = float(weights.sum())
    if 2 * cut >= total * (1 - 1e-9):
        return median(vectors, weights)
    values, cumulated = _sorted(vectors, weights)
    inside = np.clip(cumulated, cut, total - cut)
    kept = np.diff(inside, axis=0, prepend=cut)
    return np.asarray((kept * values).sum(axis=0) / (total - 2 * cut))


def multi_krum(vectors: Floats, weights: Floats, liars: int) -> Floats:
    """Return the mean of all but `liars` clients: those stay whose nearest neighbours are nearest."""
    count = len(vectors)
    distances = np.sort(squared_distances(vectors), axis=1)[:, 1 : count - liars]
    chosen = np.argsort(distances.mean(axis=1), kind="stable")[: count - liars]
    return mean(vectors[chosen], weights[chosen])


def geometric_median(
    vectors: Floats,
    weights: Floats,
    liars: int = 0,
    *,
    start: Floats | None = None,
    least: float | None = None,
    steps: int = 100,
) -> Floats:
    """Return the point with the least weighted sum of distances, by Weiszfeld's steps from `start`, else the median.

    Distances below `least`, by default a millionth of the median one, count as that.
    """
    centre = median(vectors, weights) if start is None else start
    for _ in range(steps):
        distances = np.linalg.norm(vectors - centre, axis=1)
        floor = 1e-6 * float(np.median(distances)) if least is None else least
        pull = weights / np.maximum(distances, max(floor, _TINY))
        moved = mean(vectors, pull)
        if np.array_equal(moved, centre) or not np.isfinite(moved).all():
            break
        centre = moved
    return centre


def centred_clipping(
    vectors: Floats,
    weights: Floats,
    liars: int = 0,
    *,
    start: Floats | None = None,
    radius: float | None = None,
    steps: int = 5,
) -> Floats:
    """Return the centre to which all vectors are drawn, none from further away than `radius`.

    It starts at `start`, by default the median of each coordinate; the radius is by default the median distance to it.
    """
    centre = median(vectors, weights) if start is None else start
    for _ in range(steps):
        away = vectors - centre
        distances = np.linalg.norm(away, axis=1)
        reach = float(np.median(distances)) if radius is None else radius
        centre = centre + mean(away * np.minimum(1.0, reach / np.maximum(distances, _TINY))[:, None], weights)
    return centre


def norm_bound(vectors: Floats, weights: Floats, liars: int = 0) -> Floats:
    """Return the mean of vectors that are shortened to the median length."""
    lengths = np.linalg.norm(vectors, axis=1)
    return mean(vectors * np.minimum(1.0, np.median(lengths) / np.maximum(lengths, _TINY))[:, None], weights)


def mix_neighbours(vectors: Floats, weights: Floats, liars: int) -> Floats:
    """Return every vector's mean with its nearest neighbours, all but `liars`: clients that differ become alike."""
    nearest: Indices = np.argsort(squared_distances(vectors), axis=1, kind="stable")[:, : len(vectors) - liars]
    near = weights[nearest]
    return np.asarray((near[..., None] * vectors[nearest]).sum(axis=1) / near.sum(axis=1)[:, None])


RULES: dict[str, Rule] = {
    "mean": mean,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "multi_krum": multi_krum,
    "geometric_median": geometric_median,
    "centred_clipping": centred_clipping,
    "norm_bound": norm_bound,
}


def squared_distances(vectors: Floats) -> Floats:
    """Return squared distances between all pairs, ``(clients, clients)``."""
    return np.stack([np.square(vectors - one).sum(axis=1) for one in vectors])


def _sorted(vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return each coordinate's values in rising order, and the weights up to each of them."""
    order = np.argsort(vectors, axis=0, kind="stable")
    return np.take_along_axis(vectors, order, axis=0), np.cumsum(weights[order], axis=0)
