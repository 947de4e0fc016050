"""`Identity`: a client's long-term signing key, what it signs, and how others check it against pinned keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from cotempo.privacy.secure_sum.masks import digest, join
from cotempo.privacy.secure_sum.shamir import Random


class Identity:
    """A client's long-term Ed25519 key; `secret` is its 32 bytes."""

    def __init__(self, name: str, secret: bytes):
        self.name = name
        self._key = Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def create(cls, name: str, random: Random = os.urandom) -> Identity:
        """Make a new key."""
        return cls(name, random(32))

    @property
    def public(self) -> bytes:
        """The public key, which others pin."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        """Sign."""
        return self._key.sign(content)


def local_identities(names: Iterable[str]) -> tuple[dict[str, Identity], dict[str, bytes]]:
    """Make identities for clients on one machine; return them, and the roster of public keys each pins."""
    identities = {name: Identity.create(name) for name in names}
    return identities, {name: identity.public for name, identity in identities.items()}


def is_signed(peers: Mapping[str, bytes], name: str, content: bytes, signature: bytes) -> bool:
    """Return whether a pinned client signed a content."""
    try:
        Ed25519PublicKey.from_public_bytes(peers[name]).verify(signature, content)
    except (InvalidSignature, KeyError, ValueError):
        return False
    return True


def announcement(run: str, name: str, key: bytes) -> bytes:
    """Return what a client signs about its key of a run."""
    return join("cotempo secure sum 1", "announcement", run, name, key)


def survivors_statement(session: str, agreed: str, survivors: Sequence[str]) -> bytes:
    """Return what a client signs about a session: on what all masked, `agreed`, and whose masked messages came."""
    return join("cotempo secure sum 1", "survivors", session, agreed, digest(*survivors))
