"""`SecureSumShield`: the secure sum at a client, as a shield around what its method answers."""

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation.exchange import Question
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng
from cotempo.federation.shields import Shield
from cotempo.privacy.secure_sum.client import SumClient
from cotempo.privacy.secure_sum.disputes import Accusation
from cotempo.privacy.secure_sum.envelopes import ENVELOPE_BYTES, KEY_BYTES
from cotempo.privacy.secure_sum.fixed_point import Layout
from cotempo.privacy.secure_sum.identity import local_identities
from cotempo.privacy.secure_sum.shamir import threshold

KEYS, SHARES, MASKED, ECHO, UNMASK = (
    "secure_sum/keys",
    "secure_sum/shares",
    "secure_sum/masked",
    "secure_sum/echo",
    "secure_sum/unmask",
)
NOT_SHARED = {
    "mask_key": np.zeros(KEY_BYTES, np.uint8),
    "commitment": np.zeros(32, np.uint8),
    "envelopes": np.zeros((0, ENVELOPE_BYTES), np.uint8),
}  # what a client sends that accuses peers instead
WITHHELD = Message(weight=0.0)  # what leaves in place of an answer that waits to be masked


class SecureSumShield(Shield):
    """Withholds what the method answers to a question that is followed by one to mask it; answers the protocol's own.

    Parameters
    ----------
    connect
        Returns a client's part in a run, by the client's name and the run's identity.
    clear_phases
        The phases of the method that may leave in the clear; by default any that were not summed. A phase that was
        summed once never leaves in the clear in the same run.
    """

    phases = (KEYS, SHARES, MASKED, ECHO, UNMASK)
    at_sites = "secure_sum"

    def __init__(self, connect: Callable[[str, str], SumClient], clear_phases: Sequence[str] | None = None):
        self.connect = connect
        self.clear_phases = None if clear_phases is None else frozenset(clear_phases)
        self.noised_phases: frozenset[str] = frozenset()
        self._clients: dict[tuple[str, str], SumClient] = {}

    @classmethod
    def local(cls, names: Sequence[str]) -> "SecureSumShield":
        """Return the shield of clients on one machine, with keys made for them here."""
        identities, peers = local_identities(names)

        def connect(name: str, run: str) -> SumClient:
            return SumClient(identities[name], peers, run)

        return cls(connect)

    @classmethod
    def elsewhere(cls) -> "SecureSumShield":
        """Return what stands for the shield at the server while sites have their own."""

        def connect(name: str, run: str) -> NoReturn:
            raise MessageError("sites apply their own shields")

        return cls(connect)

    def client(self, name: str, run: str) -> SumClient:
        """Return a client's part in a run."""
        if (name, run) not in self._clients:
            self._clients[name, run] = self.connect(name, run)
        return self._clients[name, run]

    def fewest(self, question: Question) -> int:
        """Return how many clients' answers a sum that this answer goes into holds at least; 1 if it leaves alone."""
        if not is_summed(question):
            return 1
        assert question.then is not None
        return threshold(len(self.client(question.client, question.run).find(question.then.common["session"]).names))

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        """Withhold an answer that is to be summed."""
        client = self.client(question.client, question.run)
        if is_summed(question):
            assert question.then is not None
            session, is_noised = client.find(question.then.common["session"]), question.phase in self.noised_phases
            client.withhold(question.step, question.phase, message, len(session.names) if is_noised else 0)
            return WITHHELD
        allowed = self.clear_phases
        if question.phase in client.journal.summed or (allowed is not None and question.phase not in allowed):
            raise MessageError(f"phase {question.phase!r} must be summed under masks here, it was asked for singly")
        return message

    def answer(self, question: Question) -> Message:
        """Answer a question of the protocol; where what peers sent cannot be used, say so instead."""
        try:
            return self._answer(self.client(question.client, question.run), question)
        except Accusation as error:
            match question.phase:
                case "secure_sum/shares":
                    return Message({**NOT_SHARED, "accused": error.accused})
                case "secure_sum/masked":
                    length = Layout.from_text(question.common["layout"]).length
                    unmasked = {"masked": np.zeros(length, "<u8"), "signature": np.zeros(64, np.uint8)}
                    return Message({**unmasked, "accused": error.accused})
            raise

    def _answer(self, client: SumClient, question: Question) -> Message:
        match question.phase:
            case "secure_sum/keys":
                return client.keys()
            case "secure_sum/shares":
                return client.shares(question.step, question.common)
            case "secure_sum/masked":
                return client.masked(question.common, question.own)
            case "secure_sum/echo":
                return client.echo(question.common)
            case _:
                return client.unmask(question.common, question.own)


def is_summed(question: Question) -> bool:
    """Return whether what the method answers is to be masked at once."""
    return question.then is not None and question.then.phase == MASKED
