"""What a site lets a run ask: ranges of parameters, privacy that is kept, rows that are enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.engines.flower.protocol import Part, Verb
from cotempo.engines.flower.site.service import clear_phases
from cotempo.errors import ParameterError
from cotempo.federation.registry import methods
from cotempo.privacy.policy import Allowed, Refused, SitePolicy
from cotempo.testing import example

NAMES = ("ash", "birch", "cedar")


def make_table(rows: int = 100) -> ct.Series:
    return ct.Series.from_arrays(np.random.default_rng(0).normal(size=(rows, 3)))


def refusal(folder: Path, method: str, parameters: dict[str, Any], rows: int = 100, **options: Any) -> str:
    """Return why a site with default settings refuses a contract; nothing if it does not."""
    consortium = PaperConsortium(folder, NAMES)
    service = consortium.service("ash", make_table(rows), methods=(method,), **options.pop("settings", {}))
    parts = consortium.invite(method=method, parameters=parameters, **{"privacy": {"secure_sum": True}, **options})
    return service.handle(Verb.JOIN, parts).get(Part.REFUSED, b"").decode()


def test_every_method_passes_with_its_defaults_and_the_papers() -> None:
    for name, cls in methods().items():
        for preset in ("cotempo", "paper"):
            given = {"common": ("x",)} if name == "FedTDD" else {}
            SitePolicy().require_parameters(cls(preset=preset, **given), {})


@pytest.mark.parametrize(
    ("method", "parameters", "must"),
    [
        ("OneRound", {"lags": 50}, "lags of OneRound be its default or at least 0 and at most 5 or auto, got 50"),
        ("OneRound", {"half_life": 1e-3}, "half_life of OneRound be its default, got 0.001"),
        ("FDBNL", {"lags": 6}, "lags of FDBNL"),
        ("EdgeRanking", {"perturbed_until": 3.0}, "perturbed_until"),
        ("EventDetector", {"encoder": "sentence:attacker/model"}, "encoder of EventDetector be its default"),
        ("DAMe", {"encoder": "onnx:/tmp/model"}, "encoder of DAMe"),
        ("EventDetector", {"buckets": 2**17}, "buckets"),
        ("FedTDD", {"common": ("x",), "alpha": 0.5}, "alpha"),
        ("FDBNL", {"rounds": 10**6}, "rounds"),
    ],
)
def test_a_parameter_outside_of_the_range_is_refused(
    tmp_path: Path, method: str, parameters: dict[str, Any], must: str
) -> None:
    given = methods()[method](**parameters).model_dump(mode="json")
    assert must in refusal(tmp_path, method, given)


def test_the_sites_own_ranges_come_first(tmp_path: Path) -> None:
    wide = {"parameters": {"OneRound.lags": {"most": 10}, "lags": {"most": 2}}, "privacy": {"parameters_per_row": 9}}
    assert refusal(tmp_path / "a", "OneRound", {"lags": 8}, settings=wide) == ""
    assert "at most 10" in refusal(tmp_path / "b", "OneRound", {"lags": 11}, settings=wide)
    assert "at most 2" in refusal(tmp_path / "c", "FDBNL", {"lags": 3}, settings=wide)


def test_ranges_accept_numbers_and_never_nan() -> None:
    bound = Allowed(least=0, most=5, values=("auto",))
    assert bound.accepts(5)
    assert bound.accepts("auto")
    assert bound.accepts([1, 2.5])
    for value in (float("nan"), float("inf"), True, None, "5", {"a": 1}, [1, 9], -1, 10**400):
        assert not bound.accepts(value), value


@pytest.mark.parametrize("promise", [{"epsilon": "NaN"}, {"epsilon": -1.0}, {"epsilon": 0.0}, {"magic": True}])
def test_a_promise_that_is_no_number_is_refused(tmp_path: Path, promise: dict[str, Any]) -> None:
    asked = {"secure_sum": True, **promise}
    strict = {"privacy": {"epsilon": 1.0}}
    assert "that this version of cotempo can keep" in refusal(tmp_path, "OneRound", {}, privacy=asked, settings=strict)


def test_nan_cannot_even_be_signed(tmp_path: Path) -> None:
    contract = PaperConsortium(tmp_path, NAMES).contract(
        method="OneRound", parameters={}, privacy={"epsilon": float("nan")}
    )
    with pytest.raises(ParameterError, match="finite numbers only"):
        contract.to_bytes()


@pytest.mark.parametrize(
    ("asked", "must"),
    [
        ({"epsilon": 2.0}, "epsilon at most 1 and delta 1e-05, got epsilon 2"),
        ({"epsilon": 1.0, "delta": 0.1}, "delta 0.1"),
        ({"epsilon": 1.0, "seeded": True}, "draws its noise itself"),
        ({}, "got no noise"),
    ],
)
def test_less_noise_than_the_site_asks_for_is_refused(tmp_path: Path, asked: dict[str, Any], must: str) -> None:
    strict = {"privacy": {"epsilon": 1.0}}
    assert must in refusal(tmp_path, "OneRound", {}, privacy={"secure_sum": True, **asked}, settings=strict)


def test_a_budget_is_not_kept_by_a_promise_that_need_not_hold(tmp_path: Path) -> None:
    asked = {"secure_sum": True, "epsilon": 0.1, "delta": 0.99, "ranges": [-5.0, 5.0]}
    for settings in ({"privacy": {"budget": 1.0}}, {}):
        assert "delta at most 1e-05, got delta 0.99" in refusal(
            tmp_path, "OneRound", {}, privacy=asked, settings=settings
        )


def test_a_promise_of_noise_is_kept_by_the_site_or_the_run_is_refused(tmp_path: Path) -> None:
    """Noise is the work of the site's own code: a method that has no private form cannot promise it."""
    consortium = PaperConsortium(tmp_path, NAMES)
    privacy = {"secure_sum": True, "epsilon": 1.0, "ranges": [-5.0, 5.0]}
    service = consortium.service("ash", make_table(), methods=("FedMean", "OneRound"), privacy={"epsilon": 1.0})
    refused = consortium.invite(method="FedMean", parameters={}, privacy=privacy)
    assert Part.SCHEMA not in service.handle(Verb.JOIN, refused)
    parts = consortium.invite(method="OneRound", parameters={}, privacy=privacy, run="1" * 32)
    assert Part.SCHEMA in service.handle(Verb.JOIN, parts)
    names = [type(shield).__name__ for shield in service._runs["1" * 32].site.shields]
    assert names == ["Noise", "SecureSumShield"]  # noise before masks


def test_too_few_rows_and_too_many_regressors_are_refused(tmp_path: Path) -> None:
    assert "once its table has 50 rows" in refusal(tmp_path / "a", "OneRound", {}, rows=49)
    assert "at most 0.33 regressors a row" in refusal(tmp_path / "b", "OneRound", {"lags": 5}, rows=54)
    assert refusal(tmp_path / "c", "OneRound", {"lags": 5}, rows=55) == ""


def test_what_guards_rows_is_the_sites(tmp_path: Path) -> None:
    consortium = PaperConsortium(tmp_path, NAMES)
    service = consortium.service("ash", make_table(), methods=("OneRound",))
    for asked, kept in ((1, 50), (60, 60)):
        run = f"{asked:032d}"
        parts = consortium.invite(
            method="OneRound", parameters={"minimum_rows": asked}, privacy={"secure_sum": True}, run=run
        )
        assert Part.SCHEMA in service.handle(Verb.JOIN, parts)
        assert service._runs[run].site.method.minimum_rows == kept  # type: ignore[attr-defined]
    parts = consortium.invite(method="OneRound", parameters={}, privacy={"secure_sum": True})
    assert Part.SCHEMA in service.handle(Verb.JOIN, parts)
    assert service._runs[RUN].site.method.minimum_rows == 50  # type: ignore[attr-defined] # not the method's default


@pytest.mark.parametrize("value", [True, "2", 2.5, 10**400, [2], None, "2\x1b[31m"], ids=lambda value: repr(value)[:9])
def test_a_parameter_of_another_type_is_refused_in_words(tmp_path: Path, value: Any) -> None:
    for method, parameter in (("OneRound", "lags"), ("OneRound", "minimum_rows"), ("EdgeRanking", "lags")):
        assert refusal(tmp_path / method / parameter, method, {parameter: value}) != ""


def test_what_a_coordinator_says_begins_no_line_of_the_sites_log(tmp_path: Path) -> None:
    service = PaperConsortium(tmp_path, NAMES).service("ash", make_table(), methods=("OneRound",))
    evil = "x\n2026-11-19T15:00:00+00:00 a person approved it"
    for changes in ({"method": evil}, {"version": evil}, {"parameters": {evil: 1}}):
        known = {"method": "OneRound", "parameters": {}, "privacy": {"secure_sum": True}}
        parts = PaperConsortium(tmp_path, NAMES).invite(**{**known, **changes})
        assert Part.REFUSED in service.handle(Verb.JOIN, parts)
    lines = (service.home / "site.log").read_text().splitlines()
    assert [line for line in lines if not line.startswith(" ") and "refused: " not in line] == []


@pytest.mark.parametrize("value", [True, "1", 10**400], ids=lambda value: repr(value)[:9])
def test_a_promise_of_another_type_is_refused_in_words(tmp_path: Path, value: Any) -> None:
    asked = {"secure_sum": True, "epsilon": value, "ranges": [-5.0, 5.0]}
    assert refusal(tmp_path, "OneRound", {}, privacy=asked) != ""


def test_policy_defaults_are_safe() -> None:
    policy = SitePolicy()
    assert (policy.minimum_rows, policy.minimum_clients, policy.parameters_per_row) == (50, 3, 0.33)
    assert policy.secure_sum
    with pytest.raises(ParameterError):
        SitePolicy(epsilon=float("nan"))


def test_a_site_knows_by_its_own_code_which_phases_are_sums() -> None:
    def clear(name: str) -> list[str] | None:
        method, clients, _ = example(methods()[name])
        return clear_phases(method, next(iter(clients.values())).schema)

    assert not {"centre", "products", "personal"} & {*(clear("OneRound") or [])}
    assert not {"describe", "count", "base", "learn", "rebase"} & {*(clear("FedPP") or [])}
    assert "train" in (clear("DAMe") or [])
    assert clear("FedTDD") is None  # opening it takes the public series


def test_refusals_are_errors_of_cotempo() -> None:
    assert issubclass(Refused, ct.CotempoError)
