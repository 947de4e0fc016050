"""The table of equations in the docs names functions that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"`(events/[\w/]+\.py):(\w+)`", (ROOT / "docs" / "events.md").read_text())))


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_named_function_exists(file, function):
    tree = ast.parse((ROOT / "src" / "cotempo" / file).read_text())
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_table_has_every_equation():
    page = (ROOT / "docs" / "events.md").read_text()
    rows = re.findall(r"^\| (\(.*?): .*`events/", page, re.MULTILINE)
    assert {int(number) for row in rows for number in re.findall(r"\((\d+)\)", row)} == set(range(2, 24))
