"""Random streams: one per (seed, owner, step, purpose), made when drawn from, never stored."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


class Rng:
    """A family of independent random streams that share a key.

    Calling it with a purpose makes that purpose's stream. Streams with another purpose, step, owner or seed are
    independent of it; the same key and purpose give the same numbers again, so nothing random needs a checkpoint.

    Examples
    --------
    >>> rng = Rng(0, "hospital-3", 7)
    >>> bool(rng("noise").normal() == rng("noise").normal())
    True
    >>> bool(rng("noise").normal() == rng("shuffle").normal())
    False
    """

    __slots__ = ("key",)

    def __init__(self, *key: int | str):
        self.key = key

    def _hash(self, purpose: str, size: int) -> int:
        text = repr((*self.key, purpose)).encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:size], "little")

    def __call__(self, purpose: str) -> np.random.Generator:
        """Make the numpy stream for `purpose`."""
        return np.random.Generator(np.random.Philox(self._hash(purpose, 16)))

    def torch(self, purpose: str, device: str = "cpu") -> torch.Generator:
        """Make the torch stream for `purpose`."""
        import torch

        generator = torch.Generator(device=device)
        generator.manual_seed(self._hash(purpose, 8) >> 1)
        return generator
