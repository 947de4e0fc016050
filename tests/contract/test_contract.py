"""Every registered method passes every check of the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

import cotempo  # noqa: F401 - registers the methods
from cotempo.federation.registry import methods
from cotempo.testing import CHECKS, example


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", methods())
def test_contract(name: str, check: str, tmp_path: Path) -> None:
    method, clients, public = example(methods()[name])
    CHECKS[check](method, clients, public, tmp_path)
