"""A bench of clients in a process of our own: their tables come once, then questions with memories.

What is pickled here is made and read by processes of the same user on the same side; it never comes from elsewhere.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping

from cotempo.data import Table
from cotempo.errors import ParameterError
from cotempo.federation.exchange import Reply
from cotempo.federation.method import Method
from cotempo.federation.site import RamStore, Site, fail, question_from_bytes, reply_to_bytes
from cotempo.storage.tree import decode, encode


def write_contract(method: Method, clients: Mapping[str, Table], seed: int) -> bytes:
    """All a process needs to answer for these clients."""
    if type(method).__module__ == "__main__":
        raise ParameterError(
            f"{type(method).__name__} must be importable to run in worker processes; it is defined in the main "
            "script. Move it to a module of its own."
        )
    return pickle.dumps((method, dict(clients), seed))


class Bench:
    """Clients that wait for questions, their data prepared once."""

    def __init__(self, contract: bytes):
        self.method, clients, seed = pickle.loads(contract)
        self.kinds = (self.method.Memory,) if self.method.Memory else ()
        self.sites = {name: Site(self.method, name, table, seed, RamStore()) for name, table in clients.items()}

    def answer(self, question_bytes: bytes, memory_bytes: bytes) -> tuple[bytes, bytes, str]:
        """Answer a question from a memory: the reply, the new memory, and the traceback where it failed."""
        question = question_from_bytes(question_bytes)
        site = self.sites[question.client]
        try:
            message, kept = self.method.answer(
                question, site.prepared, decode(memory_bytes, *self.kinds), site.rng(question.step)
            )
            return reply_to_bytes(Reply(question.client, question.step, question.step, message)), encode(kept), ""
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            return reply_to_bytes(fail(question, error)), encode(None), trace
