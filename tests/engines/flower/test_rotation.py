"""A site's new key on a running server: the old one is shut out, the new one answers, nothing is restarted."""

from __future__ import annotations

import pytest
from consortium import Consortium
from walking import Walking

import cotempo as ct
from cotempo.engines.flower.site.enrolment import confirm_with, pin, rotate
from cotempo.errors import EngineError

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
