"""Differencing over a site's ledger: do sums of past runs, added and subtracted, tell about one client or two?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cotempo.data.tables import pluralize
from cotempo.errors import RunError
from cotempo.privacy.ledger import Entry, Ledger, covers_difference, find_isolated


class Difference(NamedTuple):
    """What combinations of the sums over one table tell: about whom, and how many sums were revealed."""

    table: str
    sums: int
    isolated: tuple[tuple[str, ...], ...]
    in_the_clear: int

    def sentence(self) -> str:
        """Return what was found, in words."""
        what = f"{pluralize(self.sums, 'sum')} over table {self.table[:8]}"
        clear = f"; {pluralize(self.in_the_clear, 'message')} left in the clear" if self.in_the_clear else ""
        if not self.isolated:
            return f"{what}: no combination tells about one client or two{clear}"
        who = ", ".join(" and ".join(names) for names in self.isolated)
        return f"{what}: combinations tell about {who}{clear}"


def difference_ledger(path: str | Path) -> list[Difference]:
    """Return what the sums in a site's ledger tell, table by table.

    Runs whose noise covers a difference are left out.
    """
    path = Path(path)
    if not path.is_file():
        raise RunError(f"{path} must be the ledger of a site, KIT/home/ledger.jsonl, there is no such file")
    return difference_entries(Ledger(path).verify())


def difference_entries(entries: Sequence[Entry]) -> list[Difference]:
    """Return what sums among the entries of a ledger tell, table by table."""
    tables: dict[str, dict[str, Any]] = {}
    runs = {entry["run"]: entry for entry in entries if entry["kind"] == "run"}
    for entry in entries:
        run = runs.get(entry["run"])
        if run is None or covers_difference(run["privacy"]):
            continue
        found = tables.setdefault(run["table"], {"sums": set(), "clear": 0})
        if entry["kind"] == "sum":
            found["sums"].add(frozenset(entry["participants"]))
        elif entry["kind"] == "message":
            found["clear"] += not entry["is_masked"]
    return [
        Difference(table, len(found["sums"]), tuple(find_isolated(sorted(found["sums"], key=sorted))), found["clear"])
        for table, found in tables.items()
    ]
