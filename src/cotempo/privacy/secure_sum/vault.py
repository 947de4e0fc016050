"""`Vault`: where a client keeps what must survive a crash and must never be rolled back."""

import os
from pathlib import Path
from typing import Protocol

from cotempo.storage.files import read_hashed, write_hashed


class Vault(Protocol):
    """Secrets and the journal of one client; no part of its memory or of any checkpoint."""

    is_durable: bool

    def save(self, name: str, content: bytes) -> None:
        """Store under a name; once this returns, the content survives a crash."""

    def load(self, name: str) -> bytes | None:
        """Return what was stored, `None` if nothing or something damaged is there."""

    def drop(self, name: str) -> None:
        """Forget."""


class NoVault:
    """Nothing is written: the client's process holds everything, and a crash loses it.

    That is as safe: keys, masks and shares are then made anew, and nothing old can be revealed.
    """

    is_durable = False

    def save(self, name: str, content: bytes) -> None:
        """Do nothing."""

    def load(self, name: str) -> bytes | None:
        """Return nothing."""
        return None

    def drop(self, name: str) -> None:
        """Do nothing."""


class DiskVault:
    """Files only their owner can read, in a private folder of a site."""

    is_durable = True

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)

    def save(self, name: str, content: bytes) -> None:
        """Write a file atomically and durably, readable by its owner only."""
        previous = os.umask(0o077)
        try:
            write_hashed(self.folder / name, content)
        finally:
            os.umask(previous)

    def load(self, name: str) -> bytes | None:
        """Read a file."""
        return read_hashed(self.folder / name)

    def drop(self, name: str) -> None:
        """Delete a file."""
        (self.folder / name).unlink(missing_ok=True)
