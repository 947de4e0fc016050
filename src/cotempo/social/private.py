"""`PrivateDetector`: EventDetector from sums over posts that are noised once.

    sums     clients send in how many posts n-grams occur, and in how many posts of an event words do, both noised
    events   clients send nothing; each describes its events with the help of the sums, and keeps them

A post adds two vectors of zeros and ones, which are scaled down to a norm: that of ``clip`` n-grams, and of half as
many cells of words. Counts of words that do not stand out from the noise are taken for none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cotempo.data import Posts, Table
from cotempo.errors import warn
from cotempo.federation import Answers, Ask, Expect, Fitted, Message, Metrics, Outcome, Question, Rng, Roster, Spec
from cotempo.privacy.private_form import PrivateForm
from cotempo.social.detector.client import DetectorMemory, Discovery
from cotempo.social.detector.detection import OUTLIER
from cotempo.social.detector.event_sums import NAME_CELLS, SKETCH_CELLS, SKETCH_ROWS, EventSums, name_cell, word_cells
from cotempo.social.detector.features import fold
from cotempo.social.encoders.characters import Counts
from cotempo.social.encoders.pretrained import CHARACTERS
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.social.detector.method import Corpus, DetectorState

#: N-grams of a post that count in full, by default.
CLIP = 100.0
#: Shares of the budget; the rest is for the words of events.
NGRAMS, POSTS, NAMES = 0.5, 0.02, 0.05
#: Deviations of the noise by which a count of words must stand out.
CLEARLY = 3.0


@dataclass(frozen=True)
class PrivateDetectorState:
    """State of the server: the noised sums by name, empty before they came."""

    sums: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False


class PrivateDetector(PrivateForm):
    """The private form of EventDetector."""

    phases: ClassVar[tuple[str, ...]] = ("sums", "events")
    State: ClassVar[type] = PrivateDetectorState

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """All of it for the sums."""
        return {"sums": (1.0, 1)}

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return scales for one post more or less."""
        return {
            "frequency": math.sqrt(self.ngrams / NGRAMS),
            "documents": 1 / math.sqrt(POSTS),
            "event_words": math.sqrt(self.ngrams / 2 / (1 - NGRAMS - POSTS - NAMES)),
            "event_posts": 1 / math.sqrt(NAMES),
        }

    @property
    def ngrams(self) -> float:
        """How many n-grams of a post count in full."""
        return self.privacy.clip or CLIP

    # At a client.

    def prepare(self, table: Table) -> Corpus:
        """Hash the texts; a post with the label that means none has none: to refuse the table would tell of it."""
        assert isinstance(table, Posts)  # `check` saw the schema
        if OUTLIER in table.event:
            warn(f"posts are called {OUTLIER!r}, the name of those about no known event: they are taken for unlabelled")
        event = tuple(None if label == OUTLIER else label for label in table.event)
        corpus: Corpus = self.inner.prepare(replace(table, event=event))
        return corpus

    def answer(
        self, question: Question, prepared: Corpus, memory: DetectorMemory | None, rng: Rng
    ) -> tuple[Message, DetectorMemory | None]:
        """Send sums over the client's posts; then keep its events."""
        posts, features = prepared
        if question.phase == "sums":
            labels = np.array([label or "" for label in posts.event], dtype=np.str_)
            words, names = event_counts(features.words, labels, self.ngrams / 2)
            sums = {"event_words": words, "event_posts": names, "documents": np.array([float(posts.rows)])}
            return Message({**sums, "frequency": self._frequency(features.characters)}), None
        common = question.common
        discovery = Discovery(self.inner, posts, features, self.inner.ngram_weights(common))
        if not discovery.posts.rows:
            return Message(), None
        own = discovery.sums
        total = EventSums(common["event_words"], common["event_posts"], own.time_distance, own.posts_with_time)
        return Message(), discovery.describe(total)

    def _frequency(self, characters: Counts) -> Floats:
        """Return how often n-grams occur, each post scaled down to the norm of `ngrams` of them."""
        if self.inner.encoder not in CHARACTERS:
            return np.zeros(0)
        folded = fold(characters, self.inner.buckets)
        sizes = np.diff(folded.indptr)
        share = np.minimum(1.0, np.sqrt(self.ngrams / np.maximum(sizes, 1)))
        return np.asarray(
            np.bincount(folded.indices, weights=np.repeat(share, sizes), minlength=folded.shape[1]), dtype=np.float64
        )

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PrivateDetectorState:
        """Begin with nothing known."""
        return PrivateDetectorState()

    def ask(self, state: PrivateDetectorState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for the sums, then let clients describe their events."""
        if state.finished:
            return None
        return Ask("events", cohort, Message(state.sums)) if state.sums else Ask("sums", cohort, ends_round=False)

    def absorb(
        self, state: PrivateDetectorState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateDetectorState, Metrics]:
        """Keep the sums; counts of words that are probably noise are taken for none."""
        if state.sums:
            return replace(state, finished=True), {}
        asked, scales = len(answers.names) + len(answers.failures), self.scales("sums", answers.sum)
        sums: dict[str, Any] = {
            "frequency": np.maximum(answers.sum["frequency"], 0.0).astype(np.float32),
            "documents": max(float(answers.sum["documents"][0]), 1.0),
        }
        for name in ("event_words", "event_posts"):
            least = CLEARLY * self.total_deviation("sums", scales[name], len(answers.names), asked)
            counts = answers.sum[name]
            sums[name] = np.where(counts >= least, counts, 0.0).astype(np.float32)
        return PrivateDetectorState(sums), {"posts": sums["documents"]}

    def expects(self, state: PrivateDetectorState, phase: str) -> Expect:
        """Expect noised sums, then nothing."""
        if phase == "events":
            return Expect({}, sums=True, weight=(1, 1))
        size = self.inner.buckets if self.inner.encoder in CHARACTERS else 0
        words = "in how many of your posts of an event each word occurs, in cells of hashed words and names, with noise"
        fields = {
            "frequency": Spec((size,), description="in how many of your posts each n-gram occurs, with noise"),
            "documents": Spec((1,), description="your number of posts, with noise"),
            "event_words": Spec((SKETCH_ROWS, SKETCH_CELLS), description=words),
            "event_posts": Spec((NAME_CELLS,), description="your posts by hashed name of their event, with noise"),
        }
        return Expect(fields, sums=True, weight=(1, 1))

    def result(self, outcome: Outcome) -> Fitted:
        """Return EventDetector's result, with n-grams weighted by the noised sums."""
        sums = {**outcome.state.sums, "time_distance": 0.0, "posts_with_time": 0.0}
        learned: DetectorState = replace(self.inner.open(None, None, Rng(0)), sums=sums, finished=True)
        fitted: Fitted = self.inner.result(replace(outcome, method=self.inner, state=learned))
        return fitted


def event_counts(counts: Counts, labels: np.ndarray, norm_squared: float) -> tuple[Floats, Floats]:
    """Return labelled posts by cell of word and event, and by event.

    A post is once in each of its cells, however many of its words share one, scaled down to the largest norm.
    """
    words, names = np.zeros((SKETCH_ROWS, SKETCH_CELLS)), np.zeros(NAME_CELLS)
    for row in np.flatnonzero(labels != "").tolist():
        label = str(labels[row])
        used = counts.indices[counts.indptr[row] : counts.indptr[row + 1]]
        cells = [np.unique(one) for one in word_cells(label, used)]
        share = min(1.0, math.sqrt(norm_squared / max(sum(len(one) for one in cells), 1)))
        for line, one in zip(words, cells, strict=True):
            line[one] += share
        names[name_cell(label)] += 1
    return words, names
