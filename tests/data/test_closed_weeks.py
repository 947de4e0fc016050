"""Sites that were closed for a while: several windows of one client, each a sequence."""

import pandas as pd
import pytest

import cotempo as ct
from cotempo.errors import DataError

TIMES = ["2025-03-03", "2025-03-07", "2025-03-18", "2025-03-20"]
CLOSED = pd.DataFrame(
    {
        "client": ["nord", "nord", "mary"],
        "start": ["2025-03-17", "2025-03-03", "2025-03-03"],
        "end": ["2025-03-24", "2025-03-10", "2025-03-24"],
    }
)


def read(windows, **options):
    frames = {name: pd.DataFrame({"time": TIMES}) for name in ("nord", "mary")}
    return ct.read_events(frames, windows=windows, unit="D", **options)


def test_each_of_several_windows_is_a_sequence():
    clients = read(CLOSED)
    nord, mary = clients["nord"], clients["mary"]
    assert nord.names.tolist() == ["0", "1"]
    assert nord.sequence.tolist() == ["0", "0", "1", "1"]
    assert (nord.end - nord.start).tolist() == [7.0, 7.0]
    assert mary.windows == {"0": (mary.start[0], mary.start[0] + 21)}
    assert not any("several sequences" in line for line in ct.describe(clients).warnings)


def test_windows_of_all_clients_may_be_several():
    clients = read(CLOSED[CLOSED["client"] == "nord"].drop(columns="client"))
    assert [table.names.tolist() for table in clients.values()] == [["0", "1"]] * 2


def test_a_client_with_one_window_need_not_name_its_sequence():
    windows = CLOSED.assign(sequence=["late", "early", None])
    frames = {
        "nord": pd.DataFrame({"time": TIMES, "sequence": ["early", "early", "late", "late"]}),
        "mary": pd.DataFrame({"time": TIMES}),
    }
    clients = ct.read_events(frames, windows=windows, unit="D")
    assert clients["nord"].names.tolist() == ["early", "late"]
    assert clients["mary"].names.tolist() == ["0"]


def test_an_event_while_a_site_was_closed_is_refused():
    frames = {"nord": pd.DataFrame({"time": [*TIMES, "2025-03-12"]}), "mary": pd.DataFrame({"time": TIMES})}
    with pytest.raises(DataError, match=r"row 4: must lie in its window .*2025-03-10.*got 2025-03-12"):
        ct.read_events(frames, windows=CLOSED, unit="D")


def test_windows_that_overlap_or_lack_names_are_refused():
    with pytest.raises(DataError, match="one, or several that do not overlap"):
        read(CLOSED.assign(start="2025-03-03"))
    with pytest.raises(DataError, match="must all name their sequence, or none"):
        read(pd.concat([CLOSED, CLOSED[:1].assign(sequence="a", start="2025-03-01", end="2025-03-02")]))
    frame = pd.DataFrame({"time": TIMES, "sequence": list("aabb")})
    with pytest.raises(DataError, match="each of several windows must name its sequence"):
        ct.read_events({"nord": frame}, windows=CLOSED, unit="D")


def test_sequences_at_the_same_time_are_still_warned_of():
    windows = pd.DataFrame({"client": ["a", "a", "b"], "sequence": ["x", "y", None], "start": 0.0, "end": 9.0})
    frames = {"a": pd.DataFrame({"time": [1.0, 2.0], "sequence": ["x", "y"]}), "b": pd.DataFrame({"time": [1.0, 2.0]})}
    assert any("several sequences" in line for line in ct.describe(ct.read_events(frames, windows=windows)).warnings)


def test_a_windows_file_beside_the_table_is_named_in_its_error(tmp_path):
    pd.DataFrame({"time": TIMES}).to_csv(tmp_path / "nord.csv", index=False)
    pd.DataFrame({"start": ["2025-03-04"], "end": ["2025-03-24"]}).to_csv(tmp_path / "windows.csv", index=False)
    with pytest.raises(DataError, match=r"must lie in its window .*\n?.*'?windows\.csv'? beside it") as found:
        ct.read_events(tmp_path / "nord.csv")
    assert "pass others as windows=" in str(found.value)
