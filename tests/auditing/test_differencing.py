"""Sums of past runs, combined: whom they isolate, table by table, and what a ledger with noise does not tell."""

import pytest

from cotempo.auditing import difference_ledger
from cotempo.errors import RunError
from cotempo.privacy.ledger import Ledger, find_isolated


@pytest.mark.parametrize(
    ("sums", "isolated"),
    [
        ([], []),
        (["abcd"], []),
        (["abcd", "abcd"], []),
        (["abcd", "abc"], [("d",)]),
        (["abcde", "abc"], [("d", "e")]),
        (["abcdef", "abc"], []),
        (["ab", "bc", "ca"], [("a",), ("b",), ("c",)]),  # (ab + ca - bc) / 2 is a
        (["abcdefgh", "abcd", "ghef"], []),
    ],
)
def test_every_combination_of_sums_is_found(sums, isolated):
    assert find_isolated([frozenset(members) for members in sums]) == isolated


def write(path, runs):
    """Write a ledger with a run per entry: a table, the participants of its sum, and its epsilon."""
    ledger = Ledger(path)
    for number, (table, participants, epsilon) in enumerate(runs):
        privacy = {"secure_sum": True, **({"epsilon": epsilon} if epsilon else {})}
        ledger.append("run", f"run-{number}", table=table, privacy=privacy, participants=sorted(participants))
        ledger.append("sum", f"run-{number}", participants=sorted(participants))
        ledger.append("message", f"run-{number}", bytes=10, is_masked=True)
    return path


def test_a_ledger_tells_whom_differences_isolate(tmp_path):
    runs = [("one", "abcd", None), ("one", "abc", None), ("two", "abcd", None), ("two", "abc", 1.0)]
    found = {one.table: one for one in difference_ledger(write(tmp_path / "ledger.jsonl", runs))}
    assert found["one"].isolated == (("d",),)
    assert found["one"].sums == 2
    assert "tell about d" in found["one"].sentence()
    assert found["two"].isolated == ()  # the second sum has noise
    assert "no combination" in found["two"].sentence()


def test_messages_in_the_clear_are_counted(tmp_path):
    path = write(tmp_path / "ledger.jsonl", [("one", "abcd", None)])
    Ledger(path).append("message", "run-0", bytes=10, is_masked=False)
    (found,) = difference_ledger(path)
    assert found.in_the_clear == 1
    assert "1 message left in the clear" in found.sentence()


def test_a_ledger_that_is_not_there_or_was_changed_is_refused(tmp_path):
    with pytest.raises(RunError, match="there is no such file"):
        difference_ledger(tmp_path / "ledger.jsonl")
    path = write(tmp_path / "ledger.jsonl", [("one", "abcd", None)])
    path.write_text(path.read_text().replace('"a"', '"z"'))
    with pytest.raises(RunError, match="was changed"):
        difference_ledger(path)
