"""Files that are either whole or not there: written beside, flushed, renamed; a hash tells when one is damaged."""

import hashlib
import os
from pathlib import Path

_MARK = b"cotempo-sha256:"
_HEAD = len(_MARK) + 64 + 1


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically and durably: temporary file, fsync, rename, fsync of the folder.

    Only its owner can read it, and a link that somebody put in its place is replaced, not followed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb", opener=private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, as `opener` of `open`, that only its owner can read; a link is refused."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def write_hashed(path: Path, data: bytes) -> None:
    """`write_whole` with the SHA-256 of the content in front."""
    write_whole(path, _MARK + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def read_hashed(path: Path) -> bytes | None:
    """Return what `write_hashed` wrote, or `None` where the file is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head, data = content[:_HEAD], content[_HEAD:]
    return data if head == _MARK + hashlib.sha256(data).hexdigest().encode() + b"\n" else None
