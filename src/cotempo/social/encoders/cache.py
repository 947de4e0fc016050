"""`CachedEncoder`: vectors of texts kept on disk by the hash of the text, for slow encoders."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from cotempo.typing import Singles


class CachedEncoder:
    """Encode each text once and keep its vector in a folder.

    Processes may share a folder: a file is renamed into place once complete, and an unreadable one is replaced. Only
    hashes of texts are kept, but vectors reveal texts: protect the folder like the texts.

    Parameters
    ----------
    encoder
        Anything with `name`, `dimension` and `encode`.
    folder
        Where vectors are kept; created if missing.

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
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def encode(self, texts: Sequence[str]) -> Singles:
        """Return a vector per text, ``(texts, dimension)``; unknown ones are encoded and kept."""
        paths = [self._path(text) for text in texts]
        known = {path: vector for path in set(paths) if (vector := self._read(path)) is not None}
        missing = {path: text for path, text in zip(paths, texts, strict=True) if path not in known}
        if missing:
            made = np.asarray(self.encoder.encode(list(missing.values())), dtype=np.float32)
            known |= zip(missing, made, strict=True)
            for path in missing:
                with NamedTemporaryFile(dir=self.folder, delete=False) as file:
                    np.save(file, known[path])
                os.replace(file.name, path)
        return np.stack([known[path] for path in paths]) if paths else np.zeros((0, self.dimension), np.float32)

    def _path(self, text: str) -> Path:
        key = f"{self.name}\0{self.dimension}\0{text}".encode("utf-8", "surrogatepass")
        return self.folder / f"{hashlib.sha256(key).hexdigest()}.npy"

    def _read(self, path: Path) -> Singles | None:
        try:
            vector: Singles = np.load(path)
        except (OSError, ValueError, EOFError):
            return None
        return vector if vector.shape == (self.dimension,) else None
