"""Levels of their own: baselines of clients make no edge, copies of a column end a search, known networks score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.engines.inprocess import InProcess
from cotempo.errors import AdviceWarning
from cotempo.federation import EMPTY, Question
from cotempo.networks.levels import compare_levels, measure_levels
from cotempo.privacy.questions import QuestionLog
from cotempo.testing.contract import drive

QUICK = ct.OneRound(restarts=0)


def labs(
    seed: int, spread: float = 0.0, variables: int = 6, samples: int = 450
) -> tuple[dict[str, Series], ct.Network]:
    """Return three labs and the truth, with baselines that differ by so many standard deviations."""
    clients, truth = ct.make_networks(variables=variables, clients=3, samples=samples, noise="unequal", seed=seed)
    rng = np.random.default_rng(seed)
    moved = {
        name: replace(table, values=table.values + rng.normal(0, spread * table.values.std(axis=0)))
        for name, table in clients.items()
    }
    return moved, truth


def stated(fitted: Any, truth: ct.Network) -> tuple[int, int]:
    """Return how many edges stated at .9 or more are true, and how many there are."""
    edges, names = fitted.edges(draws=40), list(truth.variables)
    edges = edges[edges["probability"] >= 0.9]
    right = [
        truth.stacked[lag, names.index(source), names.index(target)] != 0
        for source, target, lag in zip(edges["source"], edges["target"], edges["lag"], strict=True)
    ]
    return sum(right), len(right)


@pytest.mark.parametrize("seed", [0, 1])
def test_baselines_of_labs_make_no_wrong_edge_sure(seed: int) -> None:
    clients, truth = labs(seed, spread=2.0)
    with pytest.warns(AdviceWarning, match="levels of their own"):
        fitted = QUICK.fit(clients)
    assert fitted.state.levels == "own"
    right, count = stated(fitted, truth)
    assert right == count > 5


def test_fdbnl_tells_of_baselines() -> None:
    method = ct.FDBNL(rounds=3, compare=False, lambda_within=0.1, lambda_across=0.1)
    told = [
        any("clients' means differ" in line for line in method.fit(labs(0, spread)[0]).advice()) for spread in (0, 2)
    ]
    assert told == [False, True]


@pytest.mark.parametrize("method", [ct.FDBNL, ct.PFDBNL])
def test_methods_that_keep_levels_tell_of_replicates(method: type[ct.Method]) -> None:
    clients, _ = labs(0, samples=450)
    rng, quick = np.random.default_rng(0), {"rounds": 2, "compare": False, "lambda_within": 0.1, "lambda_across": 0.1}
    quick |= {"coupling": 0.3} if method is ct.PFDBNL else {}
    for spread, told in ((0.0, False), (2.0, True)):
        moved = {}
        for name, table in clients.items():
            frame = table.to_frame().assign(sequence=np.arange(table.rows) // 25, time=np.arange(table.rows) % 25)
            levels = spread * rng.normal(size=(7, len(table.features))) * table.values.std(axis=0)
            frame[list(table.features)] += levels[frame["sequence"]]
            moved[name] = frame
        lines = method(**quick).fit(ct.read_series(moved), progress=False).advice()
        assert any("subtract each sequence's mean" in line for line in lines) is told


def test_labs_with_one_level_are_learned_about_it() -> None:
    assert QUICK.fit(labs(0)[0]).state.levels == "common"


def test_a_network_of_own_levels_is_that_of_data_without_baselines() -> None:
    moved, plain = QUICK.fit(labs(2, spread=3.0)[0]), QUICK.fit(labs(2)[0])
    assert ((moved.network.stacked != 0) == (plain.network.stacked != 0)).all()
    np.testing.assert_allclose(moved.network.stacked, plain.network.stacked, atol=0.05)


def test_own_networks_have_own_means_also_where_variables_are_lacking() -> None:
    clients, _ = labs(1, spread=2.0, variables=4)
    clients["client-0"] = clients["client-0"].select(features=["x0", "x1", "x2"])
    with pytest.warns(AdviceWarning, match="levels of their own"):
        fitted = ct.OneRound(restarts=0, personal=True).fit(clients)
    for name, table in clients.items():
        network = fitted[name].network
        means = dict(zip(network.variables, network.mean, strict=True))
        for feature, values in zip(table.features, table.values.T, strict=True):
            assert means[feature] == pytest.approx(values.mean(), abs=0.1 * values.std())


def test_a_site_answers_all_that_is_asked_where_levels_differ_and_variables_are_lacking(tmp_path: Path) -> None:
    clients, _ = labs(1, spread=2.0, variables=4)
    clients["client-0"] = clients["client-0"].select(features=["x0", "x1", "x2"])
    steps = [step for step in drive(QUICK, InProcess(QUICK, clients, seed=0), seed=0) if step.sent]
    phases = [step.phase for step in steps]
    assert phases.count("products") == 2
    assert phases.count("fill") > 1
    log = QuestionLog(tmp_path / "questions.jsonl", QUICK)
    for step in steps:
        question = Question("run", step.step, step.round, step.phase, "client-1", 0, 0, EMPTY, EMPTY)
        log.admit(question, is_shields_own=False)


def test_a_late_client_comes_about_its_own_mean() -> None:
    clients, _ = labs(3, spread=2.0)
    late = {"client-2": clients.pop("client-2")}
    with pytest.warns(AdviceWarning, match="levels of their own"):
        fitted = ct.OneRound(restarts=0, compare=False).fit(clients)
    added = fitted.add(late)
    before, after = fitted.state.pooled(), added.state.pooled()
    own = late["client-2"].values
    grown = after.gram.diagonal()[: own.shape[1]] - before.gram.diagonal()[: own.shape[1]]
    places = [late["client-2"].features.index(name) for name in added.state.variables]
    np.testing.assert_allclose(grown, own.var(axis=0)[places] * (len(own) - 1), rtol=0.05)


def test_means_are_compared_as_an_analysis_of_variance() -> None:
    from scipy.stats import f_oneway

    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(40, 3)) + rng.normal(size=3) for _ in range(4)]
    every = np.concatenate(groups)
    tables = [Series.from_arrays(group) for group in groups]
    measured = sum(measure_levels(table, np.ones(40), every.mean(axis=0), lags=0) for table in tables)
    (common, _), (own, fitted) = measured[:2]
    found = compare_levels(common, own, fitted - 1, 160 - fitted)
    np.testing.assert_allclose(found, f_oneway(*groups).statistic)


def replicates(seed: int, level: str, size: float) -> tuple[dict[str, Series], ct.Network]:
    """Return three labs of five replicates of 40 rows, with levels of so many standard deviations, and the truth."""
    clients, truth = ct.make_networks(variables=6, clients=15, samples=600, noise="unequal", seed=seed)
    rng, time = np.random.default_rng(seed), np.linspace(-1, 1, 40)[:, None]
    slope, labs = rng.normal(size=6), {}
    tables = list(clients.values())
    for lab in range(3):
        parts = []
        for table in tables[5 * lab : 5 * lab + 5]:
            added = {"sequence": rng.normal(size=6), "drift": slope * time, "trend": rng.normal(size=6) * time}[level]
            parts.append(table.values[:40] + size * table.values.std(axis=0) * added)
        labs[f"lab-{lab}"] = Series.from_arrays(parts)
    return labs, truth


@pytest.mark.parametrize(("level", "size"), [("sequence", 1.0), ("drift", 1.0), ("trend", 2.0)])
def test_levels_and_trends_of_replicates_make_no_wrong_edge_sure(level: str, size: float) -> None:
    clients, truth = replicates(3, level, size)
    with pytest.warns(AdviceWarning, match="by more than one network explains"):
        fitted = QUICK.fit(clients)
    assert fitted.state.levels == level
    assert any("is subtracted" in line for line in fitted.advice())
    right, count = stated(fitted, truth)
    assert right == count > 5


def test_rows_count_less_for_every_number_that_was_fitted() -> None:
    clients, _ = replicates(3, "sequence", 1.0)
    with pytest.warns(AdviceWarning):
        fitted = QUICK.fit(clients)
    assert fitted.state.pooled().rows == pytest.approx((1 - 15 / 600) * 585)


@pytest.mark.parametrize("level", ["own", "sequence", "trend"])
def test_bounds_of_forecasts_hold_where_levels_differ(level: str) -> None:
    """Forecasts must go back to the client's own level, not to the mean of all."""
    inside = []
    for seed in range(3):
        clients, _ = labs(seed, 2.0, samples=450) if level == "own" else replicates(seed, level, 2.0)
        past = {name: table.split_by_time(np.array([0.85, 0.15])) for name, table in clients.items()}
        with pytest.warns(AdviceWarning):
            fitted = QUICK.fit({name: before for name, (before, _) in past.items()})
        for name, (before, after) in past.items():
            for sequence, _, values in after.sequences():
                steps = fitted[name].network.forecast(before, steps=len(values))
                mine = steps.sequence == sequence
                inside.append(((values >= steps.low[mine]) & (values <= steps.high[mine])).ravel())
    assert 0.84 < np.concatenate(inside).mean() < 0.95


@pytest.mark.timeout(120)
@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_a_copied_column_ends_and_is_named(noise: float) -> None:
    clients, _ = labs(1, samples=300)
    rng = np.random.default_rng(0)
    doubled = {
        name: Series.from_arrays(
            np.column_stack([table.values, table.values[:, 1] + noise * rng.normal(size=table.rows)]),
            features=(*table.features, "copy"),
        )
        for name, table in clients.items()
    }
    with pytest.warns(AdviceWarning, match="x1 and copy are copies of each other"):
        QUICK.fit(doubled)


def test_a_known_network_without_lags_scores_pairs() -> None:
    within, across = np.zeros((3, 3)), np.zeros((1, 3, 3))
    within[0, 1] = across[0, 1, 2] = 0.7
    across[0] += 0.5 * np.eye(3)
    known = np.zeros((1, 3, 3))
    known[0, 0, 1] = known[0, 1, 2] = 1.0
    scores = ct.score_network(ct.Network(within, across), ct.Network(np.zeros((3, 3)), known))
    assert (scores["pair_f1"], scores["pair_fdr"], scores["pair_shd"]) == (1.0, 0.0, 0.0)
    assert scores["f1"] < 0.5


def test_few_rows_for_many_variables_are_told() -> None:
    clients, _ = ct.make_networks(variables=12, clients=3, samples=45, seed=0)
    assert any("rows are few for 24 columns" in line for line in QUICK.fit(clients).advice())
