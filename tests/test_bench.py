"""`cotempo bench`: pages agree with result files, and a number that does not is found."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from book import check, files, papers, registry, ties

from cotempo.cli import main

ROOT = Path(__file__).parent.parent
# What was typed by hand or measured with uncommitted changes when this was written: it may only become less.
TYPED, DIRTY = 0, 64


@pytest.fixture(scope="module")
def findings() -> check.Findings:
    return check.check()


def test_no_page_differs_from_its_files(findings: check.Findings) -> None:
    assert not findings.wrong
    assert findings.tied > 2400


def test_nothing_more_is_typed_by_hand_or_measured_with_uncommitted_changes(findings: check.Findings) -> None:
    assert sum(findings.by_hand.values()) <= TYPED
    assert len(findings.dirty) <= DIRTY


def test_the_page_of_the_papers_is_that_of_the_files() -> None:
    assert papers.PAGE.read_text() == papers.render()


def test_every_benchmark_of_the_papers_is_in_the_book() -> None:
    named = {item["bench"] for paper in registry.read_papers() for item in paper["item"] if "bench" in item}
    assert named <= set(registry.read_book())


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two methods on two sets with two seeds, in a folder of their own."""
    text = (
        "data,method,seed,error\nfirst,ours,0,0.10\nfirst,ours,1,0.20\nfirst,theirs,0,0.5123\nfirst,theirs,1,0.6123\n"
    )
    (tmp_path / "trial.csv").write_text(text + text.split("\n", 1)[1].replace("first", "second").replace("0.", "7."))
    (tmp_path / "trial.json").write_text(json.dumps({"seed": [0, 1], "commit": "abc+", "note": ""}))
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(ties, "FOLDER", tmp_path)
    files.result_file.cache_clear()
    yield tmp_path
    files.result_file.cache_clear()


TABLE = "<!-- results: trial | rival = theirs -->\n| set | ours | rival |\n|---|---|---|\n| first | {} | {} ± {} |\n"


def untied(folder: Path, text: str) -> list[str]:
    (folder / "page.md").write_text(text)
    (block,) = [block for block in ties.blocks(folder / "page.md") if block.marker]
    return [quote.text for quote in ties.untied(block)]


def test_a_mean_and_its_error_tie_to_the_rows_that_the_table_names(results: Path) -> None:
    assert untied(results, TABLE.format(".15", ".562", ".05")) == []


@pytest.mark.parametrize("wrong", [".16", ".562", "7.15", ".151"])  # a digit, another column, another row, too exact
def test_a_number_of_another_row_column_or_rounding_does_not_tie(results: Path, wrong: str) -> None:
    assert untied(results, TABLE.format(wrong, ".562", ".05")) == [wrong]


def test_numbers_of_a_paragraph_tie_and_settings_are_named(results: Path) -> None:
    assert (
        untied(results, "<!-- results: trial | settings: 95 -->\nErrors of .10 at 95 %, and 15 % in the mean.\n") == []
    )
    assert untied(results, "<!-- results: trial -->\nErrors of .11 at `x=3`.\n") == [".11"]


def test_units_are_those_that_follow_a_number(results: Path) -> None:
    page = "<!-- results: trial -->\n| set | seed | ours |\n|---|---|---|\n| first | 0 | {} |\n"
    assert untied(results, page.format("100 ms, .10 s")) == []
    assert untied(results, page.format("100 MB")) == ["100"]
    assert untied(results, page.format("101 ms")) == ["101"]


def test_a_file_measured_with_uncommitted_changes_is_dirty_unless_its_parts_were_clean(results: Path) -> None:
    assert files.result_file("trial").state == "dirty"
    (results / "trial.json").write_text(
        json.dumps({"seed": 0, "commit": "abc+", "note": "measured with commit 12ab on x"})
    )
    files.result_file.cache_clear()
    assert files.result_file("trial").state == "dirty table"


def test_a_table_shows_means_and_errors_over_seeds(results: Path) -> None:
    rows = registry.over_seeds(files.result_file("trial"))
    assert [row["error"] for row in rows][:2] == ["0.15 ± 0.05", "0.5623 ± 0.05"]
    assert {row["seeds"] for row in rows} == {"2"}


def test_the_table_for_machines_has_every_row_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "table", "events-table1", "--json"])
    found = json.loads(capsys.readouterr().out)["results"]
    for name, record in found.items():
        with open(ROOT / "benchmarks" / "results" / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["method"] for row in record["rows"]] == [row["method"] for row in rows]
        assert record["rows"][0]["gain"] == float(rows[0]["gain"])


def test_altered_digits_are_noticed() -> None:
    """Of numbers on the evidence pages with another last digit, at least three in four no longer tie."""
    noticed = total = 0
    for page in ("events", "networks", "series", "social"):
        blocks = [block for block in ties.blocks(ROOT / "docs" / "evidence" / f"{page}.md") if block.marker]
        for block in blocks:
            for quote in block.quotes[::7]:
                if quote.text in (*block.settings, *block.by_hand):
                    continue
                last = re.search(r"\d(?=\D*$)", quote.text.split("e")[0])
                assert last
                other = f"{quote.text[: last.start()]}{(int(last[0]) + 3) % 10}{quote.text[last.end() :]}"
                known = [
                    value for name in block.files for value in ties.candidates(files.result_file(name), quote, block)
                ]
                noticed += not any(ties.same(quote._replace(text=other), value) for value in known)
                total += 1
    assert total > 250
    assert noticed / total > 0.75


def test_outside_a_checkout_the_command_says_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["bench", "list"])
    assert stop.value.code == 2
    assert "clone the repository" in capsys.readouterr().err


def test_the_commands_list_and_print(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT / "docs")
    measured = registry.all_names()
    monkeypatch.setattr(registry, "all_names", lambda: [name for name in measured if "table5" not in name])
    for words in (["list"], ["table", "events-table1"], ["table", "series-generation-5"], ["table", "event-table1"]):
        with pytest.raises(SystemExit) as stop:
            main(["bench", *words])
        assert stop.value.code in (0, 2)
    shown = capsys.readouterr()
    assert "events-table1: FedPP beside federated baselines" in shown.out
    assert "printed, FedPP Table 1: Taobao: FedPP 2.92" in shown.out
    assert "cotempo bench run series-generation-5" in shown.err
    assert "events-table1" in shown.err


def test_scripts_import_what_there_is() -> None:
    """Of benchmarks, docs and examples, which no other test runs as a whole."""
    missing = []
    scripts = [path for folder in ("benchmarks", "docs", "examples") for path in (ROOT / folder).rglob("*.py")]
    scripts = [path for path in scripts if "_build" not in path.parts]
    for path in scripts:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "cotempo":
                module = importlib.import_module(str(node.module))
                missing += [
                    f"{path.name}: {node.module}.{each.name}"
                    for each in node.names
                    if not hasattr(module, each.name)
                    and not (hasattr(module, "__path__") and find_spec(f"{node.module}.{each.name}"))
                ]
    assert len(scripts) > 50
    assert missing == []
