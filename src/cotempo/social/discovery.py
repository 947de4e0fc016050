"""At a client: from its posts and the shared statistics to its events."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.attributes import extract_attributes
from cotempo.social.clustering import cluster_scores, group_known, group_unknown
from cotempo.social.detecting import EventBook, event_name, write_book
from cotempo.social.discriminant import Scatter, scatter_of, whitening
from cotempo.social.encoder import CharacterEncoder, Counts
from cotempo.social.entropy import group_graph
from cotempo.social.graph import PostGraph
from cotempo.social.lens import Lens, refine
from cotempo.social.records import make_record

if TYPE_CHECKING:
    from cotempo.social.detector import EventDetector

KEPT_OUT = 0.2
FEWEST_KEPT_OUT = 10


@dataclass(frozen=True)
class DetectorMemory:
    """What stays at a client: its events, and how it looks at posts."""

    book: EventBook
    whitening: NDArray[np.float64]
    duration: float


class Discovery:
    """A client's posts in the space of an encoder.

    Parameters
    ----------
    kept_out
        Chooses the labelled posts that are kept out to compare and to decide on.
    """

    def __init__(
        self, method: EventDetector, posts: Posts, counts: Counts, encoder: CharacterEncoder,
        kept_out: np.random.Generator,
    ):  # fmt: skip
        self.method = method
        self.posts = posts
        self.counts = counts
        self.encoder = encoder
        self.labels = np.array([label or "" for label in posts.event])
        self.labelled = np.flatnonzero(self.labels != "")
        out = np.sort(kept_out.permutation(self.labelled)[: int(KEPT_OUT * len(self.labelled))])
        self.out = out if len(out) >= FEWEST_KEPT_OUT else out[:0]
        self.learn = np.setdiff1d(self.labelled, self.out)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The encoded posts."""
        return self.encoder.encode_counts(self.counts)

    @cached_property
    def scatter(self) -> Scatter:
        """Scatter inside the own labelled events, without the posts kept out for comparing."""
        rows = self.learn if self.method.compare else self.labelled
        return self._scatter(rows, np.unique(self.labels[rows], return_inverse=True)[1])

    def _scatter(self, rows: NDArray[np.intp], codes: NDArray[np.intp]) -> Scatter:
        return scatter_of(self.vectors[rows].astype(np.float64), self.posts.time[rows], codes)

    def lens(self, own: Scatter, shared: Scatter) -> Lens:
        """Look at posts with this scatter; whether time is used is still open."""
        matrix = whitening(own, shared, shrinkage=self.method.shrinkage, strength=self.method.strength)
        duration = self.method.duration or shared.duration or own.duration
        return Lens(self.encoder, matrix, 0.0 if self.method.time == "ignore" else duration)

    def describe(self, shared: Scatter) -> DetectorMemory:
        """Find and describe the client's events."""
        return self._describe_labelled(shared) if len(self.labelled) else self._find(shared)

    def _describe_labelled(self, shared: Scatter) -> DetectorMemory:
        lens = self.lens(self.scatter, shared)
        if self.method.time == "auto" and not self._time_helps(lens):
            lens = lens.without_time()
        points = lens.points(self.vectors)
        return DetectorMemory(self._book(points, self.labelled), lens.whitening, lens.duration)

    def _book(self, points: NDArray[np.float64], rows: NDArray[np.intp]) -> EventBook:
        """Describe labelled events by the given labelled rows, their centres sharpened by unlabelled posts."""
        book = write_book(self.labels[rows], self.posts.select(rows), points[rows], found=0)
        names = [record.name for record in book.events]
        codes = np.searchsorted(np.array(names), self.labels[rows])
        centres = refine(points[rows], codes, points[self.labels == ""])
        events = tuple(
            make_record(name, self.posts.select(rows[codes == code]), points[rows[codes == code]], centre=centres[code])
            for code, name in enumerate(names)
        )
        return EventBook(events, book.sample, book.radius)

    def score(self, lens: Lens) -> float:
        """Return the NMI on the posts kept out, with events described by the others."""
        points = lens.points(self.vectors)
        events = self._book(points, self.learn).events
        found = lens.scores(points[self.out], self.posts.time[self.out], events).argmax(axis=1)
        return cluster_scores(self.labels[self.out].tolist(), found)["NMI"]

    def _time_helps(self, lens: Lens) -> bool:
        if not lens.duration or not len(self.out):
            return False
        return self.score(lens) > self.score(lens.without_time())

    def compare(self, shared: Scatter) -> tuple[float, float]:
        """Return the score alone, with an encoder and scatter of the own posts only, and together; -1 if unknown."""
        if not len(self.out) or len(np.unique(self.labels[self.out])) < 2:
            return -1.0, -1.0
        encoder = CharacterEncoder.from_counts(self.counts, dimension=self.encoder.dimension)
        alone = Discovery(self.method, self.posts, self.counts, encoder, np.random.default_rng(0))
        alone.out, alone.learn = self.out, self.learn
        nobody = Scatter(np.zeros_like(shared.within), 0.0)
        return alone._best(alone.lens(alone.scatter, nobody)), self._best(self.lens(self.scatter, shared))

    def _best(self, lens: Lens) -> float:
        if self.method.time == "auto" and lens.duration:
            return max(self.score(lens), self.score(lens.without_time()))
        return self.score(lens)

    def _find(self, shared: Scatter) -> DetectorMemory:
        """Without labels: group the posts, then look again with the scatter inside the groups found."""
        nothing = Scatter(np.zeros_like(shared.within), 0.0)
        lens = self.lens(nothing, shared)
        if self.method.time == "auto":
            lens = lens.without_time()
        codes = self._group(lens)
        own = self._scatter(np.arange(self.posts.rows), codes)
        lens = Lens(self.encoder, self.lens(own, shared).whitening, lens.duration)
        names = np.array([event_name(code) for code in codes])
        book = write_book(names, self.posts, lens.points(self.vectors), found=int(codes.max()) + 1)
        return DetectorMemory(book, lens.whitening, lens.duration)

    def _group(self, lens: Lens) -> NDArray[np.intp]:
        places = lens.places(lens.points(self.vectors), self.posts.time)
        if self.method.events is not None:
            return group_known(places, min(self.method.events, self.posts.rows))
        if self.method.unknown == "entropy":
            return group_graph(PostGraph.build(extract_attributes(self.posts)).edges)
        return group_unknown(places, smallest=self.method.smallest)
