"""Envelopes: a client's mask key and its shares, sealed for one other client by ChaCha20-Poly1305."""

from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from cotempo.errors import MessageError
from cotempo.privacy.secure_sum.masks import join
from cotempo.privacy.secure_sum.shamir import SHARE_BYTES

NONCE_BYTES, TAG_BYTES, KEY_BYTES = 12, 16, 32
ENVELOPE_BYTES = NONCE_BYTES + KEY_BYTES + 2 * SHARE_BYTES + TAG_BYTES


class Shares(NamedTuple):
    """What a holder has of an owner: its public mask key, and a share of its seed and of its mask key."""

    mask_key: bytes
    seed: bytes
    key: bytes


def seal(key: bytes, shares: Shares, session: str, way: tuple[str, str], nonce: bytes) -> bytes:
    """Return an envelope; `way` names its sender and its recipient, who alone can open it."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, b"".join(shares), join(session, *way))


def unseal(key: bytes, envelope: bytes, session: str, way: tuple[str, str]) -> Shares:
    """Open an envelope; one that was tampered with, or is of another session, sender or recipient, is refused."""
    try:
        content = ChaCha20Poly1305(key).decrypt(envelope[:NONCE_BYTES], envelope[NONCE_BYTES:], join(session, *way))
    except (InvalidTag, ValueError):
        raise MessageError(f"the envelope from {way[0]} must be as it was sealed for this session") from None
    return Shares(content[:KEY_BYTES], content[KEY_BYTES:-SHARE_BYTES], content[-SHARE_BYTES:])
