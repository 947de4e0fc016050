"""What a graph learner of posts leaves: a model per client that finds events in posts it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.errors import DataError, Problem
from cotempo.federation import Fitted
from cotempo.social.clustering import group_known, group_unknown
from cotempo.social.detector.detection import Detection, detect_groups
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.social.graph_model.data import embed
from cotempo.social.reading import as_posts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cotempo.social.graph_model.data import EventMemory
    from cotempo.social.graph_model.learner import EventLearner


class FittedEvents(Fitted):
    """The result of a graph learner: ``fitted[client]`` is that client's `EventModel`.

    Attributes
    ----------
    record
        For `DAMe`, one entry per round: each client's local weight, the groups, and the similarities.
    """

    def __getitem__(self, client: str) -> EventModel:
        """The client's own model; a client that never trained is given the server's."""
        super().__getitem__(client)
        memory: EventMemory | None = self.outcome.memories.get(client)
        weights = self.state.weights if memory is None or not memory.best.size else memory.best
        if not self.state.shared.is_ready:
            raise DataError([Problem("the run must have made its encoder first", client)])
        method: Any = self.outcome.method
        return EventModel(method, weights, self.state.inputs, self.state.shared.encoder)

    @property
    def record(self) -> tuple[Any, ...]:
        """One entry per round, for methods that keep one."""
        record: tuple[Any, ...] = self.state.record
        return record

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Convergence and, for `DAMe`, local weights, similarities and groups."""
        from cotempo.social.figures import draw_rounds

        return draw_rounds(self.history, self.record)


class EventModel:
    """One client's model.

    Parameters
    ----------
    method
        The learner it came from.
    weights, inputs
        Its parameters as one vector, and how many inputs it has.
    encoder
        What texts are encoded by.
    """

    def __init__(self, method: EventLearner, weights: NDArray[np.float32], inputs: int, encoder: CharacterEncoder):
        self.method = method
        self.weights = weights
        self.encoder = encoder
        self.model = method.new_model(inputs, weights)

    def embed(self, posts: Any) -> NDArray[np.float32]:
        """Return a vector per post, ``(posts, outputs)``; posts of one event lie together."""
        import torch

        table = as_posts(posts)
        edges, days = self.method.graph(table)
        features = self.method.features(self.encoder.encode(table.text), days)
        given = torch.from_numpy(features).to(self.method.device)
        return embed(self.model, given, edges, np.arange(table.rows), self.method.fanouts)

    def detect(self, posts: Any, events: int | None = None) -> Detection:
        """Return the event and the confidence of every post; events are groups of these posts.

        Parameters
        ----------
        posts
            A table of posts or a dataframe.
        events
            How many events there are; by default as many as stand out by density.
        """
        vectors = self.embed(posts)
        return detect_groups(vectors, group_unknown(vectors) if events is None else group_known(vectors, events))
