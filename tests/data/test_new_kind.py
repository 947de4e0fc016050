"""A new kind of table is one file: its class, its reader and its generator, as here, and everything else works."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import NDArray

import cotempo as ct
from cotempo.cli import main
from cotempo.data import GENERATORS, READERS, ClientDescription, Schema, Table, client_names, detect_kind, write_clients
from cotempo.data.read.reader import read_sheets
from cotempo.data.read.sheet import Reading, Sheet
from cotempo.data.read.times import to_times
from cotempo.data.tables import part_bounds
from cotempo.errors import DataError
from cotempo.federation import registry
from cotempo.runs.experiment import Experiment, load_clients
from cotempo.testing import check_method


@dataclass(frozen=True, eq=False)
class Counts(Table):
    """How often something was counted, at rising times."""

    time: NDArray[np.float64]
    count: NDArray[np.float64]
    unit: str = ""
    zone: str = ""
    kind: ClassVar[str] = "counts"
    row_fields: ClassVar[tuple[str, ...]] = ("time", "count")

    def __post_init__(self) -> None:
        self._own(time=np.float64, count=np.float64)

    @classmethod
    def recognizes(cls, columns: Set[str]) -> bool:
        """Return whether these are the columns of counts."""
        return columns == {"time", "count"}

    @property
    def schema(self) -> Schema:
        """Kind, the one column, unit and zone."""
        return Schema(self.kind, ("count",), self.unit, self.zone)

    def columns(self) -> dict[str, Any]:
        """Return times and counts."""
        return {"time": self.time, "count": self.count}

    def split_by_time(self, shares: NDArray[np.float64]) -> tuple[Self, ...]:
        """Cut at fractions of the number of rows."""
        return tuple(self.take(rows) for rows in np.split(np.arange(self.rows), part_bounds(shares, self.rows)[1:-1]))

    def describe(self, client: str = "client") -> ClientDescription:
        """Return size and time."""
        return ClientDescription(client, self.rows, start=float(self.time[0]), end=float(self.time[-1]))

    def with_markers(self, number: int) -> tuple[Self, list[float | str]]:
        """Hide a number with many digits in the first row."""
        secret = 0.412356789123457 + number
        return replace(self, count=np.append(secret, self.count[1:])), [secret]


def read_counts(source: Any, *, unit: str = "s") -> dict[str, Counts]:
    """Read ``client, time, count``."""
    reading = Reading(unit=unit)
    found = read_sheets(source, reading, _read_sheet)
    reading.finish()
    return found


def _read_sheet(sheet: Sheet) -> dict[str, Counts]:
    sheet.require("time", "count")
    times, counts = to_times(sheet, "time"), sheet.numbers("count")
    sheet.problems.raise_any()
    rows = {name: np.flatnonzero(sheet.clients.codes == code) for code, name in enumerate(sheet.clients.names)}
    return {name: Counts(times.values[own], counts[own], times.unit, times.zone) for name, own in rows.items()}


def make_counts(clients: int = 3, rows: int = 20, *, seed: int = 0) -> tuple[dict[str, Counts], float]:
    """Generate Poisson counts; the truth is their rate."""
    rng = np.random.default_rng(seed)
    return {name: Counts(np.arange(float(rows)), rng.poisson(4.0, rows)) for name in client_names(clients)}, 4.0


READERS["counts"] = read_counts
GENERATORS["counts"] = make_counts


class CountMean(ct.FedMean):
    """The mean count of all clients."""

    kind: ClassVar[str] = "counts"

    def prepare(self, table: Table) -> NDArray[np.float64]:
        """Return the counts."""
        assert isinstance(table, Counts)
        return table.count[:, None]


CLIENTS, RATE = make_counts()


def prints(clients: dict[str, Counts]) -> dict[str, str]:
    return {name: table.fingerprint() for name, table in clients.items()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_it_is_written_recognized_and_read(suffix: str, tmp_path: Path) -> None:
    (path,) = write_clients(CLIENTS, tmp_path / f"counts{suffix}")
    assert detect_kind(path) == "counts"
    assert prints(READERS["counts"](path)) == prints(CLIENTS)


def test_its_problems_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,count\n0,many\n1,inf\n")
    (tmp_path / "b.csv").write_text("time\n2024-01-01\n")
    with pytest.raises(DataError) as caught:
        read_counts(tmp_path)
    assert [(problem.client, problem.column) for problem in caught.value.problems] == [
        ("a", "count"), ("a", "count"), ("b", "count"),
    ]  # fmt: skip


def test_it_is_split_and_partitioned() -> None:
    assert [part["client-0"].rows for part in ct.split_by_time(CLIENTS, (0.75, 0.25))] == [15, 5]
    dealt = ct.partition(CLIENTS["client-0"], 4, "dirichlet")
    assert sum(len(table) for table in dealt.values()) == 20


def test_it_is_described() -> None:
    assert ct.describe(CLIENTS).lines()[:2] == ["counts: 3 clients, 60 rows, time as plain numbers", "columns: count"]
    assert "<td>rows</td><td>20</td>" in CLIENTS["client-0"]._repr_html_()


def test_a_method_learns_from_it() -> None:
    fitted = CountMean().fit(CLIENTS)
    assert fitted.mean == pytest.approx([np.mean([table.count for table in CLIENTS.values()])])
    assert fitted.mean == pytest.approx([RATE], abs=1)


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the method for one test."""
    registry.methods()
    for name in ("_METHODS", "_ALIASES"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    registry.register()(CountMean)


@pytest.mark.usefixtures("_registered")
def test_the_method_keeps_the_contract() -> None:
    check_method(CountMean(), CLIENTS)


@pytest.mark.usefixtures("_registered")
def test_experiments_and_commands_know_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Experiment.from_dict({"method": "CountMean", "data": {"generate": "counts", "options": {"rows": 5}}})
    clients, truth = load_clients(made)
    assert (len(clients["client-0"]), truth) == (5, RATE)
    with pytest.raises(SystemExit):
        main(["make-data", "counts", "--out", str(tmp_path / "made")])
    source = str(tmp_path / "made" / "counts.csv")
    with pytest.raises(SystemExit):
        main(["check", source])
    assert "counts: 3 clients, 60 rows" in capsys.readouterr().out
    read, _ = load_clients(Experiment.from_dict({"method": "CountMean", "data": {"source": source, "kind": "counts"}}))
    assert prints(read) == prints(CLIENTS)
