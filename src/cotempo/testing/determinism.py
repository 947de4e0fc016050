"""Checks that a method gives the same whatever runs it, and changes nothing it is given."""

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.data import Table
from cotempo.engines.pool import Pool
from cotempo.engines.settings import InProcessSettings
from cotempo.federation.exchange import Question
from cotempo.federation.method import Method
from cotempo.storage.tree import TreeError, decode, digest, encode
from cotempo.testing.contract import Clients, check, final, steps_of
from cotempo.testing.engines import Bytewise, Faulty, direct
from cotempo.testing.purity import Watched, assert_close, assert_same


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
    pool = Pool(method, clients, InProcessSettings(workers=2), seed=0)
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
    engine = direct(method, clients)
    ledger: dict[str, int] = {}
    for step in steps_of(method, engine, public):
        ledger |= step.answers.versions
        assert_same(_stored(step.state, method.State), step.state)
    for memory in engine.memories(ledger).values():
        assert_same(_stored(memory, *method.memory_types), memory)


def _stored(tree: Any, *types: type) -> Any:
    try:
        return decode(encode(tree), *types)
    except TreeError as error:
        raise AssertionError(f"states and memories must be trees that can be stored: {error}") from error
