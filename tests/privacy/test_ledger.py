"""The ledger: nothing can be changed in it, and it stops differencing and overspending."""

from __future__ import annotations

import errno
import itertools
import random
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotempo.errors import RunError
from cotempo.privacy.contract import Contract
from cotempo.privacy.ledger import Ledger, LedgerChanged, isolated, require_no_difference
from cotempo.privacy.policy import Refused


def contract(participants: str, run: int = 0, **privacy: Any) -> Contract:
    keys = dict.fromkeys(participants, "ab" * 32)
    return Contract(
        run=f"{run:032x}", seed=0, method="OneRound", parameters={}, participants=keys, coordinator="cd" * 32,
        privacy={"secure_sum": True, **privacy}, version="1",
    )  # fmt: skip


def run_on(ledger: Ledger, agreed: Contract, table: str = "table", survivors: str = "") -> bool:
    """Take part in a run as a site does; return whether it was refused."""
    try:
        history = ledger.history(agreed, table)
        if not agreed.privacy.get("epsilon"):
            require_no_difference(history, agreed.participants)
            require_no_difference(history, survivors or agreed.participants)
    except Refused:
        return True
    ledger.begin(agreed, "series", table)
    ledger.append("sum", agreed.run, participants=sorted(survivors or agreed.participants))
    return False


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def filled(ledger: Ledger) -> Ledger:
    run_on(ledger, contract("abcde"))
    for step in range(4):
        ledger.append("message", "0" * 32, step=step, phase="centre", bytes=100, is_masked=True)
    return Ledger(ledger.path)


def test_it_is_read_again_and_private(ledger: Ledger) -> None:
    again = filled(ledger)
    assert [entry["kind"] for entry in again.verify()] == ["run", "sum", *["message"] * 4]
    assert [entry["number"] for entry in again.entries] == [*range(1, 7)]
    assert again.entries == ledger.entries
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    assert Ledger(ledger.path.with_name("none.jsonl")).verify() == []


def test_messages_are_not_held_in_memory_and_still_end_in_one_chain(ledger: Ledger) -> None:
    writer = filled(ledger)
    for step in range(50):
        writer.append("message", "0" * 32, step=step, phase="centre", bytes=100, is_masked=True)
    run_on(writer, contract("abcde", run=1))
    assert [entry["kind"] for entry in writer.kept] == ["run", "sum", "run", "sum"]
    assert writer.kept == Ledger(ledger.path).kept
    assert [entry["number"] for entry in writer.entries] == [*range(1, 59)]


@pytest.mark.parametrize("change", ["edit", "drop first", "drop middle", "cut off", "swap", "empty", "add two"])
def test_whatever_is_changed_is_found(ledger: Ledger, change: str) -> None:
    again = filled(ledger)
    lines = ledger.path.read_bytes().splitlines()
    changed = {
        "edit": [lines[0].replace(b'"abcde"', b'"ab"').replace(b'"a"', b'"x"'), *lines[1:]],
        "drop first": lines[1:],
        "drop middle": [*lines[:2], *lines[3:]],
        "cut off": lines[:-1],
        "swap": [lines[0], lines[2], lines[1], *lines[3:]],
        "empty": [],
        "add two": [*lines, *lines[-2:]],
    }[change]
    assert changed != lines
    ledger.path.write_bytes(b"".join(line + b"\n" for line in changed))
    with pytest.raises(RunError, match="as it was written"):
        again.verify()


@pytest.mark.parametrize("head", ["", "6", "six lines", "-1 " + "0" * 64, "9" * 5000 + " " + "0" * 64, "\0\udcff"])
def test_a_head_that_is_damaged_is_said(ledger: Ledger, head: str) -> None:
    again = filled(ledger)
    ledger.head.write_bytes(head.encode(errors="surrogateescape"))
    with pytest.raises(LedgerChanged, match=r"ledger\.head must hold the number of lines"):
        again.verify()


def test_what_is_before_a_change_can_still_be_read(ledger: Ledger) -> None:
    whole = filled(ledger).verify()
    assert ledger.read_intact() == (whole, "")
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    for place in (1, 5):
        ledger.path.write_bytes(b"".join([*lines[:place], b"{}\n", *lines[place + 1 :]]))
        assert ledger.read_intact()[0] == whole[:place]
    forged = lines[5].replace(b'"bytes":100', b'"bytes":1')  # only the head tells
    ledger.path.write_bytes(b"".join([*lines[:5], forged]))
    entries, problem = ledger.read_intact()
    assert entries == whole[:5]
    assert "the last one was changed" in problem


@pytest.mark.parametrize("change", ["in place", "another file", "head", "cut off and hidden", "gone"])
def test_what_is_changed_while_it_is_open_is_found_before_the_next_entry(ledger: Ledger, change: str) -> None:
    writer = filled(ledger)
    writer.append("message", "0" * 32, step=9, phase="centre", bytes=100, is_masked=True)
    content, head = ledger.path.read_bytes(), ledger.head.read_bytes()
    match change:
        case "in place":
            ledger.path.write_bytes(content.replace(b'"bytes":100', b'"bytes":999'))
        case "another file":
            other = ledger.path.with_name("other")
            other.write_bytes(content.replace(b'"bytes":100', b'"bytes":1'))
            other.replace(ledger.path)
        case "head":
            ledger.head.write_bytes(head.replace(b"7", b"6", 1))
        case "cut off and hidden":  # a chain of its own, but not what was written here
            ledger.path.unlink()
            ledger.head.unlink()
            run_on(Ledger(ledger.path), contract("vwxyz", run=5))
        case "gone":
            ledger.path.unlink()
            ledger.head.unlink()
    changed = ledger.path.read_bytes() if ledger.path.exists() else None
    for _ in range(2):
        with pytest.raises(LedgerChanged, match=r"as it was written|what was written"):
            writer.append("message", "0" * 32, step=10, phase="centre", bytes=100, is_masked=True)
        with pytest.raises(LedgerChanged):
            writer.require_whole()
    assert (ledger.path.read_bytes() if ledger.path.exists() else None) == changed
    ledger.path.write_bytes(content)
    ledger.head.write_bytes(head)
    writer.append("message", "0" * 32, step=10, phase="centre", bytes=100, is_masked=True)
    assert len(Ledger(ledger.path).verify()) == 8


def test_what_another_process_entered_is_kept(ledger: Ledger) -> None:
    one, other = filled(ledger), Ledger(ledger.path)
    assert len(other.kept) == 2
    for writer in (one, other, one):
        writer.append("message", "0" * 32, step=9, phase="centre", bytes=100, is_masked=True)
    assert [entry["number"] for entry in Ledger(ledger.path).verify()] == [*range(1, 10)]


def test_it_is_read_once_while_nobody_touches_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = filled(ledger)
    writer.require_whole()
    monkeypatch.setattr(Ledger, "verify", None)
    for step in range(3):
        writer.append("message", "0" * 32, step=step, phase="centre", bytes=100, is_masked=True)
        writer.require_whole()


def test_a_kill_between_entry_and_head_is_no_change(ledger: Ledger) -> None:
    head = filled(ledger).head.read_bytes()
    ledger.append("message", "0" * 32, step=9, phase="centre", bytes=1, is_masked=True)
    ledger.head.write_bytes(head)
    again = Ledger(ledger.path)
    again.append("message", "0" * 32, step=10, phase="centre", bytes=1, is_masked=True)
    assert len(Ledger(ledger.path).verify()) == 8


def test_a_line_cut_short_is_no_change(ledger: Ledger) -> None:
    filled(ledger)
    with ledger.path.open("ab") as file:
        file.write(b'{"before":"abc')
    again = Ledger(ledger.path)
    assert len(again.verify()) == 6
    again.append("message", "0" * 32, step=9, phase="centre", bytes=1, is_masked=True)
    assert [entry["number"] for entry in Ledger(ledger.path).verify()] == [*range(1, 8)]


def test_a_full_disk_does_not_break_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(ledger)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for place in ("write_whole", "os.fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(f"cotempo.privacy.ledger.{place}", full)
            for step in range(3):
                with pytest.raises(OSError, match="No space"):
                    ledger.append("message", "0" * 32, step=step, phase="centre", bytes=1, is_masked=True)
                ledger.verify()
    ledger.append("message", "0" * 32, step=9, phase="centre", bytes=1, is_masked=True)
    assert ledger.entries == Ledger(ledger.path).verify()
    assert ledger.entries[-1]["step"] == 9


def test_it_is_read_while_another_process_writes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, read_head = Ledger(filled(ledger).path), Ledger._read_head
    heads = iter(range(4))

    def write_in_between(self: Ledger) -> str:
        head = read_head(self)
        if next(heads, None) == 0:
            for step in range(3):
                ledger.append("message", "0" * 32, step=step, phase="centre", bytes=1, is_masked=True)
        return head

    monkeypatch.setattr(Ledger, "_read_head", write_in_between)
    assert len(reader.verify()) == 9


NAMES = "abcdefghijkl"


def test_fifty_differencing_attacks_do_not_succeed(tmp_path: Path) -> None:
    """Two runs whose participants differ by one or two clients, with the ledgers of all that are in both."""
    succeeded = 0
    for trial in range(50):
        draw = random.Random(trial)
        first = set(draw.sample(NAMES, draw.randint(4, len(NAMES))))
        second = first ^ set(draw.sample(NAMES, draw.randint(1, 2)))
        assert few_in_span([frozenset(first), frozenset(second)])  # without a ledger it would
        ledgers = {name: Ledger(tmp_path / f"{trial}-{name}.jsonl") for name in NAMES}
        for name in first:
            assert not run_on(ledgers[name], contract("".join(sorted(first)), 0))
        both = sorted(first & second)
        succeeded += not all(run_on(ledgers[name], contract("".join(sorted(second)), 1)) for name in both)
    assert succeeded == 0


def test_attackers_who_choose_eight_runs_as_they_like_fail_but_for_runs_without_a_common_client() -> None:
    """Sites tell each other, before a run, over whom sums were revealed before; nobody knows of runs of strangers."""
    without, succeeded = 0, 0
    for trial in range(50):
        draw = random.Random(trial)
        accepted: list[frozenset[str]] = []
        tried: list[frozenset[str]] = []
        for _ in range(8):
            if accepted and draw.random() < 0.7:  # close to an earlier set
                chosen = draw.choice(accepted) ^ frozenset(draw.sample(NAMES, draw.randint(1, 4)))
            else:
                chosen = frozenset(draw.sample(NAMES, draw.randint(3, len(NAMES))))
            if len(chosen) < 3:
                continue
            tried.append(chosen)
            try:
                require_no_difference([sorted(old) for old in accepted if old & chosen], chosen)
            except Refused:
                continue
            accepted.append(chosen)
        without += bool(few_in_span(tried))
        succeeded += bool(few_in_span(accepted))
    assert without >= 49
    assert succeeded <= 3


def few_in_span(sets: list[frozenset[str]]) -> tuple[str, ...]:
    """Return one or two clients whose addends a combination of sums holds alone, by brute force."""
    names: list[str] = sorted(frozenset[str]().union(*sets))
    if not sets:
        return ()
    rows = np.array([[name in members for name in names] for members in sets], float).reshape(-1, len(names))
    for group in itertools.chain(
        itertools.combinations(range(len(names)), 1), itertools.combinations(range(len(names)), 2)
    ):
        rest = np.delete(rows, group, axis=1)
        if rows.size and np.linalg.matrix_rank(rows) > (np.linalg.matrix_rank(rest) if rest.size else 0):
            return tuple(names[column] for column in group)
    return ()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.frozensets(st.sampled_from("abcdefg"), min_size=3), min_size=1, max_size=5))
def test_whoever_can_be_isolated_is_found(sets: list[frozenset[str]]) -> None:
    *before, new = sets
    if not few_in_span(before):
        assert bool(isolated(before, new)) == bool(few_in_span(sets))


def test_the_site_says_by_whom_two_runs_differ(ledger: Ledger) -> None:
    assert not run_on(ledger, contract("abcde"))
    for participants, who in (("abcd", "e"), ("abc", "d and e"), ("abcdf", "e and f"), ("abcdefg", "f and g")):
        with pytest.raises(Refused, match=f"differ by {who}; they must differ by nobody or by at least 3"):
            require_no_difference(ledger.history(contract(participants, 1), "table"), participants)
    assert not run_on(ledger, contract("abcde", 2))
    assert not run_on(ledger, contract("abcdefgh", 3))
    assert not run_on(ledger, contract("abcd", 4), table="another table")


def test_a_client_that_is_said_to_have_left_counts_as_left_out(ledger: Ledger) -> None:
    """A server could claim that somebody dropped out, and run again with everybody."""
    assert not run_on(ledger, contract("abcde"), survivors="abcd")
    assert run_on(ledger, contract("abcde", 1))
    assert not run_on(ledger, contract("abcd", 2))
    assert run_on(ledger, contract("abcdxyz", 3), survivors="abcdxy")


def test_a_run_of_which_no_sum_was_revealed_does_not_count(ledger: Ledger) -> None:
    ledger.begin(contract("abcde"), "series", "table")
    assert not run_on(ledger, contract("abcd", 1))


def test_noise_covers_a_difference(ledger: Ledger) -> None:
    assert not run_on(ledger, contract("abcde", epsilon=1.0))
    assert not run_on(ledger, contract("abcd", 1))
    assert not run_on(ledger, contract("abc", 2, epsilon=1.0))
    assert run_on(ledger, contract("abc", 3))


@pytest.mark.parametrize("promise", [{"epsilon": 1e6}, {"epsilon": 0.1, "delta": 0.9}])
def test_a_promise_of_hardly_any_noise_covers_no_difference(ledger: Ledger, promise: dict[str, float]) -> None:
    assert not run_on(ledger, contract("abcde", **promise))
    assert ledger.history(contract("abcd", 1), "table") == [list("abcde")]
    assert ledger.history(contract("abcd", 1, **promise), "table") == [list("abcde")]
    assert ledger.history(contract("abcd", 1, epsilon=8.0, delta=1e-6), "table") == []


def test_the_budget_is_a_hard_stop(ledger: Ledger) -> None:
    for run in range(3):
        ledger.require_budget(contract("abc", run, epsilon=1.0), "series", 3.0)
        ledger.begin(contract("abc", run, epsilon=1.0), "series", f"table {run}")  # new rows do not renew it
    with pytest.raises(Refused, match="budget is 3, of which 3 is spent"):
        ledger.require_budget(contract("abc", 3, epsilon=0.1), "series", 3.0)
    ledger.require_budget(contract("abc", 2, epsilon=1.0), "series", 3.0)  # a run that goes on is paid for
    ledger.require_budget(contract("abc", 4, epsilon=1.0), "events", 3.0)
    with pytest.raises(Refused, match="must say its epsilon"):
        ledger.require_budget(contract("abc", 5), "series", 3.0)
    assert Ledger(ledger.path).spent("series") == 3.0
