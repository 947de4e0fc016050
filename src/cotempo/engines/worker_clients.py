"""`HostedClients`: clients in a worker process of ours; their tables come once, then questions with memories.

What is pickled here is written and read by processes of the same user on the same machine; it never comes from
elsewhere.
"""

import pickle
import traceback
from collections.abc import Mapping

from cotempo.data import Table
from cotempo.errors import ParameterError
from cotempo.federation.method import Method
from cotempo.federation.site import Site
from cotempo.federation.wire import question_from_bytes, reply_to_bytes
from cotempo.storage.store import RamStore
from cotempo.storage.tree import decode, encode


def pack_clients(method: Method, tables: Mapping[str, Table], seed: int) -> bytes:
    """Return everything a process needs to answer for these clients."""
    if type(method).__module__ == "__main__":
        raise ParameterError(
            f"{type(method).__name__} must be importable to run in worker processes; it is defined in the main "
            "script. Move it to a module of its own."
        )
    return pickle.dumps((method, dict(tables), seed))


class HostedClients:
    """Clients that wait for questions, their data prepared once; `packed` is from `pack_clients`."""

    def __init__(self, packed: bytes):
        method, tables, seed = pickle.loads(packed)
        self.memory_types = method.memory_types
        self.sites = {name: Site(method, name, table, seed, RamStore()) for name, table in tables.items()}

    def answer(self, question_bytes: bytes, memory_bytes: bytes) -> tuple[bytes, bytes, str]:
        """Answer a question from a memory.

        Returns
        -------
        tuple
            The reply and the new memory (`None` if unchanged) as bytes, and the traceback if the client failed.
        """
        question = question_from_bytes(question_bytes)
        site = self.sites[question.client]
        if question.base:  # the first memory is made here
            site.store.save(question.base, decode(memory_bytes, *self.memory_types))
        reply = site.answer(question)
        changed = reply.message is not None and reply.version == question.step
        memory = site.store.load(question.step) if changed else None
        trace = "".join(traceback.format_exception(reply.cause)) if reply.cause else ""
        return reply_to_bytes(reply), encode(memory), trace
