"""A site that asks a person: nothing is answered before, and only what was approved after."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.engines.flower.protocol import Part, Parts, Verb, failure_in
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.words import RequestWords
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Question
from cotempo.federation.wire import question_to_bytes, reply_from_bytes
from cotempo.privacy import approval
from cotempo.privacy.approval import Request, RequestInbox, StandingApproval

NAMES = ("ash", "birch", "cedar", "dogwood")
OTHER = "f" * 32


def make_site(folder: Path, *, ask: bool = True, **settings: Any) -> tuple[PaperConsortium, SiteService]:
    consortium = PaperConsortium(folder, NAMES)
    table = ct.Series.from_arrays(np.random.default_rng(0).normal(size=(80, 2)), features=("pulse", "pressure"))
    known = {"methods": ("FedMean",), "privacy": {"secure_sum": False}, "approval": {"ask": ask}, **settings}
    return consortium, consortium.service("ash", table, **known)


def invite(consortium: PaperConsortium, **changes: Any) -> Parts:
    parameters = ct.FedMean().model_dump(mode="json")
    return consortium.invite(**{"method": "FedMean", "parameters": parameters, **changes})


def join(consortium: PaperConsortium, service: SiteService, **changes: Any) -> Parts:
    parts = invite(consortium, **changes)
    answer = service.handle(Verb.JOIN, parts)
    if Part.SCHEMA in answer:
        signed = consortium.sign(parts[Part.CONTRACT])
        assert not service.handle(Verb.AGREE, {Part.CONSENTS: signed})
    return answer


def ask(service: SiteService, run: str = RUN, step: int = 1) -> Parts:
    question = Question(run, step, step, "mean", "ash", 0, 0, EMPTY, EMPTY)
    return service.handle(Verb.ASK, {Part.QUESTION: question_to_bytes(question), Part.COMMON: EMPTY.to_bytes()})


def has_answered(parts: Parts) -> bool:
    return Part.REPLY in parts and reply_from_bytes(parts[Part.REPLY]).message is not None


def test_nothing_is_answered_or_signed_without_an_approval(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path)
    parts = invite(consortium)
    signed = {Part.CONSENTS: consortium.sign(parts[Part.CONTRACT])}  # a coordinator with all signatures but this one
    for _ in range(2):
        assert service.handle(Verb.JOIN, parts) == {Part.WAITING: approval.PENDING.encode()}
        assert Part.REFUSED in service.handle(Verb.AGREE, signed)
        assert not has_answered(ask(service))
    assert not service.ledger.entries
    assert not (service.home / "runs").exists() or not any((service.home / "runs").rglob("messages.jsonl"))
    assert len(service.inbox.pending) == 1


def test_a_run_from_before_people_were_asked_waits_too(tmp_path: Path) -> None:
    consortium, before = make_site(tmp_path, ask=False)
    join(consortium, before)
    assert has_answered(ask(before))
    _, service = make_site(tmp_path)
    assert Part.WAITING in ask(service, step=2)


def test_an_approved_run_is_answered_and_the_ledger_says_by_whom(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path)
    assert Part.WAITING in join(consortium, service)
    RequestInbox(service.home).approve(service.inbox.find(RUN[:8]))
    assert Part.SCHEMA in join(consortium, service)
    assert has_answered(ask(service))
    assert [entry["approved"] for entry in service.ledger.verify() if entry["kind"] == "run"] == ["a person"]
    assert Part.WAITING in join(consortium, service, run=OTHER)  # approved once


def test_a_refusal_crosses_in_words_and_stops_a_run_that_had_begun(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path)
    join(consortium, service)
    request = service.inbox.find(RUN)
    service.inbox.approve(request)
    join(consortium, service)
    assert has_answered(ask(service))
    service.inbox.refuse(request, "not\nthis \x1b[31mquarter\u202e " + "x" * 1000)
    answer = ask(service, step=2)
    assert not has_answered(answer)
    kind, words = failure_in(answer, Part.REPLY) or ("", "")
    assert kind == "Refused"
    assert words.startswith("a person at this site refused it: not this ?[31mquarter?")
    assert words.isprintable()
    assert len(words) <= 300
    assert Part.REFUSED in service.handle(Verb.JOIN, invite(consortium))


def test_without_asking_the_policy_decides_as_before(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path, ask=False)
    assert Part.SCHEMA in join(consortium, service)
    assert has_answered(ask(service))
    assert service.inbox.requests == []
    assert service.ledger.entries[0]["approved"] == "site.toml"


def test_a_person_is_not_asked_about_what_the_policy_refuses(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path, methods=("FDBNL",))
    assert "this site approves FDBNL" in join(consortium, service)[Part.REFUSED].decode()
    assert service.inbox.requests == []


def test_a_site_imports_only_what_its_own_settings_name(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path, ask=False)
    code = (
        "import cotempo as ct\nfrom cotempo.federation import register\n@register()\nclass {0}(ct.FedMean):\n    pass\n"
    )
    (service.home.parent / "kit_mean.py").write_text(code.format("KitMean"))
    for name in ("KitMean", "kit_mean", "kit_mean:KitMean"):
        assert Part.SCHEMA not in join(consortium, service, method=name)
    assert "kit_mean" not in sys.modules
    _, unlisted = make_site(tmp_path, ask=False, imports=("kit_mean",))
    assert (
        "this site approves FedMean, not KitMean" in join(consortium, unlisted, method="KitMean")[Part.REFUSED].decode()
    )
    _, allowed = make_site(tmp_path, ask=False, imports=("kit_mean",), methods=("KitMean",))
    assert Part.SCHEMA in join(consortium, allowed, method="KitMean")


def test_a_contract_that_changes_after_the_approval_is_refused(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path)
    join(consortium, service)
    assert b"it was changed" in join(consortium, service, seed=1)[Part.REFUSED]
    service.inbox.approve(service.inbox.find(RUN))
    assert b"it was changed" in join(consortium, service, seed=1)[Part.REFUSED]


def test_a_paused_site_answers_nothing_until_it_goes_on(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path, ask=False)
    join(consortium, service)
    RequestInbox(service.home).pause(True)
    assert ask(service) == service.handle(Verb.JOIN, invite(consortium)) == {Part.WAITING: approval.PAUSED.encode()}
    assert not service.ledger.entries
    RequestInbox(service.home).pause(False)
    assert has_answered(ask(service))


def test_requests_cannot_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "MOST_PENDING", 2)
    consortium, service = make_site(tmp_path)
    answers = [join(consortium, service, run=f"{number:032x}") for number in range(3)]
    assert [Part.WAITING in answer for answer in answers] == [True, True, False]
    assert "nobody has decided on" in answers[2][Part.REFUSED].decode()


def test_runs_like_an_approved_one_are_answered_at_once(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path)
    join(consortium, service)
    service.inbox.approve(service.inbox.find(RUN), ranges={})
    assert Part.SCHEMA in join(consortium, service, run=OTHER, seed=9)
    assert has_answered(ask(service, OTHER))
    decision = service.inbox.decision(OTHER)
    assert decision is not None
    assert decision.by == f"the standing approval of run {RUN[:8]}"
    service.inbox.withdraw(RUN)
    assert has_answered(ask(service, OTHER, step=1))  # what it approved goes on
    assert Part.WAITING in join(consortium, service, run="e" * 32)


def make_request(consortium: PaperConsortium, columns: tuple[str, ...] = ("a", "b"), **changes: Any) -> Request:
    parameters = {"lags": 2, "preset": "cotempo", "personal": True, "tiers": [["a"], ["b"]]}
    contract = consortium.contract(**{"method": "OneRound", "parameters": parameters, "purpose": "heat", **changes})
    table = ct.Series.from_arrays(np.zeros((9, len(columns))), features=columns)
    return Request.of(contract, table)


SEEN = {"lags": 2, "preset": "cotempo", "personal": True, "tiers": [["a"], ["b"]]}
PRIVATE = {"secure_sum": True, "epsilon": 1.0, "delta": 1e-6, "unit": "row"}


@pytest.mark.parametrize(
    ("changes", "is_covered"),
    [
        ({"run": OTHER, "seed": 5}, True),
        ({"parameters": {**SEEN, "lags": 1}}, True),  # in the range
        ({"parameters": {**SEEN, "lags": 4}}, False),
        ({"parameters": {**SEEN, "lags": True}}, False),
        ({"parameters": {**SEEN, "lags": "auto"}}, False),
        ({"parameters": {**SEEN, "preset": "paper"}}, False),
        ({"parameters": {**SEEN, "personal": 1}}, False),
        ({"parameters": {**SEEN, "tiers": [["a", "b"]]}}, False),
        ({"parameters": {**SEEN, "more": 1}}, False),
        ({"parameters": {"lags": 2}}, False),
        ({"method": "FDBNL"}, False),
        ({"purpose": "insurance"}, False),
        ({"version": "0"}, False),
        ({"participants": ("ash", "birch", "cedar")}, False),
        ({"coordinator": "0" * 64}, False),
        ({"columns": ("a", "b", "c")}, False),
        ({"privacy": {**PRIVATE, "epsilon": 0.5}}, True),
        ({"privacy": {**PRIVATE, "epsilon": 2.0}}, False),
        ({"privacy": {**PRIVATE, "delta": 1e-3}}, False),
        ({"privacy": {**PRIVATE, "epsilon": None}}, False),
        ({"privacy": {**PRIVATE, "secure_sum": False}}, False),
        ({"privacy": {**PRIVATE, "unit": "client"}}, False),
    ],
)
def test_what_a_standing_approval_covers(tmp_path: Path, changes: dict[str, Any], is_covered: bool) -> None:
    consortium = PaperConsortium(tmp_path, NAMES)
    rule = StandingApproval(request=make_request(consortium, privacy=PRIVATE), ranges={"lags": (1, 3)}, time="now")
    assert rule.covers(make_request(consortium, **{"privacy": PRIVATE, **changes})) is is_covered


def test_a_request_of_another_version_waits_for_nobody(tmp_path: Path) -> None:
    inbox = RequestInbox(tmp_path)
    inbox.submit(make_request(PaperConsortium(tmp_path, NAMES), version="0"))
    assert len(inbox.requests) == 1
    assert inbox.pending == []


def test_ranges_must_be_about_numbers_that_were_asked_for(tmp_path: Path) -> None:
    consortium, inbox = PaperConsortium(tmp_path, NAMES), RequestInbox(tmp_path)
    inbox.submit(make_request(consortium))
    request = inbox.find(RUN)
    for wrong in (
        {"lags": (3.0, 5.0)},
        {"personal": (0.0, 1.0)},
        {"unknown": (0.0, 1.0)},
        {"lags": (2.0, float("nan"))},
        {"lags": (0.0, float("inf"))},
    ):
        with pytest.raises(ParameterError, match="a range must hold the number"):
            inbox.approve(request, ranges=wrong)
    assert inbox.decision(RUN) is None


@pytest.mark.parametrize("wrong", ["", "zz", "../../ledger", RUN + "0"])
def test_a_run_is_found_by_the_start_of_its_identity_and_by_nothing_else(tmp_path: Path, wrong: str) -> None:
    inbox = RequestInbox(tmp_path)
    inbox.submit(make_request(PaperConsortium(tmp_path, NAMES)))
    assert inbox.find(RUN[:4]) == inbox.requests[0]
    with pytest.raises(ParameterError, match="one this site was asked to join"):
        inbox.find(wrong)


def test_what_a_run_is_for_is_one_line_that_reads_as_it_is_written(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path)
    join(consortium, service, purpose="Wards.\n  No single row can be told.\u202egnihton\x1b[2J")
    words = RequestWords(service.inbox.requests[0], service.settings, service.ledger)
    assert words.purpose == "Wards. No single row can be told.?gnihton?[2J"


def test_a_request_in_words(tmp_path: Path) -> None:
    consortium, service = make_site(
        tmp_path, privacy={"secure_sum": False, "budget": 5.0}, methods=("OneRound", "FedMean")
    )
    for run, epsilon, names in (("1" * 32, 2.0, NAMES), ("2" * 32, 1.0, NAMES[:3])):
        privacy = {"secure_sum": False, "epsilon": epsilon, "ranges": [-5.0, 5.0], "delta": 1e-6, "unit": "row"}
        changes = {"method": "OneRound", "parameters": {"lags": 2}, "participants": names, "privacy": privacy}
        contract = consortium.contract(run=run, **changes)
        service.home.mkdir(exist_ok=True)
        if run == "1" * 32:
            service.ledger.begin(contract, "series", "table")
        else:
            join(consortium, service, run=run, **changes)
    words = RequestWords(service.inbox.find("2"), service.settings, service.ledger)
    assert words.title == "OneRound on your series"
    assert words.rows == "80 rows"
    assert [(one.name, one.asked, one.usual) for one in words.unusual] == [("lags", "2", "1")]
    assert "epsilon 1, delta 1e-06" in words.noise
    assert "at most 74 % sure" in words.noise  # 1 / (1 + exp(-1)) is .731, rounded up: it is a bound
    assert "1 in 1,000,000" in words.noise
    assert words.noise.endswith("Of your budget of 5, 2 is spent; after this run 2 is left.")
    assert "missing: dogwood. Two sums that differ by few sites tell about these." in words.compared
    assert [(one.name, one.met) for one in words.companions] == [("birch", 1), ("cedar", 1)]
    said = [description for part in words.leaving or [] for _, description in part.fields]
    assert any("how many of your values lie in each of 64 intervals" in one for one in said)
    assert "Sums are not masked: the coordinator can read what you send." in words.attention
    assert "The coordinator says nothing about what it is for. Ask." in words.attention
    assert not any("No noise" in one for one in words.attention)


def test_the_fewest_rows_are_shown_as_the_site_will_use_them(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path, privacy={"secure_sum": False, "minimum_rows": 50}, methods=("OneRound",))
    contract = consortium.contract(method="OneRound", parameters={"lags": 1})
    request = Request.of(contract, ct.Series.from_arrays(np.zeros((70, 2))))
    words = RequestWords(request, service.settings, service.ledger)
    assert next(one.asked for one in words.parameters if one.name == "minimum_rows") == "50 (your site's own rule)"
    assert words.unusual == []
    assert not {"borrow", "personal"} & {part.phase for part in words.leaving or []}


def test_few_rows_are_never_shown_as_a_number(tmp_path: Path) -> None:
    consortium, service = make_site(tmp_path, privacy={"secure_sum": False, "minimum_rows": 50})
    contract = consortium.contract(method="FedMean", parameters={})
    request = Request.of(contract, ct.Series.from_arrays(np.zeros((7, 2))))
    assert RequestWords(request, service.settings, service.ledger).rows == "not shown: fewer than 50 rows"


def words_of(tmp_path: Path, kind: str = "events", **changes: Any) -> RequestWords:
    """Return a request's words at a site that allows what is asked."""
    methods = ("OneRound", "FedPP", "FedMoments")
    consortium, service = make_site(tmp_path, privacy={"secure_sum": False}, methods=methods)
    table = next(iter(ct.make_events(clients=1, seed=0)[0].values())) if kind == "events" else None
    contract = consortium.contract(**changes)
    request = Request.of(contract, table or ct.Series.from_arrays(np.zeros((70, 2))))
    return RequestWords(request, service.settings, service.ledger)


def test_a_step_in_which_nothing_leaves_says_so(tmp_path: Path) -> None:
    privacy = {"secure_sum": False, "epsilon": 1.0, "ranges": [-5.0, 5.0], "delta": 1e-6, "unit": "row"}
    words = words_of(tmp_path, "series", method="FedMoments", parameters={}, privacy=privacy)
    fields = {part.phase: part.fields for part in words.leaving or []}
    assert fields["keep"] == [("no numbers", "nothing leaves: you are told what was learned")]
    assert all(size.endswith("numbers") for size, _ in fields["moments"])


def test_oneround_says_how_many_numbers_may_leave_if_a_site_lacks_cells(tmp_path: Path) -> None:
    words = words_of(tmp_path, "series", method="OneRound", parameters={"compare": False})
    sizes = {description: size for part in words.leaving or [] for size, description in part.fields}
    (said,) = [size for description, size in sizes.items() if "where any site lacks cells" in description]
    values = np.random.default_rng(0).normal(size=(2, 300, 2))
    values[1, ::9, 0] = np.nan
    clients = {f"site-{number}": ct.Series.from_arrays(each) for number, each in enumerate(values)}
    sent = ct.dry_run(ct.OneRound(compare=False), clients, progress=False).to_frame()
    most = sent[(sent.phase == "products") & (sent.field == "counts")].numbers.max()
    assert said == f"one number, at most {most}"


def test_fedpp_says_how_finely_times_become_known_and_lists_no_step_that_is_not_asked(tmp_path: Path) -> None:
    parameters = {"kernel": "time", "window": [0.0, 10.0], "cells": 400}
    words = words_of(tmp_path, method="FedPP", parameters=parameters)
    (said,) = [sentence for sentence in words.attention if "times of single events" in sentence]
    assert "each of 400 cells of the whole time" in said
    phases = [part.phase for part in words.leaving or []]
    assert "span" not in phases
    assert not {"base", "learn", "curvature"} & {*phases}
    assert not any("reads your answer by itself" in sentence for sentence in words.attention)
    assert all(part.fields for part in words.leaving or [])


@pytest.mark.parametrize(("epsilon", "said"), [(1.0, "Strong"), (3.0, "Usual"), (8.0, "Weak")])
def test_weak_noise_is_said_to_be_weak_and_runs_add_up(tmp_path: Path, epsilon: float, said: str) -> None:
    privacy = {"secure_sum": False, "epsilon": epsilon, "ranges": [-5.0, 5.0], "delta": 1e-6, "unit": "row"}
    words = words_of(tmp_path, "series", method="OneRound", parameters={}, privacy=privacy)
    assert words.noise.startswith(f"{said} noise (epsilon {epsilon:g}, delta 1e-06) hides single rows.")
    assert "A person in several rows is hidden less." in words.noise
    assert any("weak" in sentence for sentence in words.attention) == (epsilon > 3)
    assert "no noise" not in words.noise
    words.ledger.path.parent.mkdir(exist_ok=True)
    words.ledger.begin(words.request.agreed.model_copy(update={"run": "f" * 32}), "series", "table")
    words = replaced(words)
    assert f"Together with earlier runs, epsilon {2 * epsilon:g} is revealed" in words.noise
    assert any("weak" in sentence for sentence in words.attention) == (2 * epsilon > 3)
    words.ledger.begin(words.request.agreed.model_copy(update={"run": "e" * 32, "privacy": {}}), "series", "table")
    assert "An earlier run had no noise" in replaced(words).noise


def replaced(words: RequestWords) -> RequestWords:
    """Return the words of the same request, read anew."""
    return RequestWords(words.request, words.settings, words.ledger)


def test_fedpp_of_histories_alone_counts_no_cells(tmp_path: Path) -> None:
    words = words_of(tmp_path, method="FedPP", parameters={"kernel": "history", "base": "poisson", "window": [0, 10]})
    assert not any("cells" in sentence for sentence in words.attention)
    assert "count" not in [part.phase for part in words.leaving or []]
