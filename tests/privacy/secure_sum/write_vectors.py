"""Write `vectors/secure_sum.json`, by which other implementations can be checked: python write_vectors.py."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cotempo.federation import Expect, Message, Spec
from cotempo.privacy.secure_sum.fixed_point import Layout, addends, encode
from cotempo.privacy.secure_sum.masks import (
    commitment,
    derive,
    expand,
    pair_mask_key,
    private_key,
    self_mask_key,
)
from cotempo.privacy.secure_sum.shamir import split


def stream(purpose: str, count: int) -> bytes:
    return hashlib.shake_256(purpose.encode()).digest(count)


def shamir() -> list[dict[str, object]]:
    cases = []
    settings = (1, 2, 3, [1, 3]), (2**254 + 12345, 3, 4, [2, 3, 4]), (0, 4, 5, [5, 1, 4, 2])
    for secret, needed, count, chosen in settings:
        pool = stream(f"shamir {secret}", 40 * (needed - 1))
        parts = iter(range(0, len(pool), 40))

        def random(size: int, pool: bytes = pool, parts: Iterator[int] = parts) -> bytes:
            return pool[(at := next(parts)) : at + size]

        shares = split(secret, needed, count, random)
        cases.append(
            {"secret": hex(secret), "needed": needed, "count": count, "random": pool.hex(), "chosen": chosen,
             "shares": [share.hex() for share in shares]}
        )  # fmt: skip
    return cases


def keys() -> list[dict[str, object]]:
    cases = []
    for number in range(3):
        own, other = (int.from_bytes(stream(f"{which} {number}", 31), "big") for which in ("own", "other"))
        session, names = stream(f"session {number}", 16).hex(), ("ash", "birch")
        public = private_key(other).public_key().public_bytes_raw()
        cases.append(
            {"own": hex(own), "other": hex(other), "session": session, "names": names, "public": public.hex(),
             "pair": pair_mask_key(private_key(own), public, session, names).hex(),
             "self": self_mask_key(own, session, names[0]).hex(),
             "commitment": commitment(own, session, names[0]).hex(),
             "derived": derive(bytes(32), session, *names).hex()}
        )  # fmt: skip
    return cases


def fixed_point() -> list[dict[str, object]]:
    cases = []
    for clients, values, weight, shift, words in (
        (3, [1.5, -2.25, 0.0], 1.0, 40, 1),
        (20, [1e-9, 3.0, -7e5], 12.0, 30, 2),
        (5, [2.0**-60, -1.0, 0.1], 0.5, 55, 2),
    ):
        expect = Expect({"x": Spec((len(values),))}, sums=True)
        layout = Layout.of("range", clients, expect).with_scales({"x": (shift, words), "\0weight": (40, 2)})
        message = Message({"x": np.array(values)}, weight=weight)
        # No flag that a value is large for its scale: those are random.
        vector = encode(addends(message, layout), layout, lambda count: np.zeros(count, "<u8"))
        cases.append({"layout": layout.to_text(), "values": values, "weight": weight, "words": vector.tolist()})
    return cases


if __name__ == "__main__":
    found = {
        "shamir": shamir(),
        "expand": [{"key": key.hex(), "words": expand(key, 6).tolist()} for key in (bytes(32), stream("expand", 32))],
        "keys": keys(),
        "fixed_point": fixed_point(),
    }
    path = Path(__file__).parent.parent / "vectors" / "secure_sum.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
