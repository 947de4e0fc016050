"""The graph model of posts as a learner: features, graph, batches, loss, score. Any algorithm goes on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from cotempo.data import Posts, Table, make_posts
from cotempo.errors import DataError, Problem
from cotempo.federation import Answers, Ask, Expect, Message, Outcome, Question, Rng
from cotempo.federation.method import Metrics, Roster, agree
from cotempo.learners import Learner
from cotempo.social.encoders.pretrained import check_encoder, read_texts
from cotempo.social.encoders.shared import (
    ENCODER_PHASES,
    absorb_encoder,
    answer_encoder,
    ask_encoder,
    expect_encoder,
    open_encoder,
    read_encoder,
)
from cotempo.social.graph_model.attributes import extract_attributes
from cotempo.social.graph_model.data import (
    TEST,
    TRAIN,
    UNLABELLED,
    VALIDATION,
    Batch,
    Dataset,
    EventMemory,
    EventState,
    PostData,
    clustering_nmi,
    embed,
    time_features,
)
from cotempo.social.graph_model.graph import PostGraph
from cotempo.social.graph_model.sampler import sample_blocks

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cotempo.social.fitted import FittedEvents

TIME_FEATURES = 2
PAPER = {"batch": 2000, "epochs": 1, "learning_rate": 1e-3}
DAY = {"s": 86400.0, "h": 24.0, "D": 1.0, "": 1.0}


class EventLearner(Learner):
    """A learner of posts' vectors by a graph attention network; the surface of `DAMe` and all its baselines.

    Parameters
    ----------
    dimension, buckets, encoder
        The shared encoder, as in `EventDetector`.
    time
        ``"date"`` as published, which is nearly invisible to the model; ``"scaled"``; or ``"ignore"``.
    cap
        An attribute shared by more posts than this joins none.
    hidden, heads, outputs
        Sizes of the network.
    batch, fanouts
        Posts in a batch, and neighbours sampled for the last layer and the one before.
    margin
        Of the triplet loss.
    validation, test
        Shares of the labelled posts kept for choosing and for comparing.
    """

    kind: ClassVar[str] = "posts"
    phases: ClassVar[tuple[str, ...]] = (*ENCODER_PHASES, "train", "finish")
    presets: ClassVar[Any] = {"cotempo": {}, "paper": PAPER}
    State: ClassVar[type] = EventState
    Memory: ClassVar[type | None] = EventMemory
    metric: ClassVar[str] = "NMI on held-out posts"

    epochs: int = Field(2, ge=1)
    learning_rate: float = Field(3e-3, gt=0)
    dimension: int = Field(200, ge=2)
    buckets: int = Field(2**15, ge=16)
    encoder: Annotated[str, AfterValidator(check_encoder)] = "shared"
    time: Literal["date", "scaled", "ignore"] = "date"
    cap: int = Field(300, ge=2)
    hidden: int = Field(48, ge=1)
    heads: int = Field(4, ge=1)
    outputs: int = Field(32, ge=1)
    batch: int = Field(128, ge=4)
    fanouts: tuple[int, int] = (800, 100)
    margin: float = Field(3.0, gt=0)
    validation: float = Field(0.1, ge=0, lt=1)
    test: float = Field(0.2, ge=0, lt=1)

    # The learner's hooks.

    def inputs(self, roster: Roster) -> int:
        """A post's vector and two columns of time."""
        return self.dimension + TIME_FEATURES

    def make_model(self, inputs: int) -> nn.Module:
        """The graph attention network."""
        from cotempo.social.graph_model.attention import EventNetwork

        return EventNetwork(inputs, self.hidden, self.heads, self.outputs)

    def dataset(self, prepared: PostData, memory: EventMemory) -> Dataset:
        """Features as a tensor, with the parts drawn at the beginning."""
        import torch

        return Dataset(torch.from_numpy(np.array(memory.features)).to(self.device), prepared, memory.part)

    def size(self, data: Dataset) -> int:
        """Training posts."""
        return len(data.rows(TRAIN))

    def epoch_batches(self, data: Dataset, rng: np.random.Generator) -> Iterator[Batch]:
        """Shuffle the training posts and cut them into equal batches."""
        import torch

        rows = rng.permutation(data.rows(TRAIN))
        for nodes in np.array_split(rows, max(1, -(-len(rows) // self.batch))):
            if len(nodes):
                generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
                blocks = sample_blocks(data.posts.edges, nodes, self.fanouts, rng)
                codes = torch.from_numpy(data.posts.codes[nodes]).to(self.device)
                yield Batch(data.features, blocks, codes, generator)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The triplet loss."""
        from cotempo.social.graph_model.losses import triplet_loss

        return triplet_loss(model(batch.features, batch.blocks), batch.codes, batch.generator, self.margin)

    def score(self, model: nn.Module, data: Dataset, part: str) -> float | None:
        """NMI of k-means with the true number of events, the mean of three starts; None with fewer than two events."""
        rows = data.rows({"validation": VALIDATION, "test": TEST}[part])
        truth = data.posts.codes[rows]
        if len(np.unique(truth)) < 2:
            return None
        return clustering_nmi(embed(model, data.features, data.posts.edges, rows, self.fanouts), truth)

    # The rounds: first the encoder, then the learner's.

    def check(self, roster: Roster) -> None:
        """Clients may differ in the optional columns they have; kind and unit of time must agree."""
        alike = {name: replace(found, columns=roster.schema.columns) for name, found in roster.schemas.items()}
        agree(Roster(alike), self.kind)

    def prepare(self, table: Table) -> PostData:
        """Hash the texts and build the graph once."""
        assert isinstance(table, Posts)  # `check` sees the schema
        labels = sorted({label for label in table.event if label is not None})
        if not labels:
            raise DataError([Problem("some posts must have an event to train on; EventDetector works without", None)])
        number = {label: code for code, label in enumerate(labels)}
        codes = np.array([-1 if label is None else number[label] for label in table.event], dtype=np.int64)
        edges, days = self.graph(table)
        return PostData(read_texts(self.encoder, table.text, self.buckets), edges, codes, days)

    def graph(self, posts: Posts) -> tuple[Any, NDArray[np.float64]]:
        """Return the edges between posts, and their times in days."""
        return PostGraph.build(extract_attributes(posts), self.cap).edges, posts.time / DAY[posts.unit]

    def features(self, encoded: NDArray[np.float32], days: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return posts' vectors and time, ``(posts, dimension + 2)``."""
        times = time_features(days, self.time == "scaled")
        vectors = encoded * np.float32(np.sqrt(self.dimension) / 4)
        return np.concatenate([vectors, times * np.float32(self.time != "ignore")], axis=1)

    def begin(self, prepared: PostData, rng: Rng) -> EventMemory:
        """Deal the labelled posts out into parts."""
        labelled = rng("parts").permutation(np.flatnonzero(prepared.codes >= 0))
        part = np.full(len(prepared.codes), UNLABELLED, np.int8)
        tests, judged = int(self.test * len(labelled)), int(np.ceil(self.validation * len(labelled)))
        part[labelled] = TRAIN
        part[labelled[:tests]] = TEST
        part[labelled[tests : tests + judged]] = VALIDATION
        return EventMemory(part=part)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> EventState:
        """Draw the first model; the encoder is still to be made."""
        opened = super().open(roster, public, rng)
        shared = open_encoder(self.encoder, int(rng("sketch").integers(2**31)), self.buckets, self.dimension)
        return EventState(opened.weights, opened.first, opened.inputs, shared=shared)

    def ask(self, state: EventState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """The encoder first; whoever has not got it yet is sent it with the first question after that."""
        if ask := ask_encoder(state.shared, cohort):
            return ask
        ask = super().ask(state, cohort, rng)
        if ask is None:
            return None
        encoder = state.shared.message()
        missing = {name for name in ask.to if name not in state.equipped}
        each = {name: Message({**ask.each.get(name, {}), **encoder}) for name in missing}
        return replace(ask, each={**ask.each, **each})

    def answer(self, question: Question, prepared: PostData, memory: EventMemory, rng: Rng) -> tuple[Message, Any]:
        """Help to make the encoder; then encode once, and learn."""
        if question.phase in ENCODER_PHASES:
            return answer_encoder(question, prepared.counts), None
        if "basis" in question.own:
            encoder = read_encoder(self.encoder, question.own)
            memory = replace(memory, features=self.features(encoder.encode_counts(prepared.counts), prepared.days))
        return super().answer(question, prepared, memory, rng)

    def absorb(self, state: EventState, answers: Answers, public: Table | None, rng: Rng) -> tuple[EventState, Metrics]:
        """Make the encoder, then what the learner makes."""
        if not state.shared.is_ready:
            return replace(state, shared=absorb_encoder(state.shared, answers)), {}
        state, metrics = super().absorb(state, answers, public, rng)
        return replace(state, equipped=tuple(sorted({*state.equipped, *answers.names}))), metrics

    def expects(self, state: EventState, phase: str) -> Expect:
        """As the encoder and the learner say."""
        return expect_encoder(state.shared, phase) if phase in ENCODER_PHASES else super().expects(state, phase)

    def result(self, outcome: Outcome) -> FittedEvents:
        """A model per client."""
        from cotempo.social.fitted import FittedEvents

        return FittedEvents(outcome)

    @classmethod
    def example(cls) -> tuple[EventLearner, dict[str, Table], None]:
        """A small instance and small clients, for the contract suite."""
        clients, _ = make_posts(clients=3, posts=24, events=6, seed=0)
        small = cls(
            rounds=2, dimension=4, buckets=32, encoder="hashed", hidden=2, heads=1, outputs=2, validation=0.2,
            compare=False,
        )  # fmt: skip
        return small, dict(clients), None
