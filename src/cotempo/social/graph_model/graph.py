"""The graph of posts that share attributes: sparse, with capped hubs, and growing with the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Sparse = Any
"""A scipy CSR matrix."""


@dataclass(frozen=True)
class PostGraph:
    """Posts joined where they share an attribute, with self-loops.

    Attributes
    ----------
    edges
        ``(posts, posts)``, symmetric; an entry counts the shared attributes, the diagonal is 1.
    incidence
        ``(posts, attributes)``, what the edges are made of.
    columns
        The column of each attribute.
    cap
        An attribute that more posts share than this joins none of them: it tells little, and its edges grow with the
        square of its posts.

    Examples
    --------
    >>> graph = PostGraph.build([("tag:a",), ("tag:a", "tag:b"), ("tag:b",)])
    >>> graph.edges.toarray().tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    >>> graph.grow([("tag:a",)]).edges.shape
    (4, 4)
    """

    edges: Sparse
    incidence: Sparse
    columns: Mapping[str, int]
    cap: int

    @classmethod
    def build(cls, attributes: Sequence[Sequence[str]], cap: int = 300) -> PostGraph:
        """Build the graph of a list of posts' attributes."""
        incidence, columns = _incidence(attributes, {})
        return cls(_edges(incidence, cap), incidence, columns, cap)

    def grow(self, attributes: Sequence[Sequence[str]]) -> PostGraph:
        """Return the graph with further posts; only edges of the new posts are computed.

        Edges between old posts stay as they are, also where an attribute has become a hub since.
        """
        from scipy import sparse

        added, columns = _incidence(attributes, self.columns)
        old = self.incidence.copy()
        old.resize((old.shape[0], len(columns)))
        incidence = sparse.vstack([old, added]).tocsr()
        kept = _below_cap(incidence, self.cap)
        fresh = added @ kept
        across = (fresh @ (old @ kept).T).tocsr()
        within = _edges(added @ kept, None)
        edges = sparse.bmat([[self.edges, across.T], [across, within]]).tocsr()
        return PostGraph(edges, incidence, columns, self.cap)


def _incidence(attributes: Sequence[Sequence[str]], known: Mapping[str, int]) -> tuple[Sparse, dict[str, int]]:
    from scipy import sparse

    columns = dict(known)
    indices = [columns.setdefault(name, len(columns)) for bag in attributes for name in bag]
    starts = np.concatenate([[0], np.cumsum([len(bag) for bag in attributes], dtype=np.int64)])
    values = np.ones(len(indices), dtype=np.float32)
    return sparse.csr_matrix((values, np.asarray(indices, np.int32), starts), (len(attributes), len(columns))), columns


def _below_cap(incidence: Sparse, cap: int) -> Sparse:
    """The diagonal matrix that keeps attributes of two to `cap` posts."""
    from scipy import sparse

    shared = np.bincount(incidence.indices, minlength=incidence.shape[1])
    return sparse.diags(((shared >= 2) & (shared <= cap)).astype(np.float32), format="csr")


def _edges(incidence: Sparse, cap: int | None) -> Sparse:
    from scipy import sparse

    kept = incidence if cap is None else incidence @ _below_cap(incidence, cap)
    kept.eliminate_zeros()
    joined = (kept @ kept.T).tocsr()
    joined = joined - sparse.diags(joined.diagonal(), format="csr") + sparse.identity(joined.shape[0], np.float32)
    joined = joined.tocsr()
    joined.eliminate_zeros()
    return joined
