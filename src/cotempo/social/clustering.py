"""Grouping vectors into events, when their number is known and when it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import DataError, ParameterError
from cotempo.social.discriminant import centres_of, square_distances

Floats = NDArray[np.floating[Any]]
LARGE = 20_000


def group_known(vectors: Floats, events: int, *, seed: int = 0, starts: int = 4) -> NDArray[np.intp]:
    """Group by k-means into a given number of events; mini-batches are used above 20,000 posts.

    Examples
    --------
    >>> groups = group_known(np.array([[0.0], [0.1], [5.0]]), 2)
    >>> bool(groups[0] == groups[1] != groups[2])
    True
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    if isinstance(events, bool) or not isinstance(events, int | np.integer) or events < 1:
        raise ParameterError(f"events must be a whole number of at least 1, got {events!r}")
    if events > len(vectors):
        raise DataError(f"there must be at least as many posts as events, got {len(vectors)} posts and {events} events")
    options: dict[str, Any] = {"n_init": starts, "random_state": seed}
    if len(vectors) > LARGE:
        found = MiniBatchKMeans(events, batch_size=4096, **options).fit_predict(vectors)
    else:
        found = KMeans(events, **options).fit_predict(vectors)
    return np.asarray(found, dtype=np.intp)


def group_unknown(vectors: Floats, *, smallest: int = 5) -> NDArray[np.intp]:
    """Group by density (HDBSCAN) into as many events as there seem to be; outliers join the nearest centre.

    Where no two groups stand out, all posts are one event.

    Parameters
    ----------
    smallest
        The fewest posts an event may have.
    """
    from sklearn.cluster import HDBSCAN

    if len(vectors) < 2 * smallest:
        return np.zeros(len(vectors), dtype=np.intp)
    found = np.asarray(HDBSCAN(min_cluster_size=smallest, copy=True).fit_predict(vectors), dtype=np.intp)
    return assign_outliers(vectors, found)


def assign_outliers(vectors: Floats, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give every post with code -1 the event whose centre is nearest; without any event all are event 0."""
    kept = codes >= 0
    if not kept.any():
        return np.zeros(len(codes), dtype=np.intp)
    centres = centres_of(vectors[kept], codes[kept], int(codes.max()) + 1)
    found = codes.copy()
    if not kept.all():
        found[~kept] = square_distances(vectors[~kept], centres).argmin(axis=1)
    return found


def cluster_scores(truth: Sequence[Any], found: Sequence[Any] | NDArray[Any]) -> Mapping[str, float]:
    """Compare found events with true ones: normalised and adjusted mutual information, adjusted Rand index.

    Examples
    --------
    >>> cluster_scores(["a", "a", "b"], [1, 1, 0])
    {'NMI': 1.0, 'AMI': 1.0, 'ARI': 1.0}
    """
    from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

    pairs = {
        "NMI": normalized_mutual_info_score,
        "AMI": adjusted_mutual_info_score,
        "ARI": adjusted_rand_score,
    }
    return {name: float(score(list(truth), list(found))) for name, score in pairs.items()}
