"""`join_posts`, the sparse graph of posts that share attributes, and `sample_blocks`, neighbours drawn from it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cotempo.data import Posts
from cotempo.typing import Integers

FANOUTS = (800, 100)
"""Neighbours sampled for the last layer and for the one before, as published."""
_TAG = re.compile(r"#(\w+)")
_MENTION = re.compile(r"@(\w+)")
_SITE = re.compile(r"https?://(?:www\.)?([^\s/?#:]+\.[^\s/?#:]+)", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w#@])[^\W\d_a-z][\w'’-]+(?:\s+[^\W\d_a-z][\w'’-]+)*")
_SENTENCE = re.compile(r"(?:^|[.!?…]\s+)$")


def extract_attributes(posts: Posts) -> list[tuple[str, ...]]:
    """Return the authors, mentions, hashtags, linked sites and names of every post, each with its kind in front.

    Examples
    --------
    >>> extract_attributes(Posts(time=[0.0], text=("Flood in Boulder! #cowx @noaa https://www.nws.gov/x",)))
    [('entity:boulder', 'site:nws.gov', 'tag:cowx', 'user:noaa')]
    """
    found = []
    for row, text in enumerate(posts.text):
        bag = {f"tag:{tag.lower()}" for tag in (*posts.hashtags[row], *_TAG.findall(text))}
        bag |= {f"user:{name.lower()}" for name in (*posts.mentions[row], *_MENTION.findall(text))}
        bag |= {f"site:{site.lower()}" for site in _SITE.findall(text)}
        bag |= {f"entity:{name}" for name in capitalised_phrases(text)}
        author = posts.author[row]
        if author is not None:
            bag.add(f"user:{author.lower()}")
        found.append(tuple(sorted(bag)))
    return found


def capitalised_phrases(text: str) -> list[str]:
    """Return runs of capitalised words that do not merely open a sentence; scripts without capitals give nothing.

    Examples
    --------
    >>> capitalised_phrases("Today the Red Cross went to Boulder. Rain again")
    ['red cross', 'boulder']
    """
    found = []
    for match in _NAME.finditer(text):
        phrase = match.group()
        opens = _SENTENCE.search(text[: match.start()]) is not None
        if phrase[0].isupper() and not (opens and " " not in phrase):
            found.append(phrase.lower())
    return found


def join_posts(attributes: Sequence[Sequence[str]], cap: int = 300) -> Any:
    """Return a CSR matrix of how many attributes two posts share, ``(posts, posts)``; the diagonal is 1.

    An attribute that more posts share than `cap` joins none of them: it tells little, and its edges grow with the
    square of its posts.

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
    edges.eliminate_zeros()
    return edges


@dataclass(frozen=True)
class Block:
    """One layer's edges, from `sources`, of which the targets come first, to the first `targets` of them.

    `origin` and `goal` are the positions of each edge's ends in `sources`, ``(edges,)``, sorted by goal.
    """

    sources: Integers
    targets: int
    origin: Integers
    goal: Integers


def sample_neighbours(graph: Any, nodes: Integers, fanout: int, rng: np.random.Generator) -> Block:
    """Draw up to `fanout` neighbours of every node, without replacement; a node with fewer keeps them all.

    `graph` is a CSR matrix with self-loops, ``(posts, posts)``, `nodes` are distinct, ``(targets,)``.
    """
    degree = (graph.indptr[nodes + 1] - graph.indptr[nodes]).astype(np.int64)
    goal = np.repeat(np.arange(len(nodes)), degree)
    offset = np.arange(len(goal)) - np.repeat(np.cumsum(degree) - degree, degree)
    ends = graph.indices[np.repeat(graph.indptr[nodes].astype(np.int64), degree) + offset].astype(np.int64)
    if (degree > fanout).any():
        ends = ends[np.argsort(goal + rng.random(len(goal)))]  # shuffled within each goal, which stays in its place
        kept = offset < fanout  # within a goal, the first `fanout` after shuffling
        goal, ends = goal[kept], ends[kept]
    place = np.full(graph.shape[0], -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    new = np.unique(ends[place[ends] < 0])
    place[new] = len(nodes) + np.arange(len(new))
    return Block(np.concatenate([nodes, new]), len(nodes), place[ends], goal)


def sample_blocks(
    graph: Any, nodes: Integers, rng: np.random.Generator, fanouts: Sequence[int] = FANOUTS
) -> tuple[Block, ...]:
    """Draw the blocks of several layers, the first layer's first."""
    blocks: list[Block] = []
    for fanout in fanouts:
        block = sample_neighbours(graph, nodes, fanout, rng)
        blocks.insert(0, block)
        nodes = block.sources
    return tuple(blocks)
