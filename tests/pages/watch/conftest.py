"""Helpers of these tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

pytest.importorskip("starlette", reason="needs cotempo[watch]")
collect_ignore = ["pacing.py"]
