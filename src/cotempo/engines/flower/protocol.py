"""What crosses on Flower: a verb and named bytes in a Flower message.

Small parts travel in one record: Flower fetches every object of a message by a request of its own, at each of its
stations. Large ones travel as Flower arrays, which it cuts into chunks, stores by content and sends whole,
so what all clients share is uploaded once, and hundreds of megabytes pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from cotempo.errors import MessageError

VERSION = 2
SMALL = 2**16


def pack(verb: str, parts: Mapping[str, bytes]) -> RecordDict:
    """Make the content of a Flower message."""
    small = {name: data for name, data in parts.items() if len(data) <= SMALL}
    records = RecordDict({"small": ConfigRecord({"verb": verb, "version": VERSION, **small})})
    if large := {name: data for name, data in parts.items() if name not in small}:
        records["large"] = ArrayRecord(
            {name: Array("uint8", (len(data),), "cotempo", data) for name, data in large.items()}
        )
    return records


def unpack(message: Message) -> tuple[str, dict[str, bytes]]:
    """Read what `pack` made; anything else is a `MessageError`."""
    try:
        small = message.content["small"]
        verb, version = small["verb"], small["version"]
        data = {name: part for name, part in small.items() if isinstance(part, bytes)}
        if "large" in message.content:
            data |= {name: array.data for name, array in message.content["large"].items() if isinstance(array, Array)}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MessageError(f"a verb and its parts must be there: {type(error).__name__}") from error
    if version != VERSION:
        raise MessageError(f"the version of the exchange must be {VERSION}, it is {version!r}; use the same cotempo")
    return str(verb), data
