"""Files are whole or not there, and damage is seen."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotempo.storage.files import read_hashed, write_hashed, write_whole


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_content_is_on_disk_before_the_name_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1])
    write_whole(tmp_path / "file", b"content")
    assert calls == ["fsync", "replace", "fsync"]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.data())
def test_any_damage_is_seen(tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    write_hashed(path, content)
    whole = path.read_bytes()
    assert read_hashed(path) == content
    position = data.draw(st.integers(0, len(whole) - 1))
    flip = data.draw(st.integers(1, 255))
    damaged = data.draw(
        st.sampled_from(
            [whole[:position], whole + b"x", whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :]]
        )
    )
    path.write_bytes(damaged)
    assert read_hashed(path) is None


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert read_hashed(tmp_path / "nothing") is None
    assert read_hashed(tmp_path) is None
