"""The contract every method passes, as checks that raise `AssertionError`.

Each check takes a method, clients, a public table or `None`, and an empty folder. `check_method` runs them all.
"""

from __future__ import annotations

import itertools
import random
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.data import Events, Posts, Series, Table
from cotempo.engines.pool import Pool
from cotempo.errors import QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.rounds import Checkpoint, Progress, rounds
from cotempo.federation.run import RunFolder
from cotempo.federation.tree import decode, digest, encode
from cotempo.testing.engines import Bytewise, Faulty, Killed, direct
from cotempo.testing.watch import Watched, assert_close, assert_same
from cotempo.threads import limit_threads

Clients = Mapping[str, Table]
Check = Callable[[Method, Clients, Table | None, Path], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the contract."""
    CHECKS[function.__name__] = function
    return function


def check_method(method: Method, clients: Clients, public: Table | None = None) -> None:
    """Raise `AssertionError` unless a method keeps the whole contract.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=3, clients=3, samples=60)
    >>> check_method(ct.FedMean(), clients)
    """
    for function in CHECKS.values():
        with tempfile.TemporaryDirectory() as folder:
            function(method, clients, public, Path(folder))


def steps_of(
    method: Method, engine: Engine, public: Table | None, most: int | None = None, **options: Any
) -> list[Progress]:
    """Run to the end, or for at most so many steps, and return every step."""
    with limit_threads(1):
        return list(itertools.islice(rounds(method, engine, public=public, seed=0, quorum=0, **options), most))


def exchanges(steps: Sequence[Progress]) -> tuple[int, int, int]:
    """The first, a middle and the last step in which clients were asked; others are the server's own work."""
    asked = [step.step for step in steps if step.sent]
    return asked[0], asked[len(asked) // 2], asked[-1]


def final(method: Method, engine: Engine, public: Table | None, **options: Any) -> str:
    """Digest of the last state."""
    return digest(steps_of(method, engine, public, **options)[-1].state)


@check
def same_seed_same_bits(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Two runs with one seed end in the same bits, whatever the global random generators do."""
    ends = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 - the generator a method must not use
        random.seed(seed)
        steps = steps_of(method, direct(method, clients), public)
        failures = [str(failure) for step in steps for failure in step.answers.failures]
        assert not failures, f"an undisturbed run has failures: {failures[0]}"
        ends.append(digest(steps[-1].state))
    assert ends[0] == ends[1], "two runs with the same seed differ: does the method draw from a global generator?"


@check
def order_of_clients_is_irrelevant(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Clients named in another order, and answers that come in another order, change nothing."""
    expected = final(method, direct(method, clients), public)
    backwards = dict(reversed(list(clients.items())))
    assert final(method, direct(method, backwards), public) == expected, "the order of clients matters"
    engine = Reversed(direct(method, clients))
    assert final(method, engine, public) == expected, "the order in which answers come matters"


class Reversed(Faulty):
    """Replies come last first."""

    def exchange(self, questions: Sequence[Question]) -> Any:
        """Turn the replies round."""
        return reversed(list(self.engine.exchange(questions)))


@check
def every_engine_gives_the_same_bits(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Direct calls, a pool of processes, and a bytes-only engine end in the same bits."""
    expected = final(method, direct(method, clients), public)
    assert final(method, Bytewise(method, clients, folder), public) == expected, "the bytes-only engine differs"
    pool = Pool(method, clients, seed=0, workers=2)
    try:
        assert final(method, pool, public) == expected, "the pool differs"
    finally:
        pool.close()


@check
def batched_equals_looped(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """A batched cohort agrees with the loop within rounding."""
    if method.batches:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            batched = steps_of(method, direct(method, clients, batched=True), public)
        # A batch that fails falls back to the loop, and would agree with it.
        failed = [str(warning.message) for warning in said if "answer_all failed" in str(warning.message)]
        assert not failed, failed[0]
        looped = steps_of(method, direct(method, clients), public)
        assert len(batched) == len(looped), "a batched run takes another number of steps"
        assert_close(batched[-1].state, looped[-1].state)


@check
def killed_anywhere_equals_never_killed(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Killed at ask, reply, exchange or save, or with a corrupt newest checkpoint, a run resumes to the same bits."""
    steps = steps_of(method, direct(method, clients), public)
    expected = digest(steps[-1].state)
    first, middle, last = exchanges(steps)
    kills = [
        (first, "ask", "direct"), (last, "ask", "bytewise"), (middle, "reply", "direct"), (first, "reply", "bytewise"),
        (last, "exchange", "direct"), (middle, "exchange", "bytewise"), (middle, "save", "direct"),
        (last, "save", "bytewise"), (last, "corrupt", "direct"), (last, "corrupt", "bytewise"),
    ]  # fmt: skip
    for number, (step, point, kind) in enumerate(kills):
        place = folder / str(number)
        _kill(method, _engine(kind, method, clients, place), public, place, step, point)
        run = RunFolder.reopen(place / "run")
        if point == "corrupt":
            newest = max((run.path / "checkpoints").glob("step-*"))
            newest.write_bytes(newest.read_bytes()[:-1])
        with _quiet():
            start = run.latest(method)
        engine = _engine(kind, method, clients, place)
        if start:
            engine.restore(start.memories, start.ledger)
        resumed = steps_of(method, engine, public, keeper=run, start=start)
        run.close()
        state = resumed[-1].state if resumed else start and start.state
        assert digest(state) == expected, f"killed at {point} of step {step} on the {kind} engine, resumed: differs"


def _engine(kind: str, method: Method, clients: Clients, place: Path) -> Engine:
    return direct(method, clients) if kind == "direct" else Bytewise(method, clients, place / "sites")


def _kill(method: Method, engine: Engine, public: Table | None, place: Path, step: int, point: str) -> None:
    run: Any = RunFolder.create(place / "run", {"name": "contract"}, {})
    keeper = DyingKeeper(run, step if point == "save" else None)
    try:
        steps_of(method, Faulty(engine, kill=(step, point)), public, keeper=keeper)
    except Killed:
        pass
    finally:
        run.close()


class DyingKeeper:
    """A run folder that dies before it has saved a step."""

    def __init__(self, run: RunFolder, step: int | None):
        self.run, self.step = run, step

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Save, or die."""
        if checkpoint.step == self.step:
            raise Killed
        self.run.checkpoint(checkpoint)

    def log(self, *args: Any) -> None:
        """As the run folder."""
        self.run.log(*args)

    def record(self, *args: Any) -> None:
        """As the run folder."""
        self.run.record(*args)

    def trouble(self, *args: Any) -> None:
        """As the run folder."""
        self.run.trouble(*args)


@check
def a_lost_answer_is_a_lost_question(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """An answer that was not counted never happened, at the server and at the client."""
    victim = sorted(clients)[0]
    first, middle, _ = exchanges(steps_of(method, direct(method, clients), public))
    for step, kind in {first: "bytewise", middle: "direct"}.items():

        def is_lost(question: Question, step: int = step) -> bool:
            return (question.client, question.step) == (victim, step)

        lost = Faulty(
            _engine(kind, method, clients, folder / f"lost-{step}"),
            tamper=lambda question, reply, is_lost=is_lost: None if is_lost(question) else reply,  # type: ignore[misc]
        )
        unasked = Faulty(
            _engine(kind, method, clients, folder / f"unasked-{step}"),
            deliver=lambda question, is_lost=is_lost: not is_lost(question),  # type: ignore[misc]
        )
        assert final(method, lost, public) == final(method, unasked, public), (
            f"an answer lost at step {step} left a trace: server and client have drifted apart"
        )


@check
def duplicates_change_nothing(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Replies that come twice count once."""
    expected = final(method, direct(method, clients), public)
    assert final(method, Doubled(direct(method, clients)), public) == expected, "a duplicate answer counted"


class Doubled(Faulty):
    """Every reply comes twice."""

    def exchange(self, questions: Sequence[Question]) -> Any:
        """Repeat."""
        for reply in self.engine.exchange(questions):
            yield reply
            yield reply


@check
def verbs_change_nothing_they_are_given(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """Every verb leaves its inputs as they were, and asking twice is asking once."""
    before = {name: table.fingerprint() for name, table in clients.items()}
    watched: Any = Watched(method)
    steps_of(watched, direct(watched, clients), public)
    assert not watched.faults, watched.faults[0]
    assert before == {name: table.fingerprint() for name, table in clients.items()}, "a client's table was changed"


@check
def state_and_memory_survive_disk(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """After every step, state and memories come back from bytes as they were, type for type."""
    kinds = (method.Memory,) if method.Memory else ()
    engine = direct(method, clients)
    ledger: dict[str, int] = {}
    for step in steps_of(method, engine, public):
        ledger |= step.answers.versions
        assert_same(decode(encode(step.state), method.State), step.state)
    for memory in engine.memories(ledger).values():
        assert_same(decode(encode(memory), *kinds), memory)


@check
def nothing_raw_crosses(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """No marker value, raw row or text of a client is in a message, a metric, a failure or a log."""
    marked, secrets = plant(clients)
    seen: list[Message] = []

    def listen(question: Question, reply: Reply) -> Reply:
        if reply.message is not None:
            seen.append(reply.message)
        return reply

    run = RunFolder.create(folder / "run", {"name": "contract"}, {})
    steps_of(method, Faulty(direct(method, marked), tamper=listen), public, keeper=run)
    run.close()
    for message in seen:
        for name, value in message.items():
            for secret in secrets:
                assert not _holds(value, secret), f"field {name!r} of a message holds a raw value of a client"
    logs = "".join(path.read_text() for path in run.path.glob("*.*") if path.suffix in (".jsonl", ".log"))
    for secret in secrets:
        assert str(secret) not in logs, "a log holds a raw value of a client"


def plant(clients: Clients) -> tuple[dict[str, Table], list[Any]]:
    """Clients, and what must not be found anywhere: rows of many-digit numbers planted within range, times, texts."""
    marked = dict(clients)
    secrets: list[Any] = []
    for number, (name, table) in enumerate(sorted(clients.items())):
        if isinstance(table, Series):
            values = table.values.copy()
            row = len(values) // 2
            low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
            values[row] = low + (high - low) * (0.412356789123457 + 0.01 * number)
            secrets += values[row].tolist()
            marked[name] = replace(table, values=values)
        elif isinstance(table, Events):
            secrets += [time for time in table.time.tolist() if not time.is_integer()]
        elif isinstance(table, Posts):
            secrets += [text for text in table.text if len(text) > 20]
    return marked, secrets


def _holds(value: Any, secret: Any) -> bool:
    if isinstance(secret, str):
        return isinstance(value, str) and secret in value
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool((np.isclose(value, secret, rtol=1e-12, atol=0)).any())
    return isinstance(value, float) and value == secret


@check
def bad_messages_are_left_out(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """A message that is not what was expected costs its sender that step, names the field, and nothing else."""
    victim = sorted(clients)[0]
    first, *_ = exchanges(steps_of(method, direct(method, clients), public))

    def at_first(question: Question) -> bool:
        return question.client == victim and question.step == first

    silent = Faulty(direct(method, clients), deliver=lambda question: not at_first(question))
    unasked = steps_of(method, silent, public, most=first + 2)
    for name, spoil in SPOILERS.items():

        def tamper(question: Question, reply: Reply, spoil: Any = spoil) -> Reply:
            if at_first(question) and reply.message is not None:
                return replace(reply, message=spoil(reply.message))
            return reply

        steps = steps_of(method, Faulty(direct(method, clients), tamper=tamper), public, most=first + 2)
        (failure,) = steps[first - 1].answers.failures
        assert failure.client == victim, f"{name}: the failure names the wrong client"
        assert failure.kind == "MessageError", f"{name}: was not refused as a message"
        assert digest(steps[-1].state) == digest(unasked[-1].state), f"{name}: the refused message left a trace"


def _spoil_first(change: Callable[[Any], Any]) -> Callable[[Message], Message]:
    def spoil(message: Message) -> Message:
        # A field with something in it, where there is one: nothing is wrong with an empty one times NaN.
        name = next((name for name, value in message.items() if np.size(value)), next(iter(message)))
        value = message[name] if np.size(message[name]) else np.zeros(1)
        return Message({**message, name: change(value)}, weight=message.weight)

    return spoil


SPOILERS: dict[str, Callable[[Message], Message]] = {
    "NaN": _spoil_first(lambda value: value * np.nan),
    "infinite": _spoil_first(lambda value: np.full(np.shape(value), np.inf) if np.ndim(value) else np.inf),
    "wrong shape": _spoil_first(lambda value: np.zeros((*np.shape(value), 2))),
    "wrong dtype": _spoil_first(lambda value: np.zeros(np.shape(value), np.int8)),
    "missing field": lambda message: Message(dict(list(message.items())[1:]), weight=message.weight),
    "extra field": lambda message: Message({**message, "extra": 1.0}, weight=message.weight),
    "negative weight": lambda message: Message(message, weight=-1.0),
    "NaN weight": lambda message: Message(message, weight=float("nan")),
    "gigantic weight": lambda message: Message(message, weight=1e300),
}


@check
def comers_and_goers_cost_only_themselves(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """A late joiner, a leaver and a site whose disk was wiped do not stop the others."""
    last = sorted(clients)[-1]
    others = [name for name in clients if name != last]
    late = Faulty(direct(method, clients), present=lambda call, names: others if call < 3 else list(names))
    gone = Faulty(direct(method, clients), present=lambda call, names: list(names) if call < 3 else others)
    for engine in (late, gone):
        steps = steps_of(method, engine, public)
        assert all(set(others) <= set(step.answers.names) for step in steps if step.answers.names or step.sent)
    if method.Memory is not None:
        _wiped_site(method, clients, public, folder, last)


def _wiped_site(method: Method, clients: Clients, public: Table | None, folder: Path, victim: str) -> None:
    def wipe(question: Question) -> bool:
        if question.client == victim:
            for path in (folder / victim).glob("*"):
                path.unlink()
        return True

    engine = Faulty(Bytewise(method, clients, folder), deliver=wipe)
    steps = steps_of(method, engine, public)
    failures = {(f.client, f.kind) for step in steps for f in step.answers.failures}
    assert failures <= {(victim, "MemoryLost")}, f"a wiped site must fail as MemoryLost and alone, got {failures}"


@check
def below_quorum_stops(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
    """With nobody answering, the loop stops with a typed error."""
    silent = Faulty(direct(method, clients), deliver=lambda question: False)
    try:
        list(rounds(method, silent, public=public, seed=0, quorum=0.5))
    except QuorumError:
        return
    raise AssertionError("nobody answered and nothing was said")


def _quiet() -> Any:
    return warnings.catch_warnings(action="ignore")
