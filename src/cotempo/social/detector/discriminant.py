"""`whitening` by the covariance of posts inside events, centres of events, and distances."""

import numpy as np

from cotempo.typing import Array, Floats, Indices

SHRINKAGE = 0.6


def covariance_inside(vectors: Array, codes: Indices) -> Floats:
    """Return the pooled covariance inside events, ``(dimension, dimension)``; zero without two posts of one event.

    `vectors` has one row per labelled post, `codes` its event, numbered from 0.

    Examples
    --------
    >>> covariance_inside(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]))
    array([[2.]])
    """
    events = int(codes.max(initial=-1)) + 1
    deviations = (vectors - centres_of(vectors, codes, events)[codes]).astype(np.float64)
    return np.asarray(deviations.T @ deviations / max(len(codes) - len(np.unique(codes)), 1))


def centres_of(vectors: Array, codes: Indices, events: int) -> Floats:
    """Return the mean of each event, ``(events, dimension)``; zero for an event without posts."""
    total = np.zeros((events, vectors.shape[1]))
    np.add.at(total, codes, vectors)
    return total / np.maximum(np.bincount(codes, minlength=events), 1)[:, None]


def whitening(vectors: Array, codes: Indices) -> Floats:
    """Return the matrix W after which posts of one event scatter alike in every direction, ``(dimension, dimension)``.

    ``W W' = S^-1`` with ``S = .4 C + .6 tr(C) / d I``, where ``C`` is the covariance inside events. Without two
    labelled posts of one event W is the identity.
    """
    size = vectors.shape[1]
    if len(np.unique(codes)) == len(codes):
        return np.eye(size)
    covariance = covariance_inside(vectors, codes)
    spread = max(float(np.trace(covariance)) / size, 1e-12)
    values, directions = np.linalg.eigh((1 - SHRINKAGE) * covariance + SHRINKAGE * spread * np.eye(size))
    return np.asarray(directions / np.sqrt(np.maximum(values, 1e-9 * spread)))


def drift(points: Array, centre: Array, size: float) -> float:
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


def square_distances(points: Array, centres: Array) -> Floats:
    """Return squared Euclidean distances, ``(points, centres)``, without a three-dimensional array."""
    points, centres = points.astype(np.float64), centres.astype(np.float64)
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * points @ centres.T
    return np.asarray(np.maximum(squares, 0.0))
