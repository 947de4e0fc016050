"""`Contract`: what a run is, signed by its coordinator and by every site before anything is asked.

Coordinator and sites sign the SHA-256 of the contract's canonical JSON. A site answers once it has seen the signature
of every participant under the same contract, checked against the keys it has pinned: all were told the same.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotempo.errors import MessageError
from cotempo.privacy.keys import KEY, canonical
from cotempo.privacy.secure_sum.identity import Identity, is_signed
from cotempo.privacy.secure_sum.masks import join

MOST_BYTES = 2**20
CODE_VERSION = importlib.metadata.version("cotempo")


History = Sequence[Sequence[str]]
"""Sets of clients over whom sums were revealed before."""


class Consent(BaseModel):
    """A site's signature under a contract, and over whom sums of its table were revealed before.

    Who is in two runs sees how they differ; how a third run differs from both, only all sites together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    signature: str
    history: list[list[str]] = []


class Contract(BaseModel):
    """What a run is.

    Attributes
    ----------
    run, seed
        Its identity, and the seed of the server's random numbers.
    method, parameters
        What is computed, with every parameter.
    participants
        The signing key of every site, by name.
    coordinator
        The coordinator's signing key, to which messages go.
    privacy
        The settings of `Privacy`, its defaults decided.
    version
        The coordinator's version of cotempo; sites run the same release or a neighbouring one.
    purpose
        What the coordinator says it is for; people at the sites read it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    run: str = Field(pattern=r"^[0-9a-f]{32}$")
    seed: int
    method: str = Field(max_length=200)
    parameters: dict[str, Any]
    participants: dict[str, str] = Field(min_length=1)
    coordinator: str = Field(pattern=KEY)
    privacy: dict[str, Any]
    version: str = Field(max_length=100)
    purpose: str = Field(default="", max_length=500)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a contract; raise `MessageError` for anything but the canonical text of one."""
        try:
            if len(data) > MOST_BYTES:
                raise ValueError("too long")
            contract = cls.model_validate(json.loads(data))
            if contract.to_bytes() != data:
                raise ValueError("another text of the same content")
        except (ValueError, ValidationError, RecursionError) as error:
            raise MessageError(f"a contract must be canonical JSON with {', '.join(cls.model_fields)}") from error
        return contract

    def to_bytes(self) -> bytes:
        """Return the canonical text."""
        return canonical(self.model_dump())

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical text."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def continues(self, other: Self) -> bool:
        """Return whether this is another contract, or differs by the coordinator's version, which may be upgraded."""
        return self == other.model_copy(update={"version": self.version})

    def statement(self, role: str, history: History = ()) -> bytes:
        """Return what is signed by the `coordinator`, or by a `site` with its history."""
        return join("cotempo contract 1", role, self.digest, canonical(history))

    def sign(self, identity: Identity, role: str, history: History = ()) -> str:
        """Sign."""
        return identity.sign(self.statement(role, history)).hex()

    def unsigned(self, consents: Mapping[str, Consent]) -> list[str]:
        """Return the participants whose signature is missing or wrong."""
        keys = {name: _from_hex(key) for name, key in self.participants.items()}

        def has_signed(name: str) -> bool:
            if name not in consents:
                return False
            statement = self.statement("site", consents[name].history)
            return is_signed(keys, name, statement, _from_hex(consents[name].signature))

        return [name for name in sorted(self.participants) if not has_signed(name)]

    def is_from_coordinator(self, signature: str) -> bool:
        """Return whether the coordinator signed."""
        key = {"coordinator": _from_hex(self.coordinator)}
        return is_signed(key, "coordinator", self.statement("coordinator"), _from_hex(signature))


def are_neighbours(one: str, other: str) -> bool:
    """Return whether two versions of cotempo may take part in one run: of the same release, or of consecutive ones.

    A release is named by the first two numbers. One that changes what a method computes raises the first.

    Examples
    --------
    >>> [are_neighbours("1.4.0", other) for other in ("1.4.7", "1.5.0", "1.6.0", "2.4.0")]
    [True, True, False, False]
    """
    first, second = (re.match(r"(\d+)\.(\d+)", version) for version in (one, other))
    if first is None or second is None:
        return one == other
    return first[1] == second[1] and abs(int(first[2]) - int(second[2])) <= 1


def _from_hex(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        return b""
