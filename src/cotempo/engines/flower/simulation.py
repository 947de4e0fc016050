"""`FlowerSimulation`: many clients on one machine or a Ray cluster.

As in the pool, memories stay here and travel with the question, so a checkpoint needs no collecting. The clients'
tables are written to a file once, which every Ray actor reads and keeps in memory.
"""

import logging
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from cotempo.engines.flower.patches import run_simulation
from cotempo.engines.flower.processes import wait_until
from cotempo.engines.flower.protocol import Envelope, Part, Parts, Verb
from cotempo.engines.flower.transport import Answer, failure_of, send
from cotempo.engines.local import HostedClients, LocalEngine
from cotempo.engines.settings import SimulationSettings
from cotempo.errors import EngineError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.wire import parse_reply, question_to_bytes
from cotempo.threads import set_threads

START_SECONDS = 120.0
ANSWER_SECONDS = 3600.0


@dataclass(eq=False, repr=False)
class FlowerSimulation(LocalEngine):
    """Clients as virtual nodes of Flower's simulation, spread over `settings.workers` Ray actors."""

    settings: SimulationSettings
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="cotempo-")
        packed = Path(self.folder.name) / "clients"
        packed.write_bytes(self.pack_clients(self.sites))
        self._done = threading.Event()
        self._died: BaseException | None = None
        self._start_seconds = START_SECONDS  # added to the first deadline: the actors may still be starting
        ray = {"num_cpus": self.settings.workers or None, "log_to_driver": False, "logging_level": logging.ERROR}
        backend = {"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        app = virtual_clients(str(packed), self.settings.threads)
        self._thread = threading.Thread(target=self._simulate, args=(app, backend), daemon=True)
        self._thread.start()
        if not wait_until(self._is_started, START_SECONDS):
            raise EngineError(f"Flower's simulation must start within {START_SECONDS:g} s, it did not")
        self._nodes = dict(zip(self.sites, self.grid.get_node_ids(), strict=True))  # every node can be any client

    def _simulate(self, app: ClientApp, backend: dict[str, Any]) -> None:
        """Run Flower's simulation; the function that it calls hands the grid over and waits for the end."""
        server = ServerApp()

        @server.main()
        def main(grid: Grid, context: Context) -> None:
            self.grid = grid
            self._done.wait()

        try:
            run_simulation(app, server, len(self.sites), backend)
        except BaseException as error:
            self._died = error

    def _require_alive(self) -> None:
        if not self._thread.is_alive():
            raise EngineError(f"Flower's simulation died: {self._died}") from self._died

    def _is_started(self) -> bool:
        self._require_alive()
        return hasattr(self, "grid") and len(list(self.grid.get_node_ids())) >= len(self.sites)

    def compute(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield replies as they arrive; a worker that dies ends the run, which can be resumed."""
        asked = {self._nodes[question.client]: question for question in questions}
        envelopes = {
            node: Envelope.write(
                Verb.ASK, {Part.QUESTION: question_to_bytes(question), Part.MEMORY: self.memory_bytes(question)}
            )
            for node, question in asked.items()
        }
        deadline = (self.settings.deadline or ANSWER_SECONDS) + self._start_seconds
        for node, envelope in send(GridChannel(self.grid), envelopes, deadline, self._require_alive):
            self._start_seconds, answer = 0.0, envelope.parts
            if Part.LOST in answer:
                raise EngineError(
                    f"every worker of Flower's simulation must live, one died ({answer[Part.LOST].decode()}); is there "
                    "memory for all of them? Fewer workers need less. With a run folder, resume the run"
                )
            yield self.accept(asked[node], parse_reply(asked[node], answer[Part.REPLY]), answer[Part.MEMORY])

    def close(self) -> None:
        """End the simulation."""
        self._done.set()
        self._thread.join()
        self.folder.cleanup()


class GridChannel:
    """Flower's own grid, whose nodes are of this machine and this version."""

    def __init__(self, grid: Grid):
        self.grid = grid

    def push(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, str]:
        """Send."""
        messages = [FlowerMessage(pack(sent.parts), node, "query", ttl=seconds) for node, sent in envelopes.items()]
        return dict(zip(envelopes, self.grid.push_messages(messages), strict=True))

    def pull(self, ids: Iterable[str]) -> Iterator[tuple[str, Answer]]:
        """Return what has arrived."""
        for message in self.grid.pull_messages(ids):
            is_lost = message.has_error()
            answer = failure_of(message.error.code) if is_lost else Envelope.write(Verb.ANSWER, unpack(message))
            yield message.metadata.reply_to_message_id, answer


def pack(parts: Parts) -> RecordDict:
    """Return the content of a Flower message."""
    return RecordDict({"parts": ConfigRecord({str(name): data for name, data in parts.items()})})


def unpack(message: FlowerMessage) -> Parts:
    """Return what `pack` was given."""
    return {Part(name): data for name, data in message.content["parts"].items() if isinstance(data, bytes)}


@cache
def hosted_clients(packed: str, threads: int) -> HostedClients:
    """Return the clients of a simulation in this Ray actor, read once."""
    set_threads(threads)
    return HostedClients(Path(packed).read_bytes())


def virtual_clients(packed: str, threads: int) -> ClientApp:
    """Return the app that answers for any of the clients in a Ray actor."""
    app = ClientApp()

    @app.query()
    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        from cotempo.engines.flower.simulation import hosted_clients

        parts = unpack(message)
        reply, memory, _ = hosted_clients(packed, threads).answer(parts[Part.QUESTION], parts[Part.MEMORY])
        return FlowerMessage(pack({Part.REPLY: reply, Part.MEMORY: memory}), reply_to=message)

    return app
