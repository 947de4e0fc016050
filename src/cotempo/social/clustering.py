"""`group_known` and `group_unknown`: vectors grouped into events; `cluster_scores` compares groupings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cotempo.errors import DataError, ParameterError
from cotempo.typing import Array, Floats, Indices, Integers

SMALL, LARGE = 5_000, 20_000
STARTS, STEPS = 4, 30


def group_known(vectors: Array, events: int) -> Indices:
    """Group by k-means into a given number of events.

    Up to 5,000 posts it starts from Ward's tree, which finds small events that random starts miss; above 20,000 it
    takes mini-batches.

    Examples
    --------
    >>> groups = group_known(np.array([[0.0], [0.1], [5.0]]), 2)
    >>> bool(groups[0] == groups[1] != groups[2])
    True
    """
    from sklearn.cluster import AgglomerativeClustering, KMeans, MiniBatchKMeans

    if isinstance(events, bool) or not isinstance(events, int | np.integer) or events < 1:
        raise ParameterError(f"events must be an integer of at least 1, got {events!r}")
    if events > len(vectors):
        raise DataError(f"there must be at least as many posts as events, got {len(vectors)} posts and {events} events")
    if len(vectors) > LARGE:
        found = MiniBatchKMeans(events, batch_size=4096, n_init=STARTS, random_state=0).fit_predict(vectors)
    elif len(vectors) > SMALL or events == len(vectors):
        found = KMeans(events, n_init=STARTS, random_state=0).fit_predict(vectors)
    else:
        centres = centres_of(vectors, AgglomerativeClustering(events).fit_predict(vectors), events)
        found = KMeans(events, n_init=1, init=centres, random_state=0).fit_predict(vectors)
    return np.asarray(found, dtype=np.intp)


def group_unknown(vectors: Array, *, smallest: int = 5) -> Indices:
    """Group by density (HDBSCAN) into as many events as there seem to be; outliers join the nearest centre.

    Where no two groups of at least `smallest` posts stand out, all posts are one event.
    """
    from sklearn.cluster import HDBSCAN

    if len(vectors) < 2 * smallest:
        return np.zeros(len(vectors), dtype=np.intp)
    # A matrix of distances is three times as fast as a tree while it is small.
    algorithm = "brute" if len(vectors) <= SMALL // 2 else "auto"
    density = HDBSCAN(min_cluster_size=smallest, min_samples=1, algorithm=algorithm, copy=True)
    return assign_outliers(vectors, np.asarray(density.fit_predict(vectors), dtype=np.intp))


def assign_outliers(vectors: Array, codes: Indices) -> Indices:
    """Assign every post with code -1 to the event whose centre is nearest; without any event all are event 0."""
    kept = codes >= 0
    if not kept.any():
        return np.zeros(len(codes), dtype=np.intp)
    centres = centres_of(vectors[kept], codes[kept], int(codes.max()) + 1)
    found = codes.copy()
    if not kept.all():
        found[~kept] = square_distances(vectors[~kept], centres).argmin(axis=1)
    return found


def centres_of(vectors: Array, codes: Indices, events: int) -> Floats:
    """Return the mean of each event, ``(events, dimension)``; zero for an event without posts."""
    total = np.zeros((events, vectors.shape[1]))
    np.add.at(total, codes, vectors)
    return total / np.maximum(np.bincount(codes, minlength=events), 1)[:, None]


def square_distances(points: Array, centres: Array) -> Floats:
    """Return squared Euclidean distances, ``(points, centres)``, without a three-dimensional array."""
    points, centres = points.astype(np.float64), centres.astype(np.float64)
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * points @ centres.T
    return np.asarray(np.maximum(squares, 0.0))


def mutual_information(truth: ArrayLike, found: ArrayLike) -> float:
    """Return the mutual information of two groupings over the mean of their entropies, 0 to 1 (NMI)."""
    first = np.unique(np.asarray(truth), return_inverse=True)[1]
    second = np.unique(np.asarray(found), return_inverse=True)[1]
    if not len(first):
        return 1.0
    width = int(second.max()) + 1
    joint = np.bincount(first * width + second, minlength=(int(first.max()) + 1) * width) / len(first)
    joint = joint.reshape(-1, width)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropy = -float((rows * np.log(rows)).sum() + (columns * np.log(columns)).sum()) / 2
    if entropy <= 1e-12:
        return 1.0
    inside = joint > 0
    shared = float((joint[inside] * np.log(joint[inside] / np.outer(rows, columns)[inside])).sum())
    return min(max(shared / entropy, 0.0), 1.0)


def clustering_nmi(vectors: Array, truth: Integers) -> float:
    """Return the NMI of k-means with the true number of events; the mean of three starts reduces its noise."""
    events = len(np.unique(truth))
    runs = [quick_kmeans(vectors, events, np.random.default_rng(seed)) for seed in range(3)]
    return float(np.mean([mutual_information(truth, run) for run in runs]))


def quick_kmeans(vectors: Array, events: int, rng: np.random.Generator) -> Indices:
    """Group a few hundred posts by one start of k-means; BOLA calls this so often that set-up time would dominate."""
    points = vectors.astype(np.float64)
    centres = points[[int(rng.integers(len(points)))]]
    while len(centres) < events:
        chance = square_distances(points, centres).min(axis=1) + 1e-12
        centres = np.vstack([centres, points[rng.choice(len(points), p=chance / chance.sum())]])
    codes = np.full(len(points), -1, dtype=np.intp)
    for _ in range(STEPS):
        found = square_distances(points, centres).argmin(axis=1)
        if (found == codes).all():
            break
        codes = found
        held = np.bincount(codes, minlength=events) > 0
        centres[held] = centres_of(points, codes, events)[held]
    return codes


def cluster_scores(truth: Sequence[Any], found: Sequence[Any] | Array) -> Mapping[str, float]:
    """Compare found events with true ones: normalised and adjusted mutual information, adjusted Rand index.

    Examples
    --------
    >>> cluster_scores(["a", "a", "b"], [1, 1, 0])
    {'NMI': 1.0, 'AMI': 1.0, 'ARI': 1.0}
    """
    from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

    first, second = list(truth), list(found)
    return {
        "NMI": mutual_information(first, second),
        "AMI": float(adjusted_mutual_info_score(first, second)),
        "ARI": float(adjusted_rand_score(first, second)),
    }
