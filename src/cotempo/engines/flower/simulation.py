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
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation.run_simulation import _run_simulation
from flwr.supercore.telemetry import EventType

from cotempo.data import Table
from cotempo.engines.bench import Bench, write_contract
from cotempo.engines.flower.grid import Answer, send
from cotempo.engines.flower.records import pack, unpack
from cotempo.engines.inprocess import InProcess
from cotempo.errors import EngineError
from cotempo.federation.exchange import Failure, Question, Reply
from cotempo.federation.method import Method
from cotempo.federation.site import question_to_bytes, receive
from cotempo.federation.tree import decode, encode

STARTING = 120.0


class FlowerSimulation(InProcess):
    """Clients as virtual nodes of Flower's simulation, on `workers` Ray actors (0: as many as there are cores)."""

    def __init__(
        self,
        method: Method,
        clients: Mapping[str, Table],
        *,
        seed: int,
        workers: int = 0,
        deadline: float | None = None,
        threads: int = 1,
    ):
        super().__init__(method, clients, seed=seed, batched=False)
        self.deadline = deadline
        self.kinds = (method.Memory,) if method.Memory else ()
        self.folder = tempfile.TemporaryDirectory(prefix="cotempo-")
        contract = Path(self.folder.name) / "contract"
        contract.write_bytes(write_contract(method, clients, seed, threads))
        self._grids: Queue[Grid | BaseException] = Queue()
        self._done = threading.Event()
        ray = {"log_to_driver": False, "logging_level": logging.ERROR, **({"num_cpus": workers} if workers else {})}
        settings = {"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        self._thread = threading.Thread(
            target=self._simulate, args=(str(contract), len(clients), settings), daemon=True
        )
        self._thread.start()
        grid = self._grids.get(timeout=STARTING)
        if isinstance(grid, BaseException):
            raise EngineError(f"Flower's simulation did not start: {grid}") from grid
        self.grid = grid
        self._nodes = self._find()

    def _simulate(self, contract: str, clients: int, settings: dict[str, Any]) -> None:
        """Flower's simulation wants to call us; it calls a function that hands over the grid and waits."""
        server = ServerApp()

        @server.main()
        def main(grid: Grid, context: Context) -> None:
            self._grids.put(grid)
            self._done.wait()

        try:
            _run_simulation(
                clients, EventType.PYTHON_API_RUN_SIMULATION_LEAVE, virtual_clients(contract), server,
                backend_config=settings,
            )  # fmt: skip
        except BaseException as error:
            self._grids.put(error)

    def _find(self) -> dict[str, int]:
        """Which node is which client: node numbers are drawn at random, so each is asked."""
        names, found = list(self.sites), {}
        until = time.monotonic() + STARTING
        while len(nodes := list(self.grid.get_node_ids())) < len(names) and time.monotonic() < until:
            time.sleep(0.05)
        for node, parts in send(self.grid, "who", {node: {} for node in nodes}, STARTING):
            if "lost" in parts:
                raise EngineError(f"Flower's simulation did not start: {parts['lost'].decode()}")
            found[names[int(parts["client"])]] = node
        return found

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Ask all, and yield what comes back as it comes."""
        asked = {self._nodes[question.client]: question for question in questions}
        parts = {}
        for node, question in asked.items():
            memory = encode(self.sites[question.client].memory(question.base))
            parts[node] = {"question": question_to_bytes(question), "memory": memory}
        for node, answer in send(self.grid, "ask", parts, self.deadline or 3600.0):
            yield self._receive(asked[node], answer)

    def _receive(self, question: Question, answer: Answer) -> Reply:
        if "lost" in answer:
            failure = Failure(question.client, question.step, question.phase, "Lost", answer["lost"].decode())
            return Reply(question.client, question.step, question.base, None, failure)
        reply = receive(question, answer["reply"])
        if reply.message is None:
            return reply
        return self.sites[question.client].finish(question, reply.message, decode(answer["memory"], *self.kinds))

    def close(self) -> None:
        """End the simulation."""
        self._done.set()
        self._thread.join()
        self.folder.cleanup()


@cache
def bench(contract: str) -> Bench:
    """The clients of a simulation in this process, kept warm."""
    return Bench(Path(contract).read_bytes())


def virtual_clients(contract: str) -> ClientApp:
    """What runs in a Ray actor: any of the clients."""
    app = ClientApp()

    @app.query()
    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        from cotempo.engines.flower.simulation import bench

        verb, parts = unpack(message)
        if verb == "who":
            reply = {"client": str(context.node_config["partition-id"]).encode()}
        else:
            reply_bytes, memory, _ = bench(contract).answer(parts["question"], parts["memory"])
            reply = {"reply": reply_bytes, "memory": memory}
        return FlowerMessage(pack(verb, reply), reply_to=message)

    return app
