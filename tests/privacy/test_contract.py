"""Under which contract a site answers, and which questions."""

from __future__ import annotations

import gc
import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.engines.flower.protocol import Consents, Part, Parts, Verb
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.inprocess import InProcess
from cotempo.errors import MessageError
from cotempo.federation import EMPTY, Message, Question
from cotempo.federation.mean import FedMean
from cotempo.federation.registry import methods
from cotempo.federation.rounds import LoopOptions, initial_checkpoint, rounds
from cotempo.federation.site import Site
from cotempo.federation.wire import question_to_bytes, reply_from_bytes
from cotempo.privacy.contract import Consent, Contract
from cotempo.privacy.keys import PeerBook, SiteKeys
from cotempo.privacy.policy import Refused
from cotempo.privacy.questions import QuestionLog
from cotempo.storage.store import DiskStore
from cotempo.testing import example

NAMES = ("ash", "birch", "cedar")
OPEN = {"minimum_rows": 0, "secure_sum": False}


@pytest.fixture
def consortium(tmp_path: Path) -> PaperConsortium:
    return PaperConsortium(tmp_path, NAMES)


@pytest.fixture
def service(consortium: PaperConsortium) -> SiteService:
    return make_service(consortium)


def make_service(consortium: PaperConsortium) -> SiteService:
    table = ct.Series.from_arrays(np.random.default_rng(0).normal(size=(60, 2)))
    return consortium.service("ash", table, methods=("FedMean", "OneRound"), privacy=OPEN)


def join(service: SiteService, parts: Parts) -> str:
    return service.handle(Verb.JOIN, parts).get(Part.REFUSED, b"").decode()


def agree(service: SiteService, signed: bytes) -> str:
    return service.handle(Verb.AGREE, {Part.CONSENTS: signed}).get(Part.REFUSED, b"").decode()


def begin(consortium: PaperConsortium, service: SiteService, **changes: Any) -> None:
    parts = consortium.invite(**{"method": "FedMean", "parameters": {}, **changes})
    assert join(service, parts) == ""
    assert agree(service, consortium.sign(parts[Part.CONTRACT])) == ""


def ask(service: SiteService, phase: str, step: int, common: Message = EMPTY) -> str:
    """Return why a question was not answered, nothing if it was."""
    question = Question(RUN, step, 1, phase, "ash", 0, 0, EMPTY, EMPTY)
    parts = service.handle(Verb.ASK, {Part.QUESTION: question_to_bytes(question), Part.COMMON: common.to_bytes()})
    if Part.REPLY not in parts:
        return next(iter(parts.values())).decode()
    failure = reply_from_bytes(parts[Part.REPLY]).failure
    return f"{failure.kind}: {failure.detail}" if failure else ""


def test_the_text_of_a_contract_is_one_and_only(consortium: PaperConsortium) -> None:
    contract = consortium.contract(method="FedMean", parameters={"b": 1, "a": [1.5, None]})
    data = contract.to_bytes()
    assert Contract.from_bytes(data) == contract
    assert list(json.loads(data)) == sorted(json.loads(data))
    for other in (data + b" ", data.replace(b'"a"', b' "a"'), b"{}", b"[" * 10_000, data.replace(b"1.5", b"NaN")):
        with pytest.raises(MessageError, match="canonical JSON"):
            Contract.from_bytes(other)


@pytest.mark.parametrize("field", ["method", "parameters", "participants", "privacy", "seed", "version", "run"])
def test_a_contract_changed_on_its_way_is_refused(
    consortium: PaperConsortium, service: SiteService, field: str
) -> None:
    honest = consortium.contract(method="FedMean", parameters={})
    changes: dict[str, Any] = {
        "method": "OneRound", "parameters": {"preset": "paper"}, "participants": dict(honest.participants),
        "privacy": {}, "seed": 9, "version": "0", "run": "1" * 32,
    }  # fmt: skip
    changes["participants"].pop("cedar")
    forged = honest.model_copy(update={field: changes[field]})
    signature = honest.sign(consortium.coordinator, "coordinator").encode()
    parts = {Part.CONTRACT: forged.to_bytes(), Part.SIGNATURE: signature}
    assert "signed with the coordinator's key" in join(service, parts)


def test_keys_that_are_not_pinned_are_refused(
    consortium: PaperConsortium, service: SiteService, tmp_path: Path
) -> None:
    honest = consortium.contract(method="FedMean", parameters={}).participants
    false = SiteKeys.create("birch", tmp_path / "false").identity.public.hex()
    for changed in ({**honest, "birch": false}, {**honest, "stranger": false}):
        assert "has another; compare fingerprints" in join(
            service, consortium.invite(method="FedMean", parameters={}, participants=changed)
        )
    without = {name: key for name, key in honest.items() if name != "ash"}
    mine = {**honest, "ash": false}
    for changed in (without, mine):
        parts = consortium.invite(method="FedMean", parameters={}, participants=changed)
        assert "must name ash with its own key" in join(service, parts)
    parts = consortium.invite(method="FedMean", parameters={}, version="7.0.1")
    assert "upgrade release by release" in join(service, parts)
    PeerBook(coordinator="ab" * 32, sites=consortium.book.sites).save(service.home.parent / "peers.toml")
    assert "coordinator's key" in join(service, consortium.invite(method="FedMean", parameters={}))
    (service.home.parent / "peers.toml").unlink()
    assert "pinned no keys" in join(service, consortium.invite(method="FedMean", parameters={}))


def test_nothing_is_answered_before_all_have_signed_the_same(consortium: PaperConsortium, service: SiteService) -> None:
    parts = consortium.invite(method="FedMean", parameters={})
    assert join(service, parts) == ""
    assert "before anything is asked" in ask(service, "mean", 1)
    signed = Consents.from_bytes(consortium.sign(parts[Part.CONTRACT]))
    other = Consents.from_bytes(
        consortium.sign(consortium.contract(method="FedMean", parameters={}, seed=1).to_bytes())
    )
    for sites, missing in (
        ({**signed.sites, "birch": other.sites["birch"]}, "birch"),
        ({**signed.sites, "cedar": Consent(signature="junk")}, "cedar"),
        ({name: signed.sites[name] for name in ("ash", "birch")}, "cedar"),
        ({**signed.sites, "birch": signed.sites["cedar"]}, "birch"),
        ({**signed.sites, "birch": Consent(signature=signed.sites["birch"].signature, history=[["x"]])}, "birch"),
    ):
        assert f"{missing} did not" in agree(service, Consents(run=RUN, sites=sites).to_bytes())
        assert "before anything is asked" in ask(service, "mean", 1)
    assert agree(service, signed.to_bytes()) == ""
    assert ask(service, "mean", 1) == ""
    assert ask(make_service(consortium), "mean", 1) == ""  # also after a restart


def test_questions_outside_of_the_contract_are_refused_in_words(
    consortium: PaperConsortium, service: SiteService
) -> None:
    begin(consortium, service)
    common = Message({"mean": np.zeros(2), "rows": 60.0})
    assert "asks in the phases mean, compare" in ask(service, "steal", 1)
    assert ask(service, "mean", 1) == ""
    assert "asked before, in another phase" in ask(service, "compare", 1, common)
    assert "another content" in ask(service, "mean", 1, Message({"more": 1}))
    assert "at most 1 times in a run" in ask(service, "mean", 2)
    assert ask(service, "compare", 3, common) == ""
    again = make_service(consortium)  # it does not forget
    assert "at most 1 times in a run" in ask(again, "mean", 4)
    log = (service.home / "runs" / RUN / "questions.jsonl").read_text().splitlines()
    refused = [json.loads(line)["refused"] for line in log]
    assert sum(reason is not None for reason in refused) == 4


def test_a_phase_does_not_come_for_the_first_time_after_one_that_follows_it(
    consortium: PaperConsortium, service: SiteService
) -> None:
    begin(consortium, service)
    ask(service, "compare", 1, Message({"mean": np.zeros(2), "rows": 60.0}))
    assert "phases come in the method's order" in ask(service, "mean", 2)


def test_a_site_that_restarts_in_the_midst_of_a_secure_sum_answers_the_step(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    keys = Question(RUN, 1, 1, "secure_sum/keys", "ash", 0, 0, EMPTY, EMPTY)
    QuestionLog(path, FedMean()).admit(keys, is_shields_own=True)
    mean = Question(RUN, 1, 1, "mean", "ash", 0, 0, EMPTY, EMPTY)
    QuestionLog(path, FedMean()).admit(mean, is_shields_own=False)


def test_in_a_private_run_a_step_does_not_come_again_with_another_content(tmp_path: Path) -> None:
    """Nor if it failed: from which contents a client fails, values could be told without noise."""
    path, form = tmp_path / "questions.jsonl", ct.OneRound().private(ct.Privacy(epsilon=1, ranges=(-1, 1)))

    def asked(high: float) -> Question:
        return Question(RUN, 1, 1, "ranges", "ash", 0, 0, Message({"high": high}), EMPTY)

    log = QuestionLog(path, form)
    log.admit(asked(1.0), is_shields_own=False)
    for known in (log, QuestionLog(path, form)):
        known.admit(asked(1.0), is_shields_own=False)
        with pytest.raises(Refused, match="step 1 was asked before with another content"):
            known.admit(asked(2.0), is_shields_own=False)


def test_of_a_question_its_step_is_held_in_memory_and_no_more(tmp_path: Path) -> None:
    few, many, step_bytes = 400, 1000, 50

    class Often(FedMean):
        most_questions: ClassVar[dict[str, int]] = {"mean": many}

    log = QuestionLog(tmp_path / "questions.jsonl", Often())
    held = {}
    tracemalloc.start()
    try:
        for step in range(1, many + 1):
            log.admit(Question(RUN, step, step, "mean", "ash", 0, 0, EMPTY, EMPTY), is_shields_own=False)
            if step in (few, many):
                gc.collect()
                held[step], _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held[many] - held[few] < step_bytes * (many - few)


def test_a_run_whose_record_is_lost_does_not_go_on(consortium: PaperConsortium, service: SiteService) -> None:
    """It could be answered again with fresh noise, or go on under another epsilon without paying for it."""
    begin(consortium, service)
    assert ask(service, "mean", 1) == ""
    shutil.rmtree(service.home / "runs")
    again = SiteService(service.settings, service.home)
    known = {"method": "FedMean", "parameters": {"compare": True}, "seed": 1}
    assert "no record of its answers" in again.handle(Verb.JOIN, consortium.invite(**known))[Part.REFUSED].decode()


def test_a_question_of_which_the_log_was_cut_short_was_not_asked(tmp_path: Path) -> None:
    path, method = tmp_path / "questions.jsonl", FedMean()
    questions = [Question(RUN, step, 1, "mean", "ash", 0, 0, EMPTY, EMPTY) for step in (1, 2)]
    QuestionLog(path, method).admit(questions[0], is_shields_own=False)
    with path.open("ab") as file:
        file.write(b'{"time": "2026')  # the disk was full, or the site was killed
    log = QuestionLog(path, method)
    assert log.has_step(1)
    assert not log.has_step(2)
    log.admit(questions[0], is_shields_own=False)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2


def test_old_steps_are_not_answered_again(tmp_path: Path) -> None:
    table = ct.Series.from_arrays(np.random.default_rng(0).normal(size=(60, 2)))
    site = Site(FedMean(), "ash", table, 0, DiskStore(tmp_path, ()))
    data = {step: question_to_bytes(Question(RUN, step, 1, "mean", "ash", 0, 0, EMPTY, EMPTY)) for step in range(1, 8)}
    first = {step: site.answer_bytes(data[step]) for step in range(1, 7)}
    assert site.answer_bytes(data[6]) == first[6]
    assert site.answer_bytes(data[4]) == first[4]
    for store in (site.store, DiskStore(tmp_path, ())):
        late = Site(FedMean(), "ash", table, 0, store)
        failure = reply_from_bytes(late.answer_bytes(data[2])).failure
        assert failure is not None
        assert "not answered again" in failure.detail


@pytest.mark.parametrize("name", methods())
def test_every_method_keeps_the_rules_for_questions(name: str, tmp_path: Path) -> None:
    """What a method asks of one client must pass the log of a site; and it never needs more than it declares."""
    method, clients, public = example(methods()[name])
    engine, options = InProcess(method, clients, seed=0), LoopOptions(public=public)
    log = QuestionLog(tmp_path / "questions.jsonl", method)
    try:
        for step in rounds(method, engine, options, start=initial_checkpoint(method, engine, options)):
            if step.answers.names:
                log.admit(
                    Question(RUN, step.step, step.round, step.phase, "ash", 0, 0, EMPTY, EMPTY), is_shields_own=False
                )
    except Refused as error:
        pytest.fail(str(error))


def test_fedpp_cannot_be_bisected(tmp_path: Path) -> None:
    """The attack on event times took 61 questions with windows of the server's choice."""
    method = ct.FedPP()
    log = QuestionLog(tmp_path / "questions.jsonl", method)
    answered = 0
    for step in range(1, 62):
        try:
            log.admit(Question(RUN, step, 1, "count", "ash", 0, 0, EMPTY, EMPTY), is_shields_own=False)
            answered += 1
        except Refused:
            pass
    assert answered == 3
