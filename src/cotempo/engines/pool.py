"""`Pool`: an engine of persistent worker processes on this machine.

Each client belongs to one worker, which caches its prepared data. Memories stay with the parent and travel with the
question. Not `concurrent.futures`: it cannot bind a client to one process, nor kill that process on a deadline.
"""

import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait

from cotempo.engines.local import HostedClients, LocalEngine
from cotempo.engines.settings import InProcessSettings
from cotempo.errors import CotempoError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.wire import question_to_bytes, reply_from_bytes
from cotempo.threads import set_threads

START_SECONDS = 60.0  # added to the first deadline of a worker, which may still be starting


class Worker:
    """One child process and the socket to it. Only parent and child, of the same user, ever write to that socket."""

    def __init__(self, packed: bytes, threads: int):
        self.packed = packed
        self.threads = threads
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        program = f"from cotempo.engines import pool; pool.worker_main({theirs.fileno()}, {self.threads})"
        path = os.pathsep.join([entry for entry in sys.path if entry])
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self.is_ready = False
        self.connection = Connection(ours.detach())
        self.connection.send_bytes(self.packed)

    def ask(self, question: Question, memory: bytes) -> None:
        """Send a question, to a new process if the old one is gone."""
        parts = question_to_bytes(question), memory
        try:
            self.connection.send(parts)
        except OSError:
            self.restart()
            self.connection.send(parts)
        self.asked_at = time.monotonic() + (0 if self.is_ready else START_SECONDS)

    def receive(self) -> tuple[Reply, bytes] | None:
        """Read the answer to the last question and the new memory; `None` if the process has just become ready."""
        received = self.connection.recv()
        if received is None:
            self.is_ready, self.asked_at = True, time.monotonic()  # from now on a deadline counts
            return None
        reply_bytes, memory, trace = received
        reply = reply_from_bytes(reply_bytes)
        return dataclasses.replace(reply, cause=CotempoError(trace)) if trace else reply, memory

    def restart(self) -> None:
        """Start again after a death or a missed deadline."""
        self.stop()
        self._start()

    def stop(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


@dataclasses.dataclass(eq=False, repr=False)
class Pool(LocalEngine):
    """Clients spread over `settings.workers` processes.

    A worker that takes longer than `settings.deadline` for one answer is killed and started again; the answer counts
    as lost.
    """

    settings: InProcessSettings

    def __post_init__(self) -> None:
        names, count = list(self.sites), min(self.settings.workers, len(self.sites))
        shares = [names[first::count] for first in range(count)]
        self.workers = [Worker(self.pack_clients(share), self.settings.threads) for share in shares]
        self.worker_of = {name: worker for worker, share in zip(self.workers, shares, strict=True) for name in share}

    def compute(self, questions: Sequence[Question]) -> Iterator[Reply]:
        """Keep every worker busy with its own clients until all have answered."""
        queues: dict[Worker, deque[Question]] = {worker: deque() for worker in self.workers}
        for question in questions:
            queues[self.worker_of[question.client]].append(question)
        asked: dict[Worker, Question] = {}
        while asked or any(queues.values()):
            for worker, queue in queues.items():
                if queue and worker not in asked:
                    question = queue.popleft()
                    try:
                        worker.ask(question, self.memory_bytes(question))
                        asked[worker] = question
                    except Exception as error:
                        yield question.fail(type(error).__name__, cause=error)
            if not asked:
                continue  # waiting for nobody would never end
            ready = set(wait([worker.connection for worker in asked], self._timeout(asked)))
            for worker, question in list(asked.items()):
                if worker.connection in ready:
                    if (reply := self._receive(worker, question)) is not None:
                        del asked[worker]
                        yield reply
                elif self._timeout([worker]) == 0:
                    del asked[worker]
                    worker.restart()
                    yield question.fail("Deadline", f"no answer within {self.settings.deadline:g} s")

    def _timeout(self, asked: Iterable[Worker]) -> float | None:
        """Return the seconds until the first of the workers has missed its deadline."""
        if self.settings.deadline is None:
            return None
        return max(0.0, min(worker.asked_at for worker in asked) + self.settings.deadline - time.monotonic())

    def _receive(self, worker: Worker, question: Question) -> Reply | None:
        try:
            received = worker.receive()
        except (EOFError, OSError):
            worker.restart()
            return question.fail("WorkerDied", "its worker process died")
        return None if received is None else self.accept(question, *received)

    def close(self) -> None:
        """Stop the workers."""
        for worker in self.workers:
            worker.stop()


def worker_main(descriptor: int, threads: int) -> None:
    """Run a worker process: receive the clients, then answer questions until the parent disconnects."""
    set_threads(threads)
    connection = Connection(descriptor)
    clients = HostedClients(connection.recv_bytes())
    connection.send(None)  # ready
    while True:
        try:
            connection.send(clients.answer(*connection.recv()))
        except EOFError:
            return
