"""What `fit` returns: it leaves the method as it was, and survives a folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from toys import Walk, make_clients

import cotempo as ct
from cotempo.errors import DataError, ParameterError, RunError
from cotempo.federation import Benefit, benefit_error
from cotempo.storage.tree import digest

CLIENTS = make_clients(3)


def test_the_mean_of_all_rows() -> None:
    fitted = ct.FedMean().fit(CLIENTS)
    rows = np.vstack([table.values for table in CLIENTS.values()])
    np.testing.assert_allclose(fitted.mean, rows.mean(axis=0), rtol=1e-12)


def test_benefit_is_the_leave_one_out_error_computed_the_long_way() -> None:
    fitted = ct.FedMean().fit(CLIENTS)
    rows = {name: table.values for name, table in CLIENTS.items()}
    pooled = np.vstack(list(rows.values()))

    def leave_one_out(mine: np.ndarray, pool: np.ndarray) -> np.ndarray:
        errors = [(row - (pool.sum(axis=0) - row) / (len(pool) - 1)) ** 2 for row in mine]
        return np.asarray((errors / mine.var(axis=0)).mean(axis=1))

    for name, benefit in fitted.benefit.items():
        alone, together = leave_one_out(rows[name], rows[name]), leave_one_out(rows[name], pooled)
        assert benefit.alone == pytest.approx(alone.mean(), rel=1e-10)
        assert benefit.together == pytest.approx(together.mean(), rel=1e-10)
        error, widened = (together - alone).std(ddof=1) / len(alone) ** 0.5, student.ppf(0.975, len(alone) - 1) / 1.96
        assert benefit.error == pytest.approx(error * widened, rel=1e-8)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_chance_alone_passes_for_a_difference_in_a_twentieth_of_runs(count: int) -> None:
    differences = np.random.default_rng(count).normal(size=(4000, count))
    gains = [
        Benefit("density", 0.0, row.mean(), higher_is_better=True, error=benefit_error(row)) for row in differences
    ]
    assert 0.035 < np.mean([gain.verdict != "no difference shown" for gain in gains]) < 0.055
    assert np.isnan(benefit_error([1.0]))


@pytest.mark.parametrize(
    ("gain", "error", "verdict"),
    [
        (1.0, 0.4, "helped"), (1.0, 0.6, "no difference shown"), (-1.0, 0.6, "no difference shown"),
        (-1.0, 0.4, "harmed"), (1.0, None, "not tested"), (-1.0, None, "not tested"),
        (0.0, None, "not tested"), (0.0, 0.0, "no difference shown"), (1.0, 0.0, "not tested"),
    ],
)  # fmt: skip
def test_a_difference_counts_beyond_two_standard_errors(gain: float, error: float | None, verdict: str) -> None:
    higher = Benefit("accuracy", 0.0, gain, higher_is_better=True, error=error)
    lower = Benefit("error", 0.0, -gain, higher_is_better=False, error=error)
    assert higher.verdict == lower.verdict == verdict
    assert higher.helped == (verdict == "helped")


def test_where_joining_is_worth_nothing_few_are_told_otherwise() -> None:
    """Clients of one distribution, whose own mean is about as good: the verdict is wrong in some percent of cases."""
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(100):
        values = rng.normal(size=(2, 400, 1))
        clients = {name: ct.Series.from_arrays(part) for name, part in zip("ab", values, strict=True)}
        verdicts += [benefit.verdict for benefit in ct.FedMean().fit(clients).benefit.values()]
    assert verdicts.count("harmed") <= 0.06 * len(verdicts)


def test_advice_names_who_was_harmed_and_who_was_not_compared() -> None:
    far = ct.Series.from_arrays(np.random.default_rng(0).normal(100, 1, size=(50, 2)), features=("x", "y"))
    near = ct.Series.from_arrays(np.random.default_rng(1).normal(0, 1, size=(500, 2)), features=("x", "y"))
    single = ct.Series.from_arrays(np.ones((1, 2)), features=("x", "y"))
    fitted = ct.FedMean().fit({"far": far, "near": near, "single": single})
    *_, harmed, missing = fitted.advice()
    assert harmed.startswith(
        "joining harmed far, near; to use a model of its own, learn from its table alone: FedMean("
    )
    assert missing.startswith("not compared with learning alone: single (FedMean compares clients with enough data")
    posts, _ = ct.make_posts(clients=2, posts=30, events=4)
    lines = ct.EventDetector(dimension=8, buckets=64).fit(posts).advice()
    assert any("at least 50 labelled posts" in line for line in lines)


def test_methods_have_the_parameters_of_scikit_learn() -> None:
    from sklearn.base import clone

    method = ct.FDBNL(lags=2)
    assert method.get_params()["lags"] == 2
    other = method.set_params(lags=3, rounds=7)
    assert (method.lags, other.lags, other.rounds) == (2, 3, 7)
    assert clone(method) == method.clone() == method
    assert type(method)(**method.get_params()) == method
    with pytest.raises(ParameterError, match="did you mean 'lags'"):
        method.set_params(lag=3)


def test_parameters_by_position_and_unknown_names_are_answered() -> None:
    with pytest.raises(ParameterError, match=r"FDBNL takes parameters by name, like FDBNL\(lags=...\), got 2"):
        ct.FDBNL(2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="did you mean 'FDBNL'"):
        _ = ct.FDBN


def test_a_client_whose_rows_do_not_vary_is_not_compared() -> None:
    one = ct.Series.from_arrays(np.ones((1, 2)))
    assert set(ct.FedMean().fit({**CLIENTS, "one": one}).benefit) == set(CLIENTS)
    assert ct.FedMean().fit({"one": one}).benefit == {}


@settings(max_examples=50, deadline=None)
@given(st.floats(-10, 10), st.floats(-10, 10), st.booleans())
def test_a_gain_is_positive_exactly_when_together_is_better(alone: float, together: float, higher: bool) -> None:
    benefit = Benefit("metric", alone, together, higher, error=1e-9)
    assert (benefit.gain > 0) == (together > alone if higher else together < alone)
    assert (benefit.gain > 2e-9) == benefit.helped


def test_one_client_joins_nobody(tmp_path: Path) -> None:
    name, table = next(iter(CLIENTS.items()))
    fitted = ct.FedMean().fit({name: table})
    assert not fitted.benefit
    assert fitted.advice() == [f"{name} is the only client: nobody joined, so that nothing is compared"]
    assert "was not measured" in fitted.report(tmp_path / "page.html").read_text()


def test_fit_leaves_method_and_clients_as_they_were() -> None:
    method = ct.FedMean()
    before = method.model_dump(), {name: table.fingerprint() for name, table in CLIENTS.items()}
    ct.fit(method, CLIENTS)
    assert (method.model_dump(), {name: table.fingerprint() for name, table in CLIENTS.items()}) == before
    with pytest.raises(ValueError, match="frozen"):
        method.preset = "paper"


def test_save_and_load(tmp_path: Path) -> None:
    networks, _ = ct.make_networks(variables=3, clients=3, samples=90, seed=1)
    fitted = ct.FDBNL(rounds=2, threshold=0.2).fit(networks)
    fitted.save(tmp_path / "saved")
    found = ct.load(tmp_path / "saved")
    assert type(found) is type(fitted)
    assert found.method == fitted.method
    assert found.digest == fitted.digest
    assert found.names == fitted.names
    assert json.dumps(found.history) == json.dumps(fitted.history)
    assert found.benefit == fitted.benefit
    assert digest(found.outcome.memories) == digest(dict(sorted(fitted.outcome.memories.items())))
    assert found.outcome.schemas == fitted.outcome.schemas
    np.testing.assert_array_equal(found.network.within, fitted.network.within)


@pytest.mark.parametrize("name", ["fitted.json", "state.safetensors", "memories.safetensors", "history.jsonl"])
@pytest.mark.parametrize("content", [None, b"", b"[1, 2]", b"{}", b"\xff\xfe", b'{"method": "FedMean"}'])
def test_a_damaged_result_is_a_run_error(tmp_path: Path, name: str, content: bytes | None) -> None:
    ct.FedMean().fit(CLIENTS).save(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    if name == "history.jsonl" and content in (b"", b"{}", b"[1, 2]", b'{"method": "FedMean"}'):
        return  # lines of somebody's own; nothing is computed from them
    with pytest.raises(RunError, match="must hold a saved result"):
        ct.load(tmp_path)


def test_an_unknown_client_is_answered_with_the_nearest() -> None:
    fitted = ct.FedMean().fit({"north": CLIENTS["a"], "south": CLIENTS["b"]})
    assert fitted["north"] is fitted
    with pytest.raises(DataError, match=r"did you mean 'north'\?"):
        fitted["nort"]


@pytest.mark.parametrize("clients", [{}, None, [1], CLIENTS["a"]])
def test_clients_must_be_a_mapping(clients: Any) -> None:
    with pytest.raises(DataError, match=r"mapping from client name to table|a source must be"):
        ct.FedMean().fit(clients)


def test_dataframes_are_read_and_their_errors_named_by_client() -> None:
    frames = {name: table.to_frame() for name, table in CLIENTS.items()}
    assert ct.FedMean().fit(frames).digest == ct.FedMean().fit(CLIENTS).digest
    frames["b"] = frames["b"].drop(columns="time")
    with pytest.raises(DataError, match=r"client b.*time"):
        ct.FedMean().fit(frames)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"seed": -1}, "seed"),
        ({"quorum": 1.5}, "quorum"),
        ({"quorum": float("nan")}, "quorum"),
        ({"workers": -2}, "workers"),
        ({"threads": 0}, "threads"),
        ({"cohort": 0}, "greater than or equal to 1"),
        ({"engine": "cloud"}, "engine must be one of"),
    ],
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        ct.fit(ct.FedMean(), CLIENTS, **options)


def test_parameters_are_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(ParameterError, match=r"FDBNL has no parameter 'lag' \(did you mean 'lags'\?\)"):
        ct.FDBNL(lag=2)
    with pytest.raises(ParameterError, match=r"FDBNL: lags: .*greater than or equal to 0, got -1"):
        ct.FDBNL(lags=-1)
    with pytest.raises(ParameterError, match="preset"):
        ct.FDBNL(preset="papers")


def test_presets_fill_what_was_not_given() -> None:
    paper = ct.FDBNL(preset="paper", threshold=0.4)
    assert (paper.threshold, paper.lambda_within, paper.weighting) == (0.4, 0.5, "clients")
    assert ct.FDBNL().weighting == "rows"


def test_a_seed_decides_everything() -> None:
    one, again, other = (ct.fit(Walk(), CLIENTS, seed=seed).digest for seed in (1, 1, 2))
    assert one == again != other


def test_a_dry_run_shows_every_phase() -> None:
    shown = ct.dry_run(ct.FedMean(), CLIENTS)
    assert sorted(shown.sizes) == sorted(CLIENTS)
    assert [message["phase"] for message in shown.messages if message["client"] == "b"] == ["mean", "compare"]
    first = next(message for message in shown.messages if message["client"] == "b")
    assert first["weight"] == len(CLIENTS["b"])
    assert first["fields"]["mean"]["description"]
    frame = shown.to_frame()
    assert frame["bytes"].sum() + 8 * len(shown.messages) == sum(shown.sizes.values())  # a weight in each


def test_a_coordinator_of_remote_sites_knows_sums_and_a_site_its_own_figures() -> None:
    fitted = ct.FedMean().fit(CLIENTS)
    benefit, joining = fitted.benefit, fitted.joining
    gains = np.array([one.gain for one in benefit.values()])
    assert joining.compared == len(benefit) == len(CLIENTS)
    assert joining.helped == sum(one.helped for one in benefit.values())
    assert joining.harmed == sum(one.verdict == "harmed" for one in benefit.values())
    assert joining.gain == pytest.approx(gains.mean())
    assert joining.error == pytest.approx(gains.std(ddof=1) / len(gains) ** 0.5)
    away = type(fitted)(replace(fitted.outcome, memories={}))
    assert away.benefit == {}
    assert away.joining.compared == away.summary()["compared"] == len(CLIENTS)
    assert away.advice() == [f"{joining}; each site knows its own figures"]
    (name, memory), *_ = fitted.outcome.memories.items()
    assert type(fitted)(replace(fitted.outcome, memories={name: memory})).benefit == {name: benefit[name]}
