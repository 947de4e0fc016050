"""`html_table`: a small self-contained table, for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 20


def html_table(
    title: str, rows: Sequence[Sequence[object]], header: Sequence[object] = (), notes: Iterable[str] = ()
) -> str:
    """Return a title, a table of at most 20 rows and notes below it as HTML; all text is escaped."""
    lines = [_line(header, "th")] if header else []
    lines += [_line(row, "td") for row in rows[:MOST_ROWS]]
    left = [f"and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    below = "".join(f"<p>{escape(note)}</p>" for note in [*left, *notes])
    return f"<div><b>{escape(title)}</b><table>{''.join(lines)}</table>{below}</div>"


def _line(cells: Sequence[object], tag: str) -> str:
    texts = ["" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells]
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
