"""`FittedEvents` and `FittedDetectors`: what graph learners and `EventDetector` leave, a model per client."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cotempo.data.html import html_table
from cotempo.data.tables import make_frame, pluralize
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.federation import Fitted, plus_minus
from cotempo.social.clustering import group_known, group_unknown
from cotempo.social.detector.detection import Detection, as_posts, detect_groups
from cotempo.social.detector.model import Detector
from cotempo.social.detector.space import PostSpace
from cotempo.social.detector.words import has_words
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.social.encoders.pretrained import CHARACTERS, load_encoder
from cotempo.social.graph_model.data import embed
from cotempo.storage.saved import Saved
from cotempo.typing import Singles

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from cotempo.learners import RoundRecord
    from cotempo.social.detector.client import DetectorMemory
    from cotempo.social.graph_model.data import EventMemory
    from cotempo.social.graph_model.learner import EventLearner


MOST_CLIENTS = 4  # in figures


class FittedEvents(Fitted):
    """The result of a graph learner: ``fitted[client]`` is that client's `EventModel`."""

    def __getattr__(self, name: str) -> Any:
        """Say where a client's model is, if asked for what that has."""
        raise _missing(self, name, EventModel)

    def __getitem__(self, client: str) -> EventModel:
        """Return the client's own model; a client that never trained receives the server's."""
        super().__getitem__(client)
        memory: EventMemory | None = self.outcome.memories.get(client)
        weights = self.state.weights if memory is None or not memory.best.size else memory.best
        if not self.state.shared.is_ready:
            raise DataError([Problem("the run must have made its encoder first", client)])
        method: Any = self.outcome.method
        own = client if len(self.outcome.schemas) > 1 else ""
        return EventModel(method, self.state.inputs, weights, self.state.shared.encoder, own)

    @property
    def record(self) -> tuple[RoundRecord, ...]:
        """For `DAMe`, one entry per round: each client's local weight, the groups, and the similarities."""
        record: tuple[RoundRecord, ...] = self.state.record
        return record

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Draw convergence and, for `DAMe`, local weights, similarities and groups."""
        from cotempo.social.plots import draw_rounds

        return draw_rounds(self.history, self.record)


class EventModel(Saved):
    """One client's graph model, with the learner that made it and the encoder of texts.

    The names of groups have the name of the `client`, where it is one of several.
    """

    def __init__(
        self, method: EventLearner, inputs: int, weights: Singles, encoder: CharacterEncoder, client: str = ""
    ):
        self.method, self.inputs, self.weights, self.encoder, self.client = method, inputs, weights, encoder, client
        self.model: nn.Module = method.new_model(inputs, weights)

    def embed(self, posts: Any) -> Singles:
        """Return a vector per post, ``(posts, outputs)``; posts of one event lie together."""
        table = as_posts(posts)
        edges, days = self.method.graph(table)
        features = self.method.features(self.encoder.encode(table.text), days)
        return embed(self.model, self.method.tensor(features), edges, np.arange(table.rows))

    def detect(self, posts: Any, events: int | None = None) -> Detection:
        """Return the event of every post of a table or dataframe.

        Events are groups of these posts; their number is found by density unless given. Only posts without any word are
        outliers, and confidences of others are NaN: nothing outside these posts says how sure their groups are.
        """
        table = as_posts(posts)
        worded = np.array([has_words(text) for text in table.text], dtype=bool)
        vectors = self.embed(table)[worded]
        codes = group_unknown(vectors) if events is None else group_known(vectors, events)
        return detect_groups(worded, codes, self.client)

    def plot(self, posts: Any, events: int | None = None) -> Figure:
        """Draw the posts of a table or dataframe in the plane of their vectors' main directions, by detected event."""
        from cotempo.social.plots import draw_posts

        return draw_posts(self.embed(posts), self.detect(posts, events))

    def _repr_html_(self) -> str:
        rows = [("method", type(self.method).__name__), ("weights", self.weights.size)]
        return html_table(type(self).__name__, rows, notes=["detect, embed, plot"])


class FittedDetectors(Fitted):
    """The result of `EventDetector`: ``fitted[client]`` is that client's `Detector`."""

    def __getattr__(self, name: str) -> Any:
        """Say where a client's detector is, if asked for what that has."""
        raise _missing(self, name, Detector)

    def __getitem__(self, client: str) -> Detector:
        """Return the client's detector, always the same object, so that `partial_fit` lasts."""
        super().__getitem__(client)
        if client not in self.streams:
            if client not in self.outcome.memories:
                why = (
                    "it must have at least one post with a word, beside emoji and addresses, and its last answer must "
                    "count; there is no detector for it"
                )
                raise DataError([Problem(why, client)])
            memory: DetectorMemory = self.outcome.memories[client]
            method: Any = self.outcome.method
            weights = method.ngram_weights(self.state.sums)
            encoder = CharacterEncoder(weights, memory.basis, method.encoder)
            space = PostSpace(encoder, memory.whitening, memory.duration)
            settings = (method.patience, method.smallest, method.time != "ignore", self.outcome.schemas[client].clock)
            store = memory.store.owned_by(client) if len(self.outcome.schemas) > 1 else memory.store
            self.streams[client] = Detector(space, store, memory.ridge, *settings)
        return cast(Detector, self.streams[client])

    def answer(self) -> str:
        """Return how many events were found, the largest, and how well held-out posts were put into theirs."""
        found = self._events
        if found is None:
            return super().answer()
        largest = found.loc[found["size"].idxmax()]
        times = [f"{time:.3g}" if isinstance(time, float) else str(time)[:10] for time in largest[["start", "end"]]]
        when = "" if largest["start"] is None else f", {' to '.join(times)}"
        of = pluralize(len(self.outcome.memories), "client")
        number = pluralize(found["event"].nunique(), "event")
        first = f"Found {number} in the posts of {of}; the largest, of {largest['client']}"
        told = f"{first}: {largest['keywords'] or largest['event']} ({pluralize(largest['size'], 'post')}{when})."
        nameless = sum(self[name].store.nameless for name in self.outcome.memories)
        if nameless:
            every = nameless + int(found["size"].sum())
            told += (
                f" {nameless:,} of {pluralize(every, 'post')} {'belongs' if nameless == 1 else 'belong'} to no event."
            )
        scores = [item.together for item in self.benefit.values()]
        if not scores:
            return told
        compared = found[found["client"].isin(list(self.benefit))]
        labelled, size = int(compared["labelled"].sum()), int(compared["size"].sum())
        few = f", from their {labelled:,} labelled posts of {size:,}" if labelled < size else ""
        return f"{told} {next(iter(self.benefit.values())).metric}: {plus_minus(scores)[1:]}{few}."

    def advice(self) -> list[str]:
        """Return what every result says, and what to know about posts: of no event, found, misdated, taken in later."""
        lines, stores = super().advice(), {name: self[name].store for name in self.outcome.memories}
        for name in stores:
            lines += [f"{name}: {line}" for line in self[name].advice()]
        said = (
            ("nameless", "belong to no event", "taken in as a stream they may become events"),
            ("misdated", "have dates more than a year from all others", "those dates are not used"),
        )
        for field, what, then in said:
            counts = {name: getattr(store, field) for name, store in stores.items() if getattr(store, field)}
            if counts:
                each = ", ".join(f"{count:,} of {name}" for name, count in list(counts.items())[:5])
                more = f" and {len(counts) - 5} more clients" if len(counts) > 5 else ""
                lines.append(f"posts that {what}: {each}{more}; {then}")
        taken = {name: store.window for name, store in stores.items() if store.window}
        if taken:
            each = ", ".join(f"{pluralize(count, 'window')} by {name}" for name, count in list(taken.items())[:5])
            lines.append(f"since the run, later posts were taken in: {each}")
        return lines

    @property
    def _events(self) -> Any:
        """Events of all clients, the largest of each first, each with a central post; `None` if there is no client."""
        import pandas as pd

        found = [self[name].events().assign(client=name) for name in self.outcome.memories]
        if not found:
            return None
        events = pd.concat(found, ignore_index=True).sort_values(["client", "size"], ascending=[True, False])
        events = events.assign(posts=[posts[0] if posts else "" for posts in events["posts"]])
        order = ["client", "event", "keywords", "size", "start", "end", "posts"]
        return events[[*order, *(name for name in events if name not in order)]]

    def figures(self, truth: Any = None) -> Mapping[str, Any]:
        """Draw a map and a timeline of the first clients."""
        return {f"Events of {name}": self[name].plot() for name in list(self.outcome.memories)[:MOST_CLIENTS]}

    def tables(self) -> Mapping[str, Any]:
        """Return the events of all clients, the largest first, each with a central post; and what every result has.

        Of events with one name at several clients, a table shows how many posts each client has.
        """
        events = self._events
        if events is None:
            return super().tables()
        sizes = events.pivot_table(index="event", columns="client", values="size", aggfunc="sum", fill_value=0)
        several = {"events_by_client": sizes.rename_axis(columns=None).reset_index()} if sizes.shape[1] > 1 else {}
        return {"events": events, **several, **super().tables()}

    def links(self, encoder: Any = None, *, least: float = 0.5) -> Any:
        """Return events of different clients that are probably the same one, whatever their language, as a dataframe.

        Two events are linked if they have the same name, or if each is the other client's most similar one by the
        mean vectors of their kept posts, with a cosine of at least `least`.

        Parameters
        ----------
        encoder
            A pretrained encoder that reads several languages alike, such as ``"multilingual"``, or one of your own
            with ``encode(texts)``; by default the one events were found with. N-grams find events better, but compare
            spellings, so that links need another encoder.
        least
            The least cosine of two events that are linked.
        """
        method: Any = self.method
        chosen = method.encoder if encoder is None else encoder
        if isinstance(chosen, str) and chosen in CHARACTERS:
            raise ParameterError(
                f"events are linked across languages by a pretrained encoder, such as links('multilingual'), "
                f"got {chosen!r}, which compares spellings"
            )
        reader = load_encoder(chosen) if isinstance(chosen, str) else chosen
        if not callable(getattr(reader, "encode", None)):
            raise ParameterError(
                f"encoder must be the name of a pretrained one or have encode(texts), got {type(chosen).__name__}"
            )
        vectors = {}
        for name in self.outcome.memories:
            records, sample = self[name].store.events, self[name].store.sample
            read, events = np.asarray(reader.encode(sample.text), dtype=np.float64), np.array(sample.event)
            means = []
            for record in records:
                own = read[events == record.name]
                means.append((own if len(own) else np.asarray(reader.encode(record.posts))).mean(axis=0))
            lengths = np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
            vectors[name] = [record.name for record in records], np.stack(means) / lengths
        rows = []
        for first, second in combinations(sorted(vectors), 2):
            (names, own), (others, theirs) = vectors[first], vectors[second]
            alike = own @ theirs.T
            for place, event in enumerate(names):
                if event in others:  # nothing else is like it
                    alike[place], alike[:, others.index(event)] = -1.0, -1.0
                    alike[place, others.index(event)] = 1.0
            for place, best in enumerate(alike.argmax(axis=1)):
                if alike[:, best].argmax() == place and alike[place, best] >= least:
                    rows.append((first, names[place], second, others[best], float(alike[place, best])))
        columns = ("client", "event", "other client", "other event", "similarity")
        return make_frame({name: [row[place] for row in rows] for place, name in enumerate(columns)})


def _missing(fitted: Fitted, name: str, kind: type) -> AttributeError:
    """Return the error of an attribute that is not there, or is there for each client."""
    if not name.startswith("_") and hasattr(kind, name):
        clients = ", ".join(fitted.names[:5])
        return AttributeError(f"each client has a model of its own: use fitted[client].{name}; clients are {clients}")
    return AttributeError(f"{type(fitted).__name__!r} object has no attribute {name!r}")
