"""How a client looks at posts: encoded, whitened, and weighed by time where time tells events apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.detector.detection import softmax
from cotempo.social.detector.discriminant import centres_of, square_distances
from cotempo.social.detector.records import EventRecord
from cotempo.social.encoders.characters import CharacterEncoder

Floats = NDArray[np.float64]
TAIL = 4.0
PRIOR_POSTS = 5.0
REFINEMENTS = 3
UNLABELLED_WEIGHT = 0.5


@dataclass(frozen=True)
class Lens:
    """Encoder, whitening matrix and the time scale of events.

    Attributes
    ----------
    whitening
        ``(dimension, dimension)``; afterwards posts of one event scatter alike in every direction.
    duration
        Typical distance in time of a post from the middle of its event; 0 where time is not to be used.
    """

    encoder: CharacterEncoder
    whitening: Floats
    duration: float

    def points(self, vectors: NDArray[np.float32]) -> Floats:
        """Whiten encoded posts."""
        return np.asarray(vectors.astype(np.float64) @ self.whitening)

    def look(self, posts: Posts) -> Floats:
        """Encode and whiten posts, ``(posts, dimension)``."""
        return self.points(self.encoder.encode(posts.text))

    def without_time(self) -> Lens:
        """The same lens, blind to time."""
        return replace(self, duration=0.0)

    def places(self, points: Floats, times: Floats) -> Floats:
        """Points to cluster: with time, in units of an event's duration, as one more direction where it is used.

        A unit of duration then counts as much as the points scatter in a direction on average, whitened or not.
        """
        if not self.duration:
            return points
        known = np.isfinite(times)
        middle = float(np.median(times[known])) if known.any() else 0.0
        unit = float(points.std(axis=0).mean()) / self.duration
        return np.column_stack([points, np.where(known, times - middle, 0.0) * unit])

    def places_of(self, posts: Posts) -> Floats:
        """Points of posts to cluster."""
        return self.places(self.look(posts), posts.time)

    def scores(self, points: Floats, times: Floats, records: Sequence[EventRecord]) -> Floats:
        """Return the log density of each post under each event up to a constant, ``(posts, events)``.

        Normal in the whitened space, and what `time_scores` adds.
        """
        text = -0.5 * square_distances(points, np.stack([record.centre for record in records]))
        return np.asarray(text + self.time_scores(times, records))

    def time_scores(self, times: Floats, records: Sequence[EventRecord]) -> Floats:
        """Return the log density in time of each post under each event, ``(posts, events)``."""
        when = EventTimes(
            np.array([record.middle for record in records]),
            np.array([record.lapse for record in records]),
            np.array([record.timed for record in records]),
        )
        return when.scores(times, self.duration)


@dataclass(frozen=True)
class EventTimes:
    """When events were: the median time, the mean distance from it, and the posts with a time; ``(events,)`` each."""

    middle: Floats
    lapse: Floats
    timed: Floats

    @classmethod
    def of(cls, times: Floats, codes: NDArray[np.intp], events: int) -> EventTimes:
        """Describe the events of posts, NaN where none has a time."""
        known = [times[(codes == event) & np.isfinite(times)] for event in range(events)]
        middle = np.array([np.median(found) if len(found) else np.nan for found in known])
        lapse = [np.abs(found - at).mean() if len(found) else np.nan for found, at in zip(known, middle, strict=True)]
        return cls(middle, np.array(lapse), np.array([float(len(found)) for found in known]))

    def scores(self, times: Floats, duration: float) -> Floats:
        """Return the log density of posts up to a constant, ``(posts, events)``; zero where a time is unknown.

        A Student distribution around the middle of the event, whose width is the event's own, drawn towards the
        common duration. Without a duration time says nothing.
        """
        if not duration:
            return np.zeros((len(times), len(self.middle)))
        width = (self.timed * np.nan_to_num(self.lapse) + PRIOR_POSTS * duration) / (self.timed + PRIOR_POSTS)
        away = (times[:, None] - self.middle) / width
        return np.nan_to_num(-(TAIL + 1) / 2 * np.log1p(away**2 / TAIL) - np.log(width / duration))


def refine(labelled: Floats, codes: NDArray[np.intp], others: Floats) -> Floats:
    """Return event centres from labelled posts, sharpened by unlabelled ones that probably belong to them.

    A few steps of expectation maximisation; an unlabelled post counts half, split over events by its probability.
    """
    events = int(codes.max()) + 1
    centres = first = centres_of(labelled, codes, events)
    size = np.bincount(codes, minlength=events)[:, None]
    for _ in range(REFINEMENTS if len(others) else 0):
        share = UNLABELLED_WEIGHT * softmax(-0.5 * square_distances(others, centres))
        centres = (first * size + share.T @ others) / (size + share.sum(axis=0)[:, None])
    return centres
