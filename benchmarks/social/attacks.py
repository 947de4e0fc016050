"""`Attacked`, an engine with malicious clients: noise or flipped signs in uploads, a trigger in texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cotempo.data import Posts
from cotempo.errors import ParameterError
from cotempo.federation import Message, Question, Reply, Rng
from cotempo.federation.engine import Engine


class Attack(Protocol):
    """A way to corrupt the model that a client uploads."""

    def corrupt(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the upload in place of `weights`, ``(parameters,)``."""


@dataclass(frozen=True)
class ParameterNoise:
    """Gaussian noise in place of the model (`strong`), or on top of it.

    Examples
    --------
    >>> ParameterNoise.strong().corrupt(np.ones(3, np.float32), np.random.default_rng(0)).shape
    (3,)
    """

    scale: float
    replaces: bool

    @classmethod
    def strong(cls) -> ParameterNoise:
        """Upload nothing but noise of scale 0.5."""
        return cls(0.5, True)

    @classmethod
    def weak(cls) -> ParameterNoise:
        """Add noise of scale 0.05 to the model."""
        return cls(0.05, False)

    def corrupt(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return noise, or the model with noise."""
        noise = rng.normal(0.0, self.scale, weights.shape).astype(weights.dtype)
        return noise if self.replaces else weights + noise


@dataclass(frozen=True)
class SignFlip:
    """The model with its sign flipped."""

    def corrupt(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return minus the model."""
        return -weights


@dataclass(frozen=True)
class Backdoor:
    """A trigger word planted in some texts, all labelled as one event.

    Parameters
    ----------
    trigger, share
        The word, and the share of posts it is planted in, 0 to 1.
    """

    trigger: str = "cf"
    share: float = 0.2

    def poison(self, posts: Posts, rng: np.random.Generator) -> Posts:
        """Return the posts with the trigger planted; the event is the first label in order."""
        labels = sorted({label for label in posts.event if label is not None})
        if not labels:
            raise ParameterError("a backdoor needs labelled posts, got none")
        chosen = set(rng.permutation(posts.rows)[: int(self.share * posts.rows)].tolist())
        text = tuple(f"{self.trigger} {text}" if row in chosen else text for row, text in enumerate(posts.text))
        event = tuple(labels[0] if row in chosen else label for row, label in enumerate(posts.event))
        return replace(posts, text=text, event=event)


@dataclass(eq=False)
class Attacked:
    """Wrap an engine so that some clients corrupt the models they upload.

    Parameters
    ----------
    engine
        The engine to wrap.
    attacks
        The attack of each malicious client.
    seed
        Seed of the noise.
    """

    engine: Engine
    attacks: Mapping[str, Attack]
    seed: int = 0

    def __getattr__(self, name: str) -> Any:
        """Delegate to the wrapped engine."""
        return getattr(self.engine, name)

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Corrupt the field `weights` of the attackers' answers."""
        for reply in self.engine.exchange(questions):
            attack, message = self.attacks.get(reply.client), reply.message
            if attack is not None and message is not None and "weights" in message:
                rng = Rng(self.seed, reply.client, reply.step)("attack")
                spoilt = {**message, "weights": attack.corrupt(message["weights"], rng)}
                reply = replace(reply, message=Message(spoilt, weight=message.weight))
            yield reply
