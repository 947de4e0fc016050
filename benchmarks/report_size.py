"""How large reports of many clients are, and how fast a browser opens them, beside an empty page.

Run: python benchmarks/report_size.py   (needs playwright and a Chromium)
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from results import write_results

import cotempo as ct
from cotempo.federation import Fitted, Method

SEED, OPENED = 0, 7
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def long_run(method: Method, clients: int, rounds: int) -> Fitted:
    """Return a result of a few rounds with the log of many: its steps again and again."""
    tables, _ = ct.make_networks(variables=12, clients=clients, samples=40 * clients, seed=SEED)
    fitted = method.fit(tables, seed=SEED, progress=False)
    known = list(fitted.history)
    history = [{**known[step % len(known)], "step": step + 1, "round": step + 1} for step in range(rounds)]
    result: Fitted = fitted.method.result(replace(fitted.outcome, history=tuple(history)))
    return result


RUNS: dict[str, Callable[[], Fitted]] = {
    "FDBNL, 100 clients": lambda: long_run(ct.FDBNL(rounds=3), 100, 200),
    "FedMean, 1000 clients": lambda: long_run(ct.FedMean(), 1000, 200),
}


def open_times(browser: Any, page: Path) -> tuple[list[float], int]:
    """Return the seconds from asking for a page until all its pictures are there, and what else it asked for."""
    times, asked = [], 0
    for _ in range(OPENED):
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        tab, urls = context.new_page(), []
        tab.on("request", lambda request, urls=urls: urls.append(request.url))
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.evaluate("Promise.all([...document.images].map(image => image.decode()))")
        times.append(time.perf_counter() - start)
        asked += sum(not url.startswith(("data:", page.as_uri())) for url in urls)
        context.close()
    return times, asked


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        empty = Path(folder) / "empty.html"
        empty.write_text("<!doctype html><title>empty</title>")
        pages = {"an empty page": (empty, 0.0, 0)}
        for name, run in RUNS.items():
            fitted, start = run(), time.perf_counter()
            page = fitted.report(Path(folder) / f"{len(pages)}.html")
            pages[name] = (page, time.perf_counter() - start, fitted.rounds)
        for name, (page, written, rounds) in pages.items():
            times, asked = open_times(browser, page)
            row = {
                "report": name, "rounds": rounds, "bytes": page.stat().st_size, "seconds_to_write": written,
                "seconds_to_open": statistics.median(times), "slowest": max(times), "other_requests": asked,
            }  # fmt: skip
            rows.append(row)
            print(row, flush=True)
        browser.close()
    write_results("report-size", rows, seed=SEED, note=f"opened {OPENED} times in headless Chromium, median")


if __name__ == "__main__":
    main()
