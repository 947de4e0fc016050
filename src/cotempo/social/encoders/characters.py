"""`CharacterEncoder`: character n-grams, weighted and projected by statistics that clients only add up.

Document frequencies give every n-gram its weight, one sketch of the weighted counts gives a common basis.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from cotempo.social.encoders.scripts import spaced
from cotempo.typing import Array, Floats, Singles

LONGEST = 20_000
FEW_POSTS = 2500
Counts = Any
"""A scipy CSR matrix of n-gram counts, ``(posts, buckets)``."""


def hash_ngrams(texts: Sequence[str], buckets: int, kind: str = "char_wb", lengths: tuple[int, int] = (3, 5)) -> Counts:
    """Count n-grams, by default of 3 to 5 characters inside words, hashed into buckets.

    Hashing needs no common vocabulary, so clients agree on columns without naming a word, in any script; where a script
    has no spaces between words, pairs of letters are words. Only the first 20,000 characters of a text count.

    Examples
    --------
    >>> hash_ngrams(["flood", ""], 64).sum(axis=1).tolist()
    [[12.0], [0.0]]
    """
    from scipy import sparse
    from sklearn.feature_extraction.text import HashingVectorizer

    if not len(texts):
        return sparse.csr_matrix(np.zeros((0, buckets), np.float32))
    sizes: Any = {"analyzer": kind, "ngram_range": lengths, "n_features": buckets}
    vectorizer = HashingVectorizer(**sizes, alternate_sign=False, norm=None, dtype=np.float32)
    return vectorizer.transform([spaced(text[:LONGEST]) for text in texts])


def dense(matrix: Any) -> Array:
    """Return a sparse or dense matrix as an array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def document_frequencies(counts: Counts) -> Floats:
    """Return in how many posts each n-gram occurs, ``(buckets,)``."""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64)


def inverse_frequencies(frequency: Array, documents: float) -> Singles:
    """Return ``log((1 + N) / (1 + n_g)) + 1`` for every n-gram g, ``(buckets,)``."""
    return (np.log((1 + documents) / (1 + np.maximum(frequency, 0))) + 1).astype(np.float32)


def own_weights(counts: Counts) -> Singles:
    """Return the inverse frequencies in one owner's posts, ``(buckets,)``; none for pretrained vectors."""
    if isinstance(counts, np.ndarray):
        return np.zeros(0, np.float32)
    return inverse_frequencies(document_frequencies(counts), counts.shape[0])


def weigh(counts: Counts, weights: Singles) -> Counts:
    """Return ``(1 + log count) * weight`` with rows of length one; a post without n-grams stays zero.

    Vectors of a pretrained encoder are no counts and stay as they are.
    """
    if isinstance(counts, np.ndarray):
        return counts
    weighted = counts.copy()
    weighted.data = (1 + np.log(weighted.data)) * weights[weighted.indices]
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(rows, weighted.data.astype(np.float64) ** 2, minlength=counts.shape[0]))
    weighted.data /= np.maximum(length, 1e-12)[rows].astype(np.float32)
    return weighted


@lru_cache(maxsize=1)
def sketch_matrix(seed: int, buckets: int, columns: int) -> Singles:
    """Draw the random matrix all clients sketch with; it depends on the seed only."""
    drawn = np.random.Generator(np.random.Philox(key=seed)).standard_normal((buckets, columns), dtype=np.float32)
    drawn.flags.writeable = False
    return drawn


def sketch(weighted: Counts, seed: int, columns: int) -> Singles:
    """Return ``X' X Omega``, ``(buckets, columns)``; the sum over clients is the sketch of all posts."""
    omega = sketch_matrix(seed, weighted.shape[1], columns)
    return np.asarray(weighted.T @ (weighted @ omega), dtype=np.float32)


def basis_of(total: Array, seed: int, dimension: int) -> Singles:
    """Return the leading eigenvectors of ``X' X``, ``(buckets, dimension)``, given only its sketch ``Y = X' X Omega``.

    The Nystrom approximation ``Y (Omega' Y)^-1 Y'`` needs a single pass over the posts: one exchange, not two. Columns
    are orthonormal, the largest eigenvalue's first; where the sketch has fewer columns, the last ones are zero.
    """
    buckets, columns = total.shape
    omega = sketch_matrix(seed, buckets, columns).astype(np.float64)
    # A small shift keeps the inner matrix positive definite when the posts span fewer directions than the sketch.
    shifted = total.astype(np.float64) + 1e-6 * np.linalg.norm(total) / np.sqrt(columns) * omega
    inner = omega.T @ shifted
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    half = (shifted @ vectors) / np.sqrt(np.maximum(values, values[-1] * 1e-7))
    squares, right = np.linalg.eigh(half.T @ half)
    kept, basis = slice(-1, -dimension - 1, -1), np.zeros((buckets, dimension), np.float32)
    basis[:, : min(columns, dimension)] = half @ right[:, kept] / np.sqrt(np.maximum(squares[kept], 1e-30))
    return basis


@dataclass(frozen=True)
class CharacterEncoder:
    """Encode texts by weighted character n-grams, or by vectors of a pretrained model, in a shared basis.

    Parameters
    ----------
    weights, basis
        Weight of every n-gram, ``(buckets,)``, and orthonormal columns, ``(buckets, dimension)``.
    kind
        ``"shared"`` for n-grams, or the name of a pretrained encoder; see `EventDetector`.

    Examples
    --------
    >>> encoder = CharacterEncoder.learn(["flood in town", "flood on the river", "train crash"], dimension=2)
    >>> encoder.encode(["flood", "مرحبا", ""]).shape
    (3, 2)
    """

    weights: Singles
    basis: Singles
    kind: str = "shared"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.basis.shape[1])

    def encode(self, texts: Sequence[str]) -> Singles:
        """Return a vector per text, ``(texts, dimension)``."""
        return self.encode_counts(self.read(texts))

    def read(self, texts: Sequence[str]) -> Counts:
        """Return the hashed counts or pretrained vectors of texts, ``(texts, buckets)``."""
        from cotempo.social.encoders.pretrained import read_texts

        return read_texts(self.kind, texts, len(self.weights))

    def encode_counts(self, counts: Counts) -> Singles:
        """Return a vector of length one per row of hashed counts; zero where a text has no n-grams."""
        vectors = np.asarray(weigh(counts, self.weights) @ self.basis, dtype=np.float32)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(length, np.float32(1e-6)), dtype=np.float32)

    @classmethod
    def learn(cls, texts: Sequence[str], *, dimension: int = 100, buckets: int = 2**15) -> Self:
        """Learn the encoder from one owner's texts."""
        empty = cls(np.ones(buckets, np.float32), np.zeros((buckets, dimension), np.float32))
        return empty.learned_alone(hash_ngrams(texts, buckets))

    def learned_alone(self, counts: Counts) -> Self:
        """Return an encoder of this size with weights and basis of one owner's posts."""
        return replace(self, weights=own_weights(counts)).with_own_basis(counts)

    def with_own_basis(self, counts: Counts) -> Self:
        """Return an encoder with these weights and the basis of one owner's posts."""
        rank = min(self.dimension, *counts.shape)
        basis = np.zeros_like(self.basis)
        basis[:, :rank] = right_vectors(weigh(counts, self.weights), rank)
        return replace(self, basis=basis)

    @classmethod
    def random(cls, dimension: int, buckets: int, seed: int = 0) -> Self:
        """Return a random projection with equal weights, which needs no sums."""
        basis = sketch_matrix(seed, buckets, dimension) / np.float32(np.sqrt(dimension))
        return cls(np.ones(buckets, np.float32), basis)


def right_vectors(weighted: Counts, rank: int) -> Singles:
    """Return the leading right singular vectors, ``(buckets, rank)``; for few posts, from their inner products."""
    from scipy.linalg import eigh
    from sklearn.utils.extmath import randomized_svd

    posts = weighted.shape[0]
    if posts > FEW_POSTS:
        return np.asarray(randomized_svd(weighted, rank, random_state=0)[2].T)
    values, left = eigh(dense(weighted @ weighted.T), subset_by_index=[posts - rank, posts - 1])
    left = np.where(values > 1e-6 * max(values[-1], 1e-30), left / np.sqrt(np.maximum(values, 1e-30)), 0.0)
    return np.asarray(weighted.T @ left[:, ::-1].astype(np.float32))
