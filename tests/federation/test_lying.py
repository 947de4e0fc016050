"""A lying but valid answer costs its sender only: the others' run goes on as if the liar were not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.federation import Message, Question, Reply
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.storage.tree import digest
from cotempo.testing import Faulty, drive, example

LIAR = 1
Lie = Callable[[Message], Message]


def scaled(message: Message, factor: float) -> Message:
    """Every array of floats times a factor; it stays what the method expects, save for its size."""
    fields = {
        name: value * factor if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        for name, value in message.items()
    }
    return Message(fields, weight=message.weight)


LIES: dict[str, Lie] = {
    "weight": lambda message: Message(message, weight=1e12),
    "overflow": lambda message: scaled(message, 1e140),
    "scale": lambda message: scaled(message, 1e30),
}


def case(method: type[Any]) -> tuple[Any, dict[str, Any], Any]:
    if method is ct.FedMean:
        return method(), ct.make_series(clients=5, seed=0)[0], None
    made, clients, public = example(method)
    options = {"rounds": 3} if "rounds" in made.model_dump() else {}
    return method(**{**made.model_dump(), **options}), clients, public


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("method", [ct.FDBNL, ct.OneRound, ct.FedPP, ct.FedMean])
def test_the_run_goes_on_without_the_liar(method: type[Any], lie: str) -> None:
    made, clients, public = case(method)
    liar = sorted(clients)[LIAR]
    lied: set[int] = set()

    def tamper(question: Question, reply: Reply) -> Reply:
        if question.client != liar or reply.message is None:
            return reply
        changed = LIES[lie](reply.message)
        if changed == reply.message:
            return reply
        lied.add(question.step)
        return Reply(reply.client, reply.step, reply.version, changed)

    def silent(question: Question) -> bool:
        return question.client != liar or question.step not in lied

    def clients_one_by_one() -> InProcess:  # batches of other sizes are equal to rounding only
        return InProcess(made, clients, seed=0, settings=InProcessSettings(batched=False))

    told = list(drive(made, Faulty(clients_one_by_one(), tamper=tamper), public=public, quorum=0.3))
    alone = list(drive(made, Faulty(clients_one_by_one(), deliver=silent), public=public, quorum=0.3))
    assert lied
    failures = [failure for step in told for failure in step.answers.failures]
    assert {failure.client for failure in failures} == {liar}  # named, and nobody else is
    caught = {failure.step for failure in failures}
    assert caught >= {step.step for step in told if step.expect.sums} & lied
    if caught == lied:
        assert digest(told[-1].state) == digest(alone[-1].state)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("method", [ct.FDBNL, ct.OneRound, ct.FedPP, ct.FedMean])
def test_the_run_goes_on_without_the_liar_under_the_secure_sum(method: type[Any], lie: str) -> None:
    """The lie is in what the method answers: its sender's own client refuses to mask it, and is named."""
    made, clients, public = case(method)
    names = sorted(clients)
    if len(names) < 4:  # of three, none may be missing
        clients = {**clients, "more": clients[names[0]]}
        names = sorted(clients)
    liar, lied = names[LIAR], set[int]()
    shield = SecureSumShield.local(names)
    protect = shield.protect

    def lying(message: Message, question: Question, rng: Any) -> Message:
        if question.client == liar and question.then is not None:
            told = LIES[lie](message)
            lied.update([question.step] if told != message else [])
            message = told
        return protect(message, question, rng)

    shield.protect = lying  # type: ignore[method-assign]
    engine = InProcess(made, clients, seed=0, shields=[shield])
    steps = list(drive(made, engine, public=public, reducer=SecureSum(), shields=(shield,)))
    failures = [failure for step in steps for failure in step.answers.failures]
    assert {failure.client for failure in failures} == {liar}
    assert {failure.step for failure in failures} == lied


class Brittle(ct.FedMean):
    """Fails where a mean is large, as a decomposition does where a matrix is not what it should be."""

    def absorb(self, state: Any, answers: Any, public: Any, rng: Any) -> Any:
        if not state.rows and np.abs(answers.mean("mean")).max() > 100:
            raise np.linalg.LinAlgError("did not converge")
        if state.rows and np.abs(answers.sum["joining"]).max() > 1e6:
            raise ZeroDivisionError
        return super().absorb(state, answers, public, rng)


@pytest.mark.parametrize(("phase", "kind"), [("mean", "LinAlgError"), ("compare", "ZeroDivisionError")])
def test_a_step_that_fails_names_and_leaves_out_the_sender(phase: str, kind: str) -> None:
    clients = ct.make_series(clients=5, seed=0)[0]
    liar = sorted(clients)[LIAR]

    def tamper(question: Question, reply: Reply) -> Reply:
        if question.client != liar or question.phase != phase or reply.message is None:
            return reply
        large = {name: np.asarray(value) + 1e7 for name, value in reply.message.items()}
        return Reply(reply.client, reply.step, reply.version, Message(large, weight=reply.message.weight))

    steps = list(drive(Brittle(), Faulty(InProcess(Brittle(), clients, seed=0), tamper=tamper)))
    (failure,) = [failure for step in steps for failure in step.answers.failures]
    assert (failure.client, failure.phase, failure.kind) == (liar, phase, kind)
    assert "without it it does not" in failure.detail
    honest = np.vstack([table.values for name, table in clients.items() if name != liar or phase != "mean"])
    np.testing.assert_allclose(steps[-1].state.mean, np.nanmean(honest, axis=0), rtol=0.3, atol=0.3)


def test_a_step_that_fails_for_everybody_fails_as_it_did() -> None:
    class Broken(ct.FedMean):
        def absorb(self, state: Any, answers: Any, public: Any, rng: Any) -> Any:
            raise np.linalg.LinAlgError("did not converge")

    clients = ct.make_series(clients=4, seed=0)[0]
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        list(drive(Broken(), InProcess(Broken(), clients, seed=0)))


def test_a_large_client_among_small_ones_is_no_liar() -> None:
    clients = ct.make_series(clients=4, seed=0)[0]
    stretched = {
        name: table.values * (1e6 if index == 2 else 1.0) for index, (name, table) in enumerate(clients.items())
    }
    tables = {name: ct.Series.from_arrays(values) for name, values in stretched.items()}
    assert not ct.fit(ct.FedMean(), tables, progress=False).failures
