"""The contract catches planted bugs, and lets the sound method pass."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import planted
import pytest

from cotempo.data import Series
from cotempo.federation import Method
from cotempo.federation.rounds import ReplyCheck
from cotempo.testing import CHECKS, check_method


@pytest.fixture
def clients() -> dict[str, Series]:
    rng = np.random.default_rng(5)
    return {name: Series.from_arrays(rng.normal(size=(12, 3)) + shift) for shift, name in enumerate("abcd")}


CAUGHT_BY = {
    "HasATypo": "everyone_answers",
    "LeaksARow": "nothing_raw_crosses",
    "LeaksTheLargest": "nothing_raw_crosses",
    "LeaksTheLastRow": "nothing_raw_crosses",
    "LeaksThroughAMetric": "nothing_raw_crosses",
    "DependsOnOrder": "order_of_clients_is_irrelevant",
    "UsesAGlobalGenerator": "same_seed_same_bits",
    "ForgetsMemoryOnResume": "killed_anywhere_equals_never_killed",
    "WritesOnItsQuestion": "verbs_change_nothing_they_are_given",
    "DriftsWhenAnAnswerIsLost": "a_lost_answer_is_a_lost_question",
    "BreaksItsBatch": "batched_equals_looped",
    "AcceptsAnyWeight": "bad_messages_are_left_out",
    "DependsOnItsProcess": "every_engine_gives_the_same_bits",
    "RemembersAList": "state_and_memory_survive_disk",
    "AsksFewerWhenOneIsMissing": "churn_costs_only_the_affected",
    "NeverAsks": "below_quorum_stops",
}


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_planted_bug_is_caught(name: str, clients: dict[str, Series], tmp_path: Path) -> None:
    method: Method = getattr(planted, name)()
    with pytest.raises(AssertionError):
        CHECKS[CAUGHT_BY[name]](method, clients, None, tmp_path)


def test_an_error_of_the_method_is_told_as_it_is(clients: dict[str, Series]) -> None:
    with pytest.raises(AssertionError, match="KeyError") as told:
        check_method(planted.HasATypo(), clients)
    assert "rowz" in "".join(traceback.format_exception(told.value))


def test_a_loop_that_counts_duplicates_is_caught(
    clients: dict[str, Series], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(self: ReplyCheck, questions: Any, expect: Any) -> Any:
        return self.engine.exchange(questions)

    CHECKS["duplicates_change_nothing"](planted.Sums(), clients, None, tmp_path)
    monkeypatch.setattr(ReplyCheck, "exchange", trusting)
    with pytest.raises(AssertionError, match="a duplicate answer counted"):
        CHECKS["duplicates_change_nothing"](planted.Sums(), clients, None, tmp_path)


def test_every_check_has_a_bug_that_it_catches() -> None:
    assert {*CAUGHT_BY.values(), "duplicates_change_nothing"} == {*CHECKS}


def test_sound_method_passes(clients: dict[str, Series]) -> None:
    check_method(planted.Sound(), clients)
