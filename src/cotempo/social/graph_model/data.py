"""`EventState`, `EventMemory` and `Dataset`: what the server and the clients of a graph learner hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.learners import LearnerMemory, LearnerState, RoundRecord
from cotempo.social.encoders.characters import Counts
from cotempo.social.encoders.shared import SharedEncoder
from cotempo.social.graph_model.graph import Block, sample_blocks
from cotempo.typing import Floats, Integers, Singles

if TYPE_CHECKING:
    import torch
    from torch import nn

OLE_EPOCH = 25569.0
ROWS_AT_ONCE = 5000


@dataclass(frozen=True)
class EventState(LearnerState):
    """A learner's state with the shared encoder, the clients that have received it, and the record of rounds."""

    shared: SharedEncoder = field(default_factory=lambda: SharedEncoder(0, 0, 0))
    equipped: tuple[str, ...] = ()
    record: tuple[RoundRecord, ...] = ()


@dataclass(frozen=True)
class EventMemory(LearnerMemory):
    """A learner's memory with the features of the client's posts, and the part each post belongs to."""

    features: Singles = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    part: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))


class PostPart(IntEnum):
    """The use of a post."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2
    UNLABELLED = 3


@dataclass(frozen=True)
class PostData:
    """Preprocessed posts: hashed counts, edges, label codes (-1: none) and times in days."""

    counts: Counts
    edges: Any
    codes: Integers
    days: Floats


@dataclass(frozen=True)
class PostBatch:
    """Features of all posts, the sampled blocks, the batch's events, and a generator for the loss."""

    features: torch.Tensor
    blocks: tuple[Block, ...]
    codes: torch.Tensor
    generator: torch.Generator


@dataclass(frozen=True)
class Dataset:
    """Features and posts of a client, with the part of each post."""

    features: torch.Tensor
    posts: PostData
    part: NDArray[np.int8]

    def rows(self, part: PostPart) -> Integers:
        """Return the rows of one part."""
        return np.flatnonzero(self.part == part).astype(np.int64)


def time_features(days: Floats, scaled: bool) -> Singles:
    """Return two columns: the OLE date over 100,000, or with `scaled` standardised time, and the time of day.

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


def embed(model: nn.Module, features: torch.Tensor, edges: Any, rows: Integers) -> Singles:
    """Return the model's vectors of some posts, ``(rows, outputs)``, computed in pieces of bounded size."""
    import torch

    rng = np.random.default_rng(0)
    found = []
    with torch.no_grad():
        for piece in np.array_split(rows, max(1, -(-len(rows) // ROWS_AT_ONCE))):
            found.append(model(features, sample_blocks(edges, piece, rng)).cpu().numpy())
    return np.concatenate(found) if found else np.zeros((0, 0), np.float32)
