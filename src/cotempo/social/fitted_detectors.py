"""What `EventDetector` leaves: a detector per client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotempo.errors import DataError, Problem
from cotempo.federation.fitted import Fitted, Outcome
from cotempo.social.detecting import Detector
from cotempo.social.discovery import DetectorMemory
from cotempo.social.encoder import PairedEncoder
from cotempo.social.lens import Lens
from cotempo.social.pretrained import make_encoder


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
                raise DataError([Problem("its last answer did not count, so there is no detector for it", client)])
            memory: DetectorMemory = self.outcome.memories[client]
            shared = self.state.shared
            encoder = make_encoder(shared.kind, *memory.encoder) if memory.encoder else shared.encoder
            if memory.paired:
                encoder = PairedEncoder(encoder.weights, encoder.basis, shared.encoder)
            lens = Lens(encoder, memory.whitening, memory.duration, memory.temper)
            # With labels the lens is a discriminant learned in this encoder's space; without, it can move on.
            follows = self.state.freedom <= 0 and shared.kind == "shared"
            self._detectors[client] = Detector(lens, memory.book, **self._options, follows=follows)
        return self._detectors[client]

    def figures(self, truth: Any = None) -> Mapping[str, Any]:
        """A map and a timeline per client."""
        return {f"Events of {name}": self[name].plot() for name in self.outcome.memories}
