"""What is packed is unpacked, small or large; anything else is refused."""

from __future__ import annotations

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from cotempo.engines.flower.protocol import Part, Verb
from cotempo.engines.flower.transport import SMALL, VERSION, pack, unpack
from cotempo.errors import MessageError


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 10 * SMALL])
def test_bytes_come_back_as_they_went(size: int) -> None:
    parts = {Part.QUESTION: bytes(range(256)) * (size // 256) + b"x" * (size % 256), Part.COMMON: b"c" * (SMALL + 7)}
    assert unpack(Message(pack(Verb.ASK, parts), 7, "query")) == (Verb.ASK, parts)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"large": ConfigRecord({"verb": "ask", "version": VERSION})}),
        RecordDict({"small": ConfigRecord({"verb": "ask"})}),
        RecordDict({"small": ConfigRecord({"verb": "shell", "version": VERSION})}),
        RecordDict({"small": ConfigRecord({"verb": "ask", "version": VERSION + 1})}),
    ],
)
def test_anything_else_is_refused(content: RecordDict) -> None:
    with pytest.raises(MessageError):
        unpack(Message(content, 7, "query"))
