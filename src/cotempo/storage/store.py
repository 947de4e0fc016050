"""`Store`: where a client keeps versions of its memory; in RAM or in a folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cotempo.errors import MemoryLost
from cotempo.storage.files import read_hashed, write_hashed
from cotempo.storage.tree import decode, encode

KEPT_ANSWERS = 3


class Store(Protocol):
    """Where a client stores its memory, one version per step that changed it, and its last answers.

    A version is the number of the step that produced it. Version 0, the first memory, is never stored: it can be made
    again.
    """

    def load(self, version: int) -> Any:
        """Return the memory of a version; raise `MemoryLost` if it is not there."""

    def save(self, version: int, memory: Any) -> None:
        """Store a version, replacing one of the same number."""

    def prune(self, keep: int, base: int) -> None:
        """Drop versions before `keep` and after `base`: the latter came from answers that were not counted."""

    def cached_answer(self, step: int) -> tuple[str, bytes] | None:
        """Return the question's hash and the reply of a step, or `None` if they are not there any more."""

    def cache_answer(self, step: int, identity: str, reply: bytes) -> None:
        """Store the reply to a step with the question's hash, and keep the few before it."""


@dataclass(eq=False, repr=False)
class RamStore:
    """Versions in this process."""

    versions: dict[int, Any] = field(default_factory=dict)
    answers: dict[int, tuple[str, bytes]] = field(default_factory=dict)

    def load(self, version: int) -> Any:
        """Return a version or raise `MemoryLost`."""
        try:
            return self.versions[version]
        except KeyError:
            raise MemoryLost(f"memory of step {version} is not here") from None

    def save(self, version: int, memory: Any) -> None:
        """Store a version."""
        self.versions[version] = memory

    def prune(self, keep: int, base: int) -> None:
        """Drop versions that no kept checkpoint and no later question needs."""
        for version in [v for v in self.versions if v < keep or v > base]:
            del self.versions[version]

    def cached_answer(self, step: int) -> tuple[str, bytes] | None:
        """Return the question's hash and the reply of a step, if they are there."""
        return self.answers.get(step)

    def cache_answer(self, step: int, identity: str, reply: bytes) -> None:
        """Store a reply."""
        self.answers[step] = (identity, reply)
        for old in sorted(self.answers)[:-KEPT_ANSWERS]:
            del self.answers[old]


class DiskStore:
    """Versions in a folder of the client's, one hashed file each."""

    def __init__(self, folder: Path, memory_types: Sequence[type]):
        self.folder = folder
        self.memory_types = tuple(memory_types)
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, version: int) -> Path:
        return self.folder / f"memory-{version:09d}.safetensors"

    def load(self, version: int) -> Any:
        """Return a version or raise `MemoryLost`."""
        data = read_hashed(self._path(version))
        if data is None:
            raise MemoryLost(f"memory of step {version} is not here or is damaged")
        return decode(data, *self.memory_types)

    def save(self, version: int, memory: Any) -> None:
        """Store a version."""
        write_hashed(self._path(version), encode(memory))

    def prune(self, keep: int, base: int) -> None:
        """Drop versions that no kept checkpoint and no later question needs."""
        for path in self.folder.glob("memory-*.safetensors"):
            version = path.stem.removeprefix("memory-")
            if version.isdecimal() and not keep <= int(version) <= base:
                path.unlink(missing_ok=True)

    def cached_answer(self, step: int) -> tuple[str, bytes] | None:
        """Return the question's hash and the reply of a step, if they are there."""
        data = read_hashed(self.folder / f"answer-{step:09d}.safetensors")
        if data is None:
            return None
        tree = decode(data)
        return tree["identity"], tree["reply"].tobytes()

    def cache_answer(self, step: int, identity: str, reply: bytes) -> None:
        """Store a reply."""
        tree = {"identity": identity, "reply": np.frombuffer(reply, np.uint8)}
        write_hashed(self.folder / f"answer-{step:09d}.safetensors", encode(tree))
        for old in sorted(self.folder.glob("answer-*.safetensors"))[:-KEPT_ANSWERS]:
            old.unlink(missing_ok=True)
