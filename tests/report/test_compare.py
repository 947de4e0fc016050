"""Comparing runs: differences are paired by client, and equal what is computed here from the results alone."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.federation import Benefit, Fitted
from cotempo.report import write_comparison
from cotempo.report.compare import compare, paired_differences, verdict

ROWS = {name: Series.from_arrays([[1.0], [3.0]]) for name in ("north", "south", "west", "east")}


def result(together: dict[str, float], metric: str = "loss", **parameters: Any) -> Fitted:
    class Scored(Fitted):
        benefit: Any = {name: Benefit(metric, 1.0, value, False, 0.1) for name, value in together.items()}  # noqa: RUF012

    return Scored(ct.FedMean(**parameters).fit(ROWS).outcome)


def test_differences_are_paired_by_client() -> None:
    first = {"north": 1.0, "south": 2.0, "west": 3.0, "east": 10.0}
    second = {"north": 0.5, "south": 1.8, "west": 2.9, "new": 4.0}
    found = compare({"a": result(first), "b": result(second)}, {})
    gains = [first[name] - second[name] for name in ("north", "south", "west")]  # lower is better
    name, clients, mean, error, better, _ = found["differences"].rows[0]
    assert (name, clients, better) == ("b", 3, "3 of 3")
    assert mean == pytest.approx(statistics.mean(gains))
    assert error == pytest.approx(statistics.stdev(gains) / 3**0.5)
    rows = {row[0]: row[1:] for row in found["clients"].rows}
    assert {*rows} == {"north", "south", "west"}
    assert rows["north"] == (1.0, 0.5, 0.5)
    assert f"b {statistics.mean(gains):+.3g} ±" in found["answer"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 1.1, 0.9], "better"),
        ([-1.0, -1.1], "worse"),
        ([1.0, -1.0, 0.5], "no difference shown"),
        ([0.2], "better"),
    ],
)
def test_a_mean_counts_beyond_two_standard_errors(values: list[float], expected: str) -> None:
    assert verdict(values) == expected


def test_other_metrics_are_not_compared(tmp_path: Path) -> None:
    runs = {"a": result({"north": 1.0}), "b": result({"north": 2.0}, metric="accuracy")}
    found, excluded = paired_differences(runs)
    assert not found
    assert excluded == ["b and a share no client that both measured by the same metric."]
    assert "cannot" not in write_comparison(runs, tmp_path / "page.html").read_text().partition("<main>")[2][:200]


def test_settings_that_differ_are_listed_and_others_are_not() -> None:
    runs = {f"{lags} lags": ct.OneRound(lags=lags).fit(ct.make_networks(variables=2, clients=2, samples=60)[0])
            for lags in (1, 2)}  # fmt: skip
    assert [tuple(row) for row in compare(runs, {})["settings"].rows] == [("lags", "1", "2")]
    runs["other"] = ct.FedMean().fit(ROWS)
    rows = {row[0]: row[1:] for row in compare(runs, {})["settings"].rows}
    assert rows["method"] == ("OneRound", "OneRound", "FedMean")
    assert rows["lags"] == ("1", "2", "–")
    assert "evidence" not in rows  # everybody who knows it has the default


def test_one_run_is_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="at least two runs to compare, got 1"):
        write_comparison({"a": result({"north": 1.0})}, tmp_path / "page.html")


def test_runs_on_other_tables_are_not_called_better(tmp_path: Path) -> None:
    one, other = result({"north": 1.0, "south": 1.0}), result({"north": 0.5, "south": 0.4})
    moved = {**other.outcome.tables, "north": "0" * 64, "south": "1" * 64}
    other.outcome = replace(other.outcome, tables=moved)
    found = compare({"a": one, "b": other}, {})
    assert found["differences"].rows == []
    assert "different tables of north, south" in found["notes"][0]
    assert [row[0] for row in found["settings"].rows] == ["table of north, its hash", "table of south, its hash"]
    assert "better:" not in found["answer"]
    again = compare({"a": one, "b": result({"north": 0.5})}, {})
    assert again["differences"].rows[0][1] == 1
    assert again["settings"].rows == []
