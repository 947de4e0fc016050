"""A real loop that does not wait, on an engine whose replies arrive in a known order: killed anywhere, it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from test_asynchronous import Bounded, Journey, Remembered, Stroll
from toys import make_clients

import cotempo as ct
from cotempo.engines.delayed import Delayed
from cotempo.errors import ParameterError
from cotempo.federation import Method, Question, Reply
from cotempo.federation.late import LateReducer
from cotempo.federation.rounds import Checkpoint, LoopOptions, Step, initial_checkpoint, rounds
from cotempo.federation.wire import identify_question, parse_reply, question_to_bytes
from cotempo.runs.folder import RunFolder
from cotempo.storage.tree import digest
from cotempo.testing.engines import Bytewise, Killed, direct

CLIENTS = make_clients(5)
SLOW = {"e": 2.5}  # steps that an answer of e is behind the others


class Postal(Bytewise):
    """Clients with their memories on disk, whose replies arrive in an order that a restart does not change.

    It dies before it yields the reply `dies` of a step; `sent` lists what was sent by this process.
    """

    def __init__(self, method: Method, folder: Path, dies: tuple[int, int] = (0, 0)):
        super().__init__(method, CLIENTS, folder)
        self.dies = dies
        self.open: dict[tuple[str, int], Question] = {}
        self.sent: list[Question] = []

    def exchange(self, questions: Sequence[Question]) -> Iterator[Reply]:
        step = max(question.step for question in questions)
        wanted = {(question.client, question.step): question for question in questions}
        self.sent += [question for key, question in wanted.items() if key not in self.open]
        self.open = dict(wanted)
        due = sorted(self.open, key=lambda key: (key[1] + SLOW.get(key[0], 0.0), key))
        for number, key in enumerate(due):
            if self.dies == (step, number):
                raise Killed
            question = self.open.pop(key)
            yield parse_reply(question, self.site(question.client).answer_bytes(question_to_bytes(question)))


def go_on(method: Method, engine: Postal, run: Path, buffer: int = 4) -> list[Step]:
    """Run, or resume what is there, until the end or death."""
    options = LateReducer(method, LoopOptions(buffer=buffer, run_id="run")).loop_options
    steps: list[Step] = []
    folder = RunFolder.reopen(run) if run.exists() else RunFolder.create(run, {"method": "Stroll"}, {})
    with closing(folder), suppress(Killed):
        start: Checkpoint | None = folder.latest(method)
        if start is None:
            start = initial_checkpoint(method, engine, options)
            folder.checkpoint(start)
        for step in rounds(method, engine, options, start=start, recorder=folder):
            steps.append(step)
    return steps


METHODS: list[Method] = [Stroll(rounds=7), Remembered(rounds=7), Bounded(rounds=7), Journey(rounds=5)]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_killed_with_an_answer_on_its_way_it_ends_in_the_same_bits(method: Method, tmp_path: Path) -> None:
    whole = go_on(method, Postal(method, tmp_path / "whole"), tmp_path / "run")
    late = [step for step in whole if "e" in step.received and "e" not in step.sent]
    assert late, "nothing came late: there is nothing to test"
    for dies in [(2, 2), (4, 0), (5, 1)]:  # before which reply of which step
        place = tmp_path / f"killed-{dies}"
        first = go_on(method, Postal(method, place, dies), place / "run")
        engine = Postal(method, place)
        steps = [*first, *go_on(method, engine, place / "run")]
        assert [digest(step.state) for step in steps] == [digest(step.state) for step in whole]
        assert not any(step.answers.failures for step in steps)  # a question with other content would be refused


def test_what_is_on_its_way_is_in_the_checkpoint_and_asked_again_as_it_was(tmp_path: Path) -> None:
    method = Stroll(rounds=7)
    before = Postal(method, tmp_path, (3, 0))
    go_on(method, before, tmp_path / "run")
    assert [(q.client, q.step) for q in before.sent if q.client == "e"] == [("e", 1)]  # not in every exchange
    after = Postal(method, tmp_path)
    go_on(method, after, tmp_path / "run")
    (asked,) = [q for q in after.sent if q.client == "e" and q.step == 1]
    (first,) = [q for q in before.sent if q.client == "e"]
    assert identify_question(question_to_bytes(asked)) == identify_question(question_to_bytes(first))


def test_bytes_are_counted_in_the_step_they_cross(tmp_path: Path) -> None:
    steps = go_on(Stroll(rounds=7), Postal(Stroll(rounds=7), tmp_path), tmp_path / "run")
    assert ["".join(sorted(step.sent)) for step in steps[:4]] == ["abcde", "abcd", "abcd", "abcd"]
    assert ["".join(sorted(step.received)) for step in steps[:4]] == ["abcd", "abcd", "abcd", "abce"]


def test_it_is_the_loop_in_simulated_time(tmp_path: Path) -> None:
    """Where replies arrive in the order of the simulated clock, a real run computes what `simulate_delays` shows."""
    method = Stroll(rounds=7)
    slow = Delayed(direct(method, CLIENTS), lambda client, step: 1.0 + SLOW.get(client, 0.0))
    options = LateReducer(method, LoopOptions(buffer=4), lambda: slow.clock).loop_options
    simulated = list(rounds(method, slow, options, start=initial_checkpoint(method, slow, options)))
    real = go_on(method, Postal(method, tmp_path), tmp_path / "run")
    assert [digest(step.state) for step in real] == [digest(step.state) for step in simulated]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "buffer must be left out on the engine inprocess, .* cotempo.simulate_delays"),
        ({"privacy": ct.Privacy(secure_sum=True)}, "buffer must be None with secure_sum or epsilon: masks cancel"),
        ({"privacy": ct.Privacy(epsilon=1.0)}, "buffer must be None with secure_sum or epsilon"),
        ({"engine": "flower", "participants": ("a", "b", "c")}, "buffer must be None with secure_sum"),
        (
            {"engine": "flower", "participants": ("a", "b"), "reducer": ct.Robust()},
            "buffer must be left out with a reducer",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(options: Mapping[str, object], words: str) -> None:
    clients, _ = ct.make_networks(variables=3, clients=3, samples=90)
    tables = None if "engine" in options else clients
    with pytest.raises(ParameterError, match=words):
        ct.OneRound().fit(tables, buffer=2, **options)  # type: ignore[arg-type]
