"""`PostSpace`: posts encoded, whitened by the covariance inside events, and placed in time where that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotempo.data import Posts
from cotempo.social.clustering import centres_of, square_distances
from cotempo.social.detector.detection import softmax
from cotempo.social.detector.store import EventRecord, middle_of
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.typing import Array, Floats, Indices, Singles

SHRINKAGE = 0.6
TAIL = 4.0
PRIOR_POSTS = 5.0
REFINEMENTS = 3
UNLABELLED_WEIGHT = 0.5


@dataclass(frozen=True)
class PostSpace:
    """Encoder, whitening matrix, and the typical distance in time of a post from the middle of its event.

    Whitened posts of one event scatter alike in every direction; a duration of 0 means that time is not used.
    """

    encoder: CharacterEncoder
    whitening: Floats
    duration: float

    def whiten(self, vectors: Singles) -> Floats:
        """Whiten encoded posts."""
        return np.asarray(vectors.astype(np.float64) @ self.whitening)

    def encode(self, posts: Posts) -> Floats:
        """Encode and whiten posts, ``(posts, dimension)``."""
        return self.whiten(self.encoder.encode(posts.text))

    def with_time(self, points: Floats, times: Floats) -> Floats:
        """Append time, in units of an event's duration, as one more direction to cluster in, if it is used.

        A unit of duration counts as much as the points scatter in a direction on average, whitened or not.
        """
        if not self.duration:
            return points
        known = np.isfinite(times)
        middle = float(np.median(times[known])) if known.any() else 0.0
        unit = float(points.std(axis=0).mean()) / self.duration
        return np.column_stack([points, np.where(known, times - middle, 0.0) * unit])

    def time_scores(self, times: Floats, records: Sequence[EventRecord]) -> Floats:
        """Return the log density in time of each post under each event, ``(posts, events)``."""
        when = [(record.middle, record.mean_time_distance, record.posts_with_time) for record in records]
        return EventTimes(*np.array(when).reshape(-1, 3).T).scores(times, self.duration)


@dataclass(frozen=True)
class EventTimes:
    """The median time, the mean distance from it, and the posts with a time of each event; ``(events,)`` each."""

    middle: Floats
    mean_time_distance: Floats
    posts_with_time: Floats

    @classmethod
    def of(cls, times: Floats, codes: Indices, events: int) -> EventTimes:
        """Describe the events of posts, NaN where none has a time."""
        known = [times[(codes == event) & np.isfinite(times)] for event in range(events)]
        middle, away = np.array([middle_of(found) for found in known]).reshape(-1, 2).T
        return cls(middle, away, np.array([float(len(found)) for found in known]))

    def scores(self, times: Floats, duration: float) -> Floats:
        """Return the log density of posts up to a constant, ``(posts, events)``; zero where a time is unknown.

        A Student distribution around the middle of the event, whose width is the event's own, shrunk towards the
        common duration. Without a duration all are zero.
        """
        if not duration:
            return np.zeros((len(times), len(self.middle)))
        count = self.posts_with_time
        width = (count * np.nan_to_num(self.mean_time_distance) + PRIOR_POSTS * duration) / (count + PRIOR_POSTS)
        away = (times[:, None] - self.middle) / width
        return np.nan_to_num(-(TAIL + 1) / 2 * np.log1p(away**2 / TAIL) - np.log(width / duration))


def covariance_inside(vectors: Array, codes: Indices) -> Floats:
    """Return the pooled covariance inside events, ``(dimension, dimension)``; zero without two posts of one event.

    Examples
    --------
    >>> covariance_inside(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]))
    array([[2.]])
    """
    events = int(codes.max(initial=-1)) + 1
    deviations = (vectors - centres_of(vectors, codes, events)[codes]).astype(np.float64)
    return np.asarray(deviations.T @ deviations / max(len(codes) - len(np.unique(codes)), 1))


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


def refine(labelled: Floats, codes: Indices, others: Floats) -> Floats:
    """Return event centres from labelled posts and unlabelled ones that probably belong to them.

    A few steps of expectation maximisation; an unlabelled post counts half, split over events by its probability.
    """
    events = int(codes.max()) + 1
    centres = first = centres_of(labelled, codes, events)
    size = np.bincount(codes, minlength=events)[:, None]
    for _ in range(REFINEMENTS if len(others) else 0):
        share = UNLABELLED_WEIGHT * softmax(-0.5 * square_distances(others, centres))
        centres = (first * size + share.T @ others) / (size + share.sum(axis=0)[:, None])
    return centres
