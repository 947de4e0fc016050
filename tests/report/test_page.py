"""The report: nothing in it can run, nothing is loaded, and the same result gives the same bytes."""

from __future__ import annotations

import base64
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.federation import Outcome
from cotempo.report.page import number

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
EVIL = (SCRIPT, IMAGE, "'; alert(1) //", "{{ 7 * 7 }}", "</style><b>", "javascript:alert(1)", "&lt;already&gt;")


class Reader(HTMLParser):
    """Collects tags, attributes and text as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


@pytest.fixture(scope="module")
def evil() -> Any:
    """A result whose clients, features, phases, metrics and failures all have evil names."""
    stream = np.random.default_rng(0)
    clients = {name: Series.from_arrays(stream.normal(size=(30, 2)), features=(SCRIPT, IMAGE)) for name in EVIL}
    return ct.FDBNL(rounds=2).fit(clients)


@pytest.fixture(scope="module")
def page(evil: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = [dict(record) for record in evil.history]
    for record in history:
        record["phase"] = SCRIPT
        record["metrics"] = {IMAGE: 1.0, SCRIPT: 2.0}
        record["failures"] = [{"client": SCRIPT, "step": 1, "phase": IMAGE, "kind": SCRIPT, "detail": IMAGE}]
    outcome = Outcome(evil.method, evil.state, evil.outcome.schemas, evil.outcome.memories, tuple(history))
    path: Path = evil.method.result(outcome).report(tmp_path_factory.mktemp("report") / "new" / "page.html")
    return path


def test_evil_names_are_only_text(page: Path) -> None:
    reader = read(page)
    for name in EVIL:
        assert name in reader.text
    assert "script" not in reader.tags
    assert {tag for tag in reader.tags if tag in ("iframe", "object", "embed", "link", "form", "base", "a")} == set()
    assert "7 * 7" in reader.text
    raw = page.read_text()
    assert SCRIPT not in raw
    assert IMAGE not in raw
    assert html.escape(SCRIPT) in raw


def test_no_attribute_can_run(page: Path) -> None:
    for tag, name, value in read(page).attributes:
        assert not name.startswith("on"), (tag, name)
        assert not (value or "").lower().lstrip().startswith("javascript:"), (tag, name)


def test_nothing_is_loaded_from_anywhere(page: Path) -> None:
    reader = read(page)
    for tag, name, value in reader.attributes:
        if name in ("src", "href", "srcset", "action", "data", "poster"):
            assert tag == "img"
            assert value is not None
            assert value.startswith("data:image/svg+xml;base64,")
    style = re.search(r"<style>(.*?)</style>", page.read_text(), re.S)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_pictures_neither_run_nor_load(page: Path) -> None:
    images = [value for tag, name, value in read(page).attributes if (tag, name) == ("img", "src")]
    assert images
    for image in images:
        drawing = ElementTree.fromstring(base64.b64decode((image or "").split(",", 1)[1]))
        for element in drawing.iter():
            assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "a")
            for name, value in element.attrib.items():
                assert not name.startswith("on")
                assert not name.endswith("href") or value.startswith(("#", "data:image/png;"))


def test_the_policy_forbids_everything_but_own_styles_and_pictures(page: Path) -> None:
    policies = [value for tag, name, value in read(page).attributes if tag == "meta" and name == "content"]
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in policies
    raw = page.read_text()
    assert raw.index("Content-Security-Policy") < raw.index("<style>")


def test_the_same_result_gives_the_same_bytes(evil: Any, tmp_path: Path) -> None:
    evil.save(tmp_path / "saved")
    first = evil.report(tmp_path / "first.html").read_bytes()
    assert evil.report(tmp_path / "second.html").read_bytes() == first
    assert ct.load(tmp_path / "saved").report(tmp_path / "third.html").read_bytes() == first


def test_notebooks_show_every_result_with_its_benefit(evil: Any) -> None:
    reader = Reader()
    reader.feed(evil._repr_html_())
    assert set(reader.tags) <= {"div", "b", "table", "tr", "th", "td", "p"}
    assert not reader.attributes
    assert evil.headline() in reader.text
    rows = {name: Series.from_arrays(np.arange(4.0)[:, None]) for name in EVIL}
    fitted = ct.FedMean().fit(rows)
    reader.feed(fitted._repr_html_())
    assert set(reader.tags) <= {"div", "b", "table", "tr", "th", "td", "p"}
    for words in (*EVIL, "FedMean: 7 clients, 1 round,", "alone", "together", "lower is better"):
        assert words in reader.text


def test_it_says_what_was_found(tmp_path: Path) -> None:
    rows = {"north": [[1.0], [3.0]], "south": [[5.0], [9.0]]}
    fitted = ct.FedMean().fit({name: Series.from_arrays(values) for name, values in rows.items()})
    text = " ".join(read(fitted.report(tmp_path / "page.html")).text.split())
    helped = sum(benefit.helped for benefit in fitted.benefit.values())
    for words in ("FedMean", "2 clients", f"{helped} of 2 clients helped by joining", "north", "south", fitted.digest):
        assert words in text
    up = sum(sum(record["received"].values()) for record in fitted.history if record["phase"] == "mean")
    assert f"mean 1 {number(fitted.history[0]['seconds'])} {up}" in text


def test_verdicts_advice_and_tables_are_in_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    far, near = (Series.from_arrays(rng.normal(centre, 1, size=(60, 2))) for centre in (100, 0))
    text = " ".join(read(ct.FedMean().fit({"far": far, "near": near}).report(tmp_path / "a.html")).text.split())
    assert "its standard error" in text
    assert "far 1." in text
    assert "harmed" in text
    assert "learn from its table alone" in text
    clients, _ = ct.make_networks(variables=3, clients=2, samples=120, seed=0)
    text = " ".join(read(ct.OneRound().fit(clients).report(tmp_path / "b.html")).text.split())
    assert "Network source target lag weight probability directed" in text
    posts, _ = ct.make_posts(clients=2, posts=60, events=6, seed=0)
    fitted = ct.EventDetector(dimension=8, buckets=64).fit(posts)
    text = " ".join(read(fitted.report(tmp_path / "c.html")).text.split())
    assert str(fitted["client-0"].events()["keywords"][0]) in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (1234567, "1,234,567"), (0.123456, "0.1235"), (-0.0, "0"), (True, "True"), ("x", "x"), (None, "None")],
)
def test_numbers_for_people(value: Any, text: str) -> None:
    assert number(value) == text
