"""Masks: the same bits everywhere, and none that two purposes share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cotempo.errors import MessageError
from cotempo.privacy.secure_sum.masks import (
    add_mask,
    agree,
    commitment,
    derive,
    digest,
    expand,
    join,
    pair_mask_key,
    private_key,
    self_mask_key,
)

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "secure_sum.json").read_text())


def test_expansion_vectors() -> None:
    for case in VECTORS["expand"]:
        assert expand(bytes.fromhex(case["key"]), len(case["words"])).tolist() == case["words"]
    # The first block of ChaCha20 with zero key, counter and nonce (RFC 8439, appendix A.1, test vector 1).
    first = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert expand(bytes(32), 4).tobytes().hex() == first


def test_key_vectors() -> None:
    for case in VECTORS["keys"]:
        own, other = private_key(int(case["own"], 16)), private_key(int(case["other"], 16))
        public = other.public_key().public_bytes_raw()
        assert public.hex() == case["public"]
        names = tuple(case["names"])
        assert pair_mask_key(own, public, case["session"], names).hex() == case["pair"]
        assert self_mask_key(int(case["own"], 16), case["session"], names[0]).hex() == case["self"]
        assert commitment(int(case["own"], 16), case["session"], names[0]).hex() == case["commitment"]
        assert derive(bytes(32), case["session"], *names).hex() == case["derived"]


def test_both_ends_of_a_pair_have_the_same_mask_and_it_cancels() -> None:
    one, other = private_key(5), private_key(7)
    publics = [key.public_key().public_bytes_raw() for key in (one, other)]
    assert pair_mask_key(one, publics[1], "s", ("a", "b")) == pair_mask_key(other, publics[0], "s", ("b", "a"))
    vector = np.arange(10, dtype="<u8")
    key = pair_mask_key(one, publics[1], "s", ("a", "b"))
    add_mask(vector, key)
    assert not np.array_equal(vector, np.arange(10))
    add_mask(vector, key, subtract=True)
    assert np.array_equal(vector, np.arange(10))


def test_another_session_pair_or_purpose_is_another_mask() -> None:
    key, public = private_key(5), private_key(7).public_key().public_bytes_raw()
    found = {
        pair_mask_key(key, public, "s", ("a", "b")),
        pair_mask_key(key, public, "t", ("a", "b")),
        pair_mask_key(key, public, "s", ("a", "c")),
        self_mask_key(5, "s", "a"),
        self_mask_key(5, "t", "a"),
        commitment(5, "s", "a"),
    }
    assert len(found) == 6


def test_parts_cannot_be_moved_between_fields() -> None:
    assert join("ab", "c") != join("a", "bc")
    assert digest("ab", "c") != digest("a", "bc")


def test_a_key_that_gives_the_agreement_away_is_refused() -> None:
    with pytest.raises(MessageError, match="keeps the agreement secret"):
        agree(private_key(5), bytes(32))
