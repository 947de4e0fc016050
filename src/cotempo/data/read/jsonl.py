"""Read JSON lines, as interfaces of platforms give them: one object per line, whose keys are the columns."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from cotempo.data.problems import Problems, quote
from cotempo.errors import DataError


def read_jsonl(path: Path) -> pa.Table:
    """Return a file of JSON lines as a table; a key that a line lacks is missing there, blank lines do not count."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(f"{quote(path.name)} must be UTF-8 text; save it again as UTF-8") from error
    problems = Problems()
    rows = [_read_line(line, row, problems) for row, line in enumerate(lines, 1)]
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            columns[name] = pa.chunked_array([pa.array([row.get(name) for row in rows])])
        except (pa.ArrowException, OverflowError) as error:
            problems.add(f"a column must hold one kind of value: {str(error)[:100]}", column=name)
    problems.raise_any()
    if not columns:
        raise DataError(f"{quote(path.name)} must have a JSON object in every line, but it is empty")
    return pa.table(columns)


def _read_line(line: str, row: int, problems: Problems) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    problems.add(f"every line must be one JSON object, got {quote(line.strip())}", row=row)
    return {}
