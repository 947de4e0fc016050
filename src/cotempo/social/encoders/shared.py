"""`SharedEncoder`: the encoder that clients of a graph learner make by two sums, in phases before those of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation import Answers, Ask, Expect, Message, Question, Spec
from cotempo.social.encoders.characters import (
    CharacterEncoder,
    Counts,
    basis_of,
    document_frequencies,
    inverse_frequencies,
    sketch,
    weigh,
)
from cotempo.typing import Singles

ENCODER_PHASES = ("frequencies", "sketch")
POSTS_PER_COLUMN = 4
BLOCKS = 16  # of buckets in which sketches of clients are compared


@dataclass(frozen=True)
class SharedEncoder:
    """The server's knowledge of the encoder.

    Weights and basis are empty until made; `seed` is that of the sketch, `kind` as in `EventDetector`, and `documents`
    how many posts clients have, unknown with a pretrained encoder.
    """

    seed: int
    buckets: int
    dimension: int
    kind: str = "shared"
    documents: float = 0.0
    weights: Singles = field(default_factory=lambda: np.zeros(0, np.float32))
    basis: Singles = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @classmethod
    def open(cls, kind: str, seed: int, buckets: int, dimension: int) -> SharedEncoder:
        """Return the encoder before the first question; a hashed one is ready, a pretrained one needs no weights."""
        opened = cls(seed, buckets, dimension, kind)
        if kind == "shared":
            return opened
        made = CharacterEncoder.random(dimension, buckets, seed)
        return replace(opened, weights=made.weights, basis=made.basis if kind == "hashed" else opened.basis)

    @property
    def is_ready(self) -> bool:
        """Whether posts can be encoded."""
        return bool(self.basis.size)

    @property
    def encoder(self) -> CharacterEncoder:
        """The finished encoder."""
        return CharacterEncoder(self.weights, self.basis, self.kind)

    @property
    def columns(self) -> int:
        """Columns of the sketch: half as many again as wanted keep the last vectors of the basis accurate.

        A sketch with as many columns as posts is a system of equations for these. Of few posts it has fewer columns,
        and the basis fewer vectors.
        """
        most = most_columns(self.dimension)
        return max(min(most, int(self.documents / POSTS_PER_COLUMN)), 2) if self.documents else most

    def ask(self, cohort: Sequence[str]) -> Ask | None:
        """Ask for the next sum; return None when the encoder is ready."""
        if self.is_ready:
            return None
        if not self.weights.size:
            return Ask("frequencies", cohort, ends_round=False)
        common = Message({"weights": self.weights, "seed": self.seed, "columns": self.columns})
        return Ask("sketch", cohort, common, ends_round=False)

    def expects(self, phase: str) -> Expect:
        """Expect what the two phases send; only its sum over clients is needed."""
        if phase == "frequencies":
            fields = {
                "frequency": Spec((self.buckets,), low=0, description="in how many posts each hashed n-gram occurs"),
                "documents": Spec((), "float", low=1, description="your number of posts"),
            }
            return Expect(fields, sums=True, rows=lambda message: message["documents"])
        about = "a random mixture of n-gram co-occurrences over all your posts"
        fields = {
            "sketch": Spec((self.buckets, self.columns), "float32", description=about),
            "documents": Spec((), "float", low=1, description="your number of posts"),
        }
        return Expect(fields, sums=True, rows=lambda message: message["documents"], alike=_outline)

    def absorb(self, answers: Answers) -> SharedEncoder:
        """Make the weights, then the basis, from the sums."""
        if not self.weights.size:
            documents = float(answers.sum["documents"])
            weights = inverse_frequencies(answers.sum["frequency"], documents)
            return replace(self, weights=weights, documents=documents)
        return replace(self, basis=basis_of(answers.sum["sketch"], self.seed, self.dimension))


def most_columns(dimension: int) -> int:
    """Return how many columns a sketch has at most."""
    return dimension + max(dimension // 2, 4)


def answer_encoder(question: Question, counts: Counts, dimension: int) -> Message:
    """Answer with document frequencies, or with the sketch of the weighted counts."""
    if question.phase == "frequencies":
        return Message({"frequency": document_frequencies(counts), "documents": float(counts.shape[0])})
    weighted, columns = weigh(counts, question.common["weights"]), question.common["columns"]
    if columns > (most := most_columns(dimension)):
        raise MessageError(f"a sketch must have at most {most} columns with these parameters, got {columns}")
    found = sketch(weighted, question.common["seed"], columns)
    return Message({"sketch": found, "documents": float(counts.shape[0])})


def _outline(message: Message) -> dict[str, Singles]:
    """Return a sketch's size per post, coarsely where it lies, and how few directions it has: noise has all of them."""
    sketch = message["sketch"].astype(np.float64)
    size = max(float(np.linalg.norm(sketch)), 1e-30)
    blocks = np.stack([part.sum(axis=0) for part in np.array_split(sketch, BLOCKS)]) / size
    gram = (sketch / size).T @ (sketch / size)
    told = {"size of the sketch": size / message["documents"], "directions of the sketch": np.square(gram).sum()}
    return {"sketch": blocks, **{name: np.log(np.maximum([value], 1e-30)) for name, value in told.items()}}
