"""A site's service: what it allows, what it keeps, what it says."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import walking
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.alerts import Alerts
from cotempo.data import Schema, write_clients
from cotempo.engines.flower.protocol import Part, Parts, Verb, WireSchema
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.errors import MessageError, ParameterError
from cotempo.federation import EMPTY, Message, Question
from cotempo.federation.wire import question_to_bytes, reply_from_bytes

LENIENT = {"minimum_rows": 0, "secure_sum": False}


def make_service(folder: Path, privacy: Mapping[str, Any] = LENIENT, **settings: Any) -> SiteService:
    """Return a site with a policy that allows tables of 20 rows and sums in the clear, unless told otherwise."""
    table = ct.Series.from_arrays(np.arange(40.0).reshape(20, 2))
    known = {"methods": ("Walking",), "random": {"shared": True}, "privacy": privacy, **settings}
    return consortium_of(folder).service("ash", table, **known)


def consortium_of(folder: Path) -> PaperConsortium:
    return PaperConsortium(folder, ("ash", "birch", "cedar"))


def ask(service: SiteService, step: int = 1, mean: float = 0.0, base: int = 0) -> Parts:
    question = Question(RUN, step, step, "walk", "ash", base, 0, EMPTY, EMPTY)
    common = Message({"mean": np.full(8, mean)}).to_bytes()
    return service.handle(Verb.ASK, {Part.QUESTION: question_to_bytes(question), Part.COMMON: common})


def invite(service: SiteService, **changes: Any) -> Parts:
    defaults = {"method": "Walking", "parameters": walking.Walking().model_dump(mode="json"), "seed": 3, "run": RUN}
    return consortium_of(service.home.parents[1]).invite(**{**defaults, **changes})


def join(service: SiteService, **changes: Any) -> Parts:
    """Join a run and, if the site accepts, show it the signatures of all."""
    parts = invite(service, **changes)
    answer = service.handle(Verb.JOIN, parts)
    if Part.SCHEMA in answer:
        signed = consortium_of(service.home.parents[1]).sign(parts[Part.CONTRACT])
        assert not service.handle(Verb.AGREE, {Part.CONSENTS: signed})
    return answer


def why(parts: Parts) -> str:
    return parts[Part.REFUSED].decode()


def test_it_says_what_its_table_looks_like(tmp_path: Path) -> None:
    schema = WireSchema.from_bytes(join(make_service(tmp_path))[Part.SCHEMA])
    assert Schema(**schema.model_dump(exclude={"rows"})) == ct.Series.from_arrays(np.zeros((2, 2))).schema


def test_a_method_that_is_not_approved_is_refused(tmp_path: Path) -> None:
    assert why(join(make_service(tmp_path, methods=("FDBNL",)))) == "this site approves FDBNL, not Walking"
    assert "no method" in why(join(make_service(tmp_path, methods=())))


@pytest.mark.parametrize(
    ("policy", "must"),
    [
        ({"minimum_rows": 21, "secure_sum": False}, "once its table has 21 rows"),
        ({"minimum_clients": 4}, "at least 4 clients, there are 3"),
        ({"minimum_rows": 0}, "only where sums are masked"),
        ({**LENIENT, "epsilon": 1.0}, "epsilon at most 1 and delta 1e-05, got no noise"),
        ({**LENIENT, "budget": 1.0}, "a run must say its epsilon"),
    ],
)
def test_the_policy_holds(tmp_path: Path, policy: dict[str, Any], must: str) -> None:
    assert must in why(join(make_service(tmp_path, privacy=policy)))
    assert not (tmp_path / "home" / "runs").exists()


def test_a_policy_that_is_met_lets_in(tmp_path: Path) -> None:
    service = make_service(tmp_path, privacy={"minimum_rows": 20, "minimum_clients": 3, "secure_sum": False})
    assert Part.SCHEMA in join(service)


def test_a_run_it_was_not_invited_to_gets_nothing(tmp_path: Path) -> None:
    assert "not invited" in why(ask(make_service(tmp_path)))


def test_the_same_question_gets_the_stored_answer_also_after_a_restart(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    join(service)
    first = ask(service)[Part.REPLY]
    assert ask(service)[Part.REPLY] == first
    again = make_service(tmp_path)
    assert ask(again)[Part.REPLY] == first
    other = reply_from_bytes(ask(again, mean=1.0)[Part.REPLY])
    assert other.failure is not None
    assert "another content" in other.failure.detail


def test_memory_is_found_again_after_a_restart(tmp_path: Path) -> None:
    straight, broken = make_service(tmp_path / "a"), make_service(tmp_path / "b")
    for service in (straight, broken):
        join(service)
        ask(service)
    wanted = reply_from_bytes(ask(straight, step=2, base=1)[Part.REPLY]).message
    found = reply_from_bytes(ask(make_service(tmp_path / "b"), step=2, base=1)[Part.REPLY]).message
    assert found is not None
    assert found == wanted


def test_a_table_that_changed_is_refused(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    join(service)
    write_clients({"ash": ct.Series.from_arrays(np.ones((20, 2)))}, service.home.parent / "data.csv")
    assert "has changed" in why(join(make_service(tmp_path)))
    assert "has changed" in why(ask(make_service(tmp_path)))


@pytest.mark.parametrize(
    "change", [{"seed": 4}, {"parameters": {"rounds": 9}}, {"method": "FedMean", "parameters": {}}]
)
def test_a_run_cannot_change_its_mind(tmp_path: Path, change: dict[str, Any]) -> None:
    service = make_service(tmp_path, methods=("Walking", "FedMean"))
    join(service)
    assert "the contract it was begun with" in why(join(service, **change))
    assert Part.SCHEMA in join(service)


def test_a_site_may_hold_a_table_of_each_kind(tmp_path: Path) -> None:
    sources = {"series": str(make_service(tmp_path).home.parent / "data.csv")}
    service = make_service(tmp_path, data=sources, methods=("Walking", "FedPP"))
    assert Part.SCHEMA in join(service)
    events = {"run": "f" * 32, "method": "FedPP", "parameters": {}}
    assert why(join(service, **events)) == "this site has no table of events"


def test_windows_beside_the_events_are_read(tmp_path: Path) -> None:
    clients, _ = ct.make_events(clients=1, sequences=3, seed=2)
    (table,) = clients.values()
    write_clients({"ash": table}, tmp_path / "stays.csv")
    service = make_service(tmp_path, data={"events": str(tmp_path / "stays.csv")})
    assert service.read_table("events").fingerprint() == table.fingerprint()


def test_a_site_whose_ledger_is_changed_while_it_runs_answers_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(Alerts, "tell", lambda _, *words: told.append(words))
    service = make_service(tmp_path)
    join(service)
    assert Part.REPLY in ask(service)
    ledger = service.home / "ledger.jsonl"
    whole = ledger.read_bytes()
    changed = re.sub(rb'"bytes":\d+', b'"bytes":1', whole)
    ledger.write_bytes(changed)
    for answer in (ask(service, step=2, base=1), ask(service), join(service)):
        said = why(answer)
        assert "the record of what left this site was changed" in said
        assert str(tmp_path) not in said
    assert ledger.read_bytes() == changed
    assert "the last one was changed" in (service.home / "site.log").read_text()
    assert told[0][:2] == ("refused", "the ledger of ash")  # not silenced by an alert of another refusal
    assert "was changed" in told[0][2]
    ledger.write_bytes(whole)
    assert Part.REPLY in ask(service, step=2, base=1)
    assert len(service.ledger.verify()) == 3


def test_errors_leave_by_class_name_only(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    (service.home.parent / "data.csv").write_text("time,x\n0,secret-4711\n1,2\n")
    assert join(service) == {Part.FAILED: b"DataError"}
    assert "DataError" in (service.home / "site.log").read_text()


@pytest.mark.parametrize(
    ("verb", "parts"),
    [
        (Verb.ANSWER, {}),
        (Verb.JOIN, {}),
        (Verb.JOIN, {Part.CONTRACT: b"[]", Part.SIGNATURE: b""}),
        (Verb.JOIN, {Part.CONTRACT: b"\xff", Part.SIGNATURE: b""}),
        (Verb.AGREE, {Part.CONSENTS: b"[]"}),
        (Verb.ASK, {Part.QUESTION: b"", Part.COMMON: b""}),
        (Verb.RESULT, {Part.REFERENCE: json.dumps({"run": RUN, "version": 0}).encode(), Part.STATE: b"junk"}),
    ],
)
def test_nonsense_is_answered_and_costs_nothing(tmp_path: Path, verb: Verb, parts: Parts) -> None:
    service = make_service(tmp_path)
    assert service.handle(verb, parts).keys() <= {Part.FAILED, Part.REFUSED}
    assert not (service.home / "runs").exists()


@pytest.mark.parametrize("change", [{"method": "NoSuch"}, {"parameters": {"rounds": "many"}}])
def test_a_signed_contract_of_nonsense_is_refused_as_well(tmp_path: Path, change: dict[str, Any]) -> None:
    service = make_service(tmp_path)
    assert join(service, **change).keys() <= {Part.FAILED, Part.REFUSED}
    assert not (service.home / "runs").exists()


def test_a_full_disk_is_said_and_the_site_goes_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(tmp_path)
    join(service)

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", full)  # the log cannot be written either
        patch.setattr("os.open", full)
        assert ask(service) == {Part.FAILED: b"DiskFull"}
    assert Part.REPLY in ask(service)


def test_what_left_is_written_down(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    join(service)
    ask(service)
    folder = service.home / "runs" / RUN
    asked = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    assert [(entry["step"], entry["phase"], entry["fields"]) for entry in asked] == [(1, "walk", ["mean"])]
    record = json.loads((folder / "messages.jsonl").read_text().splitlines()[0])
    assert (record["client"], record["step"], record["phase"]) == ("ash", 1, "walk")
    assert record["fields"]["position"]["shape"] == [8]


def test_a_site_draws_from_its_own_secret_and_the_run_unless_the_seed_is_shared(tmp_path: Path) -> None:
    own, shared = make_service(tmp_path / "a", random={"shared": False}), make_service(tmp_path / "b")
    for service in (own, shared):
        join(service)
    assert ask(own)[Part.REPLY] != ask(shared)[Part.REPLY]
    assert own.keys.seed_of(RUN) != own.keys.seed_of("f" * 32)


@pytest.mark.parametrize(
    ("text", "must"),
    [
        ('name = "a"', "server"),
        ('name="a"\nserver="h:1"\ndata="d"\nmethods=[]\nmetods=1', "did you mean 'methods'"),
        ('name="a"\nserver="h:1"\ndata="d"\nmethods=[]\n[privacy]\nminimum_row=1', "did you mean 'minimum_rows'"),
        ('name="a"\nserver="h:1"\ndata="d"\nmethods=[]\n[privacy]\nminimum_rows=-1', "greater than or equal to 0"),
    ],
)
def test_a_wrong_site_file_is_refused_in_plain_words(tmp_path: Path, text: str, must: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ParameterError, match=must):
        SiteSettings.from_kit(tmp_path)


def test_a_schema_from_elsewhere_is_checked() -> None:
    for data in (b'{"kind": "series", "columns": [1], "unit": ""}', b"{}", b"junk"):
        with pytest.raises(MessageError):
            WireSchema.from_bytes(data)


def test_a_gpu_is_used_only_where_the_site_allows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"method": "FedAvg", "parameters": {"device": "cuda"}}
    service = make_service(tmp_path, methods=("FedAvg",))
    assert why(join(service, **asked)) == "this site computes on cpu, not on cuda"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    allowed = make_service(tmp_path, methods=("FedAvg",), devices=("cpu", "cuda"))
    assert "has no GPU" in why(join(allowed, **asked))


def test_people_are_told_what_is_refused_and_before_the_budget_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(Alerts, "tell", lambda self, kind, about, text: told.append((kind, text)))
    service = make_service(tmp_path, privacy={**LENIENT, "minimum_clients": 1, "budget": 2.0}, methods=("FedMoments",))
    privacy = ct.Privacy(epsilon=0.9, secure_sum=False)
    phase = ct.FedMoments().private(privacy).phases[0]
    asked = {"method": "FedMoments", "parameters": {}, "privacy": privacy.model_dump(mode="json")}
    for digit, spent in (("a", 0), ("b", 1)):
        assert Part.SCHEMA in join(service, run=digit * 32, **asked)
        assert len(told) == 0
        question = Question(digit * 32, 1, 1, phase, "ash", 0, 0, EMPTY, EMPTY)
        service.handle(Verb.ASK, {Part.QUESTION: question_to_bytes(question), Part.COMMON: EMPTY.to_bytes()})
        assert [kind for kind, _ in told] == ["budget nearly spent"] * spent
    assert told == [("budget nearly spent", "of the budget of 2 for series, 1.8 is spent")]
    join(service, run="c" * 32, **asked)
    assert told[1] == ("refused", "this site's budget is 2, of which 1.8 is spent; the run asks for 0.9")


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_with_noise_neither_rows_nor_marks_are_told_before_the_first_question(
    tmp_path: Path, epsilon: float | None
) -> None:
    """Without a secure sum a site told how many events it has, and with any which types occur, noise or not."""
    table = ct.Events.from_arrays([[1.0, 2.0]], (0.0, 10.0), marks=[["flu", "rare"]])
    service = consortium_of(tmp_path).service("ash", table, methods=("FedPP",), privacy=LENIENT)
    method = ct.FedPP(kernel="time", window=(0.0, 10.0))
    privacy = ct.Privacy(epsilon=epsilon, secure_sum=False).model_dump(mode="json")
    parts = join(service, method="FedPP", parameters=method.model_dump(mode="json"), privacy=privacy)
    schema = WireSchema.from_bytes(parts[Part.SCHEMA])
    told = (schema.rows, schema.columns)
    assert told == ((2, ("flu", "rare")) if epsilon is None else (None, ()))
