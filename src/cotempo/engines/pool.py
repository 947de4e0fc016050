"""`Pool`: an engine of persistent worker processes on this machine.

Each client belongs to one worker, which caches its prepared data. Memories stay with the parent and travel with the
question. Not `concurrent.futures`: it cannot bind a client to one process, nor kill that process on a deadline.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from cotempo.data import Table
from cotempo.engines.local import LocalEngine
from cotempo.engines.settings import InProcessSettings
from cotempo.engines.worker_clients import HostedClients, pack_clients
from cotempo.errors import CotempoError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.method import Memory, Method
from cotempo.federation.shields import Shield
from cotempo.federation.wire import question_to_bytes, reply_from_bytes
from cotempo.storage.tree import decode
from cotempo.threads import set_threads

READY = b"ready"
START_SECONDS = 60.0  # added to the first deadline of a worker, which may still be starting


class Pool(LocalEngine):
    """Clients spread over `settings.workers` processes.

    A worker that takes longer than `settings.deadline` for one answer is killed and started again; the answer counts
    as lost.
    """

    def __init__(
        self,
        method: Method,
        tables: Mapping[str, Table],
        settings: InProcessSettings,
        *,
        seed: int,
        shields: Sequence[Shield] = (),
    ):
        super().__init__(method, tables, settings, seed=seed, shields=shields)
        self.deadline = settings.deadline
        names = list(self.sites)
        shares = [names[start :: settings.workers] for start in range(min(settings.workers, len(names)))]
        self.workers = [
            self._start_worker({name: tables[name] for name in share}, seed, settings.threads) for share in shares
        ]
        self.worker_of = {name: worker for worker, share in zip(self.workers, shares, strict=True) for name in share}

    def _start_worker(self, tables: Mapping[str, Table], seed: int, threads: int) -> Worker:
        return Worker(self.method, tables, seed, threads)

    def compute(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Keep every worker busy with its own clients until all have answered."""
        queues: dict[Worker, list[Question]] = {}
        for question in questions:
            queues.setdefault(self.worker_of[question.client], []).append(question)
        for queue in queues.values():
            queue.reverse()
        asked: dict[Worker, tuple[Question, float]] = {}
        while queues or asked:
            for worker in [worker for worker in queues if worker not in asked]:
                question = queues[worker].pop()
                if not queues[worker]:
                    del queues[worker]
                try:
                    worker.send(question, self.memory_bytes(question))
                    asked[worker] = question, time.monotonic() + (0 if worker.is_ready else START_SECONDS)
                except Exception as error:
                    yield question.fail(type(error).__name__, cause=error)
            if not asked:
                continue  # waiting for nobody would never end
            ready = set(wait([worker.connection for worker in asked], timeout=self._next_timeout(asked.values())))
            for worker, (question, since) in list(asked.items()):
                if worker.connection in ready and not worker.is_ready and worker.wait_ready():
                    asked[worker] = question, time.monotonic()
                elif worker.connection in ready:
                    del asked[worker]
                    yield self._receive(worker, question)
                elif self.deadline is not None and time.monotonic() - since >= self.deadline:
                    del asked[worker]
                    worker.restart()
                    yield question.fail("Deadline", f"no answer within {self.deadline:g} s")

    def _next_timeout(self, asked: Any) -> float | None:
        if self.deadline is None:
            return None
        oldest = min((since for _, since in asked), default=time.monotonic())
        return max(0.0, oldest + self.deadline - time.monotonic())

    def _receive(self, worker: Worker, question: Question) -> Reply:
        try:
            reply, memory = worker.receive()
        except (EOFError, OSError):
            worker.restart()
            return question.fail("WorkerDied", "its worker process died")
        if reply.message is None:
            return reply
        return self.sites[question.client].finish(question, reply.message, memory)

    def close(self) -> None:
        """Stop the workers."""
        for worker in self.workers:
            worker.stop()


class WorkerError(CotempoError):
    """An error inside a worker process; its text is the traceback from there."""


class Worker:
    """One child process and the socket to it. Only parent and child, of the same user, ever write to that socket."""

    def __init__(self, method: Method, clients: Mapping[str, Table], seed: int, threads: int):
        self.memory_types = method.memory_types
        self.packed = pack_clients(method, clients, seed)
        self.threads = threads
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join([entry for entry in sys.path if entry])
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from cotempo.engines import pool; pool.worker_main({theirs.fileno()}, {self.threads})",
            ],
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self.is_ready = False
        self.connection = Connection(ours.detach())
        self.connection.send_bytes(self.packed)

    def send(self, question: Question, memory: bytes) -> None:
        """Send a question, to a new process if the old one is gone."""
        parts = question_to_bytes(question), memory
        try:
            self.connection.send(parts)
        except OSError:
            self.restart()
            self.connection.send(parts)

    def wait_ready(self) -> bool:
        """Read the message that the process is ready; from then on a deadline counts."""
        try:
            self.is_ready = self.connection.recv_bytes() == READY
        except (EOFError, OSError):
            return False
        return self.is_ready

    def receive(self) -> tuple[Reply, Memory | None]:
        """Read the answer to the last question."""
        reply_bytes, memory_bytes, trace = self.connection.recv()
        reply = reply_from_bytes(reply_bytes)
        if trace:
            reply = dataclasses.replace(reply, cause=WorkerError(trace))
        return reply, decode(memory_bytes, *self.memory_types)

    def restart(self) -> None:
        """Start again after a death or a missed deadline."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def worker_main(descriptor: int, threads: int) -> None:
    """Run a worker process: receive the clients, then answer questions until the parent disconnects."""
    set_threads(threads)
    connection = Connection(descriptor)
    clients = HostedClients(connection.recv_bytes())
    connection.send_bytes(READY)
    while True:
        try:
            connection.send(clients.answer(*connection.recv()))
        except EOFError:
            return
