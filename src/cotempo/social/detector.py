"""`EventDetector`: events from texts and times, learned alone or together in one round of sums.

Clients add up document frequencies, a sketch of their n-grams, and the scatter of posts inside their events. Labels,
texts and centres of events stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from cotempo.data import Posts, Table, make_posts
from cotempo.errors import DataError, Problem
from cotempo.federation.exchange import Answers, Ask, Expect, Question, Spec
from cotempo.federation.fitted import Outcome
from cotempo.federation.message import Message
from cotempo.federation.method import Benefit, Method, Metrics, Roster, agree
from cotempo.federation.registry import register
from cotempo.federation.rng import Rng
from cotempo.social.discovery import DetectorMemory, Discovery
from cotempo.social.discriminant import Scatter
from cotempo.social.encoder import Counts
from cotempo.social.fitted_detectors import FittedDetectors
from cotempo.social.pretrained import check_encoder, read_texts
from cotempo.social.summing import (
    ENCODER_PHASES,
    SharedEncoder,
    absorb_encoder,
    answer_encoder,
    ask_encoder,
    expect_encoder,
    open_encoder,
    read_encoder,
)


@dataclass(frozen=True)
class DetectorState:
    """What the server keeps: the encoder, the summed scatter, and what clients said of the result."""

    shared: SharedEncoder
    within: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    freedom: float = 0.0
    lapse: tuple[float, float] = (0.0, 0.0)
    finished: bool = False
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """A client's posts and their hashed n-grams."""

    posts: Posts
    counts: Counts


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
        ``"shared"``: weights and basis from sums over clients; ``"hashed"``: a random projection, nothing summed;
        ``"multilingual"``, ``"onnx:PATH"`` or ``"sentence:MODEL"``: a pretrained model at every client, its vectors
        in a basis from a sum; `buckets` is then their length.
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
        How far the scatter is drawn towards that of a sphere, 0 to 1.
    strength
        How many posts the others' scatter counts for beside a client's own.
    compare
        Keep a fifth of the labelled posts out of the scatter, and say what joining was worth on them.
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
    phases: ClassVar[tuple[str, ...]] = (*ENCODER_PHASES, "scatter", "events")
    State: ClassVar[type] = DetectorState
    Memory: ClassVar[type | None] = DetectorMemory

    dimension: int = Field(200, ge=2)
    buckets: int = Field(2**15, ge=16)
    encoder: Annotated[str, AfterValidator(check_encoder)] = "shared"
    events: int | None = Field(None, ge=1)
    unknown: Literal["hdbscan", "entropy"] = "hdbscan"
    smallest: int = Field(5, ge=2)
    time: Literal["auto", "use", "ignore"] = "auto"
    duration: float | None = Field(None, gt=0)
    shrinkage: float = Field(0.6, ge=0, le=1)
    strength: float = Field(100.0, ge=0)
    compare: bool = True
    patience: int = Field(7, ge=1)

    @model_validator(mode="after")
    def _enough_buckets(self) -> Self:
        if self.buckets < 2 * self.dimension:
            raise ValueError(f"buckets must be at least twice dimension ({self.dimension}), got {self.buckets}")
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
        if not table.rows:
            raise DataError([Problem("there must be at least one post")])
        return Corpus(table, read_texts(self.encoder, table.text, self.buckets))

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> DetectorState:
        """Nothing is known but the seed of the sketch."""
        seed = int(rng("sketch").integers(2**31))
        return DetectorState(open_encoder(self.encoder, seed, self.buckets, self.dimension))

    def ask(self, state: DetectorState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """First the encoder, then the scatter in its space, then everyone describes its own events."""
        if state.finished:
            return None
        if ask := ask_encoder(state.shared, cohort):
            return ask
        if not state.within.size:
            return Ask("scatter", cohort, self._told(state), ends_round=False)
        shared = {"within": state.within, "freedom": state.freedom, "lapse": state.lapse[0], "timed": state.lapse[1]}
        return Ask("events", cohort, Message({**self._told(state), **shared}))

    def _told(self, state: DetectorState) -> Message:
        return Message({**state.shared.message(), "seed": state.shared.seed})

    def answer(
        self, question: Question, prepared: Corpus, memory: DetectorMemory | None, rng: Rng
    ) -> tuple[Message, DetectorMemory | None]:
        """Send sums over the own posts; at last describe the own events and keep them."""
        if question.phase in ENCODER_PHASES:
            return answer_encoder(question, prepared.counts), None
        told = question.common
        kept_out = Rng(told["seed"], question.client)("kept out")
        discovery = Discovery(self, prepared.posts, prepared.counts, read_encoder(self.encoder, told), kept_out)
        if question.phase == "scatter":
            own = discovery.scatter
            fields = {"within": own.within, "freedom": own.freedom, "lapse": own.lapse[0], "timed": own.lapse[1]}
            return Message(fields), None
        shared = Scatter(told["within"], told["freedom"], (told["lapse"], told["timed"]))
        found = discovery.describe(shared)
        alone, together = discovery.compare(shared) if self.compare else (-1.0, -1.0)
        return Message({"alone": alone, "together": together, "events": len(found.book.events)}), found

    def absorb(
        self, state: DetectorState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[DetectorState, Metrics]:
        """Keep the sums, then what each client made of them."""
        if not state.shared.is_ready:
            return replace(state, shared=absorb_encoder(state.shared, answers)), {}
        if not state.within.size:
            total = answers.sum
            lapse = (total["lapse"], total["timed"])
            return replace(state, within=total["within"], freedom=total["freedom"], lapse=lapse), {}
        events = sum(answers[name]["events"] for name in answers.names)
        scores = {name: (answers[name]["alone"], answers[name]["together"]) for name in answers.names}
        scores = {name: pair for name, pair in scores.items() if pair[0] >= 0}
        return replace(state, scores=scores, finished=True), {"events": float(events)}

    def expects(self, state: DetectorState, phase: str) -> Expect:
        """All phases but the last need only the sum over clients."""
        if phase in ENCODER_PHASES:
            return expect_encoder(state.shared, phase)
        if phase == "scatter":
            fields = {
                "within": Spec((self.dimension,) * 2, about="scatter of your posts around the centres of your events"),
                "freedom": Spec((), "float", low=0, about="your labelled posts minus your events"),
                "lapse": Spec((), "float", low=0, about="sum of distances in time from the middle of your events"),
                "timed": Spec((), "float", low=0, about="your labelled posts that have a time"),
            }
            return Expect(fields, sums=True)
        score = Spec((), "float", low=-1, high=1, about="how well your held-out posts were grouped; -1 where unknown")
        return Expect({"alone": score, "together": score, "events": Spec((), "int", low=1, about="your events")})

    def benefit(self, state: DetectorState) -> Mapping[str, Benefit]:
        """NMI on labelled posts that neither discriminant saw, alone and together."""
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
