"""`SharedEncoder`: the encoder that clients make by two sums, in phases that any method can put before its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotempo.federation import Answers, Ask, Expect, Message, Question, Spec
from cotempo.social.encoders.characters import (
    CharacterEncoder,
    Counts,
    basis_of,
    document_frequencies,
    inverse_frequencies,
    sketch,
    sketch_columns,
    weigh,
)
from cotempo.typing import Singles

ENCODER_PHASES = ("frequencies", "sketch")


@dataclass(frozen=True)
class SharedEncoder:
    """The server's knowledge of the encoder.

    Weights and basis are empty until made; `seed` is that of the sketch, `kind` as in `EventDetector`.
    """

    seed: int
    buckets: int
    dimension: int
    kind: str = "shared"
    weights: Singles = field(default_factory=lambda: np.zeros(0, np.float32))
    basis: Singles = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @property
    def is_ready(self) -> bool:
        """Whether posts can be encoded."""
        return bool(self.basis.size)

    @property
    def encoder(self) -> CharacterEncoder:
        """The finished encoder."""
        return CharacterEncoder(self.weights, self.basis, self.kind)

    def message(self) -> Message:
        """Return the finished encoder as a message to clients."""
        return Message({"ngram_weights": self.weights, "basis": self.basis})


def open_encoder(kind: str, seed: int, buckets: int, dimension: int) -> SharedEncoder:
    """Return the encoder before the first question; a hashed one is ready, a pretrained one needs no weights."""
    opened = SharedEncoder(seed, buckets, dimension, kind)
    if kind == "shared":
        return opened
    if kind != "hashed":
        return replace(opened, weights=np.ones(buckets, np.float32))
    made = CharacterEncoder.random(dimension, buckets, seed)
    return replace(opened, weights=made.weights, basis=made.basis)


def ask_encoder(state: SharedEncoder, cohort: Sequence[str]) -> Ask | None:
    """Ask for the next sum; return None when the encoder is ready."""
    if state.is_ready:
        return None
    if not state.weights.size:
        return Ask("frequencies", cohort, ends_round=False)
    common = Message({"weights": state.weights, "seed": state.seed, "columns": sketch_columns(state.dimension)})
    return Ask("sketch", cohort, common, ends_round=False)


def answer_encoder(question: Question, counts: Counts) -> Message:
    """Answer with document frequencies, or with the sketch of the weighted counts."""
    if question.phase == "frequencies":
        return Message({"frequency": document_frequencies(counts), "documents": float(counts.shape[0])})
    weighted = weigh(counts, question.common["weights"])
    return Message({"sketch": sketch(weighted, question.common["seed"], question.common["columns"])})


def absorb_encoder(state: SharedEncoder, answers: Answers) -> SharedEncoder:
    """Make the weights, then the basis, from the sums."""
    if not state.weights.size:
        weights = inverse_frequencies(answers.sum["frequency"], answers.sum["documents"])
        return replace(state, weights=weights)
    return replace(state, basis=basis_of(answers.sum["sketch"], state.seed, state.dimension))


def expect_encoder(state: SharedEncoder, phase: str) -> Expect:
    """Expect what the two phases send; only its sum over clients is needed."""
    if phase == "frequencies":
        fields = {
            "frequency": Spec((state.buckets,), low=0, description="in how many posts each hashed n-gram occurs"),
            "documents": Spec((), "float", low=1, description="your number of posts"),
        }
        return Expect(fields, sums=True)
    shape = (state.buckets, sketch_columns(state.dimension))
    about = "a random mixture of n-gram co-occurrences over all your posts"
    return Expect({"sketch": Spec(shape, "float32", description=about)}, sums=True)


def read_encoder(kind: str, message: Message) -> CharacterEncoder:
    """Read the encoder that `SharedEncoder.message` sent."""
    return CharacterEncoder(message["ngram_weights"], message["basis"], kind)
