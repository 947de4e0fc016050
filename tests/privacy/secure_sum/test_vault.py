"""A client's vault: a crash after any stage, and none of what must hold is forgotten."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from parties import ANSWER, RUN, Parties, drop_at, exact_sum, expect_whole, is_at, names_of, whole_numbers

from cotempo.federation import Message, Question
from cotempo.privacy.secure_sum import client as client_module
from cotempo.privacy.secure_sum.client import SumClient
from cotempo.privacy.secure_sum.identity import local_identities
from cotempo.privacy.secure_sum.reducer import SecureSum, SumAborted
from cotempo.privacy.secure_sum.shield import ECHO, MASKED, SHARES, UNMASK, SecureSumShield
from cotempo.privacy.secure_sum.vault import DiskVault


def on_disk(folder: Path, names: list[str]) -> SecureSumShield:
    """Clients whose every question finds a newly started process."""
    identities, peers = local_identities(names)
    return Forgetful(lambda name, run: SumClient(identities[name], peers, run, vault=DiskVault(folder / name)))


class Forgetful(SecureSumShield):
    def client(self, name: str, run: str) -> SumClient:
        return self.connect(name, run)


def test_clients_that_crash_after_every_stage_give_the_same_sum(tmp_path: Path) -> None:
    messages = whole_numbers(4)
    parties = Parties(messages, shield=on_disk(tmp_path, names_of(4)))
    for step in (1, 2):
        found = parties.sum(expect_whole(), step=step)
        total, weight = exact_sum(messages, parties.names)
        assert (found.sum["x"].tolist(), found.sum.weight) == (total, weight)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    parties = Parties(whole_numbers(3), shield=on_disk(tmp_path, names_of(3)))
    parties.sum(expect_whole())
    folders = [tmp_path / name for name in parties.names]
    files = [path for folder in folders for path in folder.iterdir()]
    assert {path.name for path in files} == {"key", "journal", "session", "withheld-1"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_secrets_are_gone_once_a_session_is_revealed(tmp_path: Path) -> None:
    parties = Parties(whole_numbers(3), shield=on_disk(tmp_path, names_of(3)))
    parties.sum(expect_whole())
    session = parties.client("c0001").session
    assert session is not None
    assert (session.stage, session.seed, session.mask_secret, session.private) == ("revealed", 0, 0, "")


@pytest.mark.parametrize("stage", [SHARES, ANSWER, MASKED, ECHO, UNMASK])
def test_a_server_killed_in_any_stage_gets_the_same_sum_with_other_masks(
    tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server killed after half of a stage, then resumed: nobody uses a mask twice, and the result is the same."""
    messages = whole_numbers(4)
    used: list[bytes] = []
    plain = client_module.add_mask

    def add_mask(vector: object, key: bytes, *, subtract: bool = False) -> None:
        used.append(key)
        plain(vector, key, subtract=subtract)  # type: ignore[arg-type]

    monkeypatch.setattr(client_module, "add_mask", add_mask)
    parties = Parties(messages, shield=on_disk(tmp_path, names_of(4)))
    parties.know_scales(expect_whole())
    parties.needs_echo = stage == ECHO

    class Killed(BaseException):
        pass

    def die(question: Question) -> bool:
        if is_at(question, stage) and question.client == "c0002":
            raise Killed
        return False

    with pytest.raises(Killed):
        parties.sum(expect_whole(), drops=die)
    parties.reducer = SecureSum()
    parties.know_scales(expect_whole())
    found = parties.sum(expect_whole())
    assert found.sum["x"].tolist() == exact_sum(messages, parties.names)[0]
    # In one session both ends of a pair use the same mask, with opposite signs; a third use would be one too many.
    assert max(used.count(key) for key in used) <= 2
    masked = [bytes(message["masked"]) for question, message in parties.seen if question.phase == MASKED]
    assert len(set(masked)) == len(masked)


def test_a_step_that_was_revealed_is_repeated_among_the_same_clients_only(tmp_path: Path) -> None:
    """Else the difference of two sums would be one client's addend."""
    parties = Parties(whole_numbers(5), shield=on_disk(tmp_path, names_of(5)))
    parties.know_scales(expect_whole())
    first = parties.sum(expect_whole())
    with pytest.raises(SumAborted, match="signed the survivors"):
        parties.sum(expect_whole(), drops=drop_at(MASKED, ["c0003"]))
    assert parties.sum(expect_whole()).sum == first.sum
    # Another step is another matter.
    assert len(parties.sum(expect_whole(), step=2, drops=drop_at(MASKED, ["c0003"])).names) == 4


def test_a_full_disk_reveals_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parties = Parties(whole_numbers(4), shield=on_disk(tmp_path, names_of(4)))
    parties.know_scales(expect_whole())
    save = DiskVault.save

    def full(self: DiskVault, name: str, content: bytes) -> None:
        if name == "journal" and b'"1 data"' in content:
            raise OSError("no space left on device")
        save(self, name, content)

    monkeypatch.setattr(DiskVault, "save", full)
    with pytest.raises(SumAborted):
        parties.sum(expect_whole())
    assert not [message for question, message in parties.seen if question.phase == UNMASK]


def test_a_client_that_lost_its_vault_announces_a_new_key(tmp_path: Path) -> None:
    messages = whole_numbers(4)
    parties = Parties(messages)
    parties.sum(expect_whole())
    parties.shield._clients.pop(("c0001", RUN))  # its process ended, and everything with it
    found = parties.sum(expect_whole(), step=2)
    assert found.names == ("c0000", "c0002", "c0003")
    found = parties.sum(expect_whole(), step=3)
    assert found.sum["x"].tolist() == exact_sum(messages, parties.names)[0]


def test_withheld_answers_are_kept_for_as_long_as_a_resumed_server_may_ask(tmp_path: Path) -> None:
    identities, peers = local_identities(names_of(3))
    client = SumClient(identities["c0000"], peers, RUN, vault=DiskVault(tmp_path))
    for step in range(1, 8):
        client.withhold(step, "answer", Message({"x": 1.0}))
    assert sorted(path.name for path in tmp_path.glob("withheld-*")) == ["withheld-5", "withheld-6", "withheld-7"]
