"""`FittedEvents` and `FittedDetectors`: what graph learners and `EventDetector` leave, a model per client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.errors import DataError, Problem
from cotempo.federation import Fitted
from cotempo.social.clustering import group_known, group_unknown
from cotempo.social.detector.detection import Detection, as_posts, detect_groups
from cotempo.social.detector.model import Detector
from cotempo.social.detector.space import PostSpace
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.social.encoders.pretrained import CHARACTERS
from cotempo.social.graph_model.data import embed
from cotempo.typing import Singles

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from cotempo.federation import Outcome
    from cotempo.social.detector.client import DetectorMemory
    from cotempo.social.graph_model.data import EventMemory, RoundRecord
    from cotempo.social.graph_model.learner import EventLearner


class FittedEvents(Fitted):
    """The result of a graph learner: ``fitted[client]`` is that client's `EventModel`."""

    def __getitem__(self, client: str) -> EventModel:
        """Return the client's own model; a client that never trained receives the server's."""
        super().__getitem__(client)
        memory: EventMemory | None = self.outcome.memories.get(client)
        weights = self.state.weights if memory is None or not memory.best.size else memory.best
        if not self.state.shared.is_ready:
            raise DataError([Problem("the run must have made its encoder first", client)])
        method: Any = self.outcome.method
        return EventModel(method, method.new_model(self.state.inputs, weights), self.state.shared.encoder)

    @property
    def record(self) -> tuple[RoundRecord, ...]:
        """For `DAMe`, one entry per round: each client's local weight, the groups, and the similarities."""
        record: tuple[RoundRecord, ...] = self.state.record
        return record

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Draw convergence and, for `DAMe`, local weights, similarities and groups."""
        from cotempo.social.plots import draw_rounds

        return draw_rounds(self.history, self.record)


class EventModel:
    """One client's graph model, with the learner that made it and the encoder of texts."""

    def __init__(self, method: EventLearner, model: nn.Module, encoder: CharacterEncoder):
        self.method = method
        self.model = model
        self.encoder = encoder

    def embed(self, posts: Any) -> Singles:
        """Return a vector per post, ``(posts, outputs)``; posts of one event lie together."""
        table = as_posts(posts)
        edges, days = self.method.graph(table)
        features = self.method.features(self.encoder.encode(table.text), days)
        return embed(self.model, self.method.tensor(features), edges, np.arange(table.rows))

    def detect(self, posts: Any, events: int | None = None) -> Detection:
        """Return the event and the confidence of every post of a table or dataframe.

        Events are groups of these posts; their number is found by density unless given.
        """
        vectors = self.embed(posts)
        return detect_groups(vectors, group_unknown(vectors) if events is None else group_known(vectors, events))


class FittedDetectors(Fitted):
    """The result of `EventDetector`: ``fitted[client]`` is that client's `Detector`."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome)
        self._detectors: dict[str, Detector] = {}

    def __getitem__(self, client: str) -> Detector:
        """Return the client's detector, always the same object, so that `partial_fit` lasts."""
        super().__getitem__(client)
        if client not in self._detectors:
            if client not in self.outcome.memories:
                why = "it must have at least one post and its last answer must count; there is no detector for it"
                raise DataError([Problem(why, client)])
            memory: DetectorMemory = self.outcome.memories[client]
            method: Any = self.outcome.method
            weights = method.ngram_weights(self.state.sums)
            encoder = CharacterEncoder(weights, memory.basis, method.encoder)
            # With labels there is a classifier of these weights; without, the encoder can change.
            relearns = memory.ridge is None and method.encoder in CHARACTERS
            space = PostSpace(encoder, memory.whitening, memory.duration)
            stream = (method.patience, method.smallest, relearns)
            self._detectors[client] = Detector(space, memory.store, memory.ridge, *stream)
        return self._detectors[client]

    def figures(self, truth: Any = None) -> Mapping[str, Any]:
        """Draw a map and a timeline per client."""
        return {f"Events of {name}": self[name].plot() for name in self.outcome.memories}
