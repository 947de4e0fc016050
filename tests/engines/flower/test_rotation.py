"""A site's new or revoked key on a running server: the old one is shut out, nothing is restarted."""

from __future__ import annotations

import shutil

import pytest
from consortium import Consortium, wait_until
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.site.enrolment import confirm_with, enrol, pin, rotate
from cotempo.errors import EngineError, ParameterError

pytestmark = pytest.mark.xdist_group("deployment")


def fit(consortium: Consortium) -> ct.Fitted:
    return ct.fit(Walking(rounds=1), engine="flower", server=consortium.server.folder, progress=False)


def test_a_key_is_rotated_while_the_server_runs(consortium: Consortium) -> None:
    server, cedar = consortium.server, consortium.clients["cedar"]
    before, running = server.book.sites["cedar"], server.pid

    def never(entry: object) -> None:
        raise AssertionError("the old key signed the new one, so nobody compares words")

    server.admit(rotate(cedar.kit)[1], never)
    server.sync_sites()
    assert server.book.sites["cedar"].signing != before.signing
    assert server.sites()["cedar"] == "registered"  # the node with the old key is shut out at once
    cedar.stop()
    pin(cedar.kit, server.folder / "book.toml", confirm_with(server.book.fingerprint))
    cedar.start()
    consortium.wait_for("cedar")
    with pytest.raises(EngineError, match="cedar has another; compare fingerprints"):
        fit(consortium)  # the other sites have pinned the old key
    for name in ("ash", "birch"):
        pin(consortium.clients[name].kit, server.folder / "book.toml", confirm_with(server.book.fingerprint))
    fitted = fit(consortium)
    assert fitted.privacy["secure_sum"] is True
    assert not fitted.failures
    assert server.pid == running


def test_a_key_is_revoked_while_the_server_runs(consortium: Consortium) -> None:
    server, cedar = consortium.server, consortium.clients["cedar"]
    revoked, running = server.book.sites["cedar"], server.pid
    server.revoke("cedar")
    server.sync_sites()
    assert "cedar" not in server.sites()
    assert wait_until(lambda: "401 Unauthorized" in cedar.tail(), 60.0), cedar.tail()
    assert "cedar" not in server.sites()  # it tries again, in vain
    with pytest.raises(EngineError, match="cedar is not"):
        server.signing_keys(["ash", "cedar"])  # no contract can name it
    with pytest.raises(ParameterError, match="must not have been revoked"):
        server.admit(revoked, lambda entry: None)
    cedar.stop()
    shutil.rmtree(cedar.kit / "keys")
    compared = []
    server.admit(enrol(cedar.kit)[1], compared.append)
    assert compared  # nothing vouches for the new key
    server.sync_sites()
    for client in consortium.clients.values():
        pin(client.kit, server.folder / "book.toml", confirm_with(server.book.fingerprint))
    cedar.start()
    consortium.wait_for("cedar")
    assert not fit(consortium).failures
    assert server.pid == running
