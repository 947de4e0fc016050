"""Sums by regions: the same as of all at once, each region asked in its turn, failures and memories kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Schema
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Expect, Message, Question, Reply, Spec
from cotempo.federation.engine import Engine
from cotempo.federation.reducers import PlainReducer, TreeReducer, deal
from cotempo.testing import drive

NAMES = [f"c{number:02d}" for number in range(23)]
QUESTIONS = [Question("run", 1, 1, "phase", name, 0, 0, EMPTY, EMPTY) for name in NAMES]
SUMS = Expect({"x": Spec((3,)), "n": Spec((), "int")}, sums=True)


class Asked:
    """Clients that answer, but for some, and remember who was asked together."""

    def __init__(self, silent: Sequence[str] = ()) -> None:
        self.silent = silent
        self.together: list[list[str]] = []

    def __call__(self, questions: Sequence[Question], expect: Expect, account: str = "") -> Iterator[Reply]:
        self.together.append([question.client for question in questions])
        for question in questions:
            number = NAMES.index(question.client)
            values = np.random.default_rng(number).normal(size=3)
            fails = question.client in self.silent
            message = Message({"x": values, "n": number}, weight=1 + number)
            yield question.fail("Lost") if fails else question.reply(message, 1)


@pytest.mark.parametrize("regions", [1, 2, 5, 23, 100])
def test_regions_add_up_to_the_sum_of_all(regions: int) -> None:
    silent = ["c03", "c22", *NAMES[5:10]]  # with 5 regions, one of them is silent
    flat, tree = PlainReducer().gather(Asked(silent), QUESTIONS, SUMS), Asked(silent)
    found = TreeReducer(regions).gather(tree, QUESTIONS, SUMS)
    np.testing.assert_allclose(found.sum["x"], flat.sum["x"], rtol=1e-13)
    assert (found.sum["n"], found.sum.weight) == (flat.sum["n"], flat.sum.weight)
    assert (found.names, found.versions, found.failures) == (flat.names, flat.versions, flat.failures)
    assert len(tree.together) == min(regions, len(NAMES))
    assert [name for part in tree.together for name in part] == NAMES


def test_one_region_is_the_plain_sum_bit_for_bit() -> None:
    flat, tree = (how.gather(Asked(), QUESTIONS, SUMS) for how in (PlainReducer(), TreeReducer(1)))
    assert tree.total == flat.total


def test_regions_are_consecutive_and_of_nearly_equal_size() -> None:
    sizes = [len(part) for part in deal(QUESTIONS, 4)]
    assert sizes == [6, 6, 6, 5]


def test_single_answers_and_server_steps_are_gathered_as_without_regions() -> None:
    single = Expect(SUMS.fields)
    assert TreeReducer(4).gather(Asked(), QUESTIONS, single) == PlainReducer().gather(Asked(), QUESTIONS, single)
    assert TreeReducer(4).gather(Asked(), [], SUMS).names == ()


def test_a_run_of_many_rounds_agrees_and_repeats_bit_for_bit() -> None:
    clients, _ = ct.make_networks(variables=4, clients=7, samples=420, seed=0)
    flat, once, again = (
        ct.FDBNL(rounds=5).fit(clients, reducer=how, progress=False) for how in (None, TreeReducer(3), TreeReducer(3))
    )
    assert once.digest == again.digest
    np.testing.assert_allclose(once.network.within, flat.network.within, atol=1e-9)


class Crowd(Engine):
    """Clients that cost nothing, and whose names come back over a wire."""

    def __init__(self, clients: int):
        self.clients = tuple(f"c{number:06d}" for number in range(clients))

    def names(self) -> tuple[str, ...]:
        return self.clients

    def schemas(self, names: Sequence[str]) -> Mapping[str, Schema]:
        return dict.fromkeys(names, Schema("series", ("x",), ""))

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        for question in questions:
            yield Reply("".join([*question.client]), question.step, 0, Message({"mean": np.zeros(1)}))


def peak(clients: int) -> tuple[int, set[str]]:
    """The most memory of a step above that of its clients, and whose bytes were counted."""
    engine = Crowd(clients)
    tracemalloc.start()
    step = next(iter(drive(ct.FedMean(), engine, reducer=TreeReducer(10))))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most, {*step.received}


def test_the_server_keeps_hardly_more_than_the_names_of_clients() -> None:
    _, (few, _), (many, counted) = peak(20), peak(200), peak(2200)  # what is imported and cached comes first
    assert (many - few) / 2000 < 100  # bytes a client; with questions, counts and copies of names it was 350
    assert counted == {f"region-{number}" for number in range(1, 11)}


def test_a_secure_sum_takes_no_tree() -> None:
    clients, _ = ct.make_networks(variables=3, clients=4, samples=80, seed=0)
    with pytest.raises(ParameterError, match="reducer must be left out with secure_sum"):
        ct.FedMean().fit(clients, reducer=TreeReducer(2), privacy=ct.Privacy(secure_sum=True))


def test_no_region_is_refused() -> None:
    with pytest.raises(ParameterError, match="regions must be at least 1, got 0"):
        TreeReducer(0)
