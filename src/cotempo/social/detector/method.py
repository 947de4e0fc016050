"""`EventDetector`: events from texts and times, learned alone or together in one round of sums.

Clients add up in how many posts n-grams occur, and in how many posts of an event each word. Texts stay where they are,
and so do the names of events: who knows one can look up what the others added under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from cotempo.data import Posts, Table, make_posts
from cotempo.federation import Answers, Ask, Expect, Message, Outcome, Question, Rng, Spec, register
from cotempo.federation.method import Benefit, Method, Metrics, Roster, agree
from cotempo.learners.learner import two_or_none
from cotempo.social.detector.client import DetectorMemory, Discovery, Shared, keep_out
from cotempo.social.detector.event_sums import CELLS, NAMES, ROWS, EventSums
from cotempo.social.detector.features import FINE, Features, fold, in_order
from cotempo.social.encoders.characters import document_frequencies, inverse_frequencies
from cotempo.social.encoders.pretrained import CHARACTERS, check_encoder
from cotempo.social.fitted_detectors import FittedDetectors

NO_SUMS = Shared(EventSums(np.zeros((0, 0), np.float32), np.zeros(0, np.float32)), (0.0, 0.0))


@dataclass(frozen=True)
class DetectorState:
    """What the server keeps: how many posts hold which words and n-grams, sums by event, and clients' scores."""

    seed: int
    frequency: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    documents: float = 0.0
    sums: Shared = NO_SUMS
    is_ready: bool = False
    finished: bool = False
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """A client's posts in an order of their own, and their hashed words and n-grams."""

    posts: Posts
    features: Features


def _check_encoder(name: str) -> str:
    if name == "hashed":
        raise ValueError("encoder must be 'shared' or a pretrained one: the basis is the client's own in any case")
    return check_encoder(name)


@register()
class EventDetector(Method):
    """Which posts tell of the same event.

    `fit` takes one table of posts and returns a `Detector`, or a mapping from client to posts and returns one per
    client, learned together: ``fitted["client"].detect(posts)``.

    Parameters
    ----------
    dimension, buckets
        Length of a post's vector, and of the hashed n-gram counts it is made from.
    encoder
        ``"shared"``: n-grams with weights from a sum over clients; ``"multilingual"``, ``"onnx:PATH"`` or
        ``"sentence:MODEL"``: a pretrained model at every client; `buckets` is then the length of its vectors.
    events
        The number of events to look for at a client without labels; by default it is found.
    unknown
        How it is found: by density (``"hdbscan"``), or by structural entropy of the graph of posts that share
        attributes (``"entropy"``).
    smallest
        The fewest posts that make an event.
    time
        Whether times help to tell events apart: ``"use"``, ``"ignore"``, or ``"auto"``: whatever names more of the
        client's held-out labelled posts rightly; without labels times are ignored.
    duration
        Typical distance in time of a post from the middle of its event, in the table's unit; by default it is
        learned from labelled posts.
    shrinkage
        How far the scatter of posts inside events is drawn towards that of a sphere, 0 to 1.
    compare
        Say what joining was worth on a fifth of the labelled posts that the classifiers compared did not see.
    patience
        Windows without a post after which an event retires.

    Examples
    --------
    >>> from cotempo.data import make_posts
    >>> clients, truth = make_posts(clients=2, posts=80, events=6)
    >>> detector = EventDetector(dimension=20, buckets=1024).fit(clients["client-0"])
    >>> detection = detector.detect(clients["client-0"])
    >>> len(detection.event), bool((np.array(truth.labels["client-0"]) == detection.event).mean() > 0.9)
    (80, True)
    """

    kind: ClassVar[str] = "posts"
    phases: ClassVar[tuple[str, ...]] = ("sums", "events")
    State: ClassVar[type] = DetectorState
    Memory: ClassVar[type | None] = DetectorMemory

    dimension: int = Field(70, ge=2)
    buckets: int = Field(2**15, ge=16)
    encoder: Annotated[str, AfterValidator(_check_encoder)] = "shared"
    events: int | None = Field(None, ge=1)
    unknown: Literal["hdbscan", "entropy"] = "hdbscan"
    smallest: int = Field(8, ge=2)
    time: Literal["auto", "use", "ignore"] = "auto"
    duration: float | None = Field(None, gt=0)
    shrinkage: float = Field(0.6, ge=0, le=1)
    compare: bool = True
    patience: int = Field(7, ge=1)

    @model_validator(mode="after")
    def _enough_buckets(self) -> Self:
        if self.buckets < 2 * self.dimension:
            raise ValueError(f"buckets must be at least twice dimension ({self.dimension}), got {self.buckets}")
        if self.encoder in CHARACTERS and FINE % self.buckets:
            raise ValueError(f"buckets must be a power of two of at most {FINE}, got {self.buckets}")
        return self

    def fit(self, clients: Any, **options: Any) -> Any:
        """Learn from one table of posts, or from those of several clients; see `cotempo.fit` for the options."""
        if isinstance(clients, Mapping):
            return super().fit(clients, **options)
        return super().fit({"posts": clients}, **options)["posts"]

    def check(self, roster: Roster) -> None:
        """Clients may differ in the optional columns they have; kind and unit of time must agree."""
        first = roster.schema
        alike = {name: replace(found, columns=first.columns) for name, found in roster.schemas.items()}
        agree(Roster(alike), self.kind)

    def prepare(self, table: Table) -> Corpus:
        """Hash the texts once."""
        assert isinstance(table, Posts)  # `check` sees the schema
        posts = in_order(table)
        return Corpus(posts, Features.read(self.encoder, posts.text, self.buckets))

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> DetectorState:
        """Nothing is known but a seed for keeping posts out."""
        return DetectorState(int(rng("kept out").integers(2**31)))

    def ask(self, state: DetectorState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """First the sums, then everyone describes its own events."""
        if state.finished:
            return None
        if not state.is_ready:
            return Ask("sums", cohort, ends_round=False)
        told = {"frequency": state.frequency, "documents": state.documents, "seed": state.seed}
        return Ask("events", cohort, Message({**told, **_fields(state.sums)}))

    def answer(
        self, question: Question, prepared: Corpus, memory: DetectorMemory | None, rng: Rng
    ) -> tuple[Message, DetectorMemory | None]:
        """Send sums over the own posts; then describe the own events and keep them."""
        posts, features, told = prepared.posts, prepared.features, question.common
        if question.phase == "sums":
            return Message({**self._frequencies(prepared), **_fields(Discovery(self, posts, features).sums)}), None
        if not posts.rows:
            return Message({"scores": np.zeros(0), "events": 0}), None
        discovery = Discovery(self, posts, features, self.ngram_weights(told["frequency"], told["documents"]))
        total = _read(told)
        found = discovery.describe(total)
        scores = discovery.compare(total, keep_out(posts, Rng(told["seed"])("kept out"))) if self.compare else None
        return Message({"scores": np.array(scores or ()), "events": len(found.book.events)}), found

    def _frequencies(self, prepared: Corpus) -> dict[str, Any]:
        """In how many posts each n-gram occurs; a pretrained encoder needs none."""
        frequency = np.zeros(0, np.float32)
        if self.encoder in CHARACTERS:
            frequency = document_frequencies(fold(prepared.features.characters, self.buckets)).astype(np.float32)
        return {"frequency": frequency, "documents": float(prepared.posts.rows)}

    def ngram_weights(self, frequency: NDArray[np.float32], documents: float) -> NDArray[np.float32]:
        """The encoder's weights from sums over clients, ``(buckets,)``; ones for a pretrained encoder."""
        if not frequency.size:
            return np.ones(self.buckets, np.float32)
        return inverse_frequencies(frequency.astype(np.float64), documents)

    def absorb(
        self, state: DetectorState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[DetectorState, Metrics]:
        """Keep the sums, then what each client made of them."""
        if not state.is_ready:
            total = answers.sum
            return replace(
                state, frequency=total["frequency"], documents=total["documents"], sums=_read(total), is_ready=True
            ), {}
        events = sum(answers[name]["events"] for name in answers.names)
        scores = {name: answers[name]["scores"].tolist() for name in answers.names}
        known = {name: (pair[0], pair[1]) for name, pair in scores.items() if pair}
        return replace(state, scores=known, finished=True), {"events": float(events)}

    def expects(self, state: DetectorState, phase: str) -> Expect:
        """The first phase needs only the sum over clients."""
        if phase == "sums":
            size = self.buckets if self.encoder in CHARACTERS else 0
            words = "in how many of your posts of an event each word occurs, in cells of hashed words and names"
            fields = {
                "frequency": Spec(
                    (size,), "float32", low=0, description="in how many of your posts each n-gram occurs"
                ),
                "documents": Spec((), "float", low=0, description="your number of posts"),
                "event_words": Spec((ROWS, CELLS), "float32", low=0, description=words),
                "event_posts": Spec((NAMES,), "float32", low=0, description="your posts by hashed name of their event"),
                "lapse": Spec(
                    (), "float", low=0, description="sum of distances in time from the middle of your events"
                ),
                "timed": Spec((), "float", low=0, description="your labelled posts that have a time"),
            }
            return Expect(fields, sums=True)
        about = "NMI of your held-out posts, alone and together; none where unknown"
        scores = Spec((None,), low=0, high=1, rules=(two_or_none,), description=about)
        return Expect({"scores": scores, "events": Spec((), "int", low=0, description="your events")})

    def benefit(self, state: DetectorState) -> Mapping[str, Benefit]:
        """NMI on labelled posts that neither classifier saw, alone and together."""
        return {
            name: Benefit("NMI on held-out posts", alone, together, higher_is_better=True)
            for name, (alone, together) in state.scores.items()
        }

    def result(self, outcome: Outcome) -> FittedDetectors:
        """One detector per client."""
        return FittedDetectors(outcome, patience=self.patience, smallest=self.smallest)

    @classmethod
    def example(cls) -> tuple[EventDetector, dict[str, Table], None]:
        """A small instance and small clients, for the contract suite."""
        clients, _ = make_posts(clients=3, posts=40, events=6, seed=0)
        return cls(dimension=8, buckets=64), dict(clients), None


def _fields(sums: Shared) -> dict[str, Any]:
    return {
        "event_words": sums.events.words, "event_posts": sums.events.posts,
        "lapse": sums.lapse[0], "timed": sums.lapse[1],
    }  # fmt: skip


def _read(told: Message) -> Shared:
    return Shared(EventSums(told["event_words"], told["event_posts"]), (told["lapse"], told["timed"]))
