"""The officer's page says of every phase that crosses whether the server reads single messages or a sum."""

import re
from pathlib import Path

import pytest

from cotempo.engines.inprocess import InProcess
from cotempo.federation.registry import find_method
from cotempo.federation.rounds import LoopOptions, initial_checkpoint, rounds
from cotempo.testing import example

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
QUICK = ["OneRound", "FDBNL", "PFDBNL", "EdgeRanking", "FedPP", "FedPointProcess", "FedMoments", "EventDetector"]
QUICK += ["SeriesSurvey", "EventsSurvey", "PostsSurvey"]
LONG = ["FedTDD", "DAMe", "FedAvg", "Ditto", "FedNeural", "APPLE", "SFL"]


def table() -> dict[tuple[str, str], str]:
    """Return single or sum, by method and phase, as the page has it."""
    found, methods = {}, []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[2] in ("single", "sum"):
            methods = re.findall(r"`(\w+)`", cells[0]) or methods
            for method in methods:
                for phase in re.findall(r"`(\w+)`", cells[1]):
                    found[method, phase] = cells[2]
    return found


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_the_page_names_every_phase_that_crosses(name):
    method, clients, public = example(find_method(name))
    engine, options = InProcess(method, clients, seed=0), LoopOptions(public=public)
    crossed = {
        (name, step.phase): "sum" if step.expect.sums else "single"
        for step in rounds(method, engine, options, start=initial_checkpoint(method, engine, options))
        if step.answers.names
    }
    page = table()
    assert crossed == {key: page.get(key) for key in crossed}


def test_the_ten_attacks_are_tests():
    """Every test that the page's table of attacks names exists, and each attack names one."""
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 11))
    written = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for row in rows:
        names = re.findall(r"`(test_\w+)`", row.split("|")[-2])
        assert names, row
        for name in names:
            assert f"def {name}(" in written, name
