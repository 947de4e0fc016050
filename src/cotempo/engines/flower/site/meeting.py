"""`Meeting`: what a site that masked tells the others, and the question of the secure sum that their words answer."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cotempo.engines.flower.wire import ABSENT, MOST_SITES
from cotempo.errors import MessageError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import Message
from cotempo.privacy.secure_sum.client import read_names
from cotempo.privacy.secure_sum.shield import MASKED, UNMASK

SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class Meeting:
    """A meeting of the `count` sites of a session; see `cotempo.engines.flower.coordinator.meetings`."""

    asked: Question
    count: int
    word: str

    @classmethod
    def after(cls, question: Question, reply: Reply) -> Meeting | None:
        """Return the meeting that follows an answer; `None` if the coordinator announced no session for it."""
        asked = question.then or question
        if asked.phase != MASKED or "session" not in asked.own:
            return None
        count = len(read_names(asked.common["members"]))
        if count > MOST_SITES:
            return None
        word = ABSENT
        if reply.message is not None and reply.message["signature"].any():  # else it has not masked
            word = b64encode(reply.message["signature"].tobytes() + asked.client.encode()).decode()
        return cls(asked, count, word)

    @property
    def header(self) -> str:
        """What the site shows with its answer."""
        return f"{self.asked.common['session']} {self.count} {self.word}"

    def question(self, words: Sequence[str]) -> Question:
        """Return the question that the coordinator would ask once it has all words, which are not to be trusted."""
        try:
            parts = [b64decode(word, validate=True) for word in words]
            signatures = {part[SIGNATURE_BYTES:].decode(): part[:SIGNATURE_BYTES] for part in parts}
            rows = [np.frombuffer(signatures[name], np.uint8) for name in sorted(signatures)]
            common = {"session": self.asked.common["session"], "signers": json.dumps(sorted(signatures))}
            signed = Message({**common, "signatures": np.stack(rows)})
        except ValueError as error:
            raise MessageError("the words of a meeting must be signatures with their signers' names") from error
        following = Message({name: value for name, value in self.asked.own.items() if name != "envelopes"})
        return replace(self.asked, phase=UNMASK, common=signed, own=following)
