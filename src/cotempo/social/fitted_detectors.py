"""What `EventDetector` leaves: a detector per client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotempo.errors import DataError, Problem
from cotempo.federation import Fitted, Outcome
from cotempo.social.detector.client import DetectorMemory
from cotempo.social.detector.model import Detector
from cotempo.social.detector.space import Lens
from cotempo.social.encoders.pretrained import CHARACTERS, make_encoder


class FittedDetectors(Fitted):
    """The result of `EventDetector`: ``fitted[client]`` is that client's `Detector`."""

    def __init__(self, outcome: Outcome, *, patience: int, smallest: int):
        super().__init__(outcome)
        self._options: dict[str, int] = {"patience": patience, "smallest": smallest}
        self._detectors: dict[str, Detector] = {}

    def __getitem__(self, client: str) -> Detector:
        """The client's detector; it lives on through `partial_fit`."""
        super().__getitem__(client)
        if client not in self._detectors:
            if client not in self.outcome.memories:
                why = "it must have at least one post and its last answer must count; there is no detector for it"
                raise DataError([Problem(why, client)])
            memory: DetectorMemory = self.outcome.memories[client]
            method: Any = self.outcome.method
            kind, weights = method.encoder, method.ngram_weights(self.state.frequency, self.state.documents)
            lens = Lens(make_encoder(kind, weights, memory.basis), memory.whitening, memory.duration)
            # With labels there is a classifier of these weights; without, the encoder can move on.
            follows = memory.ridge is None and kind in CHARACTERS
            self._detectors[client] = Detector(
                lens, memory.book, ridge=memory.ridge, weights=memory.weights, **self._options, follows=follows
            )
        return self._detectors[client]

    def figures(self, truth: Any = None) -> Mapping[str, Any]:
        """A map and a timeline per client."""
        return {f"Events of {name}": self[name].plot() for name in self.outcome.memories}
