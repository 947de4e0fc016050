"""`Contract`: what a run is, signed by its coordinator and by every site before anything is asked.

Coordinator and sites sign the SHA-256 of the contract's canonical JSON. A site answers once it has seen the signature
of every participant under the same contract, checked against the keys it has pinned: all were told the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotempo.errors import MessageError
from cotempo.privacy.keys import KEY, canonical
from cotempo.privacy.secure_sum.identity import Identity, is_signed
from cotempo.privacy.secure_sum.masks import join

MOST_BYTES = 2**20


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
        The version of cotempo that all run.
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
        return canonical(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical text."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def statement(self, role: str) -> bytes:
        """Return what is signed by the `coordinator` or by a `site`."""
        return join("cotempo contract 1", role, self.digest)

    def sign(self, identity: Identity, role: str) -> str:
        """Sign."""
        return identity.sign(self.statement(role)).hex()

    def unsigned(self, signatures: Mapping[str, str]) -> list[str]:
        """Return the participants whose signature is missing or wrong."""
        keys = {name: _from_hex(key) for name, key in self.participants.items()}
        return [
            name
            for name in sorted(self.participants)
            if not is_signed(keys, name, self.statement("site"), _from_hex(signatures.get(name, "")))
        ]

    def is_from_coordinator(self, signature: str) -> bool:
        """Return whether the coordinator signed."""
        key = {"coordinator": _from_hex(self.coordinator)}
        return is_signed(key, "coordinator", self.statement("coordinator"), _from_hex(signature))


def _from_hex(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        return b""
