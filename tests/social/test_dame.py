from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from social.attacks import Attacked, Backdoor, ParameterNoise, SignFlip

import cotempo as ct
from cotempo import social
from cotempo.data import Posts, make_posts
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.errors import DataError, ParameterError
from cotempo.testing import CHECKS, drive

CLIENTS, _ = make_posts(clients=3, posts=60, events=9, seed=0)
SMALL = {"dimension": 16, "buckets": 256, "hidden": 8, "heads": 2, "outputs": 8, "compare": False, "validation": 0.2}
SLOW = ("every_engine_gives_the_same_bits", "killed_anywhere_equals_never_killed")
BASELINES = ("Local", "FedAvg", "FedProx", "PerFedAvg", "Ditto", "SFL", "APPLE", "FedALA")


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in SLOW])
def test_contract(name: str, tmp_path: Path) -> None:
    method, clients, public = social.DAMe.example()
    CHECKS[name](method, clients, public, tmp_path)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_have_the_surface_of_dame(name: str) -> None:
    fitted = getattr(social, name)(rounds=2, **SMALL).fit(CLIENTS)
    posts = CLIENTS["client-1"]
    found = fitted["client-1"].detect(posts, events=3)
    assert isinstance(found, social.Detection)
    assert set(found.event) == {"group-client-1-0", "group-client-1-1", "group-client-1-2"}
    assert np.isnan(found.confidence).all()  # nothing outside these posts says how sure their groups are
    assert found.to_frame("polars").shape == (60, 2)
    assert len(fitted["client-1"].detect(posts)) == 60
    wordless = fitted["client-1"].detect(replace(posts, text=("🔥", *posts.text[1:])), events=3)
    assert wordless.outlier.tolist() == [True] + [False] * 59
    with pytest.raises(AttributeError, match=r"use fitted\[client\].detect; clients are client-0"):
        fitted.detect(posts)
    assert fitted["client-1"].embed(posts).shape == (60, 8)


def test_the_record_says_what_was_decided() -> None:
    fitted = social.DAMe(rounds=3, probes=4, glecc=True, **SMALL).fit(CLIENTS)
    assert len(fitted.record) == 3
    last = fitted.record[-1]
    assert set(last.weights) == set(last.groups) == set(CLIENTS)
    assert all(0.6 <= weight <= 1 for weight in last.weights.values())
    assert last.similarities.shape == (3, 3)
    assert set(fitted.figures()) == {"Convergence", "Local weights and groups", "Similarities in the last round"}


def test_parts_can_be_switched_off() -> None:
    plain = social.DAMe(rounds=2, bola=False, sega=False, glecc=False, **SMALL).fit(CLIENTS)
    np.testing.assert_allclose(list(plain.record[-1].weights.values()), 0.6, rtol=1e-6)
    assert set(plain.record[-1].groups.values()) == {0}


def test_training_and_benefit(tmp_path: Path) -> None:
    options = {**SMALL, "compare": True}
    fitted = social.DAMe(rounds=6, probes=3, learning_rate=1e-2, **options).fit(CLIENTS)
    losses = [step["metrics"]["loss"] for step in fitted.history if step["phase"] == "train"]
    assert losses[-1] < losses[0]
    assert set(fitted.benefit) == set(CLIENTS)
    assert all(0 <= benefit.together <= 1 for benefit in fitted.benefit.values())
    assert {benefit.verdict for benefit in fitted.benefit.values()} == {"not tested"}
    assert any("run several seeds" in line for line in fitted.advice())
    assert "helped by joining" not in fitted.report(tmp_path / "page.html").read_text()


def test_a_result_is_saved_and_read_back(tmp_path: Path) -> None:
    fitted = social.DAMe(rounds=1, probes=2, **SMALL).fit(CLIENTS)
    again = ct.load(fitted.save(tmp_path / "result"))
    posts = CLIENTS["client-0"]
    np.testing.assert_array_equal(again["client-0"].embed(posts), fitted["client-0"].embed(posts))


def test_an_attacker_is_left_alone() -> None:
    clients, _ = make_posts(clients=5, posts=60, events=15, seed=0)
    method = social.DAMe(rounds=4, probes=3, **SMALL)
    engine = Attacked(InProcess(method, clients, seed=0), {"client-2": ParameterNoise.strong()})
    *_, last = drive(method, engine, seed=0)
    groups = [entry.groups for entry in last.state.record]
    alone = [list(entry.values()).count(entry["client-2"]) == 1 for entry in groups]
    assert np.mean(alone) >= 0.75


def test_an_attack_goes_through_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    attacks = {"client-2": ParameterNoise(3.0, replaces=True)}
    method = social.FedAvg(rounds=1, **SMALL)
    calm = method.fit(CLIENTS)
    honest = InProcessSettings.open
    monkeypatch.setattr(InProcessSettings, "open", lambda *a, **k: Attacked(honest(*a, **k), attacks))
    attacked = method.fit(CLIENTS)
    assert np.abs(attacked.state.weights - calm.state.weights).max() > 1


def test_the_preset_paper_is_a_set_of_values() -> None:
    assert not social.DAMe(preset="paper").cautious
    assert social.DAMe().cautious
    assert social.DAMe(preset="paper") == social.DAMe(**social.DAMe.presets["paper"], preset="paper")


def test_the_preset_paper_has_the_papers_numbers() -> None:
    """The paper's implementation details: 50 rounds of 1 epoch, batches of 2000, rate .001, 70/20/10, SBERT texts."""
    paper = social.DAMe(preset="paper")
    assert (paper.rounds, paper.epochs, paper.batch, paper.learning_rate) == (50, 1, 2000, 1e-3)
    assert (paper.test, paper.validation) == (0.2, 0.1)
    assert (paper.encoder, paper.buckets, paper.dimension) == ("multilingual", 512, 512)
    assert (paper.cautious, paper.glecc, paper.bola, paper.sega, paper.similarity) == (False, True, True, True, "paper")
    assert social.FedAvg(preset="paper").encoder == "multilingual"  # baselines have the same backbone


def test_attacks_do_what_they_say() -> None:
    rng = np.random.default_rng(0)
    weights = np.ones(1000, np.float32)
    assert abs(ParameterNoise.weak().corrupt(weights, rng).mean() - 1) < 0.02
    assert abs(ParameterNoise.strong().corrupt(weights, rng).mean()) < 0.1
    assert (SignFlip().corrupt(weights, rng) == -1).all()
    poisoned = Backdoor(share=0.5).poison(CLIENTS["client-0"], rng)
    planted = [text.startswith("cf ") for text in poisoned.text]
    assert sum(planted) == 30
    assert len({event for event, is_planted in zip(poisoned.event, planted, strict=True) if is_planted}) == 1
    with pytest.raises(ParameterError, match="labelled"):
        Backdoor().poison(Posts([0.0], ("a",)), rng)


def test_labels_missing_for_a_client_are_an_error_that_names_it() -> None:
    bare = replace(CLIENTS["client-1"], event=(None,) * 60)
    with pytest.raises(DataError, match=r"client client-1.*some posts must have an event"):
        social.DAMe(rounds=1, **SMALL).fit({**CLIENTS, "client-1": bare})


def test_no_timestamps_one_event_and_odd_texts() -> None:
    odd = Posts([np.nan] * 12, ("", "🌊", "فيضان") * 4, event=("same",) * 12)
    fitted = social.DAMe(rounds=2, probes=2, **SMALL).fit({**CLIENTS, "odd": odd})
    assert len(fitted["odd"].detect(odd, events=1)) == 12


@pytest.mark.parametrize(
    "odd",
    [
        Posts([0.0], ("one post",), event=("a",)),
        Posts([0.0] * 9, ("", "flood", "water " * 170_000) * 3, event=("a", "b", "c") * 3),
        Posts([0.0] * 9, tuple(f"#hub {row}" for row in range(9)), hashtags=(("hub",),) * 9, event=("a", "b", "c") * 3),
        Posts([0.0] * 6, ("a flood",) * 6, event=("a", "b") * 3, extra={"id": ("1",) * 6, "lang": ("xx", None) * 3}),
    ],
    ids=["one post", "a megabyte", "one hub", "double ids and unknown languages"],
)
def test_odd_clients_learn_with_the_others(odd: Posts) -> None:
    fitted = social.DAMe(rounds=2, probes=2, **SMALL).fit({**CLIENTS, "odd": odd})
    found = fitted["odd"].detect(odd)
    assert len(found) == odd.rows
    assert np.isfinite(fitted["odd"].embed(odd)).all()
