"""The pages in a browser: nothing is asked for, nothing overflows a phone, tables sort and are copied right."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.report import write_comparison

NAMES = ("a|b", 'say "hi", you', "=1+1", "50 % & more_{x}", "<img src=x onerror=alert(1)>", "very" * 30)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    features = tuple(f"variable {place} <b>" for place in range(17))
    tables = {name: Series.from_arrays(rng.normal(size=(60, 17)), features=features) for name in NAMES}
    runs = {"one": ct.OneRound().fit(tables), "<two>": ct.FDBNL(rounds=3).fit(tables)}
    posts, _ = ct.make_posts(clients=2, posts=60, events=6, seed=0)
    found = {
        "networks": runs["one"].report(folder / "networks.html"),
        "social": ct.EventDetector(dimension=8, buckets=64).fit(posts).report(folder / "social.html"),
        "comparison": write_comparison(runs, folder / "comparison.html"),
    }
    events, _ = ct.make_events(clients=2, sequences=3, seed=0)
    method = ct.FedPP(preset="paper", rounds=3, inducing=6, cells=20, window=(0.0, 10.0))
    return {**found, "events": method.fit(events).report(folder / "events.html")}


def visit(browser: Any, page: Path, **options: Any) -> tuple[Any, list[str]]:
    """Open a page, and return it with everything it asked for and every complaint of the browser."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    tab, said = context.new_page(), []
    tab.on("request", lambda request: said.append(request.url) if request.url[:5] not in ("data:", "file:") else None)
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: (said.append("dialog"), dialog.dismiss()))
    tab.goto(page.as_uri())
    return tab, said


KINDS = ("networks", "social", "events", "comparison")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 641, 688, 910, 1200])  # 688: a page of A4
@pytest.mark.parametrize("kind", KINDS)
def test_pages_load_nothing_and_fit(browser: Any, pages: dict[str, Path], kind: str, width: int, scheme: str) -> None:
    tab, said = visit(browser, pages[kind], viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    parts = "[...document.querySelectorAll('section, table, figure, pre, p')]"
    assert tab.evaluate(f"{parts}.filter(e => e.scrollWidth > e.clientWidth + 1).length") == 0
    assert tab.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert said == []


def test_pictures_are_drawn_for_phones_and_for_dark_pages(browser: Any, pages: dict[str, Path]) -> None:
    shots = {}
    for width, scheme in ((1200, "light"), (1200, "dark"), (390, "light")):
        tab, _ = visit(browser, pages["events"], viewport={"width": width, "height": 844}, color_scheme=scheme)
        image = tab.locator("img").first
        shape = image.evaluate("image => [image.naturalWidth, image.naturalHeight]")
        pixels = tab.evaluate(
            """image => { const c = document.createElement('canvas'); c.width = 40; c.height = 40;
            const g = c.getContext('2d'); g.drawImage(image, 0, 0, 40, 40);
            const d = g.getImageData(0, 0, 40, 40).data; let sum = 0, weight = 0;
            for (let i = 0; i < d.length; i += 4) { sum += d[i + 1] * d[i + 3]; weight += d[i + 3]; }
            return sum / weight; }""",
            image.element_handle(),
        )
        shots[width, scheme] = (*shape, pixels)
    assert shots[390, "light"][0] < 400 < shots[1200, "light"][0]
    assert shots[1200, "dark"][2] > shots[1200, "light"][2] + 20  # ink is light on dark pages


def test_a_table_is_sorted_by_its_columns(browser: Any, pages: dict[str, Path]) -> None:
    tab, _ = visit(browser, pages["networks"])
    table = tab.locator("table", has_text="Each client alone")
    place = 1 + [name.strip() for name in table.locator("th").all_inner_texts()].index("gain")
    gains = table.locator(f"tbody td:nth-child({place})")
    before = [float(cell.get_attribute("data-v")) for cell in gains.all()]
    table.get_by_role("button", name="gain").click()
    assert [float(cell.get_attribute("data-v")) for cell in gains.all()] == sorted(before)
    assert table.locator(f"th:nth-child({place})").get_attribute("aria-sort") == "ascending"
    table.get_by_role("button", name="gain").click()
    assert [float(cell.get_attribute("data-v")) for cell in gains.all()] == sorted(before, reverse=True)


def copied(tab: Any, kind: str) -> str:
    tab.locator("div", has=tab.locator("caption", has_text="Each client alone")).last.get_by_text(
        f"copy {kind}"
    ).click()
    return str(tab.evaluate("navigator.clipboard.readText()"))


def test_tables_are_copied_as_csv_markdown_and_latex(browser: Any, pages: dict[str, Path]) -> None:
    tab, said = visit(browser, pages["networks"], permissions=["clipboard-read", "clipboard-write"])
    rows = list(csv.reader(io.StringIO(copied(tab, "CSV"))))
    assert rows[0] == ["client", "alone", "together", "gain", "standard error", "verdict"]
    assert {row[0] for row in rows[1:]} == {"'=1+1" if name == "=1+1" else name for name in NAMES}
    assert all(abs(float(row[2]) - float(row[1]) - float(row[3])) < 1e-9 for row in rows[1:])  # higher is better
    lines = copied(tab, "Markdown").splitlines()
    assert lines[0] == "| client | alone | together | gain | standard error | verdict |"
    assert lines[1] == "| --- | --- | --- | --- | --- | --- |"
    assert sum(line.startswith(r"| a\|b |") for line in lines) == 1
    assert len(lines) == 2 + len(NAMES)
    latex = copied(tab, "LaTeX")
    assert latex.startswith("\\begin{tabular}{llllll}\nclient & alone &")
    assert r"50 \% \& more\_\{x\} & " in latex
    assert latex.endswith("\\\\\n\\end{tabular}")
    assert said == []


def test_without_scripts_everything_is_there(browser: Any, pages: dict[str, Path]) -> None:
    tab, _ = visit(browser, pages["networks"], java_script_enabled=False)
    assert tab.get_by_role("heading", name="Did joining help?").is_visible()
    assert tab.get_by_text("all rows (CSV)").first.is_visible()


def test_pictures_and_tables_give_their_data(browser: Any, pages: dict[str, Path]) -> None:
    tab, _ = visit(browser, pages["events"], accept_downloads=True)
    with tab.expect_download() as started:
        tab.get_by_text("data (CSV)").first.click()
    rows = list(csv.reader(io.StringIO(Path(started.value.path()).read_text())))
    assert rows[0] == ["panel", "x", "learned", "95% band, lower", "95% band, upper"]
    assert all(float(row[3]) <= float(row[2]) <= float(row[4]) for row in rows[1:])


def test_a_page_prints_on_a4(browser: Any, pages: dict[str, Path]) -> None:
    tab, _ = visit(browser, pages["networks"], viewport={"width": 688, "height": 990})
    tab.emulate_media(media="print")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 688
    assert not tab.locator("nav").is_visible()
    assert tab.locator("details table").is_visible()
    assert tab.pdf(prefer_css_page_size=True).startswith(b"%PDF")
