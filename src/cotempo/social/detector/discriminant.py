"""`Scatter` of posts around the centres of their events, whitening by it, and distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Scatter:
    """Scatter of posts around the centres of their events.

    Attributes
    ----------
    within
        Sum of outer products of the deviations, ``(dimension, dimension)``.
    freedom
        Degrees of freedom: posts minus events.
    """

    within: NDArray[np.float64]
    freedom: float

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The pooled covariance inside events; zero without labelled posts."""
        return self.within / max(self.freedom, 1.0)


def scatter_of(vectors: Floats, codes: NDArray[np.intp]) -> Scatter:
    """Measure the scatter inside events.

    Parameters
    ----------
    vectors
        One row per labelled post, ``(posts, dimension)``.
    codes
        The event of each post, numbered from 0, ``(posts,)``.

    Examples
    --------
    >>> scatter = scatter_of(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]))
    >>> scatter.within, scatter.freedom
    (array([[2.]]), 1.0)
    """
    events = int(codes.max(initial=-1)) + 1
    deviations = vectors - centres_of(vectors, codes, events)[codes]
    within = deviations.astype(np.float64).T @ deviations.astype(np.float64)
    return Scatter(within, float(len(codes) - len(np.unique(codes))))


def centres_of(vectors: Floats, codes: NDArray[np.intp], events: int) -> NDArray[np.float64]:
    """Return the mean of each event, ``(events, dimension)``; zero for an event without posts."""
    total = np.zeros((events, vectors.shape[1]))
    np.add.at(total, codes, vectors)
    return total / np.maximum(np.bincount(codes, minlength=events), 1)[:, None]


def whitening(scatter: Scatter, shrinkage: float) -> NDArray[np.float64]:
    """Return the matrix W after which posts of one event scatter alike in every direction, ``(dimension, dimension)``.

    ``W W' = S^-1`` with ``S = (1 - s) C + s tr(C) / d I``, where ``C`` is the covariance inside events. Without two
    labelled posts of one event W is the identity.
    """
    size = len(scatter.within)
    if scatter.freedom <= 0:
        return np.eye(size)
    covariance = scatter.covariance
    spread = max(float(np.trace(covariance)) / size, 1e-12)
    values, vectors = np.linalg.eigh((1 - shrinkage) * covariance + shrinkage * spread * np.eye(size))
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-9 * spread)))


def drift(points: Floats, centre: Floats, size: float) -> float:
    """Return the squared distance of posts' mean from a centre made of `size` posts, in units of their variance.

    ``|m - c|^2 / v - 1 / n - 1 / size`` with the posts' mean m and variance v; about 0 for n posts of the event.

    Examples
    --------
    >>> drift(np.array([[2.0], [4.0]]), np.array([0.0]), 2)
    3.5
    """
    mean = points.mean(axis=0)
    variance = ((points - mean) ** 2).sum() / max(len(points) - 1, 1)
    return float(((mean - centre) ** 2).sum() / max(variance, 1e-12) - 1 / len(points) - 1 / size)


def square_distances(points: Floats, centres: Floats) -> NDArray[np.float64]:
    """Return squared Euclidean distances, ``(points, centres)``, without a three-dimensional array.

    Examples
    --------
    >>> square_distances(np.array([[0.0], [1.0]]), np.array([[3.0]]))
    array([[9.],
           [4.]])
    """
    points, centres = points.astype(np.float64), centres.astype(np.float64)
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * points @ centres.T
    return np.asarray(np.maximum(squares, 0.0))
