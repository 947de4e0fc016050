"""A persistent pool of worker processes on this machine.

Each client belongs to one worker, which keeps its prepared data warm. Memories stay with the parent and travel with
the question, so a checkpoint needs no collecting and a worker that dies takes nothing with it.
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
from cotempo.engines.bench import Bench, write_contract
from cotempo.engines.inprocess import InProcess
from cotempo.errors import CotempoError
from cotempo.federation.exchange import Failure, Question, Reply
from cotempo.federation.method import Memory, Method
from cotempo.federation.site import fail, question_to_bytes, reply_from_bytes
from cotempo.storage.tree import decode, encode
from cotempo.threads import set_threads

READY = b"ready"
STARTING = 60.0  # seconds a worker may take to start, before its deadline counts


class Pool(InProcess):
    """Clients spread over `workers` processes, each with `threads` threads.

    Parameters
    ----------
    deadline
        Seconds a worker may take for one answer, once it has started. Past it the worker is stopped and started anew;
        the client's answer counts as lost.
    """

    def __init__(
        self,
        method: Method,
        clients: Mapping[str, Table],
        *,
        seed: int,
        workers: int,
        deadline: float | None = None,
        threads: int = 1,
    ):
        super().__init__(method, clients, seed=seed, batched=False)
        self.deadline = deadline
        self.threads = threads
        self.seed = seed
        names = list(self.sites)
        shares = [names[start::workers] for start in range(min(workers, len(names)))]
        self.workers = [self._hire({name: clients[name] for name in share}) for share in shares]
        self.place = {name: worker for worker, share in zip(self.workers, shares, strict=True) for name in share}

    def _hire(self, clients: Mapping[str, Table]) -> Worker:
        return Worker(self.method, clients, self.seed, self.threads)

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Keep every worker busy with its own clients until all have answered."""
        queues: dict[Worker, list[Question]] = {}
        for question in questions:
            queues.setdefault(self.place[question.client], []).append(question)
        for queue in queues.values():
            queue.reverse()
        asked: dict[Worker, tuple[Question, float]] = {}
        while queues or asked:
            for worker in [worker for worker in queues if worker not in asked]:
                question = queues[worker].pop()
                if not queues[worker]:
                    del queues[worker]
                try:
                    worker.send(question, self.sites[question.client].memory(question.base))
                    asked[worker] = question, time.monotonic() + (0 if worker.is_ready else STARTING)
                except Exception as error:
                    yield fail(question, error)
            if not asked:
                continue  # waiting for nobody would never end
            ready = set(wait([worker.connection for worker in asked], timeout=self._patience(asked.values())))
            for worker, (question, since) in list(asked.items()):
                if worker.connection in ready and not worker.is_ready and worker.greet():
                    asked[worker] = question, time.monotonic()
                elif worker.connection in ready:
                    del asked[worker]
                    yield self._receive(worker, question)
                elif self.deadline is not None and time.monotonic() - since >= self.deadline:
                    del asked[worker]
                    worker.restart()
                    about = f"no answer within {self.deadline:g} s"
                    failure = Failure(question.client, question.step, question.phase, "Deadline", about)
                    yield Reply(question.client, question.step, question.base, None, failure)

    def _patience(self, asked: Any) -> float | None:
        if self.deadline is None:
            return None
        oldest = min((since for _, since in asked), default=time.monotonic())
        return max(0.0, oldest + self.deadline - time.monotonic())

    def _receive(self, worker: Worker, question: Question) -> Reply:
        try:
            reply, memory = worker.receive()
        except (EOFError, OSError):
            worker.restart()
            about = "its worker process died"
            failure = Failure(question.client, question.step, question.phase, "WorkerDied", about)
            return Reply(question.client, question.step, question.base, None, failure)
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
        self.kinds = (method.Memory,) if method.Memory else ()
        self.contract = write_contract(method, clients, seed)
        self.threads = threads
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join([entry for entry in sys.path if entry])
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from cotempo.engines.pool import work; work({theirs.fileno()}, {self.threads})"],
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self.is_ready = False
        self.connection = Connection(ours.detach())
        self.connection.send_bytes(self.contract)

    def send(self, question: Question, memory: Memory) -> None:
        """Hand a question over, to a new process if the old one is gone."""
        parts = question_to_bytes(question), encode(memory)
        try:
            self.connection.send(parts)
        except OSError:
            self.restart()
            self.connection.send(parts)

    def greet(self) -> bool:
        """Take the word that the process is ready; from then on a deadline counts."""
        try:
            self.is_ready = self.connection.recv_bytes() == READY
        except (EOFError, OSError):
            return False
        return self.is_ready

    def receive(self) -> tuple[Reply, Memory | None]:
        """Take the answer to the last question."""
        reply_bytes, memory_bytes, trace = self.connection.recv()
        reply = reply_from_bytes(reply_bytes)
        if trace:
            reply = dataclasses.replace(reply, cause=WorkerError(trace))
        return reply, decode(memory_bytes, *self.kinds)

    def restart(self) -> None:
        """Start anew after a death or a missed deadline."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def work(descriptor: int, threads: int) -> None:
    """The child's life: receive the contract, then answer questions until the parent hangs up."""
    set_threads(threads)
    connection = Connection(descriptor)
    bench = Bench(connection.recv_bytes())
    connection.send_bytes(READY)
    while True:
        try:
            connection.send(bench.answer(*connection.recv()))
        except EOFError:
            return
