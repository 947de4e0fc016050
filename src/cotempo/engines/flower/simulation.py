"""Flower's simulation: a cohort of clients on one machine or a Ray cluster.

As in the pool, memories stay here and travel with the question, so a checkpoint needs no collecting; the clients'
tables are written to a file once, which every Ray actor reads and keeps warm.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce import vce_api
from flwr.server.superlink.linkstate import InMemoryLinkState
from flwr.serverapp import Grid, ServerApp
from flwr.simulation.run_simulation import _run_simulation
from flwr.supercore.date import now
from flwr.supercore.telemetry import EventType

from cotempo.data import Table
from cotempo.engines.flower.grid import Answer, send
from cotempo.engines.flower.records import pack, unpack
from cotempo.engines.hosted import HostedClients, pack_clients
from cotempo.engines.local import LocalEngine
from cotempo.engines.settings import SimulationSettings
from cotempo.errors import EngineError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Method
from cotempo.federation.site import question_to_bytes, receive
from cotempo.storage.tree import decode
from cotempo.threads import set_threads

STARTING = 120.0


class FlowerSimulation(LocalEngine):
    """Clients as virtual nodes of Flower's simulation.

    They are spread over `settings.workers` Ray actors.
    """

    def __init__(self, method: Method, tables: Mapping[str, Table], settings: SimulationSettings, *, seed: int):
        super().__init__(method, tables, seed=seed)
        self.deadline = settings.deadline
        self.folder = tempfile.TemporaryDirectory(prefix="cotempo-")
        contract = Path(self.folder.name) / "contract"
        contract.write_bytes(pack_clients(method, tables, seed))
        self._grids: Queue[Grid] = Queue()
        self._done = threading.Event()
        self._died: BaseException | None = None
        ray: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if settings.workers:
            ray["num_cpus"] = settings.workers
        backend = {"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        app = virtual_clients(str(contract), settings.threads)
        self._thread = threading.Thread(target=self._simulate, args=(app, len(tables), backend), daemon=True)
        self._thread.start()
        self.grid = self._begin()
        self._nodes = self._find()

    def _begin(self) -> Grid:
        until = time.monotonic() + STARTING
        while time.monotonic() < until:
            with suppress(Empty):
                return self._grids.get(timeout=0.1)
            self._demand_life()
        raise EngineError(f"Flower's simulation must start within {STARTING:g} s, it did not")

    def _demand_life(self) -> None:
        """There is nothing to wait for once the simulation has ended, however it ended."""
        if not self._thread.is_alive():
            raise EngineError(f"Flower's simulation died: {self._died}") from self._died

    def _simulate(self, app: ClientApp, clients: int, settings: dict[str, Any]) -> None:
        """Flower's simulation wants to call us; it calls a function that hands over the grid and waits."""
        server = ServerApp()

        @server.main()
        def main(grid: Grid, context: Context) -> None:
            self._grids.put(grid)
            self._done.wait()

        try:
            _run_simulation(
                clients, EventType.PYTHON_API_RUN_SIMULATION_LEAVE, app, server,
                backend_config=settings,
            )  # fmt: skip
        except BaseException as error:
            self._died = error

    def _find(self) -> dict[str, int]:
        """Which node is which client: node numbers are drawn at random, so each is asked."""
        names, found = list(self.sites), {}
        until = time.monotonic() + STARTING
        while len(nodes := list(self.grid.get_node_ids())) < len(names) and time.monotonic() < until:
            self._demand_life()
            time.sleep(0.05)
        for node, parts in self._send("who", {node: {} for node in nodes}, STARTING):
            found[names[int(parts["client"])]] = node
        return found

    def _send(
        self, verb: str, parts: Mapping[int, Mapping[str, bytes]], deadline: float
    ) -> Iterator[tuple[int, Answer]]:
        """Send, and yield what comes; trouble that is not a client's own ends the run, which can be resumed."""
        for node, answer in send(self.grid, verb, parts, deadline, self._demand_life):
            if "lost" in answer:
                raise EngineError(
                    f"every worker of Flower's simulation must live, one died ({answer['lost'].decode()}); is there "
                    "memory for all of them? Fewer workers need less. With a run folder, resume the run"
                )
            yield node, answer

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield what comes back as it comes."""
        asked = {self._nodes[question.client]: question for question in questions}
        parts = {}
        for node, question in asked.items():
            parts[node] = {"question": question_to_bytes(question), "memory": self.memory_bytes(question)}
        for node, answer in self._send("ask", parts, self.deadline or 3600.0):
            yield self._receive(asked[node], answer)

    def _receive(self, question: Question, answer: Answer) -> Reply:
        reply = receive(question, answer["reply"])
        if reply.message is None:
            return reply
        return self.sites[question.client].finish(
            question, reply.message, decode(answer["memory"], *self.method.memory_types)
        )

    def close(self) -> None:
        """End the simulation."""
        self._done.set()
        self._thread.join()
        self.folder.cleanup()


def hand_out(state: InMemoryLinkState, queue: Queue[FlowerMessage], nodes: object, stop: threading.Event) -> None:
    """Pass messages on to Ray. Flower's own goes through all messages once for each node: clients squared."""
    while not stop.wait(0.02):
        with state.lock:
            waiting = [message for message in state.message_ins_store.values() if message.metadata.delivered_at == ""]
            for message in waiting:
                message.metadata.delivered_at = now().isoformat()
        for message in waiting:
            queue.put(message)


vars(vce_api)["add_messages_to_queue"] = hand_out


@cache
def bench(contract: str, threads: int) -> HostedClients:
    """Return the clients of a simulation in this process of so many threads, kept warm."""
    set_threads(threads)
    return HostedClients(Path(contract).read_bytes())


def virtual_clients(contract: str, threads: int) -> ClientApp:
    """What runs in a Ray actor: any of the clients."""
    app = ClientApp()

    @app.query()
    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        from cotempo.engines.flower.simulation import bench

        verb, parts = unpack(message)
        if verb == "who":
            reply = {"client": str(context.node_config["partition-id"]).encode()}
        else:
            reply_bytes, memory, _ = bench(contract, threads).answer(parts["question"], parts["memory"])
            reply = {"reply": reply_bytes, "memory": memory}
        return FlowerMessage(pack(verb, reply), reply_to=message)

    return app
