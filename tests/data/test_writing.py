"""Clients that cannot be one file are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotempo.data import Series, clients_to_frame, write_clients
from cotempo.errors import DataError, ParameterError


def test_what_cannot_be_written(tmp_path: Path) -> None:
    one, other = Series.from_arrays([[1.0]]), Series.from_arrays([[1.0]], features=("y",))
    with pytest.raises(ParameterError, match="must end in"):
        write_clients({"a": one}, tmp_path / "a.txt")
    with pytest.raises(DataError, match="same columns"):
        write_clients({"a": one, "b": other}, tmp_path / "a.csv")
    with pytest.raises(DataError, match="at least one client"):
        clients_to_frame({})
    with pytest.raises(DataError, match="must be writable"):
        write_clients({"a": one}, tmp_path / "none" / "a.csv")
