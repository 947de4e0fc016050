"""`CHECKS`: the contract every method keeps, as named checks, and the ways to run them.

The checks themselves are in `determinism`, `faults` and `privacy`.
"""

import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotempo.data import Table, make_events, make_posts, make_series
from cotempo.errors import QuorumError
from cotempo.federation.engine import Engine
from cotempo.federation.method import Method
from cotempo.federation.rounds import (
    NO_RECORDER,
    Checkpoint,
    LoopOptions,
    RunRecorder,
    Step,
    initial_checkpoint,
    rounds,
)
from cotempo.storage.tree import digest
from cotempo.testing.engines import Bytewise, direct
from cotempo.threads import limit_threads

Clients = Mapping[str, Table]
#: By name, functions of a method, clients, a public table or `None`, and an empty folder; they raise `AssertionError`.
CHECKS: dict[str, Callable[[Method, Clients, Table | None, Path], None]] = {}


@dataclass(frozen=True)
class Case:
    """What a check is run on, and how it runs the method."""

    method: Method
    clients: Clients
    public: Table | None
    folder: Path

    def engine(self, kind: str = "direct", place: str = "sites") -> Engine:
        """Return a new engine, direct or bytewise."""
        if kind == "direct":
            return direct(self.method, self.clients)
        return Bytewise(self.method, self.clients, self.folder / place)

    def steps(self, engine: Engine | None = None, most: int | None = None, **options: Any) -> list[Step]:
        """Run to the end, or for at most so many steps, and return every step."""
        with limit_threads(1):
            steps = drive(self.method, engine or self.engine(), public=self.public, quorum=0, **options)
            return list(itertools.islice(steps, most))

    def final(self, engine: Engine | None = None) -> str:
        """Return the digest of the last state."""
        return digest(self.steps(engine)[-1].state)

    def exchanges(self) -> tuple[int, int, int]:
        """Return the first, a middle and the last step in which clients are asked; others are the server's own work."""
        asked = [step.step for step in self.steps() if step.sent]
        return asked[0], asked[len(asked) // 2], asked[-1]


def check(function: Callable[[Case], None]) -> Callable[[Case], None]:
    """Add a check to the contract."""

    @functools.wraps(function)
    def run(method: Method, clients: Clients, public: Table | None, folder: Path) -> None:
        function(Case(method, clients, public, folder))

    CHECKS[function.__name__] = run
    return function


@check
def everyone_answers(case: Case) -> None:
    """Every client's answer is taken; otherwise its own error is the cause, as in `fit`."""
    try:
        with limit_threads(1):
            list(drive(case.method, case.engine(), public=case.public, quorum=1.0))
    except QuorumError as error:
        raise AssertionError(str(error)) from error


def check_method(method: Method, clients: Clients, public: Table | None = None) -> None:
    """Raise `AssertionError` unless a method keeps the complete contract.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=3, clients=3, samples=60)
    >>> check_method(ct.FedMean(), clients)
    """
    for function in CHECKS.values():
        with tempfile.TemporaryDirectory() as folder:
            function(method, clients, public, Path(folder))


def parametrize_with_checks(methods: Sequence[type[Method]]) -> Any:
    """Return a pytest decorator that makes one test of each check on each method's `example`.

    Examples
    --------
    In a test module of your own::

        @parametrize_with_checks([MyMethod])
        def test_contract(check, tmp_path):
            check(tmp_path)
    """
    import pytest

    def run(cls: type[Method], name: str, folder: Path) -> None:
        CHECKS[name](*example(cls), folder)

    cases = {f"{cls.__name__}-{name}": functools.partial(run, cls, name) for cls in methods for name in CHECKS}
    return pytest.mark.parametrize("check", cases.values(), ids=cases)


def example(cls: type[Method]) -> tuple[Method, dict[str, Table], Table | None]:
    """Return a small instance of a method, four small clients and a public table if the method uses one.

    A method can say by a class method `example` what it wants; by default it is tried with its default parameters on
    generated data of its kind.
    """
    own: Any = getattr(cls, "example", None)
    if own is not None:
        method, clients, public = own()
        return method, clients, public
    makers: dict[str, Any] = {"events": make_events, "series": make_series, "posts": make_posts}
    clients, _ = makers[cls.kind](clients=4, seed=0)
    return cls(), clients, None


def drive(
    method: Method,
    engine: Engine,
    *,
    start: Checkpoint | None = None,
    recorder: RunRecorder = NO_RECORDER,
    **options: Any,
) -> Iterator[Step]:
    """Run the loop from a checkpoint, or from its beginning; `options` are those of `LoopOptions`."""
    setup = LoopOptions(**options)
    if start is None:
        start = initial_checkpoint(method, engine, setup)
        recorder.checkpoint(start)
    yield from rounds(method, engine, setup, start=start, recorder=recorder)
