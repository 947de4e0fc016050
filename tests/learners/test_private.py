"""Private learners: a client moves a sum by at most the clip, rounds compose, and results say what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotempo as ct
from cotempo.errors import ParameterError
from cotempo.events import FedNeural
from cotempo.federation import Answers, Message, Question, Rng, Roster, Shield
from cotempo.learners.private import PrivateLearner, clipped, shrinkage
from cotempo.learners.state import LearnerMemory
from cotempo.privacy.noise import Noise
from cotempo.privacy.settings import Privacy
from cotempo.social import baselines
from cotempo.testing import check_method, example
from cotempo.testing.sensitivity import question_of

CLIENT = {"unit": "client", "seeded": True}


def form(epsilon: float = 3.0, rounds: int = 2, **privacy: Any) -> PrivateLearner:
    return FedNeural(rounds=rounds).private(Privacy(epsilon=epsilon, **{**CLIENT, **privacy}))


def events(clients: int = 4, seed: int = 0) -> dict[str, Any]:
    return dict(ct.make_events(clients=clients, sequences=10, length=4.0, kind="hawkes", seed=seed)[0])


def update_of(private: PrivateLearner, table: Any) -> np.ndarray:
    """Return what a client sends in the first round, before noise."""
    state = private.open(_roster(table), None, Rng(0))
    common = Message({"inputs": 0, "round": 0, "weights": state.weights})
    prepared = private.prepare(table)
    message, _ = private.answer(question_of("train", common), prepared, private.begin(prepared, Rng(0)), Rng(0, "c", 1))
    found: np.ndarray = message["update"]
    return found


def _roster(table: Any) -> Roster:
    return Roster({"all": table.schema})


@pytest.mark.parametrize("clip", [1e-3, 0.1, None])
def test_without_a_client_the_sum_moves_by_at_most_the_clip(clip: float | None) -> None:
    private = form(clip=clip)
    updates = {name: update_of(private, table) for name, table in events().items()}
    total = sum(updates.values())
    claimed = private.scales("train", Message({"update": total}))["update"]
    assert claimed == (clip or pytest.approx(5e-3 * np.sqrt(len(np.asarray(total)))))
    for name in updates:
        others = sum(update for other, update in updates.items() if other != name)
        assert np.linalg.norm(np.asarray(total) - others) <= claimed * (1 + 1e-12)
    assert max(np.linalg.norm(update) for update in updates.values()) > 0.99 * min(claimed, 0.1)  # the claim is tight


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=6), st.floats(1e-6, 1e6))
def test_clipped_updates_are_finite_and_no_longer_than_the_norm(values: list[float], norm: float) -> None:
    found = clipped(np.array(values), norm)
    assert np.linalg.norm(found) <= norm * (1 + 1e-12)
    if np.isfinite(values).all() and np.linalg.norm(values) <= norm:
        assert (found == values).all()


def test_rounds_compose_to_the_epsilon_of_dp_accounting() -> None:
    """Fifty releases with a noise multiplier of 10 spend 3.3076 at 1e-6 by dp-accounting's PLD accountant."""
    assert form(epsilon=3.307601, delta=1e-6, rounds=50).multiplier("train") == pytest.approx(10, rel=1e-2)


def test_a_round_more_than_the_budget_pays_for_is_refused() -> None:
    noise, message = Noise(form(rounds=2)), Message({"update": np.zeros(3)})
    for step in (1, 2):
        noise.protect(message, question_of("train", step=step), Rng(0, "a", step))
    with pytest.raises(ct.CotempoError, match="at most 2 times"):
        noise.protect(message, question_of("train", step=3), Rng(0, "a", 3))


class Heard(Shield):
    """Keeps what leaves."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Message]] = []

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        self.messages.append((question.phase, message))
        return message


def test_nothing_leaves_but_noised_updates_and_the_result_says_so(tmp_path: Path) -> None:
    clients, heard = events(), Heard()
    fitted = FedNeural(rounds=2).fit(clients, privacy=Privacy(epsilon=8, **CLIENT), shields=[heard])
    assert {phase for phase, message in heard.messages if len(message)} == {"train"}
    assert all({*message} == {"update"} and message.weight == 1 for phase, message in heard.messages if len(message))
    assert (fitted.privacy["unit"], fitted.privacy["epsilon"], fitted.privacy["void"]) == ("client", 8.0, True)
    assert fitted.benefit == {}
    assert float(fitted["client-0"].intensity([1.0], [0.9]).mean[0]) > 0
    fitted.save(tmp_path / "result")
    assert ct.load(tmp_path / "result").privacy == fitted.privacy


def test_noise_of_its_own_makes_every_run_another_one() -> None:
    clients = events(3)
    privacy = Privacy(epsilon=50, unit="client")
    first, second = (FedNeural(rounds=1).fit(clients, privacy=privacy) for _ in range(2))
    assert first.privacy["void"] is False
    assert (first.state.weights != second.state.weights).any()


def test_hardly_any_noise_gives_the_mean_of_the_clients_models() -> None:
    """Equal weights: all clients count the same."""
    clients = events(3)
    private = form(epsilon=1e8, rounds=1, clip=1.0)
    first = private.open(_roster(clients["client-0"]), None, Rng(0))
    updates = [update_of(private, table) for table in clients.values()]
    noise = Noise(private)
    sent = [
        noise.protect(Message({"update": one}), question_of("train", client=name), Rng(0, name, 1))["update"]
        for name, one in zip(clients, updates, strict=True)
    ]
    answers = Answers(tuple(clients), Message({"update": sum(sent)}, weight=3.0))
    state, _ = private.absorb(first, answers, None, Rng(0))
    assert np.allclose(state.weights, first.weights + np.mean(updates, axis=0), atol=1e-3)
    assert np.abs(np.mean(updates, axis=0)).max() > 4e-3


def test_noise_alone_does_not_move_the_model() -> None:
    rng = np.random.default_rng(0)
    assert np.mean([shrinkage(rng.normal(size=1000), 1.0) for _ in range(100)]) < 0.03
    assert shrinkage(np.full(1000, 10.0), 1.0) == pytest.approx(0.99)
    private = form(epsilon=0.01, rounds=2)
    fitted = private.fit(events(), shields=[Noise(private)])
    step = private.clip(len(fitted.state.first))
    assert np.linalg.norm(fitted.state.weights - fitted.state.first) < 1000 * step


@pytest.mark.parametrize("name", ["FedAvg", "FedProx", "PerFedAvg", "Ditto", "FedALA"])
def test_graph_learners_learn_privately(name: str) -> None:
    method, clients, _ = example(getattr(baselines, name))
    fitted = method.fit(clients, privacy=Privacy(epsilon=8, secure_sum=True, **CLIENT))
    posts = clients["client-0"]
    assert len(fitted["client-0"].detect(posts, events=2)) == posts.rows
    assert isinstance(fitted.outcome.memories["client-0"], LearnerMemory)


def test_what_is_no_sum_or_would_sum_more_is_refused_in_words() -> None:
    privacy = Privacy(epsilon=1, unit="client")
    for method in (ct.DAMe(), baselines.APPLE(), baselines.SFL()):
        with pytest.raises(ParameterError, match="server needs every client's model by itself"):
            method.private(privacy)
    with pytest.raises(ParameterError, match="learn alone and send no model"):
        baselines.Local().private(privacy)
    with pytest.raises(ParameterError, match="encoder must not be 'shared'"):
        baselines.FedAvg().private(privacy)
    with pytest.raises(ParameterError, match="unit must be 'client' for FedNeural, got 'row'"):
        FedNeural().private(Privacy(epsilon=1))
    with pytest.raises(ParameterError, match=r"those that have one are (?!.*DAMe).*FedAvg"):
        ct.FedMean().private(privacy)


@pytest.mark.slow
def test_the_private_form_keeps_the_contract() -> None:
    check_method(form(), events())
