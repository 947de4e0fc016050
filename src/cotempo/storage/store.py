"""`Store`: where a client keeps versions of its memory; in RAM or in a folder."""

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.errors import MemoryLost
from cotempo.storage.files import read_hashed, write_hashed
from cotempo.storage.tree import decode, encode

KEPT_ANSWERS = 3
Key = tuple[str, int]  # "memory" or "answer", and the number of a step


@dataclass(eq=False, repr=False)
class Store:
    """Where a client stores its memory, one version per step that changed it, and its last answers.

    A version is the number of the step that produced it. Version 0, the first memory, is never stored: it can be made
    again.
    """

    _trees: MutableMapping[Key, Any] = field(default_factory=dict)

    def load(self, version: int) -> Any:
        """Return the memory of a version; raise `MemoryLost` if it is missing or damaged."""
        try:
            return self._trees["memory", version]
        except KeyError:
            raise MemoryLost(f"memory of step {version} is not here or is damaged") from None

    def save(self, version: int, memory: Any) -> None:
        """Store a version, replacing one of the same number."""
        self._trees["memory", version] = memory

    def prune(self, keep: int, base: int) -> None:
        """Drop versions before `keep` and after `base`: the latter came from answers that were not counted."""
        for version in self._numbers("memory"):
            if not keep <= version <= base:
                del self._trees["memory", version]

    def _numbers(self, kind: str) -> list[int]:
        return sorted(number for known, number in self._trees if known == kind)

    def cached_answer(self, step: int) -> tuple[str, bytes] | None:
        """Return the question's hash and the reply of a step, or `None` if they are no longer stored."""
        try:
            answer = self._trees["answer", step]
        except KeyError:
            return None
        return answer["identity"], answer["reply"].tobytes()

    @property
    def last_answered(self) -> int:
        """The last step that was answered; 0 if none was."""
        return max(self._numbers("answer"), default=0)

    def cache_answer(self, step: int, identity: str, reply: bytes) -> None:
        """Store the reply to a step with the question's hash, and keep the few before it."""
        self._trees["answer", step] = {"identity": identity, "reply": np.frombuffer(reply, np.uint8)}
        for old in self._numbers("answer")[:-KEPT_ANSWERS]:
            del self._trees["answer", old]


class RamStore(Store):
    """Versions in this process."""


class DiskStore(Store):
    """Versions in a folder of the client's, one hashed file each."""

    def __init__(self, folder: Path, memory_types: Sequence[type]):
        super().__init__(_Folder(folder, memory_types))


class _Folder(MutableMapping[Key, Any]):
    """Trees in files; one that is missing or damaged is a KeyError, and files of others are left alone."""

    def __init__(self, folder: Path, types: Sequence[type]):
        self.folder, self.types = folder, tuple(types)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _path(self, key: Key) -> Path:
        return self.folder / f"{key[0]}-{key[1]:09d}.safetensors"

    def __getitem__(self, key: Key) -> Any:
        data = read_hashed(self._path(key))
        if data is None:
            raise KeyError(key)
        return decode(data, *self.types)

    def __setitem__(self, key: Key, tree: Any) -> None:
        write_hashed(self._path(key), encode(tree))

    def __delitem__(self, key: Key) -> None:
        self._path(key).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Key]:
        for path in self.folder.glob("*-*.safetensors"):
            kind, number = path.stem.split("-", 1)
            if number.isdecimal():
                yield kind, int(number)

    def __len__(self) -> int:
        return len(list(iter(self)))
