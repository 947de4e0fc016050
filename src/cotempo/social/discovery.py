"""At a client: from its posts and the shared statistics to its events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.attributes import extract_attributes
from cotempo.social.book import EventBook, event_name, write_book
from cotempo.social.clustering import group_known, group_unknown, mutual_information
from cotempo.social.discriminant import Scatter, scatter_of, whitening
from cotempo.social.encoder import CharacterEncoder, Counts, PairedEncoder
from cotempo.social.entropy import group_graph
from cotempo.social.graph import PostGraph
from cotempo.social.lens import Lens, refine
from cotempo.social.records import make_record

if TYPE_CHECKING:
    from cotempo.social.detector import EventDetector

KEPT_OUT = 0.2
FEWEST_KEPT_OUT = 10
FOLDS = 5
TEMPERS = (1.0, 0.25, 0.06, 0.015)


@dataclass(frozen=True)
class DetectorMemory:
    """What stays at a client: its events, how it looks at posts, and its own encoder where that is used.

    With `paired`, it is used beside the shared one.
    """

    book: EventBook
    whitening: NDArray[np.float64]
    duration: float
    temper: float
    encoder: tuple[NDArray[np.float32], ...] = ()
    paired: bool = False


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
        self.out = out if method.compare and len(out) >= FEWEST_KEPT_OUT else out[:0]
        self.learn = np.setdiff1d(self.labelled, self.out)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The encoded posts."""
        return self.encoder.encode_counts(self.counts)

    @cached_property
    def scatter(self) -> Scatter:
        """Scatter inside the own labelled events, without the posts kept out for comparing."""
        return self._scatter(self.learn)

    def _scatter(self, rows: NDArray[np.intp]) -> Scatter:
        codes = np.unique(self.labels[rows], return_inverse=True)[1]
        return scatter_of(self.vectors[rows].astype(np.float64), self.posts.time[rows], codes)

    def others(self, shared: Scatter) -> Scatter:
        """What the sum holds besides the own part."""
        own = self.scatter
        lapse = (max(shared.lapse[0] - own.lapse[0], 0.0), max(shared.lapse[1] - own.lapse[1], 0.0))
        return Scatter(shared.within - own.within, shared.freedom - own.freedom, lapse)

    def lens(self, own: Scatter, others: Scatter) -> Lens:
        """Look at posts with this scatter; whether time is used is still open."""
        matrix = whitening(own, others, shrinkage=self.method.shrinkage, strength=self.method.strength)
        together = Scatter(own.within, 0.0, (own.lapse[0] + others.lapse[0], own.lapse[1] + others.lapse[1]))
        duration = self.method.duration or together.duration
        return Lens(self.encoder, matrix, 0.0 if self.method.time == "ignore" else duration)

    def describe(self, shared: Scatter) -> DetectorMemory:
        """Find and describe the client's events."""
        return self._describe_labelled(shared) if len(self.labelled) else self._find(shared)

    def _describe_labelled(self, shared: Scatter) -> DetectorMemory:
        best, lens = self._better(shared)
        points = lens.points(best.vectors)
        own = () if best is self else (best.encoder.weights, best.encoder.basis)
        book = best._book(points, self.labelled)
        return DetectorMemory(book, lens.whitening, lens.duration, lens.temper, own, isinstance(best, Paired))

    def _better(self, shared: Scatter) -> tuple[Discovery, Lens]:
        """The shared encoder or the own one, whichever groups more of the labelled posts rightly.

        With fewer labels than dimensions that comparison would be mostly noise: then both are used side by side.
        """
        others = self.others(shared)
        if others.freedom > 0 and self.method.encoder != "hashed" and len(self.learn) <= self.encoder.dimension:
            paired = Paired(self)
            return paired, paired._chosen(others)[0]
        lens, score = self._chosen(others)
        if others.freedom > 0 and self.method.encoder != "hashed":
            own_lens, own_score = self.alone._chosen(_nobody(shared))
            if own_score > score:
                return self.alone, own_lens
        return self, lens

    @cached_property
    def alone(self) -> Discovery:
        """The same posts in the space of an encoder learned from them alone."""
        encoder = self.encoder.learned_alone(self.counts)
        alone = Discovery(self.method, self.posts, self.counts, encoder, np.random.default_rng(0))
        alone.out, alone.learn = self.out, self.learn
        return alone

    def _chosen(self, others: Scatter) -> tuple[Lens, float]:
        """The lens that groups most of the labelled posts rightly, each judged by the rest, and its NMI.

        Lenses differ in whether they use time, and in how much the text counts beside it.
        """
        lens = self.lens(self.scatter, others)
        tempers = {"auto": (0.0, *TEMPERS), "use": TEMPERS, "ignore": (0.0,)}[self.method.time]
        tempers = tempers if lens.duration else (0.0,)
        truth: list[str] = []
        found: dict[float, list[str]] = {temper: [] for temper in tempers}
        for fold in (self.learn[start::FOLDS] for start in range(FOLDS)):
            rest = np.setdiff1d(self.learn, fold)
            if len(rest) and len(fold):
                tried = self.lens(self._scatter(rest), others)
                truth += self.labels[fold].tolist()
                for temper in tempers:
                    found[temper] += self._guess(_tempered(tried, temper), rest, fold)
        score = {temper: mutual_information(truth, guessed) if truth else 0.0 for temper, guessed in found.items()}
        best = max(tempers, key=lambda temper: score[temper])
        return _tempered(lens, best), score[best]

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

    def _guess(self, lens: Lens, known: NDArray[np.intp], rows: NDArray[np.intp]) -> list[str]:
        """The events of some rows, given those of others."""
        points = lens.points(self.vectors)
        events = self._book(points, known).events
        best = lens.scores(points[rows], self.posts.time[rows], events).argmax(axis=1)
        return [events[place].name for place in best]

    def compare(self, shared: Scatter) -> tuple[float, float]:
        """Return the score alone, with an encoder and scatter of the own posts only, and together; -1 if unknown."""
        if not len(self.out) or len(np.unique(self.labels[self.out])) < 2:
            return -1.0, -1.0
        best, lens = self._better(shared)
        return self.alone._score(self.alone._chosen(_nobody(shared))[0]), best._score(lens)

    def _score(self, lens: Lens) -> float:
        """NMI on the posts kept out."""
        return mutual_information(self.labels[self.out], self._guess(lens, self.learn, self.out))

    def _find(self, shared: Scatter) -> DetectorMemory:
        """Without labels: group the posts, then measure distances by the spread inside the groups found."""
        lens = self.lens(_nobody(shared), shared)
        if self.method.time == "auto":
            lens = lens.without_time()
        codes = self._group(lens)
        if shared.freedom <= 0:
            # One number only: a whole matrix from groups that were found, not given, would fit them too well.
            spread = np.trace(scatter_of(self.vectors.astype(np.float64), self.posts.time, codes).covariance)
            lens = replace(lens, whitening=lens.whitening / np.sqrt(max(spread / self.encoder.dimension, 1e-12)))
        names = np.array([event_name(code) for code in codes])
        book = write_book(names, self.posts, lens.points(self.vectors), found=int(codes.max()) + 1)
        return DetectorMemory(book, lens.whitening, lens.duration, lens.temper)

    def _group(self, lens: Lens) -> NDArray[np.intp]:
        places = lens.places(lens.points(self.vectors), self.posts.time)
        if self.method.events is not None:
            return group_known(places, min(self.method.events, self.posts.rows))
        if self.method.unknown == "entropy":
            return group_graph(PostGraph.build(extract_attributes(self.posts)).edges)
        return group_unknown(places, smallest=self.method.smallest)


class Paired(Discovery):
    """The same posts through their own encoder and the shared one; in its space others lend their scatter."""

    def __init__(self, shared: Discovery):
        own = shared.alone.encoder
        encoder = PairedEncoder(own.weights, own.basis, shared.encoder)
        super().__init__(shared.method, shared.posts, shared.counts, encoder, np.random.default_rng(0))
        self.out, self.learn = shared.out, shared.learn

    def lens(self, own: Scatter, others: Scatter) -> Lens:
        """Whiten each half by itself, so that a distance is the mean of both."""
        half = len(others.within)
        parts = slice(half), slice(half, None)
        halves = zip(parts, (_nobody(others), others), strict=True)
        lenses = [super(Paired, self).lens(replace(own, within=own.within[part, part]), who) for part, who in halves]
        matrix = np.zeros_like(own.within)
        for part, lens in zip(parts, lenses, strict=True):
            matrix[part, part] = lens.whitening / np.sqrt(2)
        return replace(lenses[1], whitening=matrix)


def _tempered(lens: Lens, temper: float) -> Lens:
    """The lens with the text counting that much beside time; 0 stands for no time at all."""
    return replace(lens, temper=temper) if temper else lens.without_time()


def _nobody(like: Scatter) -> Scatter:
    """The scatter of no posts."""
    return Scatter(np.zeros_like(like.within), 0.0)
