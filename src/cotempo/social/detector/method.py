"""`EventDetector`: events from texts and times, learned alone or together in one round of sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import narwhals as nw
import numpy as np
from pydantic import AfterValidator, Field, model_validator

from cotempo.data import Posts, Table, make_posts, read_posts
from cotempo.federation import (
    NOT_COMPARED,
    Answers,
    Ask,
    Expect,
    Joining,
    Message,
    Outcome,
    Question,
    Rng,
    Spec,
    expect_tally,
    register,
)
from cotempo.federation.method import Method, Metrics, Roster, agree
from cotempo.federation.reducers import Reducer
from cotempo.robust.reducer import SCREEN
from cotempo.social.detector.client import DetectorMemory, Discovery, hold_out
from cotempo.social.detector.detection import as_posts, check_labels
from cotempo.social.detector.event_sums import NAME_CELLS, SKETCH_CELLS, SKETCH_ROWS, EventSums
from cotempo.social.detector.features import HASH_BUCKETS, Features, fold, in_order
from cotempo.social.encoders.characters import document_frequencies, inverse_frequencies
from cotempo.social.encoders.pretrained import CHARACTERS, check_encoder
from cotempo.social.fitted import FittedDetectors
from cotempo.typing import Singles

if TYPE_CHECKING:
    from cotempo.privacy.settings import Privacy
    from cotempo.social.private import PrivateDetector

SUMS = ("event_words", "event_posts", "time_distance", "posts_with_time")
Corpus = tuple[Posts, Features]
"""A client's posts in canonical order, and their hashed words and n-grams."""


@dataclass(frozen=True)
class DetectorState:
    """The sums over clients by name, empty before they came, and what joining was worth."""

    seed: int
    sums: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False
    joining: Joining = field(default_factory=Joining)


def _check_encoder(name: str) -> str:
    return check_encoder(name, ("shared",))  # not "hashed": the basis is the client's own


@register()
class EventDetector(Method):
    """Detect which posts are about the same event.

    `fit` takes one table of posts and returns a `Detector`, or a mapping from client to posts and returns one per
    client, learned together: ``fitted["client"].detect(posts)``. Clients sum in how many posts n-grams occur, and in
    how many posts of an event each word. Texts and names of events stay at the clients; who knows an event's name can
    look up what the others added under it.

    Examples
    --------
    >>> from cotempo.data import make_posts
    >>> clients, truth = make_posts(clients=2, posts=80, events=6)
    >>> detector = EventDetector(dimension=20, buckets=1024).fit(clients["client-0"])
    >>> detection = detector.detect(clients["client-0"])
    >>> len(detection.event), bool((np.array(truth.labels["client-0"]) == detection.event).mean() > 0.9)
    (80, True)
    """

    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    kind: ClassVar[str] = "posts"
    phases: ClassVar[tuple[str, ...]] = ("sums", "events")
    private_units: ClassVar[tuple[str, ...]] = ("row",)
    State: ClassVar[type] = DetectorState
    metric: ClassVar[str] = "NMI on held-out posts"
    compares: ClassVar[str] = "clients with at least 50 labelled posts, of two events or more"
    Memory: ClassVar[type | None] = DetectorMemory

    dimension: int = Field(default=70, ge=2, description="Length of a post's vector.")
    buckets: int = Field(
        default=2**15, ge=16, description="Length of the hashed n-gram counts, or of pretrained vectors."
    )
    encoder: Annotated[str, AfterValidator(_check_encoder)] = Field(
        default="shared",
        description="``shared``: n-grams with weights from a sum over clients; ``multilingual``, ``onnx:PATH`` or "
        "``sentence:MODEL``: a pretrained model at every client.",
    )
    events: int | None = Field(
        default=None,
        ge=1,
        description="Number of events at a client without labels. Give it where it is known; else words held out tell.",
    )
    smallest: int = Field(default=8, ge=2, description="The fewest posts that make an event; fewer in all are one.")
    time: Literal["auto", "use", "ignore"] = Field(
        default="auto",
        description="Whether times separate events; ``auto``: whatever names more of the client's left-out labelled "
        "posts correctly; without labels times are ignored.",
    )
    compare: bool = Field(default=True, description="Measure on a fifth of the labelled posts what joining was worth.")
    patience: int = Field(default=7, ge=1, description="Windows without a post after which an event retires.")

    @model_validator(mode="after")
    def _enough_buckets(self) -> Self:
        if self.buckets < 2 * self.dimension:
            raise ValueError(f"buckets must be at least twice dimension ({self.dimension}), got {self.buckets}")
        if self.encoder in CHARACTERS and HASH_BUCKETS % self.buckets:
            raise ValueError(f"buckets must be a power of two of at most {HASH_BUCKETS}, got {self.buckets}")
        return self

    def fit(self, clients: Any = None, **options: Any) -> Any:
        """Learn from one client's posts, or from those of several; see `cotempo.fit` for the options.

        One table, dataframe or list of texts gives a `Detector`; a mapping, or a dataframe with a column ``client``,
        one per client.
        """
        if clients is None or isinstance(clients, Mapping):
            return super().fit(clients, **options)
        frame = nw.from_native(clients, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame) and "client" in frame.columns:
            return super().fit(read_posts(clients), **options)
        return super().fit({"posts": as_posts(clients)}, **options)["posts"]

    def private(self, privacy: Privacy) -> PrivateDetector:
        """Return the form that learns from noised sums."""
        from cotempo.social.private import PrivateDetector

        return PrivateDetector.of(self, privacy)

    def check(self, roster: Roster) -> None:
        """Require one kind and unit of time; optional columns may differ."""
        alike = {name: replace(found, columns=roster.schema.columns) for name, found in roster.schemas.items()}
        agree(Roster(alike), self.kind)

    def prepare(self, table: Table) -> Corpus:
        """Hash the texts once."""
        assert isinstance(table, Posts)  # `check` sees the schema
        posts = in_order(check_labels(table))
        return posts, Features.read(self.encoder, posts.text, self.buckets)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> DetectorState:
        """Draw the seed for held-out posts."""
        return DetectorState(int(rng("kept out").integers(2**31)))

    def ask(self, state: DetectorState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for the sums, then for each client's events."""
        if state.finished:
            return None
        if not state.sums:
            return Ask("sums", cohort, ends_round=False)
        return Ask("events", cohort, Message({**state.sums, "seed": state.seed}))

    def answer(
        self, question: Question, prepared: Corpus, memory: DetectorMemory | None, rng: Rng
    ) -> tuple[Message, DetectorMemory | None]:
        """Send sums over the client's posts; then describe its events and keep them."""
        (posts, features), sums = prepared, question.common
        if question.phase == "sums":
            return Message({**self._frequencies(features), **_fields(Discovery(self, posts, features).sums)}), None
        discovery, total = Discovery(self, posts, features, self.ngram_weights(sums)), _read(sums)
        if not discovery.posts.rows:
            return Message({"joining": self.tally(NOT_COMPARED), "events": 0.0}), None
        found = discovery.describe(total)
        if self.compare:
            out = hold_out(discovery.posts, Rng(sums["seed"])("kept out"))
            found = replace(found, compared=discovery.compare(total, out))
        return Message({"joining": self.tally(found.compared), "events": float(len(found.store.events))}), found

    def _frequencies(self, features: Features) -> dict[str, Any]:
        """Return in how many posts each n-gram occurs, nothing for a pretrained encoder, and the number of posts."""
        frequency = np.zeros(0, np.float32)
        if self.encoder in CHARACTERS:
            frequency = document_frequencies(fold(features.characters, self.buckets)).astype(np.float32)
        return {"frequency": frequency, "documents": float(features.words.shape[0])}

    def ngram_weights(self, sums: Mapping[str, Any]) -> Singles:
        """Return the encoder's weights from sums over clients, ``(buckets,)``; ones for a pretrained encoder."""
        if self.encoder not in CHARACTERS:
            return np.ones(self.buckets, np.float32)
        return inverse_frequencies(sums["frequency"].astype(np.float64), sums["documents"])

    def absorb(
        self, state: DetectorState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[DetectorState, Metrics]:
        """Keep the sums, then what joining was worth."""
        if not state.sums:
            return replace(state, sums=dict(answers.sum)), {}
        joining = Joining(answers.sum["joining"])
        return replace(state, joining=joining, finished=True), {"events": float(answers.sum["events"])}

    def expects(self, state: DetectorState, phase: str) -> Expect:
        """Expect sums, of which only the total is needed."""
        if phase == "sums":
            size = self.buckets if self.encoder in CHARACTERS else 0
            words = "in how many of your posts of an event each word occurs, in cells of hashed words and names"
            away = "sum of distances in time from the middle of your events"
            ngrams = "in how many of your posts each n-gram occurs"
            names = "your posts by hashed name of their event"
            fields = {
                "frequency": Spec((size,), "float32", low=0, description=ngrams),
                "documents": Spec((), "float", low=0, description="your number of posts"),
                "event_words": Spec((SKETCH_ROWS, SKETCH_CELLS), "float32", low=0, description=words),
                "event_posts": Spec((NAME_CELLS,), "float32", low=0, description=names),
                "time_distance": Spec((), "float", low=0, description=away),
                "posts_with_time": Spec((), "float", low=0, description="your labelled posts that have a time"),
            }
            return Expect(fields, sums=True, rows=lambda message: message["documents"], alike=_length)
        fields = {"joining": expect_tally(), "events": Spec((), "float", low=0, description="your number of events")}
        return Expect(fields, sums=True)

    def result(self, outcome: Outcome) -> FittedDetectors:
        """Return one detector per client."""
        return FittedDetectors(outcome)

    @classmethod
    def example(cls) -> tuple[EventDetector, dict[str, Table], None]:
        """Return a small instance and small clients, for the contract suite."""
        clients, _ = make_posts(clients=3, posts=40, events=6, seed=0)
        return cls(dimension=8, buckets=64), dict(clients), None


def _fields(sums: EventSums) -> dict[str, Any]:
    return dict(zip(SUMS, (sums.words, sums.posts, sums.time_distance, sums.posts_with_time), strict=True))


def _read(message: Message) -> EventSums:
    return EventSums(*(message[name] for name in SUMS))


def _length(message: Message) -> dict[str, Any]:
    """Return how many n-grams a client's posts have: words differ from client to client, lengths do not much."""
    ngrams = float(message["frequency"].sum(dtype=np.float64)) / max(message["documents"], 1e-9)
    return {"frequency": np.log([max(ngrams, 1e-30)])}
