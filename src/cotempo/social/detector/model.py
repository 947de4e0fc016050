"""`Detector`: what one client uses to tell the events of posts apart, and to follow them through a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.data.tables import FrameKind, make_frame
from cotempo.social.clustering import group_known, group_unknown
from cotempo.social.detector.detection import Detection, detect_groups, softmax
from cotempo.social.detector.discriminant import drift, square_distances
from cotempo.social.detector.features import Features, Weights
from cotempo.social.detector.records import EventRecord, keywords, make_record
from cotempo.social.detector.ridge import Ridge
from cotempo.social.detector.space import Lens
from cotempo.social.detector.store import FOUND, EventBook, event_name, extend_sample, next_book
from cotempo.social.reading import as_posts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANEW = 0.2
DRIFTED = 0.06


class Detector:
    """Tells the events of posts apart.

    Parameters
    ----------
    lens
        How posts are looked at.
    book
        The events known so far.
    patience
        Windows without a post after which an event retires.
    smallest
        The fewest posts that make a new event.
    weights, ridge
        Weights of words and n-grams, and the classifier of labelled events; none without labels.
    follows
        Whether the encoder is learned anew as a stream goes on.
    """

    def __init__(
        self, lens: Lens, book: EventBook, *, weights: Weights, ridge: Ridge | None = None,
        patience: int = 7, smallest: int = 5, follows: bool = False,
    ):  # fmt: skip
        self.lens = lens
        self.book = book
        self.ridge = ridge
        self.weights = weights
        self.patience = patience
        self.smallest = smallest
        self.follows = follows

    def __repr__(self) -> str:
        return f"Detector({len(self.book.events)} events, {len(self.active)} active, window {self.book.window})"

    @property
    def active(self) -> tuple[EventRecord, ...]:
        """The events that have not retired."""
        oldest = self.book.window - self.patience
        return tuple(record for record in self.book.events if record.window >= oldest)

    def detect(self, posts: Any, events: int | None = None) -> Detection:
        """Return the event and the confidence of every post.

        Parameters
        ----------
        posts
            A table of posts or a dataframe.
        events
            Group the posts into this many events of their own, for posts that tell of none of the known ones; by
            default every post is given to one of the known, active events.
        """
        posts = as_posts(posts)
        if events is not None:
            lens = self._lens_for(posts) if self.is_labelled else self.lens
            places = lens.places_of(posts)
            return detect_groups(places, group_known(places, events))
        if not posts.rows:
            return Detection(np.zeros(0, np.str_), np.zeros(0))
        points = self.lens.look(posts)
        known = self.active or self.book.events
        sure = self._probabilities(posts, points, known)
        best = sure.argmax(axis=1)
        return Detection(np.array([known[code].name for code in best]), sure[np.arange(len(best)), best])

    def _lens_for(self, posts: Posts) -> Lens:
        """A lens whose basis is that of the kept posts and these: words of new events are in no other."""
        old = self.lens.encoder
        encoder = old.with_own_basis(old.read((*self.book.sample.text, *posts.text)))
        return replace(self.lens, encoder=encoder, whitening=np.eye(encoder.dimension))

    def _probabilities(
        self, posts: Posts, points: NDArray[np.float64], records: Sequence[EventRecord]
    ) -> NDArray[np.float64]:
        """How probably each post tells of each event, ``(posts, events)``.

        Distances say how probably it tells of a labelled event at all; of which one, the classifier says.
        """
        sure = softmax(self.lens.scores(points, posts.time, records))
        places = [place for place, record in enumerate(records) if self.ridge and record.name in self.ridge.names]
        if not self.ridge or not places:
            return sure
        columns = [self.ridge.names.index(records[place].name) for place in places]
        weighted = Features.read(self.lens.encoder.kind, posts.text, len(self.lens.encoder.weights)).weigh(self.weights)
        when = self.lens.time_scores(posts.time, [records[place] for place in places])
        which = softmax(self.ridge.scores(weighted)[:, columns] + when)
        # Rounding may take the sum of all shares above 1.
        sure[:, places] = np.minimum(sure[:, places].sum(axis=1, keepdims=True), 1.0) * which
        return sure

    def partial_fit(self, posts: Any) -> Detector:
        """Take in the next window of a stream, and return this detector.

        Old events keep their ids and move with their posts; events without posts for `patience` windows retire.
        Labelled posts go to the event they name, new or old. The others go to the most probable event where some have
        labels, unless they lie beyond every event, or all that would go there lie elsewhere as a whole. The rest are
        grouped together with a bounded sample of earlier posts of events that were found, and a group without any of
        them is new.
        """
        posts = as_posts(posts)
        if not posts.rows:
            self.book = next_book(self.book, (), self.book.sample, 0, self.book.found)
            return self
        if self.follows and self.book.unlearned + posts.rows > ANEW * (len(self.book.sample.text) + posts.rows):
            self._learn_anew(posts)
        window = self.book.window + 1
        points = self.lens.look(posts)
        names, found = self._name(posts, points)
        fresh = {
            name: make_record(name, posts.select(names == name), points[names == name], window)
            for name in dict.fromkeys(names.tolist())
        }
        sample = extend_sample(self.book.sample, points, posts, names)
        self.book = next_book(self.book, tuple(fresh.values()), sample, posts.rows, found)
        return self

    def _learn_anew(self, posts: Posts) -> None:
        """Learn the encoder from the kept posts and these, and look at what is kept through it.

        The words of new events are not in the encoder of `fit`: through it their posts look more unlike than they are.
        """
        sample, old = self.book.sample, self.lens.encoder
        encoder = old.learned_alone(old.read((*sample.text, *posts.text)))
        self.lens = replace(self.lens, encoder=encoder)
        points = self.lens.points(encoder.encode(sample.text))
        kept = np.array(sample.event)
        events = tuple(
            replace(
                record,
                centre=(
                    points[kept == record.name]
                    if record.name in sample.event
                    else self.lens.points(encoder.encode(record.posts))
                ).mean(axis=0),
            )
            for record in self.book.events
        )
        self.book = replace(self.book, events=events, sample=replace(sample, points=points), unlearned=-posts.rows)

    def _name(self, posts: Posts, points: NDArray[np.float64]) -> tuple[NDArray[np.str_], int]:
        """The event of each post of a window: its label, a known event, or a new one."""
        names = np.array([label or "" for label in posts.event], dtype=object)
        found = self.book.found
        open_rows = np.flatnonzero(names == "")
        active = self.active
        novel = open_rows
        if active and len(open_rows):
            nearest = self._probabilities(posts.select(open_rows), points[open_rows], active).argmax(axis=1)
            names[open_rows] = [active[code].name for code in nearest]
            if self.is_labelled:
                novel = open_rows[self._is_beyond(points[open_rows]) | self._drifted(points[open_rows], nearest)]
        if len(novel) >= self.smallest or not active:
            found = self._regroup(names, novel, points, posts.time, found)
        return names.astype(np.str_), found

    def _is_beyond(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which posts lie farther from every known event than nearly all posts of an event do from their own."""
        centres = np.stack([record.centre for record in self.active])
        return np.asarray(square_distances(points, centres).min(axis=1) > self.book.radius)

    def _drifted(self, points: NDArray[np.float64], nearest: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which posts are nearest to an event that, taken together, they do not tell of.

        One post of a new event lies as near to some known event as one of its own would; the mean of several does not.
        """
        drifted = np.zeros(len(points), dtype=bool)
        for code, record in enumerate(self.active):
            rows = nearest == code
            if (count := int(rows.sum())) >= self.smallest:
                chance = np.sqrt(2 / (count - 1)) / count
                drifted[rows] = drift(points[rows], record.centre, record.size) > DRIFTED + chance
        return drifted

    @property
    def is_labelled(self) -> bool:
        """Whether any event was given by labels, and not found."""
        return any(not record.name.startswith(FOUND) for record in self.book.events)

    def _regroup(
        self, names: NDArray[Any], rows: NDArray[np.intp], points: NDArray[np.float64], times: NDArray[np.float64],
        found: int,
    ) -> int:  # fmt: skip
        """Group posts together with the kept sample of found events; a group is the event most of its sample is of."""
        sample = self.book.sample
        active = {record.name for record in self.active if record.name.startswith(FOUND)}
        old = np.flatnonzero([event in active for event in sample.event])
        pool = np.concatenate([sample.points[old], points[rows]])
        when = np.concatenate([sample.time[old], times[rows]])
        # Directions only: whitening leaves posts at unequal distances from the origin, which tell nothing of events.
        pool /= np.maximum(np.linalg.norm(pool, axis=1, keepdims=True), 1e-12)
        codes = group_unknown(self.lens.places(pool, when), smallest=self.smallest)
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
        records = self.book.events
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
        from cotempo.social.detector.plot import draw_detector

        return draw_detector(self)
