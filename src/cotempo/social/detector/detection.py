"""`Detection`, which every `detect` of this family returns: the event of each post with a confidence."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts, read_posts
from cotempo.data.html import html_table
from cotempo.data.tables import Framed, FrameKind, make_frame, pluralize
from cotempo.errors import DataError
from cotempo.typing import Array, Bools, Floats, Indices

OUTLIER = "outlier"
"""The event of posts that are about none of the events considered."""
GROUP = "group-"


@dataclass(frozen=True)
class Detection(Framed):
    """The event of every post with a confidence.

    Attributes
    ----------
    event
        One id per post, ``(posts,)``; ``"outlier"`` for a post about none of the known events.
    confidence
        The probability of that id, ``(posts,)``; NaN for groups made of the posts themselves.

    Examples
    --------
    >>> Detection(np.array(["flood", "fire", "outlier"]), np.array([0.9, 0.8, 0.6]))
    Detection(3 posts, 2 events, 1 outlier)
    """

    event: NDArray[np.str_]
    confidence: Floats

    def __len__(self) -> int:
        return len(self.event)

    @property
    def outlier(self) -> Bools:
        """Whether each post is about none of the known events, ``(posts,)``."""
        return np.asarray(self.event == OUTLIER)

    def __repr__(self) -> str:
        events = len(set(self.event.tolist()) - {OUTLIER})
        outliers = pluralize(int(self.outlier.sum()), "outlier")
        return f"Detection({pluralize(len(self), 'post')}, {pluralize(events, 'event')}, {outliers})"

    def _repr_html_(self) -> str:
        rows = [
            (event, count, float(np.median(self.confidence[self.event == event])))
            for event, count in Counter(self.event.tolist()).most_common()
        ]
        return html_table(repr(self), rows, ("event", "posts", "median confidence"))

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a table with a row per post: its event and the confidence."""
        return make_frame({"event": self.event, "confidence": self.confidence}, kind)


def as_posts(source: Any, unit: str = "s") -> Posts:
    """Return one client's posts: a table as it is, a list of texts, or whatever `read_posts` reads in this unit.

    Posts keep the order of their source.
    """
    if isinstance(source, Posts):
        return source
    if isinstance(source, Iterable) and not (isinstance(source, str | Mapping) or hasattr(source, "columns")):
        texts = tuple(source)
        wrong = [place for place, text in enumerate(texts) if not isinstance(text, str | PathLike)]
        if wrong:
            raise DataError(f"posts must be texts, got {texts[wrong[0]]!r} at position {wrong[0]}; drop or fill it")
        if all(isinstance(text, str) for text in texts):
            return Posts(np.full(len(texts), np.nan), texts)
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) and "text" not in frame.columns:
        named = ", ".join(map(repr, frame.columns))
        advice = "rename it, or name it to the reader: cotempo.read_posts(frame, columns={'text': ...})"
        raise DataError(f"a column 'text' must be there, got {named}; {advice}")
    found = read_posts(source, unit=unit)
    if len(found) != 1:
        raise DataError(f"posts must be those of one client, got {len(found)}: {', '.join(list(found)[:5])}")
    return next(iter(found.values()))


def detect_groups(worded: Bools, codes: Indices, client: str = "") -> Detection:
    """Name groups made of the posts that have words, as `worded` says; the others are outliers.

    The groups of two clients are different ones, so that their names have the client, if it is given. How sure each is,
    nothing outside the posts can tell, so it is NaN.
    """
    prefix = f"{GROUP}{client}-" if client else GROUP
    names = np.full(len(worded), OUTLIER, dtype=object)
    names[worded] = [f"{prefix}{code}" for code in codes]
    return Detection(names.astype(np.str_), np.where(worded, np.nan, 1.0))


def check_labels(posts: Posts) -> Posts:
    """Return the posts, if none has the label that means none."""
    if OUTLIER in posts.event:
        raise DataError(
            f"an event must not be called {OUTLIER!r}, the name of posts about no known event; "
            "rename it, or leave those posts without a label"
        )
    return posts


def softmax(scores: Array) -> Floats:
    """Return rows that sum to one, proportional to the exponentials of the scores."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
