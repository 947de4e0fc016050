"""Files that expand beyond their limit are refused before they fill the memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cotempo.data import read_events, read_posts, read_series
from cotempo.errors import DataError

TOO_LARGE = "must not expand beyond"


def test_gzip_bomb_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"time,x\n" + b"0,0\n" * 5_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=TOO_LARGE):
        read_series(path, limit=5_000_000)


def test_gzip_bomb_without_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    with pytest.raises(DataError):
        read_series(path, limit=5_000_000)


def test_large_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_text("time\n" + "1\n" * 1000)
    with pytest.raises(DataError, match="at most 1,000 bytes"):
        read_events(path, limit=1000)


@pytest.mark.parametrize("mark", ["", '"'])
def test_a_cell_of_forty_megabytes_is_refused_in_words(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"time,x\n0,1\n1," + mark.encode() + b"9" * 40_000_000 + b"\n2,3\n")
    with pytest.raises(DataError, match=r"'long.csv' must have rows of at most 16,777,216 bytes; is there a quotation"):
        read_series(path)
    path.write_bytes(b"time," + b"x" * 40_000_000 + b"\n0,1\n")
    with pytest.raises(DataError, match=r"names of columns of at most 131,072 letters"):
        read_series(path)


def test_parquet_bomb_of_run_lengths(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    parquet.write_table(
        pa.table({"time": pa.array([0.0]).take(pa.array([0] * 2_000_000)), "x": [1.0] * 2_000_000}), path
    )
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=TOO_LARGE):
        read_series(path, limit=5_000_000)


def test_parquet_bomb_of_one_long_text(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1000), pa.array(["x" * 100_000]))
    parquet.write_table(pa.table({"text": text.cast(pa.large_string())}), path, use_dictionary=True)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(DataError, match=TOO_LARGE):
        read_posts(path, limit=5_000_000)


def test_within_the_limit_all_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"time,x\n" + b"".join(b"%d,1\n" % row for row in range(1000))))
    assert read_series(path, limit=1_000_000)["data"].rows == 1000
