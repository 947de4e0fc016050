"""What OneRound's server keeps, what it expects of clients, and what it has to say about their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotempo.federation import Expect, Spec
from cotempo.networks.gram import Gram, Sums, unpack
from cotempo.networks.search.personal import SHARES

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class OneRoundState:
    """What the server keeps: the sums, and the network they tell.

    `counts`, `sums` and `products` have a row for what was seen before the held-out fifth and one for the rest, or a
    single row where nothing is held out.
    """

    variables: tuple[str, ...]
    phase: str
    centre: FloatArray
    pairwise: bool = False
    counts: FloatArray = field(default_factory=lambda: np.zeros((2, 1)))
    sums: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    products: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    within: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    across: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    variance: FloatArray = field(default_factory=lambda: np.zeros(0))
    undirected: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    score: float = 0.0
    share: float = 0.0
    comparisons: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    def as_shown(self, matrices: NDArray[Any]) -> NDArray[Any]:
        """Bring `(..., variables, variables)` from the order of the search to that in which clients hold them."""
        places = [self.variables.index(name) for name in self.shown]
        return matrices[..., places, :][..., places]


@dataclass(frozen=True)
class OneRoundMemory:
    """A client's own network, which never leaves it."""

    within: FloatArray
    across: FloatArray


def expected(state: OneRoundState, phase: str, lags: int, parts: int) -> Expect:
    """What a client's answer looks like; `parts` is 2 where a fifth is held out."""
    count = len(state.variables)
    side = count * (lags + 1)
    pairs = side * (side + 1) // 2
    if phase == "centre":
        fields = {
            "counts": Spec((count,), low=0, high=1e12, description="how many values you have of each variable"),
            "sums": Spec((count,), description="their sums"),
            "incomplete": Spec((), "float", low=0, high=1, description="whether any cell or variable is missing"),
        }
        return Expect(fields, sums=True)
    if phase == "products":
        rules = () if state.pairwise else (_semidefinite,)
        fields = {
            "counts": Spec(
                (parts, pairs if state.pairwise else 1), low=0, high=1e12, description="how many rows you have"
            ),
            "sums": Spec((parts, side), description="the sum of each variable and of its lags"),
            "products": Spec((parts, pairs), rules=rules, description="sums of products of each two of them"),
        }
        return Expect(fields, sums=True)
    if phase == "compare":
        fields = {
            "alone": Spec((), "float", description="how well a model of your own predicts your held-out rows"),
            "together": Spec((), "float", description="how well the common network predicts them"),
            "rows": Spec((), "int", low=0, high=1e12, description="how many rows you held out"),
        }
        return Expect(fields)
    if phase == "borrow":
        about = "how well your rows are predicted when more or fewer rows of the others are borrowed"
        return Expect({"scores": Spec((len(SHARES),), description=about)}, sums=True)
    about = "how many edges your own network has within a time step"
    return Expect({"edges": Spec((), "float", low=0, description=about)}, sums=True)


def pooled_sums(state: OneRoundState, *, trial: bool = False) -> Sums:
    """The sums over all rows, or over those before the held-out ones."""
    parts = (getattr(state, name) for name in Sums._fields)
    return Sums(*(part[0] if trial else part.sum(axis=0) for part in parts))


def mended(state: OneRoundState, gram: Gram) -> list[str]:
    """Say what constant columns and pairwise moments made necessary."""
    count = len(state.variables)
    lines = [
        f"{state.variables[column % count]} at lag {column // count} does not vary in the rows that were summed: "
        f"no edge {'from it' if column >= count else 'of it'} was considered"
        for column in np.flatnonzero(gram.gram.diagonal() == 0).tolist()
    ]
    if gram.unseen.any():
        first, second = np.argwhere(np.triu(gram.unseen))[0] % count
        lines.append(
            f"{int(np.triu(gram.unseen).sum())} pairs of columns were never seen together, like "
            f"{state.variables[first]} and {state.variables[second]}: no edge between them was considered"
        )
    if gram.repaired < 0:
        lines.append(
            f"the pairwise moments did not fit together (smallest eigenvalue of their correlations "
            f"{gram.repaired:.2g}); they were moved to the nearest that do"
        )
    return lines


def _semidefinite(products: FloatArray) -> str | None:
    """Rule: each packed matrix of products is one that real rows can have."""
    side = int((np.sqrt(8 * products.shape[1] + 1) - 1) / 2)
    for triangle in products:
        values = np.linalg.eigvalsh(unpack(triangle, side))
        if values[0] < -1e-9 * max(abs(values[-1]), 1e-300):
            return f"must be positive semidefinite, its smallest eigenvalue is {values[0]:g}"
    return None
