"""`SiteKeys`, which a site makes itself, `Enrolment`, what it hands over of them, and `PeerBook`, the keys it pins.

A site's private keys are made at the site and never leave it: an Ed25519 key, with which it signs contracts and its
part in secure sums; a P-384 key, by which Flower's server knows it; and the seed of its random streams. Keys for
agreement (X25519) are made for every run, bound to it, and signed with the first: nothing long-lived decrypts anything.

Whoever carries public keys could exchange them. So people compare fingerprints in words over a channel that the carrier
does not control: the coordinator one per site, before it admits a site; sites one for the whole book, before they pin
it. Each site finds its own key in the book, and all read the same words, so everybody's key is right.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tomli_w
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import Field

from cotempo.errors import ParameterError
from cotempo.privacy.secure_sum.identity import Identity, is_signed
from cotempo.privacy.secure_sum.masks import join
from cotempo.privacy.words import spell
from cotempo.settings import Settings, read_toml
from cotempo.storage.files import write_whole

FINGERPRINT_WORDS = 10  # 80 bits
KEY = r"^[0-9a-f]{64}$"
SIGNATURE = r"^[0-9a-f]{128}$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


def canonical(content: Any) -> bytes:
    """Return the one JSON text of a content: sorted keys, no spaces, ASCII; NaN and infinities are refused."""
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        raise ParameterError("what is signed must hold finite numbers only, got NaN or an infinity") from None


def fingerprint(content: Any) -> str:
    """Return a content's fingerprint in words."""
    return spell(hashlib.sha256(canonical(content)).digest()[:FINGERPRINT_WORDS])


def require_fingerprint(expected: str, given: str) -> None:
    """Raise `ParameterError` unless words that were heard are the fingerprint; case and spaces do not matter."""
    if given.lower().replace(",", " ").split() != expected.split():
        raise ParameterError(
            "the fingerprint must be the one that was read to you, it is not: somebody may have exchanged a key on its "
            f"way. Do not go on; here it is: {expected}"
        )


class Enrolment(Settings):
    """The public keys of a site, signed with its own key; after a rotation also with the one before."""

    name: str = Field(pattern=NAME)
    signing: str = Field(pattern=KEY)
    node: str = Field(max_length=1000)
    signature: str = Field(pattern=SIGNATURE)
    rotation: str = Field(default="", pattern=f"^$|{SIGNATURE}")

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read and check an enrolment file."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ParameterError(f"{path} must be a file that cotempo client enrol wrote: {error}") from None
        return cls.checked(content, str(path))

    @classmethod
    def checked(cls, content: Any, subject: str) -> Self:
        """Return an enrolment whose signature is right."""
        if not isinstance(content, Mapping):
            raise ParameterError(f"{subject} must hold the public keys of a site")
        made = cls.read(content, subject)
        if not is_signed(
            {made.name: bytes.fromhex(made.signing)}, made.name, made.statement, bytes.fromhex(made.signature)
        ):
            raise ParameterError(f"{subject} must be as the site signed it, it was changed")
        return made

    @property
    def keys(self) -> dict[str, str]:
        """What the fingerprint is taken of."""
        return {"name": self.name, "signing": self.signing, "node": self.node}

    @property
    def statement(self) -> bytes:
        """What is signed."""
        return join("cotempo enrolment 1", canonical(self.keys))

    @property
    def fingerprint(self) -> str:
        """The fingerprint in words."""
        return fingerprint(self.keys)

    def follows(self, before: str) -> bool:
        """Return whether the owner of an earlier signing key signed these keys."""
        return is_signed({self.name: bytes.fromhex(before)}, self.name, self.statement, bytes.fromhex(self.rotation))


@dataclass(frozen=True)
class SiteKeys:
    """A site's private keys, in a folder that only its owner can read."""

    identity: Identity
    node: ec.EllipticCurvePrivateKey
    seed: bytes

    @classmethod
    def create(cls, name: str, folder: Path, seed: bytes | None = None) -> SiteKeys:
        """Make new keys; `seed` is kept over a rotation."""
        signing, seed = secrets.token_bytes(32), seed or secrets.token_bytes(32)
        keys = cls(Identity(name, signing), ec.generate_private_key(ec.SECP384R1()), seed)
        private = keys.node.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file, content in (
            ("node.key", private),
            ("seed", seed.hex().encode()),
            ("signing.key", signing.hex().encode()),
        ):
            write_whole(folder / file, content)
        return keys

    @classmethod
    def load(cls, name: str, folder: Path) -> SiteKeys:
        """Read a site's keys; refuse files that others can read."""
        files = {file: folder / file for file in ("signing.key", "node.key", "seed")}
        for path in files.values():
            if not path.is_file():
                raise ParameterError(f"{path} must be there; make this site's keys with: cotempo client enrol")
            if path.stat().st_mode & 0o077:
                raise ParameterError(f"{path} must be readable by its owner only; chmod -R go-rwx {folder}")
        try:
            signing, seed = (bytes.fromhex(files[file].read_text()) for file in ("signing.key", "seed"))
            node = serialization.load_ssh_private_key(files["node.key"].read_bytes(), None)
            if not isinstance(node, ec.EllipticCurvePrivateKey):
                raise ValueError("another kind of key")
            return cls(Identity(name, signing), node, seed)
        except ValueError as error:
            raise ParameterError(f"{folder} must hold keys as cotempo client enrol made them: {error}") from None

    def enrol(self, previous: SiteKeys | None = None) -> Enrolment:
        """Return what the site hands over; `previous` keys sign it as well."""
        node = self.node.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        draft = Enrolment(
            name=self.identity.name, signing=self.identity.public.hex(), node=node.decode(), signature="0" * 128
        )
        rotation = previous.identity.sign(draft.statement).hex() if previous else ""
        return draft.model_copy(update={"signature": self.identity.sign(draft.statement).hex(), "rotation": rotation})

    def seed_of(self, run: str) -> int:
        """Return the seed of the site's random streams in a run, which nobody else can tell."""
        return int.from_bytes(hashlib.sha256(join("cotempo seed 1", self.seed, run)).digest()[:8], "big") >> 1


class PeerBook(Settings):
    """The public keys of the coordinator and of all sites: those that are admitted, or those that a site has pinned."""

    coordinator: str = Field(pattern=KEY)
    sites: dict[str, Enrolment] = Field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a book and check every signature and name in it."""
        content = read_toml(path)
        sites = content.get("sites", {})
        if not isinstance(sites, Mapping):
            raise ParameterError(f"{path} must be a book of public keys, as cotempo server admit wrote it")
        entries = {
            name: Enrolment.checked({k: v for k, v in entry.items() if k != "fingerprint"}, f"{path}: {name}")
            for name, entry in sites.items()
            if isinstance(entry, Mapping)
        }
        if any(entry.name != name for name, entry in entries.items()):
            raise ParameterError(f"{path} must name every site as its own keys do")
        known = {key: value for key, value in content.items() if key not in ("sites", "fingerprint")}
        return cls.read({**known, "sites": entries}, str(path))

    def save(self, path: Path) -> None:
        """Write the book as TOML, with its fingerprints."""
        sites = {
            name: {**entry.model_dump(), "fingerprint": entry.fingerprint} for name, entry in sorted(self.sites.items())
        }
        content = {"fingerprint": self.fingerprint, "coordinator": self.coordinator, "sites": sites}
        write_whole(path, tomli_w.dumps(content).encode())

    @property
    def fingerprint(self) -> str:
        """One fingerprint of all keys, which every site must read the same."""
        return fingerprint([self.coordinator, *(entry.keys for _, entry in sorted(self.sites.items()))])

    @property
    def signing(self) -> dict[str, bytes]:
        """The signing keys by site."""
        return {name: bytes.fromhex(entry.signing) for name, entry in self.sites.items()}

    def with_site(self, entry: Enrolment) -> PeerBook:
        """Return the book with a site added, or its keys replaced."""
        return self.model_copy(update={"sites": {**self.sites, entry.name: entry}})

    def without(self, name: str) -> PeerBook:
        """Return the book without a site."""
        return self.model_copy(update={"sites": {key: entry for key, entry in self.sites.items() if key != name}})

    def vouches_for(self, newer: PeerBook) -> bool:
        """Return whether a newer book needs no comparison: it only removes sites, or has keys that old keys signed."""
        return newer.coordinator == self.coordinator and all(
            name in self.sites and (entry.keys == self.sites[name].keys or entry.follows(self.sites[name].signing))
            for name, entry in newer.sites.items()
        )


def write_coordinator_key(path: Path) -> str:
    """Make the coordinator's signing key; return its public half."""
    secret = os.urandom(32)
    write_whole(path, secret.hex().encode())
    return Identity("coordinator", secret).public.hex()


def coordinator_identity(path: Path) -> Identity:
    """Read the coordinator's signing key."""
    try:
        return Identity("coordinator", bytes.fromhex(path.read_text()))
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path} must be the coordinator's key, as cotempo provision made it: {error}") from None
