from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from cotempo.data.public.plain_pickle import load_plain
from cotempo.errors import DataError


class Bomb:
    """Runs a command when it is unpickled by Python's own reader."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_come_back_as_they_were(tmp_path: Path, protocol: int) -> None:
    table = np.arange(6, dtype=">f8").reshape(2, 3)
    given = {
        "times": [np.array([0.5, 1.5]), np.asfortranarray(table)],
        "codes": np.array([1, 2], np.int16),
        "ragged": np.array([np.zeros(1), np.ones(2)], dtype=object),
        "names": np.array(["a", "bc"]),
        "one": np.float32(2.5),
        "plain": (1, -2.5, "text", None, True, b"bytes", {"set"}),
        "ordered": OrderedDict(a=1),
    }
    (tmp_path / "given.pkl").write_bytes(pickle.dumps(given, protocol=protocol))
    found = load_plain(tmp_path / "given.pkl")
    assert found["times"][0].tolist() == [0.5, 1.5]
    assert np.array_equal(found["times"][1], table)
    assert found["codes"].dtype == np.int16
    assert [part.tolist() for part in found["ragged"]] == [[0.0], [1.0, 1.0]]
    assert found["names"].tolist() == ["a", "bc"]
    assert found["one"] == 2.5
    assert found["plain"] == given["plain"]
    assert found["ordered"] == {"a": 1}


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_in_a_pickle_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps({"train": [1, Bomb(tmp_path / "went-off")]}, protocol=protocol))
    with pytest.raises(DataError, match=r"containers, numbers, texts and numpy arrays only, got (posix|nt)\.system"):
        load_plain(tmp_path / "bomb.pkl")
    assert not (tmp_path / "went-off").exists()
    pickle.loads((tmp_path / "bomb.pkl").read_bytes())  # the same file goes off otherwise: the test would notice
    assert (tmp_path / "went-off").exists()


@pytest.mark.parametrize(
    "name", ["builtins.eval", "numpy.load", "numpy.core.multiarray.fromfile", "builtins.getattr", "collections.dict"]
)
def test_only_the_names_that_rebuild_arrays_are_known(tmp_path: Path, name: str) -> None:
    module, _, function = name.rpartition(".")
    (tmp_path / "odd.pkl").write_bytes(f"c{module}\n{function}\n.".encode())
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        load_plain(tmp_path / "odd.pkl")


def test_what_is_no_pickle_or_lies_about_its_arrays_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.pkl").write_text("times,marks\n")
    with pytest.raises(DataError, match="must be a pickle of plain data"):
        load_plain(tmp_path / "text.pkl")
    (tmp_path / "cut.pkl").write_bytes(pickle.dumps([np.arange(9)])[:40])
    with pytest.raises(DataError, match="must be a pickle of plain data"):
        load_plain(tmp_path / "cut.pkl")
    lying = pickle.dumps(np.arange(3, dtype=np.int8), protocol=2).replace(b"K\x03\x85", b"K\x04\x85")
    (tmp_path / "lying.pkl").write_bytes(lying)
    with pytest.raises(DataError, match="shape"):
        load_plain(tmp_path / "lying.pkl")


def test_a_pickle_changes_nothing_of_the_reader(tmp_path: Path) -> None:
    """State set on a class that is looked up stays with that one file."""
    (tmp_path / "set.pkl").write_bytes(b"cnumpy\ndtype\n(N}X\x05\x00\x00\x00orderX\x01\x00\x00\x00>stb.")
    with pytest.raises(DataError):
        load_plain(tmp_path / "set.pkl")
    (tmp_path / "array.pkl").write_bytes(pickle.dumps(np.array([1.0, 2.0])))
    assert load_plain(tmp_path / "array.pkl").tolist() == [1.0, 2.0]
