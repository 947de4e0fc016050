"""The protocol between coordinator and sites: an `Envelope` holds a `Verb` and bytes by `Part`, and says its version.

Every envelope says in which version its parts are, and which versions its sender speaks. The two ends agree on the
newest that both speak when a site joins, and refuse each other there, in words, if there is none. So four things must
be the same in all versions, for ever: the envelope, `JOIN`, `REFUSED` and `FAILED`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotempo.errors import MessageError
from cotempo.federation.rounds import sanitize
from cotempo.privacy.contract import Consent

SPEAKS = (4, 4)  # the oldest and the newest version that this code speaks: a release keeps those of the one before it


class Verb(StrEnum):
    """What a message is for."""

    JOIN = "join"  # a contract that the coordinator signed for a schema and the site's signature
    AGREE = "agree"  # the signatures of all participants for nothing
    ASK = "ask"  # a question and the common message of all questions for a reply; in the simulation also the memory
    RESULT = "result"  # the run has ended: a reference, and the final state if sites may have it, for nothing
    ANSWER = "answer"  # on everything that comes back


class Part(StrEnum):
    """The names of a message's parts."""

    CONTRACT = "contract"
    SIGNATURE = "signature"  # of the coordinator, under the contract
    CONSENT = "consent"
    CONSENTS = "consents"
    SCHEMA = "schema"
    QUESTION = "question"
    COMMON = "common"
    MEMORY = "memory"
    REPLY = "reply"
    REFERENCE = "reference"
    STATE = "state"
    REFUSED = "refused"  # instead of the wanted part: why the site does not take part
    WAITING = "waiting"  # instead of the wanted part: why the site does not answer yet
    FAILED = "failed"  # instead of the wanted part: the class name of an error at the site
    LOST = "lost"  # instead of the wanted part: why no answer arrived, from the coordinator itself


Parts = Mapping[Part, bytes]


@dataclass(frozen=True)
class Envelope:
    """What crosses: parts in a version, from a sender who speaks the versions of a range."""

    verb: Verb
    parts: Parts
    version: int
    speaks: tuple[int, int]

    @classmethod
    def write(cls, verb: Verb, parts: Parts, version: int | None = None) -> Self:
        """Return an envelope of ours; without a version, in the oldest we speak."""
        return cls(verb, parts, SPEAKS[0] if version is None else version, SPEAKS)

    @classmethod
    def read(cls, verb: Verb, parts: Parts, numbers: Mapping[str, int]) -> Self:
        """Return an envelope of another, from its `numbers`."""
        return cls(verb, parts, numbers["version"], (numbers["oldest"], numbers["newest"]))

    @property
    def numbers(self) -> dict[str, int]:
        """Its version and the sender's range, for the wire."""
        return {"version": self.version, "oldest": self.speaks[0], "newest": self.speaks[1]}

    @property
    def common_version(self) -> int | None:
        """The newest version that the sender and we speak, `None` if there is none."""
        newest = min(SPEAKS[1], self.speaks[1])
        return newest if newest >= max(SPEAKS[0], self.speaks[0]) else None

    def refusal(self) -> str | None:
        """Return why a site cannot answer this, `None` if it can."""
        if self.common_version is None:
            side = "here" if self.speaks[0] > SPEAKS[1] else "at the coordinator"
            return (
                f"site and coordinator must speak a common version of the protocol, this site speaks {_range(SPEAKS)} "
                f"and the coordinator {_range(self.speaks)}; upgrade cotempo {side}, release by release"
            )
        if self.verb != Verb.JOIN and not SPEAKS[0] <= self.version <= SPEAKS[1]:
            return (
                f"the run goes on in version {self.version} of the protocol, this site now speaks {_range(SPEAKS)}; "
                "resume the run, so that the site joins again"
            )
        return None


def _range(versions: tuple[int, int]) -> str:
    return f"{versions[0]}" if versions[0] == versions[1] else f"{versions[0]} to {versions[1]}"


class _Content(BaseModel):
    """A part that is a JSON object."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")

    def to_bytes(self) -> bytes:
        """Encode as JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode and check; raise `MessageError` for anything else."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise MessageError(f"{cls.__name__} must have {', '.join(cls.model_fields)}") from error


RUN_ID = Field(pattern=r"^[0-9a-f]{32}$")


class Consents(_Content):
    """The signatures of all participants under the contract of a run."""

    run: str = RUN_ID
    sites: dict[str, Consent]


class WireSchema(_Content):
    """What a site's table looks like, as `cotempo.data.Schema`; its rows only where weights are seen anyway."""

    kind: str
    columns: tuple[str, ...] = Field(max_length=100_000)
    unit: str
    zone: str = Field(max_length=64)
    rows: int | None = Field(default=None, ge=0)


class ResultReference(_Content):
    """Which run a result belongs to, and which version of the site's memory goes with it."""

    run: str = RUN_ID
    version: int


def failure_in(answer: Parts, wanted: Part | None) -> tuple[str, str] | None:
    """Return the kind and the detail of a failure, `None` if the wanted part, or at least no failure, arrived."""
    for part, kind in ((Part.LOST, "Lost"), (Part.REFUSED, "Refused"), (Part.WAITING, "Waiting"), (Part.FAILED, "")):
        if part in answer:
            text = sanitize(answer[part].decode(errors="replace"))
            return (kind, text) if kind else (text, "")
    return None if wanted is None or wanted in answer else ("MessageError", f"the answer has no part {wanted!r}")
