"""The table of equations in the docs has every equation of the paper."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "events.md"


def test_the_table_has_every_equation():
    rows = re.findall(r"^\| (\(.*?): .*`events/", PAGE.read_text(), re.MULTILINE)
    assert {int(number) for row in rows for number in re.findall(r"\((\d+)\)", row)} == set(range(2, 24))
