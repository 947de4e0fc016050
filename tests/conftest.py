"""A browser for the tests of pages, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
