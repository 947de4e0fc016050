"""The contract every method keeps, as named checks, and the ways to run them.

Each check takes a method, clients, a public table or `None`, and an empty folder, and raises `AssertionError`. The
checks themselves are in `determinism`, `faults` and `privacy`.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cotempo.data import Table, make_events, make_posts, make_series
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
from cotempo.threads import limit_threads

Clients = Mapping[str, Table]
Check = Callable[[Method, Clients, Table | None, Path], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check to the contract."""
    CHECKS[function.__name__] = function
    return function


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


def parametrize_with_checks(methods: Sequence[type[Method]], expected_failures: Mapping[str, str] | None = None) -> Any:
    """Return a pytest decorator that makes one test of each check on each method's `example`.

    Parameters
    ----------
    methods
        Method classes.
    expected_failures
        Names of checks that a method is known to fail, with the reason; their tests are marked `xfail`.

    Examples
    --------
    In a test module of your own::

        @parametrize_with_checks([MyMethod])
        def test_contract(check, tmp_path):
            check(tmp_path)
    """
    import pytest

    reasons = expected_failures or {}

    def run(cls: type[Method], name: str) -> Callable[[Path], None]:
        return lambda folder: CHECKS[name](*example(cls), folder)

    cases = [
        pytest.param(
            run(cls, name),
            id=f"{cls.__name__}-{name}",
            marks=[pytest.mark.xfail(reason=reasons[name], strict=True)] if name in reasons else [],
        )
        for cls in methods
        for name in CHECKS
    ]
    return pytest.mark.parametrize("check", cases)


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


def steps_of(
    method: Method, engine: Engine, public: Table | None, most: int | None = None, **options: Any
) -> list[Step]:
    """Run to the end, or for at most so many steps, and return every step."""
    with limit_threads(1):
        return list(itertools.islice(drive(method, engine, public=public, quorum=0, **options), most))


def exchanges(steps: Sequence[Step]) -> tuple[int, int, int]:
    """Return the first, a middle and the last step in which clients were asked; others are the server's own work."""
    asked = [step.step for step in steps if step.sent]
    return asked[0], asked[len(asked) // 2], asked[-1]


def final(method: Method, engine: Engine, public: Table | None, **options: Any) -> str:
    """Return the digest of the last state."""
    return digest(steps_of(method, engine, public, **options)[-1].state)
