"""`Neighbours`: who masks with whom and holds whose shares."""

import hashlib
from collections.abc import Sequence

from cotempo.privacy.secure_sum.masks import join
from cotempo.privacy.secure_sum.shamir import threshold

ALL_UP_TO = 200
DEGREE = 100


class Neighbours:
    """A regular graph on the clients: complete up to 200 clients, about 100 neighbours each above.

    Clients stand in a ring in an order drawn from a public seed, and each is joined to the nearest on both sides
    (Bell et al., section 3: a Harary graph over a random order). The seed is the hash of all signed keys, so that a
    server cannot choose who surrounds whom. A client's holders are its neighbours and itself.

    Examples
    --------
    >>> Neighbours(["a", "b", "c", "d"], b"seed").holders("b")
    ('a', 'b', 'c', 'd')
    """

    def __init__(self, names: Sequence[str], seed: bytes):
        self.names = tuple(names)
        self.is_complete = len(self.names) <= ALL_UP_TO
        self._holders: dict[str, tuple[str, ...]] = {}
        self._ring: list[str] = []
        self._place: dict[str, int] = {}
        if not self.is_complete:
            self._ring = sorted(self.names, key=lambda name: hashlib.sha256(join("ring", seed, name)).digest())
            self._place = {name: index for index, name in enumerate(self._ring)}

    def holders(self, name: str) -> tuple[str, ...]:
        """Return who holds a client's shares, in name order; the place in it, from 1, is the share's x."""
        if self.is_complete:
            return self.names
        if name not in self._holders:
            middle, count = self._place[name], len(self._ring)
            near = {self._ring[(middle + offset) % count] for offset in range(-DEGREE // 2, DEGREE // 2 + 1)}
            self._holders[name] = tuple(sorted(near))
        return self._holders[name]

    def others(self, name: str) -> list[str]:
        """Return a client's neighbours, in name order."""
        return [other for other in self.holders(name) if other != name]

    def needed(self, name: str) -> int:
        """Return how many holders give a client's secrets."""
        return threshold(len(self.holders(name)))
