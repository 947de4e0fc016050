"""`Discovery`: a client's part of `EventDetector`, from its posts and the shared sums to its events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np

from cotempo.data import Posts
from cotempo.data.posts import far_times
from cotempo.federation import NOT_COMPARED
from cotempo.social.clustering import assign_outliers, centres_of, group_known, mutual_information
from cotempo.social.detector.detection import OUTLIER, softmax
from cotempo.social.detector.event_sums import EventSums
from cotempo.social.detector.features import Features, fold
from cotempo.social.detector.held_out_words import HeldOutWords, distinct_texts, spread
from cotempo.social.detector.model import Detector
from cotempo.social.detector.ridge import Ridge, WordPrior, fit_ridge, leave_out, left_out_odds
from cotempo.social.detector.space import EventTimes, PostSpace, covariance_inside, refine, whitening
from cotempo.social.detector.store import FOUND, EventStore, Sample, event_name, make_store
from cotempo.social.detector.unlabelled import find_unlabelled, without_unlike
from cotempo.social.detector.words import has_words
from cotempo.social.encoders.characters import CharacterEncoder, Counts
from cotempo.typing import Floats, Indices, Singles

if TYPE_CHECKING:
    from cotempo.social.detector.method import EventDetector

HELD_OUT = 0.2
PASSES = 2
FEWEST_HELD_OUT = 10
FOLDS = 5
RESAMPLES = 200
MOST_LEFT_OUT = 2500
SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
NO_WEIGHTS = np.zeros(0, np.float32)


@dataclass(frozen=True)
class DetectorMemory:
    """A client's memory: its events, its space of posts, the classifier of its labelled events, and its scores."""

    store: EventStore
    basis: Singles
    whitening: Floats
    duration: float
    ridge: Ridge | None = None
    compared: Floats = field(default_factory=lambda: NOT_COMPARED)


class Discovery:
    """A client's posts in the space of its encoder.

    Posts without any word are left out, and dates that are years away from all others are none. `ngram_weights`, the
    encoder's, come from the sums and are not needed to make these.
    """

    def __init__(self, method: EventDetector, posts: Posts, features: Features, ngram_weights: Singles = NO_WEIGHTS):
        self.method = method
        worded = np.flatnonzero([has_words(text) for text in posts.text])
        far = far_times(posts.time, posts.unit)
        self.wordless, self.misdated = posts.rows - len(worded), int(far.sum())
        self.posts = replace(posts, time=np.where(far, np.nan, posts.time)).select(worded)
        self.features = features.select(worded)
        self.ngram_weights = ngram_weights
        self.labels = np.array([label or "" for label in self.posts.event], dtype=np.str_)
        self.labelled = np.flatnonzero(self.labels != "")

    @cached_property
    def weighted(self) -> Features:
        """The posts' words and n-grams, weighted by how rare they are here."""
        return self.features.weigh(self.features.weights)

    @cached_property
    def counts(self) -> Counts:
        """The encoder's input."""
        return fold(self.features.characters, self.method.buckets)

    @cached_property
    def encoder(self) -> CharacterEncoder:
        """The shared weights with the client's own basis."""
        empty = np.zeros((len(self.ngram_weights), self.method.dimension), np.float32)
        return CharacterEncoder(self.ngram_weights, empty, self.method.encoder).with_own_basis(self.counts)

    @cached_property
    def vectors(self) -> Singles:
        """The encoded posts."""
        return self.encoder.encode_counts(self.counts)

    @cached_property
    def sums(self) -> EventSums:
        """What the client adds to the sums, from its labelled posts."""
        rows, times = self.labelled, self._times(self.labelled)
        count = times.posts_with_time
        distance = float(np.nan_to_num(times.mean_time_distance * count)[count > 1].sum())
        return EventSums.of(self.features.words[rows], self.labels[rows], distance, float(count[count > 1].sum()))

    def _times(self, rows: Indices) -> EventTimes:
        """Return the times of the events of some labelled rows."""
        names, codes = np.unique(self.labels[rows], return_inverse=True)
        return EventTimes.of(self.posts.time[rows], codes, len(names))

    @cached_property
    def found(self) -> Indices:
        """The number of the event without any label that each post belongs to, -1 for the others, ``(posts,)``."""
        times = np.full(self.posts.rows, np.nan) if self.method.time == "ignore" else self.posts.time
        return find_unlabelled(self.encoder, self.posts.text, self.labels.tolist(), times, self.method.smallest)

    @cached_property
    def unlabelled(self) -> Indices:
        """The posts without a label that may be about a labelled event."""
        return np.flatnonzero((self.labels == "") & (self.found < 0))

    def describe(self, total: EventSums) -> DetectorMemory:
        """Find and describe the client's events."""
        memory = self._describe_labelled(total) if len(self.labelled) else self._find(total)
        nameless = memory.store.nameless + self.wordless
        return replace(memory, store=replace(memory.store, nameless=nameless, misdated=self.misdated))

    def _describe_labelled(self, total: EventSums) -> DetectorMemory:
        """Learn a classifier, and describe labelled events with centres refined by unlabelled posts; find others."""
        rows, posts, method = self.labelled, self.posts, self.method
        ridge, duration = self.learn(rows, total)
        codes = np.unique(self.labels[rows], return_inverse=True)[1]
        white = whitening(self.vectors[rows].astype(np.float64), codes)
        points = np.asarray(self.vectors.astype(np.float64) @ white)
        centres = refine(points[rows], codes, points[self.unlabelled])
        names = self.labels.astype(object)
        free = (name for name in map(event_name, count()) if name not in ridge.names)
        new, inside = list(islice(free, int(self.found.max(initial=-1)) + 1)), self.found >= 0
        names[inside] = [new[code] for code in self.found[inside]]
        given = np.flatnonzero(names != "")
        means = centres_of(points[inside], self.found[inside], len(new))
        store = make_store(
            names[given].astype(np.str_),
            posts.select(given),
            points[given],
            found=int(new[-1].removeprefix(FOUND)) + 1 if new else 0,
            centres=np.concatenate([centres, means])[np.argsort([*ridge.names, *new], kind="stable")],
        )
        if len(rest := self.unlabelled):
            others, space = posts.select(rest), PostSpace(self.encoder, white, duration)
            settings = (method.patience, method.smallest, method.time != "ignore", posts.clock)
            known = store
            for _ in range(PASSES):  # in the second, posts of the first are among those that others are compared with
                names[rest] = Detector(space, known, ridge, *settings).detect(others).event
                sample = Sample.empty(points).extended(points, posts, names.astype(np.str_))
                known = replace(store, sample=sample)
            store = replace(known, nameless=int((names == OUTLIER).sum()))
            store = store.counting(names[rest].astype(np.str_), others, points[rest])
        return DetectorMemory(store, self.encoder.basis, white, duration, ridge)

    def learn(self, rows: Indices, total: EventSums) -> tuple[Ridge, float]:
        """Learn a classifier of the events of some labelled rows, starting from the others' sums of their words.

        Whether to start from those, how sharp the text is beside time, and whether time is used at all, is decided by
        leave-one-out predictions; of many posts, 2,500. Return the duration as well, 0 if time is not used.
        """
        names, codes = np.unique(self.labels[rows], return_inverse=True)
        weighted, weights = self.weighted.select(rows), self.features.weights
        prior = self._prior(names.tolist(), total)
        few = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_LEFT_OUT)).astype(np.intp))
        share, text = leave_out(weighted.select(few), codes[few], prior)
        text += left_out_odds(weighted, codes, few, weights)
        duration = 0.0 if self.method.time == "ignore" else total.duration
        when = _left_out_times(self.posts.time[rows], codes, len(names), duration)[few]
        use, sharpness = _choose_time(text, when, codes[few], self.method.time)
        prior = WordPrior(prior.used, share * prior.words)
        unlabelled = self.weighted.select(self.unlabelled)
        ridge = fit_ridge(tuple(names.tolist()), weighted, codes, unlabelled, prior, weights, sharpness)
        return ridge, duration if use else 0.0

    def _prior(self, names: list[str], total: EventSums) -> WordPrior:
        """Return the coefficients that the others' sums give words of some events; none if no other client has them."""
        others = total.without(self.sums)
        words, weights = self.weighted.words, self.features.weights.words
        used = np.arange(len(weights) if others.posts.any() else 0)
        # The value of a word in a post: its weight over the typical length of a post.
        value = weights * float(np.mean(words.data / weights[words.indices])) if words.nnz else weights
        found = others.coefficients(names, used, value[used])
        kept = np.flatnonzero(found.any(axis=1))
        return WordPrior(used[kept], found[kept])

    def compare(self, total: EventSums, out: Indices) -> Floats:
        """Return the NMI of held-out posts, learned alone and together, and the standard error of the difference.

        The error is that of the bootstrap over posts; nothing is compared where the NMI is unknown.
        """
        if not len(out) or len(np.unique(self.labels[out])) < 2:
            return NOT_COMPARED
        rest, weighted, labels = np.setdiff1d(self.labelled, out), self.weighted.select(out), self.labels[out]
        found = []
        for sums in (self.sums, total):
            ridge, duration = self.learn(rest, sums)
            when = self._times(rest).scores(self.posts.time[out], duration)
            found.append((ridge.scores(weighted) + when).argmax(axis=1))
        alone, together = (mutual_information(labels, guess) for guess in found)
        drawn = np.random.default_rng(0).integers(len(out), size=(RESAMPLES, len(out)))
        spread = [
            mutual_information(labels[rows], found[1][rows]) - mutual_information(labels[rows], found[0][rows])
            for rows in drawn
        ]
        return np.array([alone, together, np.std(spread)])

    def _find(self, total: EventSums) -> DetectorMemory:
        """Group unlabelled posts, then measure distances by the spread inside the groups found."""
        duration = total.duration if self.method.time == "use" else 0.0
        space = PostSpace(self.encoder, np.eye(self.encoder.dimension), duration)
        rows, place = distinct_texts(self.posts.text)
        points = space.with_time(space.whiten(self.vectors[rows]), self.posts.time[rows])
        codes = self._group(points, [self.posts.text[row] for row in rows])[place]
        inside = np.flatnonzero(codes >= 0)
        # A scalar only: a full matrix from groups that were found, not given, would fit them too well.
        spread = np.trace(covariance_inside(self.vectors[inside].astype(np.float64), codes[inside]))
        space = replace(space, whitening=space.whitening / np.sqrt(max(spread / self.encoder.dimension, 1e-12)))
        names, white = (
            np.array([event_name(code) if code >= 0 else OUTLIER for code in codes]),
            space.whiten(self.vectors),
        )
        store = make_store(names[inside], self.posts.select(inside), white[inside], found=int(codes.max()) + 1)
        sample = Sample.empty(white).extended(white, self.posts, names)
        store = replace(store, sample=sample, nameless=len(codes) - len(inside))
        return DetectorMemory(store, self.encoder.basis, space.whitening, duration)

    def _group(self, points: Floats, texts: list[str]) -> Indices:
        """Group distinct posts into so many events as were asked for, or else as held-out words tell.

        Then groups of posts that are not alike are no events, -1, and the others are grouped again without them. Where
        no group is left there is nothing to compare with: what was found first stays.
        """
        if self.method.events is not None:
            return group_known(points, min(self.method.events, len(points)))
        rows, codes = np.arange(len(points)), np.full(len(points), -1, dtype=np.intp)
        while True:
            own = [texts[row] for row in rows]
            groups = self._cut(points[rows], own)
            alike = without_unlike(self.encoder, own, groups, points[rows], self.method.smallest)
            if not (alike >= 0).any():
                return groups if len(rows) == len(points) else codes
            codes = np.full(len(points), -1, dtype=np.intp)
            codes[rows] = alike
            if (alike >= 0).all():
                return codes
            rows = rows[alike >= 0]

    def _cut(self, points: Floats, texts: list[str]) -> Indices:
        """Group distinct posts into so many events as held-out words tell; small groups join the nearest."""
        few = spread(len(texts))
        judged = HeldOutWords.of(self.encoder, [texts[row] for row in few], self.method.smallest)
        codes = group_known(points, judged.number(points[few]))
        small = np.bincount(codes) < self.method.smallest
        found = np.where(small[codes], -1, np.cumsum(~small)[codes] - 1)
        return assign_outliers(points, found)


def hold_out(posts: Posts, rng: np.random.Generator) -> Indices:
    """Choose a fifth of the labelled posts to compare on; none where they are few."""
    labelled = np.flatnonzero([bool(label) for label in posts.event])
    out = np.sort(rng.permutation(labelled)[: int(HELD_OUT * len(labelled))])
    return out if len(out) >= FEWEST_HELD_OUT else out[:0]


def _left_out_times(times: Floats, codes: Indices, events: int, duration: float) -> Floats:
    """Return cross-validated log densities in time of each post under each event, ``(posts, events)``."""
    found = np.zeros((len(times), events))
    fold = np.arange(len(times)) % FOLDS
    for number in range(FOLDS):
        rest = fold != number
        found[~rest] = EventTimes.of(times[rest], codes[rest], events).scores(times[~rest], duration)
    return found


def _choose_time(text: Floats, when: Floats, codes: Indices, wish: str) -> tuple[bool, float]:
    """Return whether time gives more correct events, and the sharpness of text with the highest likelihood."""
    best = {}
    for use in {"auto": (False, True), "use": (True,), "ignore": (False,)}[wish]:
        tried = {sharp: softmax(sharp * text + use * when) for sharp in SHARPNESS}
        own = {sharp: float(np.log(sure[np.arange(len(codes)), codes] + 1e-12).mean()) for sharp, sure in tried.items()}
        sharpness = max(own, key=lambda sharp: own[sharp])
        best[use] = (float((tried[sharpness].argmax(axis=1) == codes).mean()), sharpness)
    use = max(best, key=lambda used: best[used][0])
    return use, best[use][1]
