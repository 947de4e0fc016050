"""What crosses on Flower: a verb and named bytes in a Flower message.

Bytes travel as Flower arrays, which Flower cuts into chunks, stores by content and sends whole, so the part of a
question that all clients share is uploaded once, and hundreds of megabytes pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from cotempo.errors import MessageError

VERSION = 1


def pack(verb: str, parts: Mapping[str, bytes]) -> RecordDict:
    """Make the content of a Flower message."""
    arrays = {name: Array("uint8", (len(data),), "cotempo", data) for name, data in parts.items()}
    about = ConfigRecord({"verb": verb, "version": VERSION})
    return RecordDict({"about": about, "parts": ArrayRecord(arrays)})


def unpack(message: Message) -> tuple[str, dict[str, bytes]]:
    """Read what `pack` made; anything else is a `MessageError`."""
    try:
        about, parts = message.content["about"], message.content["parts"]
        verb, version = about["verb"], about["version"]
        data = {name: bytes(array.data) for name, array in parts.items() if isinstance(array, Array)}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MessageError(f"a verb and its parts must be there: {type(error).__name__}") from error
    if version != VERSION:
        raise MessageError(f"the version of the exchange must be {VERSION}, it is {version!r}; use the same cotempo")
    return str(verb), data
