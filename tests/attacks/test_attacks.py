"""Attacks: what liars send, who they are, and that everybody else stays honest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.attacks.attack import Attack
from cotempo.attacks.messages import LIES, Situation
from cotempo.attacks.tables import POISONS
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Expect, Message, Question, Spec
from cotempo.federation.reducers import PlainReducer
from cotempo.privacy.settings import Privacy

TABLES: dict[str, dict[str, Any]] = {
    "series": ct.make_series(clients=5, length=60, seed=0)[0],
    "events": ct.make_events(clients=5, sequences=4, seed=0)[0],
    "posts": ct.make_posts(clients=5, posts=40, events=6, seed=0)[0],
}
SUITS = {
    **dict.fromkeys(("forged_edge", "flooding", "trigger_motif", "replay"), ("series",)),
    "flooded_counts": ("events",),
    "poisoned_vocabulary": ("posts",),
}


def situation(strength: float, **own: Any) -> Situation:
    honest = [Message({"x": np.array([1.0, 2.0]) * k}, weight=10) for k in (1, 2, 3)]
    question = Question("r", 1, 1, "p", "liar", 0, 0, Message({"y": np.zeros(2)}), EMPTY)
    expect = Expect({"x": Spec((2,), low=-100, high=7.0)}, sums=True, weight=(1, 500))
    message = Message({"x": np.array([3.0, -1.0])}, weight=10)
    return Situation(message, honest, question, expect, strength, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("kind", "strength", "wanted"),
    [
        ("sign_flip", 1.0, [-3.0, 1.0]),
        ("scaling", 10.0, [7.0, -10.0]),  # what is checked bounds it
        ("inner_product", 2.0, [-4.0, -8.0]),
        ("alie", 1.5, [2 - 1.5 * np.std([1, 2, 3]), 4 - 1.5 * np.std([2, 4, 6])]),
        ("mimic", 1.0, [1.0, 2.0]),
        ("free_rider", 1.0, [0.0, 0.0]),
    ],
)
def test_lies_are_those_of_their_papers(kind: str, strength: float, wanted: list[float]) -> None:
    np.testing.assert_allclose(LIES[kind][0](situation(strength))["x"], wanted)


def test_an_inflated_weight_stays_inside_of_what_is_checked() -> None:
    assert LIES["inflated_weight"][0](situation(100.0)).weight == 500
    assert LIES["inflated_weight"][0](situation(3.0)).weight == 30


@pytest.mark.parametrize("kind", POISONS)
def test_poison_changes_liars_only_and_keeps_the_schema(kind: Any) -> None:
    for name in SUITS.get(kind, tuple(TABLES)):
        tables = TABLES[name]
        attack = Attack(kind, clients=("client-1",))
        poisoned = attack.poison(tables, seed=0)
        assert [one for one in tables if poisoned[one].fingerprint() != tables[one].fingerprint()] == ["client-1"]
        assert poisoned["client-1"].schema == tables["client-1"].schema
        assert attack.poison(tables, seed=0)["client-1"].fingerprint() == poisoned["client-1"].fingerprint()
    for name in {*TABLES} - {*SUITS.get(kind, tuple(TABLES))}:
        with pytest.raises(ParameterError, match=kind):
            Attack(kind, clients=("client-1",)).poison(TABLES[name], seed=0)


def test_a_forged_edge_is_what_a_regression_finds() -> None:
    table = Attack("forged_edge", clients=("client-1",), strength=2.0).poison(TABLES["series"], 0)["client-1"]
    before = TABLES["series"]["client-1"].values
    moved = table.values[:, 0] - before[:, 0]
    assert abs(np.corrcoef(moved, before[:, -1])[0, 1]) > 1 - 1e-9
    assert moved.std() == pytest.approx(2.0 * before[:, 0].std())


def test_a_share_is_drawn_from_the_seed() -> None:
    names = [f"c{index}" for index in range(10)]
    drawn = {Attack("sign_flip", share=0.3).liars(names, seed) for seed in range(8)}
    assert len(drawn) > 1
    assert {len(one) for one in drawn} == {3}
    with pytest.raises(ParameterError, match="client-9"):
        Attack("sign_flip", clients=("client-9",)).liars(names, 0)


@pytest.mark.parametrize("masked", [False, True])
def test_colluders_see_what_honest_clients_sent_also_those_asked_later(masked: bool) -> None:
    """The first client mimics; its mean is then that of the second one."""
    tables = TABLES["series"]
    privacy = Privacy(secure_sum=True) if masked else None
    attack = Attack("mimic", clients=("client-0",))
    lied = ct.FedMean().fit(tables, attack=attack, privacy=privacy, progress=False).mean
    means = [tables[f"client-{k}"].values.mean(axis=0) for k in (1, 1, 2, 3, 4)]
    np.testing.assert_allclose(lied, np.mean(means, axis=0), atol=1e-6)


def test_a_file_says_who_lies_and_a_resumed_run_goes_on_lying(tmp_path: Path) -> None:
    path = tmp_path / "lied.toml"
    path.write_text(
        'method = "FedMean"\n[data]\ngenerate = "series"\noptions = {clients = 6, length = 40}\n'
        '[attack]\nkind = "scaling"\nclients = ["client-2"]\n[robust]\nrule = "median"\n'
    )
    robust = ct.run(path, run=tmp_path / "run", progress=False)
    tables = ct.make_series(clients=6, length=40)[0]
    attack = Attack("scaling", clients=("client-2",))
    direct = ct.FedMean().fit(tables, attack=attack, reducer=ct.Robust("median"), progress=False)
    assert robust.digest == direct.digest
    for newest in sorted((tmp_path / "run" / "checkpoints").iterdir())[-1:]:
        newest.unlink()
    assert ct.resume(tmp_path / "run", progress=False).digest == direct.digest


def test_an_attack_on_a_deployment_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    with pytest.raises(ParameterError, match="a site lies by itself"):
        ct.FedMean().fit(engine="flower", server=tmp_path, attack=Attack("scaling"))


def test_a_pool_lies_as_one_process_does() -> None:
    tables, attack = TABLES["series"], Attack("alie", clients=("client-0", "client-3"))
    here = ct.FedMean().fit(tables, attack=attack, progress=False)
    pooled = ct.FedMean().fit(tables, attack=attack, engine="inprocess", workers=2, progress=False)
    assert here.digest == pooled.digest


def test_nobody_lies_at_a_share_of_zero() -> None:
    tables = TABLES["series"]
    lied = ct.FedMean().fit(tables, attack=Attack("scaling", share=0.0), progress=False)
    assert lied.digest == ct.FedMean().fit(tables, reducer=PlainReducer(), progress=False).digest
