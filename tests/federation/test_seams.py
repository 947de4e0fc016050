"""Shields and reducers slot into the loop, by `fit` and by `rounds`, without a change to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toys import Walk, make_clients

import cotempo as ct
from cotempo.errors import ParameterError
from cotempo.federation import Answers, Ask, Expect, Message, Question, Rng, Spec
from cotempo.federation.reducers import Exchange, PlainReducer, gather_each
from cotempo.federation.shields import Shield
from cotempo.testing import drive
from cotempo.testing.engines import direct

CLIENTS = make_clients(4)


class Clip(Shield):
    """Clips every array at the client, and refuses at the server what is not clipped."""

    def __init__(self, limit: float):
        self.limit = limit
        self.asked: list[str] = []

    def before(self, ask: Ask, expect: Expect) -> Expect:
        self.asked.append(ask.phase)
        fields = {name: replace(spec, low=-self.limit, high=self.limit) for name, spec in expect.fields.items()}
        return replace(expect, fields=fields)

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        clipped = {name: np.clip(value, -self.limit, self.limit) for name, value in message.items()}
        return Message(clipped, weight=message.weight)


class Median:
    """The coordinate-wise median times the sum of weights stands in for the sum."""

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        answers = gather_each(exchange(questions, expect))
        if not expect.sums or not answers.each:
            return answers
        messages = list(answers.each.values())
        weight = sum(message.weight for message in messages)
        fields = {name: np.median([message[name] for message in messages], axis=0) * weight for name in messages[0]}
        return replace(answers, each=None, total=Message(fields, weight=weight))


class Masks(Shield):
    """A toy secure sum: a client adds a mask, which the reducer learns only as part of a sum over all."""

    phases = ("masks",)

    def __init__(self) -> None:
        self.masks: dict[tuple[str, int], float] = {}

    def answer(self, question: Question) -> Message:
        mask = float(Rng(7, question.client, question.step)("mask").integers(1000))
        self.masks[question.client, question.step] = mask
        return Message({"mask": mask})

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        mask = self.masks.get((question.client, question.step), 0.0)
        return Message({name: value + mask for name, value in message.items()}, weight=message.weight)


class MaskedSum:
    """Asks for masks first, then for masked answers, and subtracts."""

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        if not questions:
            return PlainReducer().gather(exchange, questions, expect)
        asked = [replace(question, phase="masks") for question in questions]
        masks = gather_each(exchange(asked, Expect({"mask": Spec((), "float")})))
        total = sum(masks[name]["mask"] for name in masks.names)
        answers = gather_each(exchange(questions, expect))
        assert answers.each is not None
        summed = {"move": sum(message["move"] for message in answers.each.values()) - total}
        return replace(answers, each=None, total=Message(summed, weight=float(len(answers.names))))


def test_a_clip_slots_in_through_fit(tmp_path: Path) -> None:
    clip = Clip(0.05)
    fitted = ct.fit(Walk(), CLIENTS, shields=[clip], run=tmp_path / "run")
    plain = ct.fit(Walk(), CLIENTS)
    assert clip.asked == [record["phase"] for record in fitted.history]
    assert np.abs(fitted.state.total).max() <= 0.05 * 4 * len(clip.asked)
    assert np.abs(plain.state.total).max() > 0.05 * 4 * len(clip.asked)
    assert ct.fit(Walk(), CLIENTS, shields=[Clip(1e9)]).digest == plain.digest


@pytest.mark.parametrize("workers", [None, 1])
def test_shields_are_applied_on_every_local_engine(workers: int | None) -> None:
    clipped = ct.fit(Walk(), CLIENTS, shields=[Clip(0.05)], batched=False)
    assert ct.fit(Walk(), CLIENTS, shields=[Clip(0.05)], workers=workers).digest == clipped.digest


def test_what_a_client_did_not_protect_is_refused() -> None:
    method = Walk()
    steps = list(drive(method, direct(method, CLIENTS), shields=(Clip(0.05),), quorum=0))
    kinds = {failure.kind for step in steps for failure in step.answers.failures}
    assert kinds == {"MessageError"}


def test_a_budget_that_is_spent_stops_the_run() -> None:
    class Budget(Shield):
        left = 2

        def before(self, ask: Ask, expect: Expect) -> Expect:
            if not self.left:
                raise ParameterError("the budget is spent")
            self.left -= 1
            return expect

    with pytest.raises(ParameterError, match="budget"):
        ct.fit(Walk(), CLIENTS, shields=[Budget()])


def test_a_median_slots_in_and_stands_a_poisoned_client() -> None:
    clients = {f"client-{i}": ct.Series.from_arrays(np.full((5, 2), 1.0 + i / 100)) for i in range(5)}
    poisoned = {**clients, "client-4": ct.Series.from_arrays(np.full((5, 2), 1e6))}
    assert np.abs(ct.FedMean().fit(poisoned).mean - 1).min() > 1e5
    np.testing.assert_allclose(ct.FedMean().fit(poisoned, reducer=Median()).mean, 1.02)


def test_a_sum_of_several_exchanges_slots_in() -> None:
    plain = ct.fit(Walk(sums=True), CLIENTS)
    masked = ct.fit(Walk(sums=True), CLIENTS, shields=[Masks()], reducer=MaskedSum())
    np.testing.assert_allclose(masked.state.total, plain.state.total, atol=1e-9)


def test_a_resumed_run_is_given_its_shields_again(tmp_path: Path) -> None:
    class Stops(Clip):
        def before(self, ask: Ask, expect: Expect) -> Expect:
            if self.asked:
                raise ParameterError("stopped")
            return super().before(ask, expect)

    with pytest.raises(ParameterError, match="stopped"):
        ct.FedMean().fit(CLIENTS, shields=[Stops(0.5)], run=tmp_path / "run")
    resumed = ct.resume(tmp_path / "run", CLIENTS, shields=[Clip(0.5)])
    assert resumed.digest == ct.FedMean().fit(CLIENTS, shields=[Clip(0.5)]).digest
    assert np.abs(resumed.mean).max() <= 0.5


def test_shields_of_remote_sites_are_not_set_here(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="shields must be set at the sites"):
        ct.fit(ct.FedMean(), engine="flower", server=tmp_path, shields=[Clip(1.0)])
