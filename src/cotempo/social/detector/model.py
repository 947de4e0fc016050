"""`Detector`: one client's model, which names the events of posts and follows them through a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.data.tables import FrameKind, make_frame
from cotempo.social.clustering import group_known, group_unknown, square_distances
from cotempo.social.detector.detection import Detection, as_posts, detect_groups, softmax
from cotempo.social.detector.features import Features
from cotempo.social.detector.ridge import Ridge
from cotempo.social.detector.space import PostSpace
from cotempo.social.detector.store import FOUND, EventRecord, EventStore, event_name, keywords
from cotempo.typing import Array, Bools, Floats, Indices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RELEARN_SHARE = 0.2
DRIFT_THRESHOLD = 0.06


@dataclass(eq=False, repr=False)
class Detector:
    """Name the events of posts; `EventDetector.fit` makes it.

    `space` encodes posts, `store` holds the events known so far, `ridge` classifies the labelled ones, if any;
    `patience` and `smallest` are as in `EventDetector`.
    """

    space: PostSpace
    store: EventStore
    ridge: Ridge | None
    patience: int
    smallest: int
    relearns_encoder: bool

    def __repr__(self) -> str:
        return f"Detector({len(self.store.events)} events, {len(self.active)} active, window {self.store.window})"

    @property
    def active(self) -> tuple[EventRecord, ...]:
        """The events that have not retired."""
        oldest = self.store.window - self.patience
        return tuple(record for record in self.store.events if record.window >= oldest)

    def detect(self, posts: Any, events: int | None = None) -> Detection:
        """Return the event and the confidence of every post of a table or dataframe.

        Every post is assigned to a known, active event; with `events` the posts are grouped into so many new ones.
        """
        posts = as_posts(posts)
        if events is not None:
            space = self._space_for(posts) if self.is_labelled else self.space
            points = space.with_time(space.encode(posts), posts.time)
            return detect_groups(points, group_known(points, events))
        if not posts.rows:
            return Detection(np.zeros(0, np.str_), np.zeros(0))
        points = self.space.encode(posts)
        known = self.active or self.store.events
        sure = self._probabilities(posts, points, known)
        best = sure.argmax(axis=1)
        return Detection(np.array([known[code].name for code in best]), sure[np.arange(len(best)), best])

    def _space_for(self, posts: Posts) -> PostSpace:
        """Return a space with a basis of the kept posts and these: words of new events are in no other."""
        old = self.space.encoder
        encoder = old.with_own_basis(old.read((*self.store.sample.text, *posts.text)))
        return replace(self.space, encoder=encoder, whitening=np.eye(encoder.dimension))

    def _probabilities(self, posts: Posts, points: Floats, records: Sequence[EventRecord]) -> Floats:
        """Return the probability of each event for each post, ``(posts, events)``.

        Distances give the probability of the labelled events together; the classifier divides it among them.
        """
        sure = softmax(self.space.scores(points, posts.time, records))
        places = [place for place, record in enumerate(records) if self.ridge and record.name in self.ridge.names]
        if not self.ridge or not places:
            return sure
        columns = [self.ridge.names.index(records[place].name) for place in places]
        encoder = self.space.encoder
        weighted = Features.read(encoder.kind, posts.text, len(encoder.weights)).weigh(self.ridge.weights)
        when = self.space.time_scores(posts.time, [records[place] for place in places])
        which = softmax(self.ridge.scores(weighted)[:, columns] + when)
        # Rounding may take the sum of all shares above 1.
        sure[:, places] = np.minimum(sure[:, places].sum(axis=1, keepdims=True), 1.0) * which
        return sure

    def partial_fit(self, posts: Any) -> Detector:
        """Take in the next window of a stream, and return this detector.

        Known events keep their ids and move with their posts; events without posts for `patience` windows retire.
        Labelled posts go to the event they name. If some event has a label, the others go to the most probable event,
        unless they lie beyond every event, or the mean of those that would go there lies elsewhere. The rest are
        grouped together with a bounded sample of earlier posts of found events; a group without any of them is new.
        """
        posts = as_posts(posts)
        if not posts.rows:
            self.store = replace(self.store, window=self.store.window + 1)
            return self
        new, kept = self.store.posts_since_fit + posts.rows, len(self.store.sample.text) + posts.rows
        if self.relearns_encoder and new > RELEARN_SHARE * kept:
            self._relearn_encoder(posts)
        points = self.space.encode(posts)
        names, found = self._name(posts, points)
        self.store = self.store.after_window(names, posts, points, found)
        return self

    def _relearn_encoder(self, posts: Posts) -> None:
        """Learn the encoder from the kept posts and these, and encode what is kept with it.

        The encoder of `fit` lacks the words of new events: their posts would look more different than they are.
        """
        sample, old = self.store.sample, self.space.encoder
        encoder = old.learned_alone(old.read((*sample.text, *posts.text)))
        self.space = replace(self.space, encoder=encoder)
        points = self.space.whiten(encoder.encode(sample.text))
        kept = np.array(sample.event)

        def centre(record: EventRecord) -> Floats:
            own = points[kept == record.name]
            return np.asarray((own if len(own) else self.space.whiten(encoder.encode(record.posts))).mean(axis=0))

        events = tuple(replace(record, centre=centre(record)) for record in self.store.events)
        sample = replace(sample, points=points)
        self.store = replace(self.store, events=events, sample=sample, posts_since_fit=-posts.rows)

    def _name(self, posts: Posts, points: Floats) -> tuple[NDArray[np.str_], int]:
        """Return the event of each post of a window: its label, a known event, or a new one; and the events found."""
        names = np.array([label or "" for label in posts.event], dtype=object)
        found = self.store.found
        open_rows = np.flatnonzero(names == "")
        active = self.active
        novel = open_rows
        if active and len(open_rows):
            nearest = self._probabilities(posts.select(open_rows), points[open_rows], active).argmax(axis=1)
            names[open_rows] = [active[code].name for code in nearest]
            if self.is_labelled:
                novel = open_rows[self._is_new(points[open_rows], nearest)]
        if len(novel) >= self.smallest or not active:
            found = self._regroup(names, novel, points, posts.time, found)
        return names.astype(np.str_), found

    def _is_new(self, points: Floats, nearest: Indices) -> Bools:
        """Return which posts lie beyond all events, or are nearest to one that, by their mean, they do not belong to.

        One post of a new event lies as near to a known event as that event's own posts; the mean of several does not.
        For n posts of the event, with mean m and variance v, ``|m - c|^2 / v - 1 / n - 1 / size`` is about 0, where the
        event's centre c was made of `size` posts.
        """
        centres = np.stack([record.centre for record in self.active])
        new = square_distances(points, centres).min(axis=1) > self.store.radius
        for code, record in enumerate(self.active):
            rows = nearest == code
            if (count := int(rows.sum())) >= self.smallest:
                mean = points[rows].mean(axis=0)
                variance = max(((points[rows] - mean) ** 2).sum() / (count - 1), 1e-12)
                drift = ((mean - record.centre) ** 2).sum() / variance - 1 / count - 1 / record.size
                new[rows] |= drift > DRIFT_THRESHOLD + np.sqrt(2 / (count - 1)) / count
        return np.asarray(new)

    @property
    def is_labelled(self) -> bool:
        """Whether any event has a label."""
        return any(not record.name.startswith(FOUND) for record in self.store.events)

    def _regroup(self, names: Array, rows: Indices, points: Floats, times: Floats, found: int) -> int:
        """Group posts with the kept sample of found events, and name a group by the majority of its sample."""
        sample = self.store.sample
        active = {record.name for record in self.active if record.name.startswith(FOUND)}
        old = np.flatnonzero([event in active for event in sample.event])
        pool = np.concatenate([sample.points[old], points[rows]])
        when = np.concatenate([sample.time[old], times[rows]])
        # Directions only: whitening leaves posts at unequal distances from the origin, which say nothing about events.
        pool /= np.maximum(np.linalg.norm(pool, axis=1, keepdims=True), 1e-12)
        codes = group_unknown(self.space.with_time(pool, when), smallest=self.smallest)
        votes = Counter(zip(codes[: len(old)].tolist(), (sample.event[row] for row in old), strict=True))
        taken: dict[int, str] = {}
        for (code, name), _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
            if code not in taken and name not in taken.values():
                taken[code] = name
        for code in dict.fromkeys(codes[len(old) :].tolist()):
            if code not in taken:
                taken[code], found = event_name(found), found + 1
            names[rows[codes[len(old) :] == code]] = taken[code]
        return found

    def events(self, kind: FrameKind = "pandas") -> Any:
        """Return a table of all events: size, start and end, keywords, central posts, languages, whether active."""
        records = self.store.events
        active = {record.name for record in self.active}
        return make_frame(
            {
                "event": [record.name for record in records],
                "size": [int(record.size) for record in records],
                "start": [record.start for record in records],
                "end": [record.end for record in records],
                "keywords": [", ".join(words) for words in keywords(records)],
                "posts": [list(record.posts) for record in records],
                "languages": [", ".join(record.languages) for record in records],
                "active": [record.name in active for record in records],
            },
            kind,
        )

    def plot(self) -> Figure:
        """Draw a 2-D map of posts and a timeline of events."""
        from cotempo.social.plots import draw_detector

        return draw_detector(self)
