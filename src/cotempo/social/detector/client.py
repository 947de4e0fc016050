"""At a client: from its posts and the shared sums to its events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.social.clustering import group_known, group_unknown, mutual_information
from cotempo.social.detector.detection import softmax
from cotempo.social.detector.discriminant import Scatter, scatter_of, whitening
from cotempo.social.detector.event_sums import EventSums
from cotempo.social.detector.features import Features, Weights, fold
from cotempo.social.detector.ridge import Prior, Ridge, fit_ridge, leave_out, left_out_odds
from cotempo.social.detector.space import EventTimes, Lens, refine
from cotempo.social.detector.store import EventBook, event_name, write_book
from cotempo.social.encoders.characters import CharacterEncoder, Counts
from cotempo.social.encoders.pretrained import make_encoder
from cotempo.social.entropy import group_graph
from cotempo.social.graph_model.attributes import extract_attributes
from cotempo.social.graph_model.graph import PostGraph

if TYPE_CHECKING:
    from cotempo.social.detector.method import EventDetector

KEPT_OUT = 0.2
FEWEST_KEPT_OUT = 10
FOLDS = 5
MANY = 2500
SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
NOBODY = np.zeros(0, np.intp)
NO_WEIGHTS = np.zeros(0, np.float32)


@dataclass(frozen=True)
class DetectorMemory:
    """What stays at a client: its events, how it looks at posts, weights and the classifier of its labelled events."""

    book: EventBook
    basis: NDArray[np.float32]
    whitening: Floats
    duration: float
    weights: Weights
    ridge: Ridge | None = None


@dataclass(frozen=True)
class Shared:
    """Sums over clients: words by event, and distances in time from the middle of events with their number."""

    events: EventSums
    lapse: tuple[float, float]


@dataclass(frozen=True)
class Known:
    """A classifier of some posts' events, when these were, and the duration time counts by (0: it does not)."""

    ridge: Ridge
    times: EventTimes
    duration: float

    def guess(self, weighted: Features, times: Floats) -> NDArray[np.str_]:
        """The events of posts."""
        scores = self.ridge.scores(weighted) + self.times.scores(times, self.duration)
        return np.asarray(np.array(self.ridge.names)[scores.argmax(axis=1)], dtype=np.str_)


class Discovery:
    """A client's posts in the space of its encoder.

    Parameters
    ----------
    features
        Hashed counts.
    ngram_weights
        The encoder's.
    """

    def __init__(
        self, method: EventDetector, posts: Posts, features: Features, ngram_weights: NDArray[np.float32] = NO_WEIGHTS
    ):
        self.method = method
        self.posts = posts
        self.features = features
        self.ngram_weights = ngram_weights
        self.labels = np.array([label or "" for label in posts.event])
        self.labelled = np.flatnonzero(self.labels != "")

    @cached_property
    def weighted(self) -> Features:
        """The posts' words and n-grams, weighted by how rare they are here."""
        return self.features.weigh(self.features.weights)

    @cached_property
    def encoder(self) -> CharacterEncoder:
        """The shared weights with the client's own basis."""
        empty = np.zeros((len(self.ngram_weights), self.method.dimension), np.float32)
        return make_encoder(self.method.encoder, self.ngram_weights, empty).with_own_basis(self.counts)

    @cached_property
    def counts(self) -> Counts:
        """What the encoder starts from."""
        return fold(self.features.characters, self.method.buckets)

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The encoded posts."""
        return self.encoder.encode_counts(self.counts)

    @cached_property
    def sums(self) -> Shared:
        """What the client adds to the sums: its labelled posts."""
        rows = self.labelled
        times = EventTimes.of(self.posts.time[rows], *self._codes(rows))
        lapse = float(np.nan_to_num(times.lapse * times.timed)[times.timed > 1].sum())
        timed = float(times.timed[times.timed > 1].sum())
        return Shared(EventSums.of(self.features.words[rows], self.labels[rows]), (lapse, timed))

    def _codes(self, rows: Rows) -> tuple[Rows, int]:
        """The events of labelled rows by number, and how many there are."""
        names, codes = np.unique(self.labels[rows], return_inverse=True)
        return codes, len(names)

    def _scatter(self, rows: Rows) -> Scatter:
        return scatter_of(self.vectors[rows].astype(np.float64), self._codes(rows)[0])

    def describe(self, total: Shared) -> DetectorMemory:
        """Find and describe the client's events."""
        return self._describe_labelled(total) if len(self.labelled) else self._find(total)

    def _describe_labelled(self, total: Shared) -> DetectorMemory:
        known = self.learn(self.labelled, total)
        lens = Lens(self.encoder, whitening(self._scatter(self.labelled), self.method.shrinkage), known.duration)
        book = self._book(lens.points(self.vectors))
        return DetectorMemory(
            book, lens.encoder.basis, lens.whitening, lens.duration, self.features.weights, known.ridge
        )

    def learn(self, rows: Rows, total: Shared) -> Known:
        """Learn to tell the events of some labelled rows, beginning from what the others' sums say of their words.

        Whether to begin from that, how much the text says beside time, and whether time is used at all, is decided by
        leaving each post out in turn; of many posts, 2,500.
        """
        names, codes = np.unique(self.labels[rows], return_inverse=True)
        weighted = self.weighted.select(rows)
        prior = self._prior(names.tolist(), total)
        few = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MANY)).astype(np.intp))
        share, text = leave_out(weighted.select(few), codes[few], prior)
        text += left_out_odds(weighted, codes, few, self.features.weights)
        lapse, timed = total.lapse
        duration = 0.0 if self.method.time == "ignore" else self.method.duration or (lapse / timed if timed else 0.0)
        times = self.posts.time[rows]
        when = _left_out_times(times, codes, len(names), duration)[few]
        use, sharpness = _choose_time(text, when, codes[few], self.method.time)
        unlabelled = self.weighted.select(np.flatnonzero(self.labels == ""))
        ridge = fit_ridge(
            tuple(names.tolist()), weighted, codes, unlabelled, prior.scaled(share), self.features.weights, sharpness
        )
        return Known(ridge, EventTimes.of(times, codes, len(names)), duration if use else 0.0)

    def _prior(self, names: list[str], total: Shared) -> Prior:
        """What the others' sums say of words for some events; nothing where no other client has them."""
        others = total.events.without(self.sums.events)
        words, weights = self.weighted.words, self.features.weights.words
        used = np.arange(len(weights)) if others.posts.any() else NOBODY
        # What a word counts in a post: its weight over the typical length of a post.
        value = weights * float(np.mean(words.data / weights[words.indices])) if words.nnz else weights
        found = others.coefficients(names, used, value[used])
        kept = np.flatnonzero(found.any(axis=1))
        return Prior(used[kept], found[kept])

    def _book(self, points: Floats) -> EventBook:
        """Describe labelled events, their centres sharpened by unlabelled posts."""
        rows = self.labelled
        centres = refine(points[rows], self._codes(rows)[0], points[self.labels == ""])
        return write_book(self.labels[rows], self.posts.select(rows), points[rows], found=0, centres=centres)

    def compare(self, total: Shared, out: Rows) -> tuple[float, float] | None:
        """Return the NMI of posts kept out, learned alone and together; `None` where it is unknown."""
        if not len(out) or len(np.unique(self.labels[out])) < 2:
            return None
        weighted, times = self.weighted.select(out), self.posts.time[out]
        known = (self.learn(np.setdiff1d(self.labelled, out), sums) for sums in (self.sums, total))
        alone, together = (mutual_information(self.labels[out], one.guess(weighted, times)) for one in known)
        return alone, together

    def _find(self, total: Shared) -> DetectorMemory:
        """Without labels: group the posts, then measure distances by the spread inside the groups found."""
        lapse, timed = total.lapse
        duration = self.method.duration or (lapse / timed if timed else 0.0)
        lens = Lens(self.encoder, np.eye(self.encoder.dimension), duration if self.method.time == "use" else 0.0)
        codes = self._group(lens)
        # One number only: a whole matrix from groups that were found, not given, would fit them too well.
        spread = np.trace(scatter_of(self.vectors.astype(np.float64), codes).covariance)
        lens = replace(lens, whitening=lens.whitening / np.sqrt(max(spread / self.encoder.dimension, 1e-12)))
        names = np.array([event_name(code) for code in codes])
        book = write_book(names, self.posts, lens.points(self.vectors), found=int(codes.max()) + 1)
        return DetectorMemory(book, lens.encoder.basis, lens.whitening, lens.duration, self.features.weights)

    def _group(self, lens: Lens) -> Rows:
        places = lens.places(lens.points(self.vectors), self.posts.time)
        if self.method.events is not None:
            return group_known(places, min(self.method.events, self.posts.rows))
        if self.method.unknown == "entropy":
            return group_graph(PostGraph.build(extract_attributes(self.posts)).edges)
        return group_unknown(places, smallest=self.method.smallest)


def keep_out(posts: Posts, rng: np.random.Generator) -> Rows:
    """Choose a fifth of the labelled posts to compare on; none where they are few."""
    labelled = np.flatnonzero([bool(label) for label in posts.event])
    out = np.sort(rng.permutation(labelled)[: int(KEPT_OUT * len(labelled))])
    return out if len(out) >= FEWEST_KEPT_OUT else out[:0]


def _left_out_times(times: Floats, codes: Rows, events: int, duration: float) -> Floats:
    """The log density in time of each post under each event as the other folds know it, ``(posts, events)``."""
    found = np.zeros((len(times), events))
    fold = np.arange(len(times)) % FOLDS
    for number in range(FOLDS):
        rest = fold != number
        found[~rest] = EventTimes.of(times[rest], codes[rest], events).scores(times[~rest], duration)
    return found


def _choose_time(text: Floats, when: Floats, codes: Rows, wish: str) -> tuple[bool, float]:
    """Whether time names more of the posts rightly, and the sharpness of text with the highest likelihood beside it."""
    best = {}
    for use in {"auto": (False, True), "use": (True,), "ignore": (False,)}[wish]:
        tried = {sharp: softmax(sharp * text + use * when) for sharp in SHARPNESS}
        own = {sharp: float(np.log(sure[np.arange(len(codes)), codes] + 1e-12).mean()) for sharp, sure in tried.items()}
        sharpness = max(own, key=lambda sharp: own[sharp])
        best[use] = (float((tried[sharpness].argmax(axis=1) == codes).mean()), sharpness)
    use = max(best, key=lambda used: best[used][0])
    return use, best[use][1]
