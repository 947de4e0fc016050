"""What `detect` returns everywhere in this family: the event of every post, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data.tables import FrameKind, make_frame
from cotempo.social.detector.discriminant import centres_of, square_distances

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Detection:
    """The event of every post, and how sure that is.

    Attributes
    ----------
    event
        One id per post, ``(posts,)``.
    confidence
        Its probability among the events in question, ``(posts,)``.

    Examples
    --------
    >>> Detection(np.array(["flood", "fire"]), np.array([0.9, 0.8])).to_frame("pyarrow").column_names
    ['event', 'confidence']
    """

    event: NDArray[np.str_]
    confidence: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.event)

    def __repr__(self) -> str:
        return f"Detection({len(self)} posts, {len(set(self.event.tolist()))} events)"

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return a table with a row per post: its event and the confidence."""
        return make_frame({"event": self.event, "confidence": self.confidence}, kind)


def name_groups(codes: NDArray[np.intp]) -> NDArray[np.str_]:
    """Return ids of groups that have no label."""
    return np.array([f"group-{code}" for code in codes], dtype=np.str_)


def detect_groups(vectors: Floats, codes: NDArray[np.intp]) -> Detection:
    """Name groups of vectors; each is taken for a normal density of the same spread in every direction."""
    events = int(codes.max(initial=-1)) + 1
    squares = square_distances(vectors, centres_of(vectors, codes, events))
    own = squares[np.arange(len(codes)), codes]
    spread = own.sum() / max((len(codes) - events) * vectors.shape[1], 1)
    sure = softmax(-0.5 * squares / max(spread, 1e-12))
    return Detection(name_groups(codes), sure[np.arange(len(codes)), codes])


def softmax(scores: Floats) -> NDArray[np.float64]:
    """Return rows that sum to one.

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
