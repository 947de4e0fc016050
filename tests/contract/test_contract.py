"""Every registered method keeps every check of the contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cotempo  # noqa: F401 - registers the methods
from cotempo.federation.registry import methods
from cotempo.testing import parametrize_with_checks


@parametrize_with_checks(list(methods().values()))
def test_contract(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)
