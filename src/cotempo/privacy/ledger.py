"""`Ledger`: at a site, over all runs, what left, to whom, among which participants, and the epsilon spent.

Every line of the file holds the SHA-256 of the line before it, and a second file the last one, so that a line that was
changed, removed or cut off is found offline by `Ledger.verify`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cotempo.errors import RunError
from cotempo.privacy.contract import Contract, History
from cotempo.privacy.keys import canonical
from cotempo.privacy.policy import Refused
from cotempo.storage.files import private, write_whole
from cotempo.typing import Array

FIRST = "0" * 64
FEWEST = 3  # how many clients a difference of two sums must be about at least
MOST_EPSILON, MOST_DELTA = 8.0, 1e-5  # of noise that covers a difference
Entry = dict[str, Any]


class LedgerChanged(RunError):  # noqa: N818 - it says what happened
    """A ledger is not as it was written."""


class _End(NamedTuple):
    """Where a ledger ends: so many lines and bytes, and the hash of the last line."""

    lines: int
    last: str
    size: int


class Ledger:
    """The ledger of a site.

    Entries are of four kinds: a ``run`` begins, with its contract; a ``sum`` over named participants is revealed; a
    ``message`` leaves, of so many bytes, masked or not; a run comes to its ``end``, as the coordinator says.
    """

    def __init__(self, path: Path):
        self.path = path
        self.head = path.with_suffix(".head")
        self._end: _End | None = None
        self._left: tuple[tuple[int, ...], ...] = ()  # how both files were when they were last read or written
        self._kept: list[Entry] = []
        self._is_settled = False  # whether the file ends where the head says

    @property
    def entries(self) -> list[Entry]:
        """All entries, read and verified anew."""
        return self.verify()

    @property
    def kept(self) -> list[Entry]:
        """The entries but for messages, of which a year brings too many to hold; verified when first read."""
        self._read_end()
        return self._kept

    def require_whole(self) -> None:
        """Raise `LedgerChanged` if the files are not as they were left; they are read again only if touched."""
        self._read_end()

    def _read_end(self) -> _End:
        """Return where the ledger ends; read it all if that is not known, or if somebody touched its files."""
        if self._end is None or self._stamp() != self._left:
            left, entries = self._stamp(), self.verify()
            if self._end is not None and _last(entries[: self._end.lines]) != self._end.last:
                raise LedgerChanged(f"{self.path} must hold what was written to it, another was put in its place")
            self._kept = [entry for entry in entries if entry["kind"] != "message"]
            size = sum(len(canonical(entry)) + 1 for entry in entries)
            self._end, self._left, self._is_settled = _End(len(entries), _last(entries), size), left, False
        return self._end

    def _stamp(self) -> tuple[tuple[int, ...], ...]:
        """Return what changes with the files: which they are, how long, and when they were written."""
        found = [path.stat() for path in (self.path, self.head) if path.exists()]
        return tuple((one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found)

    def verify(self) -> list[Entry]:
        """Read all entries; raise `LedgerChanged` that names the first line that was tampered with."""
        entries, problem = self.read_intact()
        if problem:
            raise LedgerChanged(problem)
        return entries

    def read_intact(self) -> tuple[list[Entry], str]:
        """Return the entries up to the first that was tampered with, and what is wrong; empty if nothing is."""
        entries: list[Entry] = []
        last = FIRST
        lines, head = self._read()
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                fits = entry["before"] == last and canonical(entry) == line
            except (ValueError, KeyError, TypeError):
                fits = False
            if not fits:
                return entries, f"{self.path} must be as it was written, line {number} or one before it was changed"
            entries.append(entry)
            last = hashlib.sha256(line).hexdigest()
        if not (found := re.fullmatch(r"([0-9]{1,15}) ([0-9a-f]{64})", head)):
            return entries[:-1], f"{self.head} must hold the number of lines and the last one's hash, it was changed"
        # A kill between the two files leaves one line more than the head knows of.
        known = int(found[1])
        if not known <= len(lines) <= known + 1:
            return entries[:known], f"{self.path} must end as it was written: {known} lines were, it has {len(lines)}"
        if _last(entries[:known]) != found[2]:
            said = f"{self.path} must end as it was written: {known} lines were, and the last one was changed"
            return entries[: max(known - 1, 0)], said
        return entries, ""

    def _read(self) -> tuple[list[bytes], str]:
        """Return the lines that were written whole, and the head, both of one moment: another process may write."""
        for _ in range(100):
            head = self._read_head()
            data = self.path.read_bytes() if self.path.exists() else b""
            if self._read_head() == head:
                break
        return data.split(b"\n")[:-1], head

    def _read_head(self) -> str:
        return self.head.read_text(errors="replace") if self.head.exists() else f"0 {FIRST}"

    def append(self, kind: str, run: str, **content: Any) -> None:
        """Add an entry; one that a full disk or a kill cuts short never was."""
        end = self._read_end()
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"number": end.lines + 1, "time": time, "kind": kind, "run": run, **content, "before": end.last}
        line = canonical(entry)
        after = _End(end.lines + 1, hashlib.sha256(line).hexdigest(), end.size + len(line) + 1)
        try:
            if not self._is_settled and self.path.exists():
                with open(self.path, "r+b", opener=private) as file:
                    file.truncate(end.size)
                self._write_head(end)
            self._is_settled = True
            with open(self.path, "ab", opener=private) as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self._write_head(after)
        except BaseException:
            self._end, self._is_settled = None, False
            raise
        self._end, self._left = after, self._stamp()
        if kind != "message":
            self._kept.append(entry)

    def _write_head(self, end: _End) -> None:
        write_whole(self.head, f"{end.lines} {end.last}".encode())

    def find_run(self, run: str) -> Entry | None:
        """Return the entry with which a run began."""
        return next((entry for entry in self.kept if entry["kind"] == "run" and entry["run"] == run), None)

    def begin(self, contract: Contract, kind: str, table: str, approved: str = "site.toml") -> None:
        """Record that a run begins, if it did not yet: its contract, its table, its epsilon, and who approved it."""
        if self.find_run(contract.run) is None:
            self.append(
                "run", contract.run, contract=contract.digest, method=contract.method,
                parameters=contract.parameters, participants=sorted(contract.participants),
                to=contract.coordinator, privacy=contract.privacy, table=table, data=kind,
                approved=approved,
            )  # fmt: skip

    def find_end(self, run: str) -> Entry | None:
        """Return the entry with which a run ended; `None` as long as the coordinator has not said so."""
        return next((entry for entry in self.kept if entry["kind"] == "end" and entry["run"] == run), None)

    def end(self, run: str) -> None:
        """Record that a run has ended, if it is not known yet."""
        if self.find_end(run) is None:
            self.append("end", run)

    def spent(self, kind: str) -> float:
        """Return the sum of epsilons of all runs on a kind of table; by basic composition, whatever rows it had."""
        runs = [entry for entry in self.kept if entry["kind"] == "run" and entry["data"] == kind]
        return float(sum(entry["privacy"].get("epsilon") or 0.0 for entry in runs))

    def require_budget(self, contract: Contract, kind: str, budget: float | None) -> None:
        """Raise `Refused` if a run would spend more than is left."""
        epsilon = contract.privacy.get("epsilon") or 0.0
        if budget is None or self.find_run(contract.run) is not None:
            return
        if not epsilon:
            raise Refused("this site has a budget, so a run must say its epsilon")
        if (spent := self.spent(kind)) + epsilon > budget * (1 + 1e-9):
            raise Refused(
                f"this site's budget is {budget:g}, of which {spent:g} is spent; the run asks for {epsilon:g}"
            )

    def history(self, contract: Contract, table: str) -> list[list[str]]:
        """Return over whom sums were revealed in earlier runs on a table.

        Runs whose noise covers a difference are left out; so is everything where a contract has such noise, or sends in
        the clear.
        """
        if covers_difference(contract.privacy) or not contract.privacy.get("secure_sum"):
            return []
        runs = {
            entry["run"]
            for entry in self.kept
            if entry["kind"] == "run" and entry["table"] == table and not covers_difference(entry["privacy"])
        } - {contract.run}
        sums = {tuple(e["participants"]) for e in self.kept if e["kind"] == "sum" and e["run"] in runs}
        return [list(members) for members in sorted(sums)]


def _last(entries: Sequence[Entry]) -> str:
    """Return the hash of the last entry."""
    return hashlib.sha256(canonical(entries[-1])).hexdigest() if entries else FIRST


def covers_difference(privacy: Mapping[str, Any]) -> bool:
    """Return whether a run has noise enough to cover a difference of sums; a huge epsilon is a word for none.

    Examples
    --------
    >>> covers_difference({"epsilon": 3.0, "delta": 1e-6}), covers_difference({"epsilon": 1e6, "delta": 1e-6})
    (True, False)
    """
    epsilon = privacy.get("epsilon")
    return epsilon is not None and epsilon <= MOST_EPSILON and privacy.get("delta", 0.0) <= MOST_DELTA


def require_no_difference(history: History, participants: Iterable[str]) -> None:
    """Raise `Refused` if a sum over these participants, less sums of earlier runs, would be about few of them."""
    if few := isolated([frozenset(members) for members in history], frozenset(participants)):
        raise Refused(
            f"sums over these participants and over those of earlier runs on the same data differ by "
            f"{' and '.join(few)}; they must differ by nobody or by at least {FEWEST}, or noise must cover it "
            f"([privacy] epsilon, at most {MOST_EPSILON:g}, and delta, at most {MOST_DELTA:g})"
        )


def isolated(before: Sequence[frozenset[str]], new: frozenset[str]) -> tuple[str, ...]:
    """Return a client, or two, about whom a new sum tells once earlier sums are added to it or taken from it.

    Sums over sets of clients are linear in the clients' addends, so that the row space of the matrix of memberships
    holds everything that can be combined of them. Two sets that differ by fewer than three are found as such,
    whatever else was summed.

    Examples
    --------
    >>> isolated([frozenset("abcd")], frozenset("abc"))
    ('d',)
    >>> isolated([frozenset("abcd")], frozenset("abcdefg"))
    ()
    """
    for old in before:
        if 0 < len(old ^ new) < FEWEST:
            return tuple(sorted(old ^ new))
    names = sorted(new.union(*before))
    rows = np.array([[name in members for name in names] for members in (*before, new)], float)
    found = np.argwhere(_told(rows) > _told(rows[:-1]))
    return tuple(names[column] for column in dict.fromkeys(found[0].tolist())) if len(found) else ()


def find_isolated(sums: Sequence[frozenset[str]]) -> list[tuple[str, ...]]:
    """Return every client, and every two, about whom some combination of sums tells; two only where neither is alone.

    Examples
    --------
    >>> find_isolated([frozenset("abcd"), frozenset("abc"), frozenset("abcdef")])
    [('d',), ('e', 'f')]
    """
    names = sorted(frozenset().union(*sums))
    if not names:
        return []
    told = _told(np.array([[name in members for name in names] for members in sums], float))
    alone = told.diagonal() > 0
    first, second = np.nonzero(np.triu((told > 0) & ~alone[:, None] & ~alone, 1))
    pairs = [(names[one], names[other]) for one, other in zip(first, second, strict=True)]
    return [*((name,) for name, is_told in zip(names, alone, strict=True) if is_told), *pairs]


def _told(rows: Array) -> Array:
    """Return, for every pair of columns, or single one on the diagonal, how many combinations of rows hold no other.

    A vector lies in the row space if projecting on it changes nothing: the block of the projection that belongs to the
    pair then has an eigenvalue of 1.
    """
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[sizes > 1e-9]
    projection = basis.T @ basis
    own = np.diag(projection)
    middle = (own[:, None] + own) / 2
    radius = np.hypot((own[:, None] - own) / 2, projection)
    pairs = (middle + radius > 1 - 1e-8).astype(int) + (middle - radius > 1 - 1e-8)
    np.fill_diagonal(pairs, own > 1 - 1e-8)
    return np.asarray(pairs)
