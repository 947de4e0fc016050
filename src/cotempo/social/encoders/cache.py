"""Vectors of texts kept on disk, by the hash of the text: a slow encoder is asked once for each text."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
FILE = "vectors.sqlite"
WAIT = 60.0
PIECE = 500


class CachedEncoder:
    """An encoder that remembers on disk.

    Processes may share a folder: each vector is written in one transaction. A vector that does not have its
    checksum, or a file that is no database, counts as unknown and is made anew. Only hashes of texts are kept, but
    vectors tell of texts: the folder belongs with the texts.

    Parameters
    ----------
    encoder
        Anything with `name`, `dimension` and `encode`.
    folder
        Where vectors are kept; it is made if need be.

    Examples
    --------
    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> slow = SimpleNamespace(name="length", dimension=1, encode=lambda texts: np.array([[len(t)] for t in texts]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     CachedEncoder(slow, folder).encode(["flood", "fire", "flood"]).ravel().tolist()
    [5.0, 4.0, 5.0]
    """

    def __init__(self, encoder: Any, folder: str | Path):
        self.encoder = encoder
        self.name = str(encoder.name)
        self.dimension = int(encoder.dimension)
        self.path = Path(folder) / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return a vector per text, ``(texts, dimension)``; unknown ones are encoded and kept."""
        keys = [self._key(text) for text in texts]
        known = self._read(sorted(set(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = np.asarray(self.encoder.encode(list(missing.values())), dtype=np.float32)
            fresh = dict(zip(missing, made, strict=True))
            self._write(fresh)
            known |= fresh
        found = [known[key] for key in keys]
        return np.stack(found) if found else np.zeros((0, self.dimension), np.float32)

    def _key(self, text: str) -> bytes:
        about = f"{self.name}\0{self.dimension}\0{text}"
        return hashlib.sha256(about.encode("utf-8", "surrogatepass")).digest()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=WAIT)) as base, base:
            base.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, sum INTEGER, vector BLOB)")
            yield base

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        found: dict[bytes, Vectors] = {}
        try:
            with self._open() as base:
                for start in range(0, len(keys), PIECE):
                    piece = keys[start : start + PIECE]
                    marks = ",".join("?" * len(piece))
                    rows = base.execute(f"SELECT key, sum, vector FROM vectors WHERE key IN ({marks})", piece)
                    found |= {key: np.frombuffer(vector, np.float32) for key, total, vector in rows
                              if zlib.crc32(vector) == total and len(vector) == 4 * self.dimension}  # fmt: skip
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            # Another process may have moved the broken file already.
            with suppress(FileNotFoundError):
                self.path.replace(self.path.with_suffix(".broken"))
        return found

    def _write(self, fresh: dict[bytes, Vectors]) -> None:
        rows = [(key, zlib.crc32(vector.tobytes()), vector.tobytes()) for key, vector in fresh.items()]
        with self._open() as base:
            base.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
