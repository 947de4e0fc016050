"""`pack` and `unpack`, a verb and its parts as the content of a Flower message; errors of requests in plain words.

Small parts travel in one record, because Flower fetches every object of a message by its own request, at each of three
hops. Large parts travel as Flower arrays, which are cut into chunks and stored by content: what all clients share is
uploaded once, and hundreds of megabytes pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from cotempo.engines.flower.patches import poll_contents_faster
from cotempo.engines.flower.protocol import Part, Parts, Verb
from cotempo.errors import EngineError, MessageError

VERSION = 3
SMALL = 2**16

poll_contents_faster()


def pack(verb: Verb, parts: Parts) -> RecordDict:
    """Return the content of a Flower message."""
    small = {str(name): data for name, data in parts.items() if len(data) <= SMALL}
    large = {str(name): data for name, data in parts.items() if len(data) > SMALL}
    records = RecordDict({"small": ConfigRecord({"verb": str(verb), "version": VERSION, **small})})
    if large:
        arrays = {name: Array("uint8", (len(data),), "cotempo", data) for name, data in large.items()}
        records["large"] = ArrayRecord(arrays)
    return records


def unpack(message: Message) -> tuple[Verb, Parts]:
    """Read what `pack` made; raise `MessageError` for anything else."""
    try:
        small = message.content["small"]
        version, verb = small["version"], Verb(str(small["verb"]))
        parts = {Part(name): part for name, part in small.items() if isinstance(part, bytes)}
        large = message.content.get("large", ArrayRecord())
        parts |= {Part(name): array.data for name, array in large.items() if isinstance(array, Array)}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MessageError(f"a message must have a verb, a version and parts: {type(error).__name__}") from error
    if version != VERSION:
        raise MessageError(f"the protocol's version must be {VERSION}, got {version!r}; install the same cotempo")
    return verb, parts


@contextmanager
def translate_http_errors(address: str) -> Iterator[None]:
    """Raise `EngineError` in place of any error of a request to the server."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        why = "the operator's secret is not this server's" if code == 403 else error.response.text[:300]
        raise EngineError(f"the server at {address} refuses ({code}): {why}") from error
    except httpx.HTTPError as error:
        raise EngineError(
            f"the server at {address} must be running and reachable, it is not: {error}; see cotempo server status, "
            "and resume the run once it is back"
        ) from error
