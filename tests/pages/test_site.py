"""The site's page: what it shows and what its forms do; no browser is needed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest
from asked_site import AskedSite
from paper_consortium import RUN
from starlette.testclient import TestClient
from typer.testing import CliRunner

from cotempo.cli.main import app, main
from cotempo.engines.flower.protocol import Part
from cotempo.pages.site import make_site_app

HOME = "http://127.0.0.1:8000"
OTHER = "f" * 32
HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'


@pytest.fixture
def visitor(site: AskedSite) -> TestClient:
    return TestClient(make_site_app(site.kit, "secret"), f"{HOME}/secret/")


def send(visitor: TestClient, path: str, origin: str = HOME, **fields: str) -> Any:
    return visitor.post(path, data=fields, headers={"origin": origin})


def decide(visitor: TestClient, run: str = RUN, **fields: str) -> Any:
    """Fill in the form of a request as the page shows it."""
    contract = re.search(r'name="contract" value="(\w+)"', visitor.get(f"request/{run}").text)
    assert contract is not None
    return send(visitor, f"request/{run}/decide", **{"contract": contract[1], **fields})


def test_the_inbox_lists_what_waits_and_the_request_says_what_would_leave(site: AskedSite, visitor: TestClient) -> None:
    assert "Nothing waits for you" in visitor.get("").text
    assert Part.WAITING in site.join()
    inbox = visitor.get("").text
    assert "1 request waits for you" in inbox
    assert "Compare wards." in inbox
    request = visitor.get(f"request/{RUN}").text
    for words in (
        "FedMean on your series", "Compare wards.", "80 rows of your series: pulse, pressure", "birch, new to you",
        "the mean of each variable over your complete rows", "No noise is added", "Sums are not masked",
        "No run has used your series before.", "You have set no budget", "New to you: birch",
    ):  # fmt: skip
        assert words in request, words


def test_approve_once(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    assert "By a person, on" in decide(visitor, choice="once").text
    assert Part.SCHEMA in site.join()
    assert Part.REPLY in site.ask(RUN)
    assert Part.WAITING in site.join(run=OTHER)


@pytest.mark.parametrize("log", ["text", "json"])
def test_what_the_rules_refuse_is_listed_once(site: AskedSite, visitor: TestClient, log: str) -> None:
    settings = site.kit / "site.toml"
    settings.write_text(f'log = "{log}"\n{settings.read_text()}')
    assert "Refused by your rules" not in visitor.get("").text
    for run in (OTHER, "e" * 32):
        assert Part.REFUSED in site.join(run=run, method="FedTDD", parameters={})
    site.join()
    decide(visitor, choice="refuse", reason="Not this one.")
    assert Part.REFUSED in site.join()  # what a person refused stands among what was decided
    shown = visitor.get("").text.partition("Refused by your rules")[2].partition("Decided")[0]
    assert shown.count("FedTDD") == 1
    assert "Not this one." not in shown


def test_approve_like_this_and_withdraw(site: AskedSite, visitor: TestClient) -> None:
    lags = {"method": "OneRound", "parameters": {"lags": 2}}
    site.join(**lags)
    request = visitor.get(f"request/{RUN}").text
    assert "auto takes the Bayesian evidence" in request  # its meaning, without marks of code
    decide(visitor, choice="like", **{"low.lags": "1", "high.lags": "3"})
    assert "lags from 1 to 3" in visitor.get("").text
    assert Part.SCHEMA in site.join(run=OTHER, method="OneRound", parameters={"lags": 3})
    assert "the standing approval of run 01234567" in visitor.get(f"request/{OTHER}").text
    assert Part.WAITING in site.join(run="e" * 32, method="OneRound", parameters={"lags": 4})
    assert "lags from 1 to 3" not in send(visitor, f"approval/{RUN}/withdraw").text
    assert Part.WAITING in site.join(run="d" * 32, **lags)


def test_refuse_with_a_reason(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    page = decide(visitor, choice="refuse", reason=f"Not before\r\nthe board meets. {HOSTILE}").text
    assert "The coordinator was told: “Not before the board meets. &lt;script&gt;" in page
    assert b"refused it: Not before the board meets." in site.join()[Part.REFUSED]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"choice": "once", "contract": "0" * 64}, "the form must be of this request"),
        ({"choice": "always"}, "a choice must be once, like or refuse"),
        ({}, "a choice must be once, like or refuse"),
        ({"choice": "like", "low.lags": "x", "high.lags": "3"}, "a range must be two numbers"),
        ({"choice": "like", "low.lags": "3", "high.lags": "5"}, "a range must hold the number that was asked for"),
        ({"choice": "like", "low.lags": "0", "high.lags": "inf"}, "a range must hold the number that was asked for"),
        ({"choice": "like", "low.<s>": "0", "high.<s>": "1"}, "a range must hold the number that was asked for"),
    ],
)
def test_a_form_that_is_wrong_decides_nothing(
    site: AskedSite, visitor: TestClient, fields: dict[str, str], problem: str
) -> None:
    site.join(method="OneRound", parameters={"lags": 2})
    answer = decide(visitor, **fields)
    assert answer.status_code == 400
    assert problem in answer.text
    assert "<s>" not in answer.text
    assert site.service.inbox.decision(RUN) is None
    assert site.service.inbox.rules == {}


def test_a_run_that_ended_can_no_longer_be_decided_on(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    decide(visitor, choice="once")
    site.join()
    site.ask(RUN)
    page = visitor.get(f"request/{RUN}").text
    assert "Stop taking part" in page
    contract = site.service.inbox.find(RUN).agreed.digest
    assert site.end(RUN) == {}
    assert site.end(RUN) == {}  # told twice, noted once
    assert [entry["kind"] for entry in site.service.ledger.verify()] == ["run", "message", "end"]
    page = visitor.get(f"request/{RUN}").text
    assert "This run has ended" in page
    assert "Stop taking part" not in page
    assert 'name="choice"' not in page
    for choice in ("refuse", "once", "like"):
        answer = send(visitor, f"request/{RUN}/decide", contract=contract, choice=choice)
        assert answer.status_code == 400
        assert "the run has ended" in answer.text
    with pytest.raises(SystemExit) as ended:
        main(["client", "refuse", str(site.kit), RUN])
    assert ended.value.code == 2
    assert [one.answer for one in site.service.inbox.decisions(RUN)] == ["approved"]
    assert site.service.inbox.rules == {}


def test_what_is_approved_can_only_be_stopped_and_it_is_said_whether_it_has_begun(
    site: AskedSite, visitor: TestClient
) -> None:
    site.join()
    page = visitor.get(f"request/{RUN}").text
    assert re.findall(r'name="choice" value="(\w+)"', page) == ["once", "like", "refuse"]
    assert "Nothing has left" not in page
    page = decide(visitor, choice="once").text
    assert re.findall(r'name="choice" value="(\w+)"', page) == ["refuse"]
    assert "Stop taking part</button>" in page
    assert "Nothing has left for it: it has not begun." in page
    site.join()
    site.ask(RUN)
    page = visitor.get(f"request/{RUN}").text
    assert re.findall(r'name="choice" value="(\w+)"', page) == ["refuse"]
    assert "it has not begun" not in page
    assert "What has left so far" in page
    page = decide(visitor, choice="refuse").text
    assert re.findall(r'name="choice" value="(\w+)"', page) == ["once", "like", "refuse"]


def test_after_its_end_a_run_gets_no_new_answer(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    decide(visitor, choice="once")
    site.join()
    first = site.ask(RUN)
    send(visitor, "pause", paused="yes")
    site.end(RUN)  # heard also while the site is paused
    send(visitor, "pause", paused="no")
    assert site.ask(RUN) == first  # a coordinator that was killed may need it again
    assert b"the run has ended" in site.ask(RUN, step=2)[Part.REFUSED]


def test_a_decision_that_is_changed_stays_on_record(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    decide(visitor, choice="refuse", reason="not yet")
    decide(visitor, choice="once")
    decide(visitor, choice="refuse", reason="enough")
    kept = site.service.inbox.decisions(RUN)
    assert [(one.answer, one.reason) for one in kept] == [
        ("refused", "not yet"),
        ("approved", ""),
        ("refused", "enough"),
    ]
    assert site.service.inbox.decision(RUN) == kept[-1]
    for one in kept:  # with each, what the person was shown
        for words in (
            "Compare wards.",
            "80 rows of your series: pulse, pressure",
            "No noise is added",
            "birch, new to you",
        ):
            assert words in one.shown
    page = visitor.get(f"request/{RUN}").text
    assert "not yet" in page
    assert page.index("not yet") < page.index("enough")


def test_other_pages_and_other_people_decide_nothing(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    contract = site.service.inbox.find(RUN).agreed.digest
    fields = {"contract": contract, "choice": "once"}
    place = f"request/{RUN}/decide"
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9000"):
        assert send(visitor, place, origin=origin, **fields).status_code == 403
    assert visitor.post(place, data=fields).status_code == 403
    rebound = {"origin": "http://evil.example:8000", "host": "evil.example:8000"}
    assert visitor.post(place, data=fields, headers=rebound).status_code == 421
    assert visitor.get(place, params=fields).status_code == 405  # a link decides nothing
    stranger = TestClient(make_site_app(site.kit, "secret"), f"{HOME}/guess/")
    for path in ("", "history", f"request/{RUN}", "style.css"):
        assert stranger.get(path).status_code == 404
    assert send(stranger, place, **fields).status_code == 404
    assert site.service.inbox.decision(RUN) is None
    assert not site.service.inbox.is_paused


def test_what_others_wrote_is_shown_as_text(site: AskedSite, visitor: TestClient) -> None:
    asked = {"purpose": HOSTILE, "method": "OneRound", "parameters": {"lags": 1, "tiers": [[HOSTILE]]}}
    assert Part.WAITING in site.join(**asked)
    decide(visitor, choice="like", reason=HOSTILE)
    for path in ("", f"request/{RUN}", "history", f"request/{HOSTILE}", f"run/{HOSTILE}"):
        page = visitor.get(path).text
        assert "<script" not in page
        assert "<img" not in page
    assert "&lt;script&gt;" in visitor.get(f"request/{RUN}").text


@pytest.mark.parametrize("run", ["zz", "..%2f..%2fledger", "0" * 32])
def test_a_run_that_was_not_asked_for_is_not_found(site: AskedSite, visitor: TestClient, run: str) -> None:
    site.join()
    assert visitor.get(f"request/{run}").status_code == 404
    assert visitor.get(f"run/{run}").status_code == 404


def test_pause_and_go_on(site: AskedSite, visitor: TestClient) -> None:
    assert "This site is paused" in send(visitor, "pause", paused="yes").text
    assert Part.WAITING in site.join()
    assert site.service.inbox.requests == []
    assert "This site is paused" not in send(visitor, "pause", paused="no").text
    site.join()
    assert len(site.service.inbox.requests) == 1


def test_the_history_says_what_left_and_finds_a_changed_ledger(site: AskedSite, visitor: TestClient) -> None:
    assert "Nothing has left." in visitor.get("history").text
    site.join()
    decide(visitor, choice="once")
    site.join()
    site.ask(RUN)
    page = visitor.get("history").text
    assert "2 entries, each as it was written" in page
    assert "1 message: 24 bytes readable by the coordinator; no noise" in page
    assert "Not known here: the coordinator has not shared the result." in page
    assert "a person" in page
    detail = visitor.get(f"run/{RUN}").text
    assert "the mean of each variable over your complete rows" in detail
    assert "1 question came, none refused." in detail
    ledger = site.kit / "home" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"bytes":24', b'"bytes":2'))
    changed = visitor.get("history").text
    assert "The record was changed" in changed
    assert "readable by the coordinator" not in changed


@pytest.mark.parametrize("change", ["line", "head"])
def test_with_a_changed_record_a_person_can_still_read_and_pause(
    site: AskedSite, visitor: TestClient, change: str
) -> None:
    site.join()
    decide(visitor, choice="once")
    site.join()
    site.ask(RUN)
    site.join(run=OTHER, purpose="Compare years.")
    ledger = site.kit / "home" / "ledger.jsonl"
    if change == "line":
        ledger.write_bytes(ledger.read_bytes().replace(b'"bytes":24', b'"bytes":2'))
    else:
        ledger.with_suffix(".head").write_bytes(b"")
    polite = TestClient(visitor.app, visitor.base_url, raise_server_exceptions=False)
    contract = site.service.inbox.find(OTHER).agreed.digest
    for answer in (
        polite.get(""),
        polite.get("history"),
        polite.get(f"request/{OTHER}"),
        polite.get(f"run/{RUN}"),
        send(polite, f"request/{OTHER}/decide", contract=contract, choice="once"),
        send(polite, f"request/{OTHER}/dry-run"),
    ):
        assert answer.text.count("The record was changed") == 1
        assert "Pause this site</button>" in answer.text
        assert 'href="/secret/history"' in answer.text
    assert site.service.inbox.decision(OTHER) is None
    assert "Compare years." in polite.get("").text
    history = polite.get("history").text
    assert "FedMean on your series" in history
    assert "nothing that can still be read" in history
    assert "This site is paused" in send(polite, "pause", paused="yes").text


def test_each_run_is_shown_with_its_purpose_and_standing_approvals_with_what_they_cover(
    site: AskedSite, visitor: TestClient
) -> None:
    site.join()
    decide(visitor, choice="like")
    site.join()
    site.ask(RUN)
    inbox = visitor.get("").text
    rules, decided = inbox.partition("Standing approvals")[2].split("<h2>Decided</h2>")
    assert "With birch, cedar; no noise" in rules
    assert "FedMean on your series: Compare wards." in decided
    for path in ("history", f"run/{RUN}"):
        assert "Compare wards." in visitor.get(path).text
    noised = {"secure_sum": False, "epsilon": 2.0, "delta": 1e-6}
    site.join(run=OTHER, method="OneRound", parameters={"lags": 2}, privacy=noised)
    decide(visitor, OTHER, choice="like")
    assert "With birch, cedar; an epsilon of at most 2 each" in visitor.get("").text


def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    page = send(visitor, f"request/{RUN}/dry-run").text
    assert "ash would send 2 messages" in page
    assert not (site.kit / "home" / "ledger.jsonl").exists()


def test_a_small_number_of_rows_is_shown_neither_as_it_is_nor_as_0(site: AskedSite, visitor: TestClient) -> None:
    site.join()
    settings = site.kit / "site.toml"
    settings.write_text(settings.read_text().replace("[privacy]", "[privacy]\nminimum_rows = 100"))
    page = visitor.get(f"request/{RUN}").text
    assert "not shown: fewer than 100 rows of your series" in page
    assert "80 rows" not in page
    assert "0 rows" not in page.replace("100 rows", "")


def test_a_request_is_read_in_three_minutes(site: AskedSite, visitor: TestClient) -> None:
    """At 200 words a minute, everything that is shown before somebody unfolds more."""
    site.join(method="OneRound", parameters={"lags": 2})
    page = re.sub(r"<details>.*?</details>", "", visitor.get(f"request/{RUN}").text, flags=re.DOTALL)
    assert 100 < len(re.sub(r"<[^>]+>", " ", page).split()) < 600


def test_a_kit_that_cannot_be_read_is_explained(site: AskedSite) -> None:
    visitor = TestClient(make_site_app(site.kit, "secret"), f"{HOME}/secret/")
    (site.kit / "site.toml").write_text('name = "ash"\nnonsense = 1\n')
    answer = visitor.get("")
    assert answer.status_code == 500
    assert "no parameter &#39;nonsense&#39;" in answer.text


def test_the_command_shows_the_page_until_it_is_interrupted(site: AskedSite) -> None:
    code = f"from cotempo.cli import main; main(['client', 'page', {str(site.kit)!r}])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().removeprefix("Open ").strip()
    assert len(url.split("/")[3]) >= 32  # the secret
    with urllib.request.urlopen(url) as answer:
        assert "Nothing waits for you" in answer.read().decode()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url.replace(url.split("/")[3], "guess"))
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest.endswith("The page has ended.\n")


def command(*words: str) -> Any:
    ended = CliRunner().invoke(app, ["client", *words, "--json"], standalone_mode=False)
    return json.loads(ended.stdout)


def test_the_same_on_the_command_line(site: AskedSite, capsys: pytest.CaptureFixture[str]) -> None:
    kit = str(site.kit)
    site.join()
    (one,) = command("requests", kit)["requests"]
    assert one["answer"] == "waits for a person"
    with pytest.raises(SystemExit):
        main(["client", "requests", kit, RUN[:6]])
    shown = capsys.readouterr().out
    assert "Compare wards." in shown
    assert "the mean of each variable over your complete rows" in shown
    command("approve", kit, RUN[:6], "--like-this")
    assert Part.SCHEMA in site.join(run=OTHER)
    command("refuse", kit, OTHER, "--reason", "enough")
    assert b"refused it: enough" in site.join(run=OTHER)[Part.REFUSED]
    assert command("pause", kit) == {"paused": True}
    assert Part.WAITING in site.join(run="e" * 32)
    assert command("pause", kit, "--off") == {"paused": False}
    with pytest.raises(SystemExit) as ended:
        main(["client", "approve", kit, "nothing"])
    assert ended.value.code == 2
