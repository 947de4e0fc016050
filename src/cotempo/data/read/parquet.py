"""Read Parquet, with its size checked before anything is expanded."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet

from cotempo.data.problems import quote
from cotempo.data.read.csv import too_large
from cotempo.data.read.sheet import decoded, is_text
from cotempo.errors import DataError

SMALLEST_CELL = 8
# Names that are not UTF-8 come as a ValueError of Python itself.
DAMAGE = (OSError, ValueError, pa.ArrowException)


def parquet_names(path: Path) -> list[str]:
    """Return the names of the columns."""
    try:
        return list(parquet.read_schema(path).names)
    except DAMAGE as error:
        raise _damaged(path, error) from error


def read_parquet(path: Path, limit: int) -> pa.Table:
    """Return a Parquet file as a table."""
    try:
        with parquet.ParquetFile(path) as plain:
            if _claimed_bytes(plain.metadata) > limit:
                raise too_large(path, limit)
            texts = [field.name for field in plain.schema_arrow if is_text(field.type)]
        # Text stays in its dictionaries until its length is known: one long text, repeated, takes no room in the file.
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            table = file.read()
        table.validate(full=True)
        if sum(_expanded_bytes(column) for column in table.columns) > limit:
            raise too_large(path, limit)
        return pa.table([decoded(column) for column in table.columns], names=table.column_names)
    except DataError:
        raise
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _claimed_bytes(metadata: parquet.FileMetaData) -> int:
    """Return the bytes a file says it needs: as stored, and as plain cells where run lengths hide their number."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    # Columns are counted, not opened: Arrow ends the whole process when it opens a column whose metadata is damaged.
    cells = metadata.num_rows * metadata.num_columns
    return int(max(sum(group.total_byte_size for group in groups), SMALLEST_CELL * cells))


def _expanded_bytes(column: pa.ChunkedArray) -> int:
    if not (pa.types.is_dictionary(column.type) and is_text(column.type.value_type)):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        lengths = compute.cast(compute.binary_length(chunk.dictionary), pa.int64())
        total += compute.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def _damaged(path: Path, error: Exception) -> DataError:
    reason = f"it is damaged or cut short: {str(error)[:200]}"
    return DataError(f"{quote(path.name)} must be a complete Parquet file, but {reason}")
