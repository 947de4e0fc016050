"""`FlowerSimulation`: many clients on one machine or a Ray cluster.

As in the pool, memories stay here and travel with the question, so a checkpoint needs no collecting. The clients'
tables are written to a file once, which every Ray actor reads and keeps in memory.
"""

import logging
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from cotempo.engines.flower.patches import run_simulation
from cotempo.engines.flower.processes import wait_until
from cotempo.engines.flower.protocol import Part, Parts, Verb
from cotempo.engines.flower.transport import pack, send, unpack
from cotempo.engines.local import HostedClients, LocalEngine
from cotempo.engines.settings import SimulationSettings
from cotempo.errors import EngineError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.wire import parse_reply, question_to_bytes
from cotempo.threads import set_threads

START_SECONDS = 120.0
ANSWER_SECONDS = 3600.0


class FlowerSimulation(LocalEngine):
    """Clients as virtual nodes of Flower's simulation, spread over `settings.workers` Ray actors."""

    settings: SimulationSettings
    grid: Grid

    def start(self) -> None:
        """Start Flower's simulation in a thread, and find out which node is which client."""
        self.folder = tempfile.TemporaryDirectory(prefix="cotempo-")
        packed = Path(self.folder.name) / "clients"
        packed.write_bytes(self.pack_clients(self.sites))
        self._done = threading.Event()
        self._died: BaseException | None = None
        ray: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.settings.workers:
            ray["num_cpus"] = self.settings.workers
        backend = {"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        arguments = virtual_clients(str(packed), self.settings.threads), backend
        self._thread = threading.Thread(target=self._simulate, args=arguments, daemon=True)
        self._thread.start()
        if not wait_until(self._is_started, START_SECONDS):
            raise EngineError(f"Flower's simulation must start within {START_SECONDS:g} s, it did not")
        # The nodes' ids are drawn at random, so each is asked who it is.
        answers = self._send(Verb.WHO, {node: {} for node in self.grid.get_node_ids()}, START_SECONDS)
        names = list(self.sites)
        self._nodes = {names[int(parts[Part.CLIENT])]: node for node, parts in answers}

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

    def _send(self, verb: Verb, parts: Mapping[int, Parts], deadline: float) -> Iterator[tuple[int, Parts]]:
        """Send, and yield answers; a failure that is not a client's own ends the run, which can be resumed."""
        for node, answer in send(self.grid, verb, parts, deadline, self._require_alive):
            if Part.LOST in answer:
                raise EngineError(
                    f"every worker of Flower's simulation must live, one died ({answer[Part.LOST].decode()}); is there "
                    "memory for all of them? Fewer workers need less. With a run folder, resume the run"
                )
            yield node, answer

    def compute(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield replies as they arrive."""
        asked = {self._nodes[question.client]: question for question in questions}
        parts = {
            node: {Part.QUESTION: question_to_bytes(question), Part.MEMORY: self.memory_bytes(question)}
            for node, question in asked.items()
        }
        for node, answer in self._send(Verb.ASK, parts, self.settings.deadline or ANSWER_SECONDS):
            yield self.accept(asked[node], parse_reply(asked[node], answer[Part.REPLY]), answer[Part.MEMORY])

    def close(self) -> None:
        """End the simulation."""
        self._done.set()
        self._thread.join()
        self.folder.cleanup()


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

        verb, parts = unpack(message)
        if verb == Verb.WHO:
            answer = {Part.CLIENT: str(context.node_config["partition-id"]).encode()}
        else:
            reply, memory, _ = hosted_clients(packed, threads).answer(parts[Part.QUESTION], parts[Part.MEMORY])
            answer = {Part.REPLY: reply, Part.MEMORY: memory}
        return FlowerMessage(pack(Verb.ANSWER, answer), reply_to=message)

    return app
