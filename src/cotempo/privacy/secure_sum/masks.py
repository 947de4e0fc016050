"""Masks: ChaCha20 key streams read as whole numbers modulo 2^64, and the keys they are expanded from."""

import hashlib
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from cotempo.errors import MessageError
from cotempo.privacy.secure_sum.shamir import SHARE_BYTES
from cotempo.typing import Array

_PROBE = X25519PrivateKey.from_private_bytes(bytes(32))  # no secret
_NONCE = bytes(16)  # a key is used for one mask only


def join(*parts: str | bytes | int) -> bytes:
    """Return parts as bytes, each with its length in front, so that no two lists give the same bytes."""
    blocks = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(len(block).to_bytes(8, "big") + block for block in blocks)


def derive(secret: bytes, purpose: str, *context: str | bytes | int) -> bytes:
    """Return a key of 32 bytes for one purpose and context, by HKDF-SHA256."""
    info = join("cotempo secure sum 1", purpose, *context)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def digest(*parts: str | bytes | int) -> str:
    """Return the SHA-256 of parts in hexadecimal digits."""
    return hashlib.sha256(join("cotempo secure sum 1", *parts)).hexdigest()


def expand(key: bytes, length: int) -> Array:
    """Return `length` pseudorandom whole numbers modulo 2^64."""
    encryptor = Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor()
    return np.frombuffer(encryptor.update(_zeros(8 * length)), dtype="<u8")


def add_mask(vector: Array, key: bytes, *, subtract: bool = False) -> None:
    """Add a mask to a vector in place, or take it away."""
    if subtract:
        vector -= expand(key, len(vector))
    else:
        vector += expand(key, len(vector))


@lru_cache(maxsize=1)
def _zeros(length: int) -> bytes:
    return bytes(length)


def private_key(secret: int) -> X25519PrivateKey:
    """Return the mask key that a shared secret stands for."""
    return X25519PrivateKey.from_private_bytes(secret.to_bytes(SHARE_BYTES, "little"))


def agree(own: X25519PrivateKey, other: bytes) -> bytes:
    """Return what two owners of keys share; a public key of small order, which would give zero, is refused."""
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise MessageError("a public key must be a point of Curve25519 that keeps the agreement secret") from None


def is_point(key: bytes) -> bool:
    """Return whether a public key keeps agreements secret; one of small order gives zero with any other."""
    try:
        agree(_PROBE, key)
    except MessageError:
        return False
    return True


def pair_mask_key(own: X25519PrivateKey, other: bytes, session: str, names: tuple[str, str]) -> bytes:
    """Return the key of a pair's mask in a session; both ends get the same."""
    return derive(agree(own, other), "pair mask", session, *sorted(names))


def self_mask_key(seed: int, session: str, name: str) -> bytes:
    """Return the key of a client's own mask in a session."""
    return derive(seed.to_bytes(SHARE_BYTES, "little"), "self mask", session, name)


def commitment(seed: int, session: str, name: str) -> bytes:
    """Return what a client publishes of its seed, so that a false share is noticed when the seed is put together."""
    return derive(seed.to_bytes(SHARE_BYTES, "little"), "commitment", session, name)
