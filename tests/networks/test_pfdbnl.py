from __future__ import annotations

from dataclasses import replace

import numpy as np
from networks.baselines import Local

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.federation import Participation
from cotempo.federation.registry import find_method
from cotempo.networks.moments import unbiased
from cotempo.networks.pfdbnl import COUPLINGS, PFDBNL, residual_squares, tied_step
from cotempo.storage.tree import digest
from cotempo.testing import drive

FIXED = {"coupling": 0.3, "lambda_within": 0.1, "lambda_across": 0.1, "compare": False}


def related(seed: int, **changes):
    data = {"variables": 6, "clients": 4, "samples": 240, "shared": 0.8, **changes}
    return ct.make_networks(seed=seed, **data)


def test_known_by_its_other_name() -> None:
    assert find_method("cfPTN") is PFDBNL


def test_tied_step_is_the_closed_form() -> None:
    own, shared, dual = np.random.default_rng(0).normal(size=(3, 2, 2))
    found = tied_step(own, shared, dual, coupling=0.3, consensus=1.7)
    gradient = 2 * 0.3 * (found - own) + dual + 1.7 * (found - shared)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_related_clients_gain_from_each_other() -> None:
    ours, alone = [], []
    for seed in range(2):
        clients, truth = related(seed, variables=5, clients=5, samples=150)
        ours.append(PFDBNL().fit(clients, progress=False).scores(truth)["shd_double"])
        alone.append(ct.score_network(Local().fit(clients), truth)["shd_double"])
    assert np.mean(ours) < np.mean(alone) - 1


def test_each_client_gets_its_own_network_and_the_common_one_is_there() -> None:
    clients, truth = related(1, samples=2000, shared=0.6)
    fitted = PFDBNL(scaled=False).fit(clients, progress=False)
    assert fitted.scores(truth)["within_shd_double"] <= 2
    assert all(fitted[name].network.is_acyclic for name in clients)
    assert fitted.network.is_acyclic
    assert (fitted["client-0"].network.within != fitted["client-1"].network.within).any()
    assert set(fitted.benefit) == set(clients)


def test_strong_coupling_makes_one_network_weak_makes_many() -> None:
    clients, _ = related(1)

    def distance(coupling: float) -> float:
        method = PFDBNL(**{**FIXED, "coupling": coupling}, threshold=0, threshold_across=0, rounds=200)
        fitted = method.fit(clients, progress=False)
        own = np.stack([memory.own[0] for memory in fitted.outcome.memories.values()])
        return float(own.std(axis=0).mean())

    assert distance(30.0) < 0.3 * distance(0.03)


def test_absent_clients_keep_their_memory() -> None:
    clients, _ = related(2)
    method = PFDBNL(**FIXED, rounds=6)
    engine = InProcess(method, clients, seed=0)
    ledger: dict[str, int] = {}
    before: dict[str, str] = {}
    taking_part = set()
    for step in drive(method, engine, participation=Participation(size=2), seed=0):
        ledger |= step.answers.versions
        now = {name: digest(memory) for name, memory in engine.memories(ledger).items()}
        if step.phase == "solve":
            assert len(step.answers.names) == 2
            taking_part.add(step.answers.names)
            for name in set(now) - set(step.answers.names):
                assert now[name] == before[name]
        before = now
    assert len(taking_part) > 1


def test_few_participants_change_little() -> None:
    distances = {}
    for size in (1, 3, None):
        found = []
        for seed in range(2):
            clients, truth = ct.make_networks(variables=5, clients=6, samples=360, shared=0.0, seed=seed)
            fitted = PFDBNL(**FIXED).fit(clients, progress=False, cohort=size)
            found.append(fitted.scores(truth)["within_shd_double"])
        distances[size] = np.mean(found)
    assert max(distances.values()) - min(distances.values()) <= 1


def test_client_that_never_took_part_is_given_the_common_network() -> None:
    clients, _ = related(3)
    method = PFDBNL(**FIXED, rounds=3)
    outcome = method.fit(clients, progress=False).outcome
    seen = {name: memory for name, memory in outcome.memories.items() if name != "client-2"}
    fitted = method.result(replace(outcome, memories=seen))
    np.testing.assert_array_equal(fitted["client-2"].network.within, fitted.network.within)


def test_own_intercepts_make_a_clients_level_irrelevant() -> None:
    clients, _ = related(4)
    table = clients["client-2"]
    moved = {**clients, "client-2": ct.Series.from_arrays(table.values + 50.0, features=table.features)}
    one, other = (PFDBNL(**FIXED).fit(tables, progress=False) for tables in (clients, moved))
    for name in clients:
        np.testing.assert_allclose(one[name].network.within, other[name].network.within, atol=1e-6)


def test_order_and_engine_do_not_matter() -> None:
    clients, _ = related(5, variables=4)
    method = PFDBNL(**FIXED)
    backwards = dict(reversed(list(clients.items())))
    assert method.fit(clients, progress=False).digest == method.fit(backwards, progress=False).digest


def test_own_networks_stay_out_of_messages() -> None:
    clients, _ = related(6, variables=4)
    method = PFDBNL(**FIXED, rounds=5)
    engine = InProcess(method, clients, InProcessSettings(batched=False), seed=0)
    sent = []
    ledger: dict[str, int] = {}
    original = engine.exchange
    engine.exchange = lambda questions: [sent.append(reply) or reply for reply in original(questions)]
    for step in drive(method, engine, seed=0):
        ledger |= step.answers.versions
    for memory in engine.memories(ledger).values():
        for weight in memory.own[memory.own != 0]:
            for reply in sent:
                assert not any((np.asarray(value) == weight).any() for value in reply.message.values())


def test_paper_preset_and_candidates() -> None:
    paper = PFDBNL(preset="paper")
    assert (paper.coupling, paper.lambda_within, paper.threshold, paper.weighting) == (0.1, 0.1, 0.3, "clients")
    assert paper._candidates(0.5, unit=1.0, clients=16).tolist() == [[0.1, 0.1, 0.1]]
    candidates = PFDBNL()._candidates(0.1, unit=1.0, clients=16)
    assert candidates.shape == (2 * len(COUPLINGS), 3)
    np.testing.assert_allclose(candidates[0], [0.02, 0.07, COUPLINGS[0]])


def test_variance_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    network = ct.Network(np.zeros((2, 2)), np.zeros((1, 2, 2)))
    rows = rng.normal(size=(12, 4))
    centred = rows - rows.mean(axis=0)
    found = unbiased(residual_squares(centred.T @ centred / 12, network), 12, network)
    np.testing.assert_allclose(found, rows[:, :2].var(axis=0, ddof=1))


def test_saved_and_loaded(tmp_path) -> None:
    clients, _ = related(7, variables=3)
    fitted = PFDBNL(rounds=3).fit(clients, progress=False)
    again = ct.load(fitted.save(tmp_path / "fitted"))
    for name in clients:
        np.testing.assert_array_equal(again[name].network.within, fitted[name].network.within)


def test_the_preset_paper_has_the_papers_numbers():
    """Section 4.2: lambda_W = lambda_A = mu = .1 up to 10 variables, phi_1 1.6, phi_2 1.1; tau .3 as in Figure 2."""
    paper = ct.PFDBNL(preset="paper")
    assert (paper.lambda_within, paper.lambda_across, paper.coupling) == (0.1, 0.1, 0.1)
    assert (paper.cycle_growth, paper.consensus_growth) == (1.6, 1.1)
    assert (paper.threshold, paper.threshold_across, paper.weighting) == (0.3, 0.3, "clients")
    assert (paper.centred, paper.scaled) == (False, False)


def test_the_preset_paper_solves_a_clients_whole_problem_each_round():
    """Its iterations suffice: ten times as many change nothing."""
    clients, _ = ct.make_networks(variables=5, clients=3, samples=180, shared=0.5, seed=0)
    paper = ct.PFDBNL(preset="paper", rounds=3, compare=False)
    longer = paper.model_copy(update={"iterations": 10 * paper.iterations, "passes": 10 * paper.passes})
    first, second = (method.fit(clients, progress=False) for method in (paper, longer))
    np.testing.assert_allclose(first.state.shared, second.state.shared, atol=1e-6)
