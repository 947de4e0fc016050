"""The wire protocol between coordinator and sites: a message is a `Verb` and bytes by `Part`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotempo.errors import MessageError
from cotempo.federation.rounds import sanitize
from cotempo.privacy.contract import Consent


class Verb(StrEnum):
    """What a message is for."""

    JOIN = "join"  # a contract that the coordinator signed for a schema and the site's signature
    AGREE = "agree"  # the signatures of all participants for nothing
    ASK = "ask"  # a question and the common message of all questions for a reply; in the simulation also the memory
    RESULT = "result"  # a reference and the final state for nothing
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
