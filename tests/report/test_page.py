"""The report: only its own script runs, nothing is loaded, and the same result gives the same bytes."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series
from cotempo.federation import Benefit, Fitted, Joining
from cotempo.federation.registry import methods
from cotempo.report.content import failure_sentences, privacy_sentences
from cotempo.report.tables import PageTable, number
from cotempo.testing.contract import example

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
EVIL = (
    SCRIPT, IMAGE, "'; alert(1) //", "{{ 7 * 7 }}", "</style><b>", "</script><b>", "javascript:alert(1)",
    "&lt;already&gt;", "=1+1",
)  # fmt: skip


class Reader(HTMLParser):
    """Collects tags, attributes and text as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.raw = {"script": "", "style": ""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.lasttag in self.raw:
            self.raw[self.lasttag] += data
        else:
            self.text += f"{data} "

    def handle_endtag(self, tag: str) -> None:
        self.lasttag = ""


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
    asked = {SCRIPT: {"summed": True, "fields": {IMAGE: SCRIPT}}}
    outcome = replace(evil.outcome, history=tuple(history), asked=asked)
    path: Path = evil.method.result(outcome).report(tmp_path_factory.mktemp("report") / "new" / "page.html")
    return path


def test_evil_names_are_only_text(page: Path) -> None:
    reader = read(page)
    for name in EVIL:
        assert name in reader.text
    assert reader.tags.count("script") == 1
    assert not {"iframe", "object", "embed", "link", "form", "base", "svg", "input"} & {*reader.tags}
    assert "7 * 7" in reader.text
    raw = page.read_text()
    assert SCRIPT not in raw
    assert IMAGE not in raw
    assert html.escape(SCRIPT) in raw


def test_no_attribute_can_run_or_style(page: Path) -> None:
    for tag, name, value in read(page).attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style", tag
        assert not (value or "").lower().lstrip().startswith("javascript:"), (tag, name)


def test_nothing_is_loaded_from_anywhere(page: Path) -> None:
    reader = read(page)
    for tag, name, value in reader.attributes:
        if name in ("src", "href", "srcset", "action", "data", "poster", "ping"):
            assert value is not None
            start = {"img": "data:image/svg+xml,", "source": "data:image/svg+xml,"}.get(tag, ("data:text/csv;", "#"))
            assert value.startswith(start), (tag, name)
    for text in reader.raw.values():
        assert not re.search(r"url\(|@import|\beval\b|fetch\(|XMLHttpRequest|import\(|innerHTML|https?:", text)


def pictures(page: Path) -> list[str]:
    found = [
        value for tag, name, value in read(page).attributes if (tag, name) in (("img", "src"), ("source", "srcset"))
    ]
    return [unquote((value or "").split(",", 1)[1]) for value in found]


def test_pictures_neither_run_nor_load(page: Path) -> None:
    assert pictures(page)
    for picture in pictures(page):
        for element in ElementTree.fromstring(picture).iter():
            assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "a")
            for name, value in element.attrib.items():
                assert not name.startswith("on")
                assert not name.endswith("href") or value.startswith(("#", "data:image/png;"))


def test_the_policy_allows_the_page_its_own_script_and_styles_by_hash(page: Path) -> None:
    reader, policy = read(page), ""
    for tag, name, value in reader.attributes:
        if (tag, name) == ("meta", "content") and "default-src" in (value or ""):
            policy = value or ""
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(reader.raw[tag].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert len(reader.raw["script"].encode()) <= 10_000
    raw = page.read_text()
    assert raw.index("Content-Security-Policy") < raw.index("<style>") < raw.index("<script>")


def test_headings_are_in_order_and_everything_has_a_label(page: Path) -> None:
    reader = read(page)
    levels = [int(tag[1]) for tag in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert reader.tags.count("img") == sum(1 for tag, name, value in reader.attributes if name == "alt" and value)
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len({*ids})
    links = {value for _, name, value in reader.attributes if name == "href" and (value or "").startswith("#")}
    assert links <= {f"#{name}" for name in ids}


def test_spreadsheets_compute_nothing(page: Path) -> None:
    tables = [unquote(v.split(",", 1)[1]) for _, n, v in read(page).attributes if n == "href" and v and "csv" in v]
    assert len(tables) > 4
    cells = [cell for table in tables for row in csv.reader(io.StringIO(table)) for cell in row]
    assert "'=1+1" in cells
    for cell in cells:
        assert not re.match(r"[=+@\t]|-(?![\d.])", cell), cell


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
    for words in (*EVIL, "FedMean: 9 clients, 1 round,", "alone", "together", "lower is better"):
        assert words in reader.text


def test_it_says_what_was_found(tmp_path: Path) -> None:
    rows = {"north": [[1.0], [3.0]], "south": [[5.0], [9.0]]}
    fitted = ct.FedMean().fit({name: Series.from_arrays(values) for name, values in rows.items()})
    text = " ".join(read(fitted.report(tmp_path / "page.html")).text.split())
    helped = sum(benefit.helped for benefit in fitted.benefit.values())
    for words in ("FedMean", "2 clients", f"Joining helped {helped} of 2 clients", "north", "south", fitted.digest):
        assert words in text
    up = sum(sum(record["received"].values()) for record in fitted.history if record["phase"] == "mean")
    assert f"mean 1 {number(fitted.history[0]['seconds'])} {up}" in text
    asked = fitted.method.expects(fitted.state, "mean").fields["mean"].description
    assert f"mean: {asked}" in text
    total = sum(sum(record["received"].values()) for record in fitted.history)
    assert f"2 clients sent 4 messages, {total} bytes in all: {total // 2} bytes each." in text


def test_a_run_says_the_command_that_repeats_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a b.toml").write_text('name = "wards"\nmethod = "FedMean"\nseed = 7\n[data]\ngenerate = "networks"\n')
    first = ct.run("a b.toml", run=Path("runs") / "my run")
    text = read(Path("runs") / "my run" / "report.html").text
    command = "cotempo run 'runs/my run/experiment.toml' --run 'runs/my run-again'"
    assert command in text
    assert " wards " in text
    assert ct.run("runs/my run/experiment.toml").digest == first.digest
    rows = {"north": Series.from_arrays([[1.0], [3.0]])}
    ct.FedMean().fit(rows, seed=3, run="runs/two")
    assert "ct.FedMean().fit(clients, seed=3)" in read(Path("runs") / "two" / "report.html").text


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_has_a_report_plots_and_html(name: str, tmp_path: Path) -> None:
    method, clients, public = example(methods()[name])
    fitted = method.fit(clients, public=public, progress=False)
    text = read(fitted.report(tmp_path / "page.html")).text
    assert fitted.answer() in text
    assert {*fitted.outcome.asked} == {record["phase"] for record in fitted.history}
    for field in (field for phase in fitted.outcome.asked.values() for field in phase["fields"]):
        assert field in text
    fitted.save(tmp_path / "saved")
    assert ct.load(tmp_path / "saved").outcome.asked == fitted.outcome.asked
    own = fitted[fitted.names[0]]
    for thing in (fitted,) if isinstance(own, tuple) else (fitted, own):  # a survey tells a client sentences
        assert callable(thing.plot)
        assert thing._repr_html_().startswith("<div>")


def test_a_report_does_without_single_benefits(tmp_path: Path) -> None:
    class Counted(Fitted):
        benefit: Any = {}  # noqa: RUF012

        joining: Any = Joining(np.array([3.0, 2.0, 0.0, 0.6, 0.2]))

    plain = ct.FedMean().fit({"north": Series.from_arrays([[1.0], [3.0]])})
    text = read(Counted(plain.outcome).report(tmp_path / "page.html")).text
    assert "Joining helped 2 of 3 clients. Mean gain +0.2" in text
    assert "verdict" not in text


def test_failures_are_sentences() -> None:
    late = [
        {"client": "nord", "step": step, "phase": "train", "kind": "TimeoutError", "detail": ""} for step in (3, 4, 9)
    ]
    odd = [{"client": "süd", "step": 2, "phase": "mean", "kind": "MessageError", "detail": "mean must be finite"}]
    disk = [{"client": "west", "step": 2, "phase": "mean", "kind": "OSError", "detail": ""}]
    assert list(failure_sentences(odd + late + disk)) == [
        "nord was left out of 3 steps from 3 to 9 (train): timeout error.",
        "süd was left out of step 2 (mean): message error: mean must be finite.",
        "west was left out of step 2 (mean): OS error.",
    ]
    many = [{**odd[0], "client": f"c{place}"} for place in range(30)]
    assert list(failure_sentences(many))[-1] == "10 more reasons are in the log of the run."


def test_privacy_says_what_is_promised_and_what_is_not() -> None:
    promise = {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "mechanism": "noise", "protects_from": "the server"}
    told = " ".join(privacy_sentences({"secure_sum": True, **promise, "audit": "at least epsilon 0.3"}))
    for words in (
        "each single row, with epsilon 1 and delta 1e-06",
        "at most 2.72 times as likely",
        "masked",
        "at least epsilon 0.3",
    ):
        assert words in told
    assert "Void" in next(privacy_sentences({**promise, "void": True}))
    plain = " ".join(privacy_sentences({"secure_sum": False}))
    assert "no differential privacy is promised" in plain
    assert "the server saw what each client sent" in plain


def test_long_tables_show_both_ends_and_hold_all_rows() -> None:
    sheet = PageTable(("client", "gain"), [(f"c{place}", 1.0 - place) for place in range(100)], both_ends=True)
    assert [row[0] for row in sheet.shown] == [f"c{place}" for place in (*range(10), *range(90, 100))]
    assert sheet.notes == "80 rows between the first and the last are in the CSV."
    rows = list(csv.reader(io.StringIO(unquote(sheet.csv.split(",", 1)[1]))))
    assert len(rows) == 101
    assert rows[100] == ["c99", "-98"]


def test_many_clients_are_drawn_without_names(tmp_path: Path) -> None:
    from cotempo.report.figures import plot_benefit

    few, many = ({f"c{k}": Benefit("loss", 1.0, 1.0 - k / 10, False, 0.1) for k in range(n)} for n in (3, 300))
    assert [label.get_text() for label in plot_benefit(few).axes[0].get_yticklabels()] == ["c2", "c1", "c0"]
    assert plot_benefit(many).get_size_inches()[1] < 4
    assert not any("c" in label.get_text() for label in plot_benefit(many).axes[0].get_yticklabels())


def test_verdicts_advice_and_tables_are_in_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    far, near = (Series.from_arrays(rng.normal(centre, 1, size=(60, 2))) for centre in (100, 0))
    text = " ".join(read(ct.FedMean().fit({"far": far, "near": near}).report(tmp_path / "a.html")).text.split())
    assert "standard error" in text
    assert "harmed" in text
    assert "learn from its table alone" in text
    clients, _ = ct.make_networks(variables=3, clients=2, samples=120, seed=0)
    text = " ".join(read(ct.OneRound().fit(clients).report(tmp_path / "b.html")).text.split())
    assert "Network source target lag weight error probability directed" in text
    assert "with a probability of at least 90 %" in text
    posts, _ = ct.make_posts(clients=2, posts=60, events=6, seed=0)
    fitted = ct.EventDetector(dimension=8, buckets=64).fit(posts)
    text = " ".join(read(fitted.report(tmp_path / "c.html")).text.split())
    assert str(fitted["client-0"].events()["keywords"][0]) in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (1234567, "1,234,567"), (0.123456, "0.1235"), (-0.0, "0"), (True, "yes"), ("x", "x"), (None, "")],
)
def test_numbers_for_people(value: Any, text: str) -> None:
    assert number(value) == text
