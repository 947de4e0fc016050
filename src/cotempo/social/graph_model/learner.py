"""`EventLearner`: the graph model of posts as a learner; any algorithm of `cotempo.learners` goes on top of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from cotempo.data import Posts, Table, make_posts
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.federation import Answers, Ask, Expect, Message, Outcome, Question, Rng
from cotempo.federation.method import Metrics, Roster, agree
from cotempo.learners import Learner
from cotempo.social.clustering import clustering_nmi
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.social.encoders.pretrained import check_encoder, read_texts
from cotempo.social.encoders.shared import ENCODER_PHASES, SharedEncoder, answer_encoder
from cotempo.social.graph_model.data import (
    Dataset,
    EventMemory,
    EventState,
    PostBatch,
    PostData,
    PostPart,
    embed,
    time_features,
)
from cotempo.social.graph_model.graph import extract_attributes, join_posts, sample_blocks
from cotempo.typing import Floats, Singles

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cotempo.learners.private import PrivateLearner
    from cotempo.privacy.settings import Privacy
    from cotempo.social.fitted import FittedEvents

TIME_FEATURES = 2
# Section 5.4 of DAMe. Its multilingual Sentence-BERT is a student of the universal sentence encoder; both have 512
# numbers a text.
PAPER = {
    "batch": 2000, "epochs": 1, "learning_rate": 1e-3, "rounds": 50, "test": 0.2, "validation": 0.1,
    "encoder": "multilingual", "buckets": 512, "dimension": 512,
}  # fmt: skip
DAY = {"s": 86400.0, "h": 24.0, "D": 1.0, "": 1.0}


class EventLearner(Learner):
    """Learn vectors of posts by a graph attention network; the surface of `DAMe` and all its baselines."""

    kind: ClassVar[str] = "posts"
    phases: ClassVar[tuple[str, ...]] = (*ENCODER_PHASES, "train", "finish")
    presets: ClassVar[Any] = {"cotempo": {}, "paper": PAPER}
    State: ClassVar[type] = EventState
    Memory: ClassVar[type | None] = EventMemory
    metric: ClassVar[str] = "NMI on held-out posts"

    epochs: int = Field(default=2, ge=1, description="Passes over a client's training posts in a round.")
    learning_rate: float = Field(default=3e-3, gt=0, description="Learning rate of Adam, which restarts every round.")
    dimension: int = Field(default=200, ge=2, description="Length of a post's vector.")
    buckets: int = Field(
        default=2**15, ge=16, description="Length of the hashed n-gram counts, or of pretrained vectors."
    )
    encoder: Annotated[str, AfterValidator(check_encoder)] = Field(
        default="shared",
        description="Text encoder, as in `EventDetector`, or ``hashed``: a random basis that sums nothing.",
    )
    time: Literal["date", "scaled", "ignore"] = Field(
        default="date",
        description="Time as published (nearly invisible to the model), in standard units, or not at all.",
    )
    hidden: int = Field(default=48, ge=1, description="Width of a head of the first layer.")
    heads: int = Field(default=4, ge=1, description="Heads of the first layer.")
    outputs: int = Field(default=32, ge=1, description="Length of the vectors learned.")
    batch: int = Field(default=128, ge=4, description="Posts in a batch.")
    validation: float = Field(
        default=0.1, ge=0, lt=1, description="Share of the labelled posts that models are chosen on."
    )
    test: float = Field(default=0.2, ge=0, lt=1, description="Share of the labelled posts that models are compared on.")

    # The learner's hooks.

    def inputs(self, roster: Roster) -> int:
        """Return the length of a post's vector and two columns of time."""
        return self.dimension + TIME_FEATURES

    def make_model(self, inputs: int) -> nn.Module:
        """Make the graph attention network."""
        from cotempo.social.graph_model.attention import EventNetwork

        return EventNetwork(inputs, self.hidden, self.heads, self.outputs)

    def dataset(self, prepared: PostData, memory: EventMemory) -> Dataset:
        """Return the features as a tensor, with the parts drawn at the beginning."""
        return Dataset(self.tensor(memory.features), prepared, memory.part)

    def size(self, data: Dataset) -> int:
        """Return the number of training posts."""
        return len(data.rows(PostPart.TRAIN))

    def epoch_batches(self, data: Dataset, rng: np.random.Generator) -> Iterator[PostBatch]:
        """Shuffle the training posts and cut them into equal batches."""
        import torch

        rows = rng.permutation(data.rows(PostPart.TRAIN))
        for nodes in np.array_split(rows, max(1, -(-len(rows) // self.batch))):
            if len(nodes):
                generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
                blocks = sample_blocks(data.posts.edges, nodes, rng)
                yield PostBatch(data.features, blocks, self.tensor(data.posts.codes[nodes]), generator)

    def loss(self, model: nn.Module, batch: PostBatch) -> torch.Tensor:
        """Return the triplet loss (equation 14)."""
        from cotempo.social.graph_model.losses import triplet_loss

        return triplet_loss(model(batch.features, batch.blocks), batch.codes, batch.generator)

    def score(self, model: nn.Module, data: Dataset, part: str) -> float | None:
        """Return the NMI of k-means with the true number of events; None with fewer than two events."""
        rows = data.rows(PostPart[part.upper()])
        truth = data.posts.codes[rows]
        if len(np.unique(truth)) < 2:
            return None
        return clustering_nmi(embed(model, data.features, data.posts.edges, rows), truth)

    def private(self, privacy: Privacy) -> PrivateLearner:
        """Return the learner's private form; its budget pays for training alone."""
        if self.sums and self.sends_model and self.encoder == "shared":
            raise ParameterError(
                "encoder must not be 'shared' with epsilon, which would sum the n-grams of posts without noise; give "
                f"{type(self).__name__}(encoder='hashed') or a pretrained one"
            )
        return super().private(privacy)

    # The rounds: first the encoder, then the learner's.

    def check(self, roster: Roster) -> None:
        """Require one kind and unit of time; optional columns may differ."""
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

    def graph(self, posts: Posts) -> tuple[Any, Floats]:
        """Return the edges between posts, and their times in days."""
        return join_posts(extract_attributes(posts)), posts.time / DAY[posts.unit]

    def features(self, encoded: Singles, days: Floats) -> Singles:
        """Return posts' vectors and time, ``(posts, dimension + 2)``."""
        times = time_features(days, self.time == "scaled")
        vectors = encoded * np.float32(np.sqrt(self.dimension) / 4)
        return np.concatenate([vectors, times * np.float32(self.time != "ignore")], axis=1)

    def begin(self, prepared: PostData, rng: Rng) -> EventMemory:
        """Split the labelled posts into parts at random."""
        labelled = rng("parts").permutation(np.flatnonzero(prepared.codes >= 0))
        part = np.full(len(prepared.codes), PostPart.UNLABELLED, np.int8)
        tests, judged = int(self.test * len(labelled)), int(np.ceil(self.validation * len(labelled)))
        part[labelled] = PostPart.TRAIN
        part[labelled[:tests]] = PostPart.TEST
        part[labelled[tests : tests + judged]] = PostPart.VALIDATION
        return EventMemory(part=part)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> EventState:
        """Draw the first model and open the encoder."""
        opened = super().open(roster, public, rng)
        seed = int(rng("sketch").integers(2**31))
        encoder = SharedEncoder.open(self.encoder, seed, self.buckets, self.dimension)
        return EventState(opened.weights, opened.first, opened.inputs, shared=encoder)

    def ask(self, state: EventState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for the encoder first; send it with the first later question to each client that lacks it."""
        if ask := state.shared.ask(cohort):
            return ask
        ask = super().ask(state, cohort, rng)
        if ask is None:
            return None
        encoder = {"ngram_weights": state.shared.weights, "basis": state.shared.basis}
        missing = {name for name in ask.to if name not in state.equipped}
        each = {name: Message({**ask.each.get(name, {}), **encoder}) for name in missing}
        return replace(ask, each={**ask.each, **each})

    def answer(self, question: Question, prepared: PostData, memory: EventMemory, rng: Rng) -> tuple[Message, Any]:
        """Add to the encoder's sums; then encode once, and learn."""
        if question.phase in ENCODER_PHASES:
            return answer_encoder(question, prepared.counts, self.dimension), None
        if "basis" in question.own:
            encoder = CharacterEncoder(question.own["ngram_weights"], question.own["basis"], self.encoder)
            memory = replace(memory, features=self.features(encoder.encode_counts(prepared.counts), prepared.days))
        return super().answer(question, prepared, memory, rng)

    def absorb(self, state: EventState, answers: Answers, public: Table | None, rng: Rng) -> tuple[EventState, Metrics]:
        """Make the encoder, then absorb as the learner does."""
        if not state.shared.is_ready:
            return replace(state, shared=state.shared.absorb(answers)), {}
        state, metrics = super().absorb(state, answers, public, rng)
        return replace(state, equipped=tuple(sorted({*state.equipped, *answers.names}))), metrics

    def expects(self, state: EventState, phase: str) -> Expect:
        """Expect what the encoder's and the learner's phases send."""
        return state.shared.expects(phase) if phase in ENCODER_PHASES else super().expects(state, phase)

    def result(self, outcome: Outcome) -> FittedEvents:
        """Return a model per client."""
        from cotempo.social.fitted import FittedEvents

        return FittedEvents(outcome)

    @classmethod
    def example(cls) -> tuple[EventLearner, dict[str, Table], None]:
        """Return a small instance and small clients, for the contract suite."""
        clients, _ = make_posts(clients=3, posts=24, events=6, seed=0)
        sizes = {"dimension": 4, "buckets": 32, "hidden": 2, "heads": 1, "outputs": 2}
        small = cls(rounds=2, encoder="hashed", validation=0.2, compare=False, **sizes)
        return small, dict(clients), None
