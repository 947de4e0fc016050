"""Helpers of these tests, and a browser where there is one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

pytest.importorskip("starlette", reason="needs cotempo[watch]")
collect_ignore = ["pacing.py"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")  # while it is open, an event loop runs in this thread
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_api.sync_playwright() as playwright:
        try:
            running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        except sync_api.Error as error:
            pytest.skip(f"no browser: {error.message.splitlines()[0]}")
        yield running
        running.close()
