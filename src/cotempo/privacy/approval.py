"""`RequestInbox`: the runs a site is asked to join, and what a person there decided; files in the site's own folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field

from cotempo.data import Schema, Table
from cotempo.errors import AwaitingApproval, ParameterError
from cotempo.federation.rounds import sanitize
from cotempo.privacy.contract import CODE_VERSION, Contract
from cotempo.privacy.keys import canonical
from cotempo.privacy.ledger import Ledger
from cotempo.privacy.policy import Refused
from cotempo.settings import Settings
from cotempo.storage.files import write_whole

MOST_PENDING = 100  # a coordinator must not fill the site's disk
PENDING = "this site asks a person, who has not decided yet"
ENDED = "the run has ended"
BY_PERSON = "a person at this site refused it"
PAUSED = "the people at this site have paused it"
Ranges = Mapping[str, tuple[float, float]]


class ApprovalSettings(Settings):
    """Whether a person must approve a run that the site's policy allows."""

    ask: bool = Field(default=False, description="Wait for a person, unless an earlier approval covers the run.")


class Request(Settings):
    """A run that a site was asked to join: its contract as it was signed, and the table it would read."""

    contract: str
    received: str
    kind: str
    rows: int
    columns: tuple[str, ...]
    unit: str
    zone: str

    @classmethod
    def of(cls, contract: Contract, table: Table) -> Self:
        """Return a request that came now."""
        schema, text = table.schema, contract.to_bytes().decode()
        return cls(
            contract=text, received=_now(), kind=schema.kind, rows=table.rows, columns=schema.columns,
            unit=schema.unit, zone=schema.zone,
        )  # fmt: skip

    @property
    def agreed(self) -> Contract:
        """The contract."""
        return Contract.from_bytes(self.contract.encode())

    @property
    def table(self) -> Schema:
        """What the site's table looks like."""
        return Schema(self.kind, self.columns, self.unit, self.zone)


class Decision(Settings):
    """What was decided about a run, when, by whom, and about which contract."""

    answer: Literal["approved", "refused"]
    contract: str  # its digest
    by: str
    time: str
    reason: str = ""
    shown: str = ""  # the request as the person saw it; empty where a standing approval decided


class StandingApproval(Settings):
    """An approval of runs like one that a person saw: all is the same but the run, its seed, and numbers in ranges.

    A new version of cotempo, another key, another column or another purpose is asked about again.
    """

    request: Request
    ranges: dict[str, tuple[float, float]]
    time: str

    def covers(self, request: Request) -> bool:
        """Return whether a request is like the one that was approved."""
        seen, new = self.request.agreed, request.agreed
        varying = {"run", "seed", "parameters", "privacy"}
        return (
            self.request.table == request.table
            and seen.model_dump(exclude=varying) == new.model_dump(exclude=varying)
            and {*seen.parameters} == {*new.parameters}
            and all(self._accepts(name, value) for name, value in new.parameters.items())
            and _protects_as_well(new.privacy, seen.privacy)
        )

    def _accepts(self, name: str, value: Any) -> bool:
        if name in self.ranges and _is_number(value):
            low, high = self.ranges[name]
            return bool(low <= value <= high)
        return canonical(value) == canonical(self.request.agreed.parameters[name])


def _protects_as_well(new: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """Return whether privacy settings are the same, or the same with a smaller epsilon or delta."""
    if canonical({**new, "epsilon": None, "delta": None}) != canonical({**seen, "epsilon": None, "delta": None}):
        return False
    asked, approved = new.get("epsilon"), seen.get("epsilon")
    if asked is None or approved is None:
        return asked is approved and new.get("delta") == seen.get("delta")
    return bool(asked <= approved and new.get("delta", 0) <= seen.get("delta", 0))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Kept = TypeVar("Kept", Request, Decision, StandingApproval)


class RequestInbox:
    """A site's requests, decisions and standing approvals, a file each, named by the run.

    The process that answers writes requests, people's commands write decisions; every file is whole or not there. A
    decision that is changed gets a file of its own: what was decided before stays on record.
    """

    def __init__(self, home: Path):
        self.home = home
        self.folder = home / "approval"

    @property
    def is_paused(self) -> bool:
        """Whether people have paused the site."""
        return (self.folder / "paused").exists()

    def pause(self, paused: bool) -> None:
        """Pause the site, so that it answers nothing, or let it answer again."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if paused:
            write_whole(self.folder / "paused", _now().encode())
        else:
            (self.folder / "paused").unlink(missing_ok=True)

    def require_running(self) -> None:
        """Raise `AwaitingApproval` if people have paused the site."""
        if self.is_paused:
            raise AwaitingApproval(PAUSED)

    def require_allowed(self, contract: Contract, *, ask: bool) -> Decision | None:
        """Return the decision on a run; raise `Refused` if a person refused it, `AwaitingApproval` if none decided.

        Unless people are to be asked, no decision is needed; a refusal holds all the same.
        """
        decision = self.decision(contract.run)
        if decision is not None and decision.contract != contract.digest:
            raise Refused("the run must go on under the contract that was decided on, it was changed")
        if decision is not None and decision.answer == "refused":
            raise Refused(f"{BY_PERSON}{decision.reason and ': ' + decision.reason}")
        if decision is None and ask:
            raise AwaitingApproval(PENDING)
        return decision

    def submit(self, request: Request) -> None:
        """Keep a request for a person, or approve it at once if a standing approval covers it."""
        contract = request.agreed
        if (known := self._read("requests", contract.run, Request)) is not None:
            if known.contract != request.contract:
                raise Refused("the run must go on under the contract it was asked with, it was changed")
            return
        if len(self.pending) >= MOST_PENDING:
            raise Refused(f"this site has {MOST_PENDING} requests that nobody has decided on")
        self._write("requests", contract.run, request)
        for run, rule in self.rules.items():
            if rule.covers(request):
                self._decide(request, "approved", f"the standing approval of run {run[:8]}")
                break

    def is_known(self, contract: Contract) -> bool:
        """Return whether this very contract was submitted before."""
        known = self._read("requests", contract.run, Request)
        return known is not None and known.contract.encode() == contract.to_bytes()

    @property
    def requests(self) -> list[Request]:
        """All requests, the newest first."""
        found = [self._read("requests", run, Request) for run in self._names("requests")]
        return sorted((one for one in found if one is not None), key=lambda one: one.received, reverse=True)

    @property
    def pending(self) -> list[Request]:
        """The requests that nobody has decided on, the newest first; one of another version of cotempo is void."""
        asked = [(one, one.agreed) for one in self.requests]
        return [one for one, it in asked if it.version == CODE_VERSION and self.decision(it.run) is None]

    @property
    def rules(self) -> dict[str, StandingApproval]:
        """The standing approvals, by the run they were made of."""
        found = {run: self._read("rules", run, StandingApproval) for run in self._names("rules")}
        return {run: rule for run, rule in found.items() if rule is not None}

    def find(self, start: str) -> Request:
        """Return the request of the run whose identity begins so."""
        found = [run for run in self._names("requests") if start and run.startswith(start)]
        request = self._read("requests", found[0], Request) if len(found) == 1 else None
        if request is None:
            known = ", ".join(run[:8] for run in self._names("requests")[:20]) or "none"
            raise ParameterError(f"the run must be one this site was asked to join, {known}, got {start[:40]!r}")
        return request

    def decision(self, run: str) -> Decision | None:
        """Return what holds for a run: the last decision on it."""
        return next(reversed(self.decisions(run)), None)

    def decisions(self, run: str) -> list[Decision]:
        """Return everything that was decided on a run, the first decision first."""
        paths = sorted((self.folder / "decisions" / run).glob("[0-9]*.json"))
        return [Decision.model_validate_json(path.read_bytes()) for path in paths]

    def ended(self, run: str) -> str | None:
        """Return when a run ended, by the ledger; `None` as long as the coordinator has not said so."""
        entry = Ledger(self.home / "ledger.jsonl").find_end(run)
        return None if entry is None else str(entry["time"])

    def require_open(self, run: str) -> None:
        """Raise `ParameterError` if a run has ended, so that there is nothing left to decide."""
        if (ended := self.ended(run)) is not None:
            raise ParameterError(
                f"a decision must be about a run that can go on, {ENDED} ({ended[:16]} UTC); nothing more leaves for "
                "it, and what was decided stays on record. To end a standing approval, withdraw it"
            )

    def approve(self, request: Request, ranges: Ranges | None = None, shown: str = "") -> None:
        """Approve a run; with ranges of parameters, and be they none, approve all runs like it from now on."""
        run = request.agreed.run
        self.require_open(run)
        if ranges is not None:
            known = request.agreed.parameters
            for name, (low, high) in ranges.items():
                if not (_is_number(known.get(name)) and -math.inf < low <= known[name] <= high < math.inf):
                    raise ParameterError(f"a range must hold the number that was asked for, {name} has {low} to {high}")
            self._write("rules", run, StandingApproval(request=request, ranges=dict(ranges), time=_now()))
        self._decide(request, "approved", "a person", shown=shown)

    def refuse(self, request: Request, reason: str = "", shown: str = "") -> None:
        """Refuse a run, or stop taking part in it; the reason goes to the coordinator, on one line."""
        self._decide(request, "refused", "a person", sanitize(" ".join(reason.split())), shown)

    def withdraw(self, run: str) -> None:
        """Withdraw a standing approval; runs that it approved go on."""
        if run in self._names("rules"):
            (self.folder / "rules" / f"{run}.json").unlink(missing_ok=True)

    def _decide(
        self, request: Request, answer: Literal["approved", "refused"], by: str, reason: str = "", shown: str = ""
    ) -> None:
        contract = request.agreed
        self.require_open(contract.run)
        decision = Decision(answer=answer, contract=contract.digest, by=by, time=_now(), reason=reason, shown=shown)
        number = len(self.decisions(contract.run)) + 1
        self._write(f"decisions/{contract.run}", f"{number:04}", decision)

    def _names(self, kind: str) -> list[str]:
        return sorted(path.stem for path in (self.folder / kind).glob("[0-9a-f]*.json"))

    def _read(self, kind: str, run: str, model: type[Kept]) -> Kept | None:
        path = self.folder / kind / f"{run}.json"
        return model.model_validate_json(path.read_bytes()) if path.is_file() else None

    def _write(self, kind: str, run: str, content: Settings) -> None:
        (self.folder / kind).mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(self.folder / kind / f"{run}.json", content.model_dump_json().encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
