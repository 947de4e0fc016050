"""`Detection`, which every `detect` of this family returns: the event of each post with a confidence."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Posts, read_posts
from cotempo.data.tables import FrameKind, make_frame
from cotempo.errors import DataError
from cotempo.social.clustering import centres_of, square_distances
from cotempo.typing import Array, Floats, Indices


@dataclass(frozen=True)
class Detection:
    """The event of every post with a confidence.

    Attributes
    ----------
    event
        One id per post, ``(posts,)``.
    confidence
        Its probability among the events considered, ``(posts,)``.

    Examples
    --------
    >>> Detection(np.array(["flood", "fire"]), np.array([0.9, 0.8])).to_frame("pyarrow").column_names
    ['event', 'confidence']
    """

    event: NDArray[np.str_]
    confidence: Floats

    def __len__(self) -> int:
        return len(self.event)

    def __repr__(self) -> str:
        return f"Detection({len(self)} posts, {len(set(self.event.tolist()))} events)"

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a table with a row per post: its event and the confidence."""
        return make_frame({"event": self.event, "confidence": self.confidence}, kind)


def as_posts(source: Any) -> Posts:
    """Return a table of posts as it is, and read one from anything else that holds the posts of one client."""
    if isinstance(source, Posts):
        return source
    found = read_posts(source)
    if len(found) != 1:
        raise DataError(f"posts must be those of one client, got {len(found)}: {', '.join(list(found)[:5])}")
    return next(iter(found.values()))


def detect_groups(vectors: Array, codes: Indices) -> Detection:
    """Name groups of vectors; confidences are those of normal densities with one spread in every direction."""
    events = int(codes.max(initial=-1)) + 1
    squares = square_distances(vectors, centres_of(vectors, codes, events))
    own = squares[np.arange(len(codes)), codes]
    spread = own.sum() / max((len(codes) - events) * vectors.shape[1], 1)
    sure = softmax(-0.5 * squares / max(spread, 1e-12))
    names = np.array([f"group-{code}" for code in codes], dtype=np.str_)
    return Detection(names, sure[np.arange(len(codes)), codes])


def softmax(scores: Array) -> Floats:
    """Return rows that sum to one, proportional to the exponentials of the scores."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
