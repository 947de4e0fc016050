"""`remove_masks`: from masked messages and revealed shares to the sum, at the server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from cotempo.errors import MessageError
from cotempo.privacy.secure_sum.masks import (
    add_mask,
    commitment,
    pair_mask_key,
    private_key,
    self_mask_key,
)
from cotempo.privacy.secure_sum.neighbours import Neighbours
from cotempo.privacy.secure_sum.shamir import PRIME, combine
from cotempo.typing import Array

Opening = tuple[bytes, bytes]
"""What a client published when it shared: its public mask key, and its commitment to its seed."""


def remove_masks(
    total: Array,
    session: str,
    neighbours: Neighbours,
    openings: Mapping[str, Opening],
    survivors: Sequence[str],
    revealed: Mapping[str, Mapping[str, bytes]],
) -> Array:
    """Return the sum of the survivors' vectors.

    Parameters
    ----------
    total
        The sum of their masked vectors.
    neighbours, openings
        Who masked with whom; what each client that shared published.
    revealed
        By owner, the shares that holders revealed: of the seed of a survivor, of the mask key of any other.

    Raises
    ------
    MessageError
        Too few shares of an owner came, or too many of them are false.
    """
    total = total.copy()
    present = {*survivors}
    for owner, opening in openings.items():
        mask_key, committed = opening
        others = [name for name in neighbours.others(owner) if name in present]
        if owner in present:

            def is_seed(secret: int, owner: str = owner, committed: bytes = committed) -> bool:
                return commitment(secret, session, owner) == committed

            seed = _put_together(owner, neighbours, revealed.get(owner, {}), is_seed)
            add_mask(total, self_mask_key(seed, session, owner), subtract=True)
        elif others:

            def is_key(secret: int, mask_key: bytes = mask_key) -> bool:
                return private_key(secret).public_key().public_bytes_raw() == mask_key

            key = private_key(_put_together(owner, neighbours, revealed.get(owner, {}), is_key))
            for name in others:
                pair = pair_mask_key(key, openings[name][0], session, (owner, name))
                add_mask(total, pair, subtract=name < owner)
    return total


def _put_together(
    owner: str, neighbours: Neighbours, shares: Mapping[str, bytes], is_right: Callable[[int], bool]
) -> int:
    """Return a secret from its shares; if it does not fit what its owner published, leave single holders out."""
    needed = neighbours.needed(owner)
    shares = {holder: share for holder, share in shares.items() if int.from_bytes(share, "big") < PRIME}
    if len(shares) < needed:
        raise MessageError(f"{needed} holders of shares of {owner} must reveal them, {len(shares)} did")
    places = {holder: place for place, holder in enumerate(neighbours.holders(owner), start=1)}
    for chosen in _choices(sorted(shares), needed):
        secret = combine({places[holder]: shares[holder] for holder in chosen})
        if is_right(secret):
            return secret
    raise MessageError(f"the shares of {owner} must fit what it published, they do not")


def _choices(holders: Sequence[str], needed: int) -> Iterator[list[str]]:
    """Yield the first holders, then sets without one of them each, while there are enough."""
    first = list(islice(holders, needed))
    yield first
    for spare in holders[needed:]:
        for left_out in first:
            yield [*(holder for holder in first if holder != left_out), spare]
