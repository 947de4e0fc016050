"""`join_posts`: the sparse graph of posts that share attributes, with capped hubs."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def join_posts(attributes: Sequence[Sequence[str]], cap: int = 300) -> Any:
    """Join posts where they share an attribute, with self-loops.

    Parameters
    ----------
    attributes
        The attributes of each post.
    cap
        An attribute that more posts share than this joins none of them: it tells little, and its edges grow with the
        square of its posts.

    Returns
    -------
    scipy.sparse.csr_matrix
        ``(posts, posts)``, symmetric; an entry counts the shared attributes, the diagonal is 1.

    Examples
    --------
    >>> join_posts([("tag:a",), ("tag:a", "tag:b"), ("tag:b",)]).toarray().tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    from scipy import sparse

    columns: dict[str, int] = {}
    indices = np.array([columns.setdefault(name, len(columns)) for bag in attributes for name in bag], np.int32)
    starts = np.concatenate([[0], np.cumsum([len(bag) for bag in attributes], dtype=np.int64)])
    values = np.ones(len(indices), dtype=np.float32)
    incidence = sparse.csr_matrix((values, indices, starts), (len(attributes), len(columns)))
    shared = np.bincount(indices, minlength=len(columns))
    incidence = incidence @ sparse.diags(((shared >= 2) & (shared <= cap)).astype(np.float32), format="csr")
    incidence.eliminate_zeros()
    edges = (incidence @ incidence.T).tocsr()
    edges = edges - sparse.diags(edges.diagonal(), format="csr") + sparse.identity(edges.shape[0], np.float32)
    edges = edges.tocsr()
    edges.eliminate_zeros()
    return edges
