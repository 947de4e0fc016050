"""What graph learners of posts hold: the server's state, a client's memory, and its posts made ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.learners import LearnerMemory, LearnerState
from cotempo.social.clustering import mutual_information
from cotempo.social.detector.discriminant import centres_of, square_distances
from cotempo.social.encoders.characters import Counts
from cotempo.social.encoders.shared import SharedEncoder
from cotempo.social.graph_model.sampler import Block, sample_blocks

if TYPE_CHECKING:
    import torch
    from torch import nn

OLE_EPOCH = 25569.0
PIECE = 5000
STEPS = 30
TRAIN, VALIDATION, TEST, UNLABELLED = range(4)


@dataclass(frozen=True)
class RoundRecord:
    """What a round of DAMe was like, for the report."""

    weights: Mapping[str, float]
    groups: Mapping[str, int]
    similarities: NDArray[np.float64]


@dataclass(frozen=True)
class EventState(LearnerState):
    """A learner's state, the shared encoder, who has it already, and the record of rounds."""

    shared: SharedEncoder = field(default_factory=lambda: SharedEncoder(0, 0, 0))
    equipped: tuple[str, ...] = ()
    record: tuple[RoundRecord, ...] = ()


@dataclass(frozen=True)
class EventMemory(LearnerMemory):
    """A learner's memory, the features of the own posts, and which part each post belongs to."""

    features: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    part: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))


@dataclass(frozen=True)
class PostData:
    """A client's posts, ready: hashed counts, edges, label codes (-1: none) and times in days."""

    counts: Counts
    edges: Any
    codes: NDArray[np.int64]
    days: NDArray[np.float64]


@dataclass(frozen=True)
class Batch:
    """Posts to learn from: all features, the sampled blocks, the events, and a stream for the loss."""

    features: torch.Tensor
    blocks: tuple[Block, ...]
    codes: torch.Tensor
    generator: torch.Generator


@dataclass(frozen=True)
class Dataset:
    """What a client trains and judges on."""

    features: torch.Tensor
    posts: PostData
    part: NDArray[np.int8]

    def rows(self, part: int) -> NDArray[np.int64]:
        """Rows of the training, validation or test part."""
        return np.flatnonzero(self.part == part).astype(np.int64)


def time_features(days: NDArray[np.float64], scaled: bool) -> NDArray[np.float32]:
    """Return two columns: the OLE date over 100,000 and the time of day, or with `scaled` time in standard units.

    Unknown times are zero.
    """
    known = np.isfinite(days)
    if scaled:
        spread = float(days[known].std()) if known.any() else 0.0
        date = (days - (days[known].mean() if known.any() else 0.0)) / max(spread, 1e-9)
    else:
        date = (days + OLE_EPOCH) / 1e5
    columns = np.column_stack([date, days % 1.0])
    return np.asarray(np.where(known[:, None], columns, 0.0), dtype=np.float32)


def embed(
    model: nn.Module, features: torch.Tensor, edges: Any, rows: NDArray[np.int64], fanouts: Sequence[int]
) -> NDArray[np.float32]:
    """Return the model's vectors of some posts, ``(rows, outputs)``, in pieces of bounded size."""
    import torch

    rng = np.random.default_rng(0)
    found = []
    with torch.no_grad():
        for piece in np.array_split(rows, max(1, -(-len(rows) // PIECE))):
            found.append(model(features, sample_blocks(edges, piece, fanouts, rng)).cpu().numpy())
    return np.concatenate(found) if found else np.zeros((0, 0), np.float32)


def clustering_nmi(vectors: NDArray[np.float32], truth: NDArray[np.int64]) -> float:
    """Return the NMI of k-means with the true number of events; the mean of three starts tames its noise."""
    events = len(np.unique(truth))
    runs = [quick_kmeans(vectors, events, np.random.default_rng(seed)) for seed in range(3)]
    return float(np.mean([mutual_information(truth, run) for run in runs]))


def quick_kmeans(vectors: NDArray[np.float32], events: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Group a few hundred posts by one start of k-means; BOLA asks for this so often that set-up time would rule."""
    points = vectors.astype(np.float64)
    centres = points[[int(rng.integers(len(points)))]]
    while len(centres) < events:
        chance = square_distances(points, centres).min(axis=1) + 1e-12
        centres = np.vstack([centres, points[rng.choice(len(points), p=chance / chance.sum())]])
    codes = np.full(len(points), -1, dtype=np.intp)
    for _ in range(STEPS):
        found = square_distances(points, centres).argmin(axis=1)
        if (found == codes).all():
            break
        codes = found
        held = np.bincount(codes, minlength=events) > 0
        centres[held] = centres_of(points, codes, events)[held]
    return codes
