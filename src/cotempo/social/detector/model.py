"""`Detector`: one client's model, which names the events of posts and follows them through a stream."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts
from cotempo.data.clock import Clock
from cotempo.data.description import spelling
from cotempo.data.html import html_table
from cotempo.data.posts import MOST_FAR, far_times
from cotempo.data.tables import FrameKind, make_frame, pluralize
from cotempo.errors import DataError, DataWarning, ParameterError, nearest
from cotempo.social.clustering import group_dense, group_known
from cotempo.social.detector.detection import OUTLIER, Detection, as_posts, check_labels, detect_groups, softmax
from cotempo.social.detector.familiarity import FEWEST, HALVES_ALIKE, LEAST_ALIKE, Familiarity, least_alike
from cotempo.social.detector.features import Features
from cotempo.social.detector.held_out_words import HeldOutWords, distinct_texts, spread
from cotempo.social.detector.ridge import Ridge
from cotempo.social.detector.space import PostSpace
from cotempo.social.detector.store import FOUND, MOST_KEPT, OUTLIERS_KEPT, EventRecord, EventStore, Sample
from cotempo.social.detector.words import has_words, keywords
from cotempo.social.encoders.characters import LONGEST, hash_ngrams
from cotempo.social.encoders.pretrained import CHARACTERS
from cotempo.storage.saved import Saved
from cotempo.typing import Floats, Indices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARPNESS = 16.0
CONTRAST = 500
PASSES = 2
LANGUAGE_SHARE = 0.1
TOLD_NEW = 0.8  # of posts of events left out; fewer are told of
TWINS = 0.5  # of what posts of one event have in common


@dataclass(eq=False, repr=False)
class Detector(Saved):
    """Name the events of posts; `EventDetector.fit` makes it.

    `space` encodes posts, `store` holds the events known so far, `ridge` classifies the labelled ones, if any;
    `patience` and `smallest` are as in `EventDetector`, `clock` is that of the posts it learned from. Posts long before
    or after an event are less familiar to it where `heeds_time`.
    """

    space: PostSpace
    store: EventStore
    ridge: Ridge | None
    patience: int
    smallest: int
    heeds_time: bool
    clock: Clock
    _learned: tuple[EventStore, Familiarity] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        events, active = pluralize(len(self.store.events), "event"), len(self.active)
        return f"Detector({events}, {active} active, window {self.store.window})"

    def _repr_html_(self) -> str:
        frame = self.events("pyarrow").select(["event", "size", "start", "end", "keywords", "told_apart"])
        rows = sorted((tuple(row.values()) for row in frame.to_pylist()), key=lambda row: -row[1])
        return html_table(f"{self!r}, quality {self.quality:.2f}", rows, frame.column_names)

    @property
    def active(self) -> tuple[EventRecord, ...]:
        """The events that have not retired."""
        oldest = self.store.window - self.patience
        return tuple(record for record in self.store.events if record.window >= oldest)

    @property
    def familiarity(self) -> Familiarity:
        """What posts of the active events look like, learned again whenever the events have changed."""
        if self._learned is None or self._learned[0] is not self.store:
            self._learned = (self.store, self._learn())
        return self._learned[1]

    def _learn(self, names: Sequence[str] = (), posts: Posts | None = None) -> Familiarity:
        """Learn from the kept posts of active events, and from further ones of these names."""
        records, sample = self.active or self.store.events, self.store.sample
        kept = [place for place, event in enumerate(sample.event) if event in {record.name for record in records}]
        events, texts = [sample.event[place] for place in kept], [sample.text[place] for place in kept]
        times, given = sample.time[kept].tolist(), [sample.given[place] for place in kept]
        for record in records:
            if record.name not in events:  # its posts were displaced by later ones of others
                texts += record.posts
                events += [record.name] * len(record.posts)
                times += [record.middle] * len(record.posts)
        if posts is not None:
            texts, events, times = [*texts, *posts.text], [*events, *names], [*times, *posts.time]
        given += [True] * (len(texts) - len(given))
        if sum(given) < FEWEST and len(sample.text) >= MOST_KEPT:  # later posts have displaced them
            given = [True] * len(texts)
        when = np.array(times) if self.heeds_time else np.full(len(times), np.nan)
        encoder = (self.space.encoder.kind, len(self.space.encoder.weights))
        return Familiarity.of(encoder, texts, np.array(events), when, np.array(given))

    def detect(self, posts: Any, events: int | None = None, *, outliers: bool = True) -> Detection:
        """Return the event and the confidence of every post.

        Parameters
        ----------
        posts
            A table, a dataframe, a list of texts, or a file; what is returned is in the same order.
        events
            Group the posts into so many new events, whatever is known; these have no confidence (NaN). Those of one of
            several clients have its name, as in ``group-client-0``.
        outliers
            Whether a post may be about none of the active events: then its event is ``"outlier"``. Of posts like
            those learned from, about one in 25 is, of fewer than 33 with a known event one; a post without any word
            always is. With fewer than 10 nothing can be told to be new: a confidence is at most one half.
            Otherwise every post goes to the most probable event.
        """
        posts = self.read(posts)
        worded = np.array([has_words(text) for text in posts.text], dtype=bool)
        if events is not None:
            points = self.space.with_time(self._encode_new(posts), posts.time)
            return detect_groups(worded, group_known(points[worded], events), self.store.client)
        if not posts.rows:
            return Detection(np.zeros(0, np.str_), np.zeros(0))
        known = self.active or self.store.events
        scores = self.familiarity.scores(posts.text, posts.time)
        sure = self._probabilities(posts, scores, known)
        best = sure.argmax(axis=1)
        names, confidence = np.array([known[code].name for code in best]), sure[np.arange(len(best)), best]
        if outliers:
            # The odds of a known event against a new one; even where p is just the level of an outlier.
            p, level = self.familiarity.p_values(scores), self.familiarity.level
            new = self.familiarity.tells_new & (p <= level)
            if self.familiarity.tells_new:
                confidence = np.where(new, level, confidence * p) / (p + level)
            else:  # nothing tells whether a post is about a known event at all
                confidence = confidence / 2
            names, confidence = np.where(new | ~worded, OUTLIER, names), np.where(worded, confidence, 1.0)
        return Detection(names, confidence)

    def read(self, source: Any) -> Posts:
        """Return posts whose times are counted as those this detector learned from.

        A few dates that are years away from all others, kept ones among them, are none.
        """
        posts = as_posts(source, self.clock.unit or "s")
        same = posts.unit == self.clock.unit and bool(posts.zone) == bool(self.clock.zone)
        if not same and np.isfinite(posts.time).any():
            if not self.clock.dates and not np.isfinite(self.store.sample.time).any():
                raise DataError(
                    f"posts must have no times, as those learned from had none, got {_describe(posts.clock)}; "
                    "leave the column 'time' out, or learn from posts with times"
                )
            raise DataError(
                f"times must be counted as those learned from, {_describe(self.clock)}, got {_describe(posts.clock)}; "
                "read them with ct.read_posts, which has unit= and zone=, as those were"
            )
        far = far_times(np.concatenate([self.store.sample.time, posts.time]), posts.unit)[-posts.rows or None :]
        few = 0 < far.sum() <= MOST_FAR * posts.rows
        return replace(posts, time=np.where(far, np.nan, posts.time)) if few else posts

    def _encode_new(self, posts: Posts) -> Floats:
        """Encode posts to group them; with labels, in a basis of the kept posts and these, for words of new events."""
        if self.ridge is None:
            return self.space.encode(posts)
        texts = (*self.store.sample.text, *posts.text)
        return self.encode_anew(texts)[len(self.store.sample.text) :]

    def encode_anew(self, texts: Sequence[str]) -> Floats:
        """Encode texts in a basis of their own, ``(texts, dimension)``: words of new events are in no other."""
        old = self.space.encoder
        counts = old.read(texts)
        return old.with_own_basis(counts).encode_counts(counts).astype(np.float64)

    def _probabilities(self, posts: Posts, scores: Floats, records: Sequence[EventRecord]) -> Floats:
        """Return the probability of each event for each post, ``(posts, events)``.

        Familiarity gives the probability of the labelled events together; their classifier divides it among them.
        """
        when = self.space.time_scores(posts.time, records)
        places = [self.familiarity.names.index(record.name) for record in records]
        sure = softmax(SHARPNESS * scores[:, places] + when)
        place_of = {record.name: place for place, record in enumerate(records)}
        names = self.ridge.names if self.ridge else ()
        columns = [column for column, name in enumerate(names) if name in place_of]
        if not self.ridge or not columns:
            return sure
        owner = np.array([place_of[names[column]] for column in columns])  # merged events have several columns
        encoder = self.space.encoder
        weighted = Features.read(encoder.kind, posts.text, len(encoder.weights)).weigh(self.ridge.weights)
        which = softmax(self.ridge.scores(weighted)[:, columns] + when[:, owner])
        labelled = np.unique(owner)
        # Rounding may take the sum of all shares above 1.
        together = np.minimum(sure[:, labelled].sum(axis=1, keepdims=True), 1.0)
        sure[:, labelled] = 0.0
        np.add.at(sure.T, owner, (together * which).T)
        return sure

    def partial_fit(self, posts: Any) -> Detector:
        """Take in the next window of a stream, and return this detector.

        Known events keep their ids and grow by their posts; events without posts for `patience` windows retire.
        Labelled posts go to the event they name, others to the one `detect` names. Outliers, those of earlier windows
        among them, are grouped by density: at least `smallest` different texts that are alike and that known posts
        stay out of are a new event, which takes the posts of this window that fit it better than the event they were
        given to. Posts that are among the kept ones already, by time and text, are left out with a warning: the same
        window may be fed twice. Those that come again with a label go to the event it names.
        """
        posts = check_labels(self.read(posts))
        self._warn_of_spellings(posts)
        posts = posts.select(np.argsort(posts.time, kind="stable"))  # of many, the newest are kept
        if not posts.rows:
            self.store = replace(self.store, window=self.store.window + 1)
            return self
        posts = posts.select(worded := np.array([has_words(text) for text in posts.text]))
        given, posts = posts.rows, self.without_known(self._relabel(posts))
        if posts.rows < given:
            said = f"{given - posts.rows:,} of {pluralize(given, 'post')} taken in before and left out now"
            warnings.warn(said, DataWarning, stacklevel=2)
        if not posts.rows:
            return self
        kept = np.array([event != OUTLIER for event in self.store.sample.event], dtype=bool)
        waiting, nameless = self.store.sample.select(~kept), self.store.nameless + int((~worded).sum())
        self.store = replace(self.store, sample=self.store.sample.select(kept))
        if len(waiting.text):
            posts = _append(waiting.time[-OUTLIERS_KEPT:], waiting.text[-OUTLIERS_KEPT:], posts)
            nameless -= min(len(waiting.text), OUTLIERS_KEPT)
        names, found = self._name(posts)
        self.store = self.store.after_window(names, posts, self.space.encode(posts), found)
        self.store = replace(self.store, nameless=nameless + int((names == OUTLIER).sum()))
        return self

    def _warn_of_spellings(self, posts: Posts) -> None:
        """Tell of labels that are probably known events spelled differently."""
        known = {spelling(record.name): record.name for record in self.store.events}
        names = {record.name for record in self.store.events}
        for label in dict.fromkeys(label for label in posts.event if label and label not in names):
            if spelling(label) in known:
                other = known[spelling(label)]
                warnings.warn(
                    f"the label {label!r} opens an event beside the known {other!r}, from which it differs in case, "
                    f"spaces, hyphens or underscores only; merge({other!r}, {label!r}, into={other!r}) makes them one",
                    DataWarning,
                    stacklevel=3,
                )

    def _relabel(self, posts: Posts) -> Posts:
        """Take out kept posts that come again with a label of another event, so that they count for that one now."""
        sample = self.store.sample
        labels = {key: label for key, label in zip(_keys(posts.time, posts.text), posts.event, strict=True) if label}
        moved = np.array(
            [
                labels.get(key, event) != event
                for key, event in zip(_keys(sample.time, sample.text), sample.event, strict=True)
            ],
            dtype=bool,
        )
        if not moved.any():
            return posts
        lost, rest = Counter(np.array(sample.event)[moved].tolist()), sample.select(~moved)
        records = []
        for record in self.store.events:
            left = record.size - lost.get(record.name, 0)
            if left == record.size:
                records.append(record)
            elif left >= 0.5 and (own := rest.of(record.name)).text:
                records.append(_describe_again(record, record.name, own, left / len(own.text)))
        nameless = self.store.nameless - lost.get(OUTLIER, 0)
        self.store = replace(self.store, events=tuple(records), sample=rest, nameless=nameless)
        return posts

    def without_known(self, posts: Posts) -> Posts:
        """Return the posts that are not among the kept ones; one without a time is where most of a window are."""
        kept = set(_keys(self.store.sample.time, self.store.sample.text))
        known = np.array([post in kept for post in _keys(posts.time, posts.text)], dtype=bool)
        if posts.rows and known.mean() <= 0.5:
            known &= np.isfinite(posts.time)
        return posts.select(~known)

    def _name(self, posts: Posts) -> tuple[NDArray[np.str_], int]:
        """Return the event of each post of a window: its label, a known event, a new one or none; and events found."""
        names = np.array([label or "" for label in posts.event], dtype=object)
        rows, found = np.flatnonzero(names == ""), self.store.found
        if not len(rows):
            return names.astype(np.str_), found
        window = posts.select(rows)
        named = self.detect(window).event.astype(object) if self.active else np.full(len(rows), OUTLIER, dtype=object)
        new = self._group_outliers(window, np.flatnonzero(named == OUTLIER))
        for group in new:
            named[group] = self.store.next_name(found)
            found += 1
        opened = {name for name in named.tolist() if name not in {OUTLIER, *(one.name for one in self.store.events)}}
        for _ in range(PASSES if opened else 0):
            taken = np.flatnonzero([name in opened for name in named])
            learned = self._learn(named[taken].tolist(), window.select(taken))
            scores = learned.scores(window.text, window.time)
            better = np.array(learned.names, dtype=object)[scores.argmax(axis=1)]
            moves = np.isin(better.astype(np.str_), sorted(opened)) & (learned.p_values(scores) > learned.level)
            named[moves] = better[moves]
        names[rows] = named
        return names.astype(np.str_), found

    def _group_outliers(self, window: Posts, rows: Indices) -> list[Indices]:
        """Return the groups of outliers that are new events: large enough, mostly outliers, and alike.

        They are grouped beside kept posts of known events, as density says little about one group alone; copies count
        once.
        """
        first, place = distinct_texts([window.text[row] for row in rows])
        if len(first) < self.smallest:
            return []
        own, sample = rows[first], self.store.sample
        few = np.unique(np.linspace(0, len(sample.text) - 1, min(len(sample.text), CONTRAST)).astype(np.intp))
        texts = [*(sample.text[row] for row in few), *(window.text[row] for row in own)]
        times = np.concatenate([sample.time[few], window.time[own]])
        points = self.space.with_time(self.encode_anew(texts), times)
        codes = group_dense(points, smallest=self.smallest)
        known, codes, points = codes[: len(few)], codes[len(few) :], points[len(few) :]
        dense = [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])]
        dense = [part for part in dense if len(part) > (known == codes[part[0]]).sum()]
        found = [part for part in dense if self._hangs_together(window.select(own[part]), least_alike(len(part)))]
        waiting = [(np.setdiff1d(np.arange(len(own)), np.concatenate([first[:0], *found])), LEAST_ALIKE)]
        while waiting:  # an event may be among posts of none: where they are none together, their halves are tried
            part, least = waiting.pop()
            if self._hangs_together(window.select(own[part]), least):
                found.append(part)
            elif len(part) >= 2 * self.smallest and least < HALVES_ALIKE:
                halves = group_known(points[part], 2)
                waiting += [(part[halves == half], HALVES_ALIKE) for half in range(2)]
        return [rows[np.isin(place, part)] for part in found]

    def _learn_as_event(self, posts: Posts) -> Familiarity:
        """Learn from the kept posts of active events, and from these as one more event."""
        return self._learn([OUTLIER] * posts.rows, posts)

    def _hangs_together(self, posts: Posts, least: float) -> bool:
        """Return whether these are one event: alike, and most put back among the others of them."""
        if posts.rows < self.smallest:
            return False
        learned = self._learn_as_event(posts)
        if learned.alike(OUTLIER) < least:
            return False
        own = learned.codes == learned.names.index(OUTLIER)
        back = learned.left_out[own].argmax(axis=1) == learned.names.index(OUTLIER)
        return bool(back.mean() > 0.5)

    @property
    def quality(self) -> float:
        """How much two halves of the words tell alike about the events of kept posts, 0 to 1.

        Small where events are lumped together or torn apart; one event alone has 0. See `HeldOutWords`.
        """
        names, sample = {record.name for record in self.active}, self.store.sample
        kept = sample.select(np.array([event in names for event in sample.event], dtype=bool))
        if not kept.text:
            return 0.0
        rows = distinct_texts(kept.text)[0]
        rows = rows[spread(len(rows))]
        judged = HeldOutWords.of(self.space.encoder, [kept.text[row] for row in rows], self.smallest)
        return judged.quality(np.unique(np.array(kept.event)[rows], return_inverse=True)[1])

    def merge(self, *events: str, into: str | None = None) -> Detector:
        """Make one event of several, and return this detector.

        It has the name `into`, or that of the largest; of the largest that has a label or was renamed, if any has.
        """
        if len(set(events)) < 2:
            raise ParameterError(f"events must be at least two different ones to merge, got {', '.join(events)}")
        records = sorted(
            (self._find(name) for name in dict.fromkeys(events)),
            key=lambda record: (record.name.startswith(FOUND), -record.size),
        )
        name = records[0].name if into is None else self._check_name(into, events)
        merged = records[0]
        for record in records[1:]:
            merged = merged.joined(record)
        self._replace(events, [replace(merged, name=name)], dict.fromkeys(events, name))
        self.store = self.store.retimed({name})
        return self

    def rename(self, event: str, name: str) -> Detector:
        """Give an event another name, and return this detector."""
        record = self._find(event)
        self._replace((event,), [replace(record, name=self._check_name(name, (event,)))], {event: name})
        return self

    def _check_name(self, name: str, old: Sequence[str]) -> str:
        """Return the name of an event in place of old ones, if it is free."""
        if not name.strip() or name == OUTLIER:
            raise ParameterError(f"an event must have a name other than {OUTLIER!r}, got {name!r}")
        if name not in old and any(record.name == name for record in self.store.events):
            raise ParameterError(f"the name must be new, or one of {', '.join(old)}, got the known event {name!r}")
        return name

    def split(self, event: str, parts: int = 2) -> Detector:
        """Split an event into so many by its kept posts, and return this detector; `NAME-1`, `NAME-2`, ... are new."""
        if parts < 2:
            raise ParameterError(f"parts must be at least 2, got {parts}")
        record, sample = self._find(event), self.store.sample
        own = sample.of(event)
        if len(own.text) < 2 * parts:
            raise DataError(
                f"an event must have at least {2 * parts} kept posts to be split into {parts}, "
                f"{event!r} has {len(own.text)}"
            )
        codes = group_known(self.space.with_time(self.encode_anew(own.text), own.time), parts)
        names = np.array([f"{event}-{code + 1}" for code in codes])
        share = record.size / len(own.text)
        records = [
            _describe_again(record, name, own.select(names == name), share) for name in np.unique(names).tolist()
        ]
        self._replace((event,), records, iter(names.tolist()))
        return self

    def reduce(self, events: int) -> Detector:
        """Merge the two most similar events until so many are left, and return this detector.

        Ward's rule: those whose merging adds least to the squared distances of posts from the centres of their events.
        """
        if not 1 <= events <= len(self.store.events):
            raise ParameterError(f"events must be between 1 and {len(self.store.events)}, got {events}")
        while len(self.store.events) > events:
            records = self.store.events
            centres, sizes = np.stack([record.centre for record in records]), np.array([one.size for one in records])
            squares = ((centres[:, None] - centres) ** 2).sum(axis=2)
            cost = squares * np.outer(sizes, sizes) / np.add.outer(sizes, sizes)
            np.fill_diagonal(cost, np.inf)
            first, second = np.unravel_index(int(cost.argmin()), cost.shape)
            self.merge(records[first].name, records[second].name)
        return self

    def _find(self, event: str) -> EventRecord:
        known = {record.name: record for record in self.store.events}
        if event not in known:
            raise ParameterError(f"an event must be known, got {event!r}{nearest(event, known)}; see events()")
        return known[event]

    def _replace(self, old: Sequence[str], new: Sequence[EventRecord], names: Any) -> None:
        """Put new records in place of old ones; `names` maps old names, or yields the name of each kept post."""
        events = [record for record in self.store.events if record.name not in old]
        kept = [
            event if event not in old else names[event] if isinstance(names, dict) else next(names)
            for event in self.store.sample.event
        ]
        sample = replace(self.store.sample, event=tuple(kept))
        self.store = replace(self.store, events=(*events, *new), sample=sample)
        if self.ridge and isinstance(names, dict) and set(old) <= set(self.ridge.names):
            self.ridge = self.ridge.renamed(names)
        elif self.ridge:  # it has not learned all of the event, or not the parts: kept posts tell
            self.ridge = self.ridge.without(old)

    def keywords(self, top: int = 5) -> dict[str, tuple[str, ...]]:
        """Return the words that mark each event; words as frequent elsewhere are left out."""
        words = keywords(self.store.events, self._count_everywhere, top)
        return dict(zip((record.name for record in self.store.events), words, strict=True))

    def _count_everywhere(self, words: Sequence[str]) -> tuple[Floats, float]:
        """Return in how many posts of all clients each word occurs, at most, and the number of those posts.

        Both from the encoder's weights: a word is no more frequent than the rarest of its n-grams, and the heaviest
        n-gram occurs in hardly any post.
        """
        encoder = self.space.encoder
        if encoder.kind not in CHARACTERS or not words:
            return np.zeros(len(words)), 0.0
        documents = float(np.expm1(encoder.weights.max() - 1))
        ngrams = hash_ngrams(words, len(encoder.weights))
        weight = np.maximum.reduceat(encoder.weights[ngrams.indices], ngrams.indptr[:-1]).astype(np.float64)
        return np.asarray((1 + documents) * np.exp(1 - weight) - 1), documents

    def events(self, kind: FrameKind = "pandas") -> Any:
        """Return a table of all events, with times as dates where dates went in.

        Columns: event, size (all its posts), labelled (those that came with its name), start and end (of a found
        event, of the middle nine tenths of its posts), keywords, central posts, languages, told_apart (the share of
        its kept posts that a classifier of all the others puts back into it; None if retired) and whether it is active.
        Two events lumped into one are told apart from the others well: see `quality`.
        """
        records, learned = self.store.events, self.familiarity
        active = {record.name for record in self.active}
        back = learned.left_out.argmax(axis=1) == learned.codes
        apart = {name: float(back[learned.codes == place].mean()) for place, name in enumerate(learned.names)}
        words = self.keywords()
        return make_frame(
            {
                "event": [record.name for record in records],
                "size": [round(record.size) for record in records],
                "labelled": [round(record.labelled) for record in records],
                "start": [self._date(record.start) for record in records],
                "end": [self._date(record.end) for record in records],
                "keywords": [", ".join(words[record.name]) for record in records],
                "posts": [list(record.posts) for record in records],
                "languages": [", ".join(_main(record.languages)) for record in records],
                "told_apart": [apart.get(record.name) for record in records],
                "active": [record.name in active for record in records],
            },
            kind,
        )

    def _date(self, time: float) -> Any:
        if np.isnan(time):
            return None
        return self.clock.date(time).to_pydatetime().replace(microsecond=0) if self.clock.dates else time

    def advice(self) -> list[str]:
        """Return what to know about the events: found, torn apart, or too few posts to tell them from others."""
        lines, store, learned = [], self.store, self.familiarity
        found = [record for record in store.events if record.name.startswith(store.prefix) and not record.labelled]
        if found and any(record.labelled for record in store.events):
            names = ", ".join(f"{record.name} ({record.size:.0f})" for record in found[:5])
            more = f" and {len(found) - 5} more" if len(found) > 5 else ""
            lines.append(f"found without any label: {names}{more}; name them with rename")
        largest = max(found, key=lambda record: record.size, default=None)
        if largest and len(store.events) == 1 and largest.size < self.smallest:
            lines.append(
                f"all its {pluralize(round(largest.size), 'post')} are taken for one event, {largest.name}, though "
                f"smallest is {self.smallest}: too few to tell events apart"
            )
        elif (
            largest
            and len(found) == len(store.events)
            and largest.size > (sum(record.size for record in found) + store.nameless) / 2
        ):
            lines.append(
                f"more than half of the posts are taken for one event, {largest.name}: without as many others to "
                "compare with nothing tells an event from everyday posts"
            )
        lines += self._say_lumps(found)
        lines += [self._say_twins(*pair) for pair in self._twins()]
        if not learned.tells_new:
            lines.append(
                f"{pluralize(learned.judges, 'post')} with a label or of an event found are too few to tell new events "
                "and everyday posts from known ones: every post is named as a known one, with at most half the "
                f"confidence; label at least {FEWEST}"
            )
        elif len(learned.unseen) and (told := float(np.mean(learned.unseen <= learned.level))) < TOLD_NEW:
            lines.append(
                f"of posts of an event that nobody knows, about {told:.0%} would be outliers (measured by leaving each "
                "event out); the others would be named as a known one"
            )
        return lines

    def _say_lumps(self, found: Sequence[EventRecord]) -> list[str]:
        """Tell of events found that may be several, or hold everyday posts, and of events of one language each."""
        lines, learned = [], self.familiarity
        active = [record for record in found if record.name in learned.names]
        lumps = [record.name for record in active if learned.alike(record.name, np.nanmedian) < LEAST_ALIKE]
        if lumps:
            lines.append(
                f"posts of {', '.join(lumps[:5])} are hardly alike: several events, or everyday posts, may be among "
                "them; look at them, split takes an event apart"
            )
        spoken: dict[str, list[str]] = {}
        for record in active:
            if len(main := _main(record.languages)) == 1 and not main[0].endswith(" script"):
                spoken.setdefault(main[0], []).append(record.name)
        if len(spoken) > 1:
            each = "; ".join(f"{language}: {', '.join(names[:5])}" for language, names in spoken.items())
            lines.append(
                f"events found are of one language each ({each}): an event told of in two languages comes as two, and "
                "several in a language of few posts may come as one; compare their central posts"
            )
        return lines

    def _twins(self) -> list[tuple[str, str]]:
        """Return pairs of active events that may be one, not both with labels; posts of no event are one for this."""
        rest, sizes = self.store.sample.of(OUTLIER), {record.name: record.size for record in self.active}
        told = len(rest.text) >= self.smallest
        learned = self._learn_as_event(Posts(rest.time, rest.text)) if told else self.familiarity
        labelled = {record.name for record in self.active if record.labelled}
        return [
            (first, second)
            for first, second in combinations(sorted(learned.names, key=lambda name: name not in labelled), 2)
            # A few strays of a large event are like it, of course.
            if OUTLIER not in (first, second) or (first in labelled and len(rest.text) > sizes[first])
            if second not in labelled and learned.together(first, second) >= TWINS
        ]

    def _say_twins(self, first: str, second: str) -> str:
        if second == OUTLIER:
            return f"posts of no event are like those of {first!r}: label some more of them"
        return (
            f"{first!r} and {second!r} may be one event, as their posts are alike: compare their central posts; "
            f"merge({first!r}, {second!r}) makes them one"
        )

    def plot(self) -> Figure:
        """Draw a 2-D map of posts and a timeline of events with their keywords, numbered alike."""
        from cotempo.social.plots import draw_detector

        return draw_detector(self)


def _append(times: Floats, texts: Sequence[str], posts: Posts) -> Posts:
    """Return posts with earlier texts before them."""
    count = len(texts)
    marks = {name: posts.extra[name] for name in ("lang", "language") if name in posts.extra}
    return Posts(
        np.concatenate([times, posts.time]),
        (*texts, *posts.text),
        event=(*(None,) * count, *posts.event),
        extra={name: (*(None,) * count, *values) for name, values in marks.items()},
        unit=posts.unit,
        zone=posts.zone,
    )


def _describe_again(record: EventRecord, name: str, kept: Sample, share: float) -> EventRecord:
    """Describe an event, or a part of one, by some of its kept posts, each of which stands for `share` posts."""
    made = EventRecord.of(name, Posts(kept.time, kept.text), kept.points, record.window)
    words = {word: round(count * share) for word, count in made.words.items()}
    timed, size = made.posts_with_time * share, made.size * share
    labelled = record.labelled * min(size / record.size, 1.0)
    return replace(made, size=size, labelled=labelled, posts_with_time=timed, words=words)


def _keys(times: Floats, texts: Sequence[str]) -> list[tuple[float, str]]:
    """Return what posts are known again by."""
    when = np.nan_to_num(times, nan=np.inf).tolist()
    return [(time, text[:LONGEST]) for time, text in zip(when, texts, strict=True)]


def _main(languages: Mapping[str, int]) -> list[str]:
    """Return the languages of at least a tenth of the posts, the most frequent first; scripts only if no language."""
    least = LANGUAGE_SHARE * sum(languages.values())
    found = [language for language, count in languages.items() if count >= least]
    return [language for language in found if not language.endswith(" script")] or found


def _describe(clock: Clock) -> str:
    if not clock.dates:
        return "as plain numbers"
    return f"as dates {f'with a time zone ({clock.zone})' if clock.zone else 'without a time zone'} in {clock.unit!r}"
