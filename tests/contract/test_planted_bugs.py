"""The contract catches planted bugs, and lets the sound method pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import planted
import pytest

from cotempo.data import Series
from cotempo.federation import Method
from cotempo.testing import CHECKS, check_method


@pytest.fixture
def clients() -> dict[str, Series]:
    rng = np.random.default_rng(5)
    return {name: Series.from_arrays(rng.normal(size=(12, 3)) + shift) for shift, name in enumerate("abcd")}


CAUGHT_BY = {
    "LeaksARow": "nothing_raw_crosses",
    "LeaksThroughAMetric": "nothing_raw_crosses",
    "DependsOnOrder": "order_of_clients_is_irrelevant",
    "UsesAGlobalGenerator": "same_seed_same_bits",
    "ForgetsMemoryOnResume": "killed_anywhere_equals_never_killed",
    "WritesOnItsQuestion": "verbs_change_nothing_they_are_given",
    "DriftsWhenAnAnswerIsLost": "a_lost_answer_is_a_lost_question",
    "BreaksItsBatch": "batched_equals_looped",
}


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_planted_bug_is_caught(name: str, clients: dict[str, Series], tmp_path: Path) -> None:
    method: Method = getattr(planted, name)()
    with pytest.raises(AssertionError):
        CHECKS[CAUGHT_BY[name]](method, clients, None, tmp_path)


def test_sound_method_passes(clients: dict[str, Series]) -> None:
    check_method(planted.Sound(), clients)
